//! The throughput of collections and databases. Clients can read it, and it is a limit if limits are on.

use dashmap::DashMap;

use crate::value::DocBuf;

/// A throughput in request units per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    Manual(u32),
    /// At most this much. A tenth of it is always available.
    Autoscale(u32),
}

/// Facts about a collection that storage does not keep.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Provisioned {
    /// The collection's UUID: a new collection with the same name has no throughput.
    pub uuid: [u8; 16],
    /// The throughput of this collection alone, if it has one.
    pub offer: Option<Offer>,
    pub shard_key: Option<DocBuf>,
}

/// The throughput of all collections and databases.
#[derive(Default)]
pub struct Offers {
    databases: DashMap<String, Option<Offer>, ahash::RandomState>,
    /// Keyed by `db.collection`.
    collections: DashMap<String, Provisioned, ahash::RandomState>,
}

/// The throughput that is shown for a collection that asked for none.
const DEFAULT: Offer = Offer::Manual(400);

// === impl Offer ===

impl Offer {
    /// Returns the limit per second.
    pub fn units(self) -> u32 {
        match self {
            Self::Manual(units) | Self::Autoscale(units) => units,
        }
    }

    /// Returns what GetCollection shows as provisioned.
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

    /// Returns the throughput of a database, or `None` if no command has created the database.
    pub fn database(&self, database: &str) -> Option<Option<Offer>> {
        self.databases.get(database).map(|offer| *offer)
    }

    pub fn of_database(&self, database: &str) -> Option<Offer> {
        self.database(database).flatten()
    }

    /// Forgets a database and its collections.
    pub fn forget_database(&self, database: &str) {
        self.databases.remove(database);
        self.collections.retain(|name, _| {
            let of_it = name.strip_prefix(database);
            !of_it.is_some_and(|rest| rest.starts_with('.'))
        });
    }

    pub fn set_collection(&self, name: String, provisioned: Provisioned) {
        self.collections.insert(name, provisioned);
    }

    pub fn forget_collection(&self, name: &str) {
        self.collections.remove(name);
    }

    /// Returns the facts about the collection `db.collection` with this UUID.
    pub fn collection(&self, name: &str, uuid: [u8; 16]) -> Provisioned {
        match self.collections.get(name) {
            Some(provisioned) if provisioned.uuid == uuid => provisioned.clone(),
            _ => Provisioned {
                uuid,
                ..Provisioned::default()
            },
        }
    }

    pub fn of_collection(&self, name: &str) -> Option<Offer> {
        self.collections.get(name)?.offer
    }

    /// Returns the throughput to show for a collection, or `None` if it shares that of its database.
    pub fn shown(&self, database: &str, provisioned: &Provisioned) -> Option<Offer> {
        let shared = self.of_database(database).is_some();
        provisioned.offer.or((!shared).then_some(DEFAULT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offers_of_collections() {
        let offers = Offers::default();
        let provisioned = Provisioned {
            uuid: [1; 16],
            offer: Some(Offer::Autoscale(4000)),
            shard_key: None,
        };
        offers.set_collection("a.b".into(), provisioned.clone());
        offers.set_collection("ab.c".into(), provisioned.clone());
        assert_eq!(offers.collection("a.b", [1; 16]), provisioned);
        let plain = offers.collection("a.b", [2; 16]);
        assert_eq!((plain.uuid, plain.offer), ([2; 16], None));
        assert_eq!(offers.shown("a", &plain), Some(Offer::Manual(400)));
        assert_eq!(
            offers.shown("a", &provisioned).map(Offer::provisioned),
            Some(400)
        );
        offers.set_database("a", Some(Offer::Manual(1000)));
        assert_eq!(offers.shown("a", &plain), None);
        offers.forget_database("a");
        assert_eq!(offers.database("a"), None);
        assert_eq!(offers.of_collection("a.b"), None);
        assert!(offers.of_collection("ab.c").is_some());
        offers.forget_collection("ab.c");
        assert_eq!(offers.of_collection("ab.c"), None);
    }
}
