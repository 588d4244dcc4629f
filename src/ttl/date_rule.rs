//! MongoDB's own TTL indexes: a document ends a number of seconds after a date in it.

use super::End;
use crate::value::{Doc, Millis, Path, Type, keys};

/// The end that a rule on the dates under `path` gives a document: a date, or the earliest of an array of dates, plus its
/// seconds. What is no date never ends.
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
