//! Storage's refusals in MongoDB's words.

use super::with_ts;
use crate::error::{Code, Error};
use crate::storage::index::TS_FIELD;
use crate::storage::{Refused, View};
use crate::value::{Doc, DocBuf, ValueRef};

/// The error for a document that could not be written.
pub fn refused(reason: &Refused, view: &View<'_>, document: &[u8]) -> Error {
    match reason {
        Refused::Unindexable(error) | Refused::TooLarge(error) => error.clone(),
        Refused::Duplicate { index, .. } => {
            let shown;
            let mut doc = Doc::new(document);
            if index
                .as_ref()
                .is_some_and(|index| index.key.as_doc().has(TS_FIELD))
            {
                shown = with_ts(doc, view.now());
                doc = Doc::new(&shown);
            }
            let (name, pattern) = match index {
                None => (
                    "_id_",
                    DocBuf::build(|d| {
                        d.put_i32("_id", 1);
                    }),
                ),
                Some(index) => (index.name.as_str(), index.key.clone()),
            };
            duplicate(view.namespace().as_str(), name, &pattern, doc)
        }
    }
}

fn duplicate(namespace: &str, index: &str, pattern: &DocBuf, doc: Doc<'_>) -> Error {
    let value = DocBuf::build(|d| {
        for elem in pattern.as_doc() {
            let value = value_at(doc, elem.name());
            d.put(elem.name(), value.or_null());
        }
    });
    let shown = value.as_doc();
    let message = format!(
        "E11000 duplicate key error collection: {namespace} index: {index} dup key: {shown}"
    );
    let details = DocBuf::build(|d| {
        d.put_doc("keyPattern", pattern.as_doc())
            .put_doc("keyValue", value.as_doc());
    });
    Error::new(Code::DuplicateKey, message).with_details(details.into_bytes())
}

/// What stands at a dotted path; of an array the first element on the way.
fn value_at<'a>(doc: Doc<'a>, path: &str) -> ValueRef<'a> {
    let mut value = ValueRef::document(doc);
    for part in path.split('.') {
        if let Some(array) = value.as_array() {
            let named = array.get(part);
            value = if named.is_missing() {
                array.first().map_or(ValueRef::MISSING, |e| e.value)
            } else {
                named
            };
            if !array.get(part).is_missing() {
                continue;
            }
        }
        value = value
            .as_doc()
            .map_or(ValueRef::MISSING, |inner| inner.get(part));
    }
    match value.as_array().and_then(Doc::first) {
        Some(first) => first.value,
        None => value,
    }
}
