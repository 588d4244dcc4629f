//! The settings of one collection, as they are stored in the cluster.
//!
//! ```text
//! sundown.collections:
//!   {_id: "db.coll", uuid: Binary, revision: Long, stamped: bool, default: Int | absent, since: Date,
//!    tsIndex: {name, key}, mode: "none", unstamped: bool,
//!    former: {stamped, default, since, dates: [{path, seconds, filter}], until: Date}, past: [like former],
//!    dates: [{path, seconds, filter}], arriving: {like this record}, next: {id, author, closed: true | absent}}
//! ```

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, doc};

use crate::error::{Code, Error, Result};
use crate::ttl::{DefaultTtl, IndexingMode, TsIndex};
use crate::upstream::{CollectionRules, DateRule, Former};
use crate::value::{DocBuf, Millis};

/// The settings of one collection.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SettingRecord {
    pub namespace: String,
    /// The collection to which the settings belong. One of the same name but another UUID is another collection.
    pub uuid: Option<[u8; 16]>,
    /// Counts the changes of this record. A change is written only if nobody else has made one meanwhile.
    pub revision: i64,
    /// See [`CollectionRules::stamped`].
    pub stamped: bool,
    pub default: DefaultTtl,
    /// See [`CollectionRules::since`].
    pub since: Millis,
    /// The index in whose form clients see the default.
    pub ts_index: Option<TsIndex>,
    pub mode: Option<IndexingMode>,
    /// Documents from before the default may still have no stamp.
    pub unstamped: bool,
    pub former: Option<Former>,
    /// See [`CollectionRules::past`].
    pub past: Vec<Former>,
    /// The settings of a collection that is about to get this name: it replaces the one with the UUID.
    pub arriving: Option<Box<SettingRecord>>,
    /// While TTL indexes on dates change: the rules that hold instead of those that the cluster's indexes show.
    pub dates: Option<Vec<DateRule>>,
    /// An announced change. While there is one, every command on the collection reads the settings first.
    pub next: Option<Next>,
}

/// An announced change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    pub id: String,
    /// The Sundown that makes the change.
    pub author: String,
    /// Writes wait until the change is over: the collection is about to be dropped or renamed. See `in_flight.rs`.
    pub closed: bool,
}

/// How long rules are remembered, in milliseconds. The cluster forgets a cursor that nobody continues after ten minutes, unless
/// an administrator has changed that.
const REMEMBERED: i64 = 60 * 60 * 1000;

// === impl SettingRecord ===

