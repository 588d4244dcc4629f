//! Finding out which of the wanted indexes must be built.

use super::default_ttl::is_plain;
use crate::error::{Code, Error, Result};
use crate::storage::View;
use crate::storage::index::IndexSpec;
use crate::ttl::{DefaultTtl, IndexingMode, TsIndex, check_mode, is_ts_key};
use crate::value::{Doc, DocBuf, ValueRef, compare_docs, key};

/// An index that a client wants.
#[derive(Debug, Clone)]
pub enum WantedIndex {
    /// The index on `_id`, which every collection has.
    Id,
    /// `DefaultTTL`, set in the form of an index on `_ts`.
    Default {
        default: DefaultTtl,
        ts_index: TsIndex,
    },
    Index(Box<IndexSpec>),
}

/// The indexes that must be built.
pub(super) struct MissingIndexes {
    pub indexes: Vec<IndexSpec>,
    pub default: Option<(DefaultTtl, TsIndex)>,
}

/// The largest number of indexes in a collection.
const MAX_INDEXES: usize = 64;

// === impl MissingIndexes ===

impl MissingIndexes {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty() && self.default.is_none()
    }

    /// Checks the indexes of a collection that does not exist yet. A list that contradicts itself creates none.
    pub fn check_new(wanted: &[WantedIndex]) -> Result<()> {
        let mut indexes: Vec<IndexSpec> = Vec::new();
        for wanted in wanted {
            if let WantedIndex::Index(spec) = wanted {
                check_against_wanted(&indexes, spec)?;
                indexes.push(IndexSpec::clone(spec));
            }
        }
        Ok(())
    }

    /// Finds the missing indexes. Returns `None` if another client is building a wanted index: the build may still fail, so
    /// the caller waits for it.
    pub fn find(view: &View<'_>, wanted: &[WantedIndex]) -> Result<Option<Self>> {
        let mut indexes: Vec<IndexSpec> = Vec::new();
        let mut default = None;
        let mut is_being_built = false;
        let mode = view.options().indexing_mode;
        for wanted in wanted {
            match wanted {
                WantedIndex::Id => {}
                WantedIndex::Default {
                    default: value,
                    ts_index,
                } => {
                    check_mode(mode, *value, Code::CannotCreateIndex)?;
                    default = Some((*value, ts_index.clone()));
                }
                WantedIndex::Index(_) if mode == Some(IndexingMode::None) => {
                    return Err(Error::new(
                        Code::CannotCreateIndex,
                        "Indexing mode 'none' allows no index but the one on _id",
                    ));
                }
                WantedIndex::Index(spec) => {
                    check_against_default(view, spec)?;
                    if !exists(view.indexes().map(|index| &*index.spec), spec)? {
                        check_against_wanted(&indexes, spec)?;
                        indexes.push(IndexSpec::clone(spec));
                    }
                    is_being_built |= view.index(&spec.name).is_some_and(|there| !there.ready);
                    // Checked here and not at the end: each index is compared with all before it, and the collection is
                    // locked.
                    if view.indexes().count() + indexes.len() + 1 > MAX_INDEXES {
                        return Err(Error::new(
                            Code::CannotCreateIndex,
                            format!("add index fails, too many indexes for {}", view.namespace()),
                        ));
                    }
                }
            }
        }
        if let Some((_, ts_index)) = &default {
            let mut specs = view.indexes().map(|index| &*index.spec).chain(&indexes);
            // A plain index on `_ts` becomes the one that shows the default. Any other index of that name would be mistaken
            // for it.
            if specs.any(|spec| spec.name == ts_index.name && !is_plain(spec)) {
                return Err(has_name(&ts_index.name));
            }
        }
        Ok((!is_being_built).then_some(Self { indexes, default }))
    }
}

/// Checks a new index against the one that shows the default, which follows the same rules about names and keys.
fn check_against_default(view: &View<'_>, spec: &IndexSpec) -> Result<()> {
    let Some(ts) = view.ts_index() else {
        return Ok(());
    };
    if view.index(&ts.name).is_some() {
        return Ok(());
    }
    let same_key = is_ts_key(spec.key.as_doc());
    if same_key {
        return Err(Error::new(
            Code::IndexOptionsConflict,
            format!(
                "An equivalent index already exists with different options. Requested index: {}, existing index: {}",
                spec.name, ts.name
            ),
        ));
    }
    if ts.name == spec.name {
        return Err(has_name(&ts.name));
    }
    Ok(())
}

