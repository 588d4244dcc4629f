use bson::{Bson, Document, doc};

use super::{Server, batch, code, failed, run, with};
use crate::config::CosmosConfig;

/// Returns a strict server and an ordinary one with the same documents.
fn both() -> (Server, Server) {
    let mut strict = with(CosmosConfig {
        strict: true,
        ..CosmosConfig::default()
    });
    let mut plain = with(CosmosConfig::default());
    for server in [&mut strict, &mut plain] {
        run(
            server,
            doc! {"insert": "c", "documents": [{"_id": 1, "a": 1}, {"_id": 2}]},
        );
        let b = doc! {"key": {"b": 1}, "name": "b_1"};
        let ab = doc! {"key": {"a": 1, "b": -1}, "name": "a_1_b_-1"};
        assert_eq!(
            code(server, doc! {"createIndexes": "c", "indexes": [b, ab]}),
            None
        );
        run(
            server,
            doc! {"shardCollection": "shop.c", "key": {"s": "hashed"}, "$db": "admin"},
        );
    }
    (strict, plain)
}

#[test]
fn strict_mode_refuses_what_the_service_refuses() {
    let sorted = |sort: Document| doc! {"find": "c", "sort": sort};
    let pipeline =
        |stages: Vec<Document>| doc! {"aggregate": "c", "pipeline": stages, "cursor": {}};
    let modify = |sort: Document| doc! {"findAndModify": "c", "query": {}, "sort": sort, "update": {"$set": {"x": 1}}};
    let update = |sort: Document| doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"x": 1}}, "sort": sort}]};
    let explain = |command: Document| doc! {"explain": command, "verbosity": "queryPlanner"};
    let lookup = doc! {"$lookup": {"from": "d", "let": {}, "pipeline": [], "as": "x"}};
    let z = || doc! {"z": 1};
    let sort_z = || doc! {"$sort": {"z": 1}};
    let lsid = doc! {"id": bson::Uuid::new()};
    let rows: Vec<(Document, Option<i32>)> = vec![
        (doc! {"collMod": "c"}, Some(115)),
        (
            doc! {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "shop.c"}], "$db": "admin"},
            Some(115),
        ),
        (
            doc! {"insert": "c", "documents": [{}], "lsid": lsid.clone(), "txnNumber": 1_i64},
            Some(2),
        ),
        (
            doc! {"findAndModify": "c", "query": {}, "update": {"$set": {"x": 1}}, "lsid": lsid.clone(), "txnNumber": 2_i64},
            Some(2),
        ),
        (doc! {"insert": "c", "documents": [{}], "lsid": lsid}, None),
        (sorted(z()), Some(2)),
        (sorted(doc! {"_id": 1}), None),
        (sorted(doc! {"a": 1}), None),
        (sorted(doc! {"b": -1}), None),
        (sorted(doc! {"s": 1}), None),
        (sorted(doc! {"a": -1, "b": 1}), None),
        (sorted(doc! {"a": 1, "b": 1}), Some(2)),
        (doc! {"find": "nope", "sort": z()}, None),
        (modify(z()), Some(2)),
        (modify(doc! {"b": 1}), None),
        (modify(doc! {"a": 1, "b": -1}), Some(2)),
        (update(z()), Some(2)),
        (update(doc! {"b": 1}), None),
        (pipeline(vec![sort_z()]), Some(2)),
        (pipeline(vec![doc! {"$match": {}}, sort_z()]), Some(2)),
        (
            pipeline(vec![
                doc! {"$match": {}},
                doc! {"$project": {"z": 1}},
                sort_z(),
            ]),
            Some(2),
        ),
        (
            pipeline(vec![doc! {"$project": {"z": "$a"}}, sort_z()]),
            None,
        ),
        (
            pipeline(vec![
                doc! {"$group": {"_id": "$a", "z": {"$sum": 1}}},
                sort_z(),
            ]),
            None,
        ),
        (pipeline(vec![lookup.clone()]), Some(9)),
        (
            pipeline(vec![doc! {"$facet": {"f": [lookup.clone()]}}]),
            Some(9),
        ),
        (
            pipeline(vec![
                doc! {"$unionWith": {"coll": "d", "pipeline": [lookup.clone()]}},
            ]),
            Some(9),
        ),
        (
            pipeline(vec![
                doc! {"$lookup": {"from": "d", "localField": "a", "foreignField": "a", "as": "x"}},
            ]),
            None,
        ),
        (explain(sorted(z())), Some(2)),
        (explain(sorted(doc! {"b": 1})), None),
        (explain(pipeline(vec![lookup])), Some(9)),
        (explain(modify(z())), Some(2)),
    ];
    let (mut strict, mut plain) = both();
    for (command, expected) in rows {
        assert_eq!(code(&mut strict, command.clone()), expected, "{command}");
        assert_eq!(code(&mut plain, command.clone()), None, "{command}");
    }
}

