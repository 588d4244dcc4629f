//! Translation of storage's refusals into MongoDB's errors.

use super::with_ts;
use crate::error::{Code, Error};
use crate::storage::index::{ID_INDEX, IndexSpec};
use crate::storage::{Refused, UniqueIndex, View};
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, keys};

/// Returns the error for a document that could not be written.
pub fn refused(reason: &Refused, view: &View<'_>, document: &[u8]) -> Error {
    match reason {
        Refused::Unindexable(error) | Refused::TooLarge(error) => error.clone(),
        Refused::Claimed | Refused::Conflict => write_conflict(),
        Refused::Capped => Error::new(
            Code::OperationNotSupportedInTransaction,
            format!(
                "Collection '{}' is a capped collection. Writes in transactions are not allowed on capped collections.",
                view.namespace()
            ),
        ),
        Refused::TransactionTooLarge => transactions_too_large(),
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
            let namespace = view.namespace().as_str();
            match index {
                None => {
                    let pattern = DocBuf::build(|d| {
                        d.put_i32("_id", 1);
                    });
                    let value = DocBuf::build(|d| {
                        d.put("_id", doc.get("_id"));
                    });
                    duplicate(namespace, ID_INDEX, &pattern, &value)
                }
                Some(index) => duplicate(namespace, &index.name, &index.key, &taken(index, doc)),
            }
        }
    }
}

/// Returns the error that the open transactions hold too much.
pub fn transactions_too_large() -> Error {
    Error::new(
        Code::TransactionTooLargeForCache,
        "the writes of the open transactions take too much memory",
    )
}

/// Returns the error that another transaction has written to a document first. The client runs its transaction again.
pub fn write_conflict() -> Error {
    Error::new(
        Code::WriteConflict,
        "Caused by :: Write conflict during plan execution and yielding is disabled. :: Please retry your operation or \
         multi-document transaction.",
    )
}

fn duplicate(namespace: &str, index: &str, pattern: &DocBuf, value: &DocBuf) -> Error {
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

/// Returns the document's values under the key that is taken.
fn taken(index: &UniqueIndex, doc: Doc<'_>) -> DocBuf {
    let spec = IndexSpec::new(&index.name, index.key.clone());
    let mut bytes = Vec::new();
    let mut found = None;
    // The document was indexed before it was refused, so this cannot fail.
    let _ = keys(&spec.paths, doc, |key| {
        bytes.clear();
        spec.encode(key.values, &mut bytes);
        if found.is_none() && *bytes == *index.taken {
            found = Some(DocBuf::build(|d| {
                for (path, value) in spec.paths.iter().zip(key.values) {
                    d.put(path.as_str(), value.or_null());
                }
            }));
        }
    });
    found.unwrap_or_default()
}
