//! Slows down clients that guess passwords.
//!
//! After a few failures in a row the server delays attempts from the same address for the same user, by more and more time,
//! up to a few seconds. An attempt waits before its proof is checked, so a right guess is as slow as a wrong one. Other
//! users and addresses do not wait, and a client that comes back later does not wait either.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::user::UserName;

/// The number of failures after which attempts are delayed.
const FREE: u32 = 3;
const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(3);
/// If many attempts came at once, an attempt that would wait longer than this fails at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// Failures are forgotten after this time without another failure.
const MEMORY: Duration = Duration::from_secs(600);
/// The number of user names that are remembered for each address. All further names share one record.
const NAMES: usize = 100;
/// The number of addresses that are remembered. Beyond it, the address that has not failed for longest is evicted. An address is
/// never delayed for the failures of another.
const ADDRESSES: usize = 1_000;

/// The failed logins of all addresses.
#[derive(Default)]
pub struct Throttle(Mutex<HashMap<IpAddr, Address, ahash::RandomState>>);

/// An attempt to log in: from which address, as which user.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoginAttempt {
    pub address: IpAddr,
    pub user: UserName,
}

/// The failures of one address.
struct Address {
    names: HashMap<UserName, FailureRecord, ahash::RandomState>,
    /// The shared record of the names beyond [`NAMES`].
    others: Option<FailureRecord>,
    last: Instant,
}

struct FailureRecord {
    failures: u32,
    /// When the next attempt may be checked.
    next: Instant,
    last: Instant,
}

// === impl Throttle ===

impl Throttle {
    /// Returns how long an attempt must wait, or `None` if it must fail at once.
    pub fn wait(&self, guess: &LoginAttempt, now: Instant) -> Option<Duration> {
        let mut addresses = self.0.lock();
        let known = addresses.get_mut(&origin(guess.address));
        let Some(record) = known.and_then(|address| address.find(&guess.user)) else {
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

    pub fn failed(&self, guess: &LoginAttempt, now: Instant) {
        let mut addresses = self.0.lock();
        let origin = origin(guess.address);
        if addresses.len() >= ADDRESSES && !addresses.contains_key(&origin) {
            let oldest = addresses.iter().min_by_key(|(_, address)| address.last);
            let oldest = oldest.map(|(origin, _)| *origin);
            oldest.map(|oldest| addresses.remove(&oldest));
        }
        addresses
            .entry(origin)
            .or_insert_with(|| Address::new(now))
            .fail(&guess.user, now);
    }

    pub fn succeeded(&self, guess: &LoginAttempt) {
        if let Some(address) = self.0.lock().get_mut(&origin(guess.address)) {
            address.names.remove(&guess.user);
        }
    }

    /// Removes old failures. Called once a minute.
    pub fn sweep(&self, now: Instant) {
        let recent = |last: Instant| now.saturating_duration_since(last) < MEMORY;
        self.0.lock().retain(|_, address| {
            address.names.retain(|_, record| recent(record.last));
            address.others.take_if(|record| !recent(record.last));
            !address.names.is_empty() || address.others.is_some()
        });
    }
}

/// Returns what counts as one address. For IPv6 this is the /64 network, because one machine can have any number of
/// addresses in it.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
        four => four,
    }
}

// === impl Address ===

impl Address {
    fn new(now: Instant) -> Self {
        Self {
            names: HashMap::default(),
            others: None,
            last: now,
        }
    }

    fn find(&mut self, user: &UserName) -> Option<&mut FailureRecord> {
        self.names.get_mut(user).or(self.others.as_mut())
    }

    fn fail(&mut self, user: &UserName, now: Instant) {
        let fresh = || FailureRecord {
            failures: 0,
            next: now,
            last: now,
        };
        let record = if self.names.contains_key(user) || self.names.len() < NAMES {
            self.names.entry(user.clone()).or_insert_with(fresh)
        } else {
            self.others.get_or_insert_with(fresh)
        };
        record.failures = record.failures.saturating_add(1);
        record.last = now;
        record.next = record.next.max(now + pause(record.failures));
        self.last = now;
    }
}

/// Returns the time between two attempts.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(more) => FIRST.saturating_mul(1 << more.min(10)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::clock::monotonic;

    fn guess(last: u8, user: &str) -> LoginAttempt {
        LoginAttempt {
            address: [10, 0, 0, last].into(),
            user: UserName::new(user, "admin"),
        }
    }

    #[test]
    fn failed_logins_wait_longer_up_to_a_limit() {
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
    fn simultaneous_logins_queue_up_and_the_last_are_rejected() {
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
    fn trying_many_names_slows_down_only_that_address() {
        let throttle = Throttle::default();
        let now = monotonic();
        for n in 0..NAMES + 50 {
            throttle.failed(&guess(1, &n.to_string()), now);
        }
        let wait = throttle.wait(&guess(1, "another"), now);
        assert!(wait.is_none_or(|wait| !wait.is_zero()), "one more name");
        assert_eq!(throttle.wait(&guess(7, "ann"), now), Some(Duration::ZERO));
        throttle.sweep(now + MEMORY);
        assert!(throttle.0.lock().is_empty());
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_record_is_removed_first() {
        let throttle = Throttle::default();
        let now = monotonic();
        let from = |n: u32| LoginAttempt {
            address: Ipv4Addr::from_bits(n).into(),
            user: UserName::new("ann", "admin"),
        };
        for n in 0..ADDRESSES as u32 + 50 {
            for _ in 0..=FREE {
                throttle.failed(&from(n), now + Duration::from_micros(n.into()));
            }
        }
        assert_eq!(throttle.0.lock().len(), ADDRESSES);
        assert_eq!(throttle.wait(&from(0), now), Some(Duration::ZERO));
        assert_ne!(throttle.wait(&from(1_000), now), Some(Duration::ZERO));
    }

    #[test]
    fn an_ipv6_network_counts_as_one_address() {
        for (address, same) in [
            ("2001:db8::1", "2001:db8::ffff:0:0:2"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
        ] {
            let [one, other] = [address, same].map(|text| origin(text.parse().unwrap()));
            assert_eq!(one, other);
        }
        let [one, other] = ["2001:db8::1", "2001:db8:0:1::1"].map(|text| text.parse().unwrap());
        assert_ne!(origin(one), origin(other));
    }
}
