//! Several connections write and read while the clock runs and is also moved forward.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;

use bson::{Bson, Document, doc};
use sundown::clock::Clock;

use crate::ok;
use crate::support::client::Client;
use crate::support::dice::Dice;
use crate::support::world::{Reaper, World, batch, int};

/// The facts about one version of one document: its `_ts` is between these two instants.
#[derive(Clone, Copy)]
struct Written {
    after: i64,
    before: i64,
    ttl: i64,
}

/// Everything that the workers share.
struct Shared {
    clock: Clock,
    /// (document, version) -> when it was written. Added when the write is acknowledged.
    known: Mutex<HashMap<(i64, i64), Written>>,
    /// Increments of the shared counters that were acknowledged.
    counted: AtomicI64,
    ticks: mpsc::Sender<()>,
}

// === impl Shared ===

impl Shared {
    /// Checks that no row of a reply had already expired when its command was sent.
    fn examine(&self, rows: &[Document], sent: i64, what: &str) {
        let known = self.known.lock().unwrap();
        for row in rows {
            let (Some(id), Some(version)) =
                (row.get("_id").and_then(int), row.get("v").and_then(int))
            else {
                continue;
            };
            if let Some(written) = known.get(&(id, version)) {
                let end = written.before + written.ttl * 1000;
                assert!(
                    sent < end,
                    "{what}: {row} had ended at {end} at the latest, {} ms before the command was sent",
                    sent - end
                );
            }
        }
    }
}

/// One connection: writes its own documents and reads all documents.
fn worker(nth: i64, mut client: Client, shared: &Shared, operations: u64) -> i64 {
    let mut dice = Dice(0x9e37_79b9 + nth as u64);
    let mut mine: Vec<(i64, i64)> = Vec::new();
    let mut next = nth * 1_000_000;
    let mut counted = 0;
    for operation in 0..operations {
        if operation % 8 == 0 {
            let _ = shared.ticks.send(());
        }
        let sent = shared.clock.now().0;
        match dice.below(12) {
            // A new document, or a new version of an own one. Both start a new lifetime.
            0..=2 => {
                let ttl = 1 + dice.below(3) as i64;
                let update = dice.below(2) == 0;
                let (id, version, reply) = match mine.last().copied().filter(|_| update) {
                    Some((id, version)) => {
                        let how = if dice.below(2) == 0 {
                            doc! {"$set": {"v": version + 1, "ttl": ttl}}
                        } else {
                            doc! {"v": version + 1, "ttl": ttl, "owner": nth, "k": id % 7}
                        };
                        let command =
                            doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": how}]};
                        (id, version + 1, ok(&mut client, command))
                    }
                    None => {
                        next += 1;
                        let document = doc! {"_id": next, "v": 0, "ttl": ttl, "owner": nth, "k": next % 7, "pad": "x".repeat(dice.below(200) as usize)};
                        (
                            next,
                            0,
                            ok(&mut client, doc! {"insert": "c", "documents": [document]}),
                        )
                    }
                };
                let acknowledged = shared.clock.now().0;
                if reply.get("n").and_then(int) == Some(1) {
                    shared.known.lock().unwrap().insert(
                        (id, version),
                        Written {
                            after: sent,
                            before: acknowledged,
                            ttl,
                        },
                    );
                    mine.retain(|(known, _)| *known != id);
                    mine.push((id, version));
                } else {
                    // The document had expired meanwhile. The known facts must allow that.
                    let known = shared.known.lock().unwrap()[&(id, version - 1)];
                    assert!(
                        acknowledged >= known.after + known.ttl * 1000,
                        "{id} was not found before its end"
                    );
                    mine.retain(|(known, _)| *known != id);
                }
            }
            // An own document: visible before its end, gone after it.
            3..=5 => {
                let Some(&(id, version)) = mine.get(dice.below(mine.len().max(1) as u64) as usize)
                else {
                    continue;
                };
                let reply = ok(&mut client, doc! {"find": "c", "filter": {"_id": id}});
                let (rows, ..) = batch(&reply);
                shared.examine(&rows, sent, "find by _id");
                let received = shared.clock.now().0;
                let known = shared.known.lock().unwrap()[&(id, version)];
                if rows.is_empty() {
                    assert!(
                        received >= known.after + known.ttl * 1000,
                        "{id} is gone {} ms before its end",
                        known.after + known.ttl * 1000 - received
                    );
                    mine.retain(|(known, _)| *known != id);
                } else {
                    assert_eq!(
                        rows[0].get("v").and_then(int),
                        Some(version),
                        "an acknowledged write is lost"
                    );
                }
            }
            6 => {
                let reply = ok(
                    &mut client,
                    doc! {"find": "c", "filter": {"k": dice.below(7) as i64}, "batchSize": 20},
                );
                read_all(&mut client, reply, sent, shared, "find by index");
            }
            7 => {
                let reply = ok(
                    &mut client,
                    doc! {"find": "c", "filter": {}, "sort": {"pad": 1}, "batchSize": 20},
                );
                read_all(&mut client, reply, sent, shared, "find and sort");
            }
            8 => {
                let reply = ok(
                    &mut client,
                    doc! {"aggregate": "c", "pipeline": [{"$match": {"owner": nth}}, {"$sort": {"k": -1}}, {"$project": {"v": 1}}], "cursor": {}},
                );
                read_all(&mut client, reply, sent, shared, "aggregate");
            }
            // No document has this owner.
            9 => {
                let reply = ok(
                    &mut client,
                    doc! {"delete": "c", "deletes": [{"q": {"owner": -1, "ttl": {"$lt": 9}}, "limit": 0}]},
                );
                assert_eq!(reply.get("n").and_then(int), Some(0));
            }
            // Counters that all connections increment.
            10 => {
                let reply = ok(
                    &mut client,
                    doc! {"update": "counters", "updates": [{"q": {"_id": dice.below(3) as i64}, "u": {"$inc": {"n": 1}}, "upsert": true}]},
                );
                assert_eq!(reply.get("n").and_then(int), Some(1));
                shared.counted.fetch_add(1, Ordering::Relaxed);
            }
            // A counter of this connection.
            _ => {
                let reply = ok(
                    &mut client,
                    doc! {"findAndModify": "counters", "query": {"_id": format!("own {nth}")}, "update": {"$inc": {"n": 1}}, "upsert": true, "new": true},
                );
                counted += 1;
                let n = reply.get_document("value").unwrap().get("n").and_then(int);
                assert_eq!(n, Some(counted), "an acknowledged write is lost");
            }
        }
    }
    counted
}

