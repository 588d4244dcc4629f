use bson::{Bson, Document, bson, doc};

use crate::command::tests::server::{ask, server};
use crate::config::Config;

type Server = (super::super::Commands, super::super::Connection);

/// Returns a server with ten documents `{_id: i, a: i, b: i % 3}`, an index on a, and an index on b and a.
fn filled() -> Server {
    let mut server = server(Config {
        enable_test_commands: true,
        ..Config::default()
    });
    let documents: Vec<Document> = (0..10)
        .map(|i| doc! {"_id": i, "a": i, "b": i % 3})
        .collect();
    ask(
        &mut server,
        doc! {"insert": "c", "documents": documents, "$db": "d"},
    );
    let indexes = bson!([
        {"key": {"a": 1}, "name": "a"},
        {"key": {"b": 1, "a": -1}, "name": "ba"},
    ]);
    ask(
        &mut server,
        doc! {"createIndexes": "c", "indexes": indexes, "$db": "d"},
    );
    server
}

fn explained(server: &mut Server, command: Document, verbosity: &str) -> Document {
    ask(
        server,
        doc! {"explain": command, "verbosity": verbosity, "$db": "d"},
    )
}

/// Returns the stages from the outermost to the access.
fn stages(mut plan: &Document) -> Vec<&str> {
    let mut names = vec![plan.get_str("stage").unwrap()];
    while let Ok(input) = plan.get_document("inputStage") {
        plan = input;
        names.push(plan.get_str("stage").unwrap());
    }
    names
}

#[test]
fn figures_of_finds() {
    let mut server = filled();
    // filter and options, stages, (returned, keys, documents)
    for (fields, expected, figures) in [
        (doc! {}, vec!["COLLSCAN"], (10, 0, 10)),
        (doc! {"filter": {"_id": 3}}, vec!["IDHACK"], (1, 1, 1)),
        (doc! {"filter": {"_id": 33}}, vec!["IDHACK"], (0, 0, 0)),
        (
            doc! {"filter": {"_id": {"$in": [1, 2, 77]}}},
            vec!["FETCH", "IXSCAN"],
            (2, 2, 2),
        ),
        (
            doc! {"filter": {"a": {"$gte": 3, "$lt": 7}}},
            vec!["FETCH", "IXSCAN"],
            (4, 4, 4),
        ),
        (
            doc! {"filter": {"a": {"$in": [1, 5, 99]}}},
            vec!["FETCH", "IXSCAN"],
            (2, 2, 2),
        ),
        (
            doc! {"filter": {"b": 1}},
            vec!["FETCH", "IXSCAN"],
            (3, 3, 3),
        ),
        (
            doc! {"filter": {"b": 1, "a": {"$gt": 2}}, "hint": "ba"},
            vec!["FETCH", "IXSCAN"],
            (2, 2, 2),
        ),
        (
            doc! {"filter": {"b": 1}, "sort": {"a": -1}, "limit": 2},
            vec!["LIMIT", "FETCH", "IXSCAN"],
            (2, 2, 2),
        ),
        (
            doc! {"sort": {"a": 1}, "limit": 3},
            vec!["LIMIT", "FETCH", "IXSCAN"],
            (3, 3, 3),
        ),
        (
            doc! {"sort": {"x": 1}, "limit": 3, "skip": 1},
            vec!["SKIP", "SORT", "COLLSCAN"],
            (3, 0, 10),
        ),
        (
            doc! {"filter": {"x": 1}, "projection": {"a": 1}},
            vec!["PROJECTION_SIMPLE", "COLLSCAN"],
            (0, 0, 10),
        ),
        (
            doc! {"projection": {"c": {"$add": ["$a", 1]}}, "limit": 1},
            vec!["LIMIT", "PROJECTION_DEFAULT", "COLLSCAN"],
            (1, 0, 1),
        ),
    ] {
        let mut command = doc! {"find": "c"};
        command.extend(fields.clone());
        let reply = explained(&mut server, command, "executionStats");
        let planner = reply.get_document("queryPlanner").unwrap();
        let winning = planner.get_document("winningPlan").unwrap();
        assert_eq!(stages(winning), expected, "{fields}: {reply}");
        let stats = reply.get_document("executionStats").unwrap();
        let run = stats.get_document("executionStages").unwrap();
        assert_eq!(stages(run), expected, "{fields}: {reply}");
        let figure = |name| stats.get_i32(name).unwrap();
        let got = (
            figure("nReturned"),
            figure("totalKeysExamined"),
            figure("totalDocsExamined"),
        );
        assert_eq!(got, figures, "{fields}: {reply}");
    }
}

