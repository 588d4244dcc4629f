//! What Azure Cosmos DB has and MongoDB has not: request units, throughput, and a service that refuses more.
//!
//! [`Usage`] says what a request costs, [`Offers`] how much was bought for a collection or a database, [`budget`] what is left of it in
//! this second, [`strict`] what the service would refuse. [`Cosmos`] holds them for one server. The room knows no command and
//! no collection: it is told names, sizes and the time. What a request costs is always
//! counted, in passing; where limits and strictness are off, a command pays one look at a flag for each.

mod budget;
mod charge;
mod offers;
pub mod strict;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::error::Result;
use crate::value::Millis;

use budget::Budgets;

pub use budget::{Allowance, TOO_MANY_REQUESTS, too_many_requests};
pub use charge::{Usage, weigh};
pub use offers::{Offer, Offers, Provisioned};

/// The account of the emulator, and the key that its documentation gives to everybody. They open nothing in Azure.
pub const EMULATOR_ACCOUNT: &str = "localhost";
pub const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// What one server keeps of it.
pub struct Cosmos {
    /// Requests are timed: from the start, or since somebody asked for what one cost.
    timed: AtomicBool,
    /// What the service refuses is refused.
    pub strict: bool,
    /// Requests over what was bought are refused.
    budgets: Option<Budgets>,
    pub offers: Offers,
}

/// What the last request of a connection was and did. Every request leaves one, few are asked for: what it cost is reckoned then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRequest {
    pub command: &'static str,
    /// `None`: it was refused.
    pub usage: Option<Usage>,
    /// Where somebody wants to know.
    pub took: Option<Duration>,
}

// === impl LastRequest ===

impl LastRequest {
    /// In request units.
    pub fn charge(&self) -> f64 {
        self.usage.map_or(0.0, |usage| usage.charge())
    }

    pub fn millis(&self) -> f64 {
        self.took.map_or(0.0, |took| took.as_secs_f64() * 1000.0)
    }
}

// === impl Cosmos ===

impl Cosmos {
    /// `allowances`: what may be spent in a second by whoever has bought nothing. Without any, nothing is limited.
    pub fn new(timed: bool, strict: bool, allowances: Vec<Allowance>) -> Self {
        Self {
            timed: AtomicBool::new(timed),
            strict,
            budgets: (!allowances.is_empty()).then(|| Budgets::new(allowances)),
            offers: Offers::default(),
        }
    }

    #[inline]
    pub fn is_timed(&self) -> bool {
        self.timed.load(Ordering::Relaxed)
    }

    pub fn start_timing(&self) {
        self.timed.store(true, Ordering::Relaxed);
    }

    /// Whether requests have to be let in one by one.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.budgets.is_some()
    }

    /// Whether a request on `(database, collection)` may begin: something is left of this second's budget.
    pub fn admit(&self, place: (&str, &str), now: Millis) -> Result<()> {
        match &self.budgets {
            Some(budgets) => budgets.admit(&self.offers, place, now),
            None => Ok(()),
        }
    }

    /// Takes what a request turned out to cost.
    pub fn charge(&self, place: (&str, &str), now: Millis, units: f64) {
        if let Some(budgets) = &self.budgets {
            budgets.charge(&self.offers, place, now, units);
        }
    }

    /// Forgets what nobody needs any more. Called now and then.
    pub fn sweep(&self, now: Millis) {
        if let Some(budgets) = &self.budgets {
            budgets.sweep(now);
        }
    }
}
