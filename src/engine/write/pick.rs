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
    /// A sort that the walk's own order does not give: everything is looked at before the first document is known.
    sort: Option<Sort>,
    best: Option<Best>,
}

struct Best {
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
    pub fn new(walk: Walk, filter: Arc<Filter>, sort: Option<Sort>) -> Self {
        Self {
            walk,
            filter,
            sort,
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
        match self.sort.take() {
            None => self.next_in_order(at, vars, slice, current),
            Some(sort) => {
                let picked = self.first_by(&sort, at, vars, slice, current);
                if matches!(picked, Ok(Picked::Pause)) {
                    self.sort = Some(sort);
                }
                picked
            }
        }
    }

    fn next_in_order(
        &mut self,
        at: ReadPoint,
        vars: &Vars,
        slice: &dyn Slice,
        current: &mut Vec<u8>,
    ) -> Result<Picked> {
        loop {
            let mut picked = None;
            let pace = self.walk.slice(at, &self.filter, vars, |found| {
                current.clear();
                current.extend_from_slice(found.stored.bytes);
                picked = Some((found.id, found.stored.ts));
                Ok(ControlFlow::Break(()))
            })?;
            match (picked, pace) {
                (Some((id, ts)), _) => return Ok(Picked::One(id, ts)),
                (None, Pace::End) => return Ok(Picked::None),
                (None, Pace::More) if slice.is_over() => return Ok(Picked::Pause),
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
                    *best = Some(Best {
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
                Pace::More => {}
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
