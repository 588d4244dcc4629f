//! Checks a history against the order in which a change stream tells its commits.
//!
//! The events give the state of all documents after each commit. A transaction must have read one of these states (not an
//! older one than its client knew, not a newer one than it could know), plus its own writes, less what had ended by the
//! `now` of each statement. Nobody may have written, between that state and its commit, to a document that it wrote to. Its
//! events stand together, in the order of its statements; an aborted one has none.

use std::collections::{BTreeMap, HashMap};

use bson::{Document, Timestamp};

use super::record::{Act, COLLECTIONS, Ending, Key, Row, Statement, Unit};

/// A change of one document, as an event tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    time: Timestamp,
    wall: i64,
    key: Key,
    kind: Kind,
    /// The document after the change; for a delete, the one before.
    row: Row,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Insert,
    Update,
    Delete,
}

/// What became of a document with one commit: `None` if it was removed.
struct Version {
    /// The position of the commit.
    at: usize,
    /// The row and its `_ts`.
    row: Option<(Row, i64)>,
    /// The document has ended and was freed. Who read it before still knows it.
    freed: bool,
}

#[derive(Default)]
struct States {
    versions: HashMap<Key, Vec<Version>>,
}

/// A unit as it reads and writes: one state, and its own writes on top.
struct Reader<'a> {
    states: &'a States,
    at: usize,
    own: BTreeMap<Key, Option<Row>>,
    /// The events that its writes should have, by statement.
    events: Vec<Vec<(Key, Kind, Row)>>,
}

// === impl Event ===

impl Event {
    pub fn of(event: &Document) -> Self {
        let kind = match event.get_str("operationType").expect("a type") {
            "insert" => Kind::Insert,
            "update" => Kind::Update,
            "delete" => Kind::Delete,
            other => panic!("{other}: {event}"),
        };
        let name = event
            .get_document("ns")
            .expect("ns")
            .get_str("coll")
            .expect("a name");
        let collection = COLLECTIONS.iter().position(|known| *known == name);
        let shown = match kind {
            Kind::Delete => "fullDocumentBeforeChange",
            Kind::Insert | Kind::Update => "fullDocument",
        };
        let (id, row) = Row::of(event.get_document(shown).expect("an image"));
        Self {
            time: event.get_timestamp("clusterTime").expect("a time"),
            wall: event
                .get_datetime("wallTime")
                .expect("a moment")
                .timestamp_millis(),
            key: (collection.expect("a known collection"), id),
            kind,
            row,
        }
    }
}

/// Checks a whole history.
pub fn check(units: &[Unit], events: &[Event]) -> Result<(), String> {
    let writers = writers(units);
    let mut states = States::default();
    // The units in the order of their commits, with their events.
    let mut committed: Vec<(usize, &[Event])> = Vec::new();
    let mut rest = events;
    while let Some(first) = rest.first() {
        let len = rest
            .iter()
            .take_while(|event| event.time == first.time)
            .count();
        let (group, behind) = rest.split_at(len);
        rest = behind;
        let at = committed.len() + 1;
        let writer = match states.has_ended(group) {
            true => None,
            false => writers.of(group)?,
        };
        match writer {
            Some(unit) => {
                if committed.iter().any(|(other, _)| *other == unit) {
                    return Err(format!(
                        "the events of {:?} come in two groups",
                        units[unit]
                    ));
                }
                committed.push((unit, group));
                states.apply(at, group, units[unit].commit().0);
            }
            // An ended document was freed: that changes nothing that anybody can see.
            None => {
                let [event] = group else {
                    return Err(format!("nobody made {group:?}"));
                };
                let (row, ts) = states
                    .present(event.key)
                    .ok_or_else(|| format!("{event:?} of nothing"))?;
                let end = row.end(event.key.0, *ts);
                if row != &event.row || end.is_none_or(|end| end > event.wall) {
                    return Err(format!(
                        "{event:?} has no reason: written at {ts}, ends at {end:?}"
                    ));
                }
                states.free(event.key);
            }
        }
    }
    let positions: HashMap<usize, usize> = committed
        .iter()
        .enumerate()
        .map(|(at, (unit, _))| (*unit, at + 1))
        .collect();
    let window = Window::new(units, &committed);
    for (n, unit) in units.iter().enumerate() {
        let position = positions.get(&n).copied();
        let told = position.map_or(&[][..], |at| committed[at - 1].1);
        check_unit(unit, position, told, &states, window.of(unit))
            .map_err(|why| format!("{why}\n  {unit:#?}\n  at {position:?}, events {told:?}"))?;
    }
    Ok(())
}

