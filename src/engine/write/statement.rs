//! One statement of an update, delete or findAndModify, run in steps.

use std::sync::Arc;

use super::{Match, Modified, Picked, Picker, delete, insert_batch, modify};
use crate::engine::ObjectIds;
use crate::engine::access::Walk;
use crate::engine::choose::{Hint, choose};
use crate::error::{Code, Result};
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::Slice;
use crate::query::update::{Apply, Update};
use crate::storage::{Catalog, Collection};
use crate::value::{Doc, Millis, Value};

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

/// An update on its way.
pub struct Updating {
    pub selection: Selection,
    pub update: Update,
    pub upsert: bool,
    picker: Option<Picker>,
    current: Vec<u8>,
    /// How often an upsert found its key taken by somebody who was faster.
    lost: u32,
    pub done: Updated,
}

/// What an update did.
#[derive(Debug, Default)]
pub struct Updated {
    pub matched: u64,
    pub modified: u64,
    /// The `_id` of the document that an upsert added.
    pub upserted: Option<Value>,
    /// The last document reached, before and after (findAndModify shows them).
    pub before: Option<Vec<u8>>,
    pub after: Option<Vec<u8>>,
}

/// A delete on its way.
pub struct Deleting {
    pub selection: Selection,
    picker: Option<Picker>,
    current: Vec<u8>,
    pub deleted: u64,
    /// The last document removed.
    pub before: Option<Vec<u8>>,
}

/// How often a lost race is run again before its error is shown.
const MAX_LOST: u32 = 10;

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

// === impl Updating ===

impl Updating {
    pub fn new(selection: Selection, update: Update, upsert: bool) -> Self {
        Self {
            selection,
            update,
            upsert,
            picker: None,
            current: Vec::new(),
            lost: 0,
            done: Updated::default(),
        }
    }

    /// Goes on until it is done (`true`) or the time slice is over.
    pub fn step(&mut self, place: &Place<'_>, slice: &dyn Slice) -> Result<bool> {
        loop {
            if self.search(place, slice)? {
                if self.done.matched > 0 || !self.upsert || self.insert(place)? {
                    return Ok(true);
                }
            } else if slice.is_over() {
                return Ok(false);
            }
        }
    }

    /// Changes what matches. `false`: there is more to do.
    fn search(&mut self, place: &Place<'_>, slice: &dyn Slice) -> Result<bool> {
        let picker = match &mut self.picker {
            Some(picker) => picker,
            None => match place.catalog.get(place.database, place.collection) {
                None => return Ok(true),
                Some(collection) => self
                    .picker
                    .insert(self.selection.picker(collection, place.now)?),
            },
        };
        let id = match picker.next(place.now, &self.selection.vars, slice, &mut self.current)? {
            Picked::One(id) => id,
            Picked::Pause => return Ok(false),
            Picked::None => {
                self.picker = None;
                return Ok(true);
            }
        };
        let (update, vars, filter) = (&self.update, &self.selection.vars, &self.selection.filter);
        let still = self.selection.still_matches();
        let modified = modify(
            picker.collection(),
            id,
            &mut self.current,
            &still,
            place.now,
            |doc| {
                let position = if update.needs_position() {
                    filter.position(doc, vars)
                } else {
                    None
                };
                update.apply(
                    doc,
                    &Apply {
                        now: place.now,
                        vars,
                        position,
                        inserting: false,
                    },
                )
            },
        )?;
        let after = match modified {
            Ok(Modified::Changed(after)) => {
                self.done.modified += 1;
                Some(after)
            }
            Ok(Modified::Unchanged) => None,
            Ok(Modified::Gone) | Err(_) => {
                // Somebody else was faster. A single update looks again from the start, a multi one goes on.
                if !self.selection.multi || modified.is_err() {
                    self.picker = None;
                }
                return Ok(false);
            }
        };
        self.done.matched += 1;
        if !self.selection.multi {
            let before = std::mem::take(&mut self.current);
            self.done.after = Some(after.unwrap_or_else(|| before.clone()));
            self.done.before = Some(before);
        }
        Ok(!self.selection.multi)
    }

    /// Adds the document that nothing matched. `false`: somebody else was faster, look again.
    fn insert(&mut self, place: &Place<'_>) -> Result<bool> {
        let vars = &self.selection.vars;
        let apply = Apply {
            now: place.now,
            vars,
            position: None,
            inserting: true,
        };
        let equalities = self.selection.filter.equalities()?;
        let bytes = self.update.upsert(&equalities, &apply, || {
            Value::oid(place.ids.next(place.now))
        })?;
        let (collection, _) = place
            .catalog
            .get_or_create(place.database, place.collection);
        let Ok(inserted) = insert_batch(&collection, std::iter::once(bytes.as_slice()), place.now)
        else {
            return Ok(false);
        };
        match inserted.failed {
            None => {
                self.done.upserted = Some(Doc::new(&bytes).get("_id").to_value());
                self.done.after = Some(bytes);
                Ok(true)
            }
            Some(error) if error.code() == Code::DuplicateKey && self.lost < MAX_LOST => {
                self.lost += 1;
                Ok(false)
            }
            Some(error) => Err(error),
        }
    }
}

// === impl Deleting ===

impl Deleting {
    pub fn new(selection: Selection) -> Self {
        Self {
            selection,
            picker: None,
            current: Vec::new(),
            deleted: 0,
            before: None,
        }
    }

    /// Goes on until it is done (`true`) or the time slice is over.
    pub fn step(&mut self, place: &Place<'_>, slice: &dyn Slice) -> Result<bool> {
        loop {
            if self.search(place, slice)? {
                return Ok(true);
            }
            if slice.is_over() {
                return Ok(false);
            }
        }
    }

    fn search(&mut self, place: &Place<'_>, slice: &dyn Slice) -> Result<bool> {
        let picker = match &mut self.picker {
            Some(picker) => picker,
            None => match place.catalog.get(place.database, place.collection) {
                None => return Ok(true),
                Some(collection) => self
                    .picker
                    .insert(self.selection.picker(collection, place.now)?),
            },
        };
        let id = match picker.next(place.now, &self.selection.vars, slice, &mut self.current)? {
            Picked::One(id) => id,
            Picked::Pause => return Ok(false),
            Picked::None => return Ok(true),
        };
        let still = self.selection.still_matches();
        match delete(
            picker.collection(),
            id,
            &mut self.current,
            &still,
            place.now,
        )? {
            Ok(true) => {}
            gone => {
                if !self.selection.multi || gone.is_err() {
                    self.picker = None;
                }
                return Ok(false);
            }
        }
        self.deleted += 1;
        if !self.selection.multi {
            self.before = Some(std::mem::take(&mut self.current));
        }
        Ok(!self.selection.multi)
    }
}
