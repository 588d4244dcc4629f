//! The two servers, and the streams on them.

use std::net::SocketAddr;

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use sundown::Sundown;
use sundown::clock::Clock;
use sundown::config::{Config, Topology};

use crate::events::{Told, normal};
use crate::random::Random;
use crate::script::Step;
use crate::support::client::Client;

/// A server and a connection to it.
struct Side {
    client: Client,
    session: Bson,
    transactions: i64,
}

pub struct Sides {
    sides: [Side; 2],
    /// Collections have lost their names. Where `updateLookup` finds a document then depends on the version: the collection with the
    /// UUID in 6.0, the one that has the name now in 8.2.
    pub names_moved: bool,
    _sundown: Sundown,
}

/// What a stream follows, and how.
#[derive(Debug, Clone)]
pub struct Stream {
    database: String,
    /// The database of the command: `admin` for the whole server.
    on: String,
    collection: Option<&'static str>,
    options: Document,
    stages: Vec<Document>,
}

/// Where a stream starts, on each side.
#[derive(Debug, Clone)]
pub struct Start {
    pub option: &'static str,
    pub at: usize,
    pub value: [Bson; 2],
}

/// A cursor, or the error that came instead, and the first batch.
pub type Opened = [Result<(i64, Vec<Document>), Document>; 2];

// === impl Stream ===

impl Stream {
    pub fn random(random: &mut Random, database: &str) -> Self {
        let mut options = Document::new();
        if random.chance(50) {
            options.insert("showExpandedEvents", true);
        }
        if random.chance(60) {
            // updateLookup shows what is there when the event is read: the same on both sides, at the end.
            let modes = ["default", "updateLookup", "whenAvailable", "required"];
            options.insert("fullDocument", random.pick(&modes));
        }
        if random.chance(50) {
            let modes = ["off", "whenAvailable", "required"];
            options.insert("fullDocumentBeforeChange", random.pick(&modes));
        }
        let all = [
            doc! {"$match": {"operationType": {"$in": ["insert", "update", "drop", "invalidate"]}}},
            doc! {"$match": {"documentKey._id": {"$lt": 3}}},
            doc! {"$project": {"updateDescription": 0}},
            doc! {"$addFields": {"extra": {"$concat": ["$operationType", "!"]}}},
            doc! {"$unset": ["ns.db"]},
            doc! {"$redact": {"$cond": [{"$eq": ["$operationType", "delete"]}, "$$PRUNE", "$$KEEP"]}},
            doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", {"y": 1}]}},
        ];
        let count = random.below(3);
        let stages = (0..count).map(|_| all[random.below(all.len())].clone());
        let stages = stages.collect();
        let (on, collection) = match random.below(3) {
            0 => (database, Some(random.pick(&["a", "b"]))),
            1 => (database, None),
            _ => {
                options.insert("allChangesForCluster", true);
                ("admin", None)
            }
        };
        Self {
            database: database.to_owned(),
            on: on.to_owned(),
            collection,
            options,
            stages,
        }
    }

    fn name(&self) -> &str {
        self.collection.unwrap_or("$cmd.aggregate")
    }
}

// === impl Sides ===

impl Sides {
    pub async fn start(mongod: SocketAddr) -> Self {
        let config = Config {
            port: 0,
            topology: Topology::ReplicaSet {
                name: "rs0".to_owned(),
                advertise: None,
            },
            ..Config::default()
        };
        let sundown = Sundown::start(config, Clock::system()).await.unwrap();
        let side = |address| Side {
            client: Client::connect(address).unwrap(),
            session: Bson::Document(doc! {"id": Binary {
                subtype: BinarySubtype::Uuid,
                bytes: vec![7; 16],
            }}),
            transactions: 0,
        };
        Self {
            sides: [side(sundown.local_addr()), side(mongod)],
            names_moved: false,
            _sundown: sundown,
        }
    }

    /// Does the same on both servers. Both succeed, or both fail.
    pub fn run(&mut self, step: &Step) {
        let outcomes = self.sides.each_mut().map(|side| match step {
            Step::Command(database, command) => {
                let reply = side.client.command(database, command.clone()).unwrap();
                vec![outcome(&reply)]
            }
            Step::Transaction(writes, commits) => side.transaction(writes, *commits),
        });
        // Since 7.0 a collection may be created again with the same options, and dropped again.
        let is_new = |name: &str| matches!(name, "create" | "drop");
        let differs =
            matches!(step, Step::Command(_, command) if command.keys().any(|name| is_new(name)));
        assert!(
            outcomes[0] == outcomes[1] || differs,
            "Sundown and mongod: {outcomes:?} {step:?}"
        );
    }

    /// Sends each server its command, and returns the replies.
    pub fn both(&mut self, database: &str, commands: [Document; 2]) -> [Document; 2] {
        let [ours, theirs] = &mut self.sides;
        let [command, other] = commands;
        [
            ours.client.command(database, command).unwrap(),
            theirs.client.command(database, other).unwrap(),
        ]
    }

