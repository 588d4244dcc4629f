//! Transactions and snapshots over several commands: what ends a statement that runs or waits, and how far back clients read.

use std::time::Duration;

use bson::{Bson, Document, Uuid, doc};

use super::server::{ask, begin, finish, server};
use crate::clock::monotonic;
use crate::command::{Commands, Connection};
use crate::config::Config;
use crate::handler::Progress;

type Server = (Commands, Connection);

fn run(server: &mut Server, mut command: Document) -> Document {
    if !command.contains_key("$db") {
        command.insert("$db", "d");
    }
    let reply = ask(server, command);
    assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    reply
}

fn code(reply: &Document) -> Option<i32> {
    reply.get_i32("code").ok()
}

/// Makes a command the first one, or another one, of the first transaction of a session.
fn inside(mut command: Document, session: Uuid, starts: bool) -> Document {
    command.extend(
        doc! {"$db": "d", "lsid": {"id": session}, "txnNumber": 1_i64, "autocommit": false},
    );
    if starts {
        command.insert("startTransaction", true);
    }
    command
}

#[test]
fn a_statement_ends_when_the_time_of_its_transaction_is_over() {
    let mut server = server(Config::default());
    let documents: Vec<_> = (0..50).map(|n| doc! {"_id": n}).collect();
    run(&mut server, doc! {"insert": "c", "documents": documents});
    let sum = doc! {"$reduce": {
        "input": {"$range": [0, 1_000]}, "initialValue": "$_id", "in": {"$add": ["$$value", "$$this"]},
    }};
    let find = doc! {"find": "c", "filter": {"$expr": {"$eq": [sum, -1]}}};
    let session = Uuid::new();
    let running = begin(&mut server, inside(find, session, true));
    let context = server.0.context();
    context.forget_what_is_over();
    assert_eq!(context.sessions.transactions().open(), 1);
    context.clock.advance(60_000);
    context.forget_what_is_over();
    let reply = finish(running);
    assert_eq!(code(&reply), Some(290), "{reply}");
    assert_eq!(context.sessions.transactions().open(), 0);
    let status = ask(&mut server, doc! {"serverStatus": 1, "$db": "admin"});
    let metrics = status.get_document("metrics").unwrap();
    let expiry = metrics.get_document("abortExpiredTransactions").unwrap();
    let names = ["passes", "successfulKills", "timedOutKills"];
    let told = names.map(|name| expiry.get_i64(name).ok());
    assert_eq!(told, [Some(2), Some(1), Some(0)], "{expiry}");
    let next = inside(doc! {"find": "c"}, session, false);
    assert_eq!(code(&ask(&mut server, next)), Some(251));
}

/// Each transaction that ends wakes a statement that waits for a schema change.
#[test]
fn the_time_of_a_statement_that_waits_does_not_begin_anew() {
    let mut server = server(Config::default());
    run(&mut server, doc! {"insert": "c", "documents": [{"_id": 1}]});
    let patience =
        doc! {"setParameter": 1, "maxTransactionLockRequestTimeoutMillis": -1, "$db": "admin"};
    run(&mut server, patience);
    run(&mut server, inside(doc! {"find": "c"}, Uuid::new(), true));
    let mut change = begin(&mut server, doc! {"drop": "c", "$db": "d"});
    assert!(matches!(
        change.step(&mut Vec::new()),
        Ok(Progress::Wait(_))
    ));
    let find = doc! {"find": "c", "maxTimeMS": 20};
    let mut waiting = begin(&mut server, inside(find, Uuid::new(), true));
    let began = monotonic();
    let mut reply = Vec::new();
    while !waiting.step(&mut reply).unwrap().is_done() {
        assert!(monotonic() - began < Duration::from_secs(20), "it goes on");
    }
    let reply = Document::from_reader(&*reply).unwrap();
    assert_eq!(code(&reply), Some(50), "{reply}");
}

/// Reads the collection as it was at that time, or as it is now. Returns the documents and their time, or the code of an error.
fn read_at(server: &mut Server, time: Option<&Bson>) -> Result<(Vec<Document>, Bson), i32> {
    let mut concern = doc! {"level": "snapshot"};
    if let Some(time) = time {
        concern.insert("atClusterTime", time);
    }
    let reply = ask(
        server,
        doc! {"find": "c", "projection": {"ttl": 0}, "readConcern": concern, "$db": "d"},
    );
    let Ok(cursor) = reply.get_document("cursor") else {
        return Err(code(&reply).unwrap());
    };
    let batch = cursor.get_array("firstBatch").unwrap().iter();
    let rows = batch.map(|row| row.as_document().unwrap().clone());
    Ok((rows.collect(), cursor.get("atClusterTime").unwrap().clone()))
}

