//! A server in this process, a clock that is frozen until the test moves it, and a client.

use std::io::Write;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::Duration;

use bson::{Bson, Document, doc};
use sundown::Sundown;
use sundown::clock::{Clock, Millis};
use sundown::config::{ClusterUri, Config, UpstreamConfig};
use tokio::runtime::{Builder, Runtime};

use super::client::Client;
use super::cluster::{Kind, Mongod};

/// 2030-01-01T00:00:00Z: the time at which every test starts.
pub const START: i64 = 1_893_456_000_000;
/// The database of commands that name none.
pub const DB: &str = "test";

pub struct World {
    pub client: Client,
    pub clock: Clock,
    pub server: Sundown,
    /// Another Sundown in front of the same cluster, with a connection.
    second: Option<(Sundown, Client)>,
    config: Config,
    /// The Sundown that holds the documents, if another one is in front of it.
    _cluster: Option<Sundown>,
    // After the servers, so that it is dropped after them.
    pub runtime: Runtime,
    /// The mongod that holds the documents. The last field: it serves another test afterwards.
    _mongod: Option<SharedMongod>,
}

/// A mongod that is used by one test at a time.
struct SharedMongod(Option<Mongod>);

/// Those that no test uses.
static FREE: Mutex<Vec<Mongod>> = Mutex::new(Vec::new());

/// Whether the reaper runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaper {
    On,
    Off,
}

/// Returns whether the tests run through a Sundown in front of a cluster: those in binaries with such a name do.
pub fn in_front_of_cluster() -> bool {
    env!("CARGO_CRATE_NAME").ends_with("_upstream")
}

/// Returns the genuine mongod in front of which the tests run, if there is one.
pub fn genuine_cluster() -> Option<String> {
    std::env::var("MONGOD")
        .ok()
        .filter(|_| in_front_of_cluster())
}

/// Returns whether the tests run in front of a cluster. For declared differences of that mode only (src/upstream/README.md): the reason is printed, and the test does
/// without what does not hold there.
pub fn through_upstream(reason: &str) -> bool {
    if in_front_of_cluster() {
        let test = std::thread::current();
        // Written directly, because the test harness shows no output of a test that passes.
        let _ = writeln!(
            std::io::stderr(),
            "through upstream: {} IS CUT SHORT: {reason}",
            test.name().unwrap_or("a test")
        );
    }
    in_front_of_cluster()
}

/// The same for a genuine cluster, which keeps neither the test's time nor `_ts`.
pub fn differs_on_mongod(reason: &str) -> bool {
    genuine_cluster().is_some() && through_upstream(reason)
}

// === impl World ===

impl World {
    /// Starts a server whose clock is frozen at [`START`].
    pub fn new(reaper: Reaper) -> Self {
        Self::with(reaper, Clock::frozen(Millis(START)), |_| {})
    }

