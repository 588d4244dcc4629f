//! A client that runs random transactions and single statements.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{RwLock, RwLockReadGuard};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use sundown::clock::{Clock, Millis, monotonic};

use super::record::{Act, COLLECTIONS, Ending, Key, Push, Row, Statement, Unit, Wanted};
use crate::support::client::Client;
use crate::support::dice::Dice;
use crate::support::world::{DB, failure, int};

const LOCK_TIMEOUT: i64 = 24;
const WRITE_CONFLICT: i64 = 112;
const DUPLICATE: i64 = 11_000;
const NO_SUCH_TRANSACTION: i64 = 251;
const INTERRUPTED: i64 = 11_601;
/// How long clients and the clock wait for each other.
const PATIENCE: Duration = Duration::from_millis(5);
/// The documents of each collection.
pub const IDS: u64 = 6;

/// What all clients share.
pub struct Stage {
    pub clock: Clock,
    /// Held shared while a statement runs, so that it has one `now`; exclusively while the clock moves.
    moving: RwLock<()>,
    /// Somebody wants to move the clock: clients give way for a moment.
    wants_to_move: AtomicBool,
    ticks: AtomicU64,
    tags: AtomicI64,
    /// Whether sessions are killed meanwhile.
    kills: bool,
    pub over: AtomicBool,
}

pub struct Player<'a> {
    stage: &'a Stage,
    client: Client,
    dice: Dice,
    lsid: Document,
    txn: i64,
    pub units: Vec<Unit>,
}

/// How a command is part of a transaction.
#[derive(Clone, Copy)]
enum Place {
    Outside,
    First,
    Inside,
}

// === impl Stage ===

impl Stage {
    pub fn new(clock: Clock, kills: bool) -> Self {
        Self {
            clock,
            moving: RwLock::new(()),
            wants_to_move: AtomicBool::new(false),
            ticks: AtomicU64::new(1),
            tags: AtomicI64::new(1),
            kills,
            over: AtomicBool::new(false),
        }
    }

    fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::SeqCst)
    }

    /// Moves the clock while no statement runs, unless a client waits for a transaction for too long.
    pub fn advance(&self, millis: i64) {
        self.wants_to_move.store(true, Ordering::SeqCst);
        let until = monotonic() + PATIENCE;
        while monotonic() < until {
            if let Ok(_alone) = self.moving.try_write() {
                self.clock.set(Millis(self.clock.now().0 + millis));
                break;
            }
            std::thread::yield_now();
        }
        self.wants_to_move.store(false, Ordering::SeqCst);
    }

    /// Keeps the clock still. A client does not wait for long before it goes on: another one may hold the clock while it waits
    /// for this one's transaction.
    fn hold_still(&self) -> RwLockReadGuard<'_, ()> {
        let until = monotonic() + PATIENCE;
        while self.wants_to_move.load(Ordering::SeqCst) && monotonic() < until {
            std::thread::yield_now();
        }
        self.moving.read().expect("no mover panics")
    }
}

/// Returns the session of a client.
pub fn lsid(seed: u64, number: usize) -> Document {
    let mut id = vec![7; 16];
    id[..8].copy_from_slice(&seed.to_le_bytes());
    id[8..].copy_from_slice(&(number as u64).to_le_bytes());
    let subtype = BinarySubtype::Uuid;
    doc! {"id": Binary { subtype, bytes: id }}
}

// === impl Player ===

impl<'a> Player<'a> {
    pub fn new(stage: &'a Stage, client: Client, number: usize, seed: u64) -> Self {
        Self {
            stage,
            client,
            dice: Dice((seed << 8) + 77 * number as u64 + 1),
            lsid: lsid(seed, number),
            txn: 0,
            units: Vec::new(),
        }
    }

    pub fn play(&mut self, units: usize) {
        for _ in 0..units {
            match self.dice.below(4) {
                0 => self.plain(),
                _ => self.transaction(),
            }
        }
    }

    fn plain(&mut self) {
        let statement = match self.dice.below(6) {
            0 => self.find(Place::Outside),
            1 | 2 => self.update(Place::Outside),
            3 => self.modify(Place::Outside),
            4 => self.insert(Place::Outside),
            _ => self.remove(Place::Outside),
        };
        let failed = matches!(statement.act, Act::Failed);
        assert!(
            !failed,
            "a statement outside transactions waits and does not fail"
        );
        self.keep(vec![statement], Ending::Plain);
    }

    fn keep(&mut self, statements: Vec<Statement>, ending: Ending) {
        self.units.push(Unit { statements, ending });
    }

