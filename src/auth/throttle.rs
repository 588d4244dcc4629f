//! Who guesses passwords has to wait.
//!
//! After a few failures in a row the attempts of one address at one user are spaced out, further and further, up to a few
//! seconds. An attempt waits before its proof is looked at, so a right guess is as slow as a wrong one; nobody else
//! waits, and somebody who comes back later does not wait either.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::user::UserName;

/// Mistakes that cost nothing.
const FREE: u32 = 3;
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3);
/// Attempts that would have to wait longer than that, because many came at once, fail at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// After that long without a failure it is forgotten.
const MEMORY: Duration = Duration::from_secs(600);
/// So many are remembered; more than these share one memory.
const MOST: usize = 10_000;

#[derive(Default)]
pub struct Throttle(Mutex<HashMap<Option<Guess>, Record, ahash::RandomState>>);

/// Who tries to be whom.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Guess {
    pub address: IpAddr,
    pub user: UserName,
}

struct Record {
    failures: u32,
    /// When the next attempt may be looked at.
    next: Instant,
    last: Instant,
}

// === impl Throttle ===

impl Throttle {
    /// How long an attempt has to wait; `None` if it is not worth waiting.
    pub fn wait(&self, guess: &Guess, now: Instant) -> Option<Duration> {
        let mut records = self.0.lock();
        let Some(record) = find(&mut records, guess) else {
            return Some(Duration::ZERO);
        };
        let turn = record.next.max(now);
        let wait = turn.saturating_duration_since(now);
        if wait > PATIENCE {
            return None;
        }
        record.next = turn + pause(record.failures);
        Some(wait)
    }

    pub fn failed(&self, guess: &Guess, now: Instant) {
        let mut records = self.0.lock();
        let key = Some(guess.clone());
        let key = if records.contains_key(&key) || records.len() < MOST {
            key
        } else {
            None
        };
        let record = records.entry(key).or_insert(Record {
            failures: 0,
            next: now,
            last: now,
        });
        record.failures = record.failures.saturating_add(1);
        record.last = now;
        record.next = record.next.max(now + pause(record.failures));
    }

    pub fn succeeded(&self, guess: &Guess) {
        self.0.lock().remove(&Some(guess.clone()));
    }

    /// Forgets what is long ago. Called once a minute.
    pub fn sweep(&self, now: Instant) {
        self.0
            .lock()
            .retain(|_, record| now.saturating_duration_since(record.last) < MEMORY);
    }
}

fn find<'a>(
    records: &'a mut HashMap<Option<Guess>, Record, ahash::RandomState>,
    guess: &Guess,
) -> Option<&'a mut Record> {
    let key = Some(guess.clone());
    let key = if records.contains_key(&key) {
        key
    } else {
        None
    };
    records.get_mut(&key)
}

/// The time between two attempts.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(more) => FIRST.saturating_mul(1 << more.min(10)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    fn guess(last: u8, user: &str) -> Guess {
        Guess {
            address: [10, 0, 0, last].into(),
            user: UserName::new(user, "admin"),
        }
    }

    #[test]
    fn failures_cost_more_and_more_time_up_to_a_bound() {
        let throttle = Throttle::default();
        let ann = guess(1, "ann");
        let mut now = monotonic();
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = throttle.wait(&ann, now).unwrap();
            waits.push(wait.as_millis());
            now += wait;
            throttle.failed(&ann, now);
        }
        assert_eq!(
            waits,
            [0, 0, 0, 100, 200, 400, 800, 1600, 3000, 3000, 3000, 3000]
        );
        assert_eq!(
            throttle.wait(&guess(2, "ann"), now),
            Some(Duration::ZERO),
            "another address"
        );
        assert_eq!(
            throttle.wait(&guess(1, "bob"), now),
            Some(Duration::ZERO),
            "another user"
        );
        let later = now + Duration::from_secs(5);
        assert_eq!(
            throttle.wait(&ann, later),
            Some(Duration::ZERO),
            "who waited"
        );
        throttle.succeeded(&ann);
        assert_eq!(
            throttle.wait(&ann, now),
            Some(Duration::ZERO),
            "who was right"
        );
    }

    #[test]
    fn many_at_once_queue_up_and_the_last_are_turned_away() {
        let throttle = Throttle::default();
        let ann = guess(1, "ann");
        let now = monotonic();
        for _ in 0..20 {
            throttle.failed(&ann, now);
        }
        let waits: Vec<_> = (0..6).map(|_| throttle.wait(&ann, now)).collect();
        let seconds = |n| Some(Duration::from_secs(n));
        assert_eq!(
            waits,
            [seconds(3), seconds(6), seconds(9), None, None, None]
        );
    }

    #[test]
    fn memory_is_bounded_and_fades() {
        let throttle = Throttle::default();
        let now = monotonic();
        for n in 0..MOST + 50 {
            throttle.failed(&guess(1, &n.to_string()), now);
        }
        assert_eq!(throttle.0.lock().len(), MOST + 1);
        let wait = throttle.wait(&guess(7, "stranger"), now);
        assert!(
            wait.is_none_or(|wait| !wait.is_zero()),
            "the overflow is shared"
        );
        throttle.sweep(now + MEMORY);
        assert!(throttle.0.lock().is_empty());
    }
}
