//! Whole documents: `$mergeObjects`, `$objectToArray`, `$arrayToObject`.

use super::Env;
use super::args::show;
use super::array::items;
use super::node::ExprCall;
use crate::error::{Error, Result};
use crate::value::{
    ArrayBuilder, Doc, DocBuf, DocBuilder, Type, Val, Value, ValueRef, check_computed,
};

/// Merges the fields of two documents. A value in `over` replaces the value in `base`.
pub fn merge(base: Doc<'_>, over: Doc<'_>) -> Result<DocBuf> {
    let merged = DocBuf::build(|out| {
        for elem in base {
            let newer = over.get(elem.name_bytes());
            out.put(
                elem.name(),
                if newer.is_missing() {
                    elem.value
                } else {
                    newer
                },
            );
        }
        for elem in over {
            if !base.has(elem.name_bytes()) {
                out.put(elem.name(), elem.value);
            }
        }
    });
    check_computed(merged.bytes().len())?;
    Ok(merged)
}

pub fn merge_objects<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let mut result = DocBuf::new();
    for arg in &call.args {
        let value = arg.eval_in(env)?;
        match value.as_ref().as_array() {
            // A single argument that is an array stands for its elements.
            Some(array) if call.args.len() == 1 => {
                for item in items(array) {
                    merge_into(&mut result, item)?;
                }
            }
            _ => merge_into(&mut result, value.as_ref())?,
        }
    }
    Ok(Val::Own(Value::document(result.into_bytes())))
}

fn merge_into(result: &mut DocBuf, value: ValueRef<'_>) -> Result<()> {
    if value.is_nullish() {
        return Ok(());
    }
    let Some(doc) = value.as_doc() else {
        return Err(Error::location(
            40400,
            format!(
                "$mergeObjects requires object inputs, but input {} is of type {}",
                show(value),
                value.ty().alias()
            ),
        ));
    };
    *result = merge(result.as_doc(), doc)?;
    Ok(())
}

pub fn object_to_array<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(doc) = value.as_doc() else {
        return Err(Error::location(
            40390,
            format!(
                "$objectToArray requires a document input, found: {}",
                value.ty().alias()
            ),
        ));
    };
    let mut bytes = Vec::new();
    let mut out = ArrayBuilder::begin(&mut bytes);
    for elem in doc {
        let mut pair = out.doc();
        pair.put_str("k", elem.name()).put("v", elem.value);
        pair.end();
        check_computed(out.len())?;
    }
    out.end();
    Ok(Val::Own(Value::array(bytes)))
}

