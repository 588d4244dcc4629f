//! Compares replies with what the model expects.

use bson::{Bson, Document, doc};

use super::expect::{BulkDone, Expect};
use super::order::{compare, equal, number, same};
use super::run::StepResult;
use crate::support::world::{World, failure, in_front_of_cluster, int};

/// Compares a field as bytes, so that NaN equals itself.
pub fn same_value_of(reply: &Document, field: &str) -> Option<Vec<u8>> {
    let value = reply.get(field)?;
    Some(doc! {"": value.clone()}.to_vec().expect("encodes"))
}

pub fn compare_reply(expected: &Expect, reply: &Document, world: &mut World) -> StepResult {
    let failed = failure(reply);
    if let Expect::Error(code) = expected {
        return match failed {
            Some((got, _)) if got == *code => Ok(()),
            _ => Err(format!("error {code} was expected")),
        };
    }
    if reply.get("ok").and_then(int) != Some(1) {
        return Err(format!("no error was expected but {expected:?}"));
    }
    let problem = || Err(format!("expected: {expected:?}"));
    match expected {
        Expect::Error(_) => Ok(()),
        Expect::Fields(fields) => {
            for (name, value) in fields {
                if !at(reply, name).is_some_and(|got| equal(got, value)) {
                    return problem();
                }
            }
            Ok(())
        }
        Expect::Ordered(rows) => ordered(rows, &world.drain(reply)),
        Expect::Set(rows) => set(rows, &world.drain(reply)),
        Expect::Some(count, rows) => subset(*count, rows, &world.drain(reply)),
        Expect::Groups(rows) => groups(rows, world.drain(reply)),
        Expect::Distinct(values, by_index) => {
            let got = reply
                .get_array("values")
                .map_err(|error| error.to_string())?;
            let is_odd = |got: &&Bson| by_index.contains(got) && !values.contains(got);
            let got: Vec<Bson> = got.iter().filter(|got| !is_odd(got)).cloned().collect();
            let once = super::state::distinct(got.iter().cloned());
            if got.len() != values.len() || !once.iter().zip(values).all(|(a, b)| equal(a, b)) {
                return problem();
            }
            Ok(())
        }
        Expect::Write {
            n,
            modified,
            upserted,
            errors,
        } => {
            let got_errors: Vec<(i64, i64)> = reply
                .get_array("writeErrors")
                .into_iter()
                .flatten()
                .filter_map(Bson::as_document)
                .map(|error| {
                    (
                        error.get("index").and_then(int).unwrap_or(-1),
                        error.get("code").and_then(int).unwrap_or(-1),
                    )
                })
                .collect();
            let got_upserted: Vec<(i64, Bson)> = reply
                .get_array("upserted")
                .into_iter()
                .flatten()
                .filter_map(Bson::as_document)
                .map(|one| {
                    (
                        one.get("index").and_then(int).unwrap_or(-1),
                        one["_id"].clone(),
                    )
                })
                .collect();
            let good = reply.get("n").and_then(int) == Some(*n)
                && is_modified(reply, *modified)
                && got_errors == *errors
                && got_upserted == *upserted;
            if good { Ok(()) } else { problem() }
        }
        Expect::Bulk(expected) => {
            let got: Vec<Document> = world.drain(reply);
            let same = |(at, (want, got)): (usize, (&BulkDone, &Document))| {
                let id = got
                    .get_document("upserted")
                    .ok()
                    .map(|one| one["_id"].clone());
                got.get("idx").and_then(int) == Some(at as i64)
                    && got.get("n").and_then(int) == Some(want.n)
                    && is_modified(got, want.modified)
                    && got.get("code").and_then(int) == want.error
                    && id == want.upserted
            };
            let errors = expected.iter().filter(|one| one.error.is_some()).count() as i64;
            let good = got.len() == expected.len()
                && expected.iter().zip(&got).enumerate().all(same)
                && reply.get("nErrors").and_then(int) == Some(errors);
            if good {
                Ok(())
            } else {
                Err(format!("expected: {expected:?}\n  but got:{}", list(&got)))
            }
        }
        Expect::Value {
            value,
            existing,
            upserted,
        } => {
            let got = match reply.get("value") {
                Some(Bson::Document(document)) => Some(document),
                _ => None,
            };
            let same_value = match (got, value) {
                (None, None) => true,
                (Some(a), Some(b)) => same(a, b),
                _ => false,
            };
            let last = reply
                .get_document("lastErrorObject")
                .map_err(|error| error.to_string())?;
            let good = same_value
                && last.get_bool("updatedExisting").ok() == *existing
                && last.get("upserted") == upserted.as_ref();
            if good { Ok(()) } else { problem() }
        }
    }
}

