//! What the clients did and saw.

use std::collections::BTreeMap;

use bson::{Document, doc};

use crate::support::world::int;

/// A collection of the test and an `_id` in it.
pub type Key = (usize, i32);

/// The collections. In the second one documents end by themselves.
pub const COLLECTIONS: [&str; 2] = ["steady", "timed"];
/// The seconds after which a document of `timed` ends, if it does not say otherwise.
pub const DEFAULT_TTL: i64 = 4;

/// What a client sees of a document. Each write appends a number of its own to the list, so the list tells which writes came
/// before, in which order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub list: Vec<i64>,
    pub n: i64,
    pub ttl: Option<i64>,
}

/// Which documents of a collection a read wants.
#[derive(Debug, Clone, Copy)]
pub enum Wanted {
    Id(i32),
    /// A range of the ordered `_id`s.
    Ids(i32, i32),
    /// Those whose `n` is at least this, by an index.
    AtLeast(i64),
    /// The whole collection, in natural order.
    All,
}

/// The write to one document.
#[derive(Debug, Clone, Copy)]
pub struct Push {
    pub key: Key,
    pub tag: i64,
    pub inc: i64,
    pub ttl: Option<i64>,
    pub upsert: bool,
}

/// A statement with its answer.
#[derive(Debug, Clone)]
pub enum Act {
    Find {
        collection: usize,
        wanted: Wanted,
        rows: BTreeMap<i32, Row>,
    },
    Update {
        push: Push,
        /// How many documents there were.
        matched: bool,
    },
    /// An update of all documents of a collection between two `_id`s.
    UpdateMany {
        collection: usize,
        ids: (i32, i32),
        tag: i64,
        matched: i64,
    },
    /// findAndModify: `row` is the document before, or after if `new` is set.
    Modify {
        push: Push,
        new: bool,
        row: Option<Row>,
    },
    Insert {
        push: Push,
        is_duplicate: bool,
    },
    /// findAndModify with `remove`.
    Remove {
        key: Key,
        row: Option<Row>,
    },
    /// A delete, right after a read of the same document.
    Delete {
        key: Key,
        removed: bool,
        row: Option<Row>,
    },
    /// It failed, and with it the transaction: nothing is known of what it saw.
    Failed,
}

/// A moment of the test: the number of the events that clients have seen.
pub type Tick = u64;

#[derive(Debug, Clone)]
pub struct Statement {
    pub act: Act,
    /// The clock of the server while it ran.
    pub now: i64,
    pub begin: Tick,
    pub end: Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// One statement outside transactions.
    Plain,
    /// When the client sent the first commit, and when it got the first reply.
    Committed {
        now: i64,
        begin: Tick,
        end: Tick,
    },
    Aborted,
}

/// A transaction, or a statement outside transactions.
#[derive(Debug, Clone)]
pub struct Unit {
    pub statements: Vec<Statement>,
    pub ending: Ending,
}

// === impl Row ===

impl Row {
    pub fn of(document: &Document) -> (i32, Self) {
        let id = document.get_i32("_id").expect("an _id");
        let list = document.get_array("list").expect("a list").iter();
        let row = Self {
            list: list.map(|tag| int(tag).expect("a number")).collect(),
            n: document.get("n").and_then(int).expect("a number"),
            ttl: document.get("ttl").and_then(int),
        };
        (id, row)
    }

    /// Returns when the document ends, if it was last written at `ts`.
    pub fn end(&self, collection: usize, ts: i64) -> Option<i64> {
        let seconds = match (collection, self.ttl) {
            (0, _) | (_, Some(-1)) => return None,
            (_, Some(seconds)) => seconds,
            (_, None) => DEFAULT_TTL,
        };
        Some(ts + seconds * 1_000)
    }

    pub fn last(&self) -> i64 {
        *self.list.last().expect("each write appends")
    }
}

// === impl Wanted ===

impl Wanted {
    pub fn filter(self) -> Document {
        match self {
            Self::Id(id) => doc! {"_id": id},
            Self::Ids(from, to) => doc! {"_id": {"$gte": from, "$lte": to}},
            Self::AtLeast(n) => doc! {"n": {"$gte": n}},
            Self::All => doc! {},
        }
    }

    pub fn matches(self, id: i32, row: &Row) -> bool {
        match self {
            Self::Id(wanted) => id == wanted,
            Self::Ids(from, to) => (from..=to).contains(&id),
            Self::AtLeast(n) => row.n >= n,
            Self::All => true,
        }
    }
}

// === impl Push ===

impl Push {
    pub fn update(&self) -> Document {
        let mut update = doc! {"$push": {"list": self.tag}, "$inc": {"n": self.inc}};
        if let Some(ttl) = self.ttl {
            update.insert("$set", doc! {"ttl": ttl});
        }
        update
    }

    pub fn document(&self) -> Document {
        let mut document = doc! {"_id": self.key.1, "list": [self.tag], "n": self.inc};
        if let Some(ttl) = self.ttl {
            document.insert("ttl", ttl);
        }
        document
    }

    /// Returns the document after the write.
    pub fn applied(&self, before: Option<&Row>) -> Row {
        let mut row = before.cloned().unwrap_or(Row {
            list: Vec::new(),
            n: 0,
            ttl: None,
        });
        row.list.push(self.tag);
        row.n += self.inc;
        row.ttl = self.ttl.or(row.ttl);
        row
    }
}

// === impl Unit ===

impl Unit {
    pub fn is_committed(&self) -> bool {
        self.ending != Ending::Aborted
    }

    /// Returns when its writes got their `_ts`, and the ticks between which they became visible.
    pub fn commit(&self) -> (i64, Tick, Tick) {
        match self.ending {
            Ending::Committed { now, begin, end } => (now, begin, end),
            Ending::Plain | Ending::Aborted => {
                let last = self.statements.last().expect("a statement");
                (last.now, last.begin, last.end)
            }
        }
    }
}
