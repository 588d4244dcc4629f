//! What 8.2 does otherwise than 6.0.5.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};

use super::Known;
use crate::difference::{What, contains};
use crate::similar::{
    as_doubles, as_numbers, ends_with_an_empty_batch, has_fraction, rounded, same_but_for,
    same_when, short_numbers, without_dates, without_wrappers, without_zulu,
};

pub const VERSIONS: &[Known] = &[
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
                other => matches!(other, Bson::Null | Bson::Undefined | Bson::Boolean(false)),
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
            // What else names it may have created it without options, and an earlier create may have failed.
            let names = |value: &Bson| {
                let text = value.as_str().map(|text| text.trim_start_matches("DB."));
                text.is_some_and(|text| name.and_then(Bson::as_str) == Some(text))
            };
            let mut others = before().filter(|command| !command.contains_key("create"));
            let is_made = others.any(|command| contains(&Bson::Document(command.clone()), &names));
            let wanted = options(found.command());
            let is_plain = wanted.is_empty() && (given.is_empty() || is_made);
            found.codes() == (48, 0) && (given.contains(&wanted) || is_plain)
        },
    },
    Known {
        reason: "8.2: the size of a capped collection is not rounded up to a multiple of 256 (collection_options.cpp)",
        is: |found, _| {
            let is_rounded = |command: &Bson| {
                let command = command.as_document();
                let size = command.and_then(|command| match command.get("size")? {
                    Bson::Int32(size) => Some(i64::from(*size)),
                    Bson::Int64(size) => Some(*size),
                    Bson::Double(size) => Some(*size as i64),
                    _ => None,
                });
                let creates = command.is_some_and(|command| command.contains_key("create"));
                creates && size.is_some_and(|size| size % 256 != 0)
            };
            found.both_answer() && found.script_has(is_rounded)
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
        reason: "8.2: dataSize, dbStats and collStats are read by the IDL parser, and their errors have codes (dbcommands.idl)",
        is: |found, _| {
            let uncoded = found.codes().0 == 0 && found.they_fail();
            // A null is none to that parser.
            let null = ["min", "max", "keyPattern"].iter().any(|name| {
                matches!(
                    found.command().get(name),
                    Some(Bson::Null | Bson::Undefined)
                )
            });
            matches!(
                found.verb(),
                "dataSize" | "dbStats" | "datasize" | "dbstats" | "collStats"
            ) && (uncoded
                || (null && found.codes().1 == 0)
                || matches!(found.codes().1, 2 | 14 | 40415))
        },
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
            found.verb() == "createIndexes"
                && found.codes() == (0, 85)
                && found.script_says("hidden")
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
        reason: "8.2: what $add and $subtract add to a date is rounded, and may not overflow (evaluate_math.cpp, AddState, evaluateSubtract)",
        is: |found, _| {
            let (theirs, ours) = found.codes();
            let overflows = ours == 15 && found.we_say("date overflow");
            let is_moved = found.both_answer() && same_when(found, without_dates);
            (found.says("$add") || found.says("$subtract"))
                && (is_moved || (overflows && matches!(theirs, 0 | 159 | 31109)))
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
                matches!(code, 0 | 9 | 16006 | 40485 | 40515 | 40517 | 40533)
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
        is: |found, _| {
            found.groups_first()
                && found.both_answer()
                && found.says("$maxN")
                && same_when(found, as_numbers)
        },
    },
    Known {
        reason: "8.2: the time in a zone has no Z (evaluate_date.cpp)",
        is: |found, witness| {
            found.both_answer()
                && found.says("$dateToString")
                && found.says("timezone")
                && (same_when(found, without_zulu) || witness.parts_differ(found, "$dateToString"))
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
