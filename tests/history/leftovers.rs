//! Clients that leave in the middle of a transaction leave nothing behind: no claim, no snapshot, no version, no memory.

use std::process::{Command, Stdio};
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use sundown::clock::{Millis, monotonic};

use crate::support::client::Client;
use crate::support::world::{DB, Reaper, World, failure, int};

/// How a transaction loses its client.
#[derive(Debug, Clone, Copy)]
enum Loss {
    /// The connection is closed, and nobody comes back within the lifetime of a transaction.
    Connection,
    /// The same, and the client is a process that is killed.
    Process,
    EndSessions,
    KillSessions,
    KillAllSessions,
    /// The session goes on to a newer transaction, and that one ends.
    NewerNumber,
}

const LOSSES: [Loss; 6] = [
    Loss::Connection,
    Loss::Process,
    Loss::EndSessions,
    Loss::KillSessions,
    Loss::KillAllSessions,
    Loss::NewerNumber,
];

pub fn lsid(n: u8) -> Document {
    let (subtype, bytes) = (BinarySubtype::Uuid, vec![n; 16]);
    doc! {"id": Binary { subtype, bytes }}
}

pub fn inside(mut command: Document, session: u8, number: i64, starts: bool) -> Document {
    command.extend(doc! {"lsid": lsid(session), "txnNumber": number, "autocommit": false});
    if starts {
        command.insert("startTransaction", true);
    }
    command
}

