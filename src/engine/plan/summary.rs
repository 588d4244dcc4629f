//! `planSummary`: what a query reads, in a few words.

use std::fmt;
use std::sync::Arc;

use super::AccessPath;
use crate::storage::index::IndexSpec;

/// The accesses of a plan, as mongod names them. It prints itself: `IXSCAN { a: 1 }, IXSCAN { b: 1 }`
#[derive(Debug, Clone)]
pub struct PlanSummary(Vec<Read>);

#[derive(Debug, Clone)]
enum Read {
    Nothing,
    Collection,
    /// The document with one `_id`.
    Id,
    /// The documents with several `_id`s.
    Ids,
    Index(Arc<IndexSpec>),
    /// Rows that are all known already.
    Known,
}

// === impl PlanSummary ===

impl PlanSummary {
    pub fn of<'a>(accesses: impl IntoIterator<Item = &'a AccessPath>) -> Self {
        let mut reads = Vec::new();
        for access in accesses {
            add(access, &mut reads);
        }
        Self(reads)
    }

    /// The summary of reading a whole collection or the log of changes.
    pub fn scan() -> Self {
        Self(vec![Read::Collection])
    }

    /// The summary of a list that the server has made.
    pub fn list() -> Self {
        Self(vec![Read::Known])
    }

    /// The summary of rows that come from no collection.
    pub fn nothing_read() -> Self {
        Self(Vec::new())
    }
}

fn add(access: &AccessPath, reads: &mut Vec<Read>) {
    reads.push(match access {
        AccessPath::Nothing => Read::Nothing,
        AccessPath::CollScan(_) => Read::Collection,
        AccessPath::Ids(ids) if ids.len() == 1 => Read::Id,
        AccessPath::Ids(_) => Read::Ids,
        AccessPath::IndexScan(scan) => Read::Index(Arc::clone(&scan.spec)),
        AccessPath::Union(accesses) => {
            return accesses.iter().for_each(|access| add(access, reads));
        }
    });
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, read) in self.0.iter().enumerate() {
            if at > 0 {
                out.write_str(", ")?;
            }
            match read {
                Read::Nothing => out.write_str("EOF")?,
                Read::Collection => out.write_str("COLLSCAN")?,
                Read::Id => out.write_str("IDHACK")?,
                Read::Ids => out.write_str("IXSCAN { _id: 1 }")?,
                Read::Index(spec) => {
                    out.write_str("IXSCAN ")?;
                    put_key(spec, out)?;
                }
                Read::Known => out.write_str("QUEUED_DATA")?,
            }
        }
        Ok(())
    }
}

/// Prints the key of an index with its directions alone, whatever their numbers: `{ a: 1, b: -1 }`
fn put_key(spec: &IndexSpec, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (at, part) in spec.key.as_doc().iter().enumerate() {
        let before = if at == 0 { "{" } else { "," };
        let direction = if spec.descending.get(at) == Some(&true) {
            -1
        } else {
            1
        };
        write!(out, "{before} {}: {direction}", part.name())?;
    }
    out.write_str(" }")
}
