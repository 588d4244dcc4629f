//! One statement of an update, delete or findAndModify, run in steps.

use super::search::FoundDocument;
use super::{Changed, Deleted, Search, Selection, WriteTarget, collection_for, insert_batch};
use crate::effort::Effort;
use crate::error::{Code, Error, Result};
use crate::query::stage::StepBudget;
use crate::query::update::{Apply, Style, Update};
use crate::storage::New;
use crate::value::{Doc, Millis, Value};

/// A running update.
pub struct Updating {
    pub search: Search,
    pub update: Update,
    pub upsert: bool,
    pub shows: Shows,
    /// Whether the first step has run.
    has_begun: bool,
    /// How often an upsert found its key taken by another client.
    lost: u32,
    pub done: Updated,
}

/// The result of an update.
#[derive(Debug, Default)]
pub struct Updated {
    pub matched: u64,
    pub modified: u64,
    /// The `_id` of the document that an upsert added.
    pub upserted: Option<Value>,
    /// The document that was changed or added, in the version that the client wants.
    pub shown: Option<Version>,
}

/// The version of the changed document that the client wants to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shows {
    Nothing,
    Before,
    After,
}

/// One version of a document.
#[derive(Debug)]
pub struct Version {
    pub bytes: Vec<u8>,
    /// When this version was written.
    pub ts: Millis,
}

/// A running delete.
pub struct Deleting {
    pub search: Search,
    pub deleted: u64,
    /// The last document removed.
    pub before: Option<Version>,
    /// This is the delete of a findAndModify.
    is_shown: bool,
}

const FIND_AND_MODIFY: &str = "Plan executor error during findAndModify";

/// How often a lost race is retried before its error is reported.
pub const MAX_LOST: u32 = 10;

// === impl Updating ===

impl Updating {
    pub fn new(selection: Selection, update: Update, upsert: bool) -> Self {
        Self {
            search: Search::new(selection, Some("Plan executor error during update")),
            update,
            upsert,
            shows: Shows::Nothing,
            has_begun: false,
            lost: 0,
            done: Updated::default(),
        }
    }

    /// Makes this the update of a findAndModify, which returns a document.
    #[must_use]
    pub fn showing(mut self, shows: Shows) -> Self {
        self.shows = shows;
        self.search.introduce(FIND_AND_MODIFY);
        self
    }

    /// Returns whether one document may take long, as [`Survey`](crate::query::Survey) explains.
    pub fn is_slow(&self) -> bool {
        self.search.selection.is_slow() || self.update.is_slow()
    }