/// Begins a transaction that writes, reads and opens a cursor.
fn begin(client: &mut Client, session: u8) {
    let ids = [i32::from(session) * 10, i32::from(session) * 10 + 1];
    for (n, command) in [
        doc! {"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"n": 1}}}]},
        doc! {"insert": "c", "documents": [{"_id": ids[0], "u": ids[0]}, {"_id": ids[1], "u": ids[1]}]},
        doc! {"insert": format!("new{session}"), "documents": [{"_id": 1}]},
        doc! {"delete": "c", "deletes": [{"q": {"_id": 1}, "limit": 1}]},
        doc! {"find": "c", "batchSize": 1},
    ]
    .into_iter()
    .enumerate()
    {
        let command = inside(command, session, 1, n == 0);
        let reply = client.command(DB, command).unwrap();
        assert_eq!(failure(&reply), None, "{reply}");
    }
}

fn lose(loss: Loss, world: &mut World, client: Client, session: u8) {
    let later = |world: &World| world.clock.set(Millis(world.now() + 61_000));
    match loss {
        Loss::Connection | Loss::Process => {
            drop(client);
            later(world);
        }
        Loss::EndSessions => drop(world.run(doc! {"endSessions": [lsid(session)]})),
        Loss::KillSessions => drop(world.run(doc! {"killSessions": [lsid(session)]})),
        Loss::KillAllSessions => drop(world.run(doc! {"killAllSessions": []})),
        Loss::NewerNumber => {
            world.run(inside(doc! {"find": "c"}, session, 2, true));
            let abort = inside(doc! {"abortTransaction": 1}, session, 2, false);
            let aborted = world.client.command("admin", abort).unwrap();
            assert_eq!(failure(&aborted), None);
        }
    }
}

/// Waits until the server has freed everything. It looks once a second.
pub fn wait_until_nothing_is_left(world: &mut World) {
    let began = monotonic();
    loop {
        let status = world.run(doc! {"serverStatus": 1});
        let figure = |section: &str, names: &[&str]| -> i64 {
            let section = status.get_document(section).unwrap();
            names
                .iter()
                .map(|name| section.get(name).and_then(int).unwrap())
                .sum()
        };
        let names = [
            "currentOpen",
            "currentActive",
            "currentInactive",
            "bufferedBytes",
            "versionBytes",
        ];
        let left = figure("transactions", &names);
        let cursors = status
            .get_document("metrics")
            .unwrap()
            .get_document("cursor")
            .unwrap();
        let cursors = cursors
            .get_document("open")
            .unwrap()
            .get("total")
            .and_then(int)
            .unwrap();
        if left == 0 && cursors == 0 {
            return;
        }
        assert!(
            monotonic() - began < Duration::from_secs(60),
            "left {left}, cursors {cursors}: {status}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn set_up(world: &mut World) {
    // A newer transaction waits for the schema change that waits for the older one.
    world.run(doc! {"setParameter": 1, "maxTransactionLockRequestTimeoutMillis": 60_000});
    world.insert("c", [doc! {"_id": 0, "n": 0}, doc! {"_id": 1}]);
    world.index("c", doc! {"key": {"u": 1}, "unique": true, "sparse": true});
}

#[test]
fn clients_that_leave_leave_nothing_behind() {
    for loss in LOSSES {
        let mut world = World::new(Reaper::On);
        set_up(&mut world);
        let mut client = world.connect();
        let mut child = None;
        match loss {
            Loss::Process => {
                let exe = std::env::current_exe().unwrap();
                let mut process = Command::new(exe)
                    .args(["--ignored", "--exact", "leftovers::child"])
                    .env("SERVER", world.server.local_addr().to_string())
                    .stdout(Stdio::null())
                    .spawn()
                    .unwrap();
                let began = monotonic();
                while !has_written(&mut world) {
                    assert!(monotonic() - began < Duration::from_secs(60));
                }
                process.kill().unwrap();
                process.wait().unwrap();
                child = Some(());
            }
            _ => begin(&mut client, 7),
        }
        // A write outside transactions waits for it.
        let mut waiting = world.connect();
        let update = doc! {"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"n": 10}}}]};
        waiting.send(DB, update).unwrap();
        // Another client that waits leaves, too.
        let mut leaving = world.connect();
        let insert = doc! {"insert": "c", "documents": [{"_id": 70}]};
        leaving.send(DB, insert).unwrap();
        drop(leaving);
        // A schema change waits for it, too.
        let mut changing = world.connect();
        let index = doc! {"createIndexes": "c", "indexes": [{"key": {"z": 1}, "name": "z_1"}]};
        changing.send(DB, index).unwrap();
        assert!(child.is_some() || has_written(&mut world), "{loss:?}");
        lose(loss, &mut world, client, 7);
        let reply = waiting.receive().unwrap();
        assert_eq!(reply.get("n").and_then(int), Some(1), "{loss:?}: {reply}");
        let reply = changing.receive().unwrap();
        let built = reply.get("numIndexesAfter").and_then(int);
        assert_eq!(built, Some(3), "{loss:?}: {reply}");
        wait_until_nothing_is_left(&mut world);
        let rows =
            world.rows(doc! {"find": "c", "filter": {"_id": {"$lte": 1}}, "sort": {"_id": 1}});
        assert_eq!(
            rows,
            [doc! {"_id": 0, "n": 10}, doc! {"_id": 1}],
            "{loss:?}"
        );
        let created = world.rows(doc! {"listCollections": 1, "filter": {"name": "new7"}});
        assert_eq!(created, [] as [Document; 0], "{loss:?}");
        // The keys are free again.
        world.run(doc! {"insert": "c", "documents": [{"_id": 71, "u": 71}]});
        // Whoever comes back is told.
        let back = inside(doc! {"find": "c"}, 7, 1, false);
        let (code, _) = world.refused(back);
        assert!([251, 225].contains(&code), "{loss:?}: {code}");
    }
}

/// Returns whether a transaction has written something. Asked so that no other transaction gets in its way.
fn has_written(world: &mut World) -> bool {
    let status = world.run(doc! {"serverStatus": 1});
    let transactions = status.get_document("transactions").unwrap();
    transactions.get("bufferedBytes").and_then(int) > Some(0)
}

/// The client of the test above that is killed: it runs in a process of its own.
#[test]
#[ignore = "a part of clients_that_leave_leave_nothing_behind"]
fn child() {
    let Ok(server) = std::env::var("SERVER") else {
        return;
    };
    let mut client = Client::connect(server.parse().unwrap()).unwrap();
    begin(&mut client, 7);
    loop {
        let _ = client.command(DB, inside(doc! {"find": "c"}, 7, 1, false));
    }
}

#[test]
fn killing_a_statement_or_its_connection_aborts_its_transaction() {
    let sum = doc! {"$reduce": {
        "input": {"$range": [0, 50_000]},
        "initialValue": "$_id",
        "in": {"$add": ["$$value", "$$this"]},
    }};
    let slow = doc! {"$expr": {"$eq": [sum, -1]}};
    for by_connection in [false, true] {
        let mut world = World::new(Reaper::On);
        set_up(&mut world);
        world.insert("slow", (0..2_000).map(|n| doc! {"_id": n}));
        let mut client = world.connect();
        begin(&mut client, 7);
        client
            .send(
                DB,
                inside(doc! {"find": "slow", "filter": &slow}, 7, 1, false),
            )
            .unwrap();
        let running = doc! {"currentOp": 1, "command.find": "slow", "active": true};
        let began = monotonic();
        let op = loop {
            let reply = world.client.command("admin", running.clone()).unwrap();
            if let Some(op) = reply.get_array("inprog").unwrap().first() {
                break op.as_document().unwrap().clone();
            }
            assert!(monotonic() - began < Duration::from_secs(60));
        };
        let shown = op
            .get_document("transaction")
            .unwrap()
            .get_document("parameters")
            .unwrap();
        assert_eq!(shown.get("txnNumber").and_then(int), Some(1));
        match by_connection {
            true => drop(client),
            false => {
                let kill = doc! {"killOp": 1, "op": op.get("opid").unwrap()};
                world.client.command("admin", kill).unwrap();
                let reply = client.receive().unwrap();
                assert_eq!(
                    failure(&reply).map(|(code, _)| code),
                    Some(11_601),
                    "{reply}"
                );
            }
        }
        wait_until_nothing_is_left(&mut world);
    }
}