#[test]
fn which_indexes_are_refused() {
    let (mut strict, _) = both();
    let index = |key: Document, options: Document| {
        let mut spec = doc! {"key": key, "name": "x"};
        spec.extend(options);
        spec
    };
    let a = || doc! {"d": 1};
    let rows: Vec<(Document, Option<i32>)> = vec![
        (index(a(), doc! {"sparse": true}), Some(2)),
        (index(a(), doc! {"unique": true}), Some(13)),
        (index(a(), doc! {"expireAfterSeconds": 5}), Some(2)),
        (index(doc! {"d": "text"}, doc! {}), Some(115)),
        (index(doc! {"d": "hashed"}, doc! {}), Some(115)),
        (index(a(), doc! {}), None),
        (
            index(
                doc! {"_ts": 1},
                doc! {"expireAfterSeconds": 5, "name": "_ts_1"},
            ),
            None,
        ),
    ];
    for (spec, expected) in rows {
        let create = doc! {"createIndexes": "c", "indexes": [spec.clone()]};
        assert_eq!(code(&mut strict, create), expected, "{spec}");
        // The same through customAction.
        let specs: Vec<Bson> = vec![
            doc! {"key": {"_id": 1}, "name": "_id_"}.into(),
            spec.clone().into(),
        ];
        let update = doc! {"customAction": "UpdateCollection", "collection": "c", "indexes": specs};
        assert_eq!(code(&mut strict, update), expected, "{spec}");
    }
    // A unique index may be created on an empty collection, and creating it again is a no-op.
    let unique =
        doc! {"createIndexes": "u", "indexes": [{"key": {"a": 1}, "name": "a_1", "unique": true}]};
    assert_eq!(code(&mut strict, unique.clone()), None);
    run(&mut strict, doc! {"insert": "u", "documents": [{"a": 1}]});
    assert_eq!(code(&mut strict, unique), None);
}

/// A write that makes a document larger than 2 MB is refused, and leaves the document as it was.
#[test]
fn no_document_grows_over_2_mb() {
    let (mut strict, mut plain) = both();
    let mb = "x".repeat(1024 * 1024);
    let big = format!("{mb}{mb}");
    let grow = || doc! {"$set": {"more": &big}};
    let merge = |stage: Document| doc! {"aggregate": "c", "pipeline": [{"$match": {"_id": 1}}, {"$set": {"more": &big}}, stage], "cursor": {}};
    let rows: Vec<Document> = vec![
        doc! {"insert": "c", "documents": [{"_id": 9, "more": &big}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": grow()}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"more": &big}}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": [grow()]}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 9}, "u": grow(), "upsert": true}]},
        doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$push": {"more": {"$each": [&mb, &mb]}}}}]},
        doc! {"findAndModify": "c", "query": {"_id": 1}, "update": grow()},
        doc! {"findAndModify": "c", "query": {"_id": 1}, "update": {"more": &big}},
        doc! {"findAndModify": "c", "query": {"_id": 9}, "update": grow(), "upsert": true},
        merge(doc! {"$merge": "c"}),
        merge(doc! {"$merge": {"into": "c", "whenMatched": [grow()]}}),
        merge(doc! {"$merge": "d"}),
        merge(doc! {"$out": "d"}),
    ];
    let refusal = |reply: &Document| match failed(reply).first() {
        Some((_, code)) => Some(*code),
        None => reply.get_i32("code").ok(),
    };
    for command in rows {
        let name = format!("{command:.120}");
        assert_eq!(
            refusal(&run(&mut strict, command.clone())),
            Some(16),
            "{name}"
        );
        let there = run(
            &mut strict,
            doc! {"find": "c", "filter": {"$or": [{"_id": 9}, {"more": {"$exists": true}}]}},
        );
        assert!(batch(&there).is_empty(), "{name}");
        let target = run(&mut strict, doc! {"count": "d"});
        assert_eq!(target.get_i32("n").ok(), Some(0), "{name}");
        assert_eq!(refusal(&run(&mut plain, command)), None, "{name}");
        run(
            &mut plain,
            doc! {"delete": "c", "deletes": [{"q": {"_id": 9}, "limit": 1}]},
        );
        run(
            &mut plain,
            doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$unset": {"more": 1}}}]},
        );
    }
    // The other documents of the bulk are inserted, and a document of exactly 2 MB is accepted.
    let fits = "x".repeat(2 * 1024 * 1024 - 24);
    let bulk = doc! {"insert": "e", "documents": [{"_id": 1, "b": &big}, {"_id": 2}, {"_id": 3, "b": &fits}], "ordered": false};
    assert_eq!(failed(&run(&mut strict, bulk)), [(0, 16)]);
}
