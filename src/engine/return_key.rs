//! `returnKey`: reduces rows to the index keys by which they were found.

use std::sync::Arc;

use super::access::Walk;
use super::plan::{AccessPath, KeyRange, ScanDirection, SkipBounds};
use crate::error::Result;
use crate::query::stage::{self, Rows};
use crate::storage::index::{ID_INDEX, IndexSpec};
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef, keys};

/// An index by which a row may have been found.
pub struct FoundBy {
    spec: Arc<IndexSpec>,
    ranges: Vec<KeyRange>,
    /// The bounds that decide within the ranges.
    skip: Option<Arc<SkipBounds>>,
    descending: bool,
}

/// Reduces the rows of `input` to their keys, or to empty documents after a scan of the collection.
pub fn rows(input: Box<dyn Rows>, by: Vec<FoundBy>) -> Box<dyn Rows> {
    stage::map(input, move |row, _, out| {
        let mut shown = DocBuilder::begin(out);
        for by in &by {
            if by.put_key(row.doc, &mut shown)? {
                break;
            }
        }
        shown.end();
        Ok(true)
    })
}

/// Returns the indexes that a walk reads.
pub fn indexes(walk: &Walk) -> Vec<FoundBy> {
    let by = |access: &AccessPath| match access {
        AccessPath::Ids(_) => Some(FoundBy {
            spec: Arc::new(IndexSpec::new(
                ID_INDEX,
                DocBuf::build(|key| {
                    key.put_i32("_id", 1);
                }),
            )),
            ranges: Vec::new(),
            skip: None,
            descending: false,
        }),
        AccessPath::IndexScan(scan) => Some(FoundBy {
            spec: Arc::clone(&scan.spec),
            ranges: scan.ranges.clone(),
            skip: scan.skip.clone(),
            descending: scan.direction == ScanDirection::Backward,
        }),
        _ => None,
    };
    walk.unfinished_accesses().filter_map(by).collect()
}

// === impl FoundBy ===

impl FoundBy {
    /// Returns whether `_ts` is part of the key.
    pub fn names_ts(&self) -> bool {
        self.spec.names_ts()
    }

    /// Writes the key under which the walk found the document first. Returns `false` if this index does not hold the
    /// document.
    fn put_key(&self, doc: Doc<'_>, out: &mut DocBuilder<'_>) -> Result<bool> {
        let mut first: Option<(Vec<u8>, Vec<ValueRef<'_>>)> = None;
        keys(&self.spec.paths, doc, |found| {
            let mut bytes = Vec::new();
            self.spec.encode(found.values, &mut bytes);
            let is_in_ranges = self.ranges.is_empty()
                || self.ranges.iter().any(|range| {
                    range.lower.as_slice() <= bytes.as_slice()
                        && bytes.as_slice() < range.upper.as_slice()
                });
            let is_skipped = self.skip.as_ref().is_some_and(|skip| {
                let target = skip.target(&bytes, ScanDirection::Forward);
                target.is_some()
            });
            let earlier = first
                .as_ref()
                .is_none_or(|(known, _)| match self.descending {
                    false => bytes < *known,
                    true => bytes > *known,
                });
            if is_in_ranges && !is_skipped && earlier {
                first = Some((bytes, found.values.to_vec()));
            }
        })?;
        let Some((_, values)) = first else {
            return Ok(false);
        };
        for (path, value) in self.spec.paths.iter().zip(values) {
            out.put(path.as_str(), value);
        }
        Ok(true)
    }
}
