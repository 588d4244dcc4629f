use bson::{Document, doc};

use crate::command::tests::server::{ask, server, step};
use crate::command::{Commands, Connection};
use crate::config::{Config, Topology};
use crate::handler::Progress;
use crate::wire::Request;

fn testing() -> (Commands, Connection) {
    server(Config {
        enable_test_commands: true,
        ..Config::default()
    })
}

fn set(
    server: &mut (Commands, Connection),
    mode: impl Into<bson::Bson>,
    data: Document,
) -> Document {
    ask(
        server,
        doc! {"configureFailPoint": "failCommand", "mode": mode.into(), "data": data, "$db": "admin"},
    )
}

fn pings(server: &mut (Commands, Connection), n: usize) -> String {
    (0..n)
        .map(
            |_| match ask(server, doc! {"ping": 1, "$db": "a"}).get_i32("code") {
                Ok(_) => 'x',
                Err(_) => '.',
            },
        )
        .collect()
}

#[test]
fn fail_point_modes() {
    let rows: &[(bson::Bson, &str)] = &[
        ("alwaysOn".into(), "xxxxx"),
        ("off".into(), "....."),
        (doc! {"times": 2}.into(), "xx..."),
        (doc! {"times": 0}.into(), "....."),
        (doc! {"skip": 3}.into(), "...xx"),
        (doc! {"activationProbability": 1.0}.into(), "xxxxx"),
        (doc! {"activationProbability": 0.0}.into(), "....."),
        (doc! {"activationProbability": 1}.into(), "xxxxx"),
    ];
    let mut before = 0;
    let mut server = testing();
    for (mode, expected) in rows {
        let reply = set(
            &mut server,
            mode.clone(),
            doc! {"failCommands": ["ping"], "errorCode": 91},
        );
        assert_eq!(reply, doc! {"count": before, "ok": 1.0}, "{mode}");
        assert_eq!(pings(&mut server, 5), *expected, "{mode}");
        before += expected.matches('x').count() as i64;
    }
}

#[test]
fn what_is_refused() {
    let rows = [
        (doc! {"configureFailPoint": "nope", "mode": "off"}, 266),
        (doc! {"configureFailPoint": 1, "mode": "off"}, 14),
        (
            doc! {"configureFailPoint": "failReceivedGetmore", "mode": {"times": 1}},
            238,
        ),
        (
            doc! {"configureFailPoint": "failGetMoreAfterCursorCheckout", "mode": "alwaysOn", "data": {"errorCode": "x"}},
            14,
        ),
        (
            doc! {"configureFailPoint": "onPrimaryTransactionalWrite", "mode": "alwaysOn", "data": {"closeConnection": "x"}},
            14,
        ),
        (doc! {"configureFailPoint": "failCommand"}, 20),
        (
            doc! {"configureFailPoint": "failCommand", "mode": "off", "sync": {}},
            40415,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": 1},
            14,
        ),
        (doc! {"configureFailPoint": "failCommand", "mode": "x"}, 2),
        (doc! {"configureFailPoint": "failCommand", "mode": 1}, 14),
        (
            doc! {"configureFailPoint": "failCommand", "mode": {"times": -1}},
            2,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": {"times": "1"}},
            14,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": {"x": 1}},
            2,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": {"activationProbability": 2.0}},
            2,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": {"activationProbability": "x"}},
            14,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"nope": 1}},
            40415,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"blockConnection": true}},
            72,
        ),
        (
            doc! {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": {"blockConnection": true, "blockTimeMS": -1}},
            72,
        ),
    ];
    let mut allowed = testing();
    for (mut command, code) in rows {
        command.insert("$db", "admin");
        let reply = ask(&mut allowed, command.clone());
        assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
    }
    // The data of a fail point that is off is not checked.
    let off = set(&mut allowed, "off", doc! {"nope": 1});
    assert_eq!(off.get_f64("ok").ok(), Some(1.0));
    let mut plain = server(Config::default());
    let reply = set(&mut plain, "off", doc! {});
    assert_eq!(reply.get_i32("code").ok(), Some(59));
}

