//! Runs steps on a server and on the model.

use bson::{Bson, Document, doc};
use sundown::clock::{Clock, Millis};

use super::expect::{self, expect};
use super::order::{equal, same};
use super::replies::{compare_reply, ordered, same_value_of, set};
use super::state::{Collection, Model, Stored, next_end};
use super::steps::{CAPPED, SLOTS, Step};
use crate::support::world::{
    Reaper, START, World, batch, failure, genuine_cluster, in_front_of_cluster, int,
};

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub indexes: bool,
    pub reaper: Reaper,
    /// Writes always find and compute their document outside the lock, and compare it before they write.
    pub writes_outside_lock: bool,
    /// Commands go through one of two Sundowns in front of one cluster.
    pub two_sundowns: bool,
}

pub struct Run {
    world: World,
    /// Commands go through the second Sundown.
    switched: bool,
    model: Model,
    cursors: [Option<Cursor>; SLOTS],
    /// The last retryable write and its reply.
    last: Option<(Document, Document)>,
    session: bson::Uuid,
    transaction: i64,
}

/// An open cursor, and the rows that it must and may return.
struct Cursor {
    id: i64,
    collection: String,
    /// The command that opened it.
    opened: u64,
    /// The documents that matched then, and as the command sees them.
    due: Vec<(Stored, Document)>,
    returned: Vec<u64>,
    /// An index of its collection was dropped since it was opened. It may have read that index, and ends then.
    index_dropped: bool,
    with_ts: bool,
    /// The cluster may have read the rows before they are asked for, and so return a document that was deleted meanwhile.
    reads_ahead: bool,
    /// What the cluster has not begun to read: it reads what matches when the first rows are asked for.
    unread: Option<Document>,
    /// It was opened through the second Sundown. Drivers continue a cursor where they have opened it.
    switched: bool,
}

pub type StepResult = Result<(), String>;

// === impl Setting ===

impl Setting {
    /// Starts a server with this setting.
    pub fn world(self) -> World {
        let clock = Clock::frozen(Millis(START));
        let mut world = World::with(self.reaper, clock, |config| {
            config.writes_outside_lock = self.writes_outside_lock;
        });
        if self.two_sundowns {
            world.start_second();
        }
        world
    }
}

// === impl Run ===