impl SettingRecord {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            ..Self::default()
        }
    }

    /// Returns whether nothing is set, so that no record is needed.
    pub fn is_empty(&self) -> bool {
        !self.stamped
            && self.mode.is_none()
            && self.former.is_none()
            && self.arriving.is_none()
            && self.dates.is_none()
    }

    /// Returns whether the collection has or had settings, or may be getting some. The record of any other collection that was
    /// ever looked at for a change stays, and says nothing.
    pub fn may_matter(&self) -> bool {
        !self.is_empty() || self.next.is_some()
    }

    /// Returns the settings that belong to the collection with this UUID: those of another collection of the name are void.
    pub fn of(&self, uuid: Option<[u8; 16]>) -> Option<&Self> {
        match (&self.arriving, uuid) {
            // Also before it has come: a command that finds no collection now may meet it.
            (Some(arriving), None) => Some(arriving),
            _ if self.uuid == uuid => Some(self),
            (arriving, _) => arriving.as_deref(),
        }
    }

    /// Returns the settings as another collection takes them over.
    pub fn handed_over(&self) -> Box<Self> {
        Box::new(Self {
            uuid: None,
            revision: 0,
            former: None,
            dates: None,
            arriving: None,
            next: None,
            ..self.clone()
        })
    }

    /// Remembers rules that end now, for the cursors that are open. Of equal rules the later end says everything.
    pub fn remember(&mut self, former: &Former) {
        let oldest = former.until.0.saturating_sub(REMEMBERED);
        self.past
            .retain(|past| past.until.0 >= oldest && past.rules != former.rules);
        self.past.push(former.clone());
    }

    /// Returns whether writes must wait.
    pub fn is_closed(&self) -> bool {
        self.next.as_ref().is_some_and(|next| next.closed)
    }

    pub fn is_on(&self) -> bool {
        self.default != DefaultTtl::Off
    }

    /// Returns the rules of the collection, whose TTL indexes on dates are these.
    pub fn rules(&self, dates: Vec<DateRule>, stores_ts: bool) -> CollectionRules {
        let dates = self.dates.clone().unwrap_or(dates);
        let former = self.former.clone().map(|mut former| {
            former.rules.stores_ts = stores_ts && former.rules.stamped;
            Box::new(former)
        });
        CollectionRules {
            stamped: self.stamped,
            stores_ts: stores_ts && self.stamped,
            default: self.default,
            since: self.since,
            dates,
            former,
            past: self.past.clone(),
            ..CollectionRules::NONE
        }
    }

    pub fn to_document(&self) -> Document {
        let mut out = doc! {"_id": &self.namespace};
        if let Some(uuid) = self.uuid {
            out.insert("uuid", uuid_value(uuid));
        }
        out.insert("revision", self.revision);
        put_rules(&mut out, self.stamped, self.default, self.since);
        if let Some(index) = &self.ts_index {
            let key = document(&index.key).unwrap_or_default();
            out.insert("tsIndex", doc! {"name": &index.name, "key": key});
        }
        let named = |(_, known): &&(&str, IndexingMode)| Some(*known) == self.mode;
        if let Some((name, _)) = IndexingMode::NAMES.iter().find(named) {
            out.insert("mode", *name);
        }
        if self.unstamped {
            out.insert("unstamped", true);
        }
        if let Some(former) = &self.former {
            out.insert("former", former_document(former));
        }
        if !self.past.is_empty() {
            let past: Vec<Document> = self.past.iter().map(former_document).collect();
            out.insert("past", past);
        }
        if let Some(arriving) = &self.arriving {
            out.insert("arriving", arriving.to_document());
        }
        if let Some(dates) = &self.dates {
            out.insert("dates", date_documents(dates));
        }
        if let Some(next) = &self.next {
            let mut shown = doc! {"id": &next.id, "author": &next.author};
            if next.closed {
                shown.insert("closed", true);
            }
            out.insert("next", shown);
        }
        out
    }

    /// Reads a stored record. Sundown wrote it, so a record that cannot be read is an error and never taken for no settings.
    pub fn parse(stored: &Document) -> Result<Self> {
        Self::read(stored).ok_or_else(|| {
            Error::new(
                Code::InternalError,
                format!("the settings in sundown.collections cannot be read: {stored}"),
            )
        })
    }

    fn read(stored: &Document) -> Option<Self> {
        let index = |index: &Document| {
            let key = DocBuf::from(index.get_document("key").ok()?);
            Some(TsIndex::new(
                Some(index.get_str("name").ok()?),
                Some(key.as_doc()),
            ))
        };
        let next = |next: &Document| {
            Some(Next {
                id: next.get_str("id").ok()?.to_owned(),
                author: next.get_str("author").ok()?.to_owned(),
                closed: next.get_bool("closed").unwrap_or(false),
            })
        };
        Some(Self {
            namespace: stored.get_str("_id").ok()?.to_owned(),
            uuid: stored.get("uuid").and_then(read_uuid),
            revision: stored.get_i64("revision").ok()?,
            stamped: stored.get_bool("stamped").unwrap_or(false),
            default: read_default(stored)?,
            since: read_date(stored, "since").unwrap_or(Millis(0)),
            ts_index: nested(stored, "tsIndex", index)?,
            mode: match stored.get_str("mode") {
                Ok(name) => Some(IndexingMode::parse(name)?),
                Err(_) => None,
            },
            unstamped: stored.get_bool("unstamped").unwrap_or(false),
            former: nested(stored, "former", read_former)?,
            past: match stored.get("past") {
                Some(past) => past
                    .as_array()?
                    .iter()
                    .map(|former| read_former(former.as_document()?))
                    .collect::<Option<_>>()?,
                None => Vec::new(),
            },
            arriving: nested(stored, "arriving", Self::read)?.map(Box::new),
            dates: match stored.get("dates") {
                Some(_) => Some(read_dates(stored)?),
                None => None,
            },
            next: nested(stored, "next", next)?,
        })
    }
}