/// Builds a document from `[[k, v], ...]` or `[{k, v}, ...]`. A later value replaces an earlier one with the same name.
pub fn array_to_object<'a>(call: &'a ExprCall, env: Env<'a>) -> Result<Val<'a>> {
    let value = call.arg(0, env)?;
    let value = value.as_ref();
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(array) = value.as_array() else {
        return Err(Error::location(
            40386,
            format!(
                "$arrayToObject requires an array input, found: {}",
                value.ty().alias()
            ),
        ));
    };
    let mut fields: Vec<(&str, ValueRef<'_>)> = Vec::new();
    let mut places = ahash::AHashMap::new();
    let mut form = None;
    for item in items(array) {
        let kind = item.ty();
        let (key, value) = match kind {
            Type::Array if form.is_none_or(|form| form == kind) => pair(item)?,
            Type::Document if form.is_none_or(|form| form == kind) => key_value(item)?,
            Type::Array => {
                return Err(Error::location(
                    40391,
                    "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. Array was detected, now found: array",
                ));
            }
            Type::Document => {
                return Err(Error::location(
                    40396,
                    "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. Object was detected, now found: object",
                ));
            }
            ty => {
                let (code, text) = match form {
                    None => (
                        40398,
                        format!(
                            "Unrecognised input type format for $arrayToObject: {}",
                            ty.alias()
                        ),
                    ),
                    Some(Type::Array) => (
                        40396,
                        format!(
                            "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. Array was detected, now found: {}",
                            ty.alias()
                        ),
                    ),
                    Some(_) => (
                        40391,
                        format!(
                            "$arrayToObject requires a consistent input format. Elements must all be arrays or all be objects. Object was detected, now found: {}",
                            ty.alias()
                        ),
                    ),
                };
                return Err(Error::location(code, text));
            }
        };
        form = Some(kind);
        match places.get(key) {
            Some(&at) => {
                if let Some(slot) = fields.get_mut(at) {
                    *slot = (key, value);
                }
            }
            None => {
                places.insert(key, fields.len());
                fields.push((key, value));
            }
        }
    }
    let mut bytes = Vec::new();
    let mut out = DocBuilder::begin(&mut bytes);
    for (key, value) in fields {
        out.put(key, value);
        check_computed(out.len())?;
    }
    out.end();
    Ok(Val::Own(Value::document(bytes)))
}

fn pair(item: ValueRef<'_>) -> Result<(&str, ValueRef<'_>)> {
    let mut parts = item.as_array().into_iter().flatten().map(|elem| elem.value);
    let (Some(key), Some(value), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Error::location(
            40397,
            format!(
                "$arrayToObject requires an array of size 2 arrays,found array of size: {}",
                item.as_array().map_or(0, Doc::count)
            ),
        ));
    };
    let wanted =
        "an array of key-value pairs, where the key must be of type string. Found key type";
    Ok((key_text(key, wanted, [40395, 4940400])?, value))
}

fn key_value(item: ValueRef<'_>) -> Result<(&str, ValueRef<'_>)> {
    let doc = item.as_doc().unwrap_or(Doc::EMPTY);
    let count = doc.count();
    if count != 2 {
        return Err(Error::location(
            40392,
            format!(
                "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{count}"
            ),
        ));
    }
    let (key, value) = (doc.get("k"), doc.get("v"));
    if key.is_missing() || value.is_missing() {
        return Err(Error::location(
            40393,
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys from: ".to_owned()
                + &show(item),
        ));
    }
    let wanted = "an object with keys 'k' and 'v', where the value of 'k' must be of type string. Found type";
    Ok((key_text(key, wanted, [40394, 4940401])?, value))
}

fn key_text<'v>(key: ValueRef<'v>, wanted: &str, codes: [i32; 2]) -> Result<&'v str> {
    let [no_text, null_byte] = codes;
    let text = key.as_str().ok_or_else(|| {
        Error::location(
            no_text,
            format!("$arrayToObject requires {wanted}: {}", key.ty().alias()),
        )
    })?;
    if text.contains('\0') {
        return Err(Error::location(
            null_byte,
            "Key field cannot contain an embedded null byte",
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::check;
    use bson::{Bson, bson, doc};

    #[test]
    fn values() {
        check::values_in(
            &doc! {"d": {"e": 3}},
            &[
                (
                    bson!({"$mergeObjects": ["$d", {"f": 4, "e": 5}, Bson::Null]}),
                    bson!({"e": 5, "f": 4}),
                ),
                (bson!({"$objectToArray": "$d"}), bson!([{"k": "e", "v": 3}])),
                (
                    bson!({"$arrayToObject": [[["x", 1], ["y", 2], ["x", 3]]]}),
                    bson!({"x": 3, "y": 2}),
                ),
                (
                    bson!({"$arrayToObject": {"$literal": [{"k": "x", "v": 1}]}}),
                    bson!({"x": 1}),
                ),
            ],
        );
        check::errors(&[
            (bson!({"$mergeObjects": [1]}), 40400),
            (bson!({"$objectToArray": [1]}), 40390),
            (bson!({"$arrayToObject": 1}), 40386),
            (bson!({"$arrayToObject": [[1]]}), 40398),
        ]);
    }
}
