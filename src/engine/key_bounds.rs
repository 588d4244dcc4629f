//! Scans of an index between two keys that the client gives.

use std::sync::Arc;

use super::choose::facts;
use super::plan::{AccessPath, Facts, Hint, IndexFacts, IndexScan, KeyRange, Plan};
use crate::error::{Code, Error, Result};
use crate::query::sort::Sort;
use crate::storage::index::IndexSpec;
use crate::storage::{Collection, ReadPoint};
use crate::value::{Doc, DocBuf, ValueRef, equal};

/// The bounds of a scan of the hinted index: from `min` (included) to `max` (excluded).
#[derive(Debug, Clone)]
pub struct MinMaxBounds {
    pub min: Option<DocBuf>,
    pub max: Option<DocBuf>,
}

// === impl MinMaxBounds ===

impl MinMaxBounds {
    /// Checks the two against each other. MongoDB does that before it looks for the collection.
    pub fn check(&self) -> Result<()> {
        match (&self.min, &self.max) {
            (Some(min), Some(max)) if !has_same_names(min.as_doc(), max.as_doc()) => Err(
                Error::location(51176, "min and max must have the same field names"),
            ),
            _ => Ok(()),
        }
    }
}

/// Plans a scan of the hinted index between two keys.
pub fn between<'f>(
    collection: &Arc<Collection>,
    hint: Option<&Hint>,
    ends: &MinMaxBounds,
    sort: Option<&Sort>,
    at: ReadPoint,
) -> Result<Plan<'f>> {
    let Some(hint) = hint else {
        return Err(Error::location(
            51173,
            "When using min()/max() a hint of which index to use must be provided",
        ));
    };
    if matches!(hint, Hint::Natural(_)) {
        return Err(Error::new(
            Code::NoQueryExecutionPlans,
            "error processing query: planner returned error :: caused by :: min and max are incompatible with $natural",
        ));
    }
    let of_ids = match hint {
        Hint::Key(key) => names_id_first(key.as_doc()),
        hint => hint.names_ids(),
    };
    if of_ids {
        collection.order_ids_now(at.now())?;
    }
    let Facts { indexes, .. } = facts(collection, None, at);
    let named = |index: &IndexFacts| hint.names(&index.spec.name, index.spec.key.as_doc());
    let index = indexes.into_iter().find(named).ok_or_else(|| {
        Error::bad_value("hint provided does not correspond to an existing index")
    })?;
    let all = KeyRange::everything();
    let end = |end: &Option<DocBuf>, otherwise| match end {
        Some(end) => key_of(&index.spec, end.as_doc()),
        None => Ok(otherwise),
    };
    let range = KeyRange {
        lower: end(&ends.min, all.lower)?,
        upper: end(&ends.max, all.upper)?,
    };
    if range.lower >= range.upper {
        return Err(Error::location(
            51175,
            "The value provided for min() does not come before the value provided for max() in the hinted index",
        ));
    }
    let sort_covered = sort.is_none_or(Sort::is_empty);
    Ok(Plan::of_range(index, range, sort_covered))
}

/// Returns the scan of an index between two keys, or prefixes of keys, as a shard's range is given. It uses any index that
/// holds each document once and whose key begins with the fields of `pattern` (of `min` if there is no pattern).
pub fn within(
    collection: &Arc<Collection>,
    pattern: Option<Doc<'_>>,
    min: Doc<'_>,
    max: Doc<'_>,
    at: ReadPoint,
) -> Result<AccessPath> {
    if names_id_first(min) {
        collection.order_ids_now(at.now())?;
    }
    let inferred = DocBuf::build(|key| {
        for elem in min {
            key.put_i32(elem.name(), 1);
        }
    });
    let pattern = pattern.unwrap_or_else(|| inferred.as_doc());
    let fits = |index: &IndexFacts| {
        let key = index.spec.key.as_doc();
        let mut fields = key.iter();
        let begins = pattern.iter().all(|wanted| {
            let next = fields.next();
            next.is_some_and(|elem| elem.name() == wanted.name() && equal(elem.value, wanted.value))
        });
        let of_all = !index.spec.sparse && index.partial.is_none();
        begins && of_all && index.multikey.is_empty()
    };
    let Facts { indexes, .. } = facts(collection, None, at);
    let index = indexes.into_iter().find(fits).ok_or_else(|| {
        Error::new(
            Code::OperationFailed,
            "Couldn't find valid index containing key pattern",
        )
    })?;
    let range = KeyRange {
        lower: beginning_of(&index.spec, min)?,
        upper: beginning_of(&index.spec, max)?,
    };
    if range.lower >= range.upper {
        return Ok(AccessPath::Nothing);
    }
    Ok(AccessPath::IndexScan(IndexScan::of_range(index, range)))
}

fn names_id_first(key: Doc<'_>) -> bool {
    key.first().is_some_and(|elem| elem.name() == "_id")
}

/// Returns the first key of the index that begins with these values.
fn beginning_of(index: &IndexSpec, bound: Doc<'_>) -> Result<Vec<u8>> {
    let pattern = index.key.as_doc();
    let mut fields = pattern.iter();
    for elem in bound {
        let Some(field) = fields.next() else {
            return Err(Error::new(
                Code::KeyPatternShorterThanBound,
                format!("keyPattern {pattern} shorter than bound {bound}"),
            ));
        };
        if field.name() != elem.name() {
            return Err(Error::location(
                16634,
                format!("field names of bound {bound} do not match those of keyPattern {pattern}"),
            ));
        }
    }
    Ok(encoded(index, bound))
}

fn has_same_names(one: Doc<'_>, other: Doc<'_>) -> bool {
    let others = other.iter().map(|elem| elem.name());
    one.iter().map(|elem| elem.name()).eq(others)
}

fn key_of(index: &IndexSpec, end: Doc<'_>) -> Result<Vec<u8>> {
    let names = index.paths.iter().map(|path| path.as_str());
    if !end.iter().map(|elem| elem.name()).eq(names) {
        return Err(Error::location(
            51174,
            "The index chosen is not compatible with min/max",
        ));
    }
    Ok(encoded(index, end))
}

fn encoded(index: &IndexSpec, values: Doc<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let values: Vec<ValueRef<'_>> = values.iter().map(|elem| elem.value).collect();
    index.encode(&values, &mut bytes);
    bytes
}
