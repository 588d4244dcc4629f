//! The rows of a reply: which of them the client sees, and without which fields.

use std::sync::Arc;

use bytes::Bytes;

use super::cut::RowCut;
use super::namespaces::NamespacePair;
use super::stamp::{put_changed, put_without};
use super::{Moment, Visibility};
use crate::ttl::TS_FIELD;
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{ArrayBuilder, Doc, DocBuilder, Millis, Type, ValueRef};

/// What happens to the rows of one cursor, at every reply.
#[derive(Debug, Clone, Default)]
pub struct RowRule {
    /// The rule that rows pass when they leave. `None` if they do not hold what it needs, or stand for no one document.
    pub test: Option<Arc<Visibility>>,
    /// Rows are whole documents.
    pub whole: bool,
    /// What the rule needs rides in the hidden field. Rows without it stand for no one document.
    pub rides: bool,
    /// Root fields to cut off.
    pub cut: Arc<[Box<str>]>,
    /// The command names `_ts`, or all commands see it.
    pub shows_ts: bool,
    /// Rows end with `_ts`.
    pub ts_last: bool,
    /// Fields that stages have set, which come behind `_ts` if the document did not have them.
    pub added: Vec<Box<str>>,
    /// Fields that hold documents of other collections.
    pub joined: Vec<Joined>,
    /// What `_ts` shows if a whole document has none, because it is older than the default.
    pub ts_since: Option<Millis>,
}

/// An array of documents that a `$lookup` has put into rows. They are looked at once more, like rows.
#[derive(Debug, Clone)]
pub struct Joined {
    pub name: Box<str>,
    pub namespace: NamespacePair,
    pub rules: Arc<CollectionRules>,
    pub rows: RowRule,
}

/// What is left of `skip` and `limit` if Sundown counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    pub skip: u64,
    pub limit: Option<u64>,
}

/// A reply with its rows rewritten.
pub struct Reply {
    pub bytes: Bytes,
    pub cursor_id: i64,
}

// === impl RowRule ===

impl RowRule {
    /// Returns whether rows pass as they are.
    pub fn is_none(&self) -> bool {
        self.test.is_none() && self.is_shown_as_it_is()
    }

    fn is_shown_as_it_is(&self) -> bool {
        self.cut.is_empty() && !self.ts_last && self.joined.is_empty()
    }

    /// Writes what the client sees of a row.
    pub fn put(&self, row: Doc<'_>, now: Millis, out: &mut DocBuilder<'_>) {
        let mut cut: smallvec::SmallVec<[&str; 8]> = self.cut.iter().map(|name| &**name).collect();
        if self.ts_last {
            cut.push(TS_FIELD);
        }
        let mut ts_is_due = self.ts_last;
        match self.joined.is_empty() && self.added.is_empty() {
            true => put_without(row, &cut, out),
            false => {
                // A field that is stored before `_ts` was in the document already.
                let mut is_behind = !row.has(TS_FIELD);
                for elem in row {
                    is_behind |= elem.name() == TS_FIELD;
                    if cut.contains(&elem.name()) {
                        continue;
                    }
                    let joined = self.joined.iter().find(|j| &*j.name == elem.name());
                    let is_added = self.added.iter().any(|name| &**name == elem.name());
                    // The document ends with `_ts`. What was added to it comes later.
                    if is_behind && (is_added || joined.is_some()) {
                        self.put_ts_last(row, &mut ts_is_due, out);
                    }
                    match (joined, elem.value.as_array()) {
                        (Some(joined), Some(documents)) => {
                            let mut shown = out.array(elem.name());
                            let all = &mut Window::default();
                            joined.rows.batch(documents, now, all, &mut shown);
                            shown.end();
                        }
                        _ => {
                            out.put(elem.name(), elem.value);
                        }
                    }
                }
            }
        }
        self.put_ts_last(row, &mut ts_is_due, out);
    }

    fn put_ts_last(&self, row: Doc<'_>, is_due: &mut bool, out: &mut DocBuilder<'_>) {
        if std::mem::take(is_due) {
            match (row.get(TS_FIELD), self.ts_since) {
                (ts, Some(since)) if ts.is_missing() => out.put_i64(TS_FIELD, since.seconds()),
                (ts, _) => out.put(TS_FIELD, ts),
            };
        }
    }

