//! Changes the rules of TTL indexes on dates without blocking other commands.
//!
//! A slot stores the earliest end that all these rules give its document, so new rules mean a visit to every document.
//! Doing that under one hold of the lock would block all other commands for as long. Changing the ends a few at a time
//! would show some documents under the old rules and some under the new ones, and a document that had expired under either
//! could come back.
//!
//! So a [`DateRuleMigration`] computes the ends under the next rules in a column of their own, a few segments per hold of
//! the lock. Writers meanwhile maintain both columns. When the rules change, the new column replaces the old one in every
//! segment, under the same hold of the lock. Until then only the old rules hold, afterwards only the new ones. No expired
//! document is left that could come back, because a change that lengthens lives drains the collection under that same hold
//! ([`Collection::drain_then`]).

use std::sync::Arc;
use std::time::Instant;

use crate::storage::index::{Index, IndexNumber, IndexSpec};
use crate::storage::{Collection, Dropped, IndexSelection};
use crate::ttl::{End, date_end};
use crate::value::Doc;
use crate::wait::Wait;

/// The next rules, and how far their ends are computed.
pub(in crate::storage) struct PendingDateRules {
    pub rules: Arc<[IndexSpec]>,
    /// The segments from here up to `until` still need a visit. Segments added later have their column from the start.
    pub from: u64,
    pub until: u64,
}

/// A change of the rules of TTL indexes on dates, as data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DateRuleChange {
    /// Puts new indexes into use.
    Finish(Vec<IndexNumber>),
    /// Drops indexes.
    Drop(IndexSelection),
    /// Sets `expireAfterSeconds` of an index.
    Expire { index: String, seconds: i32 },
}

/// The preparation of a change of the rules. Only one runs at a time per collection; others wait for it. Dropping it gives
/// up the work.
pub struct DateRuleMigration {
    collection: Arc<Collection>,
    change: DateRuleChange,
    /// The rules that this migration prepares, once it has begun.
    rules: Option<Arc<[IndexSpec]>>,
    ready: bool,
    /// Ends when another migration, which was running at the last step, is over.
    turn: Option<Wait>,
}

// === impl DateRuleChange ===

impl DateRuleChange {
    /// Returns the rules after this change, given the present indexes.
    fn after(&self, indexes: &[Index]) -> Vec<IndexSpec> {
        let stays = |index: &&Index| match self {
            Self::Finish(numbers) => index.ready || numbers.contains(&index.number),
            Self::Drop(which) => index.ready && !which.picks(index),
            Self::Expire { .. } => index.ready,
        };
        let spec = |index: &Index| {
            let mut spec = IndexSpec::clone(&index.spec);
            if let Self::Expire { index, seconds } = self
                && spec.name == *index
            {
                spec.expire_after = Some(*seconds);
            }
            spec
        };
        let rules = indexes.iter().filter(stays).map(spec);
        rules.filter(|spec| spec.expire_after.is_some()).collect()
    }
}

// === impl DateRuleMigration ===

impl DateRuleMigration {
    pub fn new(collection: Arc<Collection>, change: DateRuleChange) -> Self {
        Self {
            collection,
            change,
            rules: None,
            ready: false,
            turn: None,
        }
    }

    /// Works until the deadline. Returns `true` when the rules can change at once.
    pub fn step(&mut self, until: Instant) -> Result<bool, Dropped> {
        if self.ready {
            return Ok(true);
        }
        let mut state = self.collection.exclusive();
        if state.is_dropped() {
            return Err(Dropped);
        }
        let contents = state.contents_mut();
        if self.rules.is_none() {
            if contents.has_coming() {
                self.turn = Some(contents.settled());
                return Ok(false);
            }
            let rules = self.change.after(contents.indexes());
            if same(&rules, &contents.date_rules()) {
                self.ready = true;
                return Ok(true);
            }
            self.rules = Some(contents.begin_dates(rules));
        }
        self.ready = contents.compute_date_ends(Some(until));
        Ok(self.ready)
    }