/// Reads a part that may be absent. Returns `None` if it is there and cannot be read.
fn nested<T>(
    stored: &Document,
    name: &str,
    read: impl FnOnce(&Document) -> Option<T>,
) -> Option<Option<T>> {
    match stored.get(name) {
        None => Some(None),
        Some(part) => Some(Some(read(part.as_document()?)?)),
    }
}

fn put_rules(out: &mut Document, stamped: bool, default: DefaultTtl, since: Millis) {
    out.insert("stamped", stamped);
    if let Some(seconds) = default.seconds() {
        out.insert("default", seconds);
    }
    out.insert("since", DateTime::from_millis(since.0));
}

fn read_default(stored: &Document) -> Option<DefaultTtl> {
    match stored.get("default") {
        None => Some(DefaultTtl::Off),
        Some(seconds) => DefaultTtl::from_seconds(number(seconds)?),
    }
}

fn read_date(stored: &Document, name: &str) -> Option<Millis> {
    let date = stored.get_datetime(name).ok()?;
    Some(Millis(date.timestamp_millis()))
}

fn read_dates(stored: &Document) -> Option<Vec<DateRule>> {
    let date = |rule: &Bson| {
        let rule = rule.as_document()?;
        Some(DateRule {
            path: rule.get_str("path").ok()?.to_owned(),
            seconds: rule.get_i32("seconds").ok()?,
            filter: rule.get_document("filter").ok().map(DocBuf::from),
        })
    };
    let dates = stored.get_array("dates").ok()?;
    dates.iter().map(date).collect()
}

fn read_former(stored: &Document) -> Option<Former> {
    Some(Former {
        rules: CollectionRules {
            stamped: stored.get_bool("stamped").ok()?,
            default: read_default(stored)?,
            since: read_date(stored, "since")?,
            dates: read_dates(stored)?,
            ..CollectionRules::NONE
        },
        until: read_date(stored, "until")?,
    })
}

fn former_document(former: &Former) -> Document {
    let rules = &former.rules;
    let mut shown = Document::new();
    put_rules(&mut shown, rules.stamped, rules.default, rules.since);
    shown.insert("dates", date_documents(&rules.dates));
    shown.insert("until", DateTime::from_millis(former.until.0));
    shown
}

fn date_documents(rules: &[DateRule]) -> Vec<Document> {
    let show = |rule: &DateRule| {
        let mut out = doc! {"path": &rule.path, "seconds": rule.seconds};
        if let Some(filter) = rule.filter.as_ref().and_then(document) {
            out.insert("filter", filter);
        }
        out
    };
    rules.iter().map(show).collect()
}

/// Decodes a document for the driver.
pub(super) fn document(bytes: &DocBuf) -> Option<Document> {
    Document::from_reader(bytes.bytes()).ok()
}

/// Returns whether a collection, database or index of a list has this name.
pub(super) fn is_named(row: &Document, name: &str) -> bool {
    row.get_str("name").is_ok_and(|known| known == name)
}

/// Reads a whole number of any type.
pub(super) fn number(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        Bson::Double(d) if d.fract() == 0.0 => Some(*d as i64),
        _ => None,
    }
}