/// The unit of each write.
struct Writers {
    tags: HashMap<i64, usize>,
    /// The removed documents by key and last element.
    removed: HashMap<(Key, i64), usize>,
}

fn writers(units: &[Unit]) -> Writers {
    let (mut tags, mut removed) = (HashMap::new(), HashMap::new());
    for (n, unit) in units.iter().enumerate() {
        for statement in &unit.statements {
            match &statement.act {
                Act::Update { push, .. } | Act::Modify { push, .. } | Act::Insert { push, .. } => {
                    tags.insert(push.tag, n);
                }
                Act::UpdateMany { tag, .. } => {
                    tags.insert(*tag, n);
                }
                Act::Remove {
                    key,
                    row: Some(row),
                }
                | Act::Delete {
                    key,
                    row: Some(row),
                    removed: true,
                } if unit.is_committed() => {
                    removed.insert((*key, row.last()), n);
                }
                _ => {}
            }
        }
    }
    Writers { tags, removed }
}

// === impl Writers ===

impl Writers {
    /// Returns the unit that made these changes, or `None` if no client did.
    fn of(&self, group: &[Event]) -> Result<Option<usize>, String> {
        let units: Vec<Option<usize>> = group
            .iter()
            .map(|event| match event.kind {
                Kind::Delete => self.removed.get(&(event.key, event.row.last())).copied(),
                Kind::Insert | Kind::Update => self.tags.get(&event.row.last()).copied(),
            })
            .collect();
        match units.iter().all(|unit| *unit == units[0]) {
            true => Ok(units[0]),
            false => Err(format!("changes of several units at one time: {group:?}")),
        }
    }
}

/// Between which commits the state that a unit reads must lie.
struct Window {
    /// (tick, position) of the replies of commits, sorted, with the greatest position so far.
    ended: Vec<(u64, usize)>,
    /// (tick, position) of the requests of commits, sorted, with the smallest position from there on.
    begun: Vec<(u64, usize)>,
}

// === impl Window ===

impl Window {
    fn new(units: &[Unit], committed: &[(usize, &[Event])]) -> Self {
        let (mut ended, mut begun) = (Vec::new(), Vec::new());
        for (at, (unit, _)) in committed.iter().enumerate() {
            let (_, begin, end) = units[*unit].commit();
            ended.push((end, at + 1));
            begun.push((begin, at + 1));
        }
        ended.sort_unstable();
        begun.sort_unstable();
        let mut greatest = 0;
        for (_, at) in &mut ended {
            greatest = greatest.max(*at);
            *at = greatest;
        }
        let mut smallest = committed.len() + 1;
        for (_, at) in begun.iter_mut().rev() {
            smallest = smallest.min(*at);
            *at = smallest;
        }
        begun.push((u64::MAX, committed.len() + 1));
        Self { ended, begun }
    }

    fn of(&self, unit: &Unit) -> (usize, usize) {
        let first = &unit.statements[0];
        let before = self.ended.partition_point(|(tick, _)| *tick < first.begin);
        let after = self.begun.partition_point(|(tick, _)| *tick < first.end);
        let from = before.checked_sub(1).map_or(0, |at| self.ended[at].1);
        (from, self.begun[after].1 - 1)
    }
}

fn check_unit(
    unit: &Unit,
    position: Option<usize>,
    told: &[Event],
    states: &States,
    (from, to): (usize, usize),
) -> Result<(), String> {
    if unit.ending == Ending::Aborted && position.is_some() {
        return Err("an aborted transaction has events".to_owned());
    }
    // A statement outside transactions reads what it writes to.
    let (from, to) = match (unit.ending, position) {
        (Ending::Plain, Some(at)) => (at - 1, at - 1),
        (_, Some(at)) => (from, to.min(at - 1)),
        _ => (from, to),
    };
    let mut why = format!("no state between {from} and {to}");
    for at in (from..=to).rev() {
        match Reader::read(unit, states, at) {
            Ok(mut reader) => {
                if unit.is_committed() {
                    reader.forget_ended(unit.commit().0);
                    reader.check_events(told)?;
                }
                if let Some(position) = position {
                    reader.check_conflicts(unit.commit().0, position)?;
                }
                return Ok(());
            }
            Err(reason) => why = format!("{why}\n  state {at}: {reason}"),
        }
    }
    Err(why)
}

// === impl Reader ===

