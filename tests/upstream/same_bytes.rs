//! Random commands on collections without a TTL: through Sundown they get the same replies as straight from the cluster.
//!
//! Each script is played three times on empty collections: straight, through Sundown, and straight again. Where the two
//! straight replies differ (times, random values, ids that the server makes), nothing can be compared.
//!
//! `SEED=n ROUNDS=m` plays other scripts, and more of them.

use std::net::SocketAddr;

use bson::{Bson, Document, doc};

use crate::cluster::{Cluster, Kind};
use crate::generate::{self, Step};
use crate::support::client::Client;

const COMMANDS: usize = 12;
const DATABASE: &str = "same_bytes";

/// Returns whether a result is by chance: mongod hashes the elements of sets with a new seed each time, an explain tells how long
/// it took, and who knows what is done in time.
fn is_by_chance(command: &Document) -> bool {
    let text = command.to_string();
    let has = |names: &[&str]| names.iter().any(|name| text.contains(name));
    let is_timed = has(&["explain"]) && !has(&["queryPlanner"]);
    let excludes = has(&["explain"]) && has(&["$project", "$unset"]);
    let sets = [
        "$setUnion",
        "$setIntersection",
        "$setDifference",
        "$addToSet",
    ];
    is_timed || excludes || has(&["maxTimeMS"]) || has(&sets)
}

/// Returns whether a command gives a collection a TTL, on dates.
fn has_rule(command: &Document) -> bool {
    command.to_string().contains("expireAfterSeconds")
}

/// Plays a script. Returns all commands with their replies.
fn play(address: SocketAddr, steps: &[Step]) -> Vec<(Document, Document)> {
    let mut client = Client::connect(address).unwrap();
    client.command(DATABASE, doc! {"dropDatabase": 1}).unwrap();
    let mut replies = Vec::new();
    // A text that mongod has shortened may end in the middle of a character.
    let mut ask = |command: &Document| {
        let reply = client.command(DATABASE, command.clone());
        reply.unwrap_or_else(|error| doc! {"unreadable": error.to_string()})
    };
    for step in steps {
        let mut sent = step.command.clone();
        let mut reply = ask(&sent);
        loop {
            let cursor = reply.get_document("cursor").ok();
            let id = cursor.and_then(|cursor| cursor.get_i64("id").ok());
            let namespace = cursor.and_then(|cursor| cursor.get_str("ns").ok());
            let name = namespace.and_then(|ns| Some(ns.split_once('.')?.1.to_owned()));
            replies.push((sent, reply.clone()));
            let (Some(id @ 1..), Some(name)) = (id, name) else {
                break;
            };
            sent = doc! {"getMore": id, "collection": name, "batchSize": step.more.unwrap_or(0)};
            reply = ask(&sent);
        }
    }
    replies
}

/// Replaces cursor ids and times, which are new in every run.
fn without_times(reply: &Document) -> Document {
    let mut reply = reply.clone();
    for name in ["operationTime", "$clusterTime", "opTime", "electionId"] {
        reply.remove(name);
    }
    if let Ok(cursor) = reply.get_document_mut("cursor")
        && let Ok(id) = cursor.get_i64("id")
    {
        cursor.insert("id", Bson::Boolean(id != 0));
    }
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_are_those_of_the_cluster() {
    let cluster = Cluster::start(Kind::Any, "replies_are_those_of_the_cluster").await;
    let cluster = cluster.unwrap();
    let server = cluster.sundown().await;
    let (straight, through) = (cluster.address(), server.local_addr());
    let named = |name: &str| Some(std::env::var(name).ok()?.parse().expect("a number"));
    let (first, rounds) = (named("SEED").unwrap_or(0), named("ROUNDS").unwrap_or(40));
    let compared = tokio::task::spawn_blocking(move || {
        let (mut compared, mut different) = (0, Vec::new());
        for seed in first..first + rounds {
            let mut steps = generate::round(seed, COMMANDS);
            steps.retain(|step| !is_by_chance(&step.command) && !has_rule(&step.command));
            let first = play(straight, &steps);
            let ours = play(through, &steps);
            let second = play(straight, &steps);
            let all = first.iter().zip(&second).zip(&ours);
            for (((command, first), (_, second)), (_, ours)) in all {
                let expected = without_times(first);
                if expected != without_times(second) {
                    // From here on the collections may hold other things.
                    break;
                }
                compared += 1;
                if without_times(ours).to_vec().unwrap() != expected.to_vec().unwrap() {
                    different.push(format!("seed {seed}: {command}\n  {ours}\n  {first}"));
                    break;
                }
            }
        }
        (compared, different)
    });
    let (compared, different) = compared.await.unwrap();
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(
        compared > 7 * rounds,
        "only {compared} replies could be compared"
    );
}
