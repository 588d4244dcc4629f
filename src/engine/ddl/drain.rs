//! Changes of a collection's rules that must not bring anything back, and must not hold anybody up.
//!
//! A longer, unlimited or removed rule could revive what has ended and still waits for the reaper. So what has ended is removed
//! first, in steps; the change is made in the same lock hold in which nothing is left. Where rules that go by dates change,
//! what the new ones say of each document is computed before that, in steps as well ([`DateRuleMigration`]).

use std::sync::Arc;

use super::drop_indexes;
use super::{Advance, Done, ModifyCollection, Steps, no_collection};
use crate::engine::TimeSlice;
use crate::error::Result;
use crate::storage::index::Index;
use crate::storage::{
    Collection, DateRuleChange, DateRuleMigration, Dropped, IndexSelection, Rules, free,
};
use crate::value::Millis;

/// A change that could bring documents back.
pub(super) enum RuleChange {
    Modify(ModifyCollection),
    DropIndexes(IndexSelection),
}

pub(super) struct Draining {
    collection: Arc<Collection>,
    change: RuleChange,
    /// Dropped behind the change, so that others with a change to make wait until it is made.
    dates: Option<DateRuleMigration>,
}

// === impl RuleChange ===

impl RuleChange {
    /// Makes the change, with the indexes that are no more.
    fn make(&self, rules: &mut Rules<'_>) -> Result<(Done, Vec<Index>)> {
        match self {
            // Decided again in the lock hold that changes it: meanwhile somebody else may have changed what was looked at.
            Self::Modify(change) => {
                let modified = change.resolve(&rules.view())?.make(rules);
                Ok((Done::Modified(modified), Vec::new()))
            }
            Self::DropIndexes(which) => {
                let (dropped, gone) = drop_indexes::make(rules, which);
                Ok((Done::DroppedIndexes(dropped), gone))
            }
        }
    }
}

// === impl Draining ===

impl Draining {
    pub fn new(
        collection: Arc<Collection>,
        dates: Option<DateRuleChange>,
        change: RuleChange,
    ) -> Self {
        Self {
            dates: dates.map(|dates| DateRuleMigration::new(Arc::clone(&collection), dates)),
            collection,
            change,
        }
    }
}

impl Steps for Draining {
    fn step(&mut self, now: Millis) -> Result<Advance> {
        let slice = TimeSlice::begin();
        if let Some(migration) = &mut self.dates
            && let Some(advance) = prepare(migration, &slice).map_err(|Dropped| no_collection())?
        {
            return Ok(advance);
        }
        let change = |rules: &mut Rules<'_>| self.change.make(rules);
        let made = self.collection.drain_then(now, slice.until(), change);
        let Ok(made) = made.map_err(|Dropped| no_collection())? else {
            return Ok(Advance::More);
        };
        let (done, gone) = made?;
        let entries = gone.iter().map(Index::len).sum::<usize>();
        free(gone, entries as u64);
        Ok(Advance::Done(done))
    }
}

/// A step towards other date rules; `None` when they can change at once.
pub(super) fn prepare(
    migration: &mut DateRuleMigration,
    slice: &TimeSlice,
) -> Result<Option<Advance>, Dropped> {
    Ok(match migration.step(slice.until())? {
        true => None,
        false => Some(migration.turn().map_or(Advance::More, Advance::Wait)),
    })
}
