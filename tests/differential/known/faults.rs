//! Faults that are known, those of mongod included, and what Sundown does otherwise on purpose.

use bson::{Bson, Document};

use super::Known;
use crate::difference::What;
use crate::reply;
use crate::similar::{
    changed, ends_with_an_empty_batch, rounded, same_but_for, same_when, without_null_elements,
    without_nulls, without_numbers,
};

pub const FAULTS: &[Known] = &[
    Known {
        reason: "mongod cuts a message inside a character, and no client can read the reply",
        is: |found, _| found.theirs.iter().any(|reply| reply.contains_key("lost")),
    },
    Known {
        reason: "mongod 6.0 cannot join a $match that has an $elemMatch with $all",
        is: |found, _| {
            found.codes().0 == 2
                && found.says("$elemMatch")
                && found.says("$all")
                && found.they_say("unknown top level operator")
        },
    },
    Known {
        reason: "an index of version 1 holds no decimals in mongod; here it is one of version 2 that shows another number",
        is: |found, _| found.codes().0 == 12 && found.they_say("Index version"),
    },
    Known {
        reason: "an insert that fails uses up no record id here",
        is: |found, _| {
            found.both_answer()
                && found.says("showRecordId")
                && same_but_for(found, &["$recordId".to_owned()])
        },
    },
    Known {
        reason: "a findAndModify that cannot parse what it shows creates no collection here",
        is: |found, _| {
            let verb = found.verb().to_lowercase();
            verb == "findandmodify"
                && found.what == What::State
                // A collection is told by its rows and its indexes.
                && found.theirs.len() == found.ours.len() + 2
                && found.says("upsert")
                && found.says("fields")
        },
    },
    Known {
        reason: "mongod makes a document of all keys of an index, and a later key below the path of a distinct replaces its values",
        is: |found, _| {
            let Ok(path) = found.command().get_str("key") else {
                return false;
            };
            let spoils = |index: &Bson| {
                let key = index
                    .as_document()
                    .and_then(|index| index.get_document("key").ok());
                let mut paths = key.into_iter().flat_map(Document::keys);
                let below = |other: &String| {
                    let rest = other.strip_prefix(path);
                    rest.is_some_and(|rest| rest.starts_with('.'))
                };
                paths.next().is_some_and(|first| first == path) && paths.any(below)
            };
            found.verb() == "distinct" && found.both_answer() && found.script_has(spoils)
        },
    },
    Known {
        reason: "each server has a time of its own",
        is: |found, _| {
            let is_now = |value: &Bson| value.as_str() == Some("$$NOW");
            found.both_answer()
                && (found.script_says("$currentDate") || found.script_has(is_now))
                && same_when(found, without_numbers)
        },
    },
    Known {
        reason: "a database without collections does not exist here",
        is: |found, _| {
            found.verb() == "explain" && found.codes() == (0, 26) && found.says("findAndModify")
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: a write concern that cannot be met is told before the mistakes of the command",
        is: |found, _| {
            let told = ["non-majority 'w' mode", "'w' > 1", "Write Concern"];
            let told = told.iter().any(|words| found.we_say(words));
            found.codes().0 != 0 && found.codes().1 == 2 && told
        },
    },
    Known {
        reason: "fault: FAULTS.md D1, D2, D4, D7: one server computes what the other does not come to (asked: it fails alone, too)",
        is: |found, witness| {
            let (theirs, ours) = found.codes();
            found.what == What::Reply && (theirs == 0 || ours == 0) && witness.part_fails(found)
        },
    },
    Known {
        reason: "fault: FAULTS.md D2: $match, $skip and $limit come after what computes, and another document is wrong first (asked)",
        is: |found, witness| {
            let (theirs, ours) = found.codes();
            found.what == What::Reply
                && theirs != 0
                && ours != 0
                && ["$match", "$skip", "$limit"]
                    .iter()
                    .any(|name| found.says(name))
                && witness.they_fail_as_we_do(found)
        },
    },
    Known {
        reason: "two things are wrong, and each server tells another (asked: each fails with both)",
        is: |found, witness| found.what == What::Reply && witness.part_fails(found),
    },
    Known {
        reason: "fault: FAULTS.md B7: a field that is removed and set again loses its place in a $sort, $group, $lookup or $unwind between, or in an expression",
        is: |found, _| {
            let sorted = || changed(found, reply::sorted_deeply);
            let blocks = ["$sort", "$group", "$lookup", "$unwind"];
            // A value that is missing removes the field, too.
            let expression = found.says("$setField");
            found.both_answer()
                && (expression || (found.computes() && blocks.iter().any(|name| found.says(name))))
                && (same_when(found, reply::sorted_deeply) || ends_with_an_empty_batch(&sorted()))
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: what a projection takes from an index alone has null for a missing field, in 8.2, too (projection.cpp, ProjectionStageCovered)",
        is: |found, _| {
            found.both_answer()
                && found.is_indexed()
                && found.computes()
                && same_when(found, without_nulls)
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: a distinct through an index by $ne, $nin or $not reads documents, and shows no null for a missing field",
        is: |found, _| {
            let negations = ["$ne", "$nin", "$not", "$nor"];
            found.verb() == "distinct"
                && found.both_answer()
                && found.is_indexed()
                && negations.iter().any(|name| found.says(name))
                && same_when(found, without_null_elements)
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: of two paths that cannot be changed another is told",
        is: |found, _| matches!(found.codes(), (2, 28) | (28, 2)) && found.changed_paths() > 1,
    },
    Known {
        reason: "fault, not in FAULTS.md: a match of $jsonSchema gives the positional operator a place / none",
        is: |found, _| {
            found.says("$jsonSchema") && found.codes() == (0, 2) && found.has_positional_path()
        },
    },
    Known {
        reason: "mongod's powers of decimals are wrong in their last digit",
        is: |found, _| {
            let is_decimal = |value: &Bson| matches!(value, Bson::Decimal128(_));
            found.both_answer()
                && found.says("$pow")
                && found.script_has(is_decimal)
                && same_when(found, rounded)
        },
    },
    Known {
        reason: "mongod 6.0 is a second wrong with dates before 1970 that have milliseconds",
        is: |found, _| {
            let is_old = |value: &Bson| match value {
                Bson::DateTime(date) => {
                    let millis = date.timestamp_millis();
                    millis < 0 && millis % 1000 != 0
                }
                _ => false,
            };
            found.both_answer()
                && ["$dateAdd", "$dateSubtract"]
                    .iter()
                    .any(|name| found.says(name))
                && (found.script_has(is_old) || found.says("$dateFromParts"))
        },
    },
];