fn read_all(client: &mut Client, reply: Document, mut sent: i64, shared: &Shared, what: &str) {
    let mut reply = reply;
    loop {
        let (rows, id, collection) = batch(&reply);
        shared.examine(&rows, sent, what);
        if id == 0 {
            return;
        }
        sent = shared.clock.now().0;
        reply = ok(
            client,
            doc! {"getMore": id, "collection": collection, "batchSize": 30},
        );
    }
}

/// Several connections while the clock runs and is also moved forward. Settings change meanwhile.
#[test]
fn no_reply_holds_an_ended_document_and_no_write_is_lost() {
    let clock = Clock::system();
    let mut world = World::with(Reaper::On, clock.clone(), |_| {});
    world.run(doc! {"create": "c", "defaultTtl": -1});
    world.index("c", doc! {"key": {"k": 1, "owner": 1}});
    world.run(doc! {"create": "counters", "defaultTtl": 86_400 * 90});
    let (ticks, ticked) = mpsc::channel();
    let shared = Arc::new(Shared {
        clock: clock.clone(),
        known: Mutex::default(),
        counted: AtomicI64::new(0),
        ticks,
    });
    let over = Arc::new(AtomicBool::new(false));
    let pusher = {
        let (clock, over) = (clock.clone(), Arc::clone(&over));
        let mut client = world.connect();
        thread::spawn(move || {
            let mut dice = Dice(77);
            let mut ticks = 0;
            while ticked.recv().is_ok() && !over.load(Ordering::Relaxed) {
                ticks += 1;
                clock.advance(dice.below(40) as i64);
                if ticks % 50 == 0 {
                    // Documents with their own ttl are not affected.
                    let default = [-1, 1_000, 2_000_000][dice.below(3) as usize];
                    ok(&mut client, doc! {"collMod": "c", "defaultTtl": default});
                }
                if ticks % 70 == 0 {
                    let on = dice.below(2) == 0;
                    client
                        .command("admin", doc! {"setParameter": 1, "ttlMonitorEnabled": on})
                        .unwrap();
                }
                if ticks % 90 == 0 {
                    ok(
                        &mut client,
                        doc! {"createIndexes": "c", "indexes": [{"key": {"v": 1}, "name": "v"}]},
                    );
                    ok(&mut client, doc! {"dropIndexes": "c", "index": "v"});
                }
            }
        })
    };
    let workers: Vec<_> = (0..4)
        .map(|nth| {
            let client = world.connect();
            let shared = Arc::clone(&shared);
            thread::spawn(move || worker(nth, client, &shared, 1_500))
        })
        .collect();
    let own: Vec<i64> = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .collect();
    over.store(true, Ordering::Relaxed);
    let counted = shared.counted.load(Ordering::Relaxed);
    drop(shared);
    pusher.join().unwrap();
    let rows = world.rows(doc! {"find": "counters"});
    let n = |id: Bson| {
        rows.iter()
            .find(|row| row.get("_id") == Some(&id))
            .and_then(|row| row.get("n"))
            .and_then(int)
            .unwrap_or(0)
    };
    assert_eq!(
        (0..3).map(|id| n(Bson::Int64(id))).sum::<i64>(),
        counted,
        "an acknowledged write is lost"
    );
    for (nth, counted) in own.into_iter().enumerate() {
        assert_eq!(
            n(Bson::String(format!("own {nth}"))),
            counted,
            "an acknowledged write is lost"
        );
    }
}
