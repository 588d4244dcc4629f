//! Finding the index that a change names.

use crate::storage::View;
use crate::storage::index::ID_INDEX;
use crate::ttl::is_ts_key;
use crate::value::{Doc, DocBuf, equal};

/// The way in which a client names an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IndexName {
    Name(String),
    Key(DocBuf),
}

/// Returns whether an index has this name, including the one that shows the default.
pub(super) fn has_index(view: &View<'_>, name: &str) -> bool {
    view.index(name).is_some() || view.ts_index().is_some_and(|ts| ts.name == name)
}

/// Returns the names of the indexes with this key, including the one that shows the default.
pub(super) fn names_by_key(view: &View<'_>, key: Doc<'_>) -> Vec<String> {
    if key.count() == 1 && key.get("_id").as_num().is_some_and(|n| n.to_f64() == 1.0) {
        return vec![ID_INDEX.to_owned()];
    }
    let same = |other: Doc<'_>| {
        other.count() == key.count()
            && other
                .iter()
                .zip(key)
                .all(|(a, b)| a.name_bytes() == b.name_bytes() && equal(a.value, b.value))
    };
    let mut names: Vec<String> = view
        .indexes()
        .filter(|index| same(index.spec.key.as_doc()))
        .map(|index| index.spec.name.clone())
        .collect();
    if let Some(ts) = view.ts_index()
        && (same(ts.key.as_doc()) || is_ts_key(key))
        && !names.contains(&ts.name)
    {
        names.push(ts.name.clone());
    }
    names
}
