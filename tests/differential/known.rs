//! Differences that have a reason. Everything else is a fault.
//!
//! A row is either a difference of version, with where 8.2's behaviour is told, or a fault that is listed and not mended yet;
//! who mends it takes its row away. Error codes of MongoDB carry the number of the ticket that brought them: 7548606 is from
//! SERVER-75486.

use bson::Document;

use crate::pair::{Difference, What};
use crate::reply::rows;

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
    (10065, 5788604, "8.2: $top and its like check sortBy themselves (SERVER-57886)"),
    (5439012, 5166307, "8.2: date expressions share their check of the date (SERVER-51663)"),
    (40400, 5911200, "8.2: $mergeObjects as an accumulator has its own code (SERVER-59112)"),
    (16610, 4848403, "8.2: $mod by zero (SERVER-48484)"),
    (17310, 17046, "8.2: $setIsSubset has one code however it is optimised (expression.cpp)"),
    (5439014, 9, "8.2: a time unit that is none is FailedToParse (parseTimeUnit, time_support)"),
    (51024, 2, "8.2: numbers out of range are BadValue to the IDL parser (idl_parser.cpp)"),
];

/// Codes from this on are from tickets later than 6.0.
const NEW_CODES: i32 = 6_500_000;

const KNOWN: &[Known] = &[
    Known {
        reason: "8.2: a code that is newer than 6.0 (the ticket that its number names)",
        is: |found| {
            found.what == What::Reply && found.codes().0 != 0 && found.codes().1 >= NEW_CODES
        },
    },
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
        is: |found| found.says("$merge") && found.codes().0 == 51132,
    },
    Known {
        reason: "8.2: readConcern is read by the IDL parser (generic_argument.idl)",
        is: |found| found.says("readConcern") && matches!(found.codes(), (9, 14) | (72, 40415)),
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
        reason: "fault: FAULTS.md B1: $group by an object whose field is missing",
        is: |found| found.says("$group") && found.codes() == (0, 0) && found.groups_by_object(),
    },
    Known {
        reason: "fault: FAULTS.md B2: $sum and $avg compensate differently",
        is: |found| found.codes() == (0, 0) && (found.says("$sum") || found.says("$avg")),
    },
    Known {
        reason: "fault: FAULTS.md D1: $expr runs in written order",
        is: |found| found.says("$expr") && found.codes().0 == 0 && found.codes().1 != 0,
    },
    Known {
        reason: "fault: FAULTS.md D3: replacement upserts look at filter fields other than _id",
        is: |found| found.says("upsert") && found.codes() == (0, 54),
    },
    Known {
        reason: "fault: FAULTS.md D6: null wins over wrong parts of a date expression; unit and timezone are looked at too early",
        is: |found| {
            (found.says("timezone") && matches!(found.codes().1, 40517 | 40485))
                || (found.says("unit") && found.codes().1 == 9)
        },
    },
    Known {
        reason: "fault: FAULTS.md D2: $match, $skip and $limit are not moved before what computes, and unused fields are computed",
        is: |found| {
            found.verb() == "aggregate"
                && found.codes().0 == 0
                && found.codes().1 != 0
                && [
                    "$match",
                    "$skip",
                    "$limit",
                    "$count",
                    "$group",
                    "$sortByCount",
                ]
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
        is: |found| {
            found.verb() == "find"
                && found.codes() == (0, 0)
                && found.has("batchSize", 0)
                && same_rows(found)
        },
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
        reason: "fault, not in FAULTS.md: a sorting or grouping cursor ends with its last full batch / with an empty one after it",
        is: |found| found.codes() == (0, 0) && same_rows(found),
    },
    Known {
        reason: "fault, not in FAULTS.md: an index that differs in `hidden` alone is the same index / 85",
        is: |found| found.verb() == "createIndexes" && found.codes() == (0, 85),
    },
    Known {
        reason: "fault, not in FAULTS.md: an array filter that says nothing ({$all: []}) is refused / accepted",
        is: |found| found.says("arrayFilters") && found.says("$all") && found.codes() == (9, 0),
    },
    Known {
        reason: "fault, not in FAULTS.md: an upsert that fails creates the collection / does not",
        is: |found| found.what == What::State && found.says("upsert") && found.codes().1 == 26,
    },
    Known {
        reason: "fault, not in FAULTS.md: find's $slice beside a path collision: 31252 / 31250",
        is: |found| found.says("$slice") && found.codes() == (31252, 31250),
    },
    Known {
        reason: "fault, not in FAULTS.md: findAndModify takes batchSize and ignores it / 40415 (8.2: ?)",
        is: |found| {
            found.verb() == "findAndModify" && found.says("batchSize") && found.codes().1 == 40415
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: findAndModify looks at its fields when it has a document / at once",
        is: |found| {
            found.verb() == "findAndModify"
                && found.says("fields")
                && found.codes().0 == 0
                && found.codes().1 != 0
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: $regexFind and its like with a null regex are null / look at the input first",
        is: |found| found.codes() == (0, 51104),
    },
    Known {
        reason: "fault, not in FAULTS.md: singleBatch: 1 is refused / accepted (8.2: ?)",
        is: |found| found.says("singleBatch") && found.codes() == (14, 0),
    },
    Known {
        reason: "fault, not in FAULTS.md: insert documents: null, update updates: null, delete deletes: null (8.2: ?)",
        is: |found| found.codes() == (10065, 40414),
    },
    Known {
        reason: "fault, not in FAULTS.md: $bitsAllClear and its like take a decimal with a fraction / pass it over",
        is: |found| {
            found.codes() == (0, 0)
                && [
                    "$bitsAllClear",
                    "$bitsAllSet",
                    "$bitsAnyClear",
                    "$bitsAnySet",
                ]
                .iter()
                .any(|name| found.says(name))
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: $merge into a collection that the same pipeline reads: it is read before / after the writes",
        is: |found| {
            found.what == What::State
                && found.says("$merge")
                && (found.says("$unionWith") || found.says("$lookup"))
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: $rename tells of a conflict first / of a wrong target first",
        is: |found| found.says("$rename") && found.codes() == (40, 2),
    },
];

/// True if both cursors gave the same rows, in other batches.
fn same_rows(found: &Difference) -> bool {
    let [theirs, ours] = [&found.theirs, &found.ours].map(|replies| rows(&found.steps, replies));
    theirs.is_some() && theirs == ours
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
