//! Changes of a collection's expiry rules. They must not revive documents and must not block other clients.
//!
//! A longer, unlimited or removed rule could revive documents that have expired and still wait for the reaper. So the change
//! first removes all expired documents, in steps. It then takes effect in the lock hold in which none is left. If rules on
//! dates change, the ends that the new rules give to each document are computed before that, also in steps
//! ([`DateRuleMigration`]).

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

/// A change that could revive documents.
pub(super) enum RuleChange {
    Modify(ModifyCollection),
    DropIndexes(IndexSelection),
}

pub(super) struct DrainThenChange {
    collection: Arc<Collection>,
    change: RuleChange,
    /// Dropped after the change is made, so that other changes wait until then.
    dates: Option<DateRuleMigration>,
}

// === impl RuleChange ===

impl RuleChange {
    /// Makes the change. Also returns the indexes that it dropped.
    fn make(&self, rules: &mut Rules<'_>) -> Result<(Done, Vec<Index>)> {
        match self {
            // Resolved again in the lock hold that makes the change, because another client may have changed the collection
            // meanwhile.
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

// === impl DrainThenChange ===

impl DrainThenChange {
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

impl Steps for DrainThenChange {
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

/// Runs a step towards other date rules. Returns `None` when they can change at once.
pub(super) fn prepare(
    migration: &mut DateRuleMigration,
    slice: &TimeSlice,
) -> Result<Option<Advance>, Dropped> {
    Ok(match migration.step(slice.until())? {
        true => None,
        false => Some(migration.turn().map_or(Advance::More, Advance::Wait)),
    })
}
