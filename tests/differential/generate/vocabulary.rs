//! The vocabulary of the generator: expressions and accumulators, their results and arguments. A new operator of the server
//! needs one line here, and [`check_complete`] asks for it.
//!
//! Arguments are written as kinds: `num`, `int`, `str`, `arr`, `date`, `obj`, `bool`, `any`; `num,int?` by position, `num*`
//! for any number of them, `{name:kind, other?:kind}` by name. `'text'` is a constant, `'a|b'` one of several.

use std::collections::BTreeSet;

use bson::Bson;

use super::command::round;
use super::options::OPTIONS;
use super::value::Kind::{self, Any, Array, Bool, Date, Int, Number, Object, Text};
use super::{filter, pipeline, update};
use crate::support::vocabularies::vocabularies;

/// Name, result, arguments.
pub type Row = (&'static str, Kind, &'static str);

pub const UNITS: &str = "'year|quarter|month|week|day|hour|minute|second|millisecond|nope'";
pub const ZONES: &str = "'UTC|+02:00|-0530|Europe/Berlin|America/New_York|GMT|nope'";

#[rustfmt::skip]
pub const OPERATORS: &[Row] = &[
    ("$abs", Number, "num"), ("$acos", Number, "num"), ("$acosh", Number, "num"), ("$add", Number, "num*"),
    ("$allElementsTrue", Bool, "[arr]"), ("$and", Bool, "any*"), ("$anyElementTrue", Bool, "[arr]"),
    ("$arrayElemAt", Any, "arr,int"), ("$arrayToObject", Object, "pairs"), ("$asin", Number, "num"),
    ("$asinh", Number, "num"), ("$atan", Number, "num"), ("$atan2", Number, "num,num"), ("$atanh", Number, "num"),
    ("$avg", Number, "num*"), ("$binarySize", Int, "any"), ("$bsonSize", Int, "obj"), ("$ceil", Number, "num"),
    ("$cmp", Int, "any,any"), ("$concat", Text, "str*"), ("$concatArrays", Array, "arr*"),
    ("$cond", Any, "bool,any,any"), ("$cond", Any, "{if:bool, then:any, else:any}"), ("$const", Any, "literal"),
    ("$convert", Any, "{input:any, to:type, onError?:any, onNull?:any}"), ("$cos", Number, "num"),
    ("$cosh", Number, "num"), ("$dateAdd", Date, "{startDate:date, unit:unit, amount:int, timezone?:zone}"),
    ("$dateDiff", Int, "{startDate:date, endDate:date, unit:unit, timezone?:zone, startOfWeek?:'mon|sunday|x'}"),
    ("$dateFromParts", Date, "{year:year, month?:int, day?:int, hour?:int, minute?:int, millisecond?:int, timezone?:zone}"),
    ("$dateFromParts", Date, "{isoWeekYear:year, isoWeek?:int, isoDayOfWeek?:int, second?:int}"),
    ("$dateFromString", Date, "{dateString:str, format?:'%Y-%m-%d|%d/%m/%Y|%Y', timezone?:zone, onError?:any, onNull?:any}"),
    ("$dateSubtract", Date, "{startDate:date, unit:unit, amount:int, timezone?:zone}"),
    ("$dateToParts", Object, "{date:date, timezone?:zone, iso8601?:bool}"),
    ("$dateToString", Text, "{date:date, format?:'%Y-%m-%d %H:%M:%S.%L|%G-W%V-%u|%j %w %U %z %Z%%|%d', timezone?:zone, onNull?:any}"),
    ("$dateTrunc", Date, "{date:date, unit:unit, binSize?:int, timezone?:zone, startOfWeek?:'mon|sunday|x'}"),
    ("$dayOfMonth", Int, "date"), ("$dayOfWeek", Int, "{date:date, timezone?:zone}"), ("$dayOfYear", Int, "date"),
    ("$degreesToRadians", Number, "num"), ("$divide", Number, "num,num"), ("$eq", Bool, "any,any"), ("$exp", Number, "num"),
    ("$filter", Array, "{input:arr, cond:inside, as?:'this', limit?:int}"), ("$first", Any, "arr"),
    ("$firstN", Array, "{input:arr, n:int}"), ("$floor", Number, "num"), ("$getField", Any, "{field:'x|y|nosuch', input:obj}"),
    ("$getField", Any, "'n|s|o'"), ("$gt", Bool, "any,any"), ("$gte", Bool, "num,num"),
    ("$hour", Int, "{date:date, timezone?:zone}"), ("$ifNull", Any, "any,any"), ("$in", Bool, "any,arr"),
    ("$indexOfArray", Int, "arr,any,int?,int?"), ("$indexOfBytes", Int, "str,str,int?,int?"),
    ("$indexOfCP", Int, "str,str,int?,int?"), ("$isArray", Bool, "[any]"), ("$isNumber", Bool, "any"),
    ("$isoDayOfWeek", Int, "date"), ("$isoWeek", Int, "date"), ("$isoWeekYear", Int, "{date:date, timezone?:zone}"),
    ("$last", Any, "arr"), ("$lastN", Array, "{input:arr, n:int}"), ("$let", Any, "{vars:vars, in:inside}"),
    ("$literal", Any, "literal"), ("$ln", Number, "num"), ("$log", Number, "num,num"), ("$log10", Number, "num"),
    ("$lt", Bool, "num,num"), ("$lte", Bool, "any,any"), ("$ltrim", Text, "{input:str, chars?:str}"),
    ("$map", Array, "{input:arr, in:inside, as?:'this'}"), ("$max", Any, "any*"), ("$max", Any, "arr"),
    ("$maxN", Array, "{input:arr, n:int}"), ("$mergeObjects", Object, "obj*"), ("$millisecond", Int, "date"),
    ("$min", Any, "any*"), ("$min", Any, "arr"), ("$minN", Array, "{input:arr, n:int}"), ("$minute", Int, "date"),
    ("$mod", Number, "num,num"), ("$month", Int, "{date:date, timezone?:zone}"), ("$multiply", Number, "num*"),
    ("$ne", Bool, "any,any"), ("$not", Bool, "[any]"), ("$objectToArray", Array, "obj"), ("$or", Bool, "any*"),
    ("$pow", Number, "num,int"), ("$radiansToDegrees", Number, "num"), ("$range", Array, "int,int,int?"),
    ("$reduce", Any, "{input:arr, initialValue:any, in:reducing}"),
    ("$regexFind", Object, "{input:str, regex:regex, options?:'i|x|z'}"),
    ("$regexFindAll", Array, "{input:str, regex:regex}"), ("$regexMatch", Bool, "{input:str, regex:regex, options?:'i|s'}"),
    ("$replaceAll", Text, "{input:str, find:str, replacement:str}"),
    ("$replaceOne", Text, "{input:str, find:str, replacement:str}"), ("$reverseArray", Array, "arr"),
    ("$round", Number, "num,int?"), ("$rtrim", Text, "{input:str, chars?:str}"), ("$second", Int, "date"),
    ("$setDifference", Array, "arr,arr"), ("$setEquals", Bool, "arr,arr"),
    ("$setField", Object, "{field:'x|q', input:obj, value:any}"), ("$setIntersection", Array, "arr*"),
    ("$setIsSubset", Bool, "arr,arr"), ("$setUnion", Array, "arr*"), ("$sin", Number, "num"), ("$sinh", Number, "num"),
    ("$size", Int, "arr"), ("$slice", Array, "arr,int,int?"), ("$sortArray", Array, "{input:arr, sortBy:order}"),
    ("$split", Array, "str,str"), ("$sqrt", Number, "num"), ("$stdDevPop", Number, "num*"), ("$stdDevSamp", Number, "num*"),
    ("$strLenBytes", Int, "str"), ("$strLenCP", Int, "str"), ("$strcasecmp", Int, "str,str"), ("$substr", Text, "str,int,int"),
    ("$substrBytes", Text, "str,int,int"), ("$substrCP", Text, "str,int,int"), ("$subtract", Number, "num,num"),
    ("$subtract", Any, "date,any"), ("$sum", Number, "num*"), ("$sum", Number, "arr"),
    ("$switch", Any, "{branches:branches, default?:any}"), ("$tan", Number, "num"), ("$tanh", Number, "num"),
    ("$toBool", Bool, "any"), ("$toDate", Date, "any"), ("$toDecimal", Number, "any"), ("$toDouble", Number, "any"),
    ("$toInt", Int, "any"), ("$toLong", Int, "any"), ("$toLower", Text, "str"), ("$toObjectId", Any, "str"),
    ("$toString", Text, "any"), ("$toUpper", Text, "str"), ("$trim", Text, "{input:str, chars?:str}"),
    ("$trunc", Number, "num,int?"), ("$tsIncrement", Int, "any"), ("$tsSecond", Int, "any"), ("$type", Text, "any"),
    ("$unsetField", Object, "{field:'x|q', input:obj}"), ("$week", Int, "date"), ("$year", Int, "{date:date, timezone?:zone}"),
    ("$zip", Array, "{inputs:arrays, useLongestLength?:bool, defaults?:defaults}"),
];