    /// Returns what to wait for before the next step, if another migration is running.
    pub fn turn(&mut self) -> Option<Wait> {
        self.turn.take()
    }
}

impl Drop for DateRuleMigration {
    fn drop(&mut self) {
        let Some(rules) = self.rules.take() else {
            return;
        };
        let mut state = self.collection.exclusive();
        state.contents_mut().discard_pending_dates(&rules);
    }
}

// === impl Index ===

impl Index {
    /// Returns whether the index is complete and documents expire by it.
    pub fn is_date_rule(&self) -> bool {
        self.ready && self.spec.expire_after.is_some()
    }
}

pub(in crate::storage) fn same(some: &[IndexSpec], others: &[IndexSpec]) -> bool {
    let of = |spec: &IndexSpec| {
        let partial = spec.partial.as_ref().map(|partial| partial.filter.clone());
        (spec.key.clone(), spec.expire_after, partial)
    };
    some.len() == others.len()
        && some
            .iter()
            .zip(others)
            .all(|(one, other)| of(one) == of(other))
}

pub(in crate::storage) fn earliest<'s>(
    rules: impl Iterator<Item = &'s IndexSpec>,
    doc: Doc<'_>,
) -> End {
    rules
        .filter_map(|spec| end_by(spec, doc))
        .min()
        .unwrap_or(End::NEVER)
}

