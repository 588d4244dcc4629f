//! A cluster behind the rules, and a clock that a test sets.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use bson::{Bson, Document, bson, doc};
use bytes::Bytes;

use crate::clock::Clock;
use crate::command::{Commands, Connection, Context};
use crate::config::Config;
use crate::handler::{CallOutcome, Handler, Peer};
use crate::ttl::DefaultTtl;
use crate::upstream::rewrite::{CursorRules, Moment, Rulebook, run};
use crate::upstream::{Ask, CollectionRules, DateRule, LastWrites, Lost, Term};
use crate::value::Millis;
use crate::wire::Request;

/// When every test begins.
pub const START: i64 = 1_800_000_000_000;

pub struct World {
    pub cluster: TestCluster,
    pub book: Book,
    pub now: i64,
    pub expose_ts: bool,
    pub cursors: CursorRules,
    pub writes: Arc<LastWrites>,
}

/// The cluster that is asked, and what it was asked.
pub struct TestCluster {
    server: Server,
    pub asked: Vec<Document>,
    /// Bodies as they came.
    pub bytes: Vec<Bytes>,
    pub term: u64,
}

enum Server {
    PlainServer(Box<PlainServer>),
    Mongod(TcpStream),
}

/// A plain Sundown without sockets.
pub struct PlainServer {
    commands: Commands,
    connection: Connection,
    clock: Clock,
}

#[derive(Default)]
pub struct Book {
    rules: HashMap<String, Arc<CollectionRules>>,
    pub no_unique_keys: bool,
}

// === impl World ===

impl World {
    pub fn new() -> Self {
        let server = match std::env::var("MONGODB_URI") {
            Err(_) => Server::PlainServer(Box::new(PlainServer::new())),
            Ok(uri) => {
                let host = uri
                    .trim_start_matches("mongodb://")
                    .split('/')
                    .next()
                    .unwrap();
                Server::Mongod(TcpStream::connect(host).unwrap())
            }
        };
        let mut world = Self::over(server);
        for collection in ["a", "b", "plain"] {
            world.straight(doc! {"drop": collection});
        }
        world
    }

    /// Puts the rules in front of a plain Sundown in any case.
    pub fn plain() -> Self {
        Self::over(Server::PlainServer(Box::new(PlainServer::new())))
    }

    fn over(server: Server) -> Self {
        Self {
            cluster: TestCluster {
                server,
                asked: Vec::new(),
                bytes: Vec::new(),
                term: 0,
            },
            book: Book::default(),
            now: START,
            expose_ts: false,
            cursors: CursorRules::default(),
            writes: Arc::default(),
        }
    }

    pub fn is_mongod(&self) -> bool {
        matches!(self.cluster.server, Server::Mongod(_))
    }

    /// Returns whether the cluster has transactions.
    pub fn is_replica_set(&mut self) -> bool {
        self.is_mongod() && self.straight(doc! {"hello": 1}).contains_key("setName")
    }

    /// Gives a collection a default. A Sundown as the cluster keeps `_ts` itself.
    pub fn default_ttl(&mut self, collection: &str, seconds: i64) {
        let stores_ts = self.is_mongod();
        self.book.set(
            collection,
            CollectionRules {
                stamped: true,
                stores_ts,
                default: DefaultTtl::from_seconds(seconds).unwrap_or_default(),
                since: Millis(START),
                dates: Vec::new(),
                ..CollectionRules::NONE
            },
        );
    }

    /// Lets the rules of a collection remember the last writes to its documents. A change of its settings makes it another one.
    pub fn remember_writes(&mut self, collection: &str, touched: i64) {
        let writes = self.writes.of(collection, [1; 16], touched);
        self.change(collection, |rules| rules.writes = Some(writes));
    }

    pub fn date_index(&mut self, collection: &str, path: &str, seconds: i32) {
        let rule = DateRule {
            path: path.into(),
            seconds,
            filter: None,
        };
        let rules = CollectionRules {
            dates: vec![rule],
            ..CollectionRules::NONE
        };
        self.book.set(collection, rules);
    }

    /// Changes the rules of a collection.
    pub fn change(&mut self, collection: &str, change: impl FnOnce(&mut CollectionRules)) {
        let mut rules = (*self.book.rules("", collection)).clone();
        change(&mut rules);
        self.book.set(collection, rules);
    }

    pub fn wait(&mut self, seconds: i64) {
        self.now += seconds * 1000;
    }

    /// Sends a command through the rules.
    pub fn run(&mut self, command: Document) -> Document {
        self.send(request(command))
    }

    pub fn send(&mut self, request: Request) -> Document {
        let moment = Moment {
            now: Millis(self.now),
            expose_ts: self.expose_ts,
        };
        let ran = run(
            &mut self.cluster,
            request,
            &self.book,
            moment,
            &self.cursors,
        );
        let reply = block_on(ran).unwrap();
        Document::from_reader(&reply[..]).unwrap()
    }

    /// Sends a command to the cluster itself.
    pub fn straight(&mut self, command: Document) -> Document {
        let asked = block_on(self.cluster.ask(request(command))).unwrap();
        self.cluster.asked.clear();
        self.cluster.bytes.clear();
        Document::from_reader(&asked[..]).unwrap()
    }

