//! The laws of the planner, tested against a naive evaluator with random documents, filters and indexes. An access yields
//! every document that matches, in the order that the plan promises. If the plan is exact, it yields nothing else. A plan
//! with a hint uses the hinted index, and yields only documents that this index holds. Without a hint, a hidden index is
//! not used.

use std::sync::Arc;

use bson::{Document, doc};

use super::super::hint::Hinted;
use super::super::*;
use super::dice::Dice;
use super::{facts, filter, keys_of, sorting};
use crate::error::Result;
use crate::query::Vars;
use crate::value::{self, DocBuf, Millis, Value, key};

/// Returns whether no two documents share a key, so that the index could be unique.
fn is_unique(entries: &[(Vec<u8>, usize)]) -> bool {
    let key = |entry: &(Vec<u8>, usize)| entry.0[..entry.0.len() - size_of::<u64>()].to_vec();
    entries
        .windows(2)
        .all(|pair| key(&pair[0]) != key(&pair[1]))
}

/// Returns the entries of an index over documents, as storage keeps them, and sets its multikey bits. Returns `None` if
/// some document cannot be indexed.
fn entries(info: &mut IndexFacts, docs: &[DocBuf], vars: &Vars) -> Option<Vec<(Vec<u8>, usize)>> {
    let (paths, descending) = (&info.spec.paths, &info.spec.descending);
    let mut all = Vec::new();
    for (at, doc) in docs.iter().enumerate() {
        if let Some(partial) = &info.partial
            && !partial.matches(doc.as_doc(), vars).unwrap()
        {
            continue;
        }
        let mut found = Vec::new();
        let multikey = value::keys(paths, doc.as_doc(), |keys| {
            if keys.found || !info.spec.sparse {
                let mut bytes = Vec::new();
                for (value, &descending) in keys.values.iter().zip(descending) {
                    key::encode(*value, descending, &mut bytes);
                }
                found.push(bytes);
            }
        })
        .ok()?;
        info.multikey.merge(&multikey);
        found.sort();
        found.dedup();
        all.extend(found.into_iter().map(|mut bytes| {
            bytes.extend_from_slice(&(at as u64).to_be_bytes());
            (bytes, at)
        }));
    }
    all.sort();
    Some(all)
}

/// Documents, each with its `_id`, and the contents of the indexes.
struct World {
    docs: Vec<DocBuf>,
    /// The entries of each index.
    entries: Vec<Vec<(Vec<u8>, usize)>>,
}

impl World {
    /// Returns the documents that an access yields, in its order.
    fn walk(&self, access: &AccessPath) -> Vec<usize> {
        let mut found = match access {
            AccessPath::Nothing => Vec::new(),
            AccessPath::CollScan(_) => (0..self.docs.len()).collect(),
            AccessPath::Ids(keys) => {
                let id_of =
                    |at: &usize| key::with(self.docs[*at].as_doc().get("_id"), <[u8]>::to_vec);
                assert!(keys.is_sorted(), "{keys:?}");
                keys.iter()
                    .filter_map(|key| (0..self.docs.len()).find(|at| id_of(at) == *key))
                    .collect()
            }
            AccessPath::IndexScan(scan) => self.scan(scan),
            AccessPath::Union(accesses) => accesses
                .iter()
                .flat_map(|access| self.walk(access))
                .collect(),
        };
        let mut seen = std::collections::HashSet::new();
        found.retain(|at| seen.insert(*at));
        found
    }

    fn scan(&self, scan: &IndexScan) -> Vec<usize> {
        assert!(
            scan.ranges
                .windows(2)
                .all(|pair| pair[0].upper <= pair[1].lower),
            "{:?}",
            scan.ranges
        );
        let entries = &self.entries[scan.number.0 as usize];
        let mut found: Vec<usize> = scan
            .ranges
            .iter()
            .flat_map(|range| {
                entries
                    .iter()
                    .filter(|(bytes, _)| *bytes >= range.lower && *bytes < range.upper)
                    .filter(|(bytes, _)| is_inside(scan, entries, bytes))
            })
            .map(|(_, at)| *at)
            .collect();
        if scan.direction == ScanDirection::Backward {
            found.reverse();
        }
        found
    }
}

