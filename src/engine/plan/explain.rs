//! A plan as `explain` shows it.

use super::{
    AccessPath, ExplainedAccess, ExplainedIndex, FieldBounds, IndexFacts, Plan, ScanDirection,
};
use crate::{
    error::Result,
    interrupt,
    query::Filter,
    query::filter::{FieldTest, FilterNode, Test},
    storage::index::ID_INDEX,
    value::{Doc, DocBuf, DocBuilder, Value},
};

/// The memory that a sort may use, as mongod shows it.
const SORT_LIMIT: i64 = 100 * 1024 * 1024;
/// The size of a reply above which bounds are left out, as in mongod (`internalQueryExplainSizeThresholdBytes`).
const MOST_BYTES: usize = 10 << 20;

/// Returns the stages of a plan, outermost first: a sort if the access does not give the order, the fetch, the access. The
/// stage that tests documents shows `filter`. `skips` tells that the query skips documents.
pub fn winning_plan(
    plan: &Plan<'_>,
    filter: &Filter,
    sort: Option<Doc<'_>>,
    skips: bool,
) -> Result<DocBuf> {
    let mut bytes = Vec::new();
    let mut out = DocBuilder::begin(&mut bytes);
    match sort.filter(|sort| !plan.sort_covered && !sort.is_empty()) {
        Some(sort) => {
            out.put_str("stage", "SORT")
                .put_doc("sortPattern", sort)
                .put_i64("memLimit", SORT_LIMIT)
                .put_str("type", "simple");
            access(plan, filter, skips, &mut out.doc("inputStage"))?;
        }
        None => access(plan, filter, skips, &mut out)?,
    }
    out.end();
    Ok(DocBuf::from_bytes(bytes))
}

fn access(plan: &Plan<'_>, filter: &Filter, skips: bool, out: &mut DocBuilder<'_>) -> Result<()> {
    let mut left = MOST_BYTES;
    match (&plan.access, plan.explained.as_slice()) {
        (AccessPath::CollScan(direction), _) => {
            out.put_str("stage", "COLLSCAN");
            if !filter.is_all() {
                out.put_doc("filter", filter.describe()?.as_doc());
            }
            out.put_str("direction", direction.name());
        }
        (AccessPath::Union(_), all) => {
            out.put_str("stage", "SUBPLAN");
            let mut fetch = out.doc("inputStage");
            fetch
                .put_str("stage", "FETCH")
                .put_doc("filter", filter.describe()?.as_doc());
            let mut or = fetch.doc("inputStage");
            or.put_str("stage", "OR");
            let mut inputs = or.array("inputStages");
            for explained in all {
                index_scan(&explained.by, &mut left, &mut inputs.doc())?;
            }
        }
        // To MongoDB it is a lookup only if nothing is skipped.
        (AccessPath::Ids(_), []) => match id_scan(filter).filter(|_| skips) {
            Some(explained) => fetch(filter, &explained, &mut left, out)?,
            None => {
                out.put_str("stage", "IDHACK");
            }
        },
        (_, [explained]) => fetch(filter, explained, &mut left, out)?,
        _ => {
            out.put_str("stage", "EOF")
                .put_str("type", "predicateEvalsToFalse");
        }
    }
    Ok(())
}

/// Returns the scan of a filter that asks for one `_id`.
fn id_scan(filter: &Filter) -> Option<ExplainedAccess<'_>> {
    let FilterNode::Field(FieldTest {
        test: Test::Compare(comparison),
        ..
    }) = filter.root()
    else {
        return None;
    };
    Some(ExplainedAccess {
        by: ExplainedIndex::Ids(std::slice::from_ref(&comparison.value)),
        used: vec![0],
    })
}

fn fetch(
    filter: &Filter,
    explained: &ExplainedAccess<'_>,
    left: &mut usize,
    out: &mut DocBuilder<'_>,
) -> Result<()> {
    out.put_str("stage", "FETCH");
    put_rest(filter, explained, out)?;
    index_scan(&explained.by, left, &mut out.doc("inputStage"))
}

/// Writes the part of the filter that the bounds do not express.
fn put_rest(
    filter: &Filter,
    explained: &ExplainedAccess<'_>,
    out: &mut DocBuilder<'_>,
) -> Result<()> {
    let rest = filter.describe_without(&explained.used)?;
    if !rest.as_doc().is_empty() {
        out.put_doc("filter", rest.as_doc());
    }
    Ok(())
}

