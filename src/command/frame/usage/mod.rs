//! How often the collections are used, by what, and how long that takes: `top`, `latencyStats` and `opLatencies`.
//!
//! A command is counted when its reply is written, under the collection that it names. The counts are split into the same
//! shards as [`Counters`], so that connections on different cores seldom wait for each other.

mod command_use;

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;

use super::counters::{Counters, SHARDS};
use super::{Client, Command, Context};
use crate::latency::{Histogram, Stopwatch};
use crate::value::{Doc, DocBuilder, ValueRef};
use crate::wire::Request;

use command_use::{CLASSES, CommandClass, CommandUse, EVENTS, Locked};

#[derive(Default)]
pub struct Usage {
    shards: [Mutex<UsageShard>; SHARDS],
}

#[derive(Default)]
struct UsageShard {
    /// The latencies of all commands, by [`CommandClass`].
    all: [Histogram; CLASSES.len()],
    collections: HashMap<String, CollectionUsage, ahash::RandomState>,
    /// The name by which a collection is looked up. It is kept for its memory.
    name: String,
    /// When there are so many entries, those without a collection are removed.
    sweep_at: usize,
}

/// How a collection was used.
#[derive(Debug, Clone, Default)]
pub struct CollectionUsage {
    latencies: [Histogram; CLASSES.len()],
    events: [EventCount; EVENTS.len()],
    read_lock: EventCount,
    write_lock: EventCount,
}

#[derive(Debug, Clone, Copy, Default)]
struct EventCount {
    micros: u64,
    count: u64,
}

/// Behind the classes come the transactions.
const TRANSACTIONS: &str = "transactions";

/// Commands that are over, all alike.
#[derive(Clone, Copy)]
pub(super) struct Used<'a> {
    pub command: &'static Command,
    pub database: &'a str,
    /// The value by which the command names its collection, or a missing one. It is only looked into when it is counted.
    pub name: ValueRef<'a>,
    pub commands: u64,
    /// How many statements they had together, if statements count on their own.
    pub statements: u64,
}

/// So many collections may be counted before entries without a collection are looked for.
const MANY: usize = 1024;

// === impl Used ===

impl<'a> Used<'a> {
    /// Describes a command with this value in its first field. The statements are counted if they are in the request.
    #[inline]
    pub fn new(
        command: &'static Command,
        database: &'a str,
        first: ValueRef<'a>,
        body: Doc<'a>,
        request: Option<&Request>,
    ) -> Self {
        let row = CommandUse::of(command);
        let list = row.and_then(|row| row.statements).zip(request);
        let statements = list.map_or(1, |(list, request)| match request.sequence(list) {
            Some(sequence) => sequence.iter().count(),
            None => body.get(list).as_array().map_or(0, Doc::count),
        });
        Self {
            command,
            database,
            name: row.map_or(ValueRef::MISSING, |row| row.name(first, body)),
            commands: 1,
            statements: statements as u64,
        }
    }
}

// === impl Usage ===

impl Usage {
    /// Counts commands that took so long together. `exists` tells whether there is a collection.
    fn note(
        &self,
        shard: usize,
        used: &Used<'_>,
        micros: u64,
        exists: impl Fn(&str, &str) -> bool,
    ) {
        let Some(shard) = self.shards.get(shard) else {
            return;
        };
        let row = CommandUse::of(used.command);
        let class = row.map_or(CommandClass::Commands, |row| row.class);
        let mut shard = shard.lock();
        shard.all[class as usize].add(micros, used.commands);
        if let Some(row) = row
            && let Some(names) = row.collection(used.database, used.name)
        {
            shard.note(names, exists, |usage| {
                usage.note(row, micros, used.statements);
            });
        }
    }

    /// Forgets a collection that was dropped or renamed.
    pub(in crate::command) fn forget_collection(&self, namespace: &str) {
        for shard in &self.shards {
            shard.lock().collections.remove(namespace);
        }
    }

    pub(in crate::command) fn forget_database(&self, database: &str) {
        for shard in &self.shards {
            let kept = |namespace: &String, _: &mut _| {
                namespace.split_once('.').map(|(database, _)| database) != Some(database)
            };
            shard.lock().collections.retain(kept);
        }
    }

    /// Returns how one collection was used.
    pub(in crate::command) fn collection(&self, namespace: &str) -> CollectionUsage {
        let mut sum = CollectionUsage::default();
        for shard in &self.shards {
            if let Some(usage) = shard.lock().collections.get(namespace) {
                sum.merge(usage);
            }
        }
        sum
    }

    /// Returns how all collections were used that are known here, by their full names.
    pub(in crate::command) fn collections(&self) -> BTreeMap<String, CollectionUsage> {
        let mut sums: BTreeMap<String, CollectionUsage> = BTreeMap::new();
        for shard in &self.shards {
            for (namespace, usage) in &shard.lock().collections {
                match sums.get_mut(namespace) {
                    Some(sum) => sum.merge(usage),
                    None => drop(sums.insert(namespace.clone(), usage.clone())),
                }
            }
        }
        sums
    }

