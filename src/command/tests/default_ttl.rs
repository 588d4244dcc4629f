//! Tests that every way to set `DefaultTTL` has the same effect, and that all others show it.

use bson::{Bson, Document, doc};

use crate::command::tests::server::{ask, server};
use crate::command::{Commands, Connection};
use crate::config::Config;

type Server = (Commands, Connection);

fn command(server: &mut Server, mut command: Document) -> Document {
    command.insert("$db", "t");
    ask(server, command)
}

fn ok(server: &mut Server, asked: Document) -> Document {
    let reply = command(server, asked.clone());
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{asked} -> {reply}");
    reply
}

fn rows(reply: &Document) -> Vec<Document> {
    let cursor = reply.get_document("cursor").unwrap();
    let batch = cursor.get_array("firstBatch").unwrap();
    batch
        .iter()
        .map(|row| row.as_document().unwrap().clone())
        .collect()
}

/// Returns (defaultTtl in listCollections, name and expireAfterSeconds of the index on _ts).
fn seen(server: &mut Server) -> (Option<i32>, Option<(String, i32)>) {
    let collections = rows(&ok(
        server,
        doc! {"listCollections": 1, "filter": {"name": "c"}},
    ));
    let option = collections.first().and_then(|c| {
        c.get_document("options")
            .unwrap()
            .get_i32("defaultTtl")
            .ok()
    });
    let index = rows(&ok(server, doc! {"listIndexes": "c"}))
        .into_iter()
        .filter(|index| index.get_document("key").unwrap().contains_key("_ts"))
        .find_map(|index| {
            let seconds = index.get_i32("expireAfterSeconds").ok()?;
            Some((index.get_str("name").unwrap().to_owned(), seconds))
        });
    (option, index)
}

fn shown(name: &str, seconds: i32) -> (Option<i32>, Option<(String, i32)>) {
    (Some(seconds), Some((name.to_owned(), seconds)))
}

fn ts_index(name: &str, seconds: impl Into<Bson>) -> Document {
    doc! {"createIndexes": "c", "indexes": [{"key": {"_ts": 1}, "name": name, "expireAfterSeconds": seconds.into()}]}
}

#[test]
fn the_default_ttl_is_the_same_however_it_is_set() {
    let mut server = server(Config::default());
    let s = &mut server;
    let steps: Vec<(Document, _)> = vec![
        (doc! {"create": "c", "defaultTtl": 5}, shown("_ts_1", 5)),
        (doc! {"collMod": "c", "defaultTtl": -1}, shown("_ts_1", -1)),
        (ts_index("mine", 7), shown("mine", 7)),
        (ts_index("yours", 8), shown("yours", 8)),
        (
            doc! {"collMod": "c", "index": {"name": "yours", "expireAfterSeconds": 9}},
            shown("yours", 9),
        ),
        (
            doc! {"collMod": "c", "index": {"keyPattern": {"_ts": 1}, "expireAfterSeconds": -1}},
            shown("yours", -1),
        ),
        (
            doc! {"collMod": "c", "defaultTtl": Bson::Null},
            (None, None),
        ),
        (
            doc! {"createIndexes": "c", "indexes": [{"key": {"_ts": -1}, "name": "back", "expireAfterSeconds": 3.0}]},
            shown("back", 3),
        ),
        (doc! {"dropIndexes": "c", "index": "back"}, (None, None)),
        (ts_index("_ts_1", 4_i64), shown("_ts_1", 4)),
        (doc! {"dropIndexes": "c", "index": {"_ts": 1}}, (None, None)),
        (doc! {"collMod": "c", "defaultTtl": 2}, shown("_ts_1", 2)),
        (doc! {"dropIndexes": "c", "index": "*"}, (None, None)),
    ];
    for (step, expected) in steps {
        ok(s, step.clone());
        assert_eq!(seen(s), expected, "{step}");
    }
}

#[test]
fn a_plain_index_on_ts_is_no_default_until_converted() {
    let mut server = server(Config::default());
    let s = &mut server;
    let plain = doc! {"createIndexes": "c", "indexes": [{"key": {"_ts": 1}, "name": "plain"}]};
    ok(s, plain);
    assert_eq!(seen(s), (None, None));
    ok(s, ts_index("other", 6));
    assert_eq!(seen(s), shown("plain", 6));
    ok(s, doc! {"collMod": "c", "defaultTtl": Bson::Null});
    assert_eq!(seen(s), (None, None));
    ok(
        s,
        doc! {"collMod": "c", "index": {"name": "plain", "expireAfterSeconds": 3}},
    );
    assert_eq!(seen(s), shown("plain", 3));
    ok(s, doc! {"dropIndexes": "c", "index": "plain"});
    assert_eq!(seen(s), (None, None));
    assert_eq!(rows(&ok(s, doc! {"listIndexes": "c"})).len(), 1);
}