/// Writes the index scan. `left` is the number of bytes that the bounds may still take.
fn index_scan(by: &ExplainedIndex<'_>, left: &mut usize, out: &mut DocBuilder<'_>) -> Result<()> {
    out.put_str("stage", "IXSCAN");
    let bounds = match by {
        ExplainedIndex::Ids(values) => {
            out.doc("keyPattern").put_i32("_id", 1);
            out.put_str("indexName", ID_INDEX)
                .put_bool("isMultiKey", false);
            out.doc("multiKeyPaths").array("_id");
            out.put_bool("isUnique", true)
                .put_bool("isSparse", false)
                .put_bool("isPartial", false)
                .put_i32("indexVersion", 2)
                .put_str("direction", ScanDirection::Forward.name());
            id_bounds(values, *left)?
        }
        ExplainedIndex::Scan {
            index,
            direction,
            bounds,
        } => {
            put_index(index, *direction, out);
            match bounds {
                Some(bounds) => scan_bounds(index, *direction, bounds, *left)?,
                None => Some(DocBuf::new()),
            }
        }
    };
    match bounds {
        Some(bounds) => {
            *left = left.saturating_sub(bounds.bytes().len());
            out.put_doc("indexBounds", bounds.as_doc());
        }
        None => {
            out.put_str(
                "warning",
                "index bounds omitted due to BSON size limit for explain",
            );
        }
    }
    Ok(())
}

fn put_index(index: &IndexFacts, direction: ScanDirection, out: &mut DocBuilder<'_>) {
    out.put_doc("keyPattern", index.spec.key.as_doc())
        .put_str("indexName", &index.spec.name)
        .put_bool("isMultiKey", !index.multikey.is_empty());
    let mut paths = out.doc("multiKeyPaths");
    for (at, path) in index.spec.paths.iter().enumerate() {
        let arrays = index.multikey.of(at);
        let mut list = paths.array(path.as_str());
        for part in (0..path.len()).filter(|part| arrays.has(*part)) {
            list.push_str(path.beginning(part + 1));
        }
    }
    paths.end();
    out.put_bool("isUnique", index.spec.unique)
        .put_bool("isSparse", index.spec.sparse)
        .put_bool("isPartial", index.partial.is_some())
        .put_i32("indexVersion", 2)
        .put_str("direction", direction.name());
}

fn id_bounds(values: &[Value], most: usize) -> Result<Option<DocBuf>> {
    let texts = values
        .iter()
        .map(|value| format!("[{0}, {0}]", value.as_ref()));
    bounds_of([("_id", Box::new(texts) as Texts<'_>)], most)
}

fn scan_bounds(
    index: &IndexFacts,
    direction: ScanDirection,
    bounds: &[Option<std::rc::Rc<FieldBounds>>],
    most: usize,
) -> Result<Option<DocBuf>> {
    let fields = index.spec.paths.iter().enumerate().map(|(at, path)| {
        let reversed = index.is_descending(at) != (direction == ScanDirection::Backward);
        let texts: Texts<'_> = match (bounds.get(at).and_then(Option::as_deref), reversed) {
            (None, false) => Box::new(std::iter::once("[MinKey, MaxKey]".to_owned())),
            (None, true) => Box::new(std::iter::once("[MaxKey, MinKey]".to_owned())),
            (Some(field), false) => Box::new(field.bounds.intervals.iter().map(|i| i.show(false))),
            (Some(field), true) => {
                Box::new(field.bounds.intervals.iter().rev().map(|i| i.show(true)))
            }
        };
        (path.as_str(), texts)
    });
    bounds_of(fields, most)
}

type Texts<'t> = Box<dyn Iterator<Item = String> + 't>;

/// Returns the intervals of each field, unless they take more than `most` bytes.
fn bounds_of<'t>(
    fields: impl IntoIterator<Item = (&'t str, Texts<'t>)>,
    most: usize,
) -> Result<Option<DocBuf>> {
    let mut bytes = Vec::new();
    let mut out = DocBuilder::begin(&mut bytes);
    let mut size = 0;
    for (name, texts) in fields {
        let mut list = out.array(name);
        for text in texts {
            interrupt::tick(1)?;
            // Each text also takes a type, its number as a name, and a length.
            size += text.len() + 12;
            if size > most {
                return Ok(None);
            }
            list.push_str(&text);
        }
    }
    out.end();
    Ok(Some(DocBuf::from_bytes(bytes)))
}