    /// Writes the latencies of all commands, and of all transactions.
    pub(in crate::command) fn put_all(
        &self,
        transactions: &Histogram,
        with_buckets: bool,
        out: &mut DocBuilder<'_>,
    ) {
        let mut sums: [Histogram; CLASSES.len()] = Default::default();
        for shard in &self.shards {
            for (sum, more) in sums.iter_mut().zip(&shard.lock().all) {
                sum.merge(more);
            }
        }
        put_latencies(&sums, transactions, with_buckets, out);
    }
}

fn put_latencies(
    classes: &[Histogram],
    transactions: &Histogram,
    with_buckets: bool,
    out: &mut DocBuilder<'_>,
) {
    for (name, histogram) in CLASSES.iter().zip(classes) {
        histogram.put(name, with_buckets, out);
    }
    transactions.put(TRANSACTIONS, with_buckets, out);
}

// === impl Context ===

impl Context {
    /// Counts a command that is over. It is one of many like it if nobody has measured it.
    #[inline]
    pub(super) fn note_usage(
        &self,
        client: &Client,
        used: &Used<'_>,
        stopwatch: Option<&Stopwatch>,
    ) {
        let micros = stopwatch.map(Stopwatch::micros);
        client.repeats.note(used, micros, |used, micros| {
            self.count(client, used, micros)
        });
    }

    /// Counts the commands of a connection that wait to be counted.
    pub(super) fn count_waiting(&self, client: &Client) {
        let count = |used: &Used<'_>, micros| self.count(client, used, micros);
        client.repeats.flush(count);
    }

    fn count(&self, client: &Client, used: &Used<'_>, micros: u64) {
        let exists = |database: &str, name: &str| {
            let found = self.catalog.get(database, name);
            found.is_ok_and(|found| found.is_some())
        };
        let shard = Counters::shard(client.id);
        self.usage.note(shard, used, micros, exists);
    }

    /// Returns the counts, up to the latest command of every connection.
    pub(in crate::command) fn usage(&self) -> &Usage {
        let clients: Vec<_> = self.clients.iter().map(|client| client.clone()).collect();
        for client in clients {
            self.count_waiting(&client);
        }
        &self.usage
    }
}

// === impl UsageShard ===

impl UsageShard {
    /// Counts a command under its collection. As in MongoDB, the collection need not exist.
    fn note(
        &mut self,
        (database, name): (&str, &str),
        exists: impl Fn(&str, &str) -> bool,
        count: impl Fn(&mut CollectionUsage),
    ) {
        self.name.clear();
        self.name.push_str(database);
        self.name.push('.');
        self.name.push_str(name);
        if let Some(known) = self.collections.get_mut(self.name.as_str()) {
            count(known);
            return;
        }
        self.make_room(exists);
        count(self.collections.entry(self.name.clone()).or_default());
    }

    /// Removes the entries without a collection when there are many entries, so that nobody fills the memory with names.
    #[cold]
    fn make_room(&mut self, exists: impl Fn(&str, &str) -> bool) {
        if self.collections.len() < self.sweep_at.max(MANY) {
            return;
        }
        self.collections.retain(|namespace, _| {
            let names = namespace.split_once('.');
            names.is_some_and(|(database, name)| exists(database, name))
        });
        self.sweep_at = self.collections.len() * 2;
    }
}

// === impl CollectionUsage ===

impl CollectionUsage {
    fn note(&mut self, row: &CommandUse, micros: u64, statements: u64) {
        self.latencies[row.class as usize].add(micros, statements);
        self.events[row.event as usize].add(micros, statements);
        match row.locked {
            Locked::No => {}
            Locked::Shared => self.read_lock.add(micros, statements),
            Locked::Exclusively => self.write_lock.add(micros, statements),
        }
    }

    fn merge(&mut self, other: &Self) {
        for (sum, more) in self.latencies.iter_mut().zip(&other.latencies) {
            sum.merge(more);
        }
        for (sum, more) in self.events.iter_mut().zip(&other.events) {
            sum.add(more.micros, more.count);
        }
        self.read_lock
            .add(other.read_lock.micros, other.read_lock.count);
        self.write_lock
            .add(other.write_lock.micros, other.write_lock.count);
    }

    /// Writes `latencyStats`. A transaction belongs to no collection.
    pub(in crate::command) fn put_latencies(&self, with_buckets: bool, out: &mut DocBuilder<'_>) {
        put_latencies(&self.latencies, &Histogram::default(), with_buckets, out);
    }

    /// Writes the entry of `top`.
    pub(in crate::command) fn put_events(&self, out: &mut DocBuilder<'_>) {
        let mut total = EventCount::default();
        for histogram in &self.latencies {
            total.add(histogram.micros(), histogram.operations());
        }
        total.put("total", out);
        self.read_lock.put("readLock", out);
        self.write_lock.put("writeLock", out);
        for (name, event) in EVENTS.iter().zip(&self.events) {
            event.put(name, out);
        }
    }
}

