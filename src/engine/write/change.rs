//! Applying an update to the next document that a search finds: for the statements of clients, and for the rows of `$merge`.

use super::search::FoundDocument;
use super::{Modified, Search, Selector, WriteTarget, with_ts};
use crate::effort::Effort;
use crate::error::Result;
use crate::query::Vars;
use crate::query::stage::StepBudget;
use crate::query::update::{Apply, Edit, Update};
use crate::storage::{New, NewTtl, UpdateDelta, Writer, Written};
use crate::ttl::OwnTtl;
use crate::value::{Doc, DocBuf, Millis};

/// The result of changing the next document.
pub enum Changed {
    /// `new` is what became of it.
    Done(Written),
    /// The time slice is used up, or another client changed the document first. The caller calls again.
    Again,
    /// No document is left.
    None,
}

/// Tells the log what an update has changed in a document.
struct AppliedUpdate<'a> {
    update: &'a Update,
    wanted: &'a Selector,
    vars: &'a Vars,
    now: Millis,
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
        new: &mut New,
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
        let found = candidate.target.found();
        let (wanted, vars) = (candidate.still_matches.wanted, candidate.still_matches.vars);
        let applied = AppliedUpdate {
            update,
            wanted,
            vars,
            now: place.now(),
        };
        let modified = candidate.modify(place.at, new, &applied, |doc, ts, writer| {
            let shown = update.reads_ts().then(|| with_ts(doc, ts));
            let doc = shown.as_deref().map_or(doc, Doc::new);
            let apply = applied.to(doc)?;
            match writer.and_then(|writer| edit(update, new_ttl, doc, &apply, writer)) {
                Some(new) => Ok(new),
                None => Ok(update.apply(doc, &apply)?.map_or(New::Same, New::Bytes)),
            }
        });
        Ok(match modified {
            Ok(Modified::Done(written)) => {
                effort.changed += (place.weigh)(written.len);
                Changed::Done(written)
            }
            Ok(Modified::None) => Changed::None,
            Ok(Modified::Gone) => {
                self.lost(false);
                Changed::Again
            }
            Err(stopped) => {
                self.stopped(stopped, found, place)?;
                Changed::Again
            }
        })
    }
}

// === impl AppliedUpdate ===

impl<'a> AppliedUpdate<'a> {
    /// Returns the context in which the update is applied to a document.
    #[inline]
    fn to(&self, doc: Doc<'_>) -> Result<Apply<'a>> {
        let position = match self.update.needs_position() {
            true => self.wanted.filter().position(doc, self.vars)?,
            false => None,
        };
        Ok(Apply {
            now: self.now,
            vars: self.vars,
            position,
            inserting: false,
        })
    }
}

impl UpdateDelta for AppliedUpdate<'_> {
    fn delta(&self, before: Doc<'_>, after: Doc<'_>) -> Option<DocBuf> {
        let apply = self.to(before).ok()?;
        self.update.delta(before, after, &apply)
    }
}

/// Returns what becomes of the document if one walk over it can tell.
#[inline]
fn edit(
    update: &Update,
    new_ttl: NewTtl,
    doc: Doc<'_>,
    apply: &Apply<'_>,
    writer: &Writer<'_>,
) -> Option<New> {
    Some(match update.edit(doc, apply)? {
        Edit::Rebuilt(bytes) => New::Bytes(bytes),
        Edit::InPlace(patch) if patch.is_empty() => New::Same,
        Edit::InPlace(patch)
            if new_ttl == NewTtl::Same && writer.may_patch(|field| !update.leaves_alone(field)) =>
        {
            New::Patch(patch)
        }
        Edit::InPlace(patch) => {
            let mut bytes = doc.bytes().to_vec();
            patch.apply(&mut bytes);
            New::Bytes(bytes)
        }
    })
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
