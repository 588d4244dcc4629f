//! What may be spent in a second, and the refusal of whoever has spent it.

use dashmap::DashMap;

use crate::error::{Code, Error, Result};
use crate::value::Millis;

/// The code that the service refuses with.
pub const TOO_MANY_REQUESTS: i32 = 16500;

/// What was spent, by the name of the collection or database that pays.
///
/// Every second of the server's clock begins with the whole budget. A request passes while anything is left, however much it
/// will cost; what is overdrawn is missing from the seconds that follow.
pub struct Budgets {
    /// What a collection may spend that has bought nothing itself.
    pub units: u32,
    spent: DashMap<String, Spent, ahash::RandomState>,
}

#[derive(Default)]
struct Spent {
    second: i64,
    units: f64,
}

/// The refusal, in the service's words. Clients read the milliseconds out of them.
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
    pub fn new(units: u32) -> Self {
        Self {
            units,
            spent: DashMap::default(),
        }
    }

    /// Spends `units` if anything is left of the budget, else refuses.
    pub fn spend(&self, name: String, limit: u32, now: Millis, units: f64) -> Result<()> {
        let mut spent = self.spent.entry(name).or_default();
        let limit = f64::from(limit.max(1));
        spent.turn(now, limit);
        if spent.units >= limit {
            let seconds = (spent.units / limit).floor() as i64;
            let into = now.0.rem_euclid(1000);
            return Err(too_many_requests(seconds.saturating_mul(1000) - into));
        }
        spent.units += units;
        Ok(())
    }

    /// Spends what was not known beforehand.
    pub fn charge(&self, name: String, limit: u32, now: Millis, units: f64) {
        let mut spent = self.spent.entry(name).or_default();
        spent.turn(now, f64::from(limit.max(1)));
        spent.units += units;
    }
}

// === impl Spent ===

impl Spent {
    /// Begins a new second, where one has begun. A clock that was set back forgives everything.
    fn turn(&mut self, now: Millis, limit: f64) {
        let second = now.0.div_euclid(1000);
        if second < self.second {
            self.units = 0.0;
        } else {
            let passed = second.saturating_sub(self.second) as f64;
            self.units = (self.units - limit * passed).max(0.0);
        }
        self.second = second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_budget_and_debts_are_carried_over() {
        let budgets = Budgets::new(10);
        // (when, what is asked for, how many milliseconds later it would be let in)
        let rows = [
            (1000, 6.0, None),
            (1100, 6.0, None),
            (1200, 1.0, Some(800)),
            (2000, 7.0, None),
            (2100, 25.0, None),
            (2500, 1.0, Some(2500)),
            (4999, 1.0, Some(1)),
            (5000, 1.0, None),
            (90_000, 9.0, None),
            (90_500, 1.0, None),
            (90_500, 1.0, Some(500)),
            (500, 1.0, None),
        ];
        for (now, units, wait) in rows {
            let spent = budgets.spend("d.c".into(), 10, Millis(now), units);
            let expected = wait.map(|wait| format!("RetryAfterMs={wait},"));
            match (spent, expected) {
                (Ok(()), None) => {}
                (Err(error), Some(words)) => {
                    assert!(error.message().contains(&words), "{now}: {error}");
                    assert_eq!(error.code().number(), 16500);
                }
                (got, _) => panic!("{now} {units}: {got:?}"),
            }
        }
        assert!(
            budgets
                .spend("d.other".into(), 10, Millis(90_500), 1.0)
                .is_ok()
        );
    }
}