impl<'a> Reader<'a> {
    /// Runs the statements on a state. Fails if one of them would have got another answer.
    fn read(unit: &Unit, states: &'a States, at: usize) -> Result<Self, String> {
        let mut reader = Self {
            states,
            at,
            own: BTreeMap::new(),
            events: Vec::new(),
        };
        for statement in &unit.statements {
            reader.events.push(Vec::new());
            reader.run(statement)?;
        }
        Ok(reader)
    }

    /// Returns what the unit sees of a document: its own does not end before the commit.
    fn row(&self, key: Key, now: i64) -> Option<Row> {
        match self.own.get(&key) {
            Some(row) => row.clone(),
            None => self.states.visible(key, self.at, now).cloned(),
        }
    }

    fn put(&mut self, key: Key, kind: Kind, row: Row) {
        let after = (kind != Kind::Delete).then(|| row.clone());
        self.own.insert(key, after);
        let events = self.events.last_mut().expect("a statement runs");
        events.push((key, kind, row));
    }

    fn run(&mut self, statement: &Statement) -> Result<(), String> {
        let now = statement.now;
        let ids = 0..super::client::IDS as i32;
        let expect = |same: bool, seen: String| match same {
            true => Ok(()),
            false => Err(format!("{statement:?} should have seen {seen}")),
        };
        match &statement.act {
            Act::Find {
                collection,
                wanted,
                rows,
            } => {
                let there = ids.filter_map(|id| Some((id, self.row((*collection, id), now)?)));
                let there: BTreeMap<i32, Row> =
                    there.filter(|(id, row)| wanted.matches(*id, row)).collect();
                expect(*rows == there, format!("{there:?}"))
            }
            Act::Update { push, matched } => {
                let before = self.row(push.key, now);
                expect(*matched == before.is_some(), format!("{before:?}"))?;
                self.push(push, before);
                Ok(())
            }
            Act::Modify { push, new, row } => {
                let before = self.row(push.key, now);
                let shown = match new {
                    true => {
                        let any = before.is_some() || push.upsert;
                        any.then(|| push.applied(before.as_ref()))
                    }
                    false => before.clone(),
                };
                expect(*row == shown, format!("{shown:?}"))?;
                self.push(push, before);
                Ok(())
            }
            Act::UpdateMany {
                collection,
                ids,
                tag,
                matched,
            } => {
                let mut n = 0;
                for id in ids.0..=ids.1 {
                    let key = (*collection, id);
                    if let Some(mut row) = self.row(key, now) {
                        row.list.push(*tag);
                        self.put(key, Kind::Update, row);
                        n += 1;
                    }
                }
                expect(*matched == n, format!("{n}"))
            }
            Act::Insert { push, is_duplicate } => {
                let before = self.row(push.key, now);
                expect(*is_duplicate == before.is_some(), format!("{before:?}"))?;
                if !is_duplicate {
                    self.push(push, None);
                }
                Ok(())
            }
            Act::Remove { key, row } => {
                let before = self.row(*key, now);
                expect(*row == before, format!("{before:?}"))?;
                self.remove(*key, before);
                Ok(())
            }
            Act::Delete { key, removed, .. } => {
                let before = self.row(*key, now);
                expect(*removed == before.is_some(), format!("{before:?}"))?;
                self.remove(*key, before);
                Ok(())
            }
            Act::Failed => Ok(()),
        }
    }

    fn push(&mut self, push: &super::record::Push, before: Option<Row>) {
        let kind = match before {
            Some(_) => Kind::Update,
            None if push.upsert => Kind::Insert,
            None => return,
        };
        self.put(push.key, kind, push.applied(before.as_ref()));
    }

    fn remove(&mut self, key: Key, before: Option<Row>) {
        if let Some(row) = before {
            self.put(key, Kind::Delete, row);
        }
    }

    /// Forgets what the unit did with documents that it removed and that had ended by its commit: they were gone by themselves.
    fn forget_ended(&mut self, commit: i64) {
        let keys: Vec<Key> = self.own.keys().copied().collect();
        for key in keys {
            let there = self.states.visible(key, self.at, i64::MIN).is_some();
            let ended = there && self.states.visible(key, self.at, commit).is_none();
            let mut kinds = (self.events.iter().flatten())
                .filter(|(other, ..)| *other == key)
                .map(|(_, kind, _)| *kind);
            // A unit that added the document had not seen the one that had ended.
            let is_new = kinds.clone().next() == Some(Kind::Insert);
            if !ended || is_new || !kinds.any(|kind| kind == Kind::Delete) {
                continue;
            }
            self.own.remove(&key);
            let mut is_over = false;
            for events in &mut self.events {
                events.retain(|(other, kind, _)| {
                    let keep = *other != key || is_over;
                    is_over |= *other == key && *kind == Kind::Delete;
                    keep
                });
            }
        }
    }

