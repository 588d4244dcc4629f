//! Random transactions of many clients over few documents: every history must be one of snapshot isolation, and no statement
//! may see a document that has ended.
//!
//! Clients run transactions and single statements at once, over TCP: reads by `_id`, by an index and by ranges, updates,
//! inserts, upserts, deletes, findAndModify, commits (some of them repeated) and aborts. In one of the two collections documents
//! end; the clock moves while transactions are open. In some histories indexes are built, hidden and dropped meanwhile, or sessions are killed. What
//! each client did and saw ([`record`]) is then checked twice: against the order in which a change stream tells the commits
//! ([`exact`]), and, also without a change stream, by the rules that lists allow which are only appended to ([`cycles`]).
//!
//! `HISTORY_SEED=n` plays one seed again (threads interleave as they like, so it may take several rounds). The long run, a
//! million statements in pieces: `cargo test --release --test history -- --ignored million`.

#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod client;
mod cycles;
mod exact;
mod leftovers;
mod record;
mod schema_changes;

use std::sync::atomic::Ordering;

use bson::doc;
use client::{Player, Stage};
use exact::Event;
use record::{COLLECTIONS, DEFAULT_TTL, Unit};
use support::client::Client;
use support::dice::Dice;
use support::world::{DB, Reaper, World, batch, create_index, failure};

/// How one history is made.
#[derive(Debug, Clone, Copy)]
struct Setting {
    clients: usize,
    units: usize,
    /// Whether somebody follows the changes.
    watched: bool,
    reaper: Reaper,
    /// Whether somebody builds, hides and drops indexes meanwhile.
    changes_schema: bool,
    /// Whether somebody kills the clients' sessions meanwhile.
    kills: bool,
}

/// Plays a history and checks it. Returns how many statements it has.
fn play(setting: Setting, seed: u64) -> usize {
    let mut world = World::new(setting.reaper);
    for (n, name) in COLLECTIONS.iter().enumerate() {
        let mut create = doc! {"create": *name, "changeStreamPreAndPostImages": {"enabled": true}};
        if n == 1 {
            create.insert("defaultTtl", DEFAULT_TTL);
        }
        world.run(create);
        world.run(create_index(name, doc! {"key": {"n": 1}}));
    }
    let stream = setting.watched.then(|| Stream::open(&world));
    let stage = Stage::new(world.clock.clone(), setting.kills);
    let mut units: Vec<Unit> = Vec::new();
    std::thread::scope(|scope| {
        let players: Vec<_> = (0..setting.clients)
            .map(|n| {
                let mut player = Player::new(&stage, world.connect(), n, seed);
                scope.spawn(move || {
                    player.play(setting.units);
                    player.units
                })
            })
            .collect();
        let mover = scope.spawn(|| {
            let mut dice = Dice(seed + 1);
            while !stage.over.load(Ordering::Relaxed) {
                stage.advance(500 * dice.below(3) as i64);
                std::thread::sleep(std::time::Duration::from_millis(1 + dice.below(5)));
            }
        });
        let builder = setting.changes_schema.then(|| {
            let client = world.connect();
            scope.spawn(|| change_schema(client, &stage, seed))
        });
        let killer = setting.kills.then(|| {
            let client = world.connect();
            scope.spawn(|| kill_sessions(client, &stage, setting.clients, seed))
        });
        // The mover must end even if a player has failed.
        let played: Vec<_> = players.into_iter().map(|player| player.join()).collect();
        stage.over.store(true, Ordering::Relaxed);
        mover.join().unwrap();
        if let Some(builder) = builder {
            builder.join().unwrap();
        }
        if let Some(killer) = killer {
            killer.join().unwrap();
        }
        for player in played {
            units.extend(player.unwrap_or_else(|_| panic!("a client failed: seed {seed}")));
        }
    });
    let statements = units.iter().map(|unit| unit.statements.len()).sum();
    let fail = |why: String| panic!("seed {seed}, {setting:?}\n{why}");
    cycles::check(&units).unwrap_or_else(fail);
    if let Some(stream) = stream {
        let events = stream.events(&mut world);
        exact::check(&units, &events).unwrap_or_else(fail);
    }
    // It also frees the versions that nobody needs any more.
    world.reaper(true);
    leftovers::wait_until_nothing_is_left(&mut world);
    statements
}

