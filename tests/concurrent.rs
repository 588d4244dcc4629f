//! Many at once: no reply holds a document that has ended, no acknowledged write is lost, counts stay exact, memory stays
//! bounded. What takes minutes is run by name, in a release build: `cargo test --release --test concurrent -- --ignored`.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bson::{Bson, Document, doc};
use sundown::clock::{Clock, monotonic};
use support::binary::Binary;
use support::client::Client;
use support::world::{DB, Reaper, World, batch, int};

/// Numbers that need not be good, only different.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn ok(client: &mut Client, command: Document) -> Document {
    let shown = command.to_string();
    let reply = client.command(DB, command).unwrap();
    let good = reply.get("ok").and_then(int) == Some(1) && !reply.contains_key("writeErrors");
    assert!(good, "{}\n  {reply}", &shown[..shown.len().min(500)]);
    reply
}

/// What is known about one version of one document: `_ts` lies between these moments.
#[derive(Clone, Copy)]
struct Written {
    after: i64,
    before: i64,
    ttl: i64,
}

/// Everything that the workers share.
struct Shared {
    clock: Clock,
    /// (document, version) -> when it was written. Known once it is acknowledged.
    known: Mutex<HashMap<(i64, i64), Written>>,
    /// Increments of the shared counters that were acknowledged.
    counted: AtomicI64,
    ticks: mpsc::Sender<()>,
}

// === impl Shared ===

impl Shared {
    /// No row of a reply to a command that was sent at `sent` had ended by then.
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

/// One connection: writes documents of its own, reads everybody's.
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
            // A new document, or a new version of one of mine: both begin a new life.
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
                    // It had ended meanwhile; that must be possible by what is known.
                    let known = shared.known.lock().unwrap()[&(id, version - 1)];
                    assert!(
                        acknowledged >= known.after + known.ttl * 1000,
                        "{id} was not found before its end"
                    );
                    mine.retain(|(known, _)| *known != id);
                }
            }
            // One of mine: there before its end, gone after it.
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
            // Nobody's: no document that lives has this owner.
            9 => {
                let reply = ok(
                    &mut client,
                    doc! {"delete": "c", "deletes": [{"q": {"owner": -1, "ttl": {"$lt": 9}}, "limit": 0}]},
                );
                assert_eq!(reply.get("n").and_then(int), Some(0));
            }
            // Counters that everybody raises.
            10 => {
                let reply = ok(
                    &mut client,
                    doc! {"update": "counters", "updates": [{"q": {"_id": dice.below(3) as i64}, "u": {"$inc": {"n": 1}}, "upsert": true}]},
                );
                assert_eq!(reply.get("n").and_then(int), Some(1));
                shared.counted.fetch_add(1, Ordering::Relaxed);
            }
            // A counter of my own.
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

/// Several connections under a clock that runs and is pushed; settings change meanwhile.
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
                    // Documents with a ttl of their own do not care.
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

/// Time goes back and forth under running commands: what lives for ninety days is there all the time, and nobody waits
/// for ever.
#[test]
fn time_goes_back_under_running_commands() {
    let clock = Clock::system();
    let mut world = World::with(Reaper::On, clock.clone(), |_| {});
    world.run(doc! {"create": "c", "defaultTtl": 90 * 86_400});
    world.index("c", doc! {"key": {"k": 1}});
    world.insert("c", (0..20).map(|id| doc! {"_id": id, "k": id % 5, "n": 0}));
    let over = Arc::new(AtomicBool::new(false));
    let (ticks, ticked) = mpsc::sync_channel(1);
    let mover = {
        let over = Arc::clone(&over);
        thread::spawn(move || {
            let mut dice = Dice(5);
            while ticked.recv().is_ok() && !over.load(Ordering::Relaxed) {
                clock.advance(dice.below(60_000) as i64);
                clock.advance(-(dice.below(60_000) as i64));
            }
        })
    };
    let workers: Vec<_> = (0..4u64)
        .map(|nth| {
            let mut client = world.connect();
            let ticks = ticks.clone();
            thread::spawn(move || {
                let mut dice = Dice(nth + 1);
                let mut counted = 0;
                for _ in 0..800 {
                    let _ = ticks.try_send(());
                    match dice.below(4) {
                        0 => {
                            let found = ok(&mut client, doc! {"find": "c", "filter": {"n": {"$exists": true}}, "sort": {"k": 1}});
                            assert_eq!(batch(&found).0.len(), 20);
                        }
                        // Short lives that come and go under the same _ids.
                        1 => {
                            let id = 1_000 + dice.below(10) as i64;
                            ok(&mut client, doc! {"update": "c", "updates": [{"q": {"_id": id}, "u": {"$set": {"k": 9, "ttl": 1 + dice.below(30) as i32}}, "upsert": true}]});
                        }
                        _ => {
                            let done = ok(&mut client, doc! {"update": "c", "updates": [{"q": {"_id": dice.below(20) as i64}, "u": {"$inc": {"n": 1}}}]});
                            assert_eq!(done.get("nModified").and_then(int), Some(1));
                            counted += 1;
                        }
                    }
                }
                counted
            })
        })
        .collect();
    drop(ticks);
    let counted: i64 = workers
        .into_iter()
        .map(|worker| worker.join().unwrap())
        .sum();
    over.store(true, Ordering::Relaxed);
    mover.join().unwrap();
    let rows = world.rows(doc! {"find": "c", "filter": {"n": {"$exists": true}}});
    assert_eq!(
        rows.iter()
            .filter_map(|row| row.get("n"))
            .filter_map(int)
            .sum::<i64>(),
        counted
    );
}