#[test]
fn fail_points_match_clients_and_return_their_error() {
    let hello = |name: &str| {
        doc! {"hello": 1, "$db": "admin", "client": {
            "application": {"name": name}, "driver": {"name": "d", "version": "1"}, "os": {"type": "x"},
        }}
    };
    let retryable = doc! {"insert": "c", "documents": [{}], "lsid": {"id": bson::Uuid::new()}, "txnNumber": 1_i64, "$db": "a"};
    let rows: Vec<(Document, Document, Document)> = vec![
        (
            doc! {"failCommands": ["ping"], "errorCode": 10107},
            doc! {"ping": 1, "$db": "a"},
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 10107, "codeName": "NotWritablePrimary"},
        ),
        (
            doc! {"failCommands": ["isMaster", "ping"], "errorCode": 13388, "errorLabels": ["A", "B"], "errorExtraInfo": {"x": 1}},
            doc! {"ping": 1, "$db": "a"},
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 13388, "codeName": "StaleConfig", "x": 1, "errorLabels": ["A", "B"]},
        ),
        (
            doc! {"failCommands": ["insert"], "errorCode": 91},
            retryable.clone(),
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 91, "codeName": "ShutdownInProgress", "errorLabels": ["RetryableWriteError"]},
        ),
        (
            doc! {"failCommands": ["insert"], "errorCode": 10107, "errorExtraInfo": {"x": 1}},
            retryable.clone(),
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 10107, "codeName": "NotWritablePrimary", "x": 1, "errorLabels": ["RetryableWriteError"]},
        ),
        (
            doc! {"failCommands": ["insert"], "errorCode": 2},
            retryable.clone(),
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 2, "codeName": "BadValue"},
        ),
        (
            doc! {"failCommands": ["insert"], "errorCode": 91},
            doc! {"insert": "c", "documents": [{}], "$db": "a"},
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 91, "codeName": "ShutdownInProgress"},
        ),
        (
            doc! {"failCommands": ["insert"], "writeConcernError": {"code": 91, "errmsg": "x"}},
            retryable.clone(),
            doc! {"n": 1, "ok": 1.0, "writeConcernError": {"code": 91, "errmsg": "x"}, "errorLabels": ["RetryableWriteError"]},
        ),
        (
            doc! {"failCommands": ["insert"], "writeConcernError": {"code": 91, "errmsg": "x"}, "errorLabels": []},
            retryable.clone(),
            doc! {"n": 1, "ok": 1.0, "writeConcernError": {"code": 91, "errmsg": "x"}},
        ),
        (
            doc! {"failCommands": ["insert"], "writeConcernError": {"code": 100, "errmsg": "x"}},
            retryable.clone(),
            doc! {"n": 1, "ok": 1.0, "writeConcernError": {"code": 100, "errmsg": "x"}},
        ),
        // A command without a write concern is not affected. Labels or additional error data alone do nothing.
        (
            doc! {"failCommands": ["ping"], "writeConcernError": {"code": 91, "errmsg": "x"}},
            doc! {"ping": 1, "$db": "a"},
            doc! {"ok": 1.0},
        ),
        (
            doc! {"failCommands": ["ping"], "errorLabels": ["A"], "errorExtraInfo": {"x": 1}},
            doc! {"ping": 1, "$db": "a"},
            doc! {"ok": 1.0},
        ),
        (
            doc! {"failAllCommands": true, "errorCode": 8},
            doc! {"count": "c", "$db": "a"},
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 8, "codeName": "UnknownError"},
        ),
        (
            doc! {"failCommands": ["deleteIndexes"], "errorCode": 8},
            doc! {"dropIndexes": "c", "index": "*", "$db": "a"},
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 8, "codeName": "UnknownError"},
        ),
        (
            doc! {"failCommands": ["ping"], "errorCode": 8, "threadName": "conn7"},
            doc! {"ping": 1, "$db": "a"},
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 8, "codeName": "UnknownError"},
        ),
        (
            doc! {"failCommands": ["ping"], "errorCode": 8, "threadName": "conn8"},
            doc! {"ping": 1, "$db": "a"},
            doc! {"ok": 1.0},
        ),
        (
            doc! {"failCommands": ["insert"], "errorCode": 91, "errorLabels": []},
            retryable,
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 91, "codeName": "ShutdownInProgress"},
        ),
        (
            doc! {"failCommands": ["insert"], "writeConcernError": {"code": 91, "errmsg": "x"}, "errorLabels": ["L"]},
            doc! {"insert": "c", "documents": [{}], "$db": "a"},
            doc! {"n": 1, "ok": 1.0, "writeConcernError": {"code": 91, "errmsg": "x"}, "errorLabels": ["L"]},
        ),
        (
            doc! {"failCommands": ["find", "ping"], "errorCode": 91, "namespace": "a.c"},
            doc! {"ping": 1, "$db": "a"},
            doc! {"ok": 1.0},
        ),
        (
            doc! {"failCommands": ["count"], "errorCode": 5, "namespace": "a.nope"},
            doc! {"count": "other", "$db": "a"},
            doc! {"n": 0, "ok": 1.0},
        ),
        (
            doc! {"failCommands": ["count"], "errorCode": 8, "namespace": "a.c"},
            doc! {"count": "c", "$db": "a"},
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 8, "codeName": "UnknownError"},
        ),
        (
            doc! {"failCommands": ["isMaster", "hello"], "errorCode": 8, "appName": "x"},
            hello("x"),
            doc! {"ok": 0.0, "errmsg": "Failing command via 'failCommand' failpoint", "code": 8, "codeName": "UnknownError"},
        ),
    ];
    for (data, command, expected) in rows {
        let mut server = testing();
        set(&mut server, "alwaysOn", data.clone());
        assert_eq!(ask(&mut server, command), expected, "{data}");
        set(&mut server, "off", doc! {});
        assert_eq!(pings(&mut server, 1), ".");
    }
    let mut server = testing();
    set(
        &mut server,
        "alwaysOn",
        doc! {"failCommands": ["hello"], "errorCode": 8, "appName": "x"},
    );
    assert_eq!(ask(&mut server, hello("y")).get_f64("ok").ok(), Some(1.0));
}