#[test]
fn other_commands_are_explained_and_change_nothing() {
    let mut server = filled();
    for (command, expected, path, n) in [
        (
            doc! {"count": "c"},
            vec!["RECORD_STORE_FAST_COUNT"],
            "nCounted",
            10,
        ),
        (
            doc! {"count": "c", "query": {"a": {"$lt": 4}}},
            vec!["COUNT", "FETCH", "IXSCAN"],
            "nCounted",
            4,
        ),
        (
            doc! {"distinct": "c", "key": "b"},
            vec!["COLLSCAN"],
            "docsExamined",
            10,
        ),
        (
            doc! {"update": "c", "updates": [{"q": {"b": 1}, "u": {"$set": {"a": 1}}, "multi": true}]},
            vec!["UPDATE", "FETCH", "IXSCAN"],
            "nWouldModify",
            2,
        ),
        (
            doc! {"update": "c", "updates": [{"q": {"_id": 77}, "u": {"$set": {"a": 1}}, "upsert": true}]},
            vec!["UPDATE", "IDHACK"],
            "nWouldUpsert",
            1,
        ),
        (
            doc! {"delete": "c", "deletes": [{"q": {"b": 1}, "limit": 0}]},
            vec!["BATCHED_DELETE", "FETCH", "IXSCAN"],
            "nWouldDelete",
            3,
        ),
        (
            doc! {"delete": "c", "deletes": [{"q": {}, "limit": 1}]},
            vec!["DELETE", "COLLSCAN"],
            "nWouldDelete",
            1,
        ),
        (
            doc! {"findAndModify": "c", "query": {}, "sort": {"x": 1}, "update": {"$set": {"a": -1}}},
            vec!["UPDATE", "SORT", "COLLSCAN"],
            "nMatched",
            1,
        ),
        (
            doc! {"findAndModify": "nope", "query": {}, "remove": true},
            vec!["EOF"],
            "nReturned",
            0,
        ),
        (
            doc! {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$limit": 5}], "cursor": {}},
            vec!["LIMIT", "FETCH", "IXSCAN"],
            "nReturned",
            1,
        ),
    ] {
        let plan = explained(&mut server, command.clone(), "queryPlanner");
        assert!(!plan.contains_key("executionStats"), "{plan}");
        let reply = explained(&mut server, command.clone(), "allPlansExecution");
        let stats = reply.get_document("executionStats").unwrap();
        let run = stats.get_document("executionStages").unwrap();
        assert_eq!(stages(run), expected, "{command}: {reply}");
        assert_eq!(run.get_i32(path).unwrap(), n, "{command}: {reply}");
    }
    let untouched = doc! {"count": "c", "query": {"$expr": {"$eq": ["$a", "$_id"]}}, "$db": "d"};
    assert_eq!(ask(&mut server, untouched).get_i32("n").unwrap(), 10);
}

#[test]
fn pipelines_show_their_stages_and_do_not_write() {
    let mut server = filled();
    let pipeline = bson!([
        {"$match": {"a": {"$gte": 4}}},
        {"$group": {"_id": "$b", "n": {"$sum": 1}}},
        {"$out": "target"},
    ]);
    let command = doc! {"aggregate": "c", "pipeline": pipeline, "cursor": {}};
    let reply = explained(&mut server, command, "executionStats");
    let stages = reply.get_array("stages").unwrap();
    let stage = |n: usize| stages[n].as_document().unwrap();
    let cursor = stage(0).get_document("$cursor").unwrap();
    let stats = cursor.get_document("executionStats").unwrap();
    assert_eq!(stats.get_i32("nReturned").unwrap(), 6, "{reply}");
    assert_eq!(stage(1).get_i64("nReturned").unwrap(), 3, "{reply}");
    assert!(stage(1).contains_key("$group") && stage(2).contains_key("$out"));
    let list = ask(&mut server, doc! {"count": "target", "$db": "d"});
    assert_eq!(list.get_i32("n").unwrap(), 0);

    let bare = doc! {"aggregate": 1, "pipeline": [{"$documents": [{"x": 1}]}], "explain": true, "$db": "d"};
    let reply = ask(&mut server, bare);
    assert_eq!(reply.get_array("stages").unwrap().len(), 1, "{reply}");
    let bare = doc! {"aggregate": 1, "pipeline": [{"$documents": [{"x": 1}]}], "cursor": {}};
    let reply = explained(&mut server, bare, "queryPlanner");
    assert_eq!(reply.get_array("stages").unwrap().len(), 1, "{reply}");
}

#[test]
fn expired_documents_are_not_counted_as_examined() {
    let mut server = filled();
    let index = doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 10};
    ask(
        &mut server,
        doc! {"createIndexes": "c", "indexes": [index], "$db": "d"},
    );
    let travel = doc! {"timeTravel": 1, "advanceSeconds": 5, "$db": "admin"};
    ask(&mut server, travel.clone());
    let fresh = doc! {"insert": "c", "documents": [{"_id": 50, "a": 3}], "$db": "d"};
    ask(&mut server, fresh);
    ask(&mut server, travel);
    for (command, keys, documents) in [
        (doc! {"find": "c", "filter": {"a": {"$gte": 2}}}, 1, 1),
        (doc! {"find": "c", "filter": {}}, 0, 1),
        (doc! {"find": "c", "filter": {"_id": 3}}, 0, 0),
        (doc! {"count": "c", "query": {"a": 3}}, 1, 1),
        (
            doc! {"delete": "c", "deletes": [{"q": {"a": {"$lt": 9}}, "limit": 0}]},
            1,
            1,
        ),
    ] {
        let reply = explained(&mut server, command.clone(), "executionStats");
        let stats = reply.get_document("executionStats").unwrap();
        let figure = |name| stats.get_i32(name).unwrap();
        let got = (figure("totalKeysExamined"), figure("totalDocsExamined"));
        assert_eq!(got, (keys, documents), "{command}: {reply}");
    }
}

