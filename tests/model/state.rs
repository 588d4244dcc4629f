//! The naive model: a plain list of documents per collection, and expiry by definition.

use std::collections::{BTreeMap, HashSet};

use bson::{Bson, Document, doc};

use super::matcher::{leaves, matches};
use super::order::{compare, equal};

#[derive(Debug, Clone)]
pub struct Stored {
    pub doc: Document,
    /// The time of its last write.
    pub ts: i64,
    /// Different for any two documents, even if they have the same `_id`.
    pub uid: u64,
    /// The number of the command that wrote it last.
    pub written: u64,
}

#[derive(Debug, Clone)]
pub struct Index {
    pub spec: Document,
}

#[derive(Debug, Clone, Default)]
pub struct Collection {
    pub docs: Vec<Stored>,
    /// `None`: off.
    pub default: Option<i64>,
    /// The name of the index that shows the default.
    pub shown: String,
    pub indexes: Vec<Index>,
    pub cap: Option<Cap>,
}

/// The limits of a capped collection.
#[derive(Debug, Clone, Copy)]
pub struct Cap {
    pub bytes: i64,
    pub documents: i64,
}

#[derive(Debug, Default)]
pub struct Model {
    pub collections: BTreeMap<String, Collection>,
    pub now: i64,
    /// Incremented by every command.
    pub commands: u64,
    next_uid: u64,
    /// The documents that have ended, as (`uid`, `written`).
    ended: HashSet<(u64, u64)>,
}

// === impl Model ===

impl Model {
    /// Starts a command: documents that have expired by now are removed.
    pub fn begin(&mut self) {
        self.commands += 1;
        self.expire();
    }

    /// Moves the clock: documents that have expired before are removed.
    pub fn move_to(&mut self, to: i64) {
        self.expire();
        self.now = to;
    }

    /// Removes documents that have expired by now.
    pub fn expire(&mut self) {
        for collection in self.collections.values_mut() {
            let ends: Vec<Option<i64>> = collection
                .docs
                .iter()
                .map(|stored| collection.end(stored))
                .collect();
            let mut ends = ends.into_iter();
            collection.docs.retain(|stored| {
                let lives = ends.next().flatten().is_none_or(|end| self.now < end);
                if !lives {
                    self.ended.insert((stored.uid, stored.written));
                }
                lives
            });
        }
    }

    /// Returns whether a document has ended, and was not written since it was seen like this.
    pub fn has_ended(&self, seen: &Stored) -> bool {
        self.ended.contains(&(seen.uid, seen.written))
    }

    /// Returns whether a document was written since it was seen like this, and ended by what was written.
    pub fn has_ended_changed(&self, seen: &Stored) -> bool {
        let later = |(uid, written): &(u64, u64)| *uid == seen.uid && *written > seen.written;
        self.ended.iter().any(later)
    }

    pub fn get(&self, name: &str) -> Collection {
        self.collections.get(name).cloned().unwrap_or_default()
    }

    pub fn at(&mut self, name: &str) -> &mut Collection {
        self.collections.entry(name.to_owned()).or_default()
    }

    pub fn insert(&mut self, name: &str, doc: Document) -> Result<(), i64> {
        self.next_uid += 1;
        let stored = Stored {
            doc,
            ts: self.now,
            uid: self.next_uid,
            written: self.commands,
        };
        let now = self.now;
        let collection = self.at(name);
        // A document that expires within the same command (its date is past) does not count either.
        collection.clash(&stored.doc, None, now)?;
        collection.remove_ended_rivals(&stored.doc, now);
        collection.docs.push(stored);
        collection.make_room(now);
        Ok(())
    }

    /// Writes the new content of the document, which is a write even if nothing changes.
    pub fn write(&mut self, name: &str, uid: u64, doc: Document) -> Result<(), i64> {
        let (now, command) = (self.now, self.commands);
        let collection = self.at(name);
        collection.clash(&doc, Some(uid), now)?;
        let stored = collection
            .docs
            .iter_mut()
            .find(|stored| stored.uid == uid)
            .expect("it is there");
        stored.doc = doc;
        stored.ts = now;
        stored.written = command;
        Ok(())
    }
}

