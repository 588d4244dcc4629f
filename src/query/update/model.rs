//! A property test: the operators do the same as a plain recursion over a decoded document.

use bson::{Bson, Document, doc};
use proptest::prelude::*;

use super::path;
use super::tests::run;
use crate::value::DocBuf;

/// Generates small documents with few names, so that paths meet.
fn value() -> impl Strategy<Value = Bson> {
    let scalar = prop_oneof![
        (-3..4i32).prop_map(Bson::from),
        (-3..4i64).prop_map(Bson::from),
        (-3..4i32).prop_map(|n| Bson::from(f64::from(n) / 2.0)),
        Just(Bson::Null),
        "[a-c]{0,2}".prop_map(Bson::from),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::btree_map("[abc01]", inner, 0..4)
                .prop_map(|map| Bson::Document(map.into_iter().collect())),
        ]
    })
}

fn document() -> impl Strategy<Value = Document> {
    prop::collection::btree_map("[abc]", value(), 0..4).prop_map(|map| map.into_iter().collect())
}

fn operation() -> impl Strategy<Value = (&'static str, String, Bson)> {
    let path = prop::collection::vec("[abc012]", 1..4).prop_map(|mut parts| {
        if parts[0].as_bytes()[0].is_ascii_digit() {
            parts[0] = "a".to_owned();
        }
        parts.join(".")
    });
    let operator = prop_oneof![
        Just("$set"),
        Just("$unset"),
        Just("$inc"),
        Just("$min"),
        Just("$max"),
        Just("$push"),
        Just("$addToSet"),
        Just("$pop"),
    ];
    (operator, path, value()).prop_map(|(operator, path, value)| {
        let value = match operator {
            "$inc" => Bson::from(2),
            "$pop" => Bson::from(1),
            "$push" | "$addToSet" if matches!(&value, Bson::Document(doc) if doc.contains_key("$each")) => {
                Bson::Null
            }
            _ => value,
        };
        (operator, path, value)
    })
}

/// Applies one operator at the end of a path by plain recursion. Returns `Err` if mongod rejects the update.
fn model(
    slot: Option<&Bson>,
    path: &[&str],
    operator: &str,
    value: &Bson,
) -> Result<Option<Bson>, ()> {
    if let [part, rest @ ..] = path {
        let creates = !matches!(operator, "$unset" | "$pop");
        return match slot {
            None if !creates => Ok(None),
            None => {
                let inner = model(None, rest, operator, value)?;
                Ok(inner.map(|inner| Bson::Document(doc! {*part: inner})))
            }
            Some(Bson::Document(doc)) => {
                let mut doc = doc.clone();
                match model(doc.get(*part), rest, operator, value)? {
                    Some(new) => {
                        doc.insert(*part, new);
                    }
                    None => {
                        doc.remove(*part);
                    }
                }
                Ok(Some(Bson::Document(doc)))
            }
            Some(Bson::Array(array)) if path::index(part).is_some() => {
                let mut array = array.clone();
                let at = path::index(part).unwrap();
                match (
                    model(array.get(at), rest, operator, value)?,
                    at < array.len(),
                ) {
                    (Some(new), true) => array[at] = new,
                    (None, true) => array[at] = Bson::Null,
                    (None, false) => {}
                    (Some(new), false) => {
                        array.resize(at, Bson::Null);
                        array.push(new);
                    }
                }
                Ok(Some(Bson::Array(array)))
            }
            Some(other) if operator == "$unset" => Ok(Some(other.clone())),
            Some(_) => Err(()),
        };
    }
    let raw = |value: &Bson| DocBuf::from(doc! {"v": value.clone()});
    let order = |a: &Bson, b: &Bson| {
        crate::value::compare(raw(a).as_doc().get("v"), raw(b).as_doc().get("v"))
    };
    Ok(match (operator, slot) {
        ("$unset", _) => None,
        ("$set", _) => Some(value.clone()),
        ("$inc", None) => Some(value.clone()),
        ("$inc", Some(Bson::Int32(n))) => Some(Bson::from(n + 2)),
        ("$inc", Some(Bson::Int64(n))) => Some(Bson::from(n + 2)),
        ("$inc", Some(Bson::Double(n))) => Some(Bson::from(n + 2.0)),
        ("$min" | "$max", None) => Some(value.clone()),
        ("$min", Some(old)) if order(value, old).is_lt() => Some(value.clone()),
        ("$max", Some(old)) if order(value, old).is_gt() => Some(value.clone()),
        ("$min" | "$max", Some(old)) => Some(old.clone()),
        ("$push" | "$addToSet", None) => Some(Bson::Array(vec![value.clone()])),
        ("$push", Some(Bson::Array(array))) => Some(Bson::Array(
            [&array[..], std::slice::from_ref(value)].concat(),
        )),
        ("$addToSet", Some(Bson::Array(array))) => {
            let known = array.iter().any(|old| order(old, value).is_eq());
            let new = if known { vec![] } else { vec![value.clone()] };
            Some(Bson::Array([&array[..], &new[..]].concat()))
        }
        ("$pop", None) => None,
        ("$pop", Some(Bson::Array(array))) => {
            Some(Bson::Array(array[..array.len().max(1) - 1].to_vec()))
        }
        _ => return Err(()),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn operators_agree_with_a_plain_model(
        before in document(),
        operations in prop::collection::vec(operation(), 1..4),
    ) {
        let mut update = Document::new();
        for (operator, path, value) in &operations {
            let entry = update.entry((*operator).to_owned()).or_insert(doc! {}.into());
            entry.as_document_mut().unwrap().insert(path, value.clone());
        }
        let got = run(&before, &update.clone().into(), "");
        if matches!(&got, Err(error) if error.code().number() == 40) {
            return Ok(());
        }
        // Of equal pairs (operator, path) the last one wins in the document above. New fields are in path order, as in
        // mongod.
        let mut wanted: std::collections::BTreeMap<Vec<(bool, String)>, (&str, &Bson)> = Default::default();
        for (operator, path, value) in &operations {
            let key = path.split('.').map(|part| (path::index(part).is_none(), part.to_owned())).collect();
            wanted.insert(key, (operator, value));
        }
        let mut after = Ok(Bson::Document(before.clone()));
        for (path, (operator, value)) in &wanted {
            let path: Vec<&str> = path.iter().map(|(_, part)| part.as_str()).collect();
            after = after.and_then(|doc| Ok(model(Some(&doc), &path, operator, value)?.unwrap()));
        }
        match (got, after) {
            (Ok(Some(got)), Ok(Bson::Document(after))) => {
                prop_assert_eq!(got, after, "{} on {}", update, before);
            }
            (Ok(None), Ok(Bson::Document(after))) => {
                prop_assert_eq!(before, after, "{}", update);
            }
            (Err(_), Err(())) => {}
            (got, after) => {
                prop_assert!(false, "{} on {}: {:?}, model {:?}", update, before, got, after);
            }
        }
    }
}
