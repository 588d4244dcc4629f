//! The clock moves back and forth while commands run.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;

use bson::doc;
use sundown::clock::Clock;

use crate::ok;
use crate::support::dice::Dice;
use crate::support::world::{Reaper, World, batch, int};

/// The clock moves back and forth while commands run. Documents that live for ninety days stay visible, and no command
/// waits forever.
#[test]
fn time_goes_back_while_commands_run() {
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
                        // Short-lived documents that reuse the same `_id`s.
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

/// If one reply shows that a document is gone, no later reply contains it, while the clock moves back and forth and the
/// default changes. A document is gone if its insert was acknowledged before a find of all documents was sent, and the
/// reply does not contain it.
#[test]
fn no_document_comes_back_while_time_moves_back_and_forth() {
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
    // The documents whose insert was acknowledged, and those that were found to be gone.
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