    fn transaction(&mut self) {
        self.txn += 1;
        let mut statements: Vec<Statement> = Vec::new();
        for nth in 0..=self.dice.below(6) {
            let place = if nth == 0 {
                Place::First
            } else {
                Place::Inside
            };
            match self.dice.below(9) {
                0..=2 => statements.push(self.find(place)),
                3 | 4 => statements.push(self.update(place)),
                5 => statements.push(self.update_many(place)),
                6 => statements.push(self.modify(place)),
                7 => statements.push(self.insert(place)),
                _ if nth > 0 && self.dice.below(2) == 0 => self.delete(&mut statements),
                _ => statements.push(self.remove(place)),
            }
            let act = &statements.last().expect("one was run").act;
            if matches!(
                act,
                Act::Failed
                    | Act::Insert {
                        is_duplicate: true,
                        ..
                    }
            ) {
                return self.keep(statements, Ending::Aborted);
            }
        }
        let ending = match self.dice.below(8) {
            0 => {
                let (reply, ..) = self.run("admin", doc! {"abortTransaction": 1}, Place::Inside);
                let is_gone = matches!(failure(&reply), Some((NO_SUCH_TRANSACTION, _)));
                assert!(is_gone && self.stage.kills || failure(&reply).is_none());
                Ending::Aborted
            }
            _ => self.commit(),
        };
        self.keep(statements, ending);
    }

    fn commit(&mut self) -> Ending {
        let commit = doc! {"commitTransaction": 1};
        let (reply, now, begin, end) = self.run("admin", commit.clone(), Place::Inside);
        let committed = match failure(&reply) {
            None => Ending::Committed { now, begin, end },
            Some((WRITE_CONFLICT, _)) => Ending::Aborted,
            Some((NO_SUCH_TRANSACTION, _)) if self.stage.kills => Ending::Aborted,
            Some(other) => panic!("{other:?}"),
        };
        if self.dice.below(3) == 0 {
            // A repeated commit says what became of the transaction.
            let (again, ..) = self.run("admin", commit, Place::Inside);
            assert_eq!(
                failure(&again).is_none(),
                committed != Ending::Aborted,
                "{again}"
            );
        }
        committed
    }

    /// Runs a command. Returns its reply, the server's clock, and the ticks before and after.
    fn run(&mut self, db: &str, mut command: Document, place: Place) -> (Document, i64, u64, u64) {
        if !matches!(place, Place::Outside) {
            command.insert("lsid", self.lsid.clone());
            command.insert("txnNumber", self.txn);
            command.insert("autocommit", false);
        }
        if matches!(place, Place::First) {
            command.insert("startTransaction", true);
            if self.dice.below(2) == 0 {
                command.insert("readConcern", doc! {"level": "snapshot"});
            }
        }
        let _still = self.stage.hold_still();
        let now = self.stage.clock.now().0;
        let begin = self.stage.tick();
        let reply = self.client.command(db, command).expect("a reply");
        (reply, now, begin, self.stage.tick())
    }

    fn statement(
        &mut self,
        command: Document,
        place: Place,
        read: impl FnOnce(&Document) -> Act,
    ) -> Statement {
        let shown = command.to_string();
        let (reply, now, begin, end) = self.run(DB, command, place);
        let act = match failure(&reply) {
            None | Some((DUPLICATE, _)) => read(&reply),
            Some((INTERRUPTED, _)) if self.stage.kills && !matches!(place, Place::Outside) => {
                Act::Failed
            }
            Some((code, _))
                if matches!(code, WRITE_CONFLICT | LOCK_TIMEOUT)
                    || code == NO_SUCH_TRANSACTION && self.stage.kills =>
            {
                let labels = reply.get_array("errorLabels").expect("labels");
                assert_eq!(labels[..], [Bson::from("TransientTransactionError")]);
                Act::Failed
            }
            Some(other) => panic!("{shown}\n  {other:?}"),
        };
        Statement {
            act,
            now,
            begin,
            end,
        }
    }

    fn key(&mut self) -> Key {
        let collection = self.dice.below(COLLECTIONS.len() as u64) as usize;
        (collection, self.dice.below(IDS) as i32)
    }

    fn push(&mut self, upsert: bool) -> Push {
        let key = self.key();
        let ttl = match self.dice.below(6) {
            0 if key.0 == 1 => Some([-1, 2, 9][self.dice.below(3) as usize]),
            _ => None,
        };
        Push {
            key,
            tag: self.stage.tags.fetch_add(1, Ordering::Relaxed),
            inc: self.dice.below(3) as i64,
            ttl,
            upsert,
        }
    }

    fn wanted(&mut self) -> Wanted {
        let (a, b) = (self.dice.below(IDS) as i32, self.dice.below(IDS) as i32);
        match self.dice.below(6) {
            0 | 1 => Wanted::Id(a),
            2 => Wanted::Ids(a.min(b), a.max(b)),
            3 | 4 => Wanted::AtLeast(i64::from(a)),
            _ => Wanted::All,
        }
    }