pub(super) fn read_uuid(value: &Bson) -> Option<[u8; 16]> {
    match value {
        Bson::Binary(binary) => binary.bytes.as_slice().try_into().ok(),
        _ => None,
    }
}

fn uuid_value(uuid: [u8; 16]) -> Binary {
    Binary {
        subtype: BinarySubtype::Uuid,
        bytes: uuid.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_reads_back() {
        let empty = SettingRecord::new("db.c");
        let full = SettingRecord {
            uuid: Some([7; 16]),
            revision: 3,
            stamped: true,
            default: DefaultTtl::Seconds(20),
            since: Millis(5),
            ts_index: Some(TsIndex::new(Some("mine"), None)),
            mode: Some(IndexingMode::Lazy),
            unstamped: true,
            former: Some(Former {
                rules: CollectionRules {
                    stamped: true,
                    default: DefaultTtl::Never,
                    since: Millis(4),
                    dates: vec![DateRule {
                        path: "at".into(),
                        seconds: 7,
                        filter: Some(DocBuf::from(doc! {"a": 1})),
                    }],
                    ..CollectionRules::NONE
                },
                until: Millis(9),
            }),
            past: vec![Former {
                rules: CollectionRules::NONE,
                until: Millis(8),
            }],
            arriving: Some(Box::new(SettingRecord {
                default: DefaultTtl::Never,
                ..empty.clone()
            })),
            dates: Some(Vec::new()),
            next: Some(Next {
                id: "1".into(),
                author: "me".into(),
                closed: true,
            }),
            ..empty.clone()
        };
        for setting in [empty, full] {
            assert_eq!(SettingRecord::parse(&setting.to_document()), Ok(setting));
        }
    }

    #[test]
    fn rules_are_remembered_once_and_for_an_hour() {
        let former = |seconds, until| Former {
            rules: CollectionRules {
                default: DefaultTtl::Seconds(seconds),
                ..CollectionRules::NONE
            },
            until: Millis(until),
        };
        let mut record = SettingRecord::new("db.c");
        for (seconds, until) in [(1, 0), (2, 10), (3, 20), (2, REMEMBERED + 5)] {
            record.remember(&former(seconds, until));
        }
        assert_eq!(record.past, [former(3, 20), former(2, REMEMBERED + 5)]);
    }

    #[test]
    fn settings_belong_to_their_collection_or_to_the_one_that_replaces_it() {
        let mut record = SettingRecord {
            uuid: Some([1; 16]),
            default: DefaultTtl::Never,
            ..SettingRecord::new("db.c")
        };
        assert_eq!(record.of(Some([1; 16])), Some(&record));
        assert_eq!(record.of(Some([2; 16])), None);
        record.arriving = Some(record.handed_over());
        let arriving = record.of(Some([2; 16])).map(|arriving| arriving.default);
        assert_eq!(arriving, Some(DefaultTtl::Never));
        assert_eq!(record.of(None), record.of(Some([2; 16])));
        // A name that is free.
        let free = SettingRecord {
            arriving: record.arriving.clone(),
            ..SettingRecord::new("db.d")
        };
        assert_eq!(free.of(None), record.of(None));
    }

    #[test]
    fn a_damaged_record_is_not_taken_for_none() {
        for damaged in [
            doc! {"_id": "db.c"},
            doc! {"_id": "db.c", "revision": 1_i64, "default": 0},
            doc! {"_id": "db.c", "revision": 1_i64, "mode": "?"},
            doc! {"_id": "db.c", "revision": 1_i64, "former": {}},
            doc! {"_id": "db.c", "revision": 1_i64, "next": 1},
            doc! {"_id": "db.c", "revision": 1_i64, "past": [{}]},
            doc! {"_id": "db.c", "revision": 1_i64, "arriving": {}},
        ] {
            assert!(SettingRecord::parse(&damaged).is_err(), "{damaged}");
        }
    }
}