impl Run {
    pub fn new(setting: Setting) -> Self {
        let mut model = Model::default();
        model.move_to(START);
        Self {
            world: setting.world(),
            switched: false,
            model,
            cursors: [const { None }; SLOTS],
            last: None,
            session: bson::Uuid::new(),
            transaction: 0,
        }
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    pub fn finish(&mut self) -> StepResult {
        self.check()
    }

    /// Returns how many updates the Sundown in front of a cluster has sent without predicate.
    pub fn updates_without_predicate(&mut self) -> i64 {
        let status = self.world.raw(doc! {"serverStatus": 1});
        let upstream = status.get_document("upstream").ok();
        let updates = upstream.and_then(|of| of.get_document("updatesWithoutPredicate").ok());
        updates.map_or(0, |updates| updates.get_i64("sent").unwrap())
    }

    pub fn step(&mut self, step: &Step) -> StepResult {
        match step {
            Step::Command(command) => self.command(command, false).map(drop),
            Step::Retryable(command) => self.command(command, true),
            Step::Resend => self.resend(),
            Step::Advance(millis) => {
                self.model.move_to(self.model.now + millis);
                self.world.clock.set(Millis(self.model.now));
                Ok(())
            }
            Step::NextEnd(offset) => {
                if let Some(end) = next_end(&self.model) {
                    self.model.move_to(end + offset);
                    self.world.clock.set(Millis(self.model.now));
                }
                Ok(())
            }
            Step::Travel(millis) => {
                self.model.move_to(self.model.now + millis);
                let told = self
                    .world
                    .raw(doc! {"timeTravel": 1, "advanceSeconds": *millis as f64 / 1000.0});
                let now = told
                    .get_datetime("now")
                    .map_err(|_| told.to_string())?
                    .timestamp_millis();
                if now == self.model.now {
                    Ok(())
                } else {
                    Err(format!("it is {now} instead of {}", self.model.now))
                }
            }
            Step::Reaper(on) => {
                self.world.reaper(*on);
                Ok(())
            }
            Step::Breathe => {
                self.world.clock.unfreeze();
                self.world.clock.freeze();
                self.model.move_to(self.world.now());
                Ok(())
            }
            Step::Switch => {
                self.switch();
                Ok(())
            }
            Step::Open(slot, command) => self.open(*slot, command),
            Step::More(slot, size) => self.more(*slot, *size),
            Step::Check => self.check(),
        }
    }

    fn switch(&mut self) {
        self.switched = !self.switched;
        self.world.switch();
    }

    fn command(&mut self, command: &Document, retryable: bool) -> StepResult {
        let verb = command.keys().next().expect("a command").clone();
        let before = self.model.collections.clone();
        let Some(expected) = expect(&mut self.model, command) else {
            // The command is not sent, so the model must not run it either.
            self.model.collections = before;
            return Ok(());
        };
        match verb.as_str() {
            "dropIndexes" => self.drop_index(command),
            "collMod" if in_front_of_cluster() && drops_index(command) => self.drop_index(command),
            // A collection that is replaced by another loses its cursors.
            "aggregate" if command.to_string().contains("$out") => {
                self.cursors = [const { None }; SLOTS];
            }
            "drop" | "renameCollection" => self.cursors = [const { None }; SLOTS],
            _ => {}
        }
        let mut sent = command.clone();
        if retryable {
            self.transaction += 1;
            sent.insert("lsid", doc! {"id": self.session});
            sent.insert("txnNumber", self.transaction);
        }
        let reply = self.world.raw(sent.clone());
        compare_reply(&expected, &reply, &mut self.world)
            .map_err(|problem| format!("{command}\n  {problem}\n  reply: {reply}"))?;
        if retryable {
            let is_kept = failure(&reply).is_none() && is_remembered(&sent, &reply);
            self.last = is_kept.then_some((sent, reply));
        }
        Ok(())
    }

    /// Checks that a repeated write gets the same reply as before, whatever has happened since.
    fn resend(&mut self) -> StepResult {
        let Some((command, first)) = self.last.clone() else {
            return Ok(());
        };
        self.model.begin();
        let again = self.world.raw(command.clone());
        for field in ["n", "nModified", "value", "upserted", "lastErrorObject"] {
            let of = |reply: &Document| same_value_of(reply, field);
            if of(&first) != of(&again) {
                return Err(format!(
                    "{command}\n  sent again: {again}\n  before: {first}"
                ));
            }
        }
        Ok(())
    }

    fn open(&mut self, slot: usize, command: &Document) -> StepResult {
        self.model.begin();
        let (_, collection) = command.iter().next().expect("a command");
        let collection = collection.as_str().expect("a collection").to_owned();
        let with_ts = expect::names_ts(command);
        let filter = match command.get_array("pipeline") {
            Ok(stages) => stages[0].as_document().expect("a stage")["$match"].as_document(),
            Err(_) => command.get_document("filter").ok(),
        };
        let filter = filter.expect("a filter");
        let found = self.model.get(&collection).matching(filter, with_ts);
        let reply = self.world.raw(command.clone());
        if let Some((code, _)) = failure(&reply) {
            let hint = expect::bad_hint(self.model.collections.get(&collection), command);
            return if code == 2 && hint {
                Ok(())
            } else {
                Err(format!("{command}\n  {reply}"))
            };
        }
        let (rows, id, _) = batch(&reply);
        let mut cursor = Cursor {
            id,
            collection,
            opened: self.model.commands,
            due: found,
            returned: Vec::new(),
            index_dropped: false,
            with_ts,
            reads_ahead: reads_ahead(command),
            unread: rows.is_empty().then(|| filter.clone()),
            switched: self.switched,
        };
        cursor
            .receive(&rows, &self.model)
            .map_err(|problem| format!("{command}\n  {problem}"))?;
        self.cursors[slot] = (id != 0).then_some(cursor);
        Ok(())
    }

    /// Notes that an index of a collection is dropped, for the cursors that are open.
    fn drop_index(&mut self, command: &Document) {
        let collection = command.values().next().and_then(Bson::as_str);
        for cursor in self.cursors.iter_mut().flatten() {
            cursor.index_dropped |= Some(cursor.collection.as_str()) == collection;
        }
    }

    fn more(&mut self, slot: usize, size: i32) -> StepResult {
        let Some(mut cursor) = self.cursors[slot].take() else {
            return Ok(());
        };
        self.model.begin();
        if let Some(filter) = cursor.unread.take() {
            let collection = self.model.get(&cursor.collection);
            cursor
                .due
                .extend(collection.matching(&filter, cursor.with_ts));
        }
        let is_elsewhere = cursor.switched != self.switched;
        if is_elsewhere {
            self.switch();
        }
        let reply = self
            .world
            .raw(doc! {"getMore": cursor.id, "collection": &cursor.collection, "batchSize": size});
        if is_elsewhere {
            self.switch();
        }
        if let Some((code, _)) = failure(&reply) {
            // An index that the cursor reads was dropped, or a capped collection has removed the document at the cursor's
            // position.
            let gone = code == 175 && cursor.index_dropped;
            let lost = code == 136 && cursor.collection == CAPPED;
            return if gone || lost {
                Ok(())
            } else {
                Err(format!("getMore: {reply}"))
            };
        }
        let (rows, id, _) = batch(&reply);
        cursor.id = id;
        cursor
            .receive(&rows, &self.model)
            .map_err(|problem| format!("getMore: {problem}\n  {reply}"))?;
        self.cursors[slot] = (id != 0).then_some(cursor);
        Ok(())
    }

    /// Checks all contents in every possible way.
    fn check(&mut self) -> StepResult {
        self.model.begin();
        let documents = self.model.collections.values().map(|c| c.docs.len());
        let documents = documents.sum::<usize>() as i64;
        let figures = self.world.raw(doc! {"dbStats": 1});
        if figures.get("objects").and_then(int) != Some(documents) {
            return Err(format!("{documents} documents, but dbStats: {figures}"));
        }
        let names: Vec<String> = self.model.collections.keys().cloned().collect();
        for name in names {
            self.model.begin();
            let collection = self.model.get(&name);
            let all: Vec<Document> = collection
                .docs
                .iter()
                .map(|stored| Collection::seen(stored, true))
                .collect();
            let rows = self.world.rows(
                doc! {"find": &name, "filter": {"_ts": {"$exists": true}}, "hint": {"$natural": 1}},
            );
            // Declared in UPSTREAM.md: statements of an unordered command that meet ended documents are sent once more, and so
            // come later.
            let compare_rows = if in_front_of_cluster() { set } else { ordered };
            compare_rows(&all, &rows)
                .map_err(|problem| format!("{name} in natural order: {problem}"))?;
            let plain: Vec<Document> = collection
                .docs
                .iter()
                .map(|stored| stored.doc.clone())
                .collect();
            for index in collection.indexes.iter().filter(|index| index.is_whole()) {
                let rows = self.world.rows(doc! {"find": &name, "hint": index.name()});
                set(&plain, &rows)
                    .map_err(|problem| format!("{name} through {}: {problem}", index.name()))?;
            }
            let stats = self.world.raw(doc! {"collStats": &name});
            let bytes: usize = plain
                .iter()
                .map(|doc| doc.to_vec().expect("encodes").len())
                .sum();
            for (field, expected) in [("count", plain.len()), ("size", bytes)] {
                if stats.get(field).and_then(int) != Some(expected as i64) {
                    return Err(format!(
                        "{name}: collStats.{field} is not {expected}: {stats}"
                    ));
                }
            }
            let found = self.world.raw(doc! {"validate": &name});
            let records = found.get("nrecords").and_then(int);
            if records != Some(plain.len() as i64) {
                return Err(format!("{name}: validate: {found}"));
            }
            let listed = self.world.rows(doc! {"listIndexes": &name});
            if listed.len() as i64 != collection.index_count() {
                return Err(format!(
                    "{name}: {} indexes, but {listed:?}",
                    collection.index_count()
                ));
            }
        }
        Ok(())
    }
}

// === impl Cursor ===

impl Cursor {
    /// Takes in the rows. At the end, no document may be missing that existed all the time and was not changed.
    fn receive(&mut self, rows: &[Document], model: &Model) -> StepResult {
        let collection = model.get(&self.collection);
        for row in rows {
            let id = row.get("_id").ok_or("a row without _id")?;
            let Some(stored) = collection
                .docs
                .iter()
                .find(|stored| equal(&stored.doc["_id"], id))
            else {
                // One that has ended is never returned. If it was changed meanwhile, the row shows how it was before; a Sundown as
                // cluster notices at least that one is deleted.
                let as_it_was = |(stored, seen): &(Stored, Document)| {
                    let end = collection.end(stored);
                    let ended = model.has_ended(stored) || end.is_some_and(|end| model.now >= end);
                    let noticed = genuine_cluster().is_none() && !model.has_ended_changed(stored);
                    same(row, seen) && !ended && !noticed
                };
                if self.reads_ahead && self.due.iter().any(as_it_was) {
                    continue;
                }
                return Err(format!("{row} is no document any more"));
            };
            if stored.written > self.opened {
                continue;
            }
            if !self.due.iter().any(|(due, _)| due.uid == stored.uid) {
                return Err(format!("{row} does not match"));
            }
            if self.returned.contains(&stored.uid) {
                return Err(format!("{row} comes twice"));
            }
            if !same(row, &Collection::seen(stored, self.with_ts)) {
                return Err(format!("{row} instead of {}", stored.doc));
            }
            self.returned.push(stored.uid);
        }
        if self.id != 0 {
            return Ok(());
        }
        for (due, seen) in &self.due {
            let untouched = collection
                .docs
                .iter()
                .any(|stored| stored.uid == due.uid && stored.written <= self.opened);
            if untouched && !self.returned.contains(&due.uid) {
                return Err(format!("the cursor is at its end and {seen} did not come"));
            }
        }
        Ok(())
    }
}

/// Returns whether a collMod drops an index in a cluster. Declared: those that serve a default go with it. And a genuine mongod
/// ends the cursors that read an index whose expiry is changed, as if it were dropped.
fn drops_index(command: &Document) -> bool {
    let switches_off = command.get("defaultTtl") == Some(&Bson::Null);
    switches_off || (genuine_cluster().is_some() && command.contains_key("index"))
}

/// Returns whether a cluster may read documents long before it returns them, with or without Sundown: to sort them, or, if it
/// is a genuine mongod, because documents are read ahead of the stages of a pipeline, up to 4 MB.
fn reads_ahead(command: &Document) -> bool {
    let sorts = command.contains_key("sort") || command.contains_key("pipeline");
    in_front_of_cluster() && sorts
}

/// Returns whether the server answers a repeated write from its history, in the same way. Statements that matched nothing are run
/// again. MongoDB also runs those again that changed nothing, and forgets the projection of a findAndModify.
fn is_remembered(command: &Document, reply: &Document) -> bool {
    let of = |reply: &Document, name: &str| reply.get(name).and_then(int);
    let genuine = genuine_cluster().is_some();
    let lists = ["documents", "updates", "deletes"];
    let statements = lists.iter().find_map(|name| command.get_array(name).ok());
    match statements {
        Some(all) => {
            let n = of(reply, "n");
            let changed = of(reply, "nModified").is_none_or(|changed| Some(changed) == n);
            n == Some(all.len() as i64) && (changed || !genuine)
        }
        None => {
            let last = reply.get_document("lastErrorObject");
            let found = last.is_ok_and(|last| of(last, "n") == Some(1));
            found && !(genuine && command.contains_key("fields"))
        }
    }
}