#[test]
fn refusals() {
    let mut server = filled();
    for (command, code) in [
        (doc! {"explain": {}}, 59),
        (doc! {"explain": {"nope": 1}}, 59),
        (doc! {"explain": 1}, 14),
        (doc! {"explain": Bson::Null}, 40414),
        (doc! {"explain": {"insert": "c", "documents": [{}]}}, 20),
        (doc! {"explain": {"explain": {"find": "c"}}}, 20),
        (doc! {"explain": {"find": "c"}, "verbosity": "x"}, 2),
        (doc! {"explain": {"find": "c"}, "verbosity": 1}, 14),
        (doc! {"explain": {"find": "c", "$db": "other"}}, 73),
        (doc! {"explain": {"find": "c", "hint": "nope"}}, 2),
    ] {
        let mut asked = command.clone();
        asked.insert("$db", "d");
        let reply = ask(&mut server, asked);
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
    }
}

/// Explain of a find refuses what the find refuses, with the same message.
#[test]
fn a_find_that_cannot_run_cannot_be_explained() {
    let mut server = filled();
    for (command, code) in [
        (
            doc! {"find": "c", "filter": {"b": 2, "$expr": true}, "projection": {"b.$": 1}},
            224,
        ),
        (doc! {"find": "c", "tailable": true}, 2),
        (doc! {"find": "c", "tailable": true, "sort": {"a": 1}}, 2),
        (doc! {"find": "c", "awaitData": true}, 9),
        (doc! {"find": "$c"}, 73),
        (doc! {"find": "$c", "filter": {"_id": 1}}, 73),
        (
            doc! {"find": "c", "filter": {"_id": 1}, "sort": {"a": 2}},
            15975,
        ),
        (doc! {"find": "c", "min": {"a": 1}}, 51173),
    ] {
        let mut asked = command.clone();
        asked.insert("$db", "d");
        let found = ask(&mut server, asked);
        assert_eq!(found.get_i32("code").ok(), Some(code), "{command}: {found}");
        let shown = explained(&mut server, command.clone(), "queryPlanner");
        for field in ["code", "errmsg"] {
            assert_eq!(shown.get(field), found.get(field), "{command}");
        }
    }
}