#[test]
fn a_window_lets_clients_read_the_past_without_what_has_ended() {
    for seconds in [0, 10] {
        let mut server = server(Config {
            snapshot_window: Duration::from_secs(seconds),
            ..Config::default()
        });
        run(&mut server, doc! {"create": "c", "defaultTtl": -1});
        let documents = [doc! {"_id": 1, "a": 1}, doc! {"_id": 2, "ttl": 3}];
        run(
            &mut server,
            doc! {"insert": "c", "documents": documents.to_vec()},
        );
        let (rows, first) = read_at(&mut server, None).unwrap();
        let both = [doc! {"_id": 1, "a": 1}, doc! {"_id": 2}];
        assert_eq!(rows, both);
        assert_eq!(
            read_at(&mut server, Some(&first)).map(|(rows, _)| rows),
            Ok(both.to_vec()),
            "it is the present"
        );
        let write = |server: &mut Server, a: i32| {
            let update = doc! {"q": {"_id": 1}, "u": {"$set": {"a": a}}};
            run(server, doc! {"update": "c", "updates": [update]})
        };
        write(&mut server, 2);
        let (_, second) = read_at(&mut server, None).unwrap();
        write(&mut server, 3);
        if seconds == 0 {
            for time in [&first, &second] {
                assert_eq!(read_at(&mut server, Some(time)), Err(239));
            }
            continue;
        }
        let old = |server: &mut Server, time| read_at(server, Some(time)).map(|(rows, _)| rows);
        assert_eq!(old(&mut server, &first), Ok(both.to_vec()));
        let pass = |server: &Server, millis| {
            let context = server.0.context();
            context.clock.advance(millis);
            context.forget_what_is_over();
        };
        pass(&server, 3_000);
        let ended = vec![doc! {"_id": 1, "a": 1}];
        assert_eq!(old(&mut server, &first), Ok(ended));
        let changed = vec![doc! {"_id": 1, "a": 2}];
        assert_eq!(old(&mut server, &second), Ok(changed));
        // A transaction reads the past, too, and keeps it as long as it is open.
        let concern = doc! {"level": "snapshot", "atClusterTime": &second};
        let find = doc! {"find": "c", "readConcern": concern};
        let session = Uuid::new();
        run(&mut server, inside(find, session, true));
        pass(&server, 8_000);
        assert_eq!(old(&mut server, &first), Err(239));
        assert!(old(&mut server, &second).is_ok());
        let abort = inside(doc! {"abortTransaction": 1}, session, false);
        ask(&mut server, {
            let mut abort = abort;
            abort.insert("$db", "admin");
            abort
        });
        assert_eq!(old(&mut server, &second), Err(239));
    }
}

/// A transaction may need a thread for a large statement of its own. If those that wait for it held all threads of the runtime, nobody
/// would go on.
#[test]
fn writes_that_wait_for_a_transaction_leave_threads_to_others() {
    const MANY: usize = 300;
    const THREADS: usize = 512;
    let mut server = server(Config::default());
    run(&mut server, doc! {"insert": "c", "documents": [{"_id": 1}]});
    let merge =
        doc! {"aggregate": "c", "pipeline": [{"$merge": "other"}], "cursor": {}, "$db": "d"};
    let mut begun: Vec<_> = (0..MANY)
        .map(|_| begin(&mut server, merge.clone()))
        .collect();
    let steps = begun
        .iter_mut()
        .map(|work| work.step(&mut Vec::new()).unwrap());
    let has_thread: Vec<_> = steps
        .map(|step| matches!(step, Progress::Blocking))
        .collect();
    let threads = has_thread.iter().filter(|has| **has).count();
    assert!((1..THREADS / 2).contains(&threads), "{threads}");
    // The others go on when some of them are done.
    let (first, last) = (begun.remove(0), begun.pop().unwrap());
    assert!(has_thread[0] && !has_thread[MANY - 1]);
    drop(first);
    assert_eq!(code(&finish(last)), None);
}

/// Only a commit whose concern is met says for sure that there is no such transaction, so that the client may run it again.
#[test]
fn a_client_is_not_told_to_run_a_transaction_again_while_the_write_concern_is_not_met() {
    let mut server = server(Config::default());
    let session = Uuid::new();
    run(
        &mut server,
        inside(
            doc! {"insert": "c", "documents": [{"_id": 1}]},
            session,
            true,
        ),
    );
    let mut end = |command: &str, members: i32| {
        let end = doc! {command: 1, "writeConcern": {"w": members}};
        let mut end = inside(end, session, false);
        end.insert("$db", "admin");
        let reply = ask(&mut server, end);
        let has = |name| reply.contains_key(name);
        (code(&reply), has("errorLabels"), has("writeConcernError"))
    };
    assert_eq!(end("abortTransaction", 2), (None, false, false));
    for command in ["commitTransaction", "abortTransaction"] {
        assert_eq!(end(command, 1), (Some(251), true, false), "{command}");
        assert_eq!(end(command, 2), (Some(251), false, true), "{command}");
    }
}
