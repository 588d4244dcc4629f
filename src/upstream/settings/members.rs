//! The Sundowns in front of one cluster, as each of them sees the others.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bson::Document;

use super::record::number;

/// A member that has not been heard of for this many leases is taken for dead.
const DEAD_AFTER: u32 = 3;

/// What one Sundown last wrote about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    /// Counts its heartbeats.
    pub beat: i64,
    /// The version of the settings that it uses.
    pub seen: i64,
    /// The version with which no write from before was under way to a name whose gate is closed.
    pub clear: i64,
}

/// What this Sundown knows about the others. No clock of another machine is used: only that a number has changed or not.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: HashMap<String, Known>,
}

#[derive(Debug, Clone, Copy)]
struct Known {
    member: Member,
    /// When the reply arrived that first told of this heartbeat.
    since: Instant,
}

/// Reads the part `members` of the state.
pub(super) fn read(state: &Document) -> HashMap<String, Member> {
    let members = state.get_document("members");
    let read = |(id, member): (&String, &bson::Bson)| {
        let member = member.as_document()?;
        let seen = number(member.get("seen")?)?;
        Some((
            id.clone(),
            Member {
                beat: number(member.get("beat")?)?,
                seen,
                // A Sundown of an earlier version does not tell.
                clear: member.get("clear").and_then(number).unwrap_or(seen),
            },
        ))
    };
    members.map_or_else(
        |_| HashMap::new(),
        |members| members.iter().filter_map(read).collect(),
    )
}

// === impl Others ===

impl Others {
    /// Takes the members from the reply to a heartbeat, which is never an old state. Whoever is missing has left.
    pub fn observe_all(&mut self, own: &str, members: &HashMap<String, Member>, at: Instant) {
        self.known.retain(|id, _| members.contains_key(id));
        self.observe(own, members, at);
    }

    /// Takes the members from a reply that arrived at this moment.
    pub fn observe(&mut self, own: &str, members: &HashMap<String, Member>, at: Instant) {
        for (id, &member) in members.iter().filter(|(id, _)| *id != own) {
            let known = self.known.entry(id.clone());
            let known = known.or_insert(Known { member, since: at });
            if known.member.beat != member.beat {
                known.since = at;
            }
            known.member = member;
        }
    }

    /// Returns whether all others either use this version of the settings or have no valid lease any more.
    ///
    /// A member's lease counts from the sending of a heartbeat. The heartbeat with this number was sent before the reply
    /// arrived that first told of it, so a lease later it is over.
    pub fn agree_on(&self, version: i64, lease: Duration, now: Instant) -> bool {
        let mut others = self.known.values();
        others.all(|known| known.member.seen >= version || now >= known.since + lease)
    }

    /// Returns whether no other has a write from before this version under way to a closed gate, or is not heard of any more.
    pub fn are_clear(&self, version: i64, lease: Duration, now: Instant) -> bool {
        let mut others = self.known.values();
        others.all(|known| known.member.clear >= version || now >= known.since + lease)
    }

    pub fn is_known(&self, id: &str) -> bool {
        self.known.contains_key(id)
    }

    /// Returns the members that have not been heard of for a long time, with their last heartbeat.
    pub fn dead(&self, lease: Duration, now: Instant) -> Vec<(String, i64)> {
        let is_dead = |known: &Known| now >= known.since + lease * DEAD_AFTER;
        let dead = self.known.iter().filter(|(_, known)| is_dead(known));
        dead.map(|(id, known)| (id.clone(), known.member.beat))
            .collect()
    }

    /// Returns whether this Sundown is the first of all by name, and so the one that sweeps.
    pub fn are_all_after(&self, own: &str) -> bool {
        self.known.keys().all(|other| own < other.as_str())
    }

    pub fn count(&self) -> usize {
        self.known.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;

    #[test]
    fn a_member_agrees_by_its_word_or_by_its_silence() {
        let lease = Duration::from_secs(5);
        let start = monotonic();
        let after = |seconds| start + Duration::from_secs(seconds);
        let clear = 3;
        let state = |beat, seen| HashMap::from([("b".to_owned(), Member { beat, seen, clear })]);
        let mut others = Others::default();
        assert!(others.agree_on(9, lease, start), "there are none");
        others.observe("a", &state(1, 3), start);
        assert!(others.agree_on(3, lease, start));
        assert!(!others.agree_on(4, lease, after(4)));
        assert!(others.agree_on(4, lease, after(5)), "its lease is over");
        others.observe("a", &state(1, 3), after(4));
        assert!(others.agree_on(4, lease, after(5)), "it is the same beat");
        others.observe("a", &state(2, 3), after(4));
        assert!(!others.agree_on(4, lease, after(5)), "it has renewed it");
        others.observe("a", &state(3, 4), after(4));
        assert!(others.agree_on(4, lease, after(5)));
        assert!(!others.are_clear(4, lease, after(5)) && others.are_clear(3, lease, after(5)));
        assert!(
            others.are_clear(4, lease, after(9)),
            "nobody can wait for it"
        );
        assert!(others.dead(lease, after(18)).is_empty());
        assert_eq!(others.dead(lease, after(19)), [("b".to_owned(), 3)]);
        others.observe_all("a", &HashMap::new(), after(6));
        assert!(others.agree_on(4, lease, after(6)), "it has left");
    }
}
