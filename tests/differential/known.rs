//! Differences that have a reason. Everything else is a fault.
//!
//! A row is either a difference of version, with where 8.2's behaviour is told, or a fault that is listed and not mended yet;
//! who mends it takes its row away. Error codes of MongoDB carry the number of the ticket that brought them: 7548606 is from
//! SERVER-75486.

use bson::{Bson, Document};

use crate::difference::{Difference, What};
use crate::reply::{self, rows};

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
    (17311, 17042, "8.2: $setIsSubset has one code however it is optimised (expression.cpp)"),
    (16554, 14, "8.2: $add of what is no number is TypeMismatch (documentdb/functional-tests)"),
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
        is: |found| {
            (found.says("$sum") || found.says("$avg"))
                && found.codes() == (0, 0)
                && same_but_for_fractions(found)
        },
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
                || (found.says("unit") && matches!(found.codes().1, 9 | 5439013))
                || (found.says("$dateFromParts") && found.codes().0 == 0 && found.codes().1 != 0)
        },
    },
    Known {
        reason: "fault: FAULTS.md D2: $match, $skip and $limit are not moved before what computes, and unused fields are computed",
        is: |found| found.codes().0 == 0 && found.codes().1 != 0 && computes_too_early(found),
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
        reason: "fault, not in FAULTS.md: find's $slice beside another wrong projection: 31252, 28667, 31254 / what is wrong first",
        is: |found| found.says("$slice") && matches!(found.codes().0, 31252 | 28667 | 31254),
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
        reason: "fault, not in FAULTS.md: null in the place of a list (documents, updates, arrayFilters) is 10065 / missing (8.2: ?)",
        is: |found| found.codes().0 == 10065,
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
    Known {
        reason: "mongod cuts a message inside a character, and no client can read the reply",
        is: |found| found.theirs.iter().any(|reply| reply.contains_key("lost")),
    },
    Known {
        reason: "fault, not in FAULTS.md: find with projection: null is refused / accepted (8.2: ?)",
        is: |found| found.verb() == "find" && found.codes() == (14, 0),
    },
    Known {
        reason: "fault, not in FAULTS.md: a hint that names no index is refused / accepted where the filter matches nothing",
        is: |found| found.says("hint") && found.codes() == (2, 0),
    },
    Known {
        reason: "fault, not in FAULTS.md: createIndexes that finds _id_ under another name leaves createdCollectionAutomatically out / has it",
        is: |found| found.verb() == "createIndexes" && found.codes() == (0, 0),
    },
    Known {
        reason: "fault: FAULTS.md C6: $pull of a $not",
        is: |found| found.says("$pull") && found.says("$not") && found.codes() == (2, 0),
    },
    Known {
        reason: "distinct from an index has null for a missing field / leaves it out, as without an index (8.2: ?)",
        is: |found| found.verb() == "distinct" && found.codes() == (0, 0) && found.is_indexed(),
    },
    Known {
        reason: "fault, not in FAULTS.md: a findAndModify that removes looks at its fields afterwards / before (8.2: ?)",
        is: |found| {
            found.what == What::State && found.verb() == "findAndModify" && found.says("fields")
        },
    },
    Known {
        reason: "8.2: a null in a filter does not match undefined since 8.0 (release notes)",
        is: |found| found.codes() == (0, 0) && found.holds_undefined(),
    },
    Known {
        reason: "8.2: binary data can be made text since 8.0 (manual, $toString)",
        is: |found| found.codes() == (241, 0),
    },
    Known {
        reason: "8.2: n of $maxN and its like is checked although no document comes (SERVER-75486)",
        is: |found| found.codes() == (0, 7548606),
    },
    Known {
        reason: "fault: FAULTS.md B11: $top and $bottom",
        is: |found| {
            found.codes() == (0, 0)
                && ["$top", "$topN", "$bottom", "$bottomN"]
                    .iter()
                    .any(|name| found.says(name))
        },
    },
    Known {
        reason: "fault: FAULTS.md C10: a null later argument hides an earlier wrong type",
        is: |found| found.codes() == (28724, 0),
    },
    Known {
        reason: "fault: FAULTS.md D4: a wrong stage of a pipeline update fails the command / the statement",
        is: |found| found.updates_by_pipeline() && found.codes().0 == found.codes().1,
    },
    Known {
        reason: "fault: FAULTS.md D7: arguments that mongod does not reach",
        is: |found| {
            found.says("$filter")
                && found.says("limit")
                && found.codes().0 == 0
                && found.codes().1 != 0
        },
    },
    Known {
        reason: "fault: FAULTS.md E: a unique index over several duplicates names the smallest key",
        is: |found| found.codes() == (11000, 11000),
    },
    Known {
        reason: "fault, not in FAULTS.md: $group by MinKey or MaxKey has them in a document: {_id: MinKey} / {_id: {'': MinKey}}",
        is: |found| found.says("$group") && found.codes() == (0, 0) && found.holds_extremes(),
    },
    Known {
        reason: "fault, not in FAULTS.md: of two paths that cannot be changed another is told",
        is: |found| matches!(found.codes(), (2, 28) | (28, 2)),
    },
    Known {
        reason: "fault, not in FAULTS.md: $addFields of an empty object is refused / accepted (8.2: ?)",
        is: |found| found.codes() == (40180, 0),
    },
    Known {
        reason: "fault, not in FAULTS.md: deletes: [{limit: null}] is accepted / 9 (8.2: ?)",
        is: |found| found.verb() == "delete" && found.codes() == (0, 9),
    },
    Known {
        reason: "fault, not in FAULTS.md: a $sort before another $sort is dropped / made, and may fail",
        is: |found| found.says("$sort") && found.codes() == (0, 2),
    },
    Known {
        reason: "fault, not in FAULTS.md: an upsert whose filter can match nothing takes no _id from it / takes it (8.2: ?)",
        is: |found| {
            found.says("upsert")
                && found.says("_id")
                && found.codes() == (0, 0)
                && found.matches_nothing()
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: insert with `let`: an unknown field / a wrong type (8.2: ?)",
        is: |found| found.verb() == "insert" && found.says("let") && found.codes() == (40415, 14),
    },
    Known {
        reason: "fault, not in FAULTS.md: $first of a $group computes for the first document only / for all",
        is: |found| {
            found.says("$first")
                && found.says("$group")
                && found.codes().0 == 0
                && found.codes().1 != 0
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: a constant second argument of $setIsSubset is checked though nothing is read / not",
        is: |found| found.codes() == (17311, 0),
    },
    Known {
        reason: "fault, not in FAULTS.md: updates: [{multi: 1}] is refused / accepted (8.2: ?)",
        is: |found| found.verb() == "update" && found.codes() == (14, 0),
    },
];

/// True if both cursors gave the same rows, in other batches.
fn same_rows(found: &Difference) -> bool {
    let [theirs, ours] = [&found.theirs, &found.ours].map(|replies| rows(&found.steps, replies));
    theirs.is_some() && theirs == ours
}

/// True if both gave the same but for the order of fields within rows.
fn same_but_for_field_order(found: &Difference) -> bool {
    same_when(found, reply::sorted_deeply)
}

/// True if both gave the same but for the value of doubles and decimals.
fn same_but_for_fractions(found: &Difference) -> bool {
    fn blank(value: Bson) -> Bson {
        match value {
            Bson::Double(_) | Bson::Decimal128(_) => Bson::Double(0.0),
            Bson::Array(list) => list.into_iter().map(blank).collect::<Vec<_>>().into(),
            Bson::Document(document) => {
                let fields = document.into_iter();
                let fields = fields.map(|(name, value)| (name, blank(value)));
                fields.collect::<Document>().into()
            }
            other => other,
        }
    }
    same_when(found, blank)
}

/// True if the replies are the same once each is changed in that way.
fn same_when(found: &Difference, change: fn(Bson) -> Bson) -> bool {
    let changed = |replies: &[Document]| -> Vec<Document> {
        let changed = replies.iter().map(|reply| change(reply.clone().into()));
        changed
            .filter_map(|reply| reply.as_document().cloned())
            .collect()
    };
    let (theirs, ours) = (changed(&found.theirs), changed(&found.ours));
    let rows = || {
        rows(&found.steps, &theirs)
            .is_some_and(|rows| Some(rows) == reply::rows(&found.steps, &ours))
    };
    !reply::differ(&found.steps, found.what, &theirs, &ours) || rows()
}

/// True if a stage that computes comes before one that needs little of it.
fn computes_too_early(found: &Difference) -> bool {
    let stages = found.command().get_array("pipeline").ok();
    let stages = stages.into_iter().flatten().filter_map(Bson::as_document);
    let names: Vec<&String> = stages.filter_map(|stage| stage.keys().next()).collect();
    let first = names
        .iter()
        .position(|name| COMPUTING.contains(&name.as_str()));
    let last = names
        .iter()
        .rposition(|name| SPARING.contains(&name.as_str()));
    first.is_some() && first < last
}

const COMPUTING: [&str; 9] = [
    "$addFields",
    "$set",
    "$project",
    "$replaceRoot",
    "$replaceWith",
    "$lookup",
    "$unwind",
    "$group",
    "$redact",
];
const SPARING: [&str; 11] = [
    "$match",
    "$skip",
    "$limit",
    "$count",
    "$group",
    "$sortByCount",
    "$project",
    "$unset",
    "$bucket",
    "$bucketAuto",
    "$facet",
];
