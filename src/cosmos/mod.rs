//! What Azure Cosmos DB adds to MongoDB: request units, throughput, strict mode.
//!
//! [`Usage`] computes the cost of a request. [`Offers`] holds the throughput of collections and databases, [`budget`] tells
//! what is left of it in this second, and [`strict`] refuses what the service would refuse. [`Cosmos`] holds them for one
//! server. This module knows no command and no collection: callers pass names, sizes and the time. The work of a request is
//! always counted. If limits and strict mode are off, a command only checks one flag for each.

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

/// The account of the emulator, and its key, which Microsoft has published. They give no access to Azure.
pub const EMULATOR_ACCOUNT: &str = "localhost";
pub const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The state of one server.
pub struct Cosmos {
    /// Requests are timed: from the start, or since a client asked for the cost of a request.
    timed: AtomicBool,
    /// Refuse what the service refuses.
    pub strict: bool,
    /// The limits; `None` if there are none.
    budgets: Option<Budgets>,
    pub offers: Offers,
}

/// The last request of a connection. Every request stores one, and few are asked for, so the cost is computed only then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastRequest {
    pub command: &'static str,
    /// `None` if the request was refused.
    pub usage: Option<Usage>,
    /// Only if requests are timed.
    pub took: Option<Duration>,
}

// === impl LastRequest ===

impl LastRequest {
    /// Returns the cost in request units.
    pub fn charge(&self) -> f64 {
        self.usage.map_or(0.0, |usage| usage.charge())
    }

    pub fn millis(&self) -> f64 {
        self.took.map_or(0.0, |took| took.as_secs_f64() * 1000.0)
    }
}

// === impl Cosmos ===

impl Cosmos {
    /// Creates the state. `allowances` are the limits per second of collections and databases without a throughput of their
    /// own. Without any, nothing is limited.
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

    /// Returns whether requests need to be admitted one by one.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.budgets.is_some()
    }

    /// Returns an error if nothing is left of this second's budget for a request on `(database, collection)`.
    pub fn admit(&self, namespace: (&str, &str), now: Millis) -> Result<()> {
        match &self.budgets {
            Some(budgets) => budgets.admit(&self.offers, namespace, now),
            None => Ok(()),
        }
    }

    /// Subtracts the cost of a request after it has run.
    pub fn charge(&self, namespace: (&str, &str), now: Millis, units: f64) {
        if let Some(budgets) = &self.budgets {
            budgets.charge(&self.offers, namespace, now, units);
        }
    }

    /// Removes entries that are no longer needed. Called now and then.
    pub fn sweep(&self, now: Millis) {
        if let Some(budgets) = &self.budgets {
            budgets.sweep(now);
        }
    }
}
