//! The two servers, and playing a script on both.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bson::{Bson, Document, doc};
use sundown::clock::Clock;
use sundown::config::Topology;

use crate::difference::{Difference, What, code};
use crate::generate::Step;
use crate::known;
use crate::reply;
use crate::support::client::Client;
use crate::support::mongod;
use crate::support::world::{Reaper, World};
use crate::witness::Witness;

/// The collections that every round fills first.
const FILLED: [&str; 2] = ["t", "u"];

pub struct Pair {
    ours: Server,
    theirs: Server,
    _world: World,
    /// The number of commands that were played.
    pub commands: usize,
    /// How often each known difference occurred.
    pub reasons: BTreeMap<&'static str, usize>,
    /// The codes of the last replies that agreed, or differed for a known reason. 0 means success.
    pub last: (i32, i32),
    /// The reasons that are accepted.
    pub accepted: Accepted,
}

/// Which known differences are accepted.
#[derive(Clone, Copy, PartialEq)]
pub enum Accepted {
    Known,
    /// Only differences of version, so that the known faults are found and shortened, too.
    Versions,
}

/// What is left of earlier scripts when one begins.
#[derive(Clone, Copy, PartialEq)]
pub enum Start {
    /// No collection exists.
    Nothing,
    /// The collections that every round fills first may exist, without documents. That takes mongod a tenth of the time.
    Emptied,
}

pub struct Server {
    address: SocketAddr,
    client: Client,
    database: String,
}

// === impl Pair ===

impl Pair {
    /// Starts Sundown in this process and connects to the server at the URI.
    pub fn new(uri: &str) -> Self {
        let world = World::with(Reaper::Off, Clock::system(), |config| {
            config.topology = Topology::Standalone;
        });
        // Tests that run at the same time use different databases on the shared server.
        let database = format!("differential_{}", std::process::id());
        Self {
            ours: Server {
                address: world.server.local_addr(),
                client: world.connect(),
                database: database.clone(),
            },
            theirs: Server {
                address: mongod::address(uri),
                client: mongod::connect(uri),
                database,
            },
            _world: world,
            commands: 0,
            reasons: BTreeMap::new(),
            last: (0, 0),
            accepted: Accepted::Known,
        }
    }

    /// Plays the steps without earlier collections, up to the first difference that has no known reason.
    pub fn play(&mut self, steps: &[Step]) -> Option<Difference> {
        self.play_on(Start::Nothing, steps)
    }

