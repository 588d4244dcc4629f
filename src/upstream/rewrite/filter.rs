//! A client's filter, before the predicate joins it.

use crate::error::{Error, Result};
use crate::upstream::CollectionRules;
use crate::value::{Doc, DocBuf};

use super::carry::hidden;
use super::naming::contains;
use super::whole::WithoutHidden;

/// Keywords of a schema that count or list all fields of a document, the hidden ones included.
const COUNTING: &[&[u8]] = &[
    b"additionalProperties\0",
    b"maxProperties\0",
    b"minProperties\0",
    b"patternProperties\0",
];

/// Returns the filter as it may be sent, so that it does not see the hidden fields. `None` if it can be sent as it is.
pub fn prepared(
    filter: Doc<'_>,
    rules: &CollectionRules,
    shows_ts: bool,
) -> Result<Option<DocBuf>> {
    let hidden = hidden(rules, shows_ts);
    if hidden.is_empty() {
        return Ok(None);
    }
    let bytes = filter.bytes();
    let has = |word: &[u8]| contains(bytes, word);
    if has(b"$where\0") {
        return Err(Error::not_implemented(
            "$where on a collection that has or had a DefaultTTL, in front of a cluster,",
        ));
    }
    if has(b"$jsonSchema\0") && COUNTING.iter().any(|word| has(word)) {
        return Err(Error::not_implemented(
            "a $jsonSchema that counts or lists all fields, as a filter on a collection that has or had a DefaultTTL in front \
             of a cluster,",
        ));
    }
    WithoutHidden {
        variables: &["$$ROOT", "$$CURRENT"],
        hidden,
    }
    .apply_to_filter(filter)
}