    pub fn with(reaper: Reaper, clock: Clock, set: impl FnOnce(&mut Config)) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .expect("a runtime");
        let mut config = Config {
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            enable_test_commands: true,
            ..Config::default()
        };
        set(&mut config);
        let mongod = std::env::var("MONGOD")
            .ok()
            .filter(|_| in_front_of_cluster());
        let mongod = mongod.map(|binary| SharedMongod::take(&binary));
        let cluster = (in_front_of_cluster() && mongod.is_none()).then(|| {
            let cluster = Config {
                port: 0,
                enable_test_commands: true,
                // A cluster that is a Sundown keeps `_ts` itself, and so decides who sees it.
                expose_ts: config.expose_ts,
                ..Config::default()
            };
            let cluster = runtime.block_on(Sundown::start(cluster, clock.clone()));
            cluster.expect("a cluster")
        });
        let uri = mongod.as_ref().map(|mongod| mongod.uri().to_owned());
        if let Some(uri) = uri.or(cluster.as_ref().map(Sundown::uri)) {
            config.upstream = Some(UpstreamConfig {
                // A change of a rule waits until another Sundown has renewed its settings.
                renewal: Duration::from_millis(50),
                ..UpstreamConfig::at(ClusterUri::new(uri))
            });
        }
        let server = runtime
            .block_on(Sundown::start(config.clone(), clock.clone()))
            .expect("a server");
        let client = Client::connect(server.local_addr()).expect("a connection");
        let mut world = Self {
            client,
            clock,
            server,
            second: None,
            config,
            _cluster: cluster,
            runtime,
            _mongod: mongod,
        };
        if reaper == Reaper::Off {
            world.reaper(false);
        }
        world
    }

    /// Starts another Sundown in front of the same cluster.
    pub fn start_second(&mut self) {
        let started = Sundown::start(self.config.clone(), self.clock.clone());
        let server = self.runtime.block_on(started).expect("a second server");
        let client = Client::connect(server.local_addr()).expect("a connection");
        self.second = Some((server, client));
    }

    /// Sends the next commands through the other Sundown.
    pub fn switch(&mut self) {
        if let Some((server, client)) = &mut self.second {
            std::mem::swap(&mut self.server, server);
            std::mem::swap(&mut self.client, client);
        }
    }

    pub fn reaper(&mut self, on: bool) {
        let reply = self
            .client
            .command("admin", doc! {"setParameter": 1, "ttlMonitorEnabled": on});
        let reply = reply.expect("a reply");
        assert_eq!(reply.get("ok").and_then(int), Some(1), "{reply}");
    }

    /// Opens another connection.
    pub fn connect(&self) -> Client {
        Client::connect(self.server.local_addr()).expect("a connection")
    }

    /// Sets the clock to that many milliseconds after [`START`].
    pub fn at(&self, millis: i64) {
        self.clock.set(Millis(START + millis));
    }

    pub fn now(&self) -> i64 {
        self.clock.now().0
    }

    /// Runs a command and returns the reply, which may be an error.
    pub fn raw(&mut self, command: Document) -> Document {
        let verb = command.keys().next().map_or("", String::as_str);
        let database = match verb {
            "bulkWrite" | "renameCollection" | "setParameter" => "admin",
            _ => DB,
        };
        self.client.command(database, command).expect("a reply")
    }

    /// Runs a command that must succeed, without write errors, and returns the reply.
    pub fn run(&mut self, command: Document) -> Document {
        let shown = command.to_string();
        let reply = self.raw(command);
        let good = reply.get("ok").and_then(int) == Some(1) && !reply.contains_key("writeErrors");
        assert!(good, "{shown}\n  {reply}");
        reply
    }

    /// Runs a command that must fail, and returns code and message of its error or of its first write error.
    pub fn refused(&mut self, command: Document) -> (i64, String) {
        let shown = command.to_string();
        let reply = self.raw(command);
        failure(&reply).unwrap_or_else(|| panic!("{shown}\n  is not refused: {reply}"))
    }

    /// Returns all rows of a cursor command.
    pub fn rows(&mut self, command: Document) -> Vec<Document> {
        let reply = self.run(command);
        self.drain(&reply)
    }

    /// Returns all rows of a cursor whose first batch is in `reply`.
    pub fn drain(&mut self, reply: &Document) -> Vec<Document> {
        let (mut rows, mut id, collection) = batch(reply);
        while id != 0 {
            let more = self.run(doc! {"getMore": id, "collection": &collection});
            let (next, now, _) = batch(&more);
            rows.extend(next);
            id = now;
        }
        rows
    }

    /// Makes documents of a collection have `_ts`. A genuine cluster keeps it only where there was a DefaultTTL.
    pub fn keep_ts(&mut self, collection: &str) {
        if genuine_cluster().is_some() {
            self.run(doc! {"create": collection, "defaultTtl": -1});
            self.run(doc! {"collMod": collection, "defaultTtl": null});
        }
    }

    pub fn insert(&mut self, collection: &str, documents: impl IntoIterator<Item = Document>) {
        let documents: Vec<Document> = documents.into_iter().collect();
        self.run(doc! {"insert": collection, "documents": documents});
    }

    /// Returns the `_id`s that a find returns, in the order of the reply.
    pub fn ids(&mut self, collection: &str, filter: Document) -> Vec<Bson> {
        let rows = self.rows(doc! {"find": collection, "filter": filter});
        ids(&rows)
    }

    /// Returns the `_id`s that a find returns, as numbers.
    pub fn int_ids(&mut self, collection: &str, filter: Document) -> Vec<i64> {
        self.ids(collection, filter)
            .iter()
            .map(|id| int(id).expect("a number"))
            .collect()
    }

    pub fn index(&mut self, collection: &str, index: Document) {
        self.run(create_index(collection, index));
    }

    /// Returns a figure of `metrics.ttl` in serverStatus.
    pub fn ttl_metric(&mut self, name: &str) -> i64 {
        let status = self.run(doc! {"serverStatus": 1});
        let metric = status
            .get_document("metrics")
            .and_then(|metrics| metrics.get_document("ttl"))
            .ok()
            .and_then(|ttl| ttl.get(name))
            .and_then(int);
        metric.unwrap_or_else(|| panic!("no metrics.ttl.{name} in {status}"))
    }
}