/// Checks a new index against those that the same command builds.
fn check_against_wanted(indexes: &[IndexSpec], spec: &IndexSpec) -> Result<()> {
    match exists(indexes.iter(), spec)? {
        false => Ok(()),
        true => Err(Error::new(
            Code::OperationFailed,
            "Cannot build two identical indexes. Try again without duplicate indexes.",
        )),
    }
}

fn has_name(name: &str) -> Error {
    Error::new(
        Code::IndexKeySpecsConflict,
        format!("An existing index has the same name as the requested index: {name}"),
    )
}

/// Returns whether the same index exists. Fails if the new one conflicts with an existing index.
fn exists<'a>(existing: impl Iterator<Item = &'a IndexSpec>, spec: &IndexSpec) -> Result<bool> {
    for there in existing {
        let same_name = there.name == spec.name;
        let same_kind = is_same_kind(there, spec);
        let describe = |spec: &IndexSpec| DocBuf::build(|doc| spec.describe(doc)).to_string();
        if same_name && !same_kind {
            return Err(Error::new(
                Code::IndexKeySpecsConflict,
                format!(
                    "An existing index has the same name as the requested index. When index names are not specified, they \
                     are auto generated and can cause conflicts. Please refer to our documentation. Requested index: {}, \
                     existing index: {}",
                    describe(spec),
                    describe(there)
                ),
            ));
        }
        if same_kind && !same_name {
            return Err(Error::new(
                Code::IndexOptionsConflict,
                format!("Index already exists with a different name: {}", there.name),
            ));
        }
        if same_kind && same_name {
            let settings = |spec: &IndexSpec| (spec.expire_after, spec.hidden, spec.prepare_unique);
            if settings(there) != settings(spec) {
                return Err(Error::new(
                    Code::IndexOptionsConflict,
                    format!(
                        "An equivalent index already exists with the same name but different options. Requested index: {}, \
                         existing index: {}",
                        describe(spec),
                        describe(there)
                    ),
                ));
            }
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether two indexes count as the same: by key, uniqueness, and the documents that they hold.
fn is_same_kind(one: &IndexSpec, other: &IndexSpec) -> bool {
    let conditions = |spec: &IndexSpec| {
        spec.partial.as_ref().map(|partial| {
            let mut all = Vec::new();
            clauses(partial.filter.as_doc(), &mut all);
            all.sort_unstable();
            all
        })
    };
    // Compared by value and not by direction: `{a: 1}` and `{a: 2}` are two indexes, `{a: 1}` and `{a: 1.0}` are one.
    compare_docs(one.key.as_doc(), other.key.as_doc()).is_eq()
        && (one.unique, one.sparse) == (other.unique, other.sparse)
        && conditions(one) == conditions(other)
}

/// Collects the conditions of a filter that must all hold: `{a: 1, b: 2}` and `{$and: [{b: {$eq: 2}}, {a: 1}]}` have the
/// same ones. A value stands as the key that an index has for it, so equal numbers of different types are the same.
fn clauses(filter: Doc<'_>, all: &mut Vec<Vec<u8>>) {
    for elem in filter {
        if let Some(array) = elem.value.as_array()
            && elem.name() == "$and"
        {
            let members = array.iter().filter_map(|member| member.value.as_doc());
            members.for_each(|member| clauses(member, all));
            continue;
        }
        let operators = elem.value.as_doc().filter(|doc| {
            doc.first()
                .is_some_and(|first| first.name().starts_with('$'))
        });
        let mut clause = |operator: &str, value: ValueRef<'_>| {
            let mut bytes = [elem.name(), operator, ""].join("\0").into_bytes();
            key::encode(value, false, &mut bytes);
            all.push(bytes);
        };
        match operators {
            Some(operators) => operators
                .iter()
                .for_each(|operator| clause(operator.name(), operator.value)),
            None => clause("$eq", elem.value),
        }
    }
}
