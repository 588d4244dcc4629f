//! MongoDB's own TTL indexes: a document ends a number of seconds after a date in it.

use super::End;
use crate::value::{Doc, Millis, Path, Type, keys};

/// Returns the end that a TTL index on `path` gives a document: its date, or the earliest date of an array, plus `seconds`.
/// A value that is not a date never expires.
pub fn date_end(path: &Path, seconds: i32, doc: Doc<'_>) -> Option<End> {
    let mut earliest: Option<i64> = None;
    let walked = keys(std::slice::from_ref(path), doc, |key| {
        let value = key.values.first();
        let date = value
            .filter(|value| value.ty() == Type::Date)
            .and_then(|value| value.as_date());
        earliest = match (earliest, date) {
            (Some(known), Some(date)) => Some(date.min(known)),
            (known, date) => known.or(date),
        };
    });
    walked.ok()?;
    earliest.map(|date| End::after(Millis(date), seconds))
}
