//! Planning a query on a collection. The facts are copied under the lock; the plan is made after the lock is released.
//! Planning writes nothing: a caller that wants `_id`s in order calls [`super::order_ids`] first.

use std::sync::Arc;

use super::partial::PartialFilter;
use super::plan::{self, Facts, Hint, IndexFacts, Plan, SortKey, id_equality};
use crate::error::{Code, Error, Result};
use crate::names::{is_internal, is_system};
use crate::query::filter::{Filter, FilterNode};
use crate::query::sort::Sort;
use crate::storage::{Collection, Namespace, ReadPoint, View};

pub fn choose<'f>(
    collection: &Arc<Collection>,
    filter: &'f Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    at: ReadPoint,
) -> Result<Plan<'f>> {
    // The most frequent query needs neither the lock nor a plan.
    if hint.is_none()
        && let Some(id) = id_equality(filter)
    {
        return Ok(Plan::of_id(id));
    }
    let facts = facts(collection, hint, at);
    let sort: Vec<SortKey<'_>> = sort
        .into_iter()
        .flat_map(Sort::parts)
        .map(|(path, descending)| SortKey { path, descending })
        .collect();
    let plan = plan::plan(filter, &sort, hint, &facts)?;
    if facts.refuses_scans {
        check_scan(&plan, filter, hint)?;
    }
    Ok(plan)
}

/// Refuses a plan that reads the whole collection. As in MongoDB, a query without a filter may do so.
#[cold]
fn check_scan(plan: &Plan<'_>, filter: &Filter, hint: Option<&Hint>) -> Result<()> {
    if !plan.access.scans_all() || matches!(filter.root(), FilterNode::True) {
        return Ok(());
    }
    let why = match hint {
        Some(Hint::Natural(_)) => {
            "not allowed to output a collection scan because 'notablescan' is enabled"
        }
        _ => "No indexed plans available, and running with 'notablescan'",
    };
    Err(Error::new(
        Code::NoQueryExecutionPlans,
        format!("error processing query: planner returned error :: caused by :: {why}"),
    ))
}

/// Copies the facts that the planner needs from a collection.
pub(super) fn facts(collection: &Collection, hint: Option<&Hint>, at: ReadPoint) -> Facts {
    collection.read(at, |view| Facts {
        indexes: indexes(view),
        ts_index: hint.and(view.ts_index()).cloned(),
        refuses_scans: view.refuses_scans() && !is_own(view.namespace()),
    })
}

/// Returns whether a collection is one of the server's own, which may always be read as a whole.
fn is_own(namespace: &Namespace) -> bool {
    is_internal(namespace.database()) || is_system(namespace.collection())
}

/// Returns the indexes that are ready to be read.
fn indexes(view: &View<'_>) -> Vec<IndexFacts> {
    view.ways()
        .iter()
        .filter(|index| view.is_usable(index))
        .filter_map(|index| {
            Some(IndexFacts {
                number: index.number,
                spec: Arc::clone(&index.spec),
                multikey: index.multikey.clone(),
                partial: PartialFilter::of(&index.spec)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use bson::{Document, doc};

    use super::*;
    use crate::engine::order_ids;
    use crate::interrupt::observe;
    use crate::query::Scope;
    use crate::storage::CollectionOptions;
    use crate::value::{DocBuf, Millis};

    /// Readers and writers of the collection do not wait while a long filter is planned.
    #[test]
    fn a_long_filter_is_planned_outside_the_lock() {
        let collection = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
        let collection = Arc::new(collection);
        let at = ReadPoint::at(Millis(0));
        collection.order_ids_now(at.now()).unwrap();
        let many: Vec<Document> = (0..5_000).map(|n| doc! {"_id": {"$ne": n}}).collect();
        let filter = DocBuf::from(doc! {"$and": many});
        let filter = Filter::parse(filter.as_doc(), &Scope::new()).unwrap();
        let (counted, watched) = (Rc::new(Cell::new(0)), Arc::clone(&collection));
        let units = Rc::clone(&counted);
        let observer = move |more| {
            assert!(!watched.is_locked(), "after {} units", units.get());
            units.set(units.get() + more);
        };
        let plan = observe::ticks(observer, || {
            order_ids(&collection, &filter, None, None, at)?;
            choose(&collection, &filter, None, None, at)
        });
        let plan::AccessPath::IndexScan(scan) = plan.unwrap().access else {
            panic!("the index of `_id`s serves it");
        };
        assert_eq!(scan.ranges.len(), 5_001);
        assert!(counted.get() > 20_000, "{} units", counted.get());
    }
}
