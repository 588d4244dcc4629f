//! Applying an update to the next document that a search finds: for the statements of clients, and for the rows of `$merge`.

use super::search::FoundDocument;
use super::{Modified, Search, WriteTarget, with_ts};
use crate::effort::Effort;
use crate::error::Result;
use crate::query::stage::StepBudget;
use crate::query::update::{Apply, Update};
use crate::storage::{New, NewTtl, Writer, Written};
use crate::ttl::OwnTtl;
use crate::value::{Doc, Patch};

/// The result of changing the next document.
pub enum Changed {
    Done {
        new: New,
        written: Written,
    },
    /// The time slice is used up, or another client changed the document first. The caller calls again.
    Again,
    /// No document is left.
    None,
}

// === impl Search ===

impl Search {
    /// Changes the next document that matches. With `keeps` the caller can get the old document afterwards.
    #[inline]
    pub fn change_next(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        update: &Update,
        keeps: bool,
        effort: &mut Effort,
    ) -> Result<Changed> {
        let mut candidate = match self.next(place, slice, effort)? {
            FoundDocument::One(candidate) => candidate,
            FoundDocument::Pause => return Ok(Changed::Again),
            FoundDocument::None => return Ok(Changed::None),
        };
        candidate.reads_ts |= update.reads_ts();
        let new_ttl = new_ttl(update);
        candidate.new_ttl = new_ttl;
        candidate.quick = update.is_quick() && !place.outside_lock;
        candidate.keeps = keeps;
        let (wanted, vars) = (candidate.still_matches.wanted, candidate.still_matches.vars);
        let modified = candidate.modify(place.at, |doc, ts, writer| {
            let shown = update.reads_ts().then(|| with_ts(doc, ts));
            let doc = shown.as_deref().map_or(doc, Doc::new);
            let position = if update.needs_position() {
                wanted.filter().position(doc, vars)?
            } else {
                None
            };
            let apply = Apply {
                now: place.now(),
                vars,
                position,
                inserting: false,
            };
            if new_ttl == NewTtl::Same
                && let Some(patch) = writer.and_then(|writer| patch(update, doc, &apply, writer))
            {
                return Ok(match patch.is_empty() {
                    true => New::Same,
                    false => New::Patch(patch),
                });
            }
            Ok(update.apply(doc, &apply)?.map_or(New::Same, New::Bytes))
        });
        Ok(match modified.map_err(|error| self.failed(error))? {
            Ok(Modified::Done { new, written }) => {
                effort.changed += (place.weigh)(written.len);
                Changed::Done { new, written }
            }
            Ok(Modified::None) => Changed::None,
            lost => {
                self.lost(lost.is_err());
                Changed::Again
            }
        })
    }
}

/// Returns the few bytes that the update changes, if it changes no more and the writer accepts a patch.
fn patch(update: &Update, doc: Doc<'_>, apply: &Apply<'_>, writer: &Writer<'_>) -> Option<Patch> {
    let may = update.may_patch() && writer.may_patch(|field| !update.leaves_alone(field));
    may.then(|| update.patch(doc, apply))?
}

/// Returns what is known of a document's `ttl` after the update.
fn new_ttl(update: &Update) -> NewTtl {
    if update.leaves_alone(OwnTtl::FIELD) {
        NewTtl::Same
    } else if update.lacks_ttl() {
        NewTtl::Absent
    } else {
        NewTtl::Unknown
    }
}
