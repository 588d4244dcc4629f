//! The two servers, and a script played to both.

use std::collections::BTreeMap;
use std::net::{SocketAddr, ToSocketAddrs};

use bson::{Bson, Document, doc};
use sundown::clock::Clock;
use sundown::config::Topology;

use crate::generate::Step;
use crate::known;
use crate::reply;
use crate::support::client::Client;
use crate::support::world::{Reaper, World};

/// The collections that scripts use.
const COLLECTIONS: [&str; 3] = ["t", "u", "v"];

pub struct Pair {
    ours: Server,
    theirs: Server,
    _world: World,
    /// How many commands were played.
    pub commands: usize,
    /// How often each known difference was met.
    pub reasons: BTreeMap<&'static str, usize>,
    /// The codes of the last replies that agreed or differed for a known reason; 0 where they were successes.
    pub last: (i32, i32),
}

struct Server {
    address: SocketAddr,
    client: Client,
    database: String,
}

/// Where the two differ.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The steps up to the one that shows it.
    pub steps: Vec<Step>,
    pub what: What,
    pub theirs: Vec<Document>,
    pub ours: Vec<Document>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Reply,
    /// What the collections hold afterwards.
    State,
}

// === impl Pair ===

impl Pair {
    /// A Sundown in this process beside the server of that URI.
    pub fn new(uri: &str) -> Self {
        let host = uri.trim_start_matches("mongodb://");
        let host = host.split(['/', '?']).next().expect("a first part");
        let addresses = host.to_socket_addrs();
        let address = addresses.ok().and_then(|mut all| all.next());
        let address = address.unwrap_or_else(|| panic!("{uri} names no host and port"));
        let world = World::with(Reaper::Off, Clock::system(), |config| {
            config.topology = Topology::Standalone;
        });
        // Tests that run at the same time must not meet on the server that they share.
        let database = format!("differential_{}", std::process::id());
        let mut theirs = Server::new(address, &database);
        // The other engine of 6.0 runs parts of some pipelines and has codes of its own for the same errors.
        let classic = doc! {"setParameter": 1, "internalQueryForceClassicEngine": true};
        let set = theirs.client.command("admin", classic).expect("a reply");
        assert_eq!(set.get_f64("ok").ok(), Some(1.0), "{set}");
        Self {
            ours: Server::new(world.server.local_addr(), &database),
            theirs,
            _world: world,
            commands: 0,
            reasons: BTreeMap::new(),
            last: (0, 0),
        }
    }

    /// Plays the steps on empty collections, up to the first difference that has no known reason.
    pub fn play(&mut self, steps: &[Step]) -> Option<Difference> {
        for collection in COLLECTIONS {
            self.ours.ask(doc! {"drop": collection});
            self.theirs.ask(doc! {"drop": collection});
        }
        self.last = (0, 0);
        for (at, step) in steps.iter().enumerate() {
            self.commands += 1;
            let played = &steps[..=at];
            let mut expected = false;
            let replies = (self.theirs.run(step), self.ours.run(step));
            let codes = (code(&replies.0), code(&replies.1));
            if reply::differ(played, What::Reply, &replies.0, &replies.1) {
                let found = Difference::new(played, What::Reply, replies);
                if !self.is_known(&found) {
                    return Some(found);
                }
                expected = true;
            }
            self.last = codes;
            if writes(&step.command) {
                let states = (self.theirs.state(), self.ours.state());
                if reply::differ(played, What::State, &states.0, &states.1) {
                    // From here on they cannot agree.
                    let found = Difference::new(played, What::State, states);
                    return (!expected && !self.is_known(&found)).then_some(found);
                }
            }
        }
        None
    }

    fn is_known(&mut self, found: &Difference) -> bool {
        let reason = known::reason(found);
        if let Some(reason) = reason {
            *self.reasons.entry(reason).or_default() += 1;
        }
        reason.is_some()
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.theirs.ask(doc! {"dropDatabase": 1});
    }
}

// === impl Server ===

impl Server {
    fn new(address: SocketAddr, database: &str) -> Self {
        let client = Client::connect(address)
            .unwrap_or_else(|problem| panic!("nobody answers at {address}: {problem}"));
        Self {
            address,
            client,
            database: database.to_owned(),
        }
    }

    /// A lost connection is an answer, too.
    fn ask(&mut self, command: Document) -> Document {
        match self.client.command(&self.database, command) {
            Ok(reply) => reply,
            Err(problem) => {
                self.client = Client::connect(self.address)
                    .unwrap_or_else(|problem| panic!("{} is gone: {problem}", self.address));
                doc! {"lost": problem.to_string()}
            }
        }
    }

