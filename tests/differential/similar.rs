//! Comparisons of replies that ignore one kind of difference.

use bson::{Bson, Document};

use crate::difference::Difference;
use crate::reply;

/// Returns the difference with both replies changed by the function.
pub fn changed(found: &Difference, change: fn(Bson) -> Bson) -> Difference {
    let changed = |replies: &[Document]| -> Vec<Document> {
        let changed = replies.iter().map(|reply| change(reply.clone().into()));
        changed
            .filter_map(|reply| reply.as_document().cloned())
            .collect()
    };
    let replies = (changed(&found.theirs), changed(&found.ours));
    Difference::new(&found.steps, found.what, replies)
}

/// Returns true if the replies are equal after the function has changed both.
pub fn same_when(found: &Difference, change: fn(Bson) -> Bson) -> bool {
    let changed = changed(found, change);
    !reply::differ(&found.steps, found.what, &changed.theirs, &changed.ours)
}

/// Returns true if the replies are equal except for the fields with these names, at any depth.
pub fn same_but_for(found: &Difference, names: &[String]) -> bool {
    let without = |replies: &[Document]| -> Vec<Document> {
        let without = replies.iter().map(|reply| without_fields(reply, names));
        without.collect()
    };
    let (theirs, ours) = (without(&found.theirs), without(&found.ours));
    !names.is_empty() && !reply::differ(&found.steps, found.what, &theirs, &ours)
}

fn without_fields(document: &Document, names: &[String]) -> Document {
    fn inside(value: &Bson, names: &[String]) -> Bson {
        match value {
            Bson::Document(document) => without_fields(document, names).into(),
            Bson::Array(list) => {
                let list: Vec<Bson> = list.iter().map(|value| inside(value, names)).collect();
                list.into()
            }
            other => other.clone(),
        }
    }
    let kept = document.iter().filter(|(name, _)| !names.contains(name));
    kept.map(|(name, value)| (name.clone(), inside(value, names)))
        .collect()
}

/// Changes every value that is neither a document nor an array.
fn each(value: Bson, change: fn(Bson) -> Bson) -> Bson {
    match value {
        Bson::Array(list) => {
            let list = list.into_iter().map(|value| each(value, change));
            list.collect::<Vec<_>>().into()
        }
        Bson::Document(document) => {
            let fields = document.into_iter();
            let fields = fields.map(|(name, value)| (name, each(value, change)));
            fields.collect::<Document>().into()
        }
        other => change(other),
    }
}

/// Rounds doubles and decimals to twelve digits, because a sum of large numbers loses some.
pub fn rounded(value: Bson) -> Bson {
    each(value, |value| {
        let number = match &value {
            Bson::Double(double) => *double,
            Bson::Decimal128(decimal) => decimal.to_string().parse().unwrap_or(f64::NAN),
            _ => return value,
        };
        Bson::String(format!("{number:.9e}"))
    })
}

/// Cuts numbers in texts to six digits.
pub fn short_numbers(value: Bson) -> Bson {
    each(value, |value| match &value {
        Bson::String(text) => match text.parse::<f64>() {
            Ok(number) => format!("{number:.5e}").into(),
            Err(_) => value,
        },
        _ => value,
    })
}

/// Makes every number a double.
pub fn as_doubles(value: Bson) -> Bson {
    each(value, |value| match value {
        Bson::Int32(int) => Bson::Double(f64::from(int)),
        Bson::Int64(long) => Bson::Double(long as f64),
        other => other,
    })
}

/// Makes every number a double, decimals included.
pub fn as_numbers(value: Bson) -> Bson {
    each(value, |value| match as_doubles(value) {
        Bson::Decimal128(decimal) => Bson::Double(decimal.to_string().parse().unwrap_or(f64::NAN)),
        other => other,
    })
}

/// Makes every number the same one.
pub fn without_numbers(value: Bson) -> Bson {
    each(value, |value| match value {
        Bson::Int32(_) | Bson::Int64(_) => Bson::Int32(0),
        Bson::Double(_) => Bson::Double(0.0),
        other => other,
    })
}

/// Makes every date the same one.
pub fn without_dates(value: Bson) -> Bson {
    each(value, |value| match value {
        Bson::DateTime(_) => Bson::DateTime(bson::DateTime::from_millis(0)),
        other => other,
    })
}

/// Removes a Z at the end of texts.
pub fn without_zulu(value: Bson) -> Bson {
    each(value, |value| match value {
        Bson::String(text) => text.trim_end_matches('Z').into(),
        other => other,
    })
}

/// Replaces `{"": MinKey}` with MinKey, and code with its text.
pub fn without_wrappers(value: Bson) -> Bson {
    match value {
        Bson::Document(document) if document.len() == 1 && document.contains_key("") => {
            let inner = document.into_iter().next().map(|(_, inner)| inner);
            inner.unwrap_or(Bson::Null)
        }
        Bson::Array(list) => {
            let list = list.into_iter().map(without_wrappers);
            list.collect::<Vec<_>>().into()
        }
        Bson::Document(document) => {
            let fields = document.into_iter();
            let fields = fields.map(|(name, value)| (name, without_wrappers(value)));
            fields.collect::<Document>().into()
        }
        Bson::JavaScriptCode(code) => code.into(),
        other => other,
    }
}

/// Removes elements that are null from the lists of a reply.
pub fn without_null_elements(value: Bson) -> Bson {
    let Bson::Document(reply) = value else {
        return value;
    };
    let fields = reply.into_iter().map(|(name, value)| match value {
        Bson::Array(list) => {
            let list = list.into_iter().filter(|value| *value != Bson::Null);
            (name, list.collect::<Vec<_>>().into())
        }
        other => (name, other),
    });
    fields.collect::<Document>().into()
}

/// Removes fields that are null from rows, and documents that are empty then.
pub fn without_nulls(value: Bson) -> Bson {
    fn inside(fields: Document) -> Document {
        let fields = fields.into_iter().filter_map(|(name, value)| match value {
            Bson::Null => None,
            Bson::Document(inner) => {
                let inner = inside(inner);
                (!inner.is_empty()).then(|| (name, inner.into()))
            }
            other => Some((name, other)),
        });
        fields.collect()
    }
    let Bson::Document(mut reply) = value else {
        return value;
    };
    if let Ok(cursor) = reply.get_document_mut("cursor") {
        for batch in ["firstBatch", "nextBatch"] {
            for row in cursor.get_array_mut(batch).into_iter().flatten() {
                if let Bson::Document(fields) = row {
                    *row = inside(std::mem::take(fields)).into();
                }
            }
        }
    }
    reply.into()
}

pub fn has_fraction(value: &Bson) -> bool {
    let Bson::Decimal128(decimal) = value else {
        return false;
    };
    let number: f64 = decimal.to_string().parse().unwrap_or(0.0);
    number.fract() != 0.0
}

/// Returns true if both returned the same rows in the same batches, but one needed a further getMore to report the end.
pub fn ends_with_an_empty_batch(found: &Difference) -> bool {
    let sizes = |replies: &[Document]| -> Vec<usize> {
        let mut sizes: Vec<usize> = replies
            .iter()
            .filter_map(reply::batch)
            .map(Vec::len)
            .collect();
        while sizes.last() == Some(&0) {
            sizes.pop();
        }
        sizes
    };
    let rows = |replies: &[Document]| reply::ordered_rows(&found.steps, replies);
    sizes(&found.theirs) == sizes(&found.ours)
        && rows(&found.theirs).is_some()
        && rows(&found.theirs) == rows(&found.ours)
}
