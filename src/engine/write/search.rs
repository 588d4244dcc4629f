//! The search for the documents of a statement.

use std::cell::Cell;
use std::sync::Arc;

use super::{Candidate, CandidateId, MatchCondition, Picked, Picker, Selector, Stopped, refused};
use crate::effort::{Effort, Weigh};
use crate::engine::ObjectIds;
use crate::engine::access::Walk;
use crate::engine::choose::choose;
use crate::engine::order_ids;
use crate::engine::plan::{Hint, Plan};
use crate::error::{Error, Result};
use crate::query::Vars;
use crate::query::sort::Sort;
use crate::query::stage::StepBudget;
use crate::storage::{Catalog, Collection, NewTtl, ReadPoint, RecordId, Refused};
use crate::value::{Millis, ValueRef};
use crate::wait::Wait;

/// The target of a statement's writes, and their time.
pub struct WriteTarget<'a> {
    pub catalog: &'a Arc<Catalog>,
    pub ids: &'a ObjectIds,
    pub database: &'a str,
    pub collection: &'a str,
    /// Forces all lookups and computations to run outside the exclusive lock. Tests compare the two ways.
    pub outside_lock: bool,
    /// How the written documents are counted.
    pub weigh: Weigh,
    /// The read point of the statement. It writes at the same `now`.
    pub at: ReadPoint,
    /// Set if a transaction holds the statement up: the caller waits before it goes on.
    pub blocked: &'a Blocked,
}

/// The transaction that a step waits for.
pub type Blocked = Cell<Option<Wait>>;

/// The documents that a statement is about.
pub struct Selection {
    pub wanted: Selector,
    pub vars: Vars,
    pub sort: Option<Sort>,
    pub hint: Option<Hint>,
    /// The filter or the sort names `_ts`.
    pub names_ts: bool,
    /// The statement changes all matching documents, not only the first.
    pub multi: bool,
}

/// A selection, with the progress of the search.
pub struct Search {
    pub selection: Selection,
    /// The words with which mongod introduces errors that a document causes, if it does.
    during: Option<&'static str>,
    way: Option<SearchWay>,
    /// The document that a transaction holds up. It comes next.
    claimed: Option<(RecordId, Millis)>,
    current: Vec<u8>,
}

enum SearchWay {
    /// The one document with an `_id`, the target of most writes. It is looked up once, when it is written.
    Point {
        collection: Arc<Collection>,
        gone: bool,
    },
    Picker(Box<Picker>),
}

/// The result of a search.
pub(super) enum FoundDocument<'s> {
    One(Candidate<'s>),
    /// The time slice is used up.
    Pause,
    /// No document is left, or the collection does not exist.
    None,
}

// === impl WriteTarget ===

impl<'a> WriteTarget<'a> {
    /// Returns the database and the collection.
    pub fn name(&self) -> (&'a str, &'a str) {
        (self.database, self.collection)
    }

    pub fn now(&self) -> Millis {
        self.at.now()
    }

    /// Fails in a transaction if the collection is capped, whether a document matches or not.
    #[inline]
    pub(super) fn check_uncapped(&self) -> Result<()> {
        match self.at.is_in_transaction() {
            true => self.refuse_capped(),
            false => Ok(()),
        }
    }

    #[cold]
    fn refuse_capped(&self) -> Result<()> {
        let there = self
            .catalog
            .get_to_write_at(self.database, self.collection, self.at)?;
        let refusal = there.and_then(|there| {
            there.read(self.at, |view| {
                let is_capped = view.options().cap.is_some();
                is_capped.then(|| refused(&Refused::Capped, view, &[]))
            })
        });
        refusal.map_or(Ok(()), Err)
    }

    /// Returns whether the step must wait for a transaction.
    pub fn is_blocked(&self) -> bool {
        let wait = self.blocked.take();
        let blocked = wait.is_some();
        self.blocked.set(wait);
        blocked
    }
}

// === impl Selection ===