    /// Checks that exactly the writes were told, in the order of the statements.
    fn check_events(&self, told: &[Event]) -> Result<(), String> {
        let mut rest = told;
        for expected in &self.events {
            let count = expected.len().min(rest.len());
            let (part, behind) = rest.split_at(count);
            rest = behind;
            let found: Vec<_> = part
                .iter()
                .map(|event| (event.key, event.kind, event.row.clone()))
                .collect();
            // The documents of one statement may be told in any order.
            let is_there = expected.iter().all(|event| found.contains(event));
            if found.len() != expected.len() || !is_there {
                return Err(format!("told {found:?} instead of {expected:?}"));
            }
        }
        match rest {
            [] => Ok(()),
            more => Err(format!("also told {more:?}")),
        }
    }

    /// Checks that no client wrote, between the state that was read and the commit, to a document that the unit has written
    /// to, and that none of its documents had ended by then.
    fn check_conflicts(&self, commit: i64, position: usize) -> Result<(), String> {
        for (key, row) in &self.own {
            let versions = self.states.versions.get(key).into_iter().flatten();
            let between = |version: &&Version| version.at > self.at && version.at < position;
            if let Some(other) = versions.clone().find(between) {
                return Err(format!(
                    "an update of {key:?} was lost: {:?} at {}",
                    other.row, other.at
                ));
            }
            let ended = self.states.visible(*key, self.at, i64::MIN).is_some()
                && self.states.visible(*key, self.at, commit).is_none();
            let first = self
                .events
                .iter()
                .flatten()
                .find(|(other, ..)| other == key);
            let is_update = first.is_some_and(|(_, kind, _)| *kind == Kind::Update);
            if ended && is_update && row.is_some() {
                return Err(format!("{key:?} had ended before it was committed"));
            }
        }
        Ok(())
    }
}

// === impl States ===

impl States {
    /// Returns the row at a position, unless it has ended.
    fn visible(&self, key: Key, at: usize, now: i64) -> Option<&Row> {
        let versions = self.versions.get(&key)?;
        let behind = versions.partition_point(|version| version.at <= at);
        let (row, ts) = versions[..behind].last()?.row.as_ref()?;
        let ended = row.end(key.0, *ts).is_some_and(|end| end <= now);
        (!ended).then_some(row)
    }

    fn present(&self, key: Key) -> Option<&(Row, i64)> {
        let last = self.versions.get(&key)?.last()?;
        last.row.as_ref().filter(|_| !last.freed)
    }

    /// Returns whether these changes are the removal of a document that has ended. Clients remove only those that have not.
    fn has_ended(&self, group: &[Event]) -> bool {
        let [event] = group else { return false };
        let present = self
            .present(event.key)
            .filter(|_| event.kind == Kind::Delete);
        let end = present.and_then(|(row, ts)| row.end(event.key.0, *ts));
        end.is_some_and(|end| end <= event.wall)
    }

    fn free(&mut self, key: Key) {
        if let Some(last) = self.versions.get_mut(&key).and_then(|all| all.last_mut()) {
            last.freed = true;
        }
    }

    /// Notes what a commit has made of each document.
    fn apply(&mut self, at: usize, group: &[Event], ts: i64) {
        // What a unit added and removed again was never there: nobody can tell it from nothing, so it makes no version, and
        // nobody conflicts with it afterwards. That nobody else has written to it meanwhile is checked with the unit itself.
        let kinds = |key: Key| group.iter().filter(move |event| event.key == key);
        let is_nothing = |key: Key| {
            let (first, last) = (kinds(key).next(), kinds(key).next_back());
            let kind = |event: Option<&Event>| event.map(|event| event.kind);
            (kind(first), kind(last)) == (Some(Kind::Insert), Some(Kind::Delete))
        };
        for event in group.iter().filter(|event| !is_nothing(event.key)) {
            let versions = self.versions.entry(event.key).or_default();
            if versions.last().is_some_and(|last| last.at == at) {
                versions.pop();
            }
            versions.push(Version {
                at,
                row: (event.kind != Kind::Delete).then(|| (event.row.clone(), ts)),
                freed: false,
            });
        }
    }
}