#[test]
fn only_matching_commands_are_counted() {
    let mut server = testing();
    // (mode, the outcome of pings with other commands between them)
    for (mode, expected) in [
        (doc! {"times": 1}, "x.."),
        (doc! {"skip": 1}, ".xx"),
        (doc! {"times": 2}, "xx."),
    ] {
        let data = doc! {"failCommands": ["ping"], "errorCode": 8, "closeConnection": false};
        set(&mut server, mode.clone(), data);
        let mut got = String::new();
        for _ in 0..3 {
            ask(&mut server, doc! {"hello": 1, "$db": "a"});
            got += &pings(&mut server, 1);
            ask(&mut server, doc! {"find": "c", "$db": "a"});
        }
        assert_eq!(got, expected, "{mode}");
    }
}

#[test]
fn fail_points_block_only_their_connection_and_can_close_it() {
    let mut server = testing();
    set(
        &mut server,
        doc! {"times": 2},
        doc! {"failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 500},
    );
    let ping = Request::new(doc! {"ping": 1, "$db": "a"}.to_vec().unwrap());
    let (commands, connection) = &server;
    let fault = commands
        .context()
        .fail_points
        .strike(&connection.client, &ping);
    let block = fault.and_then(|fault| fault.block);
    assert_eq!(block, Some(std::time::Duration::from_millis(500)));
    let (steps, reply) = step(&mut server, doc! {"ping": 1, "$db": "a"});
    assert!(
        matches!(steps[..], [Ok(Progress::Wait(_)), Ok(Progress::Done)]),
        "{steps:?}"
    );
    assert_eq!(reply, Some(doc! {"ok": 1.0}));
    set(
        &mut server,
        doc! {"times": 1},
        doc! {"failCommands": ["ping"], "closeConnection": true, "errorCode": 1},
    );
    let (steps, reply) = step(&mut server, doc! {"ping": 1, "$db": "a"});
    assert!(steps[0].is_err() && reply.is_none(), "{steps:?}");
}

/// Without `topologyVersion`, a driver treats the member as gone until its next heartbeat, and a retry waits for up to ten
/// seconds.
#[test]
fn a_not_primary_error_contains_the_topology_version() {
    let set_of_one = Topology::ReplicaSet {
        name: "rs0".into(),
        advertise: None,
    };
    let rows = [
        (set_of_one.clone(), doc! {"errorCode": 10107}, true),
        (set_of_one.clone(), doc! {"errorCode": 189}, true),
        (
            set_of_one.clone(),
            doc! {"writeConcernError": {"code": 11602, "errmsg": "x"}},
            true,
        ),
        // A server that shuts down would have told its drivers before.
        (set_of_one, doc! {"errorCode": 91}, false),
        (Topology::Router, doc! {"errorCode": 10107}, false),
        (Topology::Standalone, doc! {"errorCode": 10107}, false),
    ];
    for (topology, mut data, told) in rows {
        let mut server = server(Config {
            enable_test_commands: true,
            topology: topology.clone(),
            ..Config::default()
        });
        let hello = ask(&mut server, doc! {"hello": 1, "$db": "admin"});
        data.insert("failCommands", ["insert"].as_slice());
        set(&mut server, doc! {"times": 1}, data.clone());
        let reply = ask(
            &mut server,
            doc! {"insert": "c", "documents": [{}], "$db": "a"},
        );
        let wanted = told.then(|| &hello["topologyVersion"]);
        assert_eq!(reply.get("topologyVersion"), wanted, "{topology:?} {data}");
    }
}

fn set_named(server: &mut (Commands, Connection), name: &str, data: Document) {
    let mode = doc! {"times": 1};
    let command = doc! {"configureFailPoint": name, "mode": mode, "data": data, "$db": "admin"};
    let reply = ask(server, command);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
}

/// The cursor ends with the getMore that fails. A change stream learns whether it may go on.
#[test]
fn a_get_more_that_fails_ends_its_cursor() {
    let mut server = testing();
    let documents = vec![doc! {}, doc! {}, doc! {}];
    ask(
        &mut server,
        doc! {"insert": "c", "documents": documents, "$db": "a"},
    );
    let find = doc! {"find": "c", "batchSize": 1, "$db": "a"};
    let watch =
        doc! {"aggregate": "c", "pipeline": [{"$changeStream": {}}], "cursor": {}, "$db": "a"};
    let rows = [
        (&find, doc! {}, 1, None),
        (&find, doc! {"errorCode": 6}, 6, None),
        (
            &watch,
            doc! {"errorCode": 6},
            6,
            Some("ResumableChangeStreamError"),
        ),
        (&watch, doc! {"errorCode": 2}, 2, None),
        (
            &watch,
            doc! {"errorCode": 280},
            280,
            Some("NonResumableChangeStreamError"),
        ),
    ];
    for (open, data, code, label) in rows {
        let opened = ask(&mut server, open.clone());
        let id = opened.get_document("cursor").unwrap().get_i64("id");
        let more = doc! {"getMore": id.unwrap(), "collection": "c", "$db": "a"};
        set_named(&mut server, "failGetMoreAfterCursorCheckout", data.clone());
        let failed = ask(&mut server, more.clone());
        assert_eq!(failed.get_i32("code").ok(), Some(code), "{data}: {failed}");
        let labels = failed.get_array("errorLabels").ok();
        let labels = labels.map(|labels| labels[0].as_str().unwrap());
        assert_eq!(labels, label, "{data}: {failed}");
        let gone = ask(&mut server, more);
        assert_eq!(gone.get_i32("code").ok(), Some(43), "{data}: {gone}");
    }
}

/// A statement that is struck has run, unless the data has a code. Either way the connection closes, and the retry finds out.
#[test]
fn a_retryable_write_loses_its_reply_or_does_not_run() {
    let session = doc! {"id": bson::Uuid::new()};
    let commands = [
        doc! {"insert": "c", "documents": [{"x": 1}]},
        doc! {"update": "c", "updates": [{"q": {"x": 0}, "u": {"$inc": {"n": 1}}}]},
        doc! {"delete": "c", "deletes": [{"q": {"x": 0}, "limit": 1}]},
        doc! {"findAndModify": "c", "query": {"x": 0}, "update": {"$inc": {"n": 1}}},
    ];
    let mut number = 0_i64;
    for mut command in commands {
        for (data, ran) in [
            (doc! {}, true),
            (doc! {"failBeforeCommitExceptionCode": 1}, false),
        ] {
            let mut server = testing();
            let inserted = doc! {"insert": "c", "documents": [{"x": 0, "n": 0}], "$db": "a"};
            ask(&mut server, inserted);
            number += 1;
            command.insert("lsid", session.clone());
            command.insert("txnNumber", number);
            command.insert("$db", "a");
            set_named(&mut server, "onPrimaryTransactionalWrite", data.clone());
            let (steps, _) = step(&mut server, command.clone());
            assert!(matches!(steps.last(), Some(Err(_))), "{command}: {steps:?}");
            let retried = ask(&mut server, command.clone());
            assert_eq!(retried.get_f64("ok").ok(), Some(1.0), "{retried}");
            let is_repeat =
                retried.contains_key("retriedStmtIds") || retried.contains_key("retriedStmtId");
            assert_eq!(is_repeat, ran, "{command} {data}: {retried}");
        }
    }
}

#[test]
fn a_write_error_stands_for_a_write_that_must_not_run() {
    let mut server = testing();
    let data = doc! {"closeConnection": false, "failBeforeCommitExceptionCode": 6};
    set_named(&mut server, "onPrimaryTransactionalWrite", data);
    let plain = doc! {"insert": "c", "documents": [{"_id": 1}], "$db": "a"};
    assert_eq!(ask(&mut server, plain), doc! {"n": 1, "ok": 1.0});
    let update = doc! {
        "update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}],
        "lsid": {"id": bson::Uuid::new()}, "txnNumber": 1_i64, "$db": "a",
    };
    let failed = ask(&mut server, update.clone());
    let errors = failed.get_array("writeErrors").unwrap();
    assert_eq!(
        errors[0].as_document().unwrap().get_i32("code").ok(),
        Some(6)
    );
    let retried = ask(&mut server, update);
    assert_eq!(retried, doc! {"n": 1, "nModified": 1, "ok": 1.0});
}

#[test]
fn time_limits_are_over_at_once_or_never() {
    let mut server = testing();
    let insert = doc! {"insert": "c", "documents": [{}, {}, {}], "$db": "a"};
    ask(&mut server, insert);
    let mut opened = |millis: Option<i32>| {
        let mut find = doc! {"find": "c", "batchSize": 1, "$db": "a"};
        find.extend(millis.map(|millis| ("maxTimeMS".to_owned(), millis.into())));
        let opened = ask(&mut server, find);
        let id = opened.get_document("cursor").unwrap().get_i64("id");
        doc! {"getMore": id.unwrap(), "collection": "c", "$db": "a"}
    };
    let (limited, free) = (opened(Some(60_000)), opened(None));
    let mut code = |command: Document| ask(&mut server, command).get_i32("code").ok();
    let set =
        |name: &str, mode: &str| doc! {"configureFailPoint": name, "mode": mode, "$db": "admin"};
    assert_eq!(code(set("maxTimeAlwaysTimeOut", "alwaysOn")), None);
    let ping = doc! {"ping": 1, "$db": "a"};
    let mut limited_ping = ping.clone();
    limited_ping.insert("maxTimeMS", 60_000);
    assert_eq!(code(ping), None);
    assert_eq!(code(limited_ping.clone()), Some(50));
    assert_eq!(code(limited), Some(50));
    assert_eq!(code(free), None);
    assert_eq!(code(set("maxTimeNeverTimeOut", "alwaysOn")), None);
    assert_eq!(code(limited_ping.clone()), None);
    assert_eq!(code(set("maxTimeNeverTimeOut", "off")), None);
    assert_eq!(code(set("maxTimeAlwaysTimeOut", "off")), None);
    assert_eq!(code(limited_ping), None);
}
