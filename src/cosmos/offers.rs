//! How much throughput was bought for what. Shown to whoever asks, and a limit where limits are on.

use dashmap::DashMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Manual(u32),
    /// At most so much; a tenth of it is what one always has.
    Autoscale(u32),
}

/// What is known of a collection besides what storage keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sold {
    /// Which collection of that name is meant: one that is made anew has bought nothing.
    pub uuid: [u8; 16],
    /// None where the database's is shared.
    pub offer: Option<Offer>,
    /// The path of the shard key.
    pub shard_key: Option<String>,
}

#[derive(Default)]
pub struct Offers {
    databases: DashMap<String, Option<Offer>, ahash::RandomState>,
    /// By `db.collection`.
    collections: DashMap<String, Sold, ahash::RandomState>,
}

/// What a collection gets that asks for nothing.
const DEFAULT: Offer = Offer::Manual(400);

// === impl Offer ===

impl Offer {
    /// What can be spent in a second.
    pub fn units(self) -> u32 {
        match self {
            Self::Manual(units) | Self::Autoscale(units) => units,
        }
    }

    /// What GetCollection shows as provisioned.
    pub fn provisioned(self) -> u32 {
        match self {
            Self::Manual(units) => units,
            Self::Autoscale(most) => most / 10,
        }
    }
}

// === impl Offers ===

impl Offers {
    pub fn set_database(&self, database: &str, offer: Option<Offer>) {
        self.databases.insert(database.to_owned(), offer);
    }

    /// Whether somebody has made that database, and what it has bought.
    pub fn database(&self, database: &str) -> Option<Option<Offer>> {
        self.databases.get(database).map(|offer| *offer)
    }

    pub fn of_database(&self, database: &str) -> Option<Offer> {
        self.database(database).flatten()
    }

    pub fn forget_database(&self, database: &str) {
        self.databases.remove(database);
    }

    pub fn set_collection(&self, name: String, sold: Sold) {
        self.collections.insert(name, sold);
    }

    /// What is known of the collection `db.collection` with that UUID.
    pub fn collection(&self, database: &str, name: &str, uuid: [u8; 16]) -> Sold {
        match self.collections.get(name) {
            Some(sold) if sold.uuid == uuid => sold.clone(),
            _ => Sold {
                uuid,
                offer: match self.of_database(database) {
                    Some(_) => None,
                    None => Some(DEFAULT),
                },
                shard_key: None,
            },
        }
    }

    pub fn of_collection(&self, name: &str) -> Option<Offer> {
        self.collections.get(name)?.offer
    }
}