/// Changes indexes at random until the history is over. A change that waits for transactions soon gives up.
fn change_schema(mut client: Client, stage: &Stage, seed: u64) {
    let mut dice = Dice(seed + 2);
    while !stage.over.load(Ordering::Relaxed) {
        let name = COLLECTIONS[dice.below(COLLECTIONS.len() as u64) as usize];
        let mut command = match dice.below(4) {
            0 => create_index(name, doc! {"key": {"list": 1}}),
            1 => create_index(name, doc! {"key": {"n": -1}}),
            2 => {
                let index = ["list_1", "n_-1"][dice.below(2) as usize];
                doc! {"dropIndexes": name, "index": index}
            }
            _ => {
                let hidden = dice.below(2) == 0;
                doc! {"collMod": name, "index": {"name": "n_1", "hidden": hidden}}
            }
        };
        command.insert("maxTimeMS", 1 + dice.below(40) as i64);
        let reply = client.command(DB, command.clone()).unwrap();
        // Its time is over, or the index is not there.
        let code = failure(&reply).map(|(code, _)| code);
        assert!(matches!(code, None | Some(50 | 27)), "{command}: {reply}");
    }
}

/// Kills sessions at random until the history is over. That aborts their open transactions and changes no other.
fn kill_sessions(mut client: Client, stage: &Stage, clients: usize, seed: u64) {
    let mut dice = Dice(seed + 3);
    while !stage.over.load(Ordering::Relaxed) {
        let number = dice.below(clients as u64) as usize;
        let kill = doc! {"killSessions": [client::lsid(seed, number)]};
        let reply = client.command("admin", kill).unwrap();
        assert_eq!(failure(&reply), None, "{reply}");
        std::thread::sleep(std::time::Duration::from_millis(1 + dice.below(20)));
    }
}

/// A change stream over the database.
struct Stream {
    client: Client,
    cursor: i64,
}

// === impl Stream ===

impl Stream {
    fn open(world: &World) -> Self {
        let mut client = world.connect();
        let stage = doc! {"$changeStream": {
            "fullDocument": "required", "fullDocumentBeforeChange": "required",
        }};
        // Deletes have no document after the change, and inserts none before it.
        let opened = client.command(DB, doc! {"aggregate": 1, "pipeline": [stage], "cursor": {}});
        let (_, cursor, _) = batch(&opened.unwrap());
        Self { client, cursor }
    }

    /// Returns all events up to now.
    fn events(mut self, world: &mut World) -> Vec<Event> {
        let last = doc! {"_id": 0, "list": [0_i64], "n": 0_i64};
        world.insert("end", [last]);
        let mut events = Vec::new();
        loop {
            let more = doc! {"getMore": self.cursor, "collection": "$cmd.aggregate"};
            let reply = self.client.command(DB, more).unwrap();
            for event in batch(&reply).0 {
                let name = event.get_document("ns").unwrap().get_str("coll").unwrap();
                if name == "end" {
                    let cursors = vec![self.cursor];
                    let kill = doc! {"killCursors": "$cmd.aggregate", "cursors": cursors};
                    self.client.command(DB, kill).unwrap();
                    return events;
                }
                events.push(Event::of(&event));
            }
        }
    }
}

fn seeds(first: u64, rounds: u64, setting: Setting) -> usize {
    if let Ok(seed) = std::env::var("HISTORY_SEED") {
        let seed = seed.parse().unwrap();
        return (0..20).map(|_| play(setting, seed)).sum();
    }
    (first..first + rounds)
        .map(|seed| play(setting, seed))
        .sum()
}

const WATCHED: Setting = Setting {
    clients: 8,
    units: 60,
    watched: true,
    reaper: Reaper::On,
    changes_schema: false,
    kills: false,
};

#[test]
fn histories_that_are_watched() {
    seeds(1, 3, WATCHED);
}

#[test]
fn histories_that_nobody_watches() {
    let watched = false;
    seeds(100, 3, Setting { watched, ..WATCHED });
}

#[test]
fn histories_in_which_nothing_is_freed() {
    let reaper = Reaper::Off;
    seeds(200, 2, Setting { reaper, ..WATCHED });
}

#[test]
fn histories_while_the_schema_changes() {
    let changes_schema = true;
    let setting = Setting {
        changes_schema,
        ..WATCHED
    };
    seeds(300, 3, setting);
}

#[test]
fn histories_in_which_sessions_are_killed() {
    let kills = true;
    seeds(400, 3, Setting { kills, ..WATCHED });
}

#[test]
#[ignore = "minutes: cargo test --release --test history -- --ignored million"]
fn million() {
    let wanted = std::env::var("STATEMENTS").map_or(1_000_000, |n| n.parse().unwrap());
    let first = std::env::var("FIRST").map_or(1_000, |n| n.parse().unwrap());
    let mut statements = 0;
    for seed in first.. {
        let setting = Setting {
            clients: 2 + (seed % 9) as usize,
            units: 250,
            watched: seed % 3 != 0,
            reaper: [Reaper::On, Reaper::Off][(seed % 2) as usize],
            changes_schema: seed % 5 == 0,
            kills: seed % 4 == 0,
        };
        statements += play(setting, seed);
        if statements >= wanted {
            println!("{statements} statements up to seed {seed}");
            return;
        }
    }
}
