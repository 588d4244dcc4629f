//! Sends random commands to Sundown and to a real mongod 6.0.5. Their replies, and the contents of their collections
//! afterwards, must be the same.
//!
//! `MONGODB_URI` names the mongod (`tests/mongod.sh start DIR` starts one). Without it nothing is compared, and the test
//! prints a line about that. A long run: `SEED=1 ROUNDS=10000 cargo test --test differential -- --ignored long`; with
//! `ACCEPT=versions` it also shows the known faults. Several runs with seeds of their own may share a mongod. A finding
//! is shortened to a few lines. If they are in a file, `SCRIPT=file cargo test --test differential -- --ignored script`
//! plays them again.
//! [`known`] lists the differences that have a reason.

#![allow(clippy::unwrap_used)] // a panic says where

#[path = "../support/mod.rs"]
mod support;

mod difference;
mod generate;
mod known;
mod pair;
mod random;
mod reply;
mod script;
mod shrink;
mod similar;
mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use bson::Bson;

use difference::Difference;
use pair::{Accepted, Pair, Start};

/// A run ends when it has this many findings.
const ENOUGH: usize = 60;

/// The number of findings with the same codes that are shortened; the others are only counted.
const EXAMPLES: usize = 12;
/// A long run prints its counts after this many commands, because it may be stopped early.
const REPORTED: usize = 10_000;

/// Only a long run can tell which known differences no longer exist.
#[derive(Clone, Copy, PartialEq)]
enum Length {
    Short,
    Long,
}

// === impl Length ===

impl Length {
    /// Returns the number of commands in a round, besides those that fill its collections. Filling them takes mongod as
    /// long as ten commands.
    fn commands(self) -> usize {
        match self {
            Self::Short => 12,
            Self::Long => 40,
        }
    }
}

/// Connects to the servers, if there is a mongod to compare with.
fn servers(test: &str) -> Option<Pair> {
    match std::env::var("MONGODB_URI") {
        Ok(uri) => Some(Pair::new(&uri)),
        Err(_) => {
            // Written directly, because the test harness shows no output of a test that passes.
            let _ = writeln!(
                std::io::stderr(),
                "differential: {test} DID NOT RUN: MONGODB_URI names no mongod (tests/mongod.sh starts one)"
            );
            None
        }
    }
}

/// Plays rounds. Prints each fault once, and how often each known difference occurred.
fn explore(pair: &mut Pair, first: u64, rounds: u64, length: Length) {
    let mut two_faults = 0;
    let mut reported = 0;
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    let mut unexplained: BTreeMap<String, usize> = BTreeMap::new();
    let mut faults: BTreeMap<String, u64> = BTreeMap::new();
    for seed in first..first + rounds {
        let steps = generate::round(seed, length.commands());
        let found = pair.play_on(Start::Emptied, &steps);
        if pair.commands / REPORTED > reported {
            reported = pair.commands / REPORTED;
            summary(pair, two_faults, &unexplained);
        }
        let Some(found) = found else {
            continue;
        };
        let kind = format!("{} {:?} {:?}", found.verb(), found.what, found.codes());
        let times = kinds.entry(kind.clone()).or_insert(0);
        *times += 1;
        if *times > EXAMPLES {
            *unexplained.entry(format!("{kind}, as above")).or_default() += 1;
            continue;
        }
        let counted = (pair.commands, pair.reasons.clone());
        let small = shrink::shrink(pair, found);
        // What was played to shorten the script does not count.
        (pair.commands, pair.reasons) = counted;
        let Some(small) = small else {
            two_faults += 1;
            continue;
        };
        *unexplained.entry(name(&small)).or_default() += 1;
        let name = name(&small);
        faults.entry(name).or_insert_with(|| {
            // Printed at once, because a long run may be stopped early.
            let shown = script::print(&small);
            let _ = writeln!(std::io::stderr(), "\nseed {seed}\n{shown}");
            seed
        });
        if faults.len() >= ENOUGH {
            break;
        }
    }
    let _ = writeln!(
        std::io::stderr(),
        "differential: {} commands, {two_faults} of them wrong in two ways of which each server told another, known differences: {:#?}",
        pair.commands,
        pair.reasons
    );
    summary(pair, two_faults, &unexplained);
    if length == Length::Long {
        // The difference was fixed, or the generator does not reach it.
        for reason in known::reasons().filter(|reason| !pair.reasons.contains_key(reason)) {
            let _ = writeln!(std::io::stderr(), "never met: {reason}");
        }
    }
    assert!(faults.is_empty(), "faults, as shown above: {faults:#?}");
}