// === impl Collection ===

impl Collection {
    /// Returns the instant at which a document expires.
    pub fn end(&self, stored: &Stored) -> Option<i64> {
        let own = own_ttl(&stored.doc);
        let by_ttl = match (self.default, own) {
            (None, _) | (Some(_), Some(-1)) | (Some(-1), None) => None,
            (Some(_), Some(seconds)) | (Some(seconds), None) => Some(stored.ts + seconds * 1000),
        };
        let by_dates = self
            .indexes
            .iter()
            .filter_map(|index| index.end(&stored.doc));
        by_dates.chain(by_ttl).min()
    }

    /// Returns the code of the error if a visible document has one of the keys.
    fn clash(&self, doc: &Document, uid: Option<u64>, now: i64) -> Result<(), i64> {
        for other in &self.docs {
            if Some(other.uid) == uid || self.end(other).is_some_and(|end| now >= end) {
                continue;
            }
            let same_id = equal(&doc["_id"], &other.doc["_id"]);
            if same_id
                || self
                    .indexes
                    .iter()
                    .any(|index| index.shares_a_key(doc, &other.doc))
            {
                return Err(11_000);
            }
        }
        Ok(())
    }

    fn remove_ended_rivals(&mut self, doc: &Document, now: i64) {
        let ended: Vec<u64> = self
            .docs
            .iter()
            .filter(|other| {
                self.end(other).is_some_and(|end| now >= end)
                    && equal(&doc["_id"], &other.doc["_id"])
            })
            .map(|other| other.uid)
            .collect();
        self.docs.retain(|other| !ended.contains(&other.uid));
    }

    /// Removes the oldest visible documents until the rest fits. The newest one stays.
    fn make_room(&mut self, now: i64) {
        let Some(cap) = self.cap else { return };
        loop {
            let living: Vec<&Stored> = self
                .docs
                .iter()
                .filter(|stored| self.end(stored).is_none_or(|end| now < end))
                .collect();
            let bytes: usize = living
                .iter()
                .map(|stored| stored.doc.to_vec().expect("encodes").len())
                .sum();
            let fits = bytes as i64 <= cap.bytes && living.len() as i64 <= cap.documents;
            let newest = self.docs.last().map(|newest| newest.uid);
            match living.first() {
                Some(oldest) if !fits && Some(oldest.uid) != newest => {
                    let gone = oldest.uid;
                    self.docs.retain(|stored| stored.uid != gone);
                }
                _ => return,
            }
        }
    }

    /// Returns the document as a command sees it, with or without `_ts`.
    pub fn seen(stored: &Stored, with_ts: bool) -> Document {
        let mut doc = stored.doc.clone();
        if with_ts {
            doc.insert("_ts", stored.ts.div_euclid(1000));
        }
        doc
    }

    /// Returns the documents in natural order.
    pub fn matching(&self, filter: &Document, with_ts: bool) -> Vec<(Stored, Document)> {
        self.docs
            .iter()
            .map(|stored| (stored.clone(), Self::seen(stored, with_ts)))
            .filter(|(_, seen)| matches(filter, seen))
            .collect()
    }

    pub fn index(&self, name: &str) -> Option<&Index> {
        self.indexes.iter().find(|index| index.name() == name)
    }

    pub fn index_count(&self) -> i64 {
        let shown = self.default.is_some() && self.index(&self.shown).is_none();
        1 + self.indexes.len() as i64 + i64::from(shown)
    }

    /// Returns whether two visible documents share a key that must be unique.
    pub fn would_clash(&self, index: &Index) -> bool {
        self.docs.iter().enumerate().any(|(at, a)| {
            self.docs[at + 1..]
                .iter()
                .any(|b| index.shares_a_key(&a.doc, &b.doc))
        })
    }
}