#[test]
fn invalid_defaults_are_refused_and_change_nothing() {
    let mut server = server(Config::default());
    let s = &mut server;
    ok(s, doc! {"create": "c", "defaultTtl": 5});
    let numbers: Vec<Bson> = vec![
        0.into(),
        (-2).into(),
        Bson::Int64(2_147_483_648),
        1.5.into(),
        f64::NAN.into(),
        f64::INFINITY.into(),
    ];
    let others: Vec<Bson> = vec!["5".into(), true.into(), doc! {}.into()];
    for (values, code) in [(numbers, 72), (others, 14)] {
        for value in values {
            let refused = [
                (doc! {"create": "new", "defaultTtl": value.clone()}, code),
                (doc! {"collMod": "c", "defaultTtl": value.clone()}, code),
                (ts_index("_ts_1", value.clone()), 67),
            ];
            for (asked, code) in refused {
                let reply = command(s, asked.clone());
                assert_eq!(reply.get_i32("code").ok(), Some(code), "{asked} -> {reply}");
            }
        }
    }
    let spec = |spec: Document| doc! {"createIndexes": "c", "indexes": [spec]};
    let refused = [
        spec(doc! {"key": {"_ts": 1, "a": 1}, "name": "x", "expireAfterSeconds": 5}),
        spec(doc! {"key": {"a": 1, "_ts": 1}, "name": "x", "expireAfterSeconds": 5}),
        spec(doc! {"key": {"_ts": "hashed"}, "name": "x", "expireAfterSeconds": 5}),
        spec(doc! {"key": {"_ts": "text"}, "name": "x", "expireAfterSeconds": 5}),
        spec(doc! {"key": {"_ts": 1}, "name": "x", "expireAfterSeconds": 5, "unique": true}),
        spec(
            doc! {"key": {"_ts": 1}, "name": "x", "expireAfterSeconds": 5, "partialFilterExpression": {"a": 1}},
        ),
        spec(doc! {"key": {"_ts": 1}, "name": "x", "expireAfterSeconds": Bson::Null}),
    ];
    for asked in refused {
        let reply = command(s, asked.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(67), "{asked} -> {reply}");
    }
    assert_eq!(seen(s), shown("_ts_1", 5));
}

#[test]
fn indexing_mode_none_allows_no_default_and_no_index() {
    let mut server = server(Config::default());
    let s = &mut server;
    let none = doc! {"indexingMode": "none"};
    let index = doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a_1"}]};
    let cases: Vec<(Document, i32)> = vec![
        (
            doc! {"create": "c", "defaultTtl": 5, "indexingPolicy": none.clone()},
            2,
        ),
        (
            doc! {"create": "c", "indexingPolicy": {"indexingMode": "never"}},
            2,
        ),
        (doc! {"create": "c", "indexingPolicy": none.clone()}, 0),
        (doc! {"collMod": "c", "defaultTtl": 5}, 2),
        (ts_index("_ts_1", 5), 67),
        (index.clone(), 67),
        (
            doc! {"collMod": "c", "indexingPolicy": {"indexingMode": "lazy"}},
            0,
        ),
        (index, 0),
        (doc! {"collMod": "c", "indexingPolicy": none.clone()}, 2),
        (doc! {"dropIndexes": "c", "index": "*"}, 0),
        (doc! {"collMod": "c", "defaultTtl": 5}, 0),
        (doc! {"collMod": "c", "indexingPolicy": none}, 2),
    ];
    for (asked, code) in cases {
        let reply = command(s, asked.clone());
        assert_eq!(
            reply.get_i32("code").unwrap_or(0),
            code,
            "{asked} -> {reply}"
        );
    }
}

#[test]
fn no_change_of_the_default_revives_a_document() {
    let pairs: Vec<(Document, Document)> = vec![
        (
            doc! {"create": "c", "defaultTtl": 5},
            doc! {"collMod": "c", "defaultTtl": 500},
        ),
        (
            doc! {"create": "c", "defaultTtl": 5},
            doc! {"collMod": "c", "defaultTtl": -1},
        ),
        (
            doc! {"create": "c", "defaultTtl": 5},
            doc! {"collMod": "c", "defaultTtl": Bson::Null},
        ),
        (doc! {"create": "c", "defaultTtl": 5}, ts_index("x", 500)),
        (
            doc! {"create": "c", "defaultTtl": 5},
            doc! {"dropIndexes": "c", "index": "*"},
        ),
        (
            doc! {"create": "c", "defaultTtl": 5},
            doc! {"collMod": "c", "index": {"name": "_ts_1", "expireAfterSeconds": 500}},
        ),
    ];
    for (create, change) in pairs {
        let mut server = server(Config::default());
        ok(&mut server, create);
        ok(&mut server, doc! {"insert": "c", "documents": [{"_id": 1}]});
        server.0.context().clock.advance(4_999);
        assert_eq!(count(&mut server), 1);
        server.0.context().clock.advance(1);
        assert_eq!(count(&mut server), 0, "{change}");
        ok(&mut server, change.clone());
        assert_eq!(count(&mut server), 0, "{change}");
        ok(&mut server, doc! {"insert": "c", "documents": [{"_id": 1}]});
        assert_eq!(count(&mut server), 1, "{change}");
    }
}

fn count(server: &mut Server) -> i32 {
    ok(server, doc! {"collStats": "c"})
        .get_i32("count")
        .unwrap()
}
