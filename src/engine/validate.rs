//! The findings of the command validate.

use std::sync::Arc;

use super::TimeSlice;
use super::describe::{count_indexes, describe_indexes};
use crate::storage::{Collection, Dropped, Rules, View};
use crate::value::{DocBuf, Millis};

/// The contents of a collection, after all expired documents were removed.
pub struct Findings {
    pub documents: u64,
    pub index_count: i32,
    /// Every index as clients see it, with its name and the number of its keys.
    pub indexes: Vec<(String, u64, DocBuf)>,
}

/// Runs one step of a validation. Returns `None` if there is more to remove; the caller then steps again with a fresh `now`.
///
/// Index entries of expired documents wait for the reaper and must not count. Telling them apart would mean following every
/// entry of every index. Removing the expired documents first, in steps, leaves counts that can simply be read.
pub fn validate(collection: &Arc<Collection>, now: Millis) -> Result<Option<Findings>, Dropped> {
    let until = TimeSlice::begin().until();
    let found = collection.drain_then(now, until, |rules: &mut Rules<'_>| {
        Findings::of(&rules.view())
    })?;
    Ok(found.ok())
}

// === impl Findings ===

impl Findings {
    fn of(view: &View<'_>) -> Self {
        let documents = view.totals().count;
        let mut keys = vec![("_id_".to_owned(), documents)];
        for index in view.indexes().filter(|index| index.ready) {
            keys.push((index.spec.name.clone(), index.len() as u64));
        }
        if let Some(ts) = view.ts_index()
            && view.index(&ts.name).is_none()
        {
            keys.push((ts.name.clone(), documents));
        }
        let described = keys.into_iter().zip(describe_indexes(view));
        Self {
            documents,
            index_count: count_indexes(view),
            indexes: described
                .map(|((name, keys), spec)| (name, keys, spec))
                .collect(),
        }
    }
}