    /// Runs until the update is done (`true`) or the time slice is over.
    pub fn step(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool> {
        place.check_uncapped()?;
        if self.upsert && !std::mem::replace(&mut self.has_begun, true) {
            // MongoDB creates the collection of an upsert before it looks for a document, so that it is there even if the
            // upsert fails.
            collection_for(place.catalog, place.database, place.collection, place.at)?;
        }
        loop {
            if self.change_next(place, slice, effort)? {
                if self.done.matched > 0 || !self.upsert || self.insert(place, effort)? {
                    return Ok(true);
                }
                if place.is_blocked() {
                    return Ok(false);
                }
            } else if place.is_blocked() || slice.is_over() {
                return Ok(false);
            }
        }
    }

    /// Changes the next document that matches. Returns `false` if there may be more to do.
    fn change_next(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool> {
        let keeps = self.shows != Shows::Nothing;
        let mut new = New::Same;
        let changed =
            self.search
                .change_next(place, slice, &self.update, keeps, &mut new, effort)?;
        let written = match changed {
            Changed::Done(written) => written,
            Changed::Again => return Ok(false),
            Changed::None => return Ok(true),
        };
        self.done.matched += 1;
        self.done.modified += u64::from(!matches!(new, New::Same));
        let (bytes, ts) = match self.shows {
            Shows::Nothing => return Ok(!self.search.selection.multi),
            Shows::Before => (self.search.take_current(), written.before),
            Shows::After => (after(new, self.search.take_current()), written.ts),
        };
        self.done.shown = Some(Version { bytes, ts });
        Ok(!self.search.selection.multi)
    }

    /// Adds a document because nothing matched. Returns `false` if another client added it first; the caller searches again.
    fn insert(&mut self, place: &WriteTarget<'_>, effort: &mut Effort) -> Result<bool> {
        self.search.start_over();
        let made = self.make(place);
        let bytes = made.map_err(|error| self.search.failed(error))?;
        let (collection, _) =
            collection_for(place.catalog, place.database, place.collection, place.at)?;
        let Ok(inserted) = insert_batch(&collection, std::iter::once(bytes.as_slice()), place.at)
        else {
            return Ok(false);
        };
        if let Some(wait) = inserted.blocked {
            place.blocked.set(Some(wait));
            return Ok(false);
        }
        match inserted.failed {
            None => {
                effort.inserted += (place.weigh)(bytes.len());
                self.done.upserted = Some(Doc::new(&bytes).get("_id").to_value());
                self.done.shown = (self.shows == Shows::After).then_some(Version {
                    bytes,
                    ts: place.now(),
                });
                Ok(true)
            }
            Some(error) if error.code() == Code::DuplicateKey && self.lost < MAX_LOST => {
                self.lost += 1;
                Ok(false)
            }
            Some(error) => Err(self.search.failed(error)),
        }
    }

    /// Builds the document that an upsert adds.
    fn make(&self, place: &WriteTarget<'_>) -> Result<Vec<u8>> {
        let new_id = || Value::oid(place.ids.next(place.now()));
        let selection = &self.search.selection;
        selection.upsert(&self.update, place.now(), new_id)
    }
}

// === impl Selection ===

impl Selection {
    /// Builds the document that an upsert adds if nothing matches.
    pub fn upsert(
        &self,
        update: &Update,
        now: Millis,
        new_id: impl FnOnce() -> Value,
    ) -> Result<Vec<u8>> {
        let apply = Apply {
            now,
            vars: &self.vars,
            position: None,
            inserting: true,
        };
        let filter = self.wanted.filter();
        let equalities = match update.style() {
            Style::Replacement => filter.id_equality()?,
            _ => filter.equalities()?,
        };
        update.upsert(&equalities, &apply, new_id)
    }
}

/// Returns the document that `before` became.
fn after(new: New, mut before: Vec<u8>) -> Vec<u8> {
    match new {
        New::Same => before,
        New::Bytes(bytes) => bytes,
        New::Patch(patch) => {
            patch.apply(&mut before);
            before
        }
    }
}

// === impl Updated ===

impl Updated {
    /// Returns how many documents the update has found or added.
    pub fn reached(&self) -> u64 {
        self.matched + u64::from(self.upserted.is_some())
    }
}

// === impl Deleting ===

impl Deleting {
    pub fn new(selection: Selection) -> Self {
        Self {
            search: Search::new(selection, Some("Plan executor error during delete")),
            deleted: 0,
            before: None,
            is_shown: false,
        }
    }

    /// Makes this the delete of a findAndModify, which returns the document.
    #[must_use]
    pub fn showing(mut self) -> Self {
        self.is_shown = true;
        self.search.introduce(FIND_AND_MODIFY);
        self
    }

    /// Runs until the delete is done (`true`) or the time slice is over.
    pub fn step(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool> {
        place.check_uncapped().map_err(|refusal| match self.is_shown || refusal.code() != Code::OperationNotSupportedInTransaction {
            true => refusal,
            false => Error::new(
                Code::IllegalOperation,
                format!(
                    "Cannot remove from a capped collection in a multi-document transaction: {}.{}",
                    place.database, place.collection
                ),
            ),
        })?;
        loop {
            if self.remove_next(place, slice, effort)? {
                return Ok(true);
            }
            if place.is_blocked() || slice.is_over() {
                return Ok(false);
            }
        }
    }

    /// Removes the next document that matches. Returns `false` if there may be more to do.
    fn remove_next(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool> {
        let mut candidate = match self.search.next(place, slice, effort)? {
            FoundDocument::One(candidate) => candidate,
            FoundDocument::Pause => return Ok(false),
            FoundDocument::None => return Ok(true),
        };
        candidate.quick = !place.outside_lock;
        let found = candidate.target.found();
        let ts = match candidate.delete(place.at) {
            Ok(Deleted::Done(ts)) => ts,
            Ok(Deleted::None) => return Ok(true),
            Ok(Deleted::Gone) => {
                self.search.lost(false);
                return Ok(false);
            }
            Err(stopped) => {
                self.search.stopped(stopped, found, place)?;
                return Ok(false);
            }
        };
        effort.removed += 1;
        self.deleted += 1;
        let multi = self.search.selection.multi;
        if !multi {
            let bytes = self.search.take_current();
            self.before = Some(Version { bytes, ts });
        }
        Ok(!multi)
    }
}