// === impl SharedMongod ===

impl SharedMongod {
    /// Takes one that no test uses, without the databases of the test before, or starts one.
    fn take(binary: &str) -> Self {
        let free = FREE.lock().expect("no panic while it is held").pop();
        let mongod = free.unwrap_or_else(|| {
            let mongod = Mongod::start(binary, Kind::Any);
            mongod.end_with_this_process();
            mongod
        });
        let mut client = Client::connect(mongod.members[0].address).expect("a connection");
        let listed = client.command("admin", doc! {"listDatabases": 1, "nameOnly": true});
        let listed = listed.expect("a reply");
        let names = listed.get_array("databases").expect("databases").iter();
        let names = names.filter_map(|one| one.as_document()?.get_str("name").ok());
        for name in names.filter(|name| !["admin", "config", "local"].contains(name)) {
            let dropped = client.command(name, doc! {"dropDatabase": 1});
            let dropped = dropped.expect("a reply");
            assert_eq!(dropped.get("ok").and_then(int), Some(1), "{dropped}");
        }
        Self(Some(mongod))
    }

    fn uri(&self) -> &str {
        self.0.as_ref().map_or("", Mongod::uri)
    }
}

impl Drop for SharedMongod {
    fn drop(&mut self) {
        if let (Some(mongod), Ok(mut free)) = (self.0.take(), FREE.lock()) {
            free.push(mongod);
        }
    }
}

/// Returns a createIndexes command. If the index has no name, the name is made from its key.
pub fn create_index(collection: &str, mut index: Document) -> Document {
    if !index.contains_key("name") {
        let key = index.get_document("key").expect("a key").clone();
        let name: Vec<String> = key
            .iter()
            .map(|(field, how)| format!("{field}_{how}"))
            .collect();
        index.insert("name", name.join("_"));
    }
    doc! {"createIndexes": collection, "indexes": [index]}
}

/// Returns (rows, cursor id, collection) of a cursor reply.
pub fn batch(reply: &Document) -> (Vec<Document>, i64, String) {
    let cursor = reply
        .get_document("cursor")
        .unwrap_or_else(|_| panic!("no cursor: {reply}"));
    let rows = cursor
        .get_array("firstBatch")
        .or_else(|_| cursor.get_array("nextBatch"));
    let rows = rows.expect("a batch").iter();
    let rows = rows
        .map(|row| row.as_document().expect("a document").clone())
        .collect();
    let namespace = cursor.get_str("ns").expect("ns");
    let collection = namespace.split_once('.').map_or("", |(_, name)| name);
    (
        rows,
        cursor.get_i64("id").expect("id"),
        collection.to_owned(),
    )
}

pub fn ids(rows: &[Document]) -> Vec<Bson> {
    rows.iter()
        .map(|row| row.get("_id").cloned().unwrap_or(Bson::Undefined))
        .collect()
}

/// Returns code and message if the reply is an error or contains a write error.
pub fn failure(reply: &Document) -> Option<(i64, String)> {
    let error = match reply.get("ok").and_then(int) {
        Some(1) => reply
            .get_array("writeErrors")
            .ok()?
            .first()?
            .as_document()?,
        _ => reply,
    };
    let code = error.get("code").and_then(int).unwrap_or(-1);
    Some((code, error.get_str("errmsg").unwrap_or_default().to_owned()))
}

/// Returns the value of a whole number, of type int, long or double.
pub fn int(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        Bson::Double(n) if n.fract() == 0.0 => Some(*n as i64),
        _ => None,
    }
}

/// Returns a range of numbers as `_id`s.
pub fn numbered(range: RangeInclusive<i64>) -> Vec<Bson> {
    range
        .map(|n| Bson::Int32(i32::try_from(n).expect("small")))
        .collect()
}

pub fn date(millis: i64) -> Bson {
    Bson::DateTime(bson::DateTime::from_millis(millis))
}