    /// The reply and those of the getMores.
    fn run(&mut self, step: &Step) -> Vec<Document> {
        let mut replies = vec![self.ask(step.command.clone())];
        let Some(size) = step.more else {
            self.kill(&replies[0]);
            return replies;
        };
        // A cursor that never ends shows as so many replies.
        while replies.len() < 50 {
            let cursor = replies[replies.len() - 1].get_document("cursor").ok();
            let id = cursor.and_then(|cursor| cursor.get_i64("id").ok());
            let Some(id) = id.filter(|id| *id != 0) else {
                break;
            };
            let namespace = cursor.and_then(|cursor| cursor.get_str("ns").ok());
            let collection = namespace.and_then(|ns| ns.split_once('.'));
            let mut more = doc! {"getMore": id, "collection": (collection.map_or("", |ns| ns.1))};
            if size > 0 {
                more.insert("batchSize", size);
            }
            let reply = self.ask(more);
            replies.push(reply);
        }
        replies
    }

    fn kill(&mut self, reply: &Document) {
        let cursor = reply.get_document("cursor");
        if let Ok(id @ 1..) = cursor.and_then(|cursor| cursor.get_i64("id")) {
            self.ask(doc! {"killCursors": "t", "cursors": [id]});
        }
    }

    fn state(&mut self) -> Vec<Document> {
        let mut state = Vec::new();
        for collection in COLLECTIONS {
            state.push(self.ask(doc! {"find": collection, "sort": {"_id": 1}}));
            state.push(self.ask(doc! {"listIndexes": collection}));
        }
        state
    }
}

// === impl Difference ===

impl Difference {
    fn new(steps: &[Step], what: What, (theirs, ours): (Vec<Document>, Vec<Document>)) -> Self {
        Self {
            steps: steps.to_vec(),
            what,
            theirs,
            ours,
        }
    }

    /// True if the last command has a field or operator of that name anywhere.
    pub fn says(&self, name: &str) -> bool {
        mentions(&Bson::Document(self.command().clone()), name)
    }

    /// True if the last command has that number at its top.
    pub fn has(&self, name: &str, number: i32) -> bool {
        self.command().get_i32(name).ok() == Some(number)
    }

    pub fn is_indexed(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| step.command.contains_key("createIndexes"))
    }

    /// True if a `$group` of the last command has an object as its `_id`.
    pub fn groups_by_object(&self) -> bool {
        let stages = self.command().get_array("pipeline").ok();
        let mut stages = stages.into_iter().flatten().filter_map(Bson::as_document);
        stages.any(|stage| {
            let group = stage.get_document("$group");
            group.is_ok_and(|group| group.get_document("_id").is_ok())
        })
    }

    pub fn verb(&self) -> &str {
        self.command().keys().next().map_or("", String::as_str)
    }

    /// True if the last command changes documents by a pipeline.
    pub fn updates_by_pipeline(&self) -> bool {
        let command = self.command();
        let in_list = command.get_array("updates").ok();
        let in_list = in_list.and_then(|list| list.first()?.as_document()?.get("u"));
        let update = in_list.or_else(|| command.get("update"));
        matches!(update, Some(Bson::Array(_)))
    }

    pub fn command(&self) -> &Document {
        &self.steps[self.steps.len() - 1].command
    }

    /// The code that each server failed with, its first write error's included; 0 for none.
    pub fn codes(&self) -> (i32, i32) {
        (code(&self.theirs), code(&self.ours))
    }
}

fn mentions(value: &Bson, name: &str) -> bool {
    match value {
        Bson::Document(document) => {
            let mut fields = document.iter();
            fields.any(|(key, value)| key == name || mentions(value, name))
        }
        Bson::Array(list) => list.iter().any(|value| mentions(value, name)),
        _ => false,
    }
}

fn code(replies: &[Document]) -> i32 {
    let of = |reply: &Document| {
        let inner = reply.get_array("writeErrors").ok();
        let inner = inner.and_then(|errors| errors.first()?.as_document());
        inner.unwrap_or(reply).get_i32("code").ok()
    };
    replies.iter().find_map(of).unwrap_or(0)
}

fn writes(command: &Document) -> bool {
    let verb = command.keys().next().map_or("", String::as_str);
    match verb {
        "aggregate" => {
            let stages = command.get_array("pipeline");
            let last = stages.ok().and_then(|stages| stages.last()?.as_document());
            last.is_some_and(|last| last.contains_key("$out") || last.contains_key("$merge"))
        }
        "find" | "count" | "distinct" | "explain" | "validate" | "listIndexes"
        | "listCollections" => false,
        _ => true,
    }
}