/// Prints how many replies agree, and how many kinds of differences there are, with and without those of version.
fn summary(pair: &Pair, two_faults: usize, unexplained: &BTreeMap<String, usize>) {
    let kinds = |version: bool| {
        let reasons = pair.reasons.iter();
        let chosen = reasons.filter(|(reason, _)| pair::is_version(reason) == version);
        chosen.fold((0, 0), |(kinds, times), (_, n)| (kinds + 1, times + n))
    };
    let (versions, by_version) = kinds(true);
    let (others, by_others) = kinds(false);
    let unexplained_times: usize = unexplained.values().sum();
    let share = |differing: usize| 100.0 * (1.0 - differing as f64 / pair.commands.max(1) as f64);
    let differing = by_others + two_faults + unexplained_times;
    let _ = writeln!(
        std::io::stderr(),
        "agree: {:.2} % of {} replies ({:.2} % counting differences of version as such): {} the same, {by_version} of \
         version, {} explained otherwise, {unexplained_times} unexplained; distinct differences: {} unexplained, {others} \
         explained otherwise, {versions} of version",
        share(differing),
        pair.commands,
        share(differing + by_version),
        pair.commands.saturating_sub(differing + by_version),
        by_others + two_faults,
        unexplained.len(),
    );
}

/// Returns a name for a finding: the remaining operators and the codes. Findings with the same name most likely have the
/// same cause.
fn name(fault: &Difference) -> String {
    let mut words = BTreeSet::new();
    for step in &fault.steps {
        operators(&Bson::Document(step.command.clone()), &mut words);
    }
    let verb = fault.command().keys().next();
    format!("{verb:?} {:?} {:?} {words:?}", fault.what, fault.codes())
}

fn operators(value: &Bson, into: &mut BTreeSet<String>) {
    match value {
        Bson::Document(document) => {
            for (name, value) in document {
                if name.starts_with('$') {
                    into.insert(name.clone());
                }
                operators(value, into);
            }
        }
        Bson::Array(list) => list.iter().for_each(|value| operators(value, into)),
        _ => {}
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return otherwise;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{name}={text} is no number"))
}

#[test]
fn every_operator_is_sent() {
    generate::check_complete();
}

/// The part that CI runs: always the same commands.
#[test]
fn short() {
    if let Some(mut pair) = servers("short") {
        explore(&mut pair, 1, 150, Length::Short);
    }
}

#[test]
#[ignore = "as long as ROUNDS says; needs a mongod"]
fn long() {
    if let Some(mut pair) = servers("long") {
        if std::env::var("ACCEPT").is_ok_and(|accepted| accepted == "versions") {
            pair.accepted = Accepted::Versions;
        }
        let rounds = number("ROUNDS", 1_000);
        explore(&mut pair, number("SEED", 1), rounds, Length::Long);
    }
}

#[test]
#[ignore = "needs a mongod and SCRIPT=file"]
fn script() {
    let path = std::env::var("SCRIPT").expect("SCRIPT names a file");
    let text = std::fs::read_to_string(&path).unwrap();
    let Some(mut pair) = servers("script") else {
        return;
    };
    // Each paragraph is a script.
    let mut shown = Vec::new();
    for part in text.split("\n\n") {
        let found = pair.play(&script::parse(part));
        shown.extend(found.map(|found| script::print(&found)));
    }
    let _ = writeln!(std::io::stderr(), "known differences: {:#?}", pair.reasons);
    assert!(shown.is_empty(), "\n{}", shown.join("\n"));
}
