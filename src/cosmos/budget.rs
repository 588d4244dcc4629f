//! Request units per second: the limits, what was spent, and the refusal of requests over the limit.

use std::str::FromStr;

use dashmap::DashMap;

use super::Offers;
use crate::error::{Code, Error, Result};
use crate::value::Millis;

/// The error code of the service for requests over the limit.
pub const TOO_MANY_REQUESTS: i32 = 16500;

/// The limits, and what was spent.
///
/// Every second of the server's clock starts with the full budget. A request is admitted while anything is left, whatever
/// it will cost. If it overdraws the budget, the next seconds start with less.
pub struct Budgets {
    allowances: Vec<Allowance>,
    /// Keyed by the name of the collection or database that pays.
    spent: DashMap<String, SpentUnits, ahash::RandomState>,
}

/// A number of request units per second: `400` for each collection, `shop=1000` for a database, `shop.carts=400` for a
/// collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowance {
    /// `None` for each collection that has no allowance of its own.
    pub name: Option<String>,
    pub units: u32,
}

#[derive(Default)]
struct SpentUnits {
    second: i64,
    units: f64,
    /// The limit per second at the last update.
    limit: f64,
}

/// The collection or database that pays for a request, and its limit per second.
struct Payer {
    name: String,
    limit: f64,
}

/// The error for a request over the limit, with the message of the service. Clients parse the milliseconds from it.
pub fn too_many_requests(retry_after_millis: i64) -> Error {
    Error::new(
        Code::Location(TOO_MANY_REQUESTS),
        format!(
            "Error={TOO_MANY_REQUESTS}, RetryAfterMs={retry_after_millis}, Details='Response status code does not indicate success: \
             TooManyRequests (429); Substatus: 3200; ActivityId: 00000000-0000-0000-0000-000000000000; Reason: ({{\r\n  \
             \"Errors\": [\r\n    \"Request rate is large. More Request Units may be needed, so no changes were made. \
             Please retry this request later. Learn more: http://aka.ms/cosmosdb-error-429\"\r\n  ]\r\n}});"
        ),
    )
}

// === impl Budgets ===

impl Budgets {
    pub fn new(allowances: Vec<Allowance>) -> Self {
        Self {
            allowances,
            spent: DashMap::default(),
        }
    }

    /// Refuses a request on `database.collection` if nothing is left.
    pub fn admit(
        &self,
        offers: &Offers,
        (database, collection): (&str, &str),
        now: Millis,
    ) -> Result<()> {
        let Some(payer) = self.payer(offers, database, collection) else {
            return Ok(());
        };
        let Some(mut spent) = self.spent.get_mut(&payer.name) else {
            return Ok(());
        };
        spent.start_second(now, payer.limit);
        if spent.units < payer.limit {
            return Ok(());
        }
        let seconds = (spent.units / payer.limit).floor() as i64;
        let into = now.0.rem_euclid(1000);
        Err(too_many_requests(seconds.saturating_mul(1000) - into))
    }

    /// Subtracts the cost of a request after it has run.
    pub fn charge(
        &self,
        offers: &Offers,
        (database, collection): (&str, &str),
        now: Millis,
        units: f64,
    ) {
        if let Some(payer) = self.payer(offers, database, collection) {
            let mut spent = self.spent.entry(payer.name).or_default();
            spent.start_second(now, payer.limit);
            spent.units += units;
        }
    }

    /// Removes the entries of payers that owe nothing any more.
    pub fn sweep(&self, now: Millis) {
        self.spent.retain(|_, spent| {
            spent.start_second(now, spent.limit);
            spent.units > 0.0
        });
    }

    /// Returns the payer of a collection. A throughput set by a command precedes the allowances of the settings, and the
    /// collection's own precedes the one that its database shares.
    fn payer(&self, offers: &Offers, database: &str, collection: &str) -> Option<Payer> {
        let allowed = |name: Option<&str>| {
            let named = |allowance: &&Allowance| allowance.name.as_deref() == name;
            self.allowances.iter().find(named).map(|it| it.units)
        };
        let full = format!("{database}.{collection}");
        let units = |offer: super::Offer| offer.units();
        let own = offers.of_collection(&full).map(units);
        let shared = || offers.of_database(database).map(units);
        let (name, units) = if let Some(units) = own.or_else(|| allowed(Some(&full))) {
            (full, units)
        } else if let Some(units) = shared().or_else(|| allowed(Some(database))) {
            (database.to_owned(), units)
        } else {
            (full, allowed(None)?)
        };
        Some(Payer {
            name,
            limit: f64::from(units.max(1)),
        })
    }
}

