//! Checks a history without knowing the order of its commits: the rules of Adya, as the checker Elle finds them in lists
//! that are only appended to.
//!
//! The elements of a list are in the order of the writes. So a list that somebody read tells who wrote before whom (ww), whose
//! write was read (wr), and who wrote next (rw). A reply that a client had before another one began tells an order, too.
//! Under snapshot isolation no cycle has fewer than two rw (G0, G1c, G-single; a lost update is one of the last kind).

use std::collections::{HashMap, HashSet};

use super::record::{Act, Key, Row, Unit};

/// A list is known by its document and its first element: a document that was removed and added again has another one.
type List = (Key, i64);

#[derive(Default)]
struct Graph {
    /// The units and moments that come later, because of ww, wr or time.
    after: HashMap<usize, Vec<usize>>,
    /// Who wrote what the first one has not seen.
    unseen: Vec<(usize, usize)>,
}

/// Checks a whole history.
pub fn check(units: &[Unit]) -> Result<(), String> {
    let mut writers: HashMap<(Key, i64), usize> = HashMap::new();
    // The last element that a unit has written to a list: others never see an earlier one at its end.
    let mut last: HashMap<(usize, Key), i64> = HashMap::new();
    for (n, unit) in units.iter().enumerate() {
        for (key, tag) in unit.statements.iter().flat_map(|one| written(&one.act)) {
            writers.insert((key, tag), n);
            last.insert((n, key), tag);
        }
    }
    let mut longest: HashMap<List, Vec<i64>> = HashMap::new();
    // What an aborted transaction saw of itself is nobody's business.
    let own = |n: usize, key: Key, row: &Row| {
        let mut list = row.list.iter();
        !units[n].is_committed() && list.any(|tag| writers.get(&(key, *tag)) == Some(&n))
    };
    let reads: Vec<(usize, Key, &Row)> = units
        .iter()
        .enumerate()
        .flat_map(|(n, unit)| unit.statements.iter().map(move |one| (n, one)))
        .flat_map(|(n, one)| {
            seen(&one.act)
                .into_iter()
                .map(move |(key, row)| (n, key, row))
        })
        .filter(|(n, key, row)| !own(*n, *key, row))
        .collect();
    for (reader, key, row) in &reads {
        let list = longest.entry((*key, row.list[0])).or_default();
        let both = list.len().min(row.list.len());
        if list[..both] != row.list[..both] {
            return Err(format!(
                "{key:?} was seen as {list:?} and as {:?}",
                row.list
            ));
        }
        if row.list.len() > list.len() {
            list.clone_from(&row.list);
        }
        for tag in &row.list {
            let writer = writers
                .get(&(*key, *tag))
                .ok_or_else(|| format!("nobody wrote {tag} to {key:?}"))?;
            if writer != reader && !units[*writer].is_committed() {
                return Err(format!(
                    "{key:?} {row:?} was read and never committed (G1a)\n{:#?}",
                    units[*reader]
                ));
            }
        }
        let writer = writers[&(*key, row.last())];
        if writer != *reader && last[&(writer, *key)] != row.last() {
            return Err(format!(
                "{key:?} {row:?} is half of a transaction (G1b)\n{:#?}",
                units[*reader]
            ));
        }
    }
    let mut graph = Graph::default();
    graph.add_times(units);
    for ((key, _), list) in &longest {
        for pair in list.windows(2) {
            graph.add(writers[&(*key, pair[0])], writers[&(*key, pair[1])]);
        }
    }
    for (reader, key, row) in &reads {
        if !units[*reader].is_committed() {
            continue;
        }
        graph.add(writers[&(*key, row.last())], *reader);
        let list = &longest[&(*key, row.list[0])];
        let next = list.get(row.list.len()).map(|tag| writers[&(*key, *tag)]);
        if let Some(next) = next.filter(|next| next != reader) {
            graph.unseen.push((*reader, next));
        }
    }
    graph.check(units)
}

