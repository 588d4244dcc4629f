//! Whether a command names a field of the root, found in what the client wrote.
//!
//! `_ts` is shown only to commands that name it. It can be named as a field of a filter, sort or projection, in an expression
//! ("$_ts", "$$ROOT._ts"), or as the bare name that some stages take. This looks at the words and not at the parsed tree, so
//! that no vocabulary has to answer for its own forms; where it errs it shows the field.

use crate::value::{Doc, Type, ValueRef};

/// Arguments that hold the bare name of a field.
const BARE: &[&[u8]] = &[
    b"$getField",
    b"$unset",
    b"as",
    b"connectFromField",
    b"connectToField",
    b"field",
    b"foreignField",
    b"key",
    b"localField",
    b"on",
    b"partitionByFields",
];

/// Whether a filter, sort, projection, update or pipeline names `field`, or a path below it.
pub fn names_root(spec: ValueRef<'_>, field: &str) -> bool {
    within(spec, field.as_bytes(), true, false)
}

/// `fields`: the names of this document are fields of the root. `bare`: strings here are names. Every command passes here: names
/// are compared as the bytes that they are.
fn within(value: ValueRef<'_>, field: &[u8], fields: bool, bare: bool) -> bool {
    match value.ty() {
        Type::String => value.text_bytes().is_some_and(|text| {
            if bare {
                is(text, field)
            } else {
                refers(text, field)
            }
        }),
        Type::Array => Doc::new(value.data())
            .iter()
            .any(|elem| within(elem.value, field, fields, bare)),
        Type::Document => Doc::new(value.data()).iter().any(|elem| {
            let name = elem.name_bytes();
            if fields && is(name, field) {
                return true;
            }
            // Below an operator the names may be fields of the root again; below a field they are fields of that one. What
            // accumulators sort by ($top) are rows of the root, however deep they stand.
            let deeper = name.starts_with(b"$") && fields
                || name == b"sortBy" && !fields
                || is_pipeline(elem.value);
            within(elem.value, field, deeper, BARE.contains(&name))
        }),
        _ => false,
    }
}

/// A list of stages, as some stages take one.
fn is_pipeline(value: ValueRef<'_>) -> bool {
    value
        .as_array()
        .and_then(|stages| stages.first()?.value.as_doc()?.first())
        .is_some_and(|first| super::table::find(first.name()).is_some())
}

fn is(path: &[u8], field: &[u8]) -> bool {
    path.strip_prefix(field)
        .is_some_and(|rest| matches!(rest.first(), None | Some(b'.')))
}

/// A reference in an expression.
fn refers(text: &[u8], field: &[u8]) -> bool {
    let Some(path) = text.strip_prefix(b"$") else {
        return false;
    };
    match path.strip_prefix(b"$") {
        None => is(path, field),
        Some(variable) => [b"ROOT.".as_slice(), b"CURRENT."].iter().any(|prefix| {
            variable
                .strip_prefix(*prefix)
                .is_some_and(|path| is(path, field))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::DocBuf;
    use bson::{Bson, bson};

    #[test]
    fn words_that_name_the_field() {
        let rows: Vec<(Bson, bool)> = vec![
            (bson!({"_ts": {"$gt": 5}}), true),
            (bson!({"a._ts": 5}), false),
            (bson!({"a": {"_ts": 5}}), false),
            (bson!({"a": "_ts"}), false),
            (bson!({"$or": [{"a": 1}, {"_ts": 1}]}), true),
            (bson!({"$expr": {"$gt": ["$_ts", 1]}}), true),
            (bson!([{"$match": {"a": 1}}, {"$sort": {"_ts": -1}}]), true),
            (bson!([{"$project": {"x": "$$ROOT._ts"}}]), true),
            (bson!([{"$project": {"x": "$$ROOT"}}]), false),
            (
                bson!([{"$group": {"_id": null, "last": {"$max": "$_ts"}}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "localField": "_ts", "foreignField": "x", "as": "y"}}]),
                true,
            ),
            (
                bson!([{"$lookup": {"from": "b", "pipeline": [{"$match": {"_ts": 1}}], "as": "y"}}]),
                true,
            ),
            (bson!([{"$unset": "_ts"}]), true),
            (bson!([{"$unset": ["a", "_ts"]}]), true),
            (bson!([{"$match": {"_tsx": 1}}]), false),
            (
                bson!([{"$group": {"_id": null, "last": {"$top": {"sortBy": {"_ts": -1}, "output": "$a"}}}}]),
                true,
            ),
            (bson!([{"$project": {"t": {"$getField": "_ts"}}}]), true),
            (
                bson!([{"$project": {"t": {"$getField": {"field": "_ts", "input": "$$ROOT"}}}}]),
                true,
            ),
            (bson!({"sortBy": {"_ts": 1}}), false),
        ];
        for (spec, expected) in rows {
            let doc = DocBuf::from(bson::doc! {"v": spec.clone()});
            assert_eq!(names_root(doc.as_doc().get("v"), "_ts"), expected, "{spec}");
        }
    }
}
