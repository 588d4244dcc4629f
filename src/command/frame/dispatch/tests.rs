use std::pin::Pin;
use std::task::Waker;

use crate::command::tests::server::{ask, await_reply, begin, finish, server, step};
use crate::config::Config;
use crate::handler::Progress;
use crate::session::SessionId;
use bson::{Bson, Document, doc};

#[test]
fn refusals_have_mongods_codes() {
    let lsid = doc! {"id": bson::Uuid::new()};
    let cases: &[(Document, i32)] = &[
        (doc! {"nope": 1, "$db": "a"}, 59),
        (doc! {"ping": 1}, 40571),
        (doc! {"ping": 1, "$db": "a.b"}, 73),
        (doc! {"ping": 1, "$db": "a", "x": 1}, 40415),
        (
            doc! {"ping": 1, "$db": "a", "readConcern": {"level": "majority"}},
            72,
        ),
        (
            doc! {"ping": 1, "$db": "a", "readConcern": {"level": "x"}},
            2,
        ),
        (doc! {"ping": 1, "$db": "a", "writeConcern": {"w": 1}}, 72),
        (doc! {"ping": 1, "$db": "a", "maxTimeMS": -1}, 2),
        (doc! {"ping": 1, "$db": "a", "maxTimeMS": 1.5}, 9),
        (doc! {"ping": 1, "$db": "a", "maxTimeMS": "1"}, 14),
        (doc! {"ping": 1, "$db": "a", "lsid": 1}, 14),
        (doc! {"ping": 1, "$db": "a", "txnNumber": 1_i64}, 72),
        (
            doc! {"ping": 1, "$db": "a", "lsid": lsid.clone(), "txnNumber": 1_i64},
            50768,
        ),
        (
            doc! {"ping": 1, "$db": "a", "lsid": lsid.clone(), "txnNumber": 1_i64, "autocommit": false, "startTransaction": true},
            263,
        ),
        (doc! {"ping": 1, "$db": "a", "apiStrict": true}, 4886600),
        (doc! {"ping": 1, "$db": "a", "apiVersion": "2"}, 322),
        (
            doc! {"whatsmyuri": 1, "$db": "a", "apiVersion": "1", "apiStrict": true},
            323,
        ),
        (
            doc! {"distinct": "c", "key": "a", "$db": "a", "apiVersion": "1", "apiStrict": true},
            323,
        ),
        (
            doc! {"saslStart": 1, "mechanism": "?", "payload": "", "$db": "a", "apiVersion": "1", "apiStrict": true},
            334,
        ),
        (doc! {"getParameter": 1, "$db": "a"}, 13),
        (doc! {"applyOps": 1, "$db": "admin"}, 238),
        (doc! {"timeTravel": 1, "$db": "admin"}, 115),
        (doc! {"getMore": 5_i64, "collection": "c", "$db": "a"}, 43),
        (doc! {"commitTransaction": 1, "$db": "admin"}, 125),
    ];
    let mut server = server(Config::default());
    for (command, code) in cases {
        let reply = ask(&mut server, command.clone());
        assert_eq!(
            reply.get_i32("code").ok(),
            Some(*code),
            "{command} -> {reply}"
        );
        assert_eq!(reply.get_f64("ok").ok(), Some(0.0));
    }
}

#[test]
fn help_is_given_instead_of_running() {
    let mut server = server(Config::default());
    let asked = doc! {"dropDatabase": 1, "help": true, "$db": "a"};
    let help = ask(&mut server, asked);
    assert!(
        help.get_str("help")
            .is_ok_and(|text| text.starts_with("help for: dropDatabase "))
    );
    assert_eq!(help.get_f64("ok").ok(), Some(1.0));
}

#[test]
fn three_topologies_say_hello() {
    let set = crate::config::Topology::ReplicaSet {
        name: "rs0".into(),
        advertise: Some("db:1".into()),
    };
    for topology in [
        set,
        crate::config::Topology::Router,
        crate::config::Topology::Standalone,
    ] {
        let mut server = server(Config {
            topology,
            ..Config::default()
        });
        let hello = ask(
            &mut server,
            doc! {"hello": 1, "$db": "admin", "helloOk": true},
        );
        assert_eq!(hello.get_i32("maxWireVersion").ok(), Some(27), "{hello}");
        assert_eq!(hello.get_bool("isWritablePrimary").ok(), Some(true));
        assert_eq!(hello.get_f64("ok").ok(), Some(1.0));
        let seen = hello.get_document("topologyVersion").unwrap().clone();
        let awaited =
            doc! {"hello": 1, "$db": "admin", "topologyVersion": seen, "maxAwaitTimeMS": 5_i64};
        assert_eq!(
            ask(&mut server, awaited).get_i32("connectionId").ok(),
            Some(7)
        );
    }
}

#[test]
fn compressors_are_agreed_on_in_the_clients_order() {
    let hello = |offered: &str, wanted: Bson| {
        let mut server = server(Config {
            compressors: offered.parse().unwrap(),
            ..Config::default()
        });
        let reply = ask(
            &mut server,
            doc! {"hello": 1, "$db": "admin", "compression": wanted},
        );
        match reply.get("compression") {
            Some(agreed) => agreed.to_string(),
            None => format!("{:?}", reply.get_i32("code").ok()),
        }
    };
    let names = |names: &[&str]| Bson::from(names.to_vec());
    for (offered, wanted, agreed) in [
        (
            "snappy,zstd,zlib",
            names(&["zlib", "snappy"]),
            r#"["zlib", "snappy"]"#,
        ),
        (
            "zstd,zlib",
            names(&["noop", "zstd", "lz4", "zstd"]),
            r#"["zstd"]"#,
        ),
        ("zstd", names(&["zlib"]), "None"),
        ("disabled", names(&["zlib"]), "None"),
        ("zstd", names(&[]), "None"),
        ("zstd", Bson::Null, "None"),
        ("zstd", Bson::from("zstd"), "Some(14)"),
        ("zstd", Bson::from(vec![1, 2]), "Some(14)"),
    ] {
        assert_eq!(hello(offered, wanted.clone()), agreed, "{offered} {wanted}");
    }
}

