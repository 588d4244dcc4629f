//! The same commands from many clients at once. The replies to each client depend on the others, so they are not compared.
//! But no client hangs, no connection breaks, no error is internal, and in the end all indexes lead to the same documents.

use bson::{Document, doc};

use super::random::{Crowd, Random};
use super::run::Setting;
use super::state::Model;
use super::steps::{CAPPED, Step, generate};
use crate::support::client::Client;
use crate::support::world::{DB, START, World, failure, int};

pub fn run(setting: Setting, crowd: Crowd, seed: u64, steps: usize) {
    let mut world = setting.world();
    // In every other run the clock runs, so that commands with different instants overlap.
    if seed.is_multiple_of(2) {
        world.clock.unfreeze();
    }
    let clock = &world.clock;
    let clients: Vec<Client> = (0..4).map(|_| world.connect()).collect();
    std::thread::scope(|scope| {
        for (nth, mut client) in clients.into_iter().enumerate() {
            scope.spawn(move || {
                let mut random = Random::new(seed * 100 + nth as u64, crowd);
                // The collections change all the time. To choose steps, the model assumes that these exist.
                let mut model = Model::default();
                model.move_to(START);
                for name in ["c", "d", CAPPED] {
                    model.at(name);
                }
                for _ in 0..steps {
                    match generate(&mut random, &model, true) {
                        Step::Command(command) | Step::Retryable(command) => {
                            ask(&mut client, command);
                        }
                        Step::Open(_, command) => follow(&mut client, command, &mut random),
                        Step::Travel(millis) => {
                            ask(
                                &mut client,
                                doc! {"timeTravel": 1, "advanceSeconds": millis as f64 / 1000.0},
                            );
                        }
                        Step::Advance(millis) => clock.advance(millis),
                        Step::NextEnd(_) => clock.advance(1_000),
                        _ => {}
                    }
                }
            });
        }
    });
    world.clock.freeze();
    agree(&mut world);
}

/// Any error except an internal one is a valid reply.
fn ask(client: &mut Client, command: Document) -> Document {
    let shown = command.to_string();
    let reply = client.command(DB, command).expect("an answer");
    if let Some((code, message)) = failure(&reply) {
        let own = [1, 8].contains(&code) || code < 0;
        assert!(!own, "{shown}\n  {code}: {message}");
    }
    reply
}

/// Reads some batches of a cursor, or all of them.
fn follow(client: &mut Client, command: Document, random: &mut Random) {
    let name = command.values().next().expect("a name").clone();
    let mut reply = ask(client, command);
    for _ in 0..random.below(6) {
        let cursor = reply.get_document("cursor");
        let id = cursor.ok().and_then(|cursor| cursor.get_i64("id").ok());
        let Some(id) = id.filter(|id| *id != 0) else {
            return;
        };
        let size = 1 + random.below(5) as i32;
        reply = ask(
            client,
            doc! {"getMore": id, "collection": &name, "batchSize": size},
        );
    }
}

/// Every complete index leads to all documents, and the statistics count them.
fn agree(world: &mut World) {
    for collection in world.rows(doc! {"listCollections": 1}) {
        let name = collection.get_str("name").expect("a name").to_owned();
        assert!(!name.starts_with("tmp."), "{name} was left behind");
        // Compared as bytes, because NaN is not equal to NaN.
        let sorted = |rows: &[Document]| {
            let mut rows: Vec<Vec<u8>> = rows
                .iter()
                .map(|row| row.to_vec().expect("encodes"))
                .collect();
            rows.sort_unstable();
            rows
        };
        let all = world.rows(doc! {"find": &name, "hint": {"$natural": 1}});
        for index in world.rows(doc! {"listIndexes": &name}) {
            let partly = ["sparse", "hidden", "partialFilterExpression"];
            if partly.iter().any(|option| index.contains_key(option)) {
                continue;
            }
            let index = index.get_str("name").expect("a name");
            let through = world.rows(doc! {"find": &name, "hint": index});
            let same = sorted(&through) == sorted(&all);
            assert!(same, "{name} through {index}: {through:?}\n{all:?}");
        }
        for row in &all {
            let filter = doc! {"find": &name, "filter": {"_id": {"$eq": row["_id"].clone()}}};
            assert_eq!(world.rows(filter).len(), 1, "{name}: {row}");
        }
        for (command, field) in [
            (doc! {"count": &name}, "n"),
            (doc! {"collStats": &name}, "count"),
            (doc! {"validate": &name}, "nrecords"),
        ] {
            let counted = world.run(command).get(field).and_then(int);
            assert_eq!(counted, Some(all.len() as i64), "{name}: {field}");
        }
    }
}
