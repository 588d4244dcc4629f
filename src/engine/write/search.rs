//! Which documents a statement is about, and the search for them.

use std::sync::Arc;

use super::{Candidate, Match, Picked, Picker, Selector, Target};
use crate::effort::{Effort, Weigh};
use crate::engine::ObjectIds;
use crate::engine::access::Walk;
use crate::engine::choose::choose;
use crate::engine::order_ids;
use crate::engine::plan::{Hint, Plan};
use crate::error::{Error, Result};
use crate::query::Vars;
use crate::query::sort::Sort;
use crate::query::stage::Slice;
use crate::storage::{Catalog, Collection, NewTtl, ReadPoint};
use crate::value::{Millis, ValueRef};

/// Where a statement writes, and when.
pub struct WriteTarget<'a> {
    pub catalog: &'a Arc<Catalog>,
    pub ids: &'a ObjectIds,
    pub database: &'a str,
    pub collection: &'a str,
    /// Tests compare the two ways: nothing is looked for or computed while the collection is held exclusively.
    pub outside_lock: bool,
    /// How the documents that it writes are counted.
    pub weigh: Weigh,
    /// Where its reads start from; it writes at the same `now`.
    pub at: ReadPoint,
}

/// Which documents a statement is about.
pub struct Selection {
    pub wanted: Selector,
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
    /// What an error that a document brings about is led in by, in mongod's words, if it is.
    during: Option<&'static str>,
    way: Option<SearchWay>,
    current: Vec<u8>,
}

enum SearchWay {
    /// To the one document with an `_id`, where most writes go: it is looked for when it is written to, and once.
    Point {
        collection: Arc<Collection>,
        gone: bool,
    },
    Picker(Box<Picker>),
}

/// What a search came to.
pub(super) enum FoundDocument<'s> {
    One(Candidate<'s>),
    /// The time slice is used up.
    Pause,
    /// There are no more, or there is no collection.
    None,
}

// === impl WriteTarget ===

impl<'a> WriteTarget<'a> {
    /// The database and the collection.
    pub fn name(&self) -> (&'a str, &'a str) {
        (self.database, self.collection)
    }

    pub fn now(&self) -> Millis {
        self.at.now()
    }
}

// === impl Selection ===

impl Selection {
    /// Whether to ask one document may take long, as [`Survey`](crate::query::Survey) explains.
    pub fn is_slow(&self) -> bool {
        matches!(&self.wanted, Selector::Filter(filter) if filter.is_slow())
    }

    /// The way to them for a reader. A sort is not looked at.
    pub fn walk(&self, collection: Arc<Collection>, at: ReadPoint) -> Result<Walk> {
        order_ids(&collection, self.wanted.filter(), None, at)?;
        let plan = choose(
            &collection,
            self.wanted.filter(),
            None,
            self.hint.as_ref(),
            at,
        )?;
        Ok(Walk::new(collection, plan.access)
            .exact(plan.exact)
            .show_ts(self.names_ts))
    }

    /// The plan for a writer.
    pub fn plan(&self, collection: &Arc<Collection>, at: ReadPoint) -> Result<Plan<'_>> {
        let (filter, sort) = (self.wanted.filter(), self.sort.as_ref());
        order_ids(collection, filter, sort, at)?;
        choose(collection, filter, sort, self.hint.as_ref(), at)
    }

    /// The documents one by one, for a writer.
    pub fn picker(&self, collection: Arc<Collection>, plan: Plan<'_>) -> Picker {
        let sort = self.sort.clone();
        let walk = Walk::new(collection, plan.access)
            .exact(plan.exact)
            .in_order(plan.sort_covered && sort.is_some())
            .show_ts(self.names_ts)
            .for_writing();
        Picker::new(
            walk,
            Arc::clone(self.wanted.filter()),
            sort,
            plan.sort_covered,
        )
    }

    /// The `_id` of the one document that is asked for, if it is asked for by nothing else.
    pub(super) fn point(&self) -> Option<ValueRef<'_>> {
        match self.hint {
            None => self.wanted.id(),
            Some(_) => None,
        }
    }

    fn way(&self, collection: Arc<Collection>, at: ReadPoint) -> Result<SearchWay> {
        Ok(match self.point() {
            None => {
                let plan = self.plan(&collection, at)?;
                SearchWay::Picker(Box::new(self.picker(collection, plan)))
            }
            Some(_) => SearchWay::Point {
                collection,
                gone: false,
            },
        })
    }

    fn still_matches(&self) -> Match<'_> {
        Match {
            wanted: &self.wanted,
            vars: &self.vars,
            names_ts: self.names_ts,
        }
    }
}

// === impl Search ===

impl Search {
    /// `during` leads in errors that a document brings about.
    pub fn new(selection: Selection, during: Option<&'static str>) -> Self {
        Self {
            selection,
            during,
            way: None,
            current: Vec::new(),
        }
    }

    /// The next document.
    pub(super) fn next(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn Slice,
        effort: &mut Effort,
    ) -> Result<FoundDocument<'_>> {
        if self.way.is_none() {
            let found = place.catalog.get(place.database, place.collection)?;
            self.way = found
                .map(|collection| self.selection.way(collection, place.at))
                .transpose()?;
        }
        let (at, current) = (place.at, &mut self.current);
        let (target, collection) = match &mut self.way {
            Some(SearchWay::Point { collection, gone }) => {
                let Some(id) = self.selection.point().filter(|_| !*gone) else {
                    return Ok(FoundDocument::None);
                };
                *gone = true;
                (Target::Id(id), &*collection)
            }
            Some(SearchWay::Picker(picker)) => {
                let picked = picker.next(at, &self.selection.vars, slice, current);
                *effort += picker.take_effort();
                match picked.map_err(|error| during(self.during, error))? {
                    Picked::One(id, ts) => (Target::Found(id, ts), picker.collection()),
                    Picked::Pause => return Ok(FoundDocument::Pause),
                    Picked::None => return Ok(FoundDocument::None),
                }
            }
            None => return Ok(FoundDocument::None),
        };
        Ok(FoundDocument::One(Candidate {
            collection,
            target,
            reads_ts: self.selection.names_ts,
            new_ttl: NewTtl::Unknown,
            quick: false,
            keeps: false,
            current,
            still_matches: self.selection.still_matches(),
        }))
    }

    /// An error that came up while documents were looked at or written to, as it is told. What is wrong with a statement, or
    /// with its plan, is told as it is.
    pub(super) fn failed(&self, error: Error) -> Error {
        during(self.during, error)
    }

    /// Somebody else was faster, or the collection was dropped: one that means a single document looks again from the start,
    /// one that means many goes on behind the lost one as long as there is a collection.
    pub(super) fn lost(&mut self, dropped: bool) {
        if dropped || !self.selection.multi {
            self.start_over();
        }
    }

    /// The next document is the first again, of whatever is there then.
    pub fn start_over(&mut self) {
        self.way = None;
    }

    /// The document found last, as it was before it was written to.
    pub(super) fn take_current(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.current)
    }
}

fn during(what: Option<&str>, error: Error) -> Error {
    match what {
        Some(what) if !error.is_interruption() => error.caused(what),
        _ => error,
    }
}