/// The value at a dotted path.
fn at<'a>(reply: &'a Document, path: &str) -> Option<&'a Bson> {
    let mut parts = path.split('.');
    let first = reply.get(parts.next()?);
    parts.fold(first, |value, part| value?.as_document()?.get(part))
}

pub fn ordered(expected: &[Document], rows: &[Document]) -> StepResult {
    let good = expected.len() == rows.len() && expected.iter().zip(rows).all(|(a, b)| same(a, b));
    if good {
        Ok(())
    } else {
        Err(format!(
            "expected, in this order:{}\n  but got:{}",
            list(expected),
            list(rows)
        ))
    }
}

fn list(rows: &[Document]) -> String {
    rows.iter().map(|row| format!("\n    {row}")).collect()
}

fn key(row: &Document) -> Vec<u8> {
    let mut row = row.clone();
    // The order within a joined array is not defined.
    if let Ok(joined) = row.get_array_mut("joined") {
        joined.sort_by(|a, b| {
            compare(
                &a.as_document().expect("a document")["_id"],
                &b.as_document().expect("a document")["_id"],
            )
        });
    }
    row.to_vec().expect("encodes")
}

pub fn set(expected: &[Document], rows: &[Document]) -> StepResult {
    let mut a: Vec<_> = expected.iter().map(key).collect();
    let mut b: Vec<_> = rows.iter().map(key).collect();
    a.sort_unstable();
    b.sort_unstable();
    if a == b {
        Ok(())
    } else {
        Err(format!("expected, in any order:{}", list(expected)))
    }
}

fn subset(count: usize, candidates: &[Document], rows: &[Document]) -> StepResult {
    let mut left: Vec<_> = candidates.iter().map(key).collect();
    for row in rows {
        let Some(at) = left.iter().position(|candidate| *candidate == key(row)) else {
            return Err(format!("{row} is none of:{}", list(candidates)));
        };
        left.remove(at);
    }
    if rows.len() == count {
        Ok(())
    } else {
        Err(format!("expected {count} of:{}", list(candidates)))
    }
}

fn groups(expected: &[Document], mut rows: Vec<Document>) -> StepResult {
    rows.sort_by(|a, b| {
        compare(
            a.get("_id").unwrap_or(&Bson::Null),
            b.get("_id").unwrap_or(&Bson::Null),
        )
    });
    let close = |a: &Document, b: &Document, name: &str| match (
        a.get(name).and_then(number),
        b.get(name).and_then(number),
    ) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
        (None, None) => true,
        _ => false,
    };
    let good = expected.len() == rows.len()
        && expected.iter().zip(&rows).all(|(a, b)| {
            equal(
                a.get("_id").unwrap_or(&Bson::Null),
                b.get("_id").unwrap_or(&Bson::Null),
            ) && close(a, b, "count")
                && close(a, b, "total")
        });
    if good {
        Ok(())
    } else {
        Err(format!("expected groups:{}", list(expected)))
    }
}
/// Compares `nModified`. Declared in UPSTREAM.md: it counts the stamp, so every document that matches is modified.
fn is_modified(reply: &Document, expected: Option<i64>) -> bool {
    let modified = reply.get("nModified").and_then(int);
    modified == expected || (in_front_of_cluster() && modified >= expected)
}