    /// Returns the first batch of a find or an aggregate.
    pub fn rows(&mut self, command: Document) -> Bson {
        let reply = self.run(command);
        let cursor = reply.get_document("cursor");
        cursor.unwrap_or_else(|_| panic!("{reply}"))["firstBatch"].clone()
    }

    pub fn find(&mut self, filter: Document) -> Bson {
        self.rows(doc! {"find": "a", "filter": filter, "sort": {"_id": 1}})
    }

    /// Inserts documents and fails if that fails.
    pub fn insert(&mut self, documents: Bson) {
        let reply = self.run(doc! {"insert": "a", "documents": documents});
        assert!(!reply.contains_key("writeErrors"), "{reply}");
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
    }
}

pub fn code(reply: &Document) -> i32 {
    let error = match reply.get_array("writeErrors") {
        Ok(errors) => errors[0].as_document().unwrap(),
        Err(_) => reply,
    };
    error.get_i32("code").unwrap_or_default()
}

pub fn ids(rows: &Bson) -> Bson {
    let rows = rows.as_array().unwrap().iter();
    rows.map(|row| row.as_document().unwrap()["_id"].clone())
        .collect::<Vec<_>>()
        .into()
}

/// Returns documents with these `_id`s.
pub fn documents(ids: std::ops::Range<i32>) -> Bson {
    ids.map(|id| bson!({"_id": id})).collect::<Vec<_>>().into()
}

pub fn request(mut command: Document) -> Request {
    if !command.contains_key("$db") {
        command.insert("$db", "rewrite");
    }
    Request::new(command.to_vec().unwrap())
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

// === impl Book ===

impl Book {
    pub fn set(&mut self, collection: &str, rules: CollectionRules) {
        self.rules.insert(collection.into(), Arc::new(rules));
    }
}

impl Rulebook for Book {
    fn rules(&self, _: &str, collection: &str) -> Arc<CollectionRules> {
        let known = self.rules.get(collection).cloned();
        known.unwrap_or_else(|| Arc::new(CollectionRules::NONE))
    }

    fn has_unique_keys(&self, _: &str, _: &str) -> bool {
        !self.no_unique_keys
    }
}

// === impl TestCluster ===

impl Ask for TestCluster {
    fn term(&self) -> Term {
        Term(self.term)
    }

    async fn ask(&mut self, request: Request) -> Result<Bytes, Lost> {
        let mut whole = Document::from_reader(&request.body[..]).unwrap();
        for sequence in &request.sequences {
            let documents = sequence.iter();
            let documents: Vec<Bson> = documents
                .map(|doc| Document::from_reader(doc.bytes()).unwrap().into())
                .collect();
            whole.insert(sequence.name.to_string(), documents);
        }
        self.asked.push(whole);
        self.bytes.push(request.body.clone());
        Ok(match &mut self.server {
            Server::PlainServer(plain) => plain.call(request),
            Server::Mongod(socket) => exchange(socket, &request),
        })
    }
}

// === impl PlainServer ===

impl PlainServer {
    pub fn new() -> Self {
        let clock = Clock::frozen(Millis(START));
        let commands = Commands::new(Context::new(Config::default(), clock.clone()));
        let connection = commands.open(Peer::plain(1, ([127, 0, 0, 1], 1).into()));
        Self {
            commands,
            connection,
            clock,
        }
    }

    pub fn set(&self, now: i64) {
        self.clock.set(Millis(now));
    }

    pub fn run(&mut self, command: Document) -> Document {
        Document::from_reader(&self.call(request(command))[..]).unwrap()
    }

    fn call(&mut self, request: Request) -> Bytes {
        let mut reply = Vec::new();
        let called = self
            .commands
            .call(&mut self.connection, request, &mut reply);
        if let CallOutcome::Work(mut work) = called.unwrap() {
            while !work.step(&mut reply).unwrap().is_done() {}
        }
        reply.into()
    }
}

fn exchange(socket: &mut TcpStream, request: &Request) -> Bytes {
    let mut sections = vec![0];
    sections.extend_from_slice(&request.body);
    for sequence in &request.sequences {
        sections.push(1);
        let length = 4 + sequence.name.len() + 1 + sequence.documents.len();
        sections.extend_from_slice(&(length as i32).to_le_bytes());
        sections.extend_from_slice(sequence.name.as_bytes());
        sections.push(0);
        sections.extend_from_slice(&sequence.documents);
    }
    let mut message = Vec::new();
    for word in [20 + sections.len() as i32, 1, 0, 2013, 0] {
        message.extend_from_slice(&word.to_le_bytes());
    }
    message.extend_from_slice(&sections);
    socket.write_all(&message).unwrap();
    let mut head = [0; 21];
    socket.read_exact(&mut head).unwrap();
    let length = i32::from_le_bytes(*head.first_chunk().unwrap());
    let mut body = vec![0; length as usize - head.len()];
    socket.read_exact(&mut body).unwrap();
    body.into()
}
