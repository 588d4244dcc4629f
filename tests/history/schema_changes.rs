//! Schema changes and transactions that wait for each other: whoever ends early leaves no lock behind, and nothing half done.

use std::time::Duration;

use bson::{Document, doc};
use sundown::clock::{Millis, monotonic};

use crate::leftovers::{inside, lsid};
use crate::support::client::Client;
use crate::support::world::{DB, Reaper, World, create_index, failure, int};

/// How a command that waits ends early.
#[derive(Debug, Clone, Copy)]
enum Ending {
    HangUp,
    KillOp,
    KillSessions,
    MaxTime,
}

const ENDINGS: [Ending; 4] = [
    Ending::HangUp,
    Ending::KillOp,
    Ending::KillSessions,
    Ending::MaxTime,
];

/// The session of the command that waits.
const WAITING: u8 = 9;

/// Commands that wait for a transaction that has written to `c`, each with its database.
fn commands() -> [(&'static str, Document); 8] {
    let out = doc! {"$out": "c"};
    let merge = doc! {"$merge": {"into": "c", "whenMatched": "replace"}};
    let aggregate = |stage| doc! {"aggregate": "s", "pipeline": [stage], "cursor": {}};
    [
        (DB, doc! {"drop": "c"}),
        (DB, doc! {"dropDatabase": 1}),
        (DB, create_index("c", doc! {"key": {"b": 1}})),
        (DB, doc! {"dropIndexes": "c", "index": "a_1"}),
        (
            DB,
            doc! {"collMod": "c", "index": {"name": "a_1", "hidden": true}},
        ),
        (
            "admin",
            doc! {"renameCollection": format!("{DB}.c"), "to": format!("{DB}.d")},
        ),
        (DB, aggregate(out)),
        (DB, aggregate(merge)),
    ]
}

fn set_up() -> World {
    let mut world = World::new(Reaper::On);
    world.insert("c", [doc! {"_id": 0, "n": 0}]);
    world.insert("s", [doc! {"_id": 0, "n": 7}]);
    world.index("c", doc! {"key": {"a": 1}});
    world
}

/// Waits for as long as a statement may last.
fn without_lock_timeout(world: &mut World) {
    world.run(doc! {"setParameter": 1, "maxTransactionLockRequestTimeoutMillis": -1});
}

fn succeed(client: &mut Client, command: Document) {
    let reply = client.command(DB, command).unwrap();
    assert_eq!(failure(&reply), None, "{reply}");
}

/// Returns the numbers of the operations that are marked as waiting.
fn marked(world: &mut World) -> Vec<i64> {
    let current = doc! {"currentOp": 1, "command.comment": "waits"};
    let reply = world.client.command("admin", current).unwrap();
    let operations = reply.get_array("inprog").unwrap().iter();
    operations
        .map(|operation| {
            let operation = operation.as_document().unwrap();
            operation.get("opid").and_then(int).unwrap()
        })
        .collect()
}

fn wait_until(world: &mut World, mut is_so: impl FnMut(&mut World) -> bool, what: &str) {
    let began = monotonic();
    while !is_so(world) {
        assert!(monotonic() - began < Duration::from_secs(60), "{what}");
    }
}

/// Sends a command that has to wait, and ends it early.
fn end_early(world: &mut World, database: &str, mut command: Document, ending: Ending) {
    let what = format!("{ending:?}: {command}");
    command.insert("comment", "waits");
    command.insert("lsid", lsid(WAITING));
    if matches!(ending, Ending::MaxTime) {
        command.insert("maxTimeMS", 100);
    }
    let mut client = world.connect();
    client.send(database, command).unwrap();
    if !matches!(ending, Ending::MaxTime) {
        wait_until(world, |world| !marked(world).is_empty(), &what);
    }
    let code = match ending {
        Ending::HangUp => None,
        Ending::KillOp => {
            let kill = doc! {"killOp": 1, "op": marked(world)[0]};
            world.client.command("admin", kill).unwrap();
            Some(11_601)
        }
        Ending::KillSessions => {
            world.run(doc! {"killSessions": [lsid(WAITING)]});
            Some(11_601)
        }
        Ending::MaxTime => Some(50),
    };
    if let Some(code) = code {
        let reply = client.receive().unwrap();
        assert_eq!(failure(&reply).map(|(code, _)| code), Some(code), "{what}");
    }
    drop(client);
    wait_until(world, |world| marked(world).is_empty(), &what);
}

#[test]
fn a_change_that_ends_early_lets_transactions_go_on() {
    for (database, command) in commands() {
        let mut world = set_up();
        let mut client = world.connect();
        let write = doc! {"update": "c", "updates": [{"q": {"_id": 0}, "u": {"$inc": {"n": 1}}}]};
        succeed(&mut client, inside(write, 1, 1, true));
        for (n, ending) in (2..).zip(ENDINGS) {
            end_early(&mut world, database, command.clone(), ending);
            // The transaction is open, and others begin.
            succeed(&mut client, inside(doc! {"find": "c"}, 1, 1, false));
            succeed(&mut client, inside(doc! {"find": "c"}, n, 1, true));
            let listed = world.rows(doc! {"listCollections": 1, "nameOnly": true});
            let mut names: Vec<_> = listed
                .iter()
                .map(|c| c.get_str("name").unwrap().to_owned())
                .collect();
            names.sort();
            assert_eq!(names, ["c", "s"], "{ending:?}: {command}");
            let indexes = world.rows(doc! {"listIndexes": "c"});
            assert_eq!(indexes.len(), 2, "{ending:?}: {command}");
            assert!(indexes[1].get("hidden").is_none(), "{ending:?}: {command}");
        }
        let commit = inside(doc! {"commitTransaction": 1}, 1, 1, false);
        let reply = client.command("admin", commit).unwrap();
        assert_eq!(failure(&reply), None, "{command}");
        let rows = world.rows(doc! {"find": "c"});
        assert_eq!(rows, [doc! {"_id": 0, "n": 1}], "{command}");
    }
}

#[test]
fn a_statement_that_waits_for_a_change_ends_with_its_client() {
    for ending in ENDINGS {
        let mut world = set_up();
        without_lock_timeout(&mut world);
        let mut client = world.connect();
        succeed(&mut client, inside(doc! {"find": "c"}, 1, 1, true));
        let mut changing = world.connect();
        changing.send(DB, doc! {"drop": "c"}).unwrap();
        // It has begun to wait when no other transaction may use the name.
        let mut other = world.connect();
        wait_until(
            &mut world,
            |world| {
                let asked = doc! {"currentOp": 1, "command.drop": "c"};
                let reply = world.client.command("admin", asked).unwrap();
                !reply.get_array("inprog").unwrap().is_empty()
            },
            "the change waits",
        );
        succeed(&mut other, inside(doc! {"find": "s"}, WAITING, 1, true));
        let statement = inside(doc! {"find": "c"}, WAITING, 1, false);
        end_early(&mut world, DB, statement, ending);
        // Its transaction has ended with it, so the other one is all that the change waits for.
        let back = inside(doc! {"find": "s"}, WAITING, 1, false);
        let reply = other.command(DB, back).unwrap();
        let (code, _) = failure(&reply).unwrap();
        assert_eq!(code, 251, "{ending:?}");
        let abort = inside(doc! {"abortTransaction": 1}, 1, 1, false);
        client.command("admin", abort).unwrap();
        let reply = changing.receive().unwrap();
        assert_eq!(failure(&reply), None, "{ending:?}");
        crate::leftovers::wait_until_nothing_is_left(&mut world);
    }
}

/// A change waits no longer than the transaction may last.
#[test]
fn a_transaction_whose_time_is_over_lets_a_change_go_on() {
    for is_waiting in [false, true] {
        let mut world = set_up();
        without_lock_timeout(&mut world);
        let [mut first, mut second] = [world.connect(), world.connect()];
        succeed(&mut first, inside(doc! {"find": "c"}, 1, 1, true));
        succeed(&mut second, inside(doc! {"find": "s"}, 2, 1, true));
        let mut changes = [world.connect(), world.connect()];
        for (change, name) in changes.iter_mut().zip(["c", "s"]) {
            change.send(DB, doc! {"drop": name}).unwrap();
        }
        wait_until(
            &mut world,
            |world| {
                let asked = doc! {"currentOp": 1, "waitingForLock": true};
                let reply = world.client.command("admin", asked).unwrap();
                reply.get_array("inprog").unwrap().len() == 2
            },
            "both changes wait",
        );
        if is_waiting {
            // Each transaction waits for the change that waits for the other one.
            first
                .send(DB, inside(doc! {"find": "s"}, 1, 1, false))
                .unwrap();
            second
                .send(DB, inside(doc! {"find": "c"}, 2, 1, false))
                .unwrap();
            wait_until(
                &mut world,
                |world| {
                    let asked = doc! {"currentOp": 1, "waitingForLock": true};
                    let reply = world.client.command("admin", asked).unwrap();
                    reply.get_array("inprog").unwrap().len() == 4
                },
                "all wait",
            );
        }
        world.clock.set(Millis(world.now() + 61_000));
        for change in &mut changes {
            let reply = change.receive().unwrap();
            assert_eq!(failure(&reply), None, "{reply}");
        }
        if is_waiting {
            for client in [&mut first, &mut second] {
                let reply = client.receive().unwrap();
                let code = failure(&reply).map(|(code, _)| code);
                // The other transaction may end first. Then the statement goes on.
                assert!(matches!(code, None | Some(290 | 251)), "{reply}");
            }
        }
        crate::leftovers::wait_until_nothing_is_left(&mut world);
    }
}
