//! Random commands and clock moves against a naive model: a plain list of documents, expiry by its definition, and a
//! second, simple implementation of filters. Every reply is compared, with and without indexes, with and without the
//! reaper, with writes by `_id` in one lock hold and with writes that are computed outside the lock.
//!
//! A failure prints its seed and the shortest list of steps that still fails. `MODEL_SEED=n MODEL_STEPS=m` runs one seed
//! again. The long run: `cargo test --release --test model -- --ignored million`.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
pub mod support;

mod change;
mod chaos;
mod expect;
mod matcher;
mod order;
mod random;
mod replies;
mod run;
mod state;
mod steps;

use random::{Crowd, Random};
use run::{Run, Setting};
use steps::Step;
use support::world::{Reaper, genuine_cluster, in_front_of_cluster};

const SETTINGS: [Setting; 6] = [
    setting(true, Reaper::On, false),
    setting(true, Reaper::Off, false),
    setting(false, Reaper::On, false),
    setting(false, Reaper::Off, false),
    setting(true, Reaper::On, true),
    setting(false, Reaper::Off, true),
];

const fn setting(indexes: bool, reaper: Reaper, writes_outside_lock: bool) -> Setting {
    Setting {
        indexes,
        reaper,
        writes_outside_lock,
        two_sundowns: false,
    }
}

/// Plays steps against a new server. Returns the problem and the step that showed it.
fn play(setting: Setting, steps: &[Step]) -> Result<(), (usize, String)> {
    let mut run = Run::new(setting);
    for (at, step) in steps.iter().enumerate() {
        run.step(step).map_err(|problem| (at, problem))?;
    }
    run.finish().map_err(|problem| (steps.len(), problem))
}

/// Generates and plays one step after another, because the next step depends on the existing documents. Returns how many updates
/// were sent to a cluster without predicate.
fn explore(setting: Setting, crowd: Crowd, seed: u64, count: usize) -> i64 {
    let mut random = Random::new(seed, crowd);
    let mut run = Run::new(setting);
    let mut steps: Vec<Step> = Vec::new();
    let mut problem = None;
    while steps.len() < count && problem.is_none() {
        if setting.two_sundowns && random.chance(50) {
            steps.push(Step::Switch);
            run.step(&Step::Switch).expect("it always can");
        }
        let step = steps::generate(&mut random, run.model(), setting.indexes);
        steps.push(step);
        problem = run.step(steps.last().unwrap()).err();
    }
    let Some(problem) = problem.or_else(|| run.finish().err()) else {
        return run.updates_without_predicate();
    };
    let (steps, less) = shrink(setting, steps, problem.clone());
    let shown: Vec<String> = steps.iter().map(ToString::to_string).collect();
    // The shorter list may show another problem.
    panic!(
        "seed {seed}, {setting:?}, {crowd:?}\n{problem}\ncut down:\n{less}\nsteps:\n{}",
        shown.join("\n")
    );
}

/// Removes steps as long as the rest still fails. (With the reaper on, it may not fail every time.)
fn shrink(setting: Setting, steps: Vec<Step>, problem: String) -> (Vec<Step>, String) {
    let Err((at, mut problem)) = play(setting, &steps) else {
        return (steps, format!("{problem}\n(did not happen again)"));
    };
    let mut steps = steps[..(at + 1).min(steps.len())].to_vec();
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut from = 0;
        while from < steps.len() {
            let mut fewer = steps.clone();
            let removed: Vec<Step> = fewer.drain(from..(from + size).min(steps.len())).collect();
            // In front of a cluster a collection that has a default from the beginning is another one.
            let kept = removed.into_iter().filter(steps::creates_with_default);
            let kept: Vec<Step> = kept.collect();
            if kept.len() == size.min(steps.len() - from) {
                from += size;
                continue;
            }
            fewer.splice(from..from, kept);
            match play(setting, &fewer) {
                Err((at, again)) => {
                    fewer.truncate(at + 1);
                    steps = fewer;
                    problem = again;
                }
                Ok(()) => from += size,
            }
        }
        size /= 2;
    }
    (steps, problem)
}