#[test]
fn time_travels_when_it_is_allowed_to() {
    let mut server = server(Config {
        enable_test_commands: true,
        ..Config::default()
    });
    let mut travel = |mut command: Document| {
        command.insert("$db", "admin");
        ask(&mut server, command)
            .get_datetime("now")
            .unwrap()
            .timestamp_millis()
    };
    assert_eq!(travel(doc! {"timeTravel": 1}), 1_000_000);
    assert_eq!(
        travel(doc! {"timeTravel": 1, "advanceSeconds": 1.5}),
        1_001_500
    );
    let to = Bson::DateTime(bson::DateTime::from_millis(5));
    assert_eq!(travel(doc! {"timeTravel": 1, "to": to, "freeze": true}), 5);
}

#[tokio::test]
async fn a_repeated_write_waits_for_the_first_attempt_as_long_as_it_may() {
    let mut server = server(Config::default());
    let id = bson::Uuid::new();
    let insert = |millis: i64| {
        doc! {
            "insert": "c", "documents": [{"_id": 1}], "lsid": {"id": id}, "txnNumber": 5_i64,
            "maxTimeMS": millis, "$db": "d",
        }
    };
    let session = SessionId::new(id.bytes());
    let sessions = &server.0.context().sessions;
    let first_attempt = sessions.get(&session, &mut None).unwrap();
    let first_attempt = first_attempt.check_out(5).unwrap().unwrap();

    let late = await_reply(&mut server, insert(1)).await;
    assert_eq!(late.get_i32("code").ok(), Some(50));

    let mut patient = begin(&mut server, insert(3_600_000));
    let Ok(Progress::Wait(mut wait)) = patient.step(&mut Vec::new()) else {
        panic!("the session is in use");
    };
    let mut nobody = std::task::Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut wait).poll(&mut nobody).is_pending());
    drop(first_attempt);
    assert!(Pin::new(&mut wait).poll(&mut nobody).is_ready());
    assert_eq!(finish(patient).get_i32("n").ok(), Some(1));
}

/// A command that may take long is work from the start, so that it can be killed. A command that was refused before has no
/// effect on the next command of the same thread.
#[test]
fn whether_a_command_is_work_depends_on_nothing_but_itself() {
    let mut server = server(Config::default());
    let documents = vec![doc! {"_id": 1}, doc! {"_id": 2}];
    ask(
        &mut server,
        doc! {"insert": "c", "documents": documents, "$db": "d"},
    );
    let sum = doc! {"$reduce": {"input": [1, 2], "initialValue": 0, "in": "$$value"}};
    let slow = doc! {"$expr": {"$eq": [sum, 3]}};
    let refused = doc! {"find": "c", "filter": slow.clone(), "sort": {"a": "x"}, "$db": "d"};
    let map = doc! {"$map": {"input": "$v", "in": "$$this"}};
    let update = |filter: &Document| doc! {"q": filter, "u": {"$set": {"a": 1}}};
    let pipeline = doc! {"q": {}, "u": [{"$set": {"v": map.clone()}}]};
    // Each command with a quick filter and with a slow one.
    let commands = |filter: &Document| {
        [
            doc! {"update": "c", "updates": [update(filter)]},
            doc! {"delete": "c", "deletes": [{"q": filter, "limit": 1}]},
            doc! {"findAndModify": "c", "query": filter, "update": {"$set": {"a": 1}}},
            doc! {"count": "c", "query": filter},
            doc! {"distinct": "c", "key": "a", "query": filter},
            doc! {"find": "c", "filter": filter},
            doc! {"aggregate": "c", "pipeline": [{"$match": filter}], "cursor": {}},
            doc! {"bulkWrite": 1, "ops": [{"delete": 0, "filter": filter}], "nsInfo": [{"ns": "d.c"}], "$db": "admin"},
        ]
    };
    let quick = commands(&doc! {"a": 1}).map(|command| (command, false));
    let slow_ones = commands(&slow).map(|command| (command, true));
    let others = [
        doc! {"update": "c", "updates": [pipeline.clone()]},
        doc! {"find": "c", "projection": {"v": map.clone()}},
        doc! {"findAndModify": "c", "query": {"_id": 1}, "remove": true, "fields": {"v": map.clone()}},
        doc! {"aggregate": "c", "pipeline": [{"$project": {"v": map}}], "cursor": {}},
    ];
    let others = others.map(|command| (command, true));
    for (mut command, is_work) in quick.into_iter().chain(slow_ones).chain(others) {
        let reply = ask(&mut server, refused.clone());
        assert_eq!(reply.get_f64("ok").ok(), Some(0.0), "{reply}");
        if !command.contains_key("$db") {
            command.insert("$db", "d");
        }
        // A command also becomes work if the machine interrupts it for longer than a step, but not every time.
        let at_once = (0..100).any(|_| {
            let (steps, reply) = step(&mut server, command.clone());
            assert_eq!(reply.unwrap().get_f64("ok").ok(), Some(1.0), "{command}");
            steps.is_empty()
        });
        assert_eq!(at_once, !is_work, "{command}");
    }
}