#[rustfmt::skip]
pub const GROUPED: &[Row] = &[
    ("$addToSet", Array, "any"), ("$avg", Number, "num"), ("$bottom", Any, "{sortBy:sort, output:any}"),
    ("$bottomN", Array, "{sortBy:sort, output:any, n:count}"), ("$count", Int, "{}"), ("$first", Any, "any"),
    ("$firstN", Array, "{input:any, n:count}"), ("$last", Any, "any"), ("$lastN", Array, "{input:any, n:count}"),
    ("$max", Any, "any"), ("$maxN", Array, "{input:any, n:count}"), ("$mergeObjects", Object, "obj"), ("$min", Any, "any"),
    ("$minN", Array, "{input:any, n:count}"), ("$push", Array, "any"), ("$stdDevPop", Number, "num"),
    ("$stdDevSamp", Number, "num"), ("$sum", Number, "num"), ("$top", Any, "{sortBy:sort, output:any}"),
    ("$topN", Array, "{sortBy:sort, output:any, n:count}"),
];

/// Operators that are built and never sent, and the reasons.
const LEFT_OUT: &[(&str, &str)] = &[
    ("$bitAnd", "since 6.3"),
    ("$bitNot", "since 6.3"),
    ("$bitOr", "since 6.3"),
    ("$bitXor", "since 6.3"),
    ("$median", "since 7.0"),
    ("$percentile", "since 7.0"),
    ("$toUUID", "since 8.0"),
    ("$sigmoid", "since 8.1"),
    ("$concatArrays", "as an accumulator since 8.1"),
    ("$setUnion", "as an accumulator since 8.1"),
    ("$rand", "random"),
    ("$sample", "random"),
    ("$sampleRate", "random"),
    ("$meta", "needs text or geo search, which are not built"),
    ("$currentOp", "tells of the server, not of the data"),
    ("$collStats", "tells of the server, not of the data"),
    ("$listLocalSessions", "tells of the server, not of the data"),
    ("$listSessions", "tells of the server, not of the data"),
    ("$indexStats", "tells of the server, not of the data"),
    (
        "$changeStream",
        "needs a replica set, and mongod is a standalone",
    ),
    (
        "$changeStreamSplitLargeEvent",
        "needs a replica set, and mongod is a standalone",
    ),
    ("$ref", "part of a DBRef; a field by that name in filters"),
    ("$id", "part of a DBRef"),
    ("$db", "part of a DBRef"),
];