    fn find(&mut self, place: Place) -> Statement {
        let (collection, wanted) = (self.key().0, self.wanted());
        self.find_wanted(place, collection, wanted)
    }

    fn find_wanted(&mut self, place: Place, collection: usize, wanted: Wanted) -> Statement {
        let mut command = doc! {"find": COLLECTIONS[collection], "filter": wanted.filter()};
        match self.dice.below(4) {
            0 => drop(command.insert("sort", doc! {"n": -1})),
            1 => drop(command.insert("sort", doc! {"_id": -1})),
            _ => {}
        }
        self.statement(command, place, |reply| {
            let cursor = reply.get_document("cursor").expect("a cursor");
            let batch = cursor.get_array("firstBatch").expect("a batch").iter();
            let found = batch.map(|row| Row::of(row.as_document().expect("a document")));
            let mut rows = BTreeMap::new();
            for (id, row) in found {
                assert!(rows.insert(id, row).is_none(), "{id} twice in {reply}");
            }
            Act::Find {
                collection,
                wanted,
                rows,
            }
        })
    }

    fn update(&mut self, place: Place) -> Statement {
        let upsert = self.dice.below(4) == 0;
        let push = self.push(upsert);
        let one = doc! {"q": {"_id": push.key.1}, "u": push.update(), "upsert": push.upsert};
        let command = doc! {"update": COLLECTIONS[push.key.0], "updates": [one]};
        self.statement(command, place, |reply| {
            let upserted = reply.contains_key("upserted");
            let n = reply.get("n").and_then(int).expect("n");
            assert!(!upserted || push.upsert && n == 1, "{reply}");
            Act::Update {
                push,
                matched: n == 1 && !upserted,
            }
        })
    }

    fn update_many(&mut self, place: Place) -> Statement {
        let Push { key, tag, .. } = self.push(false);
        let (collection, a) = key;
        let b = self.key().1;
        let ids = (a.min(b), a.max(b));
        let one = doc! {
            "q": Wanted::Ids(ids.0, ids.1).filter(),
            "u": {"$push": {"list": tag}},
            "multi": true,
        };
        let command = doc! {"update": COLLECTIONS[collection], "updates": [one]};
        self.statement(command, place, |reply| Act::UpdateMany {
            collection,
            ids,
            tag,
            matched: reply.get("n").and_then(int).expect("n"),
        })
    }

    fn modify(&mut self, place: Place) -> Statement {
        let upsert = self.dice.below(4) == 0;
        let (push, new) = (self.push(upsert), self.dice.below(2) == 0);
        let command = doc! {
            "findAndModify": COLLECTIONS[push.key.0],
            "query": {"_id": push.key.1},
            "update": push.update(),
            "new": new,
            "upsert": push.upsert,
        };
        self.statement(command, place, |reply| Act::Modify {
            push,
            new,
            row: value_row(reply),
        })
    }

    fn insert(&mut self, place: Place) -> Statement {
        let push = self.push(true);
        let command = doc! {"insert": COLLECTIONS[push.key.0], "documents": [push.document()]};
        self.statement(command, place, |reply| Act::Insert {
            push,
            is_duplicate: failure(reply).is_some(),
        })
    }

    fn remove(&mut self, place: Place) -> Statement {
        let key = self.key();
        let command = doc! {
            "findAndModify": COLLECTIONS[key.0], "query": {"_id": key.1}, "remove": true,
        };
        self.statement(command, place, |reply| Act::Remove {
            key,
            row: value_row(reply),
        })
    }

    /// Reads a document and deletes it.
    fn delete(&mut self, statements: &mut Vec<Statement>) {
        let key = self.key();
        let found = self.find_wanted(Place::Inside, key.0, Wanted::Id(key.1));
        let row = match &found.act {
            Act::Find { rows, .. } => rows.get(&key.1).cloned(),
            _ => None,
        };
        let failed = matches!(found.act, Act::Failed);
        statements.push(found);
        if failed {
            return;
        }
        let one = doc! {"q": {"_id": key.1}, "limit": 1};
        let command = doc! {"delete": COLLECTIONS[key.0], "deletes": [one]};
        let deleted = self.statement(command, Place::Inside, |reply| Act::Delete {
            key,
            removed: reply.get("n").and_then(int) == Some(1),
            row,
        });
        statements.push(deleted);
    }
}

fn value_row(reply: &Document) -> Option<Row> {
    let document = reply.get("value")?.as_document()?;
    Some(Row::of(document).1)
}