    pub fn shows(&self, row: Doc<'_>, now: Millis) -> bool {
        let Some(test) = &self.test else {
            return true;
        };
        match self.rides {
            false => !test.has_ended(row, now),
            true => {
                let origin = row.get(HIDDEN_FIELD).as_doc();
                origin.is_none_or(|origin| !test.has_ended(origin, now))
            }
        }
    }

    /// Rewrites the batch of a cursor reply. Any other reply, such as an error, stays as it is (`None`).
    pub fn apply(&self, reply: Doc<'_>, moment: Moment, window: &mut Window) -> Option<Reply> {
        let is_plain = !self.ts_last && !self.rides && self.joined.is_empty();
        if is_plain && *window == Window::default() {
            let cut = RowCut {
                test: self.test.as_deref(),
                is_cut: |name: &[u8]| self.cut.iter().any(|cut| cut.as_bytes() == name),
                now: moment.now,
            };
            return cut.apply(reply);
        }
        let cursor = reply.get("cursor").as_doc()?;
        let mut bytes = Vec::with_capacity(reply.bytes().len());
        let mut out = DocBuilder::begin(&mut bytes);
        let mut cursor_id = cursor.get("id").as_i64().unwrap_or_default();
        let is_cursor = |name: &[u8]| name == b"cursor";
        put_changed(reply, &mut out, is_cursor, |_, out| {
            let mut inner = out.doc("cursor");
            let is_changed = |name: &[u8]| matches!(name, b"firstBatch" | b"nextBatch" | b"id");
            put_changed(cursor, &mut inner, is_changed, |name, inner| {
                let name = match name {
                    b"firstBatch" => "firstBatch",
                    b"nextBatch" => "nextBatch",
                    _ => return,
                };
                let batch = cursor.get(name).as_array().unwrap_or(Doc::EMPTY);
                let mut array = inner.array(name);
                self.batch(batch, moment.now, window, &mut array);
                array.end();
            });
            if window.limit == Some(0) {
                cursor_id = 0;
            }
            inner.put_i64("id", cursor_id);
            inner.end();
        });
        out.end();
        Some(Reply {
            bytes: bytes.into(),
            cursor_id,
        })
    }

    fn batch(&self, batch: Doc<'_>, now: Millis, window: &mut Window, out: &mut ArrayBuilder<'_>) {
        for elem in batch {
            let row = match elem.value.ty() {
                Type::Document => Doc::new(elem.value.data()),
                _ => continue,
            };
            if window.limit == Some(0) {
                return;
            }
            if !self.shows(row, now) {
                continue;
            }
            if window.skip > 0 {
                window.skip -= 1;
                continue;
            }
            if let Some(limit) = &mut window.limit {
                *limit -= 1;
            }
            if self.is_shown_as_it_is() {
                out.push(ValueRef::document(row));
            } else {
                let mut shown = out.doc();
                self.put(row, now, &mut shown);
                shown.end();
            }
        }
    }
}

/// Returns one reply with the rows of several, as its only batch.
pub fn joined(replies: &[Bytes]) -> Bytes {
    let Some(first) = replies.first() else {
        return Bytes::new();
    };
    let batches = replies.iter().filter_map(|reply| {
        let cursor = Doc::new(reply).get("cursor").as_doc()?;
        let first = cursor.get("firstBatch").as_array();
        first.or(cursor.get("nextBatch").as_array())
    });
    let mut bytes = Vec::with_capacity(first.len());
    let mut out = DocBuilder::begin(&mut bytes);
    for elem in Doc::new(first) {
        let Some(cursor) = elem.value.as_doc().filter(|_| elem.name() == "cursor") else {
            out.put(elem.name(), elem.value);
            continue;
        };
        let mut inner = out.doc("cursor");
        let mut rows = inner.array("firstBatch");
        for row in batches.clone().flatten() {
            rows.push(row.value);
        }
        rows.end();
        inner.put_i64("id", 0);
        inner.put("ns", cursor.get("ns"));
        inner.end();
    }
    out.end();
    bytes.into()
}
