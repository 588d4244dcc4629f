//! The sorts that strict mode refuses because they have no index.

use super::rules::{COMPOSITE, ORDER_BY};
use crate::error::Result;
use crate::value::{Doc, Elem};

/// Checks a sort against the keys of the indexes that could serve it.
pub fn check_sort<'k>(sort: Doc<'_>, mut keys: impl Iterator<Item = Doc<'k>>) -> Result<()> {
    let Some(first) = sort.first() else {
        return Ok(());
    };
    if sort.count() == 1 {
        let name = first.name();
        let free = name == "_id" || name.starts_with('$');
        let serves = |key: Doc<'_>| key.first().is_some_and(|elem| covers(elem.name(), name));
        return match free || keys.any(serves) {
            true => Ok(()),
            false => Err(ORDER_BY.error()),
        };
    }
    match keys.any(|key| is_alike(key, sort)) {
        true => Ok(()),
        false => Err(COMPOSITE.error()),
    }
}

/// Checks the sort of a findAndModify, which may have one field only.
pub fn check_lone_sort<'k>(sort: Doc<'_>, keys: impl Iterator<Item = Doc<'k>>) -> Result<()> {
    match sort.count() > 1 {
        true => Err(COMPOSITE.error()),
        false => check_sort(sort, keys),
    }
}

/// Returns whether a field of a key covers the name: it is that field, or a wildcard for all fields (`$**`) or for all
/// fields below a path (`a.$**`).
fn covers(indexed: &str, name: &str) -> bool {
    match indexed.strip_suffix("$**") {
        Some(prefix) => name.starts_with(prefix),
        None => indexed == name,
    }
}

/// Returns whether a key has exactly these fields in this order, all in these directions or all in the opposite ones.
fn is_alike(key: Doc<'_>, sort: Doc<'_>) -> bool {
    let falls = |elem: &Elem<'_>| elem.value.as_num().is_some_and(|way| way.to_f64() < 0.0);
    let pairs: Vec<_> = key.iter().zip(sort.iter()).collect();
    let same =
        key.count() == sort.count() && pairs.iter().all(|(key, sort)| key.name() == sort.name());
    let turned = pairs
        .iter()
        .filter(|(key, sort)| falls(key) != falls(sort))
        .count();
    same && (turned == 0 || turned == pairs.len())
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::value::DocBuf;

    #[test]
    fn sorts_need_an_index_in_strict_mode() {
        let rows: &[(Document, Document, bool)] = &[
            (doc! {"a": 1}, doc! {"a": -1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": 1}, true),
            (doc! {"b": 1, "a": 1}, doc! {"a": 1}, false),
            (doc! {"$**": 1}, doc! {"a": 1}, true),
            (doc! {"a.$**": 1}, doc! {"a.b": 1}, true),
            (doc! {"a.$**": 1}, doc! {"b": 1}, false),
            (doc! {"x": 1}, doc! {"_id": -1}, true),
            (doc! {"x": 1}, doc! {}, true),
            (doc! {"x": 1}, doc! {"$natural": 1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": 1, "b": 1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": -1, "b": -1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": 1, "b": -1}, false),
            (doc! {"a": 1, "b": -1}, doc! {"a": -1, "b": 1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"b": 1, "a": 1}, false),
            (doc! {"a": 1}, doc! {"a": 1, "b": 1}, false),
            (doc! {"a": 1, "b": 1, "c": 1}, doc! {"a": 1, "b": 1}, false),
        ];
        for (key, sort, served) in rows {
            let (key, sort) = (DocBuf::from(key.clone()), DocBuf::from(sort.clone()));
            let got = check_sort(sort.as_doc(), std::iter::once(key.as_doc()));
            assert_eq!(got.is_ok(), *served, "{key} {sort}");
            let lone = check_lone_sort(sort.as_doc(), std::iter::once(key.as_doc()));
            let expected = *served && sort.as_doc().count() < 2;
            assert_eq!(lone.is_ok(), expected, "{key} {sort}");
        }
    }
}
