//! The client's own choice of an index.

use super::{Facts, ScanDirection};
use crate::{
    error::{Error, Result},
    ttl::TsIndex,
    value::{self, Doc, DocBuf},
};

/// A hint, as the client gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    Name(String),
    /// An index by its key.
    Key(DocBuf),
    /// All documents, in natural order or its reverse.
    Natural(ScanDirection),
}

/// The access that a hint stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hinted {
    /// The position of an index among the facts.
    Index(usize),
    /// The index on `_id`, while its ordered form has not been built.
    Ids,
    Natural(ScanDirection),
}

// === impl Hint ===

impl Hint {
    /// Parses a hint that is a document: the key of an index, or `{$natural: 1}`.
    pub fn of_document(key: DocBuf) -> Self {
        match key.as_doc().get("$natural").as_num() {
            Some(way) if way.is_negative() => Self::Natural(ScanDirection::Backward),
            Some(_) => Self::Natural(ScanDirection::Forward),
            None => Self::Key(key),
        }
    }

    /// Turns a sort by `$natural` into a hint, because it only sets the direction of the scan. Returns `None` for another sort.
    pub fn of_natural_sort(sort: Doc<'_>, hint: Option<&Self>) -> Result<Option<Self>> {
        if !sort.has("$natural") {
            return Ok(None);
        }
        if sort.count() > 1 {
            return Err(Error::bad_value(format!(
                "Cannot include '$natural' in compound sort: {sort}"
            )));
        }
        let direction = sort.get("$natural").as_num();
        if !matches!(
            direction.and_then(|direction| direction.to_i64_exact()),
            Some(1 | -1)
        ) {
            return Err(Error::bad_value(
                "$natural sort cannot be set to a value other than -1 or 1.",
            ));
        }
        if hint.is_some() {
            return Err(Error::bad_value("Cannot use a hint with $natural sort"));
        }
        Ok(Some(Self::of_document(DocBuf::from(sort))))
    }

    /// Returns the hinted index. Fails if it does not exist or is hidden.
    pub(super) fn find(&self, facts: &Facts) -> Result<Hinted> {
        if let Self::Natural(direction) = self {
            return Ok(Hinted::Natural(*direction));
        }
        if facts
            .ts_index
            .as_ref()
            .is_some_and(|index| self.names_ts_index(index))
        {
            // This index has no entries, so it stands for all documents.
            return Ok(Hinted::Natural(ScanDirection::Forward));
        }
        let found = facts
            .indexes
            .iter()
            .position(|index| self.names(&index.spec.name, index.spec.key.as_doc()));
        match found.and_then(|at| Some((at, facts.indexes.get(at)?))) {
            Some((at, index)) if !index.spec.hidden => Ok(Hinted::Index(at)),
            None if self.names_ids() => Ok(Hinted::Ids),
            _ => Err(Error::bad_value(
                "error processing query: planner returned error :: caused by :: hint provided does not correspond to an existing index",
            )),
        }
    }

    /// Returns whether the hint means an index of this name and key.
    pub fn names(&self, name: &str, key: Doc<'_>) -> bool {
        match self {
            Self::Name(wanted) => wanted == name,
            Self::Key(wanted) => value::compare_docs(key, wanted.as_doc()).is_eq(),
            Self::Natural(_) => false,
        }
    }

    /// Returns whether the hint means the index on `_id`.
    pub fn names_ids(&self) -> bool {
        match self {
            Self::Name(name) => name == crate::storage::index::ID_INDEX,
            Self::Key(key) => {
                let key = key.as_doc();
                let way = key.get("_id").as_num();
                key.count() == 1 && way.is_some_and(|way| way.to_f64() == 1.0)
            }
            Self::Natural(_) => false,
        }
    }

    fn names_ts_index(&self, index: &TsIndex) -> bool {
        match self {
            Self::Name(name) => *name == index.name,
            Self::Key(key) => *key == index.key,
            Self::Natural(_) => false,
        }
    }
}
