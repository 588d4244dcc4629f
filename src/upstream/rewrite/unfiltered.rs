//! Updates by `_id` that go with the client's own filter, which is the only one for which MongoDB need not plan.
//!
//! A document that has not ended either inherits the default and was written lately, or has a `ttl` of its own.
//!
//! - A `$pullAll: {ttl: []}` inside of the update fails if the document has a `ttl` other than an array (which inherits), and does
//!   nothing otherwise. So an update that succeeds has met a document that inherits. The cluster decides it in one step, also if
//!   another Sundown has just written a `ttl`. After a failure the command is sent again with the whole predicate: a statement
//!   that fails leaves no trace, neither in the document nor in the history of its session (seen on MongoDB 6.0.5).
//! - Where the default is -1, a document that inherits never ends. Otherwise Sundown must have seen a stamp of the document that is
//!   young enough ([`KnownWrites`]): stamps only grow, so the document's stamp is that or a later one.
//!   A document of which nothing is known goes the usual way, and is known then.
//! - If the filter matches nothing, there is no document with that `_id`, and that is the answer.
//!
//! Stamps only grow, except for one thing: a write has the stamp of the moment at which its command began. A command that is
//! under way for long may replace a document that was written meanwhile, or insert it again after it was deleted, with an
//! earlier stamp. So the stamp that was seen must leave time: a command would have to be under way for longer ([`time_left`]).
//!
//! Not so in a transaction, which an error ends; nor if rules on dates hold, or former rules; nor for a filter, a `hint` or a
//! `collation` that could find another document than the one whose `_id` it names.

use crate::ttl::{DefaultTtl, OwnTtl};
use crate::upstream::{CollectionRules, HIDDEN_FIELD, KnownWrites, Term};
use crate::value::{Doc, Elem, Millis, Type, ValueRef, is_true};

use super::carry::is_positional;
use super::change::{is_operators, names_root};
use super::fields::doc_or_empty;
use super::find::is_by_id;

/// An update by operators of the document with an `_id`. It does not touch the document's own `ttl`.
#[derive(Clone, Copy)]
pub struct UpdateById<'a> {
    id: ValueRef<'a>,
}

/// At least this much of a document's life must be left by the stamp that was seen. A command waits for at most half a minute for
/// the cluster to elect a primary.
const LEAST_LEFT: i64 = 60_000;

/// A load of more documents would only push out those that are in use.
const MOST_INSERTED: usize = 1_000;

/// Returns how much of a document's life must be left, in milliseconds: one half. What is written often is younger, and if
/// documents live for hours, a command may be under way for as long.
fn time_left(seconds: i32) -> i64 {
    LEAST_LEFT.max(i64::from(seconds) * 500)
}

/// Returns the moment after which a document must have been written, so that it is certainly there if it inherits. `None` if no
/// document is young enough.
fn written_after(seconds: i32, now: Millis) -> Option<Millis> {
    let life = i64::from(seconds) * 1_000;
    let moment = now
        .0
        .saturating_add(time_left(seconds))
        .saturating_sub(life);
    (moment < now.0).then_some(Millis(moment))
}

/// Returns where the writes to documents with these rules are remembered, if that is of use.
fn memory(rules: &CollectionRules) -> Option<&KnownWrites> {
    let DefaultTtl::Seconds(seconds) = rules.default else {
        return None;
    };
    let writes = rules.writes.as_ref().filter(|writes| writes.is_kept());
    writes.filter(|_| written_after(seconds, Millis(0)).is_some())
}

/// Remembers the row that a find by `_id` has returned, as it came. What a transaction reads may never be committed.
///
/// A stamp that is ahead of the clock, from before the clock was set back, is taken for one of now: the next write has a stamp
/// of now, too, and that is an earlier one.
pub fn remember_row(
    command: Doc<'_>,
    reply: Doc<'_>,
    rules: &CollectionRules,
    (now, term): (Millis, Term),
) {
    let Some(writes) = memory(rules) else {
        return;
    };
    let level = doc_or_empty(command, "readConcern").get("level");
    if command.has("autocommit") || level.as_str() == Some("snapshot") {
        return;
    }
    let batch = doc_or_empty(reply, "cursor").get("firstBatch").as_array();
    let row = batch.and_then(|rows| rows.first()?.value.as_doc());
    if let Some((id, Some(stamp))) = row.and_then(inheriting) {
        writes.saw(id, stamp.min(now), term);
    }
}