/// Returns how much of a run is played: each command costs far more in front of a cluster, above all of one that syncs.
fn share(rounds: u64, count: usize) -> (u64, usize) {
    match (in_front_of_cluster(), genuine_cluster()) {
        (false, _) => (rounds, count),
        (true, None) => (rounds.min(SETTINGS.len() as u64), count),
        (true, Some(_)) => (rounds.min(3), count.min(250)),
    }
}

/// Returns the seed that `MODEL_SEED` names, or the usual one.
fn seed(usual: u64) -> u64 {
    let named = std::env::var("MODEL_SEED").ok();
    named.map_or(usual, |seed| seed.parse().expect("a number"))
}

fn seeds(crowd: Crowd, first: u64, rounds: u64, count: usize) {
    let (rounds, count) = share(rounds, count);
    if let Ok(seed) = std::env::var("MODEL_SEED") {
        let count = std::env::var("MODEL_STEPS").map_or(count, |n| n.parse().unwrap());
        for setting in SETTINGS {
            explore(setting, crowd, seed.parse().unwrap(), count);
        }
        return;
    }
    let explored = (0..rounds).map(|round| {
        let setting = SETTINGS[(round % SETTINGS.len() as u64) as usize];
        explore(setting, crowd, first + round, count)
    });
    let without_predicate = explored.sum::<i64>();
    assert!(without_predicate > 0 || !in_front_of_cluster());
}

/// 20,000 steps, in two halves that run in parallel.
#[test]
fn ten_thousand() {
    seeds(Crowd::Few, 1, 16, 625);
}

#[test]
fn another_ten_thousand() {
    seeds(Crowd::Few, 1_001, 16, 625);
}

/// The same with collections that fill several segments, once for each setting.
#[test]
fn fifteen_hundred_in_a_crowd() {
    seeds(Crowd::Many, 2_001, SETTINGS.len() as u64, 250);
}

/// Two Sundowns in front of one cluster: commands alternate at random between them, and so do changes of rules.
#[test]
fn two_sundowns_on_one_cluster() {
    if !in_front_of_cluster() {
        return;
    }
    let (rounds, count) = share(4, 625);
    let explored = (0..rounds).map(|round| {
        let setting = Setting {
            two_sundowns: true,
            ..SETTINGS[(round % 4) as usize]
        };
        explore(setting, Crowd::Few, seed(3_001 + round), count)
    });
    // A seed that is named may be one that has none.
    let without_predicate = explored.sum::<i64>();
    assert!(without_predicate > 0 || std::env::var_os("MODEL_SEED").is_some());
}

/// Four clients at once. Half of the seeds compute writes outside the lock.
#[test]
fn eight_thousand_at_once() {
    for (seed, reaper) in [
        (1, Reaper::On),
        (2, Reaper::Off),
        (3, Reaper::On),
        (4, Reaper::Off),
    ] {
        let setting = setting(true, reaper, seed > 2);
        let (_, steps) = share(1, 400);
        chaos::run(setting, Crowd::Few, seed, steps);
        chaos::run(setting, Crowd::Many, seed, steps / 4);
    }
}

#[test]
#[ignore = "minutes: run by name, in a release build"]
fn a_quarter_million_at_once() {
    for seed in 10..60 {
        let reaper = [Reaper::On, Reaper::Off][seed as usize % 2];
        let setting = setting(true, reaper, seed % 4 > 1);
        chaos::run(setting, Crowd::Few, seed, 1_000);
        chaos::run(setting, Crowd::Many, seed, 250);
    }
}

#[test]
#[ignore = "minutes: run by name, in a release build"]
fn million() {
    let threads: Vec<_> = (0..2u64)
        .map(|nth| {
            std::thread::spawn(move || {
                let first = 1_000_000 * (nth + 1);
                seeds(Crowd::Many, first + 500_000, 20, 500);
                seeds(Crowd::Few, first, 250, 2_000);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}