impl Selection {
    /// Returns whether testing one document may take long, as [`Survey`](crate::query::Survey) explains.
    pub fn is_slow(&self) -> bool {
        matches!(&self.wanted, Selector::Filter(filter) if filter.is_slow())
    }

    /// Returns a walk for a reader. It ignores the sort.
    pub fn walk(&self, collection: Arc<Collection>, at: ReadPoint) -> Result<Walk> {
        let (filter, hint) = (self.wanted.filter(), self.hint.as_ref());
        order_ids(&collection, filter, None, hint, at)?;
        let plan = choose(&collection, filter, None, hint, at)?;
        Ok(Walk::new(collection, plan.access)
            .exact(plan.exact)
            .show_ts(self.names_ts))
    }

    /// Returns the plan for a writer.
    pub fn plan(&self, collection: &Arc<Collection>, at: ReadPoint) -> Result<Plan<'_>> {
        let (filter, sort) = (self.wanted.filter(), self.sort.as_ref());
        let hint = self.hint.as_ref();
        order_ids(collection, filter, sort, hint, at)?;
        choose(collection, filter, sort, hint, at)
    }

    /// Returns a picker that yields the documents one by one, for a writer.
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

    /// Returns the wanted `_id`, if the statement asks for one `_id` and nothing else.
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

    fn still_matches(&self) -> MatchCondition<'_> {
        MatchCondition {
            wanted: &self.wanted,
            vars: &self.vars,
            names_ts: self.names_ts,
        }
    }
}

// === impl Search ===

impl Search {
    /// Creates a search. `during` introduces errors that a document causes.
    pub fn new(selection: Selection, during: Option<&'static str>) -> Self {
        Self {
            selection,
            during,
            way: None,
            claimed: None,
            current: Vec::new(),
        }
    }

    /// Sets the words that introduce errors that a document causes.
    pub(super) fn introduce(&mut self, during: &'static str) {
        self.during = Some(during);
    }

    /// Finds the next document.
    #[inline]
    pub(super) fn next(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<FoundDocument<'_>> {
        if self.way.is_none() {
            let found =
                place
                    .catalog
                    .get_to_write_at(place.database, place.collection, place.at)?;
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
                (CandidateId::Id(id), &*collection)
            }
            Some(SearchWay::Picker(picker)) => {
                let picked = match self.claimed.take() {
                    Some((id, ts)) => Ok(Picked::One(id, ts)),
                    None => picker.next(at, &self.selection.vars, slice, current),
                };
                *effort += picker.take_effort();
                match picked.map_err(|error| during(self.during, error))? {
                    Picked::One(id, ts) => (CandidateId::Found(id, ts), picker.collection()),
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

    /// Adds the introduction to an error that came up while documents were read or written. Errors of the statement itself,
    /// or of its plan, get no introduction.
    pub(super) fn failed(&self, error: Error) -> Error {
        during(self.during, error)
    }

    /// Notes that another client changed the document first, or dropped the collection. A statement for a single document
    /// then starts over. One for many documents continues behind the lost one, as long as the collection exists.
    pub(super) fn lost(&mut self, dropped: bool) {
        if dropped || !self.selection.multi {
            self.start_over();
        }
    }

    /// Handles a write that was stopped. Returns an error if the statement has failed.
    pub(super) fn stopped(
        &mut self,
        stopped: Stopped,
        found: Option<(RecordId, Millis)>,
        place: &WriteTarget<'_>,
    ) -> Result<()> {
        match stopped {
            Stopped::Failed(error) => return Err(self.failed(error)),
            Stopped::Dropped => self.lost(true),
            Stopped::Claimed(wait) => {
                place.blocked.set(Some(wait));
                match &mut self.way {
                    Some(SearchWay::Point { gone, .. }) => *gone = false,
                    _ => self.claimed = found,
                }
            }
        }
        Ok(())
    }

    /// Starts over: the next document is again the first one.
    pub fn start_over(&mut self) {
        self.way = None;
        self.claimed = None;
    }

    /// Returns the bytes of the last document found, as they were before the write.
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