/// Returns the elements that a statement has appended.
fn written(act: &Act) -> Vec<(Key, i64)> {
    match act {
        Act::Update { push, .. } | Act::Modify { push, .. } | Act::Insert { push, .. } => {
            vec![(push.key, push.tag)]
        }
        Act::UpdateMany {
            collection,
            ids,
            tag,
            ..
        } => (ids.0..=ids.1)
            .map(|id| ((*collection, id), *tag))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the documents that a statement has shown.
fn seen(act: &Act) -> Vec<(Key, &Row)> {
    match act {
        Act::Find {
            collection, rows, ..
        } => rows
            .iter()
            .map(|(id, row)| ((*collection, *id), row))
            .collect(),
        Act::Modify {
            push,
            row: Some(row),
            ..
        } => vec![(push.key, row)],
        Act::Remove {
            key,
            row: Some(row),
        } => vec![(*key, row)],
        _ => Vec::new(),
    }
}

// === impl Graph ===

impl Graph {
    fn add(&mut self, from: usize, to: usize) {
        if from != to {
            self.after.entry(from).or_default().push(to);
        }
    }

    /// Adds that a unit whose reply somebody had comes before those that began later. The moments of the replies are nodes,
    /// too, each before the next, so that there are not as many edges as pairs.
    fn add_times(&mut self, units: &[Unit]) {
        let mut ends: Vec<(u64, usize)> = (units.iter().enumerate())
            .filter(|(_, unit)| unit.is_committed())
            .map(|(n, unit)| (unit.commit().2, n))
            .collect();
        ends.sort_unstable();
        let moment = |at: usize| units.len() + at;
        for (at, (_, unit)) in ends.iter().enumerate() {
            self.add(*unit, moment(at));
            self.add(moment(at), moment(at + 1));
        }
        for (n, unit) in units
            .iter()
            .enumerate()
            .filter(|(_, unit)| unit.is_committed())
        {
            let begin = unit.statements[0].begin;
            let before = ends.partition_point(|(end, _)| *end < begin);
            if let Some(at) = before.checked_sub(1) {
                self.add(moment(at), n);
            }
        }
    }

    fn check(&self, units: &[Unit]) -> Result<(), String> {
        // A cycle without rw goes through a unit that comes after itself.
        for from in self.after.keys() {
            let nexts = &self.after[from];
            if let Some(next) = nexts.iter().find(|next| self.leads(**next, *from)) {
                return Err(format!(
                    "a cycle without rw (G0 or G1c): {:#?}\n{:#?}",
                    units.get(*from),
                    units.get(*next)
                ));
            }
        }
        for (reader, next) in &self.unseen {
            if self.leads(*next, *reader) {
                return Err(format!(
                    "a cycle with one rw (G-single): the first did not see what the second wrote, which comes before it\n{:#?}\n{:#?}",
                    units[*reader], units[*next]
                ));
            }
        }
        Ok(())
    }

    fn leads(&self, from: usize, to: usize) -> bool {
        let mut found = HashSet::from([from]);
        let mut rest = vec![from];
        while let Some(node) = rest.pop() {
            if node == to {
                return true;
            }
            for next in self.after.get(&node).into_iter().flatten() {
                if found.insert(*next) {
                    rest.push(*next);
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::record::{Ending, Push, Statement, Wanted};
    use super::*;

    fn push(tag: i64) -> Act {
        let push = Push {
            key: (0, 1),
            tag,
            inc: 0,
            ttl: None,
            upsert: true,
        };
        Act::Update {
            push,
            matched: true,
        }
    }

    fn read(list: &[i64]) -> Act {
        let (list, n, ttl) = (list.to_vec(), 0, None);
        Act::Find {
            collection: 0,
            wanted: Wanted::All,
            rows: BTreeMap::from([(1, Row { list, n, ttl })]),
        }
    }

    /// Returns a unit whose statements all run between these ticks.
    fn unit(begin: u64, end: u64, acts: Vec<Act>, is_committed: bool) -> Unit {
        let now = 0;
        let statements = acts.into_iter().map(|act| Statement {
            act,
            now,
            begin,
            end,
        });
        Unit {
            statements: statements.collect(),
            ending: match is_committed {
                true => Ending::Committed { now, begin, end },
                false => Ending::Aborted,
            },
        }
    }

    #[test]
    fn anomalies_are_found() {
        let base = || unit(1, 2, vec![push(1)], true);
        for (name, others, good) in [
            (
                "in order",
                vec![
                    unit(3, 4, vec![read(&[1]), push(2)], true),
                    unit(5, 6, vec![read(&[1, 2])], true),
                ],
                true,
            ),
            (
                "a lost update",
                vec![
                    unit(3, 9, vec![read(&[1]), push(2)], true),
                    unit(3, 9, vec![read(&[1]), push(3)], true),
                    unit(10, 11, vec![read(&[1, 2, 3])], true),
                ],
                false,
            ),
            (
                "an aborted read",
                vec![
                    unit(3, 9, vec![push(2)], false),
                    unit(3, 9, vec![read(&[1, 2])], true),
                ],
                false,
            ),
            (
                "half of a transaction",
                vec![
                    unit(3, 9, vec![push(2), push(3)], true),
                    unit(3, 9, vec![read(&[1, 2])], true),
                ],
                false,
            ),
            (
                "an old state",
                vec![
                    unit(3, 4, vec![push(2)], true),
                    unit(5, 6, vec![read(&[1])], true),
                    unit(7, 8, vec![read(&[1, 2])], true),
                ],
                false,
            ),
            (
                "two orders",
                vec![
                    unit(3, 9, vec![push(2)], true),
                    unit(3, 9, vec![push(3)], true),
                    unit(3, 9, vec![read(&[1, 2, 3])], true),
                    unit(3, 9, vec![read(&[1, 3, 2])], true),
                ],
                false,
            ),
            (
                "a skew in time",
                vec![
                    unit(3, 9, vec![push(2)], true),
                    unit(3, 9, vec![read(&[1])], true),
                    unit(10, 11, vec![read(&[1, 2])], true),
                ],
                true,
            ),
        ] {
            let mut units = vec![base()];
            units.extend(others);
            assert_eq!(check(&units).is_ok(), good, "{name}");
        }
    }
}
