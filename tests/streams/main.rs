//! Change streams and transactions beside a genuine replica set. The same random writes on both servers must give the same
//! events, whatever the stream follows, wherever it begins, and random statements of several transactions the same replies.
//! Runs if `MONGOD` names the binary of a mongod (`MONGOD=$(tests/mongod.sh path)`).
//!
//! ```text
//! MONGOD=$(tests/mongod.sh path) cargo test --test streams                                  # short, always the same
//! MONGOD=$(tests/mongod.sh path) SEED=7 ROUNDS=1000 cargo test --test streams -- --ignored events        # for an hour
//! MONGOD=$(tests/mongod.sh path) SEED=7 ROUNDS=1000 cargo test --test streams -- --ignored transactions
//! ```

#![allow(clippy::unwrap_used)] // a panic says where

#[path = "../differential/random.rs"]
mod random;
#[path = "../support/mod.rs"]
mod support;

mod events;
mod script;
mod sides;
mod transactions;

use std::ops::Range;

use random::Random;
use script::Step;
use sides::{Sides, Stream};
use support::cluster::{Cluster, Kind};

#[tokio::test(flavor = "multi_thread")]
async fn events_are_those_of_mongod() {
    compare("events_are_those_of_mongod", round, 1..26).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_those_of_mongod() {
    compare(
        "transactions_are_those_of_mongod",
        transactions::round,
        1..101,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "an hour: ROUNDS and SEED say how many and which"]
async fn events_are_those_of_mongod_for_long() {
    compare("events_are_those_of_mongod_for_long", round, chosen()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "an hour: ROUNDS and SEED say how many and which"]
async fn transactions_are_those_of_mongod_for_long() {
    let test = "transactions_are_those_of_mongod_for_long";
    compare(test, transactions::round, chosen()).await;
}

/// Returns the seeds of a long run.
fn chosen() -> Range<u64> {
    let number = |name: &str, default: u64| {
        let set = std::env::var(name).ok();
        set.map_or(default, |set| set.parse().unwrap())
    };
    let (seed, rounds) = (number("SEED", 1), number("ROUNDS", 1_000));
    seed..seed + rounds
}

async fn compare(test: &str, round: fn(&mut Sides, u64), seeds: Range<u64>) {
    let Some(cluster) = Cluster::start(Kind::Set(1), test).await else {
        return;
    };
    let mut sides = Sides::start(cluster.address()).await;
    for seed in seeds {
        tokio::task::block_in_place(|| round(&mut sides, seed));
    }
}

fn round(sides: &mut Sides, seed: u64) {
    let mut random = Random::new(seed);
    let database = format!("round{seed}");
    let streams: Vec<Stream> = (0..4)
        .map(|_| Stream::random(&mut random, &database))
        .collect();
    // The expanded events of collections that exist already are told, too.
    for step in script::prepare(&mut random, &database) {
        sides.run(&step);
    }
    let opened: Vec<_> = streams
        .iter()
        .map(|stream| sides.open(stream, None))
        .collect();
    let steps: Vec<Step> = script::random(&mut random, &database);
    for step in &steps {
        sides.run(step);
    }
    sides.names_moved = steps.iter().any(Step::moves_names);
    for (stream, opened) in streams.iter().zip(opened) {
        let told = sides.drain(stream, opened);
        let context = || format!("SEED={seed} ROUNDS=1: {stream:?}\n{}", listed(&steps));
        events::check_same(&told, &context);
        // Not from events that end a stream.
        let places: Vec<usize> = (0..told.len())
            .filter(|at| told.kind(*at) != "invalidate")
            .collect();
        for _ in 0..3.min(places.len()) {
            let at = places[random.below(places.len())];
            let start = told.start(at, &mut random);
            let opened = sides.open(stream, Some(&start));
            let resumed = sides.drain(stream, opened);
            let again = || format!("resumed with {start:?}\n{}", context());
            events::check_same(&resumed, &again);
            events::check_resumed(&told, &resumed, &start, &again);
        }
    }
    sides.run(&Step::drop_database(&database));
}

fn listed(steps: &[Step]) -> String {
    let lines: Vec<String> = steps.iter().map(|step| format!("  {step:?}")).collect();
    lines.join("\n")
}
