//! A plan as `explain` shows it.

use super::{Access, IdPoints, IndexInfo, IndexScan, Plan};
use crate::{
    query::Filter,
    value::{Doc, DocBuf, DocBuilder},
};

/// The memory that a sort may use, as mongod shows it.
const SORT_LIMIT: i64 = 100 * 1024 * 1024;

/// The stages of a plan, outermost first: a sort if the access does not give the order, the fetch, the access. `filter` is
/// printed where documents are tested.
pub fn winning_plan(
    plan: &Plan,
    filter: &Filter,
    sort: Option<Doc<'_>>,
    indexes: &[IndexInfo<'_>],
) -> DocBuf {
    DocBuf::build(|out| {
        match sort.filter(|sort| !plan.sort_covered && !sort.is_empty()) {
            Some(sort) => {
                out.put_str("stage", "SORT")
                    .put_doc("sortPattern", sort)
                    .put_i64("memLimit", SORT_LIMIT)
                    .put_str("type", "simple");
                let mut input = out.doc("inputStage");
                access(plan, filter, indexes, &mut input);
            }
            None => access(plan, filter, indexes, out),
        };
    })
}

fn access(plan: &Plan, filter: &Filter, indexes: &[IndexInfo<'_>], out: &mut DocBuilder<'_>) {
    match &plan.access {
        Access::Nothing => {
            out.put_str("stage", "EOF");
        }
        Access::CollScan(direction) => {
            out.put_str("stage", "COLLSCAN");
            if !filter.is_all() {
                out.put_doc("filter", filter.describe().as_doc());
            }
            out.put_str("direction", direction.name());
        }
        Access::Ids(ids) if ids.alone => {
            out.put_str("stage", "IDHACK");
        }
        Access::Ids(ids) => {
            out.put_str("stage", "FETCH");
            put_rest(filter, &ids.used, out);
            id_scan(ids, &mut out.doc("inputStage"));
        }
        Access::IndexScan(scan) => {
            out.put_str("stage", "FETCH");
            put_rest(filter, &scan.used, out);
            if let Some(index) = indexes.get(scan.index) {
                index_scan(scan, index, &mut out.doc("inputStage"));
            }
        }
        Access::Union(ways) => {
            out.put_str("stage", "SUBPLAN");
            let mut fetch = out.doc("inputStage");
            fetch
                .put_str("stage", "FETCH")
                .put_doc("filter", filter.describe().as_doc());
            let mut or = fetch.doc("inputStage");
            or.put_str("stage", "OR");
            let mut inputs = or.array("inputStages");
            for way in ways {
                match way {
                    Access::Ids(ids) => id_scan(ids, &mut inputs.doc()),
                    Access::IndexScan(scan) => {
                        if let Some(index) = indexes.get(scan.index) {
                            index_scan(scan, index, &mut inputs.doc());
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}

fn id_scan(ids: &IdPoints, input: &mut DocBuilder<'_>) {
    input.put_str("stage", "IXSCAN");
    input.doc("keyPattern").put_i32("_id", 1);
    input
        .put_str("indexName", "_id_")
        .put_bool("isMultiKey", false)
        .put_bool("isUnique", true)
        .put_bool("isSparse", false)
        .put_bool("isPartial", false)
        .put_i32("indexVersion", 2)
        .put_str("direction", "forward");
    let mut bounds = input.doc("indexBounds");
    let mut list = bounds.array("_id");
    for value in &ids.values {
        list.push_str(&format!("[{0}, {0}]", value.as_ref()));
    }
}

/// What the bounds do not say.
fn put_rest(filter: &Filter, used: &[usize], out: &mut DocBuilder<'_>) {
    let rest = filter.describe_without(used);
    if !rest.as_doc().is_empty() {
        out.put_doc("filter", rest.as_doc());
    }
}

fn index_scan(scan: &IndexScan, index: &IndexInfo<'_>, out: &mut DocBuilder<'_>) {
    out.put_str("stage", "IXSCAN")
        .put_doc("keyPattern", index.spec.key.as_doc())
        .put_str("indexName", &index.spec.name)
        .put_bool("isMultiKey", scan.multikey);
    let mut paths = out.doc("multiKeyPaths");
    for (at, path) in index.spec.paths.iter().enumerate() {
        let mut list = paths.array(path.as_str());
        if index.is_multikey(at) {
            list.push_str(path.as_str());
        }
    }
    paths.end();
    out.put_bool("isUnique", index.spec.unique)
        .put_bool("isSparse", index.spec.sparse)
        .put_bool("isPartial", index.partial.is_some())
        .put_i32("indexVersion", 2)
        .put_str("direction", scan.direction.name());
    let mut bounds = out.doc("indexBounds");
    for (at, path) in index.spec.paths.iter().enumerate() {
        let mut list = bounds.array(path.as_str());
        let reversed = index.is_descending(at) != (scan.direction == super::Direction::Backward);
        match (scan.bounds.get(at).and_then(Option::as_ref), reversed) {
            (None, false) => {
                list.push_str("[MinKey, MaxKey]");
            }
            (None, true) => {
                list.push_str("[MaxKey, MinKey]");
            }
            (Some(intervals), false) => intervals.iter().for_each(|interval| {
                list.push_str(&interval.show(false));
            }),
            (Some(intervals), true) => intervals.iter().rev().for_each(|interval| {
                list.push_str(&interval.show(true));
            }),
        }
    }
}
