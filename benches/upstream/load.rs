//! The clients: eight connections, each with one command at a time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bson::{Document, doc};
use sundown::clock::monotonic;
use sundown::value::Doc;

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
    connections: Vec<Connection>,
}

struct Connection {
    socket: TcpStream,
    lsid: Document,
    buffer: Vec<u8>,
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

/// Builds a document of 1 KB.
pub fn document(id: i64) -> Document {
    doc! {"_id": id, "name": format!("customer {id:08}"), "count": 0, "pad": "x".repeat(940)}
}

/// Builds an OP_MSG, with documents outside the command if there are any.
pub fn message(command: &Document, outside: Option<(&str, &Document)>) -> Vec<u8> {
    let mut bytes = vec![0; 21];
    bytes[12..16].copy_from_slice(&2013_i32.to_le_bytes());
    bytes.extend(command.to_vec().expect("encodes"));
    if let Some((name, document)) = outside {
        let document = document.to_vec().expect("encodes");
        let size = (4 + name.len() + 1 + document.len()) as i32;
        bytes.push(1);
        bytes.extend(size.to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.extend(document);
    }
    let length = (bytes.len() as i32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes
}

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
            connections: (0..CONNECTIONS)
                .map(|_| Connection::open(address))
                .collect(),
        }
    }

    /// Lets all clients work.
    pub fn fire(&mut self, duration: Duration) -> Volley {
        let (operation, database, collection) = (self.operation, self.database, &*self.collection);
        let end = monotonic() + duration;
        let mut latencies: Vec<Duration> = thread::scope(|scope| {
            let work = |connection: &mut Connection| {
                let mut latencies = Vec::new();
                while monotonic() < end {
                    let sent = connection.message(operation, database, collection);
                    let start = monotonic();
                    connection.exchange(&sent);
                    latencies.push(monotonic() - start);
                    connection.check(operation);
                }
                latencies
            };
            let clients: Vec<_> = self
                .connections
                .iter_mut()
                .map(|connection| scope.spawn(move || work(connection)))
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

// === impl Connection ===

impl Connection {
    fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("a connection");
        socket.set_nodelay(true).expect("a TCP socket");
        let patience = Some(Duration::from_secs(60));
        socket.set_read_timeout(patience).expect("a TCP socket");
        Self {
            socket,
            lsid: doc! {"id": bson::Uuid::new()},
            buffer: vec![0; 64 * 1024],
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
        command.insert("lsid", self.lsid.clone());
        command.insert("$db", database);
        message(&command, outside.as_ref().map(|(name, one)| (*name, one)))
    }

    /// Sends a message and reads its reply into the buffer.
    fn exchange(&mut self, message: &[u8]) {
        self.socket.write_all(message).expect("it is sent");
        let (mut filled, mut length) = (0, 4);
        while filled < length {
            let read = self
                .socket
                .read(&mut self.buffer[filled..])
                .expect("a reply");
            assert!(read > 0, "the server has closed the connection");
            filled += read;
            if let Some(word) = self.buffer[..filled].first_chunk() {
                length = i32::from_le_bytes(*word) as usize;
                if self.buffer.len() < length {
                    self.buffer.resize(length, 0);
                }
            }
        }
    }

    /// Checks the reply, since figures of failures say nothing, and keeps the cursor.
    fn check(&mut self, operation: Operation) {
        let length = i32::from_le_bytes(*self.buffer.first_chunk().expect("a header"));
        let reply = Doc::new(&self.buffer[21..length as usize]);
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