    pub fn open(&mut self, stream: &Stream, start: Option<&Start>) -> Opened {
        let mut at = 0;
        self.sides.each_mut().map(|side| {
            let mut options = stream.options.clone();
            if let Some(start) = start {
                options.insert(start.option, start.value[at].clone());
            }
            at += 1;
            let mut pipeline = vec![doc! {"$changeStream": options}];
            pipeline.extend(stream.stages.iter().cloned());
            let on = stream.collection.map_or(Bson::Int32(1), Bson::from);
            let open = doc! {"aggregate": on, "pipeline": pipeline, "cursor": {}};
            let reply = side.client.command(&stream.on, open).unwrap();
            batch(&reply, "firstBatch")
        })
    }

    /// Reads all events that there are.
    pub fn drain(&mut self, stream: &Stream, opened: Opened) -> Told {
        let mut told = Told::default();
        let looks_up = stream
            .options
            .get_str("fullDocument")
            .is_ok_and(|mode| mode == "updateLookup");
        for (at, (side, opened)) in self.sides.iter_mut().zip(opened).enumerate() {
            let mut next = opened;
            let mut empty = 0;
            loop {
                let (id, events) = match next {
                    Ok(batch) => batch,
                    Err(error) => {
                        told.ends[at] = Some(error.get("code").cloned().unwrap_or(Bson::Null));
                        break;
                    }
                };
                empty = if events.is_empty() { empty + 1 } else { 0 };
                let ours = |event: &Document| {
                    let name = event
                        .get_document("ns")
                        .ok()
                        .and_then(|ns| ns.get_str("db").ok());
                    name.is_none_or(|name| name == stream.database)
                };
                told.raw[at].extend(events.into_iter().filter(ours));
                if id == 0 {
                    told.ends[at] = Some(Bson::from("closed"));
                    break;
                }
                if empty == 2 {
                    let kill = doc! {"killCursors": stream.name(), "cursors": [id]};
                    side.client.command(&stream.on, kill).unwrap();
                    break;
                }
                let more = doc! {"getMore": id, "collection": stream.name(), "maxTimeMS": 50};
                let reply = side.client.command(&stream.on, more).unwrap();
                next = batch(&reply, "nextBatch");
            }
            told.normal[at] = normal(&told.raw[at], self.names_moved && looks_up);
        }
        told
    }
}

// === impl Side ===

impl Side {
    /// Runs a transaction. Both servers may end it for a passing reason; then it starts again.
    fn transaction(&mut self, writes: &[(String, Document)], commits: bool) -> Vec<Bson> {
        self.transactions += 100;
        for number in self.transactions..self.transactions + 50 {
            let outcomes = self.attempt(number, writes, commits);
            if outcomes.last() != Some(&Bson::from("again")) {
                return outcomes;
            }
        }
        panic!("a transaction never succeeds: {writes:?}");
    }

    fn attempt(&mut self, number: i64, writes: &[(String, Document)], commits: bool) -> Vec<Bson> {
        let mut outcomes = Vec::new();
        let in_transaction = |mut command: Document, session: &Bson| {
            command.insert("lsid", session.clone());
            command.insert("txnNumber", number);
            command.insert("autocommit", false);
            command
        };
        for (at, (database, write)) in writes.iter().enumerate() {
            let mut write = in_transaction(write.clone(), &self.session);
            if at == 0 {
                write.insert("startTransaction", true);
            }
            let reply = self.client.command(database, write).unwrap();
            outcomes.push(outcome(&reply));
            if outcomes.last() != Some(&Bson::Double(1.0)) || reply.contains_key("writeErrors") {
                // It is over.
                let abort = in_transaction(doc! {"abortTransaction": 1}, &self.session);
                self.client.command("admin", abort).unwrap();
                return outcomes;
            }
        }
        let end = match commits {
            true => doc! {"commitTransaction": 1},
            false => doc! {"abortTransaction": 1},
        };
        let reply = self
            .client
            .command("admin", in_transaction(end, &self.session));
        outcomes.push(outcome(&reply.unwrap()));
        outcomes
    }
}

/// Returns whether a command has succeeded, and what it has written.
fn outcome(reply: &Document) -> Bson {
    let ok = reply.get_f64("ok").unwrap_or_default();
    let labels = reply.get_array("errorLabels").into_iter().flatten();
    if labels
        .into_iter()
        .any(|label| label.as_str() == Some("TransientTransactionError"))
    {
        return Bson::from("again");
    }
    match ok == 1.0 && !reply.contains_key("writeErrors") {
        true => Bson::Double(1.0),
        false => Bson::from("failed"),
    }
}

fn batch(reply: &Document, field: &str) -> Result<(i64, Vec<Document>), Document> {
    let Ok(cursor) = reply.get_document("cursor") else {
        return Err(reply.clone());
    };
    let events = cursor.get_array(field).unwrap().iter();
    let events = events.map(|event| event.as_document().unwrap().clone());
    Ok((cursor.get_i64("id").unwrap(), events.collect()))
}
