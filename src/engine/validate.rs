//! What validate finds in a collection.

use std::sync::Arc;

use super::TimeSlice;
use super::describe::{count_indexes, describe_indexes};
use crate::storage::{Collection, Dropped, Rules, View};
use crate::value::{DocBuf, Millis};

/// What there is, once everything that has ended is freed.
pub struct Findings {
    pub documents: u64,
    pub index_count: i32,
    /// Every index as clients see it, with its name and the number of its keys.
    pub indexes: Vec<(String, u64, DocBuf)>,
}

/// A step towards findings; `None`: there is more to free, step again with a fresh `now`.
///
/// Entries of ended documents wait for the reaper and are no part of what there is. To tell them apart means to follow every
/// entry of every index; to free them first, in steps, leaves numbers that are there to be read.
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