/// What one reply showed to be gone, no later one holds, while time goes to and fro and the default changes. A document is gone
/// if its insert was acknowledged before a find of all was sent, and it is not in the reply.
#[test]
fn nothing_comes_back_while_time_goes_to_and_fro() {
    let clock = Clock::system();
    let mut world = World::with(Reaper::On, clock.clone(), |_| {});
    world.run(doc! {"create": "c", "defaultTtl": 40});
    let (ticks, ticked) = mpsc::sync_channel(1);
    let mover = {
        let mut client = world.connect();
        thread::spawn(move || {
            let mut dice = Dice(5);
            while ticked.recv().is_ok() {
                clock.advance(dice.below(30_000) as i64);
                if dice.below(3) == 0 {
                    let seconds = [20, 40, -1][dice.below(3) as usize];
                    ok(&mut client, doc! {"collMod": "c", "defaultTtl": seconds});
                }
                clock.advance(-(dice.below(30_000) as i64));
            }
        })
    };
    // Acknowledged, and found to be gone.
    let known: Arc<Mutex<(HashSet<i64>, HashSet<i64>)>> = Arc::default();
    let workers: Vec<_> = (0..4_i64)
        .map(|nth| {
            let mut client = world.connect();
            let (ticks, known) = (ticks.clone(), Arc::clone(&known));
            thread::spawn(move || {
                let mut dice = Dice(nth as u64 + 1);
                let mut next = nth * 1_000_000;
                for _ in 0..400 {
                    let _ = ticks.try_send(());
                    if dice.below(2) == 0 {
                        next += 1;
                        let mut document = doc! {"_id": next};
                        if dice.below(2) == 0 {
                            document.insert("ttl", 1 + dice.below(30) as i32);
                        }
                        ok(&mut client, doc! {"insert": "c", "documents": [document]});
                        known.lock().unwrap().0.insert(next);
                        continue;
                    }
                    let (there, gone) = known.lock().unwrap().clone();
                    let all = ok(&mut client, doc! {"find": "c", "batchSize": 100_000});
                    let rows = batch(&all).0;
                    let found: HashSet<i64> =
                        rows.iter().filter_map(|row| int(&row["_id"])).collect();
                    let back: Vec<&i64> = found.intersection(&gone).collect();
                    assert!(back.is_empty(), "{back:?} came back");
                    let missing = there.difference(&found).copied();
                    known.lock().unwrap().1.extend(missing);
                }
            })
        })
        .collect();
    drop(ticks);
    for worker in workers {
        worker.join().unwrap();
    }
    mover.join().unwrap();
    let (there, gone) = &*known.lock().unwrap();
    let enough = there.len() > 500 && gone.len() > 50;
    assert!(enough, "{} of {} are gone", gone.len(), there.len());
}

/// Documents with ends at 50 different seconds wait for a reaper that is switched off; counts are exact all the time.
fn exact_counts(documents: i64) {
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    // One in a hundred stays, one in ten inherits, the others end between 11 and 60 seconds.
    let ttl = |id: i64| match id % 100 {
        0 => -1,
        n if n % 10 == 1 => 10,
        n => 11 + (id / 100 + n) % 50,
    };
    for from in (0..documents).step_by(5_000) {
        world.insert(
            "c",
            (from..(from + 5_000).min(documents)).map(|id| match ttl(id) {
                10 => doc! {"_id": id},
                ttl => doc! {"_id": id, "ttl": ttl},
            }),
        );
    }
    for (added, second) in (0..).zip([0, 9, 10, 11, 12, 30, 59, 60, 61, 100]) {
        for offset in [-1, 0, 1] {
            world.at(second * 1000 + offset);
            let living = (0..documents)
                .filter(|&id| ttl(id) == -1 || second * 1000 + offset < ttl(id) * 1000)
                .count() as i64
                + added;
            let counted = world.run(doc! {"count": "c"});
            assert_eq!(
                counted.get("n").and_then(int),
                Some(living),
                "{second} s {offset} ms"
            );
            let stats = world.run(doc! {"collStats": "c"});
            assert_eq!(
                stats.get("count").and_then(int),
                Some(living),
                "{second} s {offset} ms"
            );
        }
        // A few newcomers that stay, one of them under the _id of somebody who may have ended.
        world.insert("c", [doc! {"_id": documents + second, "ttl": -1}]);
    }
    assert!(world.ttl_metric("pendingDocuments") > documents * 9 / 10);
    assert_eq!(world.ttl_metric("deletedDocuments"), 0);
}