/// Returns whether the bounds of later fields allow an entry. Checks that the scan skips no such entry when it meets one
/// that they do not allow, and that it comes forward.
fn is_inside(scan: &IndexScan, entries: &[(Vec<u8>, usize)], bytes: &[u8]) -> bool {
    let Some(skip) = &scan.skip else { return true };
    let target = |entry: &[u8]| skip.target(entry, scan.direction);
    let Some(next) = target(bytes) else {
        return true;
    };
    let is_skipped = |entry: &[u8]| match scan.direction {
        ScanDirection::Forward => entry >= bytes && entry < next.as_slice(),
        ScanDirection::Backward => entry <= bytes && entry >= next.as_slice(),
    };
    assert!(
        is_skipped(bytes),
        "{next:?} does not lead on from {bytes:?}"
    );
    let mut skipped = entries.iter().filter(|(entry, _)| is_skipped(entry));
    assert!(skipped.all(|(entry, _)| target(entry).is_some()));
    false
}

/// Counts of plans: those that read an index, those of them that were exact and found something, those that used a
/// unique or a hinted index, and those that skip entries.
#[derive(Debug, Default)]
struct PlanCounts {
    indexed: u64,
    exact: u64,
    unique: u64,
    hinted: u64,
    skipping: u64,
}

/// Returns the positions of the indexes that an access reads.
fn indexes_read(access: &AccessPath) -> Vec<usize> {
    match access {
        AccessPath::IndexScan(scan) => vec![scan.number.0 as usize],
        AccessPath::Union(accesses) => accesses.iter().flat_map(indexes_read).collect(),
        _ => Vec::new(),
    }
}

/// Checks that a hint at a hidden index is refused, and that any other hint is followed unless nothing can match.
fn check_hinted(
    plan: &Result<Plan<'_>>,
    hinted: Hinted,
    facts: &Facts,
    describe: &dyn Fn() -> String,
) {
    let index = match hinted {
        Hinted::Index(at) => Some((at, &facts.indexes[at].spec)),
        _ => None,
    };
    let plan = match (plan, index) {
        (Err(_), Some((_, spec))) => {
            assert!(spec.hidden, "refused; {}", describe());
            return;
        }
        (Err(error), None) => panic!("{error}; {}", describe()),
        (Ok(plan), _) => plan,
    };
    assert!(
        !index.is_some_and(|(_, spec)| spec.hidden),
        "hidden; {}",
        describe()
    );
    let followed = match (&plan.access, hinted) {
        (AccessPath::Nothing, _) => true,
        (AccessPath::CollScan(direction), Hinted::Natural(wanted)) => *direction == wanted,
        (access, Hinted::Index(at)) => indexes_read(access) == [at],
        _ => false,
    };
    assert!(followed, "not followed; {}", describe());
}

