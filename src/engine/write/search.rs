//! Which documents a statement is about, and the search for them.

use std::sync::Arc;

use super::{Candidate, Match, Picked, Picker};
use crate::engine::ObjectIds;
use crate::engine::access::Walk;
use crate::engine::choose::{Hint, choose};
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::Slice;
use crate::storage::{Catalog, Collection};
use crate::value::Millis;

/// Where a statement writes, and when.
pub struct Place<'a> {
    pub catalog: &'a Catalog,
    pub ids: &'a ObjectIds,
    pub database: &'a str,
    pub collection: &'a str,
    pub now: Millis,
}

/// Which documents a statement is about.
pub struct Selection {
    pub filter: Arc<Filter>,
    pub vars: Vars,
    pub sort: Option<Sort>,
    pub hint: Option<Hint>,
    /// The filter or the sort names `_ts`.
    pub names_ts: bool,
    /// All of them, or the first.
    pub multi: bool,
}

/// A selection, and how far one has come with it.
pub struct Search {
    pub selection: Selection,
    picker: Option<Picker>,
    current: Vec<u8>,
}

/// What a search came to.
pub(super) enum Found<'s> {
    One(Candidate<'s>),
    /// The time slice is used up.
    Pause,
    /// There are no more, or there is no collection.
    None,
}

// === impl Place ===

impl<'a> Place<'a> {
    /// The database and the collection.
    pub fn name(&self) -> (&'a str, &'a str) {
        (self.database, self.collection)
    }
}

// === impl Selection ===

impl Selection {
    /// The way to them for a reader. A sort is not looked at.
    pub fn walk(&self, collection: Arc<Collection>, now: Millis) -> Result<Walk> {
        let chosen = choose(&collection, &self.filter, None, self.hint.as_ref(), now)?;
        Ok(Walk::new(collection, chosen.access)
            .exact(chosen.exact)
            .show_ts(self.names_ts))
    }

    /// The documents one by one, for a writer.
    pub fn picker(&self, collection: Arc<Collection>, now: Millis) -> Result<Picker> {
        let chosen = choose(
            &collection,
            &self.filter,
            self.sort.as_ref(),
            self.hint.as_ref(),
            now,
        )?;
        let walk = Walk::new(collection, chosen.access)
            .exact(chosen.exact)
            .show_ts(self.names_ts)
            .for_writing();
        let sort = if chosen.sorted {
            None
        } else {
            self.sort.clone()
        };
        Ok(Picker::new(walk, Arc::clone(&self.filter), sort))
    }

    fn still_matches(&self) -> Match<'_> {
        Match {
            filter: &self.filter,
            vars: &self.vars,
            names_ts: self.names_ts,
        }
    }
}

// === impl Search ===

impl Search {
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            picker: None,
            current: Vec::new(),
        }
    }

    /// The next document.
    pub(super) fn next(&mut self, place: &Place<'_>, slice: &dyn Slice) -> Result<Found<'_>> {
        if self.picker.is_none() {
            let found = place.catalog.get(place.database, place.collection);
            self.picker = found
                .map(|collection| self.selection.picker(collection, place.now))
                .transpose()?;
        }
        let picked = match &mut self.picker {
            Some(picker) => {
                let vars = &self.selection.vars;
                picker.next(place.now, vars, slice, &mut self.current)?
            }
            None => Picked::None,
        };
        let (id, ts, picker) = match (picked, &self.picker) {
            (Picked::One(id, ts), Some(picker)) => (id, ts, picker),
            (Picked::Pause, _) => return Ok(Found::Pause),
            _ => return Ok(Found::None),
        };
        Ok(Found::One(Candidate {
            collection: picker.collection(),
            id,
            ts,
            current: &mut self.current,
            still_matches: self.selection.still_matches(),
        }))
    }

    /// Somebody else was faster, or the collection was dropped: one that means a single document looks again from the start,
    /// one that means many goes on behind the lost one as long as there is a collection.
    pub(super) fn lost(&mut self, dropped: bool) {
        if dropped || !self.selection.multi {
            self.start_over();
        }
    }

    pub(super) fn start_over(&mut self) {
        self.picker = None;
    }

    /// The document found last, as it was before it was written to.
    pub(super) fn take_current(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.current)
    }
}
