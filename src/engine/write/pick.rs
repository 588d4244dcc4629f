//! Finding the documents that a write statement is about, one at a time.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::effort::Effort;
use crate::engine::access::{Pace, Walk};
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::Slice;
use crate::storage::{Collection, ReadPoint, RecordId};
use crate::value::Millis;

/// Yields matching documents in the order of a walk; with a sort, the first by it.
pub struct Picker {
    walk: Walk,
    filter: Arc<Filter>,
    /// The first by this sort is the one that is asked for.
    sort: Option<Sort>,
    /// The walk's own order is that of the sort. Otherwise everything is looked at before the first document is known.
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
    /// Its bytes stand in `current`; with the `_ts` that it had.
    One(RecordId, Millis),
    /// The time slice is used up.
    Pause,
    None,
}

// === impl Picker ===

impl Picker {
    /// `in_order`: the walk promises the order of the sort.
    pub fn new(walk: Walk, filter: Arc<Filter>, sort: Option<Sort>, in_order: bool) -> Self {
        Self {
            walk,
            filter,
            sort,
            in_order,
            best: None,
        }
    }

    /// What it has done since this was last asked.
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
        slice: &dyn Slice,
        current: &mut Vec<u8>,
    ) -> Result<Picked> {
        if self.sort.is_none() || self.in_order {
            if let Some(picked) = self.next_in_order(at, vars, slice, current)? {
                return Ok(picked);
            }
            self.in_order = false;
        }
        // Its order is lost, or was never there.
        let Some(sort) = self.sort.take() else {
            return Ok(Picked::None);
        };
        let picked = self.first_by(&sort, at, vars, slice, current);
        if matches!(picked, Ok(Picked::Pause)) {
            self.sort = Some(sort);
        }
        picked
    }

    /// The next that the walk leads to; nothing if the walk has lost its order.
    fn next_in_order(
        &mut self,
        at: ReadPoint,
        vars: &Vars,
        slice: &dyn Slice,
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
                (None, Pace::End) => return Ok(Some(Picked::None)),
                (None, Pace::Unordered) => return Ok(None),
                (None, Pace::More) if slice.is_over() => return Ok(Some(Picked::Pause)),
                (None, Pace::More) => {}
            }
        }
    }

    fn first_by(
        &mut self,
        sort: &Sort,
        at: ReadPoint,
        vars: &Vars,
        slice: &dyn Slice,
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
                Pace::More if slice.is_over() => return Ok(Picked::Pause),
                Pace::More | Pace::Unordered => {}
                Pace::End => {
                    return Ok(self.best.take().map_or(Picked::None, |best| {
                        *current = best.bytes;
                        Picked::One(best.id, best.ts)
                    }));
                }
            }
        }
    }
}