/// Remembers documents that were inserted.
pub fn remember_inserted(
    documents: &[Doc<'_>],
    rules: &CollectionRules,
    (now, term): (Millis, Term),
) {
    let Some(writes) = memory(rules).filter(|_| documents.len() <= MOST_INSERTED) else {
        return;
    };
    let inserted = documents.iter().copied().filter_map(inheriting);
    for (id, _) in inserted {
        writes.saw(id, now, term);
    }
}

/// Returns the `_id` and the stamp of a document, if it has no `ttl`.
fn inheriting(document: Doc<'_>) -> Option<(ValueRef<'_>, Option<Millis>)> {
    let (mut id, mut stamp) = (None, None);
    for elem in document {
        match elem.name_bytes() {
            b"_id" if id.is_none() => id = Some(elem.value),
            name if name == OwnTtl::FIELD.as_bytes() => return None,
            name if name == HIDDEN_FIELD.as_bytes() => {
                stamp = elem.value.as_date().map(Millis);
            }
            _ => {}
        }
    }
    Some((id?, stamp))
}

/// Returns whether a projection only names fields. Any other is computed after the update, and may fail then. The update has been
/// applied all the same (seen on MongoDB 6.0.5), so it must not be sent again.
fn cannot_fail(projection: Doc<'_>) -> bool {
    let is_flag = |value: ValueRef<'_>| value.ty() == Type::Bool || value.as_num().is_some();
    projection.iter().all(|elem| is_flag(elem.value)) && !is_positional(projection)
}

// === impl UpdateById ===

impl<'a> UpdateById<'a> {
    /// Returns a statement of `update`, if it is such an update.
    pub fn of_statement(update: Doc<'a>) -> Option<Self> {
        let is_usual = update.iter().all(|elem| match elem.name_bytes() {
            b"q" | b"u" | b"arrayFilters" | b"upsert" => true,
            b"multi" => !is_true(elem.value),
            _ => false,
        });
        Self::new(doc_or_empty(update, "q"), update.get("u")).filter(|_| is_usual)
    }

    /// Returns a `findAndModify`, if it is such an update.
    pub fn of_find_and_modify(command: Doc<'a>) -> Option<Self> {
        let decides = ["sort", "hint", "collation"];
        let is_usual = !decides.iter().any(|name| command.has(name))
            && cannot_fail(doc_or_empty(command, "fields"));
        Self::new(doc_or_empty(command, "query"), command.get("update")).filter(|_| is_usual)
    }

    fn new(filter: Doc<'a>, change: ValueRef<'a>) -> Option<Self> {
        let id = filter.first().map(|first| first.value);
        let id = id.filter(|id| id.ty() != Type::Document && is_by_id(filter))?;
        let change = change.as_doc().filter(|change| is_operators(*change))?;
        let is_plain = |operator: Elem<'_>| operator.value.ty() == Type::Document;
        let is_usual = change.iter().all(is_plain) && !names_root(change, OwnTtl::FIELD);
        is_usual.then_some(Self { id })
    }

    /// Returns whether it may be sent without predicate.
    pub fn needs_no_predicate(self, rules: &CollectionRules, now: Millis, term: Term) -> bool {
        let Some(writes) = rules.writes.as_ref() else {
            return false;
        };
        if !rules.dates.is_empty() || rules.former.is_some() {
            return false;
        }
        match rules.default {
            DefaultTtl::Off => false,
            DefaultTtl::Never => rules.guesses.is_trusted(),
            DefaultTtl::Seconds(seconds) => written_after(seconds, now)
                .is_some_and(|moment| writes.is_written_after(self.id, moment, term)),
        }
    }

    /// Forgets its document, which has a `ttl` of its own, or cannot be changed in this way.
    pub fn forget(self, rules: &CollectionRules) {
        if let Some(writes) = rules.writes.as_ref() {
            writes.forget(self.id);
        }
    }

    /// Remembers that it was executed, and has met a document that inherits.
    pub fn remember(self, rules: &CollectionRules, now: Millis, term: Term) {
        if let Some(writes) = memory(rules) {
            writes.saw(self.id, now, term);
        }
    }
}