/// Commands that are built and never sent, and the reasons.
#[rustfmt::skip]
const COMMANDS_LEFT_OUT: &[(&str, &[&str])] = &[
    ("since 8.0", &["bulkWrite"]),
    ("needs a replica set, and mongod is a standalone", &[
        "abortTransaction", "commitTransaction", "replSetGetConfig", "replSetGetStatus", "replSetInitiate",
    ]),
    ("needs a router", &[
        "balancerStatus", "enableSharding", "getShardMap", "isdbgrid", "listShards", "shardCollection",
    ]),
    ("changes or shows users, whom other tests of the same mongod have, too", &[
        "authenticate", "connectionStatus", "createUser", "dropAllRolesFromDatabase", "dropAllUsersFromDatabase", "dropUser",
        "grantRolesToUser", "invalidateUserCache", "logout", "revokeRolesFromUser", "rolesInfo", "saslContinue", "saslStart",
        "updateUser", "usersInfo",
    ]),
    ("tells of the server, not of the data", &[
        "buildInfo", "connPoolStats", "currentOp", "features", "getCmdLineOpts", "getDefaultRWConcern", "getLog",
        "getParameter", "hello", "hostInfo", "isMaster", "listCommands", "lockInfo", "planCacheClear", "planCacheClearFilters",
        "planCacheListFilters", "profile", "serverStatus", "top", "validateDBMetadata", "whatsmyuri",
    ]),
    ("changes the server for other tests", &["configureFailPoint", "killOp", "setParameter"]),
    ("ends sessions, also those of other tests", &[
        "endSessions", "killAllSessions", "killAllSessionsByPattern", "killSessions", "refreshSessions", "startSession",
    ]),
    ("Sundown's own", &["customAction", "getLastRequestStatistics", "timeTravel"]),
];

