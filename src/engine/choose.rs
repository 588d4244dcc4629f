//! Choosing a way to the documents: the planner's answer, ready to be walked.

use std::sync::Arc;

use super::access::Access;
use super::plan::{self, Direction, IndexInfo, Plan, SortKey};
use crate::error::Result;
use crate::query::Scope;
use crate::query::filter::{Filter, Node, Op, Test};
use crate::query::sort::Sort;
use crate::storage::{Collection, View};
use crate::value::{Doc, DocBuf, Millis, key};

/// The client says which way to take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    Name(String),
    /// An index by its key, or `{$natural: 1}`.
    Key(DocBuf),
}

/// A way, and whether it yields the documents in the order of the sort.
#[derive(Debug)]
pub struct Chosen {
    pub access: Access,
    pub sorted: bool,
}

pub fn choose(
    collection: &Collection,
    filter: &Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    now: Millis,
) -> Result<Chosen> {
    // The most frequent query needs neither the lock nor a plan.
    if hint.is_none()
        && let Some(key) = id_equality(filter)
    {
        return Ok(Chosen {
            access: Access::Ids(vec![key]),
            sorted: true,
        });
    }
    collection.read(now, |view| {
        let indexes = indexes(view);
        let plan = make(filter, sort, hint, &indexes)?;
        let sorted = plan.sort_covered || sort.is_none_or(Sort::is_empty);
        let access = match plan.access {
            plan::Access::Nothing => Access::None,
            plan::Access::CollScan(direction) => Access::All {
                descending: direction == Direction::Backward,
            },
            plan::Access::Ids(ids) => Access::Ids(ids.keys),
            plan::Access::IndexScan(scan) => Access::Index {
                name: indexes
                    .get(scan.index)
                    .map_or_else(String::new, |index| index.spec.name.clone()),
                ranges: scan.ranges,
                descending: scan.direction == Direction::Backward,
            },
        };
        Ok(Chosen { access, sorted })
    })
}

/// The plan as explain shows it under `winningPlan`. `sort` comes parsed and as it was written.
pub fn winning_plan(
    collection: &Collection,
    filter: &Filter,
    sort: Option<(&Sort, Doc<'_>)>,
    hint: Option<&Hint>,
    now: Millis,
) -> Result<DocBuf> {
    collection.read(now, |view| {
        let indexes = indexes(view);
        let plan = make(filter, sort.map(|(sort, _)| sort), hint, &indexes)?;
        let written = sort.map(|(_, written)| written);
        Ok(plan::winning_plan(&plan, filter, written, &indexes))
    })
}

fn make(
    filter: &Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    indexes: &[IndexInfo<'_>],
) -> Result<Plan> {
    let hint = hint.map(|hint| match hint {
        Hint::Name(name) => plan::Hint::Name(name),
        Hint::Key(key) => match key.as_doc().get("$natural").as_num() {
            Some(way) if way.is_negative() => plan::Hint::Natural(Direction::Backward),
            Some(_) => plan::Hint::Natural(Direction::Forward),
            None => plan::Hint::Key(key.as_doc()),
        },
    });
    let sort: Vec<SortKey<'_>> = sort
        .into_iter()
        .flat_map(Sort::parts)
        .map(|(path, descending)| SortKey { path, descending })
        .collect();
    plan::plan(filter, &sort, hint, indexes)
}

/// The indexes that are ready to be read.
fn indexes<'v>(view: &View<'v>) -> Vec<IndexInfo<'v>> {
    view.indexes()
        .iter()
        .filter(|index| index.ready)
        .filter_map(|index| {
            let partial = match &index.spec.partial {
                None => None,
                // It was parsed when the index was made; one that no longer can be serves nobody.
                Some(partial) => Some(Arc::new(
                    Filter::parse(partial.filter.as_doc(), &Scope::default()).ok()?,
                )),
            };
            Some(IndexInfo {
                spec: &index.spec,
                multikey: index.multikey,
                partial,
            })
        })
        .collect()
}

/// The `_id` (as key bytes) that the filter asks for, if it does nothing else.
pub fn id_equality(filter: &Filter) -> Option<Vec<u8>> {
    let Node::Field(field) = filter.root() else {
        return None;
    };
    let Test::Compare(comparison) = &field.test else {
        return None;
    };
    if field.path.len() != 1 || field.path.first() != "_id" || comparison.op != Op::Eq {
        return None;
    }
    let value = comparison.value.as_ref();
    // An array or null also matches what is not stored under that very key.
    if value.is_nullish() || value.as_array().is_some() {
        return None;
    }
    let mut bytes = Vec::with_capacity(24);
    key::encode(value, false, &mut bytes);
    Some(bytes)
}