    pub fn play_on(&mut self, start: Start, steps: &[Step]) -> Option<Difference> {
        if self.ours.clear(start) != self.theirs.clear(start) {
            // They differed at the end of the last script.
            self.ours.clear(Start::Nothing);
            self.theirs.clear(Start::Nothing);
        }
        self.last = (0, 0);
        for (at, step) in steps.iter().enumerate() {
            let command = Bson::Document(step.command.clone());
            if ends_mongod(&command) || is_hasty(&step.command) || expires(&command) {
                return None;
            }
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
                    // From here on the servers cannot agree.
                    let found = Difference::new(played, What::State, states);
                    return (!expected && !self.is_known(&found)).then_some(found);
                }
                if reply::makes_sets(&step.command) {
                    // Each server orders these elements differently, and later commands show that.
                    return None;
                }
            }
        }
        None
    }

    fn is_known(&mut self, found: &Difference) -> bool {
        let mut witness = Witness {
            theirs: &mut self.theirs,
            ours: &mut self.ours,
        };
        let reason = known::reason(found, &mut witness)
            .filter(|reason| self.accepted == Accepted::Known || is_version(reason));
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
    /// A lost connection counts as a reply, too.
    pub fn ask(&mut self, command: Document) -> Document {
        let verb = command.keys().next().map_or("", String::as_str);
        let database = match verb {
            "renameCollection" | "listDatabases" => "admin",
            _ => &self.database,
        };
        let command = match verb {
            "renameCollection" | "dataSize" => with_database(&command, &self.database),
            _ => command,
        };
        match self.client.command(database, command.clone()) {
            Ok(reply) => reply,
            Err(problem) => {
                self.client = Client::connect(self.address).unwrap_or_else(|problem| {
                    panic!("{} is gone after {command}: {problem}", self.address)
                });
                doc! {"lost": problem.to_string()}
            }
        }
    }

    /// Returns the reply and those of the getMores.
    fn run(&mut self, step: &Step) -> Vec<Document> {
        let mut replies = vec![self.ask(step.command.clone())];
        let Some(size) = step.more else {
            let killed = self.kill(&replies[0]);
            replies.extend(killed);
            return replies;
        };
        // Limits the replies of a cursor that never ends.
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

    /// Closes the cursor of a reply, and tells what the server says to that and to a getMore afterwards.
    fn kill(&mut self, reply: &Document) -> Option<Document> {
        let cursor = reply.get_document("cursor").ok()?;
        let id = cursor.get_i64("id").ok().filter(|id| *id > 0)?;
        let collection = cursor.get_str("ns").ok()?.split_once('.')?.1.to_owned();
        let killed = self.ask(doc! {"killCursors": &collection, "cursors": [id]});
        let gone = self.ask(doc! {"getMore": id, "collection": collection});
        let counted = |name| {
            let list = killed.get_array(name);
            list.map_or(-1, |list| list.len() as i32)
        };
        Some(doc! {
            "killed": counted("cursorsKilled"),
            "unknown": counted("cursorsNotFound"),
            "then": gone.get("code").cloned(),
            "ok": 1.0,
        })
    }

    /// Drops everything that a script left, and returns the names of the collections that stay. A wrong command may have
    /// created a collection of any name.
    fn clear(&mut self, start: Start) -> Vec<String> {
        let mut kept = Vec::new();
        for collection in self.collections() {
            let Ok(name) = collection.get_str("name") else {
                continue;
            };
            let stays = start == Start::Emptied
                && FILLED.contains(&name)
                && collection
                    .get_document("options")
                    .is_ok_and(Document::is_empty)
                && self.has_only_the_id_index(name);
            match stays {
                true => {
                    self.ask(doc! {"delete": name, "deletes": [{"q": {}, "limit": 0}]});
                    kept.push(name.to_owned());
                }
                false => drop(self.ask(doc! {"drop": name})),
            }
        }
        kept
    }

    fn has_only_the_id_index(&mut self, collection: &str) -> bool {
        let indexes = self.ask(doc! {"listIndexes": collection});
        reply::batch(&indexes).is_some_and(|indexes| indexes.len() == 1)
    }

    /// Returns the name and the options of each collection, sorted by name.
    fn collections(&mut self) -> Vec<Document> {
        let listed = self.ask(doc! {"listCollections": 1});
        let rows = reply::batch(&listed).into_iter().flatten();
        let described = rows.filter_map(|row| {
            let row = row.as_document()?;
            Some(doc! {"name": row.get("name"), "options": row.get("options")})
        });
        let mut described: Vec<Document> = described.collect();
        described.sort_by_cached_key(|row| row.get_str("name").unwrap_or_default().to_owned());
        described
    }

    fn state(&mut self) -> Vec<Document> {
        let collections = self.collections();
        let mut state = Vec::new();
        for name in collections
            .iter()
            .filter_map(|row| row.get_str("name").ok())
        {
            state.push(self.ask(doc! {"find": name, "sort": {"_id": 1}}));
            state.push(self.ask(doc! {"listIndexes": name}));
        }
        state.push(doc! {"collections": collections, "ok": 1.0});
        state
    }
}

/// Returns true if the reason is a difference between 6.0 and 8.2.
pub fn is_version(reason: &str) -> bool {
    reason.starts_with("8.2:")
}

/// Puts the database in the place of `DB`, with which the generator begins the full names of collections.
fn with_database(command: &Document, database: &str) -> Document {
    let fields = command.iter().map(|(name, value)| {
        let value = match value.as_str().and_then(|text| text.strip_prefix("DB")) {
            Some(rest) => format!("{database}{rest}").into(),
            None => value.clone(),
        };
        (name.clone(), value)
    });
    fields.collect()
}

/// Returns true for commands that crash mongod 6.0.5: it optimizes a new root that is an `$and` or `$or` twice, and the
/// second time reads what the first pass has moved away.
fn ends_mongod(value: &Bson) -> bool {
    let logic = |root: &Bson| {
        let root = root.as_document();
        root.is_some_and(|root| root.contains_key("$and") || root.contains_key("$or"))
    };
    match value {
        Bson::Document(document) => {
            let root = document
                .get("newRoot")
                .or_else(|| document.get("$replaceWith"));
            root.is_some_and(logic) || document.values().any(ends_mongod)
        }
        Bson::Array(list) => list.iter().any(ends_mongod),
        _ => false,
    }
}

/// Returns true if the command makes an index that ends documents, which mongod does up to a minute late.
fn expires(value: &Bson) -> bool {
    match value {
        Bson::Document(document) => {
            let soon = match document.get("expireAfterSeconds") {
                Some(Bson::Int32(seconds)) => *seconds != i32::MAX,
                Some(Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_)) => true,
                _ => false,
            };
            soon || document.values().any(expires)
        }
        Bson::Array(list) => list.iter().any(expires),
        _ => false,
    }
}

/// Returns true if the command may run out of time.
fn is_hasty(command: &Document) -> bool {
    let limit = match command.get("maxTimeMS") {
        Some(Bson::Int32(millis)) => f64::from(*millis),
        Some(Bson::Int64(millis)) => *millis as f64,
        Some(Bson::Double(millis)) => *millis,
        Some(Bson::Decimal128(millis)) => millis.to_string().parse().unwrap_or(0.0),
        _ => 0.0,
    };
    limit > 0.0 && limit < 60_000.0
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
        | "listCollections" | "listDatabases" | "dataSize" | "collStats" | "dbStats" | "ping"
        | "getMore" | "killCursors" => false,
        _ => true,
    }
}
