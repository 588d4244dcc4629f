//! Planning a query on a collection: the facts are copied under its lock, the plan is made of them when the lock is free again.
//! Nothing is written: a caller that would like `_id`s in order has them ordered first ([`super::order_ids`]).

use std::sync::Arc;

use super::partial::PartialFilter;
use super::plan::{self, Access, Facts, Hint, IndexFacts, Plan, SortKey, id_equality};
use crate::error::Result;
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::storage::{Collection, ReadPoint, View};
use crate::value::{Doc, DocBuf, key};

/// What is to be walked.
#[derive(Debug)]
pub struct Chosen {
    pub access: Access,
    /// It yields the documents in the order of the sort.
    pub sorted: bool,
    /// It yields only documents that pass the filter.
    pub exact: bool,
}

pub fn choose(
    collection: &Arc<Collection>,
    filter: &Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    at: ReadPoint,
) -> Result<Chosen> {
    // The most frequent query needs neither the lock nor a plan.
    if hint.is_none()
        && let Some(id) = id_equality(filter)
    {
        return Ok(Chosen {
            access: Access::Ids(vec![key::with(id, <[u8]>::to_vec)]),
            sorted: true,
            exact: true,
        });
    }
    let facts = facts(collection, hint, at);
    let plan = make(filter, sort, hint, &facts)?;
    Ok(Chosen {
        access: plan.access,
        sorted: plan.sort_covered,
        exact: plan.exact,
    })
}

/// The plan as explain shows it under `winningPlan`. `sort` comes parsed and as it was written.
pub fn winning_plan(
    collection: &Arc<Collection>,
    filter: &Filter,
    sort: Option<(&Sort, Doc<'_>)>,
    hint: Option<&Hint>,
    at: ReadPoint,
) -> Result<DocBuf> {
    let facts = facts(collection, hint, at);
    let plan = make(filter, sort.map(|(sort, _)| sort), hint, &facts)?;
    plan::winning_plan(&plan, filter, sort.map(|(_, written)| written))
}

fn make<'f>(
    filter: &'f Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    facts: &Facts,
) -> Result<Plan<'f>> {
    let sort: Vec<SortKey<'_>> = sort
        .into_iter()
        .flat_map(Sort::parts)
        .map(|(path, descending)| SortKey { path, descending })
        .collect();
    plan::plan(filter, &sort, hint, facts)
}

/// What the planner has to know of a collection.
pub(super) fn facts(collection: &Collection, hint: Option<&Hint>, at: ReadPoint) -> Facts {
    collection.read(at, |view| Facts {
        indexes: indexes(view),
        ts_index: hint.and(view.ts_index()).cloned(),
    })
}

/// The indexes that are ready to be read.
fn indexes(view: &View<'_>) -> Vec<IndexFacts> {
    view.ways()
        .iter()
        .filter(|index| index.ready)
        .filter_map(|index| {
            Some(IndexFacts {
                number: index.number,
                spec: Arc::clone(&index.spec),
                multikey: index.multikey,
                partial: PartialFilter::of(&index.spec)?,
            })
        })
        .collect()
}
