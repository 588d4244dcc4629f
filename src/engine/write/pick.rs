//! Finding the documents of a write statement, one at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::effort::Effort;
use crate::engine::access::{SlicePace, Walk};
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::StepBudget;
use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::Millis;

/// A source of matching documents in the order of a walk. With a sort, it finds the first document of that sort.
/// sort.
pub struct Picker {
    walk: Walk,
    filter: Arc<Filter>,
    /// The sort whose first document is wanted.
    sort: Option<Sort>,
    /// The walk itself has the order of the sort. Otherwise all documents are read before the first one is known.
    in_order: bool,
    best: Option<BestCandidate>,
}

struct BestCandidate {
    key: Vec<u8>,
    id: RecordId,
    ts: Millis,
    bytes: Vec<u8>,
}

pub enum Picked {
    /// A document with its `_ts`. Its bytes are in `current`.
    One(RecordId, Millis),
    /// The time slice is used up.
    Pause,
    None,
}

// === impl Picker ===

impl Picker {
    /// Creates a picker. `in_order` says that the walk promises the order of the sort.
    pub fn new(walk: Walk, filter: Arc<Filter>, sort: Option<Sort>, in_order: bool) -> Self {
        Self {
            walk,
            filter,
            sort,
            in_order,
            best: None,
        }
    }

    /// Returns the work done since the last call.
    pub fn take_effort(&mut self) -> Effort {
        self.walk.take_effort()
    }

    pub fn collection(&self) -> &Arc<Collection> {
        self.walk.collection()
    }

    pub fn next(
        &mut self,
        at: ReadPoint,
        vars: &Vars,
        slice: &dyn StepBudget,
        current: &mut Vec<u8>,
    ) -> Result<Picked> {
        if self.sort.is_none() || self.in_order {
            if let Some(picked) = self.next_in_order(at, vars, slice, current)? {
                return Ok(picked);
            }
            self.in_order = false;
        }
        // The walk has lost its order, or never had it.
        let Some(sort) = self.sort.take() else {
            return Ok(Picked::None);
        };
        let picked = self.first_by(&sort, at, vars, slice, current);
        if matches!(picked, Ok(Picked::Pause)) {
            self.sort = Some(sort);
        }
        picked
    }

    /// Returns the next document of the walk, or nothing if the walk has lost its order.
    fn next_in_order(
        &mut self,
        at: ReadPoint,
        vars: &Vars,
        slice: &dyn StepBudget,
        current: &mut Vec<u8>,
    ) -> Result<Option<Picked>> {
        loop {
            let mut picked = None;
            let pace = self.walk.slice(at, &self.filter, vars, |found| {
                current.clear();
                current.extend_from_slice(found.stored.bytes);
                picked = Some((found.id, found.stored.ts));
                Ok(ControlFlow::Break(()))
            })?;
            match (picked, pace) {
                (Some((id, ts)), _) => return Ok(Some(Picked::One(id, ts))),
                (None, SlicePace::End) => return Ok(Some(Picked::None)),
                (None, SlicePace::Unordered) => return Ok(None),
                (None, SlicePace::More) if slice.is_over() => return Ok(Some(Picked::Pause)),
                (None, SlicePace::More) => {}
            }
        }
    }

    fn first_by(
        &mut self,
        sort: &Sort,
        at: ReadPoint,
        vars: &Vars,
        slice: &dyn StepBudget,
        current: &mut Vec<u8>,
    ) -> Result<Picked> {
        let mut key = Vec::new();
        loop {
            let best = &mut self.best;
            let pace = self.walk.slice(at, &self.filter, vars, |found| {
                key.clear();
                sort.key(found.shown, &mut key)?;
                if best.as_ref().is_none_or(|best| key < best.key) {
                    *best = Some(BestCandidate {
                        key: key.clone(),
                        id: found.id,
                        ts: found.stored.ts,
                        bytes: found.stored.bytes.to_vec(),
                    });
                }
                Ok(ControlFlow::Continue(()))
            })?;
            match pace {
                SlicePace::More if slice.is_over() => return Ok(Picked::Pause),
                SlicePace::More | SlicePace::Unordered => {}
                SlicePace::End => {
                    return Ok(self.best.take().map_or(Picked::None, |best| {
                        *current = best.bytes;
                        Picked::One(best.id, best.ts)
                    }));
                }
            }
        }
    }
}
