//! Differences that have a reason. Everything else is a fault.
//!
//! A row is either a difference of version, with where 8.2's behaviour is told, or a fault that is listed and not mended yet;
//! who mends it takes its row away. Error codes of MongoDB carry the number of the ticket that brought them: 7548606 is from
//! SERVER-75486.

use bson::Document;

use crate::pair::{Difference, What};

/// A difference of one cause.
struct Known {
    reason: &'static str,
    is: fn(&Difference) -> bool,
}

pub fn reason(found: &Difference) -> Option<&'static str> {
    let code = CODES.iter().find(|row| found.codes() == (row.0, row.1));
    let code = code.filter(|_| found.what == What::Reply);
    let known = || KNOWN.iter().find(|known| (known.is)(found));
    code.map(|row| row.2)
        .or_else(|| known().map(|known| known.reason))
}

/// The code of 6.0.5, that of 8.2, and where it is from.
#[rustfmt::skip]
const CODES: &[(i32, i32, &str)] = &[
    (40414, 40414, "8.2: codes of the IDL parser have names (error_codes.yml)"),
    (40415, 40415, "8.2: codes of the IDL parser have names (error_codes.yml)"),
    (51746, 10503904, "8.2: one code for all arguments of $replaceOne and $replaceAll (SERVER-105039)"),
    (51745, 10503903, "8.2: one code for all arguments of $replaceOne and $replaceAll (SERVER-105039)"),
    (51744, 10503902, "8.2: one code for all arguments of $replaceOne and $replaceAll (SERVER-105039)"),
    (5787902, 7548606, "8.2: $topN and its like check n on their own (SERVER-75486)"),
    (10065, 5788604, "8.2: $top and its like check sortBy themselves (SERVER-57886)"),
    (5126900, 17043, "8.2: $setUnion has one code again (expression.cpp)"),
    (5439012, 5166307, "8.2: date expressions share their check of the date (SERVER-51663)"),
];

const KNOWN: &[Known] = &[
    Known {
        reason: "8.2: dropping what is not there is no error since 7.0 (SERVER-43894)",
        is: |found| found.verb() == "drop" && found.codes() == (26, 0),
    },
    Known {
        reason: "8.2: create is no error if the same collection exists, since 7.0 (manual, create)",
        is: |found| found.verb() == "create" && found.codes() == (48, 0),
    },
    Known {
        reason: "8.2: $merge takes a null in the fields of `on` since 7.0 (allowMergeOnNullishValues)",
        is: |found| found.says("$merge") && found.codes() == (51132, 0),
    },
    Known {
        reason: "8.2: readConcern is read by the IDL parser (generic_argument.idl)",
        is: |found| found.says("readConcern") && found.codes() == (9, 14),
    },
    Known {
        reason: "fault: FAULTS.md B7: the place of a field that is computed inside a value that is no document",
        is: |found| found.codes() == (0, 0) && same_but_for_field_order(found),
    },
    Known {
        reason: "fault: FAULTS.md C3: $expr in the filter of an upsert",
        is: |found| found.says("$expr") && found.says("upsert") && found.codes().0 == 224,
    },
    Known {
        reason: "fault: FAULTS.md D2: $match, $skip and $limit are not moved before what computes",
        is: |found| {
            found.verb() == "aggregate"
                && found.codes().0 == 0
                && found.codes().1 != 0
                && ["$match", "$skip", "$limit", "$count"]
                    .iter()
                    .any(|stage| found.says(stage))
        },
    },
    Known {
        reason: "fault: FAULTS.md D4: constants of a pipeline update are evaluated though nothing matches",
        is: |found| found.codes().0 == 0 && found.codes().1 != 0 && found.updates_by_pipeline(),
    },
    Known {
        reason: "fault: FAULTS.md E: codeName of $merge whenNotMatched: fail",
        is: |found| found.codes() == (13113, 13113),
    },
    Known {
        reason: "fault: FAULTS.md E: find with batchSize 0 on no collection opens a cursor",
        is: |found| found.verb() == "find" && found.says("batchSize") && same_rows(found),
    },
    Known {
        reason: "fault: FAULTS.md E: n of a multi update that fails half-way",
        is: |found| {
            found.verb() == "update"
                && found.says("multi")
                && found.what == What::Reply
                && found.codes().0 != 0
                && found.codes().0 == found.codes().1
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: an aggregate's cursor ends with its last full batch; mongod's with an empty one after it",
        is: |found| found.verb() == "aggregate" && same_rows(found),
    },
];

/// True if both cursors gave the same rows in the same order, in other batches.
fn same_rows(found: &Difference) -> bool {
    let rows = |replies: &[Document]| {
        let mut rows = Vec::new();
        for reply in replies {
            let Ok(cursor) = reply.get_document("cursor") else {
                return None;
            };
            let batch = cursor
                .get_array("firstBatch")
                .or_else(|_| cursor.get_array("nextBatch"));
            rows.extend(batch.ok()?.iter().cloned());
        }
        Some(rows)
    };
    let theirs = rows(&found.theirs);
    theirs.is_some() && theirs == rows(&found.ours)
}

/// True if both gave the same rows but for the order of fields within them.
fn same_but_for_field_order(found: &Difference) -> bool {
    let sorted = |replies: &[Document]| -> Vec<bson::Bson> {
        replies
            .iter()
            .map(|reply| crate::reply::sorted_deeply(reply.clone().into()))
            .collect()
    };
    sorted(&found.theirs) == sorted(&found.ours)
}