// === impl Allowance ===

impl FromStr for Allowance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, units) = match text.rsplit_once('=') {
            Some((name, units)) => (Some(name), units),
            None => (None, text),
        };
        if name == Some("") {
            return Err("no database or collection is named before '='".into());
        }
        match units.parse::<u32>() {
            Ok(units) if units > 0 => Ok(Self {
                name: name.map(ToOwned::to_owned),
                units,
            }),
            _ => Err(format!("'{units}' is no number of request units above 0")),
        }
    }
}

impl std::fmt::Display for Allowance {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name}={}", self.units),
            None => write!(f, "{}", self.units),
        }
    }
}

// === impl SpentUnits ===

impl SpentUnits {
    /// Starts a new second if the clock has reached one. If the clock was set back, all debts are cancelled.
    fn start_second(&mut self, now: Millis, limit: f64) {
        let second = now.0.div_euclid(1000);
        if second < self.second {
            self.units = 0.0;
        } else {
            let passed = second.saturating_sub(self.second) as f64;
            self.units = (self.units - limit * passed).max(0.0);
        }
        self.second = second;
        self.limit = limit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cosmos::{Offer, Provisioned};

    fn budgets(allowances: &[&str]) -> Budgets {
        Budgets::new(
            allowances
                .iter()
                .map(|text| text.parse().unwrap())
                .collect(),
        )
    }

    #[test]
    fn each_second_has_a_budget_and_debts_are_carried_over() {
        let budgets = budgets(&["10"]);
        let offers = Offers::default();
        // (the time, Ok(the cost of an admitted request) or Err(the milliseconds until a retry))
        let rows = [
            (1000, Ok(6.0)),
            (1100, Ok(6.0)),
            (1200, Err(800)),
            (2000, Ok(7.0)),
            (2100, Ok(25.0)),
            (2500, Err(2500)),
            (4999, Err(1)),
            (5000, Ok(1.0)),
            (90_000, Ok(9.0)),
            (90_500, Ok(1.0)),
            (90_500, Err(500)),
            (500, Ok(1.0)),
        ];
        let carts = ("shop", "carts");
        for (now, expected) in rows {
            let now = Millis(now);
            match (budgets.admit(&offers, carts, now), expected) {
                (Ok(()), Ok(units)) => budgets.charge(&offers, carts, now, units),
                (Err(error), Err(wait)) => {
                    let words = format!("RetryAfterMs={wait},");
                    assert!(error.message().contains(&words), "{now:?}: {error}");
                    assert_eq!(error.code().number(), 16500);
                }
                (got, _) => panic!("{now:?}: {got:?}"),
            }
        }
        budgets.sweep(Millis(999));
        assert_eq!(budgets.spent.len(), 1);
        budgets.sweep(Millis(1000));
        assert!(budgets.spent.is_empty());
    }

    #[test]
    fn requests_are_charged_to_the_collection_or_database() {
        let budgets = budgets(&["5", "shop=10", "shop.own=20", "bought=30"]);
        let offers = Offers::default();
        offers.set_database("sold", Some(Offer::Manual(400)));
        offers.set_database("bought", Some(Offer::Autoscale(4000)));
        let provisioned = Provisioned {
            offer: Some(Offer::Manual(500)),
            ..Provisioned::default()
        };
        offers.set_collection("shop.bought".into(), provisioned);
        for (database, collection, name, limit) in [
            ("a", "b", "a.b", 5.0),
            ("shop", "b", "shop", 10.0),
            ("shop", "own", "shop.own", 20.0),
            ("shop", "bought", "shop.bought", 500.0),
            ("sold", "b", "sold", 400.0),
            ("bought", "b", "bought", 4000.0),
        ] {
            let payer = budgets.payer(&offers, database, collection).unwrap();
            assert_eq!((payer.name.as_str(), payer.limit), (name, limit));
        }
        let named = Budgets::new(vec!["shop=10".parse().unwrap()]);
        assert!(named.payer(&offers, "a", "b").is_none());
    }

    #[test]
    fn allowances_are_parsed() {
        for text in ["400", "shop=1000", "shop.a=b=7"] {
            assert_eq!(text.parse::<Allowance>().unwrap().to_string(), text);
        }
        for text in ["", "0", "-1", "x", "=5", "shop=", "shop=0", "shop=x"] {
            assert!(text.parse::<Allowance>().is_err(), "{text}");
        }
    }
}
