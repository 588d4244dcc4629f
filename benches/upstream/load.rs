//! The clients: eight connections, each with one command at a time.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bson::doc;
use sundown::clock::monotonic;
use sundown::value::Doc;

use crate::connection::{Connection, document, message};
use crate::{BATCH, DOCUMENTS};

/// What the clients do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Ping,
    /// A find by `_id`.
    Find,
    /// An update of one document by `_id`, with `$inc`.
    Increment,
    /// An insert of one document.
    Insert,
    /// The next batch of a cursor.
    Batch,
}

/// A collection of a server, with connections to it.
pub struct Target {
    operation: Operation,
    database: &'static str,
    collection: String,
    clients: Vec<Client>,
}

struct Client {
    connection: Connection,
    /// The open cursor whose batches are read, or 0.
    cursor: i64,
}

/// What came of all clients working for a while.
pub struct Volley {
    pub operations: usize,
    /// The median.
    pub latency: Duration,
}

const CONNECTIONS: usize = 8;

/// Returns a number that was not returned before.
fn next() -> i64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).cast_signed()
}

// === impl Operation ===

impl Operation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Find => "find by _id",
            Self::Increment => "update $inc",
            Self::Insert => "insert",
            Self::Batch => "batch of a cursor",
        }
    }
}

// === impl Target ===

impl Target {
    pub fn new(
        address: SocketAddr,
        operation: Operation,
        database: &'static str,
        collection: &str,
    ) -> Self {
        Self {
            operation,
            database,
            collection: collection.to_owned(),
            clients: (0..CONNECTIONS).map(|_| Client::new(address)).collect(),
        }
    }

    /// Lets all clients work.
    pub fn fire(&mut self, duration: Duration) -> Volley {
        let (operation, database, collection) = (self.operation, self.database, &*self.collection);
        let end = monotonic() + duration;
        let mut latencies: Vec<Duration> = thread::scope(|scope| {
            let work = |client: &mut Client| {
                let mut latencies = Vec::new();
                while monotonic() < end {
                    let sent = client.message(operation, database, collection);
                    let start = monotonic();
                    client.connection.exchange(&sent);
                    latencies.push(monotonic() - start);
                    client.check(operation);
                }
                latencies
            };
            let clients: Vec<_> = self
                .clients
                .iter_mut()
                .map(|client| scope.spawn(move || work(client)))
                .collect();
            let done = clients.into_iter().map(|client| client.join());
            done.flat_map(|latencies| latencies.expect("a client"))
                .collect()
        });
        latencies.sort_unstable();
        Volley {
            operations: latencies.len(),
            latency: latencies[latencies.len() / 2],
        }
    }
}

// === impl Client ===

impl Client {
    fn new(address: SocketAddr) -> Self {
        Self {
            connection: Connection::open(address),
            cursor: 0,
        }
    }

    /// Builds the next command, as drivers send it.
    fn message(&self, operation: Operation, database: &str, collection: &str) -> Vec<u8> {
        let number = next();
        let id = number.wrapping_mul(7919) % DOCUMENTS;
        let mut outside = None;
        let mut command = match operation {
            Operation::Ping => doc! {"ping": 1},
            Operation::Find => doc! {"find": collection, "filter": {"_id": id}},
            Operation::Increment => {
                let update = doc! {"q": {"_id": id}, "u": {"$inc": {"count": 1}}};
                outside = Some(("updates", update));
                doc! {"update": collection, "ordered": true}
            }
            Operation::Insert => {
                outside = Some(("documents", document(DOCUMENTS + number)));
                doc! {"insert": collection, "ordered": true}
            }
            Operation::Batch if self.cursor == 0 => {
                let all = doc! {"_id": {"$lt": DOCUMENTS}};
                doc! {"find": collection, "filter": all, "batchSize": BATCH, "limit": DOCUMENTS}
            }
            Operation::Batch => {
                doc! {"getMore": self.cursor, "collection": collection, "batchSize": BATCH}
            }
        };
        command.insert("lsid", self.connection.lsid.clone());
        command.insert("$db", database);
        message(&command, outside)
    }

    /// Checks the reply, since figures of failures say nothing, and keeps the cursor.
    fn check(&mut self, operation: Operation) {
        let reply = self.connection.reply();
        let cursor = reply.get("cursor").as_doc().unwrap_or(Doc::EMPTY);
        let rows = |name: &str| cursor.get(name).as_array().map(|rows| rows.count());
        let expected = match operation {
            Operation::Ping => reply.get("ok").as_f64() == Some(1.0),
            Operation::Find => rows("firstBatch") == Some(1),
            Operation::Increment | Operation::Insert => reply.get("n").as_i32() == Some(1),
            Operation::Batch => rows("firstBatch").or(rows("nextBatch")) == Some(BATCH as usize),
        };
        assert!(expected, "{operation:?}: {reply:?}");
        self.cursor = cursor.get("id").as_i64().unwrap_or_default();
    }
}