// === impl Index ===

impl Index {
    pub fn name(&self) -> &str {
        self.spec.get_str("name").expect("a name")
    }

    pub fn key(&self) -> &Document {
        self.spec.get_document("key").expect("a key")
    }

    pub fn flag(&self, name: &str) -> bool {
        self.spec.get_bool(name).unwrap_or(false)
    }

    pub fn seconds(&self) -> Option<i64> {
        self.spec
            .get("expireAfterSeconds")
            .and_then(|value| value.as_i32())
            .map(i64::from)
    }

    /// Returns whether the index contains every document.
    pub fn is_whole(&self) -> bool {
        !self.flag("sparse")
            && !self.flag("hidden")
            && !self.spec.contains_key("partialFilterExpression")
    }

    fn holds(&self, doc: &Document) -> bool {
        if let Ok(filter) = self.spec.get_document("partialFilterExpression")
            && !matches(filter, doc)
        {
            return false;
        }
        !self.flag("sparse") || self.key().keys().any(|path| doc.contains_key(path))
    }

    /// Returns the unique keys, which are on root fields here. An array has a key for each element.
    fn shares_a_key(&self, a: &Document, b: &Document) -> bool {
        if !self.flag("unique") || !self.holds(a) || !self.holds(b) {
            return false;
        }
        self.key().keys().all(|path| {
            let (a, b) = (keys(a, path), keys(b, path));
            a.iter().any(|a| b.iter().any(|b| equal(a, b)))
        })
    }

    /// Returns the end that a date defines.
    fn end(&self, doc: &Document) -> Option<i64> {
        let seconds = self.seconds()?;
        if !self.holds(doc) {
            return None;
        }
        let path = self.key().keys().next().expect("one field");
        // Also in nested documents, and in the elements of an array.
        let leaves = leaves(doc, path).into_iter().flatten();
        let dates: Vec<Bson> = leaves
            .flat_map(|leaf| match leaf {
                Bson::Array(array) => array,
                value => vec![value],
            })
            .collect();
        let earliest = dates
            .iter()
            .filter_map(Bson::as_datetime)
            .map(|date| date.timestamp_millis())
            .min()?;
        Some(earliest + seconds * 1000)
    }
}

fn keys(doc: &Document, path: &str) -> Vec<Bson> {
    match doc.get(path) {
        None => vec![Bson::Null],
        Some(Bson::Array(array)) if array.is_empty() => vec![Bson::Undefined],
        Some(Bson::Array(array)) => array.clone(),
        Some(value) => vec![value.clone()],
    }
}

/// Returns the seconds of the document's own ttl: an integral number that is -1 or positive, of any type.
fn own_ttl(doc: &Document) -> Option<i64> {
    let seconds = match doc.get("ttl")? {
        Bson::Int32(n) => i64::from(*n),
        Bson::Int64(n) => *n,
        Bson::Double(n) if n.fract() == 0.0 && n.abs() < 1e12 => *n as i64,
        _ => return None,
    };
    (seconds == -1 || (1..=i64::from(i32::MAX)).contains(&seconds)).then_some(seconds)
}

/// Returns the earliest end in the future, so that the clock can move exactly to it.
pub fn next_end(model: &Model) -> Option<i64> {
    model
        .collections
        .values()
        .flat_map(|collection| {
            collection
                .docs
                .iter()
                .filter_map(|stored| collection.end(stored))
                .collect::<Vec<_>>()
        })
        .filter(|end| *end > model.now)
        .min()
}

/// Removes duplicates.
pub fn distinct(values: impl IntoIterator<Item = Bson>) -> Vec<Bson> {
    let mut all: Vec<Bson> = values.into_iter().collect();
    all.sort_by(compare);
    all.dedup_by(|a, b| equal(a, b));
    all
}

pub fn default_spec(name: &str, seconds: i64) -> Document {
    doc! {"key": {"_ts": 1}, "name": name, "expireAfterSeconds": seconds}
}