// === impl EventCount ===

impl EventCount {
    fn add(&mut self, micros: u64, count: u64) {
        self.micros += micros;
        self.count += count;
    }

    fn put(self, name: &str, out: &mut DocBuilder<'_>) {
        let mut shown = out.doc(name);
        shown
            .put_i64("time", self.micros.cast_signed())
            .put_i64("count", self.count.cast_signed());
        shown.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::find;
    use crate::command::tests::server::{ask, server};
    use crate::config::Config;
    use crate::value::DocBuf;
    use bson::doc;

    fn note(usage: &Usage, shard: usize, body: bson::Document, exists: bool) {
        let body = DocBuf::from(body);
        let first = body.as_doc().first().unwrap();
        let command = find(first.name_bytes()).unwrap();
        let used = Used::new(command, "db", first.value, body.as_doc(), None);
        usage.note(shard, &used, 7, |_, _| exists);
    }

    #[test]
    fn a_collection_is_counted_under_the_name_that_a_command_has_for_it() {
        let usage = Usage::default();
        for (shard, body) in [
            doc! {"find": "c"},
            doc! {"getMore": 1i64, "collection": "c"},
            doc! {"explain": {"count": "c"}},
            doc! {"dataSize": "db.c"},
            doc! {"getMore": 1i64, "collection": "$cmd.aggregate"},
            doc! {"aggregate": 1},
            doc! {"find": "x".repeat(300)},
        ]
        .into_iter()
        .enumerate()
        {
            note(&usage, shard % SHARDS, body, true);
        }
        let all = usage.collections();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["db.c"]);
        let [commands, reads, writes] = usage
            .collection("db.c")
            .latencies
            .map(|histogram| (histogram.operations(), histogram.micros()));
        assert_eq!((commands, reads, writes), ((2, 14), (2, 14), (0, 0)));
        usage.forget_database("d");
        assert_eq!(usage.collections().len(), 1);
        usage.forget_database("db");
        assert!(usage.collections().is_empty());
    }

    /// The counts are those of mongod 6.0.5.
    #[test]
    fn top_counts_what_each_command_does_to_a_collection() {
        let mut server = server(Config::default());
        let top = |server: &mut _| {
            let reply = ask(server, doc! {"top": 1, "$db": "admin"});
            let Ok(usage) = reply
                .get_document("totals")
                .and_then(|all| all.get_document("db.c"))
            else {
                return Vec::new();
            };
            let counted = usage.iter().map(|(name, event)| {
                let event = event.as_document().unwrap();
                let (time, count) = (
                    event.get_i64("time").unwrap(),
                    event.get_i64("count").unwrap(),
                );
                assert_eq!(time > 0, count > 0, "{name}: {event}");
                (name.clone(), count)
            });
            counted.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        assert_eq!(top(&mut server), []);
        let update = doc! {"q": {"_id": 1}, "u": {"$set": {"a": 1}}};
        for (command, counted) in [
            (
                doc! {"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]},
                &[("total", 1), ("writeLock", 1), ("insert", 1)][..],
            ),
            (
                doc! {"update": "c", "updates": [update.clone(), update]},
                &[("total", 3), ("writeLock", 3), ("insert", 1), ("update", 2)],
            ),
            (
                doc! {"find": "c"},
                &[
                    ("total", 4),
                    ("readLock", 1),
                    ("writeLock", 3),
                    ("queries", 1),
                    ("insert", 1),
                    ("update", 2),
                ],
            ),
            (
                doc! {"count": "c"},
                &[
                    ("total", 5),
                    ("readLock", 2),
                    ("writeLock", 3),
                    ("queries", 1),
                    ("insert", 1),
                    ("update", 2),
                    ("commands", 1),
                ],
            ),
            (doc! {"drop": "c"}, &[]),
            (
                doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
                &[("total", 1), ("writeLock", 1), ("remove", 1)],
            ),
        ] {
            let mut sent = command.clone();
            sent.insert("$db", "db");
            ask(&mut server, sent);
            let counted: Vec<_> = counted
                .iter()
                .map(|(name, n)| ((*name).to_owned(), *n))
                .collect();
            assert_eq!(top(&mut server), counted, "{command}");
        }
    }

    #[test]
    fn names_without_a_collection_do_not_fill_the_memory() {
        let usage = Usage::default();
        for at in 0..5 * MANY {
            note(&usage, 0, doc! {"find": format!("c{at}")}, false);
        }
        assert!(usage.collections().len() <= MANY);
        for at in 0..5 * MANY {
            note(&usage, 1, doc! {"find": format!("d{at}")}, true);
        }
        assert!(usage.collections().len() >= 5 * MANY);
    }
}