#[test]
fn counts_are_exact_while_the_ended_wait() {
    exact_counts(200_000);
}

#[test]
#[ignore = "long: run by name, in a release build"]
fn counts_are_exact_while_a_million_wait() {
    exact_counts(1_000_000);
}

/// A hot document under a long default leaves nothing behind per write.
#[test]
#[ignore = "minutes: run by name, in a release build"]
fn ten_million_increments_leave_memory_where_it_was() {
    const TOTAL: u64 = 10_000_000;
    const FIRST: u64 = 100_000;
    const BATCH: u64 = 1_000;
    let server = Binary::start();
    let mut client = server.connect();
    ok(&mut client, doc! {"create": "c", "defaultTtl": 90 * 86_400});
    let documents: Vec<Document> = (0..1_000)
        .map(|id| doc! {"_id": id, "n": 0i64, "pad": "x".repeat(100)})
        .collect();
    ok(&mut client, doc! {"insert": "c", "documents": documents});
    let mut after_first = 0;
    let mut done = 0;
    while done < TOTAL {
        let updates: Vec<Document> = (0..BATCH).map(|nth| doc! {"q": {"_id": ((done + nth * 7) % 1_000) as i32}, "u": {"$inc": {"n": 1}}}).collect();
        let reply = ok(&mut client, doc! {"update": "c", "updates": updates});
        assert_eq!(reply.get("nModified").and_then(int), Some(BATCH as i64));
        done += BATCH;
        if done == FIRST {
            after_first = server.resident();
        }
    }
    let at_the_end = server.resident();
    println!("resident after {FIRST}: {after_first}, after {TOTAL}: {at_the_end}");
    assert!(
        at_the_end <= after_first + after_first / 10,
        "{after_first} after {FIRST}, {at_the_end} after {TOTAL}"
    );
    let rows = batch(&ok(&mut client, doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": null, "n": {"$sum": "$n"}}}], "cursor": {}})).0;
    assert_eq!(rows[0].get("n").and_then(int), Some(TOTAL as i64));
}

/// How many documents the memory test takes: `DOCUMENTS=10000000` for the whole figure.
fn documents() -> i64 {
    std::env::var("DOCUMENTS").map_or(1_000_000, |n| n.parse().unwrap())
}

fn fill(client: &mut Client, documents: i64, living: impl Fn(i64) -> bool, all: bool) {
    let mut waiting: Vec<Document> = Vec::new();
    let mut flush = |waiting: &mut Vec<Document>| {
        if !waiting.is_empty() {
            ok(
                client,
                doc! {"insert": "c", "documents": std::mem::take(waiting)},
            );
        }
    };
    for id in 0..documents {
        let lives = living(id);
        if lives || all {
            waiting
                .push(doc! {"_id": id, "ttl": if lives { -1 } else { 60 }, "pad": "x".repeat(150)});
        }
        if waiting.len() == 5_000 {
            flush(&mut waiting);
        }
    }
    flush(&mut waiting);
}

/// After a mass expiry and some quiet the server is about as small as one that never had the ended documents.
fn memory_after(living: impl Fn(i64) -> bool + Copy, index: bool) {
    let documents = documents();
    let server = Binary::start();
    let fresh = Binary::start();
    let mut client = server.connect();
    for (server, all) in [(&server, true), (&fresh, false)] {
        let mut client = server.connect();
        ok(&mut client, doc! {"create": "c", "defaultTtl": -1});
        if index {
            ok(
                &mut client,
                doc! {"createIndexes": "c", "indexes": [{"key": {"pad": 1, "_id": 1}, "name": "pad"}]},
            );
        }
        fill(&mut client, documents, living, all);
    }
    let full = server.resident();
    ok(&mut client, doc! {"timeTravel": 1, "advanceSeconds": 61});
    // Thirty seconds of quiet: this is about memory that the allocator gives back in its own time.
    let begin = monotonic();
    let small = loop {
        let (now, bound) = (server.resident(), fresh.resident() * 13 / 10 + (16 << 20));
        if now <= bound || begin.elapsed() > Duration::from_secs(30) {
            break (now, bound);
        }
        thread::sleep(Duration::from_millis(500));
    };
    println!(
        "{documents} documents: full {full}, after {:?} {} of at most {}",
        begin.elapsed(),
        small.0,
        small.1
    );
    assert!(
        small.0 <= small.1,
        "{} bytes are left of {full}, {} would be fine",
        small.0,
        small.1
    );
    let expected = (0..documents).filter(|&id| living(id)).count() as i64;
    let counted = ok(&mut client, doc! {"count": "c"});
    assert_eq!(counted.get("n").and_then(int), Some(expected));
}

#[test]
#[ignore = "a minute: run by name, in a release build"]
fn memory_comes_back_when_nearly_all_end() {
    memory_after(|id| id % 1_000 == 0, false);
}

#[test]
#[ignore = "a minute: run by name, in a release build"]
fn memory_comes_back_when_a_random_tenth_survives() {
    memory_after(
        |id| (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 26,
        false,
    );
    memory_after(
        |id| (id as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xff < 26,
        true,
    );
}
