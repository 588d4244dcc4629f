//! Measures what a transaction of one read and two updates by `_id` costs: the CPU of the server in E, and the throughput.
//!
//! E is the CPU of an echo server for one ping, in the same rounds. `PEER=address,pid` names another server to compare with, a
//! replica set of one mongod for example. The servers work in short rounds that alternate. Each figure is the median of the rounds.

#[path = "../upstream/connection.rs"]
mod connection;
#[allow(dead_code)] // what the benchmark of upstream mode needs, too
#[path = "../upstream/peers.rs"]
mod peers;
#[allow(dead_code)]
#[path = "../upstream/processes.rs"]
mod processes;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use bson::{Document, doc};
use sundown::clock::monotonic;

use connection::{Connection, document, message};
use processes::{Process, client};

/// Documents of each connection. No two connections write to the same one.
const DOCUMENTS: i64 = 1_000;
/// Documents that are inserted at once.
const BATCH: i64 = 1_000;
const CONNECTIONS: i64 = 8;
const DATABASE: &str = "bench";
const COLLECTION: &str = "c";

struct Case<'a> {
    name: &'static str,
    server: &'a Process,
    clients: Vec<Client>,
    is_ping: bool,
    samples: Vec<Sample>,
}

/// What one round has shown: microseconds of CPU for one transaction, and transactions in a second.
#[derive(Clone, Copy)]
struct Sample {
    cpu: f64,
    throughput: f64,
}

struct Client {
    connection: Connection,
    number: i64,
    /// The first of its documents.
    first: i64,
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some("echo") {
        return peers::echo();
    }
    let number = |name: &str, usual: u64| {
        let given = std::env::var(name).ok();
        given.map_or(usual, |given| given.parse().expect(name))
    };
    let (rounds, millis) = (number("ROUNDS", 21), number("MILLIS", 400));
    let (echo, sundown) = (Process::this("echo", None), Process::in_memory());
    let peer = Process::running("PEER");
    let mut cases = vec![
        Case::new("echo: ping", &echo, true),
        Case::new("sundown: transaction", &sundown, false),
    ];
    cases.extend(
        peer.as_ref()
            .map(|peer| Case::new("peer: transaction", peer, false)),
    );
    for _ in 0..rounds {
        for case in &mut cases {
            case.measure(Duration::from_millis(millis));
        }
    }
    let e = cases[0].median().cpu;
    println!(
        "{:<24} {:>10} {:>8} {:>12}",
        "medians", "CPU in us", "in E", "per second"
    );
    for case in &cases {
        let Sample { cpu, throughput } = case.median();
        println!(
            "{:<24} {cpu:>10.1} {:>8.2} {throughput:>12.0}",
            case.name,
            cpu / e
        );
    }
    if let [_, sundown, peer] = &cases[..] {
        let ratio = sundown.median().throughput / peer.median().throughput;
        println!("throughput beside the peer: {ratio:.2} times");
    }
}

// === impl Case ===

impl<'a> Case<'a> {
    fn new(name: &'static str, server: &'a Process, is_ping: bool) -> Self {
        if !is_ping {
            fill(server.address);
        }
        Self {
            name,
            server,
            clients: (0..CONNECTIONS)
                .map(|n| Client::new(server.address, n * DOCUMENTS))
                .collect(),
            is_ping,
            samples: Vec::new(),
        }
    }

    fn measure(&mut self, duration: Duration) {
        let (before, began) = (self.server.cpu(), monotonic());
        let (end, is_ping) = (began + duration, self.is_ping);
        let done: usize = thread::scope(|scope| {
            let work = |client: &mut Client| {
                let mut done = 0;
                while monotonic() < end {
                    match is_ping {
                        true => client.exchange(&message(&doc! {"ping": 1, "$db": "admin"}, None)),
                        false => client.transaction(),
                    }
                    done += 1;
                }
                done
            };
            let clients: Vec<_> = (self.clients.iter_mut())
                .map(|client| scope.spawn(move || work(client)))
                .collect();
            let done = clients
                .into_iter()
                .map(|client| client.join().expect("a client"));
            done.sum()
        });
        let took = monotonic() - began;
        let cpu = self.server.cpu() - before;
        self.samples.push(Sample {
            cpu: cpu.as_secs_f64() * 1e6 / done as f64,
            throughput: done as f64 / took.as_secs_f64(),
        });
    }

    fn median(&self) -> Sample {
        let middle = |figure: fn(&Sample) -> f64| {
            let mut figures: Vec<f64> = self.samples.iter().map(figure).collect();
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        };
        Sample {
            cpu: middle(|sample| sample.cpu),
            throughput: middle(|sample| sample.throughput),
        }
    }
}

fn fill(address: SocketAddr) {
    let mut client = client(address);
    // Before 7.0 it is an error to drop what is not there.
    let _ = client.command(DATABASE, doc! {"drop": COLLECTION});
    let mut run = |command: Document| {
        let reply = client.command(DATABASE, command).expect("a reply");
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    };
    for from in (0..DOCUMENTS * CONNECTIONS).step_by(BATCH as usize) {
        let documents: Vec<Document> = (from..from + BATCH).map(document).collect();
        run(doc! {"insert": COLLECTION, "documents": documents});
    }
}

// === impl Client ===

impl Client {
    fn new(address: SocketAddr, first: i64) -> Self {
        Self {
            connection: Connection::open(address),
            number: 0,
            first,
        }
    }

    /// Reads one document and increments two.
    fn transaction(&mut self) {
        self.number += 1;
        let id = |n: i64| self.first + (self.number * 7_919 + n) % DOCUMENTS;
        let update = |n| {
            Some((
                "updates",
                doc! {"q": {"_id": id(n)}, "u": {"$inc": {"count": 1}}},
            ))
        };
        let statements = [
            (doc! {"find": COLLECTION, "filter": {"_id": id(0)}}, None),
            (doc! {"update": COLLECTION, "ordered": true}, update(1)),
            (doc! {"update": COLLECTION, "ordered": true}, update(2)),
            (doc! {"commitTransaction": 1}, None),
        ];
        for (n, (mut command, outside)) in statements.into_iter().enumerate() {
            command.insert("lsid", self.connection.lsid.clone());
            command.insert("txnNumber", self.number);
            command.insert("autocommit", false);
            if n == 0 {
                command.insert("startTransaction", true);
            }
            let is_commit = command.contains_key("commitTransaction");
            command.insert("$db", if is_commit { "admin" } else { DATABASE });
            self.exchange(&message(&command, outside));
        }
    }

    /// Sends a message and checks that it succeeded: figures of failures say nothing.
    fn exchange(&mut self, message: &[u8]) {
        self.connection.exchange(message);
        let reply = self.connection.reply();
        assert_eq!(reply.get("ok").as_f64(), Some(1.0), "{reply:?}");
    }
}
