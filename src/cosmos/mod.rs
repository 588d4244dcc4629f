//! What Azure Cosmos DB has and MongoDB has not: request units, throughput, and a service that refuses more.
//!
//! [`Usage`] says what a request costs, [`Offers`] how much was bought for a collection or a database, [`Budgets`] what is left of it in
//! this second, [`strict`] what the service would refuse. [`Cosmos`] holds them for one server. The room knows no command and
//! no collection: it is told names, sizes and the time. Where nothing of it is switched on, a command pays one look at a flag.

mod budget;
mod charge;
mod offers;
pub mod strict;

use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Result;
use crate::value::Millis;

pub use budget::{Budgets, TOO_MANY_REQUESTS, too_many_requests};
pub use charge::{Price, Usage};
pub use offers::{Offer, Offers, Sold};

/// The account of the emulator, and the key that its documentation gives to everybody. They open nothing in Azure.
pub const EMULATOR_ACCOUNT: &str = "localhost";
pub const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// What one server keeps of it.
pub struct Cosmos {
    /// Requests are measured: from the start, or since somebody asked for what one cost.
    metered: AtomicBool,
    /// What the service refuses is refused.
    pub strict: bool,
    /// Requests over what was bought are refused.
    pub budgets: Option<Budgets>,
    pub offers: Offers,
}

/// What the last request of a connection was and cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LastRequest {
    pub command: &'static str,
    pub charge: f64,
    pub millis: f64,
}

// === impl Cosmos ===

impl Cosmos {
    /// `units`: what each collection may spend in a second unless it has bought something else.
    pub fn new(metered: bool, strict: bool, units: Option<u32>) -> Self {
        Self {
            metered: AtomicBool::new(metered || units.is_some()),
            strict,
            budgets: units.map(Budgets::new),
            offers: Offers::default(),
        }
    }

    /// Asked before every command.
    #[inline]
    pub fn is_metered(&self) -> bool {
        self.metered.load(Ordering::Relaxed)
    }

    pub fn start_metering(&self) {
        self.metered.store(true, Ordering::Relaxed);
    }

    /// Itself, if statements have to be looked at one by one.
    #[inline]
    pub fn limits(&self) -> Option<&Self> {
        (self.strict || self.budgets.is_some()).then_some(self)
    }

    /// Whether a request may begin: something is left of this second's budget.
    pub fn admit(&self, database: &str, collection: &str, now: Millis) -> Result<()> {
        self.spend(database, collection, now, 0.0)
    }

    /// Lets one statement of a write pass, and takes what it costs from the budget.
    pub fn afford(
        &self,
        (database, collection): (&str, &str),
        now: Millis,
        price: Price,
        bytes: usize,
    ) -> Result<()> {
        if self.strict {
            strict::check_size(bytes)?;
        }
        self.spend(database, collection, now, price.of(bytes))
    }

    fn spend(&self, database: &str, collection: &str, now: Millis, units: f64) -> Result<()> {
        let Some(budgets) = &self.budgets else {
            return Ok(());
        };
        let (name, limit) = self.limit(budgets, database, collection);
        budgets.spend(name, limit, now, units)
    }

    /// Takes what a request turned out to cost.
    pub fn charge(&self, database: &str, collection: &str, now: Millis, units: f64) {
        if let Some(budgets) = &self.budgets {
            let (name, limit) = self.limit(budgets, database, collection);
            budgets.charge(name, limit, now, units);
        }
    }

    /// Whose budget pays for a collection, and how much that is in a second.
    fn limit(&self, budgets: &Budgets, database: &str, collection: &str) -> (String, u32) {
        let name = format!("{database}.{collection}");
        if let Some(offer) = self.offers.of_collection(&name) {
            return (name, offer.units());
        }
        match self.offers.of_database(database) {
            Some(offer) => (database.to_owned(), offer.units()),
            None => (name, budgets.units),
        }
    }
}