#[test]
fn queries_with_the_same_shape() {
    let mut server = filled();
    let mut hashes = |filter: &Document| {
        let reply = explained(
            &mut server,
            doc! {"find": "c", "filter": filter.clone()},
            "queryPlanner",
        );
        let planner = reply.get_document("queryPlanner").unwrap();
        (
            planner.get_str("planCacheShapeHash").unwrap().to_owned(),
            reply.get_str("queryShapeHash").unwrap().to_owned(),
        )
    };
    for (a, b, same_plan, same_query) in [
        (doc! {"a": 1}, doc! {"a": {"$eq": 2}}, true, true),
        (doc! {"a": 1}, doc! {"a": "x"}, true, false),
        (
            doc! {"a": 1, "b": 2},
            doc! {"$and": [{"a": 1}, {"b": 2}]},
            true,
            true,
        ),
        (doc! {"a": 1, "b": 2}, doc! {"b": 2, "a": 1}, true, false),
        (
            doc! {"a": {"$in": [1]}},
            doc! {"a": {"$in": [1, 2]}},
            false,
            true,
        ),
        (doc! {"a": {"$gt": 1}}, doc! {"a": {"$lt": 1}}, false, false),
        (
            doc! {"a": {"$exists": true}},
            doc! {"a": {"$exists": false}},
            false,
            false,
        ),
        (
            doc! {"$expr": {"$gt": ["$a", "$b"]}},
            doc! {"$expr": {"$lt": ["$a", "$b"]}},
            true,
            false,
        ),
    ] {
        let ((plan_a, query_a), (plan_b, query_b)) = (hashes(&a), hashes(&b));
        assert_eq!(plan_a == plan_b, same_plan, "{a} {b}");
        assert_eq!(query_a == query_b, same_query, "{a} {b}");
    }
}

/// The stages that run, as mongod 6.0.5 shows them.
#[test]
fn pipelines_are_shown_as_they_run() {
    let mut server = filled();
    let z = || bson::bson!({"$add": ["$a", "$b"]});
    let set = || doc! {"$addFields": {"z": z()}};
    let sort = |limit: i64| doc! {"$sort": {"sortKey": {"z": 1}, "limit": limit}};
    for (pipeline, filter, stages) in [
        (
            vec![set(), doc! {"$match": {"b": {"$ne": 0}, "z": 1, "a": 1}}],
            doc! {"$and": [{"a": {"$eq": 1}}, {"b": {"$not": {"$eq": 0}}}]},
            vec![set(), doc! {"$match": {"z": {"$eq": 1}}}],
        ),
        (
            vec![
                doc! {"$addFields": {"r": "$a"}},
                doc! {"$match": {"r.x": 1}},
            ],
            doc! {"a.x": {"$eq": 1}},
            vec![doc! {"$addFields": {"r": "$a"}}],
        ),
        (
            vec![
                set(),
                doc! {"$sort": {"z": 1}},
                doc! {"$skip": 2},
                doc! {"$limit": 5},
            ],
            doc! {},
            vec![set(), sort(7), doc! {"$skip": 2_i64}],
        ),
        (
            vec![
                set(),
                doc! {"$limit": 5},
                doc! {"$match": {"b": 1}},
                doc! {"$match": {"c": 1}},
            ],
            doc! {},
            vec![
                doc! {"$match": {"$and": [{"b": {"$eq": 1}}, {"c": {"$eq": 1}}]}},
                set(),
            ],
        ),
        (
            vec![doc! {"$group": {"_id": "$a"}}, doc! {"$match": {"_id": 1}}],
            doc! {"a": {"$eq": 1}},
            vec![doc! {"$group": {"_id": "$a"}}],
        ),
    ] {
        let command = doc! {"aggregate": "c", "pipeline": pipeline.clone(), "cursor": {}};
        let reply = explained(&mut server, command, "queryPlanner");
        let mut shown = reply.get_array("stages").unwrap().iter();
        let cursor = shown.next().and_then(|stage| stage.as_document()).unwrap();
        let planner = cursor.get_document("$cursor").unwrap();
        let planner = planner.get_document("queryPlanner").unwrap();
        assert_eq!(
            planner.get_document("parsedQuery").unwrap(),
            &filter,
            "{pipeline:?}"
        );
        let shown: Vec<_> = shown
            .filter_map(|stage| stage.as_document().cloned())
            .collect();
        assert_eq!(shown, stages, "{pipeline:?}");
    }
}