fn check_plans(rounds: u64, first_seed: u64) {
    let vars = Vars::at(Millis(0));
    let mut counts = PlanCounts::default();
    for seed in first_seed..first_seed + rounds {
        let mut dice = Dice::new(seed);
        // If documents have no arrays, indexes are not multikey, and plans can be exact.
        let depth = dice.pick(&[0, 1, 3]);
        let docs: Vec<Document> = (0..12)
            .map(|n| {
                let mut doc = doc! {"_id": n};
                doc.extend(dice.fields(depth));
                doc
            })
            .collect();
        let mut world = World {
            docs: docs.iter().map(DocBuf::from).collect(),
            entries: Vec::new(),
        };
        let mut indexes = Vec::new();
        for at in 0..=dice.roll(3) {
            let mut info = dice.index();
            Arc::make_mut(&mut info.spec).name = format!("i{at}");
            if let Some(entries) = entries(&mut info, &world.docs, &vars) {
                Arc::make_mut(&mut info.spec).unique = is_unique(&entries) && dice.roll(2) == 0;
                indexes.push(info);
                world.entries.push(entries);
            }
        }
        let facts = facts(indexes);
        for _ in 0..8 {
            let query = match dice.roll(3) {
                0 if !facts.indexes.is_empty() => {
                    let index = dice.roll(facts.indexes.len());
                    dice.query_for(&facts.indexes[index], &docs)
                }
                _ => dice.query(2),
            };
            let parsed = filter(&query);
            let sort: Document = (0..dice.roll(3))
                .map(|_| (dice.path(), dice.pick(&[1, -1]).into()))
                .collect();
            let sort = sorting(&sort);
            let sort = keys_of(&sort);
            let hint = (dice.roll(4) == 0).then(|| dice.hint(&facts));
            let planned = plan(&parsed, &sort, hint.as_ref().map(|(hint, _)| hint), &facts);
            let describe = || {
                let specs: Vec<_> = facts.indexes.iter().map(|info| &info.spec).collect();
                format!("seed {seed}: {query}, {hint:?} under {specs:?} by {planned:?}")
            };
            if let Some((_, hinted)) = &hint {
                check_hinted(&planned, *hinted, &facts, &describe);
            }
            let Ok(plan) = &planned else { continue };
            // A hint at an index that leaves documents out yields only what the index holds.
            let is_indexed = |at: usize| match hint {
                Some((_, Hinted::Index(index))) => world.entries[index]
                    .iter()
                    .any(|(_, document)| *document == at),
                _ => true,
            };
            let expected: Vec<usize> = world
                .docs
                .iter()
                .enumerate()
                .filter(|(at, doc)| parsed.matches(doc.as_doc(), &vars).unwrap() && is_indexed(*at))
                .map(|(at, _)| at)
                .collect();
            let found = world.walk(&plan.access);
            let read = indexes_read(&plan.access);
            if !read.is_empty() {
                let spec = |at: &usize| &facts.indexes[*at].spec;
                assert!(
                    !read.iter().any(|at| spec(at).hidden),
                    "hidden; {}",
                    describe()
                );
                counts.indexed += 1;
                counts.exact += u64::from(plan.exact && !found.is_empty());
                counts.unique += u64::from(read.iter().any(|at| spec(at).unique));
                counts.hinted += u64::from(hint.is_some());
                let skips =
                    matches!(&plan.access, AccessPath::IndexScan(scan) if scan.skip.is_some());
                counts.skipping += u64::from(skips && !found.is_empty());
            }
            for at in &expected {
                assert!(
                    found.contains(at),
                    "missing {:?}; {}",
                    world.docs[*at],
                    describe()
                );
            }
            if plan.exact {
                for at in &found {
                    let doc = &world.docs[*at];
                    assert!(
                        expected.contains(at),
                        "does not match: {doc:?}; {}",
                        describe()
                    );
                }
            }
            if plan.sort_covered && !sort.is_empty() {
                let key = |at: usize| {
                    let mut bytes = Vec::new();
                    for part in &sort {
                        let value = part.path.get(world.docs[at].as_doc());
                        let value = if value.is_missing() {
                            Value::null()
                        } else {
                            value.to_value()
                        };
                        key::encode(value.as_ref(), part.descending, &mut bytes);
                    }
                    bytes
                };
                let keys: Vec<_> = found
                    .iter()
                    .filter(|at| expected.contains(at))
                    .map(|at| key(*at))
                    .collect();
                assert!(keys.is_sorted(), "order; {}", describe());
            }
        }
    }
    assert!(counts.indexed > rounds / 2, "{counts:?} in {rounds} rounds");
    for rare in [counts.exact, counts.unique, counts.hinted] {
        assert!(rare > rounds / 8, "{counts:?} in {rounds} rounds");
    }
    assert!(
        counts.skipping > rounds / 80,
        "{counts:?} in {rounds} rounds"
    );
}

#[test]
fn plans_find_every_match_and_exact_plans_find_only_matches() {
    check_plans(4_000, 1);
}

#[test]
#[ignore = "long"]
fn plans_find_every_match_and_exact_plans_find_only_matches_long() {
    check_plans(200_000, 1_000_000);
}