fn end_by(spec: &IndexSpec, doc: Doc<'_>) -> Option<End> {
    let [path] = spec.paths.as_slice() else {
        return None;
    };
    let seconds = spec.expire_after?;
    spec.covers(doc).then(|| date_end(path, seconds, doc))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::monotonic;
    use crate::storage::ReadPoint;
    use crate::storage::idmap::with_id_key;
    use crate::storage::{CollectionOptions, Namespace, New, NewTtl, NoDelta};
    use crate::value::{DocBuf, Millis};
    use bson::doc;
    use std::collections::BTreeMap;

    const NOW: Millis = Millis(1_000_000);

    fn spec(name: &str, field: &str, seconds: i32) -> IndexSpec {
        let mut spec = IndexSpec::new(name, DocBuf::from(doc! {field: 1}));
        spec.expire_after = Some(seconds);
        spec
    }

    /// Creates three thousand documents in several segments. `at` lies around now, and some documents have none.
    fn collection() -> Arc<Collection> {
        let made = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
        made.set_up(NOW, |rules| rules.add_index(spec("at_1", "at", 10)));
        made.write(NOW, |w| {
            for n in 0..3_000 {
                w.insert(&document(n, 0)).unwrap();
            }
        })
        .unwrap();
        Arc::new(made)
    }

    fn document(n: i32, moved: i64) -> Vec<u8> {
        let at = NOW.0 - 20_000 + i64::from(n % 40) * 1_000 + moved;
        let mut made = doc! {"_id": n, "pad": "x".repeat(300), "n": n};
        if n % 7 > 0 {
            made.insert("at", bson::DateTime::from_millis(at));
        }
        made.to_vec().unwrap()
    }

    /// Returns the `_id`s of the visible documents.
    fn visible(collection: &Collection, now: Millis) -> Vec<i32> {
        collection.read(ReadPoint::at(now), |view| {
            let found: Vec<i32> = view
                .all()
                .iter()
                .map(|(_, stored)| Doc::new(stored.bytes).get("_id").as_i32().unwrap())
                .collect();
            assert_eq!(view.totals().count, found.len() as u64);
            found
        })
    }

    fn expected(documents: &BTreeMap<i32, Vec<u8>>, seconds: i32, now: Millis) -> Vec<i32> {
        let rule = spec("at_1", "at", seconds);
        let alive = |bytes: &[u8]| !earliest([&rule].into_iter(), Doc::new(bytes)).has_come(now);
        let mut ids: Vec<i32> = documents
            .iter()
            .filter(|(_, bytes)| alive(bytes))
            .map(|(id, _)| *id)
            .collect();
        ids.sort_unstable();
        ids
    }

    fn migration(c: &Arc<Collection>, seconds: i32) -> DateRuleMigration {
        let change = DateRuleChange::Expire {
            index: "at_1".into(),
            seconds,
        };
        DateRuleMigration::new(Arc::clone(c), change)
    }

    #[test]
    fn the_old_rules_hold_until_the_new_ones_do_whatever_is_written_meanwhile() {
        for seconds in [0, 5, 30] {
            let c = collection();
            let mut documents: BTreeMap<i32, Vec<u8>> =
                (0..3_000).map(|n| (n, document(n, 0))).collect();
            let mut migration = migration(&c, seconds);
            let mut steps = 0;
            // The deadline has passed already: one segment per step.
            while !migration.step(monotonic()).unwrap() {
                steps += 1;
                // Change, remove (enough to rewrite segments) and add documents, before and behind the pass.
                c.write(NOW, |w| {
                    for n in (steps % 3..3_000).step_by(3) {
                        let old = documents.get(&n).cloned().unwrap_or_default();
                        let wanted = document(n, 0);
                        let id = with_id_key(Doc::new(&wanted), |key| {
                            let found = w.view().by_key(key);
                            found.map(|(id, _)| id)
                        });
                        let Some(id) = id else {
                            continue;
                        };
                        if (n + steps) % 2 == 0 {
                            assert!(w.is_unchanged(id, &old));
                            w.remove(id).unwrap();
                            documents.remove(&n);
                        } else {
                            let new = document(n, i64::from(steps) * 3_000);
                            let bytes = New::Bytes(new.clone());
                            w.update(id, &bytes, NewTtl::Unknown, &NoDelta).unwrap();
                            documents.insert(n, new);
                        }
                    }
                    for n in 0..50 {
                        let n = 10_000 + steps * 100 + n;
                        w.insert(&document(n, 0)).unwrap();
                        documents.insert(n, document(n, 0));
                    }
                })
                .unwrap();
                let mut seen = visible(&c, NOW);
                seen.sort_unstable();
                assert_eq!(seen, expected(&documents, 10, NOW), "step {steps}");
            }
            assert!(steps > 3, "{steps}");
            // The documents that have expired by the old rule are removed, then the new rule holds. No document comes back.
            let alive: Vec<i32> = expected(&documents, 10, NOW);
            documents.retain(|id, _| alive.contains(id));
            let mut change =
                |rules: &mut crate::storage::Rules<'_>| rules.set_expiry("at_1", seconds);
            while let Err(again) = c.drain_then(NOW, monotonic(), change).unwrap() {
                change = again;
            }
            for later in [0, 7_000, 25_000, 60_000] {
                let now = Millis(NOW.0 + later);
                let mut seen = visible(&c, now);
                seen.sort_unstable();
                assert_eq!(
                    seen,
                    expected(&documents, seconds, now),
                    "{seconds} {later}"
                );
            }
            assert!(!c.shared().contents().has_coming());
        }
    }

    #[test]
    fn one_change_at_a_time_and_one_that_is_given_up_leaves_nothing_behind() {
        let c = collection();
        let allocated = || c.read(ReadPoint::at(NOW), |view| view.allocated());
        let before = allocated();
        let mut first = migration(&c, 99);
        let mut second = migration(&c, 1);
        assert!(!first.step(monotonic()).unwrap());
        for _ in 0..100 {
            assert!(!second.step(monotonic()).unwrap());
        }
        while !first.step(monotonic()).unwrap() {}
        assert!(!second.step(monotonic()).unwrap());
        assert!(allocated() > before);
        drop(first);
        assert_eq!(allocated(), before);
        while !second.step(monotonic()).unwrap() {}
        drop(second);
        // A change that changes nothing needs no pass and waits for no other.
        assert!(migration(&c, 10).step(monotonic()).unwrap());
        assert_eq!(
            visible(&c, NOW),
            expected(&(0..3_000).map(|n| (n, document(n, 0))).collect(), 10, NOW)
        );
    }
}
