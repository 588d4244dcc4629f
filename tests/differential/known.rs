//! Known differences and their reasons. Every other difference is a fault.
//!
//! A row is either a difference of version, with the source for the behaviour of 8.2 (`.cpp`, `.idl`: the source of 8.2.4),
//! or a fault that is known and not fixed yet. Whoever fixes it removes its row. A row must not accept more than its reason
//! explains. Error codes of MongoDB contain the number of the ticket that added them: 7548606 is from SERVER-75486.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use crate::difference::{Difference, What};
use crate::reply;
use crate::similar::{
    as_doubles, changed, ends_with_an_empty_batch, has_fraction, rounded, same_but_for, same_when,
    short_numbers, without_nulls, without_wrappers, without_zulu,
};
use crate::witness::Witness;

/// A difference with one cause.
struct Known {
    reason: &'static str,
    is: fn(&Difference, &mut Witness<'_>) -> bool,
}

pub fn reason(found: &Difference, witness: &mut Witness<'_>) -> Option<&'static str> {
    let code = CODES.iter().find(|row| found.codes() == (row.0, row.1));
    let code = code.filter(|row| {
        found.what == What::Reply && (!BY_SLOTS.contains(&row.1) || found.groups_first())
    });
    // A difference of version needs no witness, and is no fault.
    let (versions, others): (Vec<_>, Vec<_>) = KNOWN
        .iter()
        .partition(|known| known.reason.starts_with("8.2:"));
    let mut known = versions.into_iter().chain(others);
    code.map(|row| row.2).or_else(|| {
        let known = known.find(|known| (known.is)(found, witness));
        known.map(|known| known.reason)
    })
}

/// Returns all reasons, to report those that never occurred.
pub fn reasons() -> impl Iterator<Item = &'static str> {
    let codes = CODES.iter().map(|row| row.2);
    codes.chain(KNOWN.iter().map(|known| known.reason))
}

/// Returns true if mongod's code is the 6.0 form of Sundown's.
pub fn same_code(theirs: i32, ours: i32) -> bool {
    theirs == ours || CODES.iter().any(|row| (theirs, ours) == (row.0, row.1))
}

/// The code of 6.0.5, the code of 8.2, and its source.
#[rustfmt::skip]
const CODES: &[(i32, i32, &str)] = &[
    (40414, 40414, "8.2: codes of the IDL parser have names (error_codes.yml)"),
    (40415, 40415, "8.2: codes of the IDL parser have names (error_codes.yml)"),
    (5439012, 5166307, "8.2: date expressions share their check of the date (evaluate_date.cpp)"),
    (5166404, 5439013, "8.2: date expressions share their check of the unit (evaluate_date.cpp)"),
    (5439014, 9, "8.2: a time unit that is none is FailedToParse (parseTimeUnit, time_support)"),
    (40400, 5911200, "8.2: $mergeObjects as an accumulator has its own code (gen_accumulator.cpp)"),
    (5787902, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (5787903, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (31109, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (5787908, 7548606, "8.2: the n of an accumulator has its own code (gen_accumulator.cpp)"),
    (16610, 4848403, "8.2: $mod by zero (vm_arith.cpp)"),
    (17310, 17046, "8.2: $setIsSubset has one code for its first argument (evaluate_array.cpp)"),
    (16994, 40415, "8.2: $out is read by the IDL parser (document_source_out.cpp)"),
    (40533, 40517, "8.2: date expressions share their check of the zone (evaluate_date.cpp)"),
    (40086, 10503900, "8.2: $split has a code of its own (evaluate_regex.cpp)"),
    (51746, 10503904, "8.2: $replaceOne and $replaceAll have codes of their own (evaluate_regex.cpp)"),
    (51745, 10503901, "8.2: $replaceOne and $replaceAll have codes of their own (evaluate_regex.cpp)"),
    (51744, 10503902, "8.2: $replaceOne and $replaceAll have codes of their own (evaluate_regex.cpp)"),
    (40096, 9711600, "8.2: $indexOfArray has codes of its own (evaluate_array.cpp)"),
    (40097, 9711601, "8.2: $indexOfArray has codes of its own (evaluate_array.cpp)"),
    (16554, 14, "8.2: $add of what is no number is TypeMismatch (documentdb/functional-tests)"),
    (2, 4848401, "8.2: $divide by zero in a plan of the slot-based engine (vm_arith.cpp)"),
    (5654602, 3041704, "8.2: the field of $getField may be any expression (evaluate_bson.cpp)"),
    (5654601, 3041704, "8.2: the field of $getField may be any expression (evaluate_bson.cpp)"),
    (51024, 2, "8.2: numbers out of range are BadValue to the IDL parser (idl_parser.cpp)"),
];

/// Codes of the slot-based engine, which are those of a `$group` only where 8.2 hands it to that engine.
const BY_SLOTS: [i32; 2] = [4848401, 4848403];

const KNOWN: &[Known] = &[
    Known {
        reason: "mongod cuts a message inside a character, and no client can read the reply",
        is: |found, _| found.theirs.iter().any(|reply| reply.contains_key("lost")),
    },
    // Differences of version.
    Known {
        reason: "8.2: dropping what is not there is no error since 7.0 (SERVER-43894)",
        is: |found, _| found.verb() == "drop" && found.codes() == (26, 0),
    },
    Known {
        reason: "8.2: create is no error if the same collection exists, since 7.0 (manual, create)",
        is: |found, _| {
            let harmless = [
                "create",
                "comment",
                "flags",
                "idIndex",
                "writeConcern",
                "maxTimeMS",
            ];
            let nothing = |value: &Bson| match value {
                Bson::Document(document) => {
                    document.is_empty() || *document == doc! {"locale": "simple"}
                }
                Bson::Int32(0) | Bson::Int64(0) => true,
                Bson::Double(number) => *number == 0.0,
                other => matches!(other, Bson::Null | Bson::Boolean(false)),
            };
            // The options must be those with which the collection was created, such as the same `storageEngine`.
            let options = |command: &Document| -> BTreeMap<String, String> {
                let fields = command.iter();
                let chosen = fields
                    .filter(|(name, value)| !harmless.contains(&name.as_str()) && !nothing(value));
                chosen
                    .map(|(name, value)| (name.clone(), value.to_string()))
                    .collect()
            };
            let (_, before) = found.steps.split_last().expect("the command itself");
            let name = found.command().get("create");
            let before = || before.iter().map(|step| &step.command);
            let creates = before().filter(|command| command.get("create") == name);
            let given: Vec<_> = creates.map(options).collect();
            // A write creates it without options, and an earlier create may have failed.
            let writes = ["insert", "update", "findAndModify"];
            let is_written =
                before().any(|command| writes.iter().any(|verb| command.get(verb) == name));
            let wanted = options(found.command());
            let is_plain = wanted.is_empty() && (given.is_empty() || is_written);
            found.codes() == (48, 0) && (given.contains(&wanted) || is_plain)
        },
    },
    Known {
        reason: "8.2: create has no option autoIndexId (create.idl)",
        is: |found, _| {
            found.verb() == "create" && found.codes().1 == 40415 && found.says("autoIndexId")
        },
    },
    Known {
        reason: "8.2: a sparse index is not used for $lte and $gte with null (planner_ixselect.cpp, nodeIsSupportedBySparseIndex)",
        is: |found, _| {
            let is_null = |value: &Bson| matches!(value, Bson::Null);
            found.both_answer()
                && found.script_has(|value| {
                    value
                        .as_document()
                        .is_some_and(|index| index.contains_key("sparse"))
                })
                && ["$lte", "$gte"]
                    .iter()
                    .any(|name| found.names_with(name, is_null))
        },
    },
    Known {
        reason: "8.2: an explain that is false does not stand for a cursor (documentdb/functional-tests, test_aggregate_cursor_rejection)",
        is: |found, _| {
            found.verb() == "aggregate"
                && found.command().contains_key("explain")
                && found.codes().1 == 9
                && found.we_say("The 'cursor' option is required")
        },
    },
    Known {
        reason: "8.2: distinct takes a hint since 7.1 (distinct_command.idl)",
        is: |found, _| {
            found.verb() == "distinct"
                && found.codes().0 == 40415
                && found.they_say("distinct.hint")
        },
    },
    Known {
        reason: "8.2: $first computes its argument for every document (gen_accumulator.cpp, buildAccumAggsFirst)",
        is: |found, witness| {
            found.codes().0 == 0
                && found.codes().1 != 0
                && found.says("$first")
                && found.groups_first()
                && witness.they_fail_as_we_do(found)
        },
    },
    Known {
        reason: "8.2: $firstN computes its argument only for what it keeps (gen_accumulator.cpp, buildAccumAggsFirstN)",
        is: |found, witness| {
            found.codes().0 != 0
                && found.codes().1 == 0
                && found.says("$firstN")
                && found.groups_first()
                && witness.we_fail_as_they_do(found)
        },
    },
    Known {
        reason: "8.2: $merge takes a null in the fields of `on` since 7.0 (allowMergeOnNullishValues)",
        is: |found, _| {
            found.says("$merge") && matches!(found.codes(), (51132, 0 | 11000 | 13113 | 17276))
        },
    },
    Known {
        reason: "8.2: readConcern is read by the IDL parser, before the command (generic_argument.idl, read_concern.idl)",
        is: |found, _| match found.command().get("readConcern") {
            Some(Bson::Null | Bson::Undefined) => found.they_say("readConcern"),
            Some(_) => {
                (found.we_say("readConcern") && matches!(found.codes().1, 2 | 14 | 40415))
                    || (found.codes() == (14, 0) && found.they_say("\"level\""))
            }
            None => false,
        },
    },
    Known {
        reason: "8.2: maxTimeMS is a whole number to the IDL parser, and null is none (generic_argument.idl)",
        is: |found, _| match found.command().get("maxTimeMS") {
            Some(Bson::Null | Bson::Undefined) => found.they_say("maxTimeMS"),
            Some(_) => found.we_say("maxTimeMS") || found.they_say("maxTimeMS"),
            None => false,
        },
    },
    Known {
        reason: "8.2: writeConcern is read by the IDL parser, before the command (generic_argument.idl, write_concern.idl)",
        is: |found, _| {
            let said = found.we_say("riteConcern") || found.they_say("riteConcern");
            match found.command().get("writeConcern") {
                Some(Bson::Null | Bson::Undefined) => found.they_say("riteConcern"),
                Some(_) => said && matches!(found.codes().1, 0 | 2 | 9 | 14 | 40415),
                None => false,
            }
        },
    },
    Known {
        reason: "8.2: a collation that is null is none to the IDL parser (find_command.idl)",
        is: |found, _| {
            let collation = found.command().get("collation");
            matches!(collation, Some(Bson::Null | Bson::Undefined)) && found.they_say("collation")
        },
    },
    Known {
        reason: "8.2: explain of an aggregate takes any read concern (lite_parsed_pipeline.cpp)",
        is: |found, _| found.they_say("Explain for the aggregate command cannot run"),
    },
    Known {
        reason: "8.2: $log of decimals divides two logarithms; 6.0 divides by the base itself, and computes base 2 and 10 otherwise (evaluate_math.cpp, evaluate(ExpressionLog))",
        is: |found, _| {
            let is_decimal = |value: &Bson| matches!(value, Bson::Decimal128(_));
            found.both_answer() && found.says("$log") && found.script_has(is_decimal)
        },
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
        reason: "8.2: dataSize, dbStats and collStats are read by the IDL parser, and their errors have codes (dbcommands.idl)",
        is: |found, _| {
            let uncoded = found.codes().0 == 0 && found.they_fail();
            // A null is none to that parser.
            let null = ["min", "max", "keyPattern"]
                .iter()
                .any(|name| found.command().get(name) == Some(&Bson::Null));
            matches!(
                found.verb(),
                "dataSize" | "dbStats" | "datasize" | "dbstats" | "collStats"
            ) && (uncoded
                || (null && found.codes().1 == 0)
                || matches!(found.codes().1, 2 | 14 | 40415))
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: explain does not compute the document that an upsert would add, which may fail",
        is: |found, _| found.verb() == "explain" && found.codes() == (0, 0) && found.says("upsert"),
    },
    Known {
        reason: "8.2: $add of a null is null, whatever follows (evaluate_math.cpp)",
        is: |found, _| found.codes() == (16554, 0) && found.says("$add"),
    },
    Known {
        reason: "8.2: figures of dataSize and dbStats are long (dbcommands.idl, safeInt64)",
        is: |found, _| {
            matches!(found.verb(), "dataSize" | "dbStats")
                && found.codes() == (0, 0)
                && same_when(found, as_doubles)
        },
    },
    Known {
        reason: "8.2: $natural is 1 or -1, nothing else (query_request_helper.cpp, hasInvalidNaturalParam)",
        is: |found, _| found.codes() == (0, 2) && found.we_say("$natural"),
    },
    Known {
        reason: "8.2: $mod of a double is a double, also of a whole one (evaluate_math.cpp, evaluateMod)",
        is: |found, _| found.both_answer() && found.says("$mod") && same_when(found, as_doubles),
    },
    Known {
        reason: "8.2: a null in a filter does not match undefined since 8.0 (release notes)",
        is: |found, _| {
            let asks_for_null = found.has_value(|value| *value == Bson::Null);
            // A write that finds nothing does not fail.
            (found.both_answer() || found.codes().1 == 0)
                && found.script_has(|value| *value == Bson::Undefined)
                && (asks_for_null || found.says("$lookup"))
        },
    },
    Known {
        reason: "8.2: binary data can be made text and numbers since 8.0 (manual, $convert)",
        is: |found, _| {
            let makes = ["$toString", "$convert", "$toInt", "$toLong", "$toDouble"];
            found.codes().0 == 241
                && makes.iter().any(|name| found.says(name))
                && found.script_has(|value| matches!(value, Bson::Binary(_)))
        },
    },
    Known {
        reason: "8.2: the constant field of $setField and $unsetField has no null byte (expression.cpp, 9534700)",
        is: |found, _| found.codes() == (0, 9534700),
    },
    Known {
        reason: "8.2: a document that is empty is a value of $addFields (code 40180 is gone)",
        is: |found, _| {
            let has_empty = |spec: &Bson| {
                let mut fields = spec.as_document().into_iter().flatten();
                fields.any(|(_, value)| is_nested_empty(value))
            };
            found.codes().0 == 40180
                && ["$addFields", "$set"]
                    .iter()
                    .any(|stage| found.names_with(stage, has_empty))
        },
    },
    Known {
        reason: "8.2: decimals with a fraction have no bits (matcher_single_element_match.cpp)",
        is: |found, _| {
            let bits = [
                "$bitsAllClear",
                "$bitsAllSet",
                "$bitsAnyClear",
                "$bitsAnySet",
            ];
            bits.iter().any(|name| found.says(name)) && found.script_has(has_fraction)
        },
    },
    Known {
        reason: "8.2: indexes that differ in `hidden` alone are not the same (index_descriptor.cpp)",
        is: |found, _| {
            found.verb() == "createIndexes" && found.codes() == (0, 85) && found.hides_an_index()
        },
    },
    Known {
        reason: "8.2: $regexFind and its like look at the regex, then at the input, also if the regex is null (evaluate_regex.cpp, buildInitialState)",
        is: |found, _| {
            matches!(found.codes(), (0, 51104) | (51104, 51105..=51111))
                && ["$regexFind", "$regexFindAll", "$regexMatch"]
                    .iter()
                    .any(|name| found.says(name))
        },
    },
    Known {
        reason: "8.2: MinKey and MaxKey come back from $group in a document, code as text (the slot-based engine; documentdb/functional-tests)",
        is: |found, _| {
            found.groups_first() && found.both_answer() && same_when(found, without_wrappers)
        },
    },
    Known {
        reason: "8.2: a $nor of {} is false, and so is the rest of the filter, which then gives an upsert no fields (expression_tree.cpp)",
        is: |found, _| {
            let is_all = |value: &Bson| *value == Bson::Document(Document::new());
            found.says("upsert")
                && found.names_with("$nor", |list| {
                    list.as_array().is_some_and(|list| list.iter().any(is_all))
                })
        },
    },
    Known {
        reason: "8.2: the key of a distinct is no projection, so it may be any text (parsed_distinct_command.cpp, parseCanonicalQuery)",
        is: |found, _| {
            (found.verb() == "distinct" || found.says("distinct"))
                && matches!(found.codes(), (224 | 15998 | 16410 | 40352 | 40353, 0))
        },
    },
    Known {
        reason: "8.2: a double as text has all its digits (documentdb/functional-tests, test_toString_double.py)",
        is: |found, _| {
            found.both_answer()
                && (found.says("$toString") || found.says("$convert"))
                && same_when(found, short_numbers)
        },
    },
    // What Sundown does otherwise on purpose.
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
        reason: "a database without collections does not exist here",
        is: |found, _| {
            found.verb() == "explain" && found.codes() == (0, 26) && found.says("findAndModify")
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: a write concern that cannot be met is told before the mistakes of the command, and of an explained one",
        is: |found, _| {
            let told = ["non-majority 'w' mode", "'w' > 1", "Write Concern"];
            let fails = found.codes().0 != 0 || found.verb() == "explain";
            fails && found.codes().1 == 2 && told.iter().any(|words| found.we_say(words))
        },
    },
    Known {
        reason: "fault, not in FAULTS.md: explain of a find that fails does not count the rows before the failure",
        is: |found, _| {
            let failed = |replies: &[Document]| {
                let stats = replies
                    .first()
                    .and_then(|reply| reply.get_document("executionStats").ok());
                stats
                    .is_some_and(|stats| stats.get_bool("executionSuccess").is_ok_and(|good| !good))
            };
            found.verb() == "explain" && failed(&found.theirs) && failed(&found.ours)
        },
    },
    // Expressions that one of the servers does not evaluate.
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
    // Faults.
    Known {
        reason: "fault: FAULTS.md B7: a field that is removed and set again loses its place in a $sort, $group, $lookup or $unwind between, or in an expression",
        is: |found, _| {
            let sorted = || changed(found, reply::sorted_deeply);
            let blocks = ["$sort", "$group", "$lookup", "$unwind"];
            let expression = found.says("$unsetField") && found.says("$setField");
            found.both_answer()
                && (expression || (found.computes() && blocks.iter().any(|name| found.says(name))))
                && (same_when(found, reply::sorted_deeply) || ends_with_an_empty_batch(&sorted()))
        },
    },
    Known {
        reason: "8.2: a find knows the end of its sort or limit, so its last batch may be full (sort.cpp, limit.cpp, isEOF)",
        is: |found, _| {
            let other = |name: &str| {
                name.starts_with('$') && !["$match", "$sort", "$skip", "$limit"].contains(&name)
            };
            let is_find = match found.command().get_array("pipeline") {
                Ok(stages) => !stages.iter().any(|stage| {
                    let stage = stage.as_document();
                    stage.is_some_and(|stage| stage.keys().any(|name| other(name)))
                }),
                Err(_) => true,
            };
            found.codes() == (0, 0)
                && found.what == What::Reply
                && is_find
                && ends_with_an_empty_batch(found)
        },
    },
    Known {
        reason: "8.2: a $sort by the index that an $unwind adds stays behind it (document_source_unwind.cpp, canPushSortBack)",
        is: |found, _| {
            let named = |value: &Bson| {
                let name = value
                    .as_str()
                    .map(|name| name.split('.').next().unwrap_or_default());
                let sorts = |sort: &Bson| {
                    let mut paths = sort.as_document().into_iter().flat_map(Document::keys);
                    paths.any(|path| path.split('.').next() == name)
                };
                found.names_with("$sort", sorts)
            };
            found.both_answer() && found.names_with("includeArrayIndex", named)
        },
    },
    Known {
        reason: "8.2: $add and $multiply go from left to right, without compensation (evaluate_math.cpp, AddState, MultiplyState)",
        is: |found, _| {
            (found.says("$add") || found.says("$multiply"))
                && found.both_answer()
                && same_when(found, rounded)
        },
    },
    Known {
        reason: "8.2: a text with an offset goes with the timezone UTC (date_time_support.cpp, loadTimeZoneInfo)",
        is: |found, _| {
            found.codes() == (241, 0)
                && found.says("$dateFromString")
                && found.names_with("timezone", |zone| *zone == Bson::from("UTC"))
        },
    },
    Known {
        reason: "8.2: a time of four digits has a fraction of -9999999 microseconds instead of -99999 (timelib.h, TIMELIB_UNSET)",
        is: |found, _| {
            found.both_answer()
                && ["$dateFromString", "$toDate", "$convert"]
                    .iter()
                    .any(|name| found.says(name))
                && found.script_has(|value| value.as_str().is_some_and(has_four_digits))
        },
    },
    Known {
        reason: "8.2: $top and $bottom sort an array by its first element in the order (accumulator_multi.cpp, sortFields0)",
        is: |found, _| {
            let tops = ["$top", "$topN", "$bottom", "$bottomN"];
            found.both_answer()
                && found.script_has(|value| matches!(value, Bson::Array(_)))
                && tops.iter().any(|name| found.says(name))
                && same_but_for(found, &found.fields_made_by(&tops))
        },
    },
    Known {
        reason: "8.2: a date expression looks at unit and bin before zone and date, and at constants when it optimises (evaluate_date.cpp, expression.cpp)",
        is: |found, _| {
            let (theirs, ours) = found.codes();
            let checks_date = |code| {
                matches!(code, 0 | 9 | 16006 | 40485 | 40517 | 40533)
                    || matches!(code, 5_166_307 | 5_166_402..=5_166_406 | 5_439_006..=5_439_018)
            };
            if !checks_date(theirs) {
                return false;
            }
            (found.says("startOfWeek") && matches!(ours, 5439015 | 5439016))
                || (found.says("timezone") && matches!(ours, 40517 | 40485))
                || (found.says("unit") && matches!(ours, 9 | 5439013))
                || (found.says("binSize") && matches!(ours, 5439017 | 5439018))
        },
    },
    Known {
        reason: "8.2: null in the place of a list is a missing one to the IDL parser (buildscripts/idl/idl/generator.py, gen_field_deserializer)",
        is: |found, _| {
            let lists = [
                "documents",
                "updates",
                "deletes",
                "arrayFilters",
                "indexes",
                "cursors",
            ];
            found.codes().0 == 10065
                && lists.iter().any(|name| {
                    found.they_say(&format!("({name})"))
                        && found
                            .names_with(name, |value| matches!(value, Bson::Null | Bson::Undefined))
                })
        },
    },
    Known {
        reason: "8.2: of equal values $maxN tells the first one first (vm_builtin_agg.cpp, aggMinMaxN)",
        is: |found, _| found.both_answer() && found.says("$maxN") && same_when(found, as_doubles),
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
        reason: "fault, not in FAULTS.md: of two paths that cannot be changed another is told",
        is: |found, _| matches!(found.codes(), (2, 28) | (28, 2)) && found.changed_paths() > 1,
    },
    Known {
        reason: "8.2: the time in a zone has no Z (evaluate_date.cpp)",
        is: |found, _| {
            found.both_answer()
                && found.says("$dateToString")
                && found.says("timezone")
                && same_when(found, without_zulu)
        },
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

/// Returns true for `{}`, `{a: {}}` and so on.
fn is_nested_empty(value: &Bson) -> bool {
    let document = value.as_document();
    document.is_some_and(|fields| fields.is_empty() || fields.values().any(is_nested_empty))
}

/// Returns true if the text has a word of four digits.
fn has_four_digits(text: &str) -> bool {
    text.split(|c: char| !c.is_ascii_digit())
        .any(|digits| digits.len() == 4)
}