/// Checks that every built word is in a table of the generator, or left out with a reason.
pub fn check_complete() {
    let out: BTreeSet<_> = LEFT_OUT.iter().map(|(name, _)| *name).collect();
    let commands = COMMANDS_LEFT_OUT.iter().flat_map(|(_, names)| *names);
    let out: BTreeSet<_> = out.iter().chain(commands).copied().collect();
    let sent = words_sent();
    for listed in vocabularies() {
        let said: Vec<&str> = match listed.name {
            "expressions" => OPERATORS.iter().map(|row| row.0).collect(),
            "accumulators" => GROUPED.iter().map(|row| row.0).collect(),
            "stages" => pipeline::STAGES.to_vec(),
            "filters" => filter::OPERATORS.to_vec(),
            "updates" => update::OPERATORS.to_vec(),
            _ => sent.iter().map(String::as_str).collect(),
        };
        let wanted = || listed.ready().filter(|name| !out.contains(name));
        let left: Vec<_> = wanted().filter(|name| !said.contains(name)).collect();
        assert!(
            left.is_empty(),
            "{} that no table has: {left:?}",
            listed.name
        );
        let left: Vec<_> = wanted().filter(|name| !sent.contains(*name)).collect();
        assert!(
            left.is_empty(),
            "{} that no command has: {left:?}",
            listed.name
        );
    }
    for (command, options) in OPTIONS {
        let left: Vec<_> = options.iter().filter(|row| !sent.contains(row.0)).collect();
        assert!(
            left.is_empty(),
            "options of {command} that are never sent: {left:?}"
        );
    }
}

/// Returns every field name of the commands of many rounds, at any depth.
fn words_sent() -> BTreeSet<String> {
    fn collect(value: &Bson, found: &mut BTreeSet<String>) {
        match value {
            Bson::Document(document) => {
                for (name, value) in document {
                    if !found.contains(name) {
                        found.insert(name.clone());
                    }
                    collect(value, found);
                }
            }
            Bson::Array(list) => list.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    for seed in 1..2_000 {
        for step in round(seed, 12) {
            collect(&step.command.into(), &mut found);
        }
    }
    found
}
