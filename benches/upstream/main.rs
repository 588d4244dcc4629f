//! Measures what upstream mode costs: the CPU of Sundown and of mongod per command, and the latency, as ratios in one run.
//!
//! It needs a mongod (`MONGOD=$(tests/mongod.sh path)`); without one it says so and ends. All cases run in short rounds that
//! alternate, so that a busy machine affects all of them equally. Each figure is the median of the rounds.

mod connection;
mod load;
mod peers;
mod processes;

use std::time::Duration;

use bson::{Document, doc};

use load::{Operation, Target, Volley};
use processes::{Process, client};

/// Documents in each collection.
const DOCUMENTS: i64 = 10_000;
/// Documents in a batch of a cursor.
const BATCH: i64 = 1_000;
const DATABASE: &str = "bench";
/// A collection without a TTL, and one whose documents end in ninety days.
const PLAIN: &str = "plain";
const TTL: &str = "ttl";
/// A Sundown that talks to mongod by a Unix domain socket. The others talk by TCP.
const UNIX: &str = "by Unix socket";

/// One line of measurements: an operation on a server, and the processes that pay for it.
struct Case<'a> {
    name: String,
    target: Target,
    /// The process in front, whose CPU is compared with the echo's.
    front: Option<&'a Process>,
    mongod: Option<&'a Process>,
    volleys: Vec<Sample>,
}

/// What one volley has shown, per operation, in microseconds.
#[derive(Clone, Copy)]
struct Sample {
    front: f64,
    mongod: f64,
    latency: f64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["echo"] => peers::echo(),
        ["relay", to] => peers::relay(to.parse().expect("an address")),
        _ => match std::env::var("MONGOD") {
            Ok(mongod) => compare(&mongod),
            Err(_) => {
                println!("DID NOT RUN: MONGOD names no mongod (MONGOD=$(tests/mongod.sh path))")
            }
        },
    }
}

fn compare(mongod: &str) {
    let number = |name: &str, usual: u64| {
        let given = std::env::var(name).ok();
        given.map_or(usual, |given| given.parse().expect(name))
    };
    let rounds = number("ROUNDS", 15);
    let duration = Duration::from_millis(number("MILLIS", 300));
    let mongod = Process::mongod(mongod);
    let sundown = Process::sundown(&mongod);
    let by_socket = Process::sundown_by_socket(&mongod);
    let echo = Process::this("echo", None);
    let relay = Process::this("relay", Some(mongod.address));
    let other = Process::running("PEER");
    fill(&mongod, &sundown);

    let mut cases = vec![Case::new("echo: ping", &echo, None, Operation::Ping)];
    let operations = [Operation::Find, Operation::Increment, Operation::Insert];
    let places = [
        ("direct", None, PLAIN),
        ("relay", Some(&relay), PLAIN),
        ("without TTL", Some(&sundown), PLAIN),
        ("with TTL", Some(&sundown), TTL),
        (UNIX, Some(&by_socket), PLAIN),
    ];
    let peer = other.as_ref().map(|other| ("peer", Some(other), PLAIN));
    let places: Vec<_> = places.into_iter().chain(peer).collect();
    for operation in operations {
        for (place, front, collection) in &places {
            let name = format!("{place}: {}", operation.name());
            let target = Target::new(
                front.unwrap_or(&mongod).address,
                operation,
                DATABASE,
                collection,
            );
            cases.push(Case::of(name, target, *front, Some(&mongod)));
        }
    }
    for (place, front, collection) in [
        ("relay", &relay, PLAIN),
        ("without TTL", &sundown, PLAIN),
        ("with TTL", &sundown, TTL),
        (UNIX, &by_socket, PLAIN),
    ]
    .into_iter()
    .chain(other.as_ref().map(|other| ("peer", other, PLAIN)))
    {
        let name = format!("{place}: {}", Operation::Batch.name());
        let target = Target::new(front.address, Operation::Batch, DATABASE, collection);
        cases.push(Case::of(name, target, Some(front), Some(&mongod)));
    }

    for _ in 0..rounds {
        for case in &mut cases {
            case.measure(duration);
        }
    }
    report(&cases, operations);
}

/// Fills both collections. The one with a TTL is filled through Sundown, so that its documents are stamped.
fn fill(mongod: &Process, sundown: &Process) {
    for (server, collection) in [(mongod, PLAIN), (sundown, TTL)] {
        let mut client = client(server.address);
        let mut run = |command: Document| {
            let reply = client.command(DATABASE, command).expect("a reply");
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        };
        run(doc! {"create": collection});
        if collection == TTL {
            let index =
                doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 90 * 86_400};
            run(doc! {"createIndexes": collection, "indexes": [index]});
        }
        for from in (0..DOCUMENTS).step_by(BATCH as usize) {
            let documents: Vec<Document> = (from..from + BATCH).map(connection::document).collect();
            run(doc! {"insert": collection, "documents": documents});
        }
    }
}

fn report(cases: &[Case<'_>], operations: [Operation; 3]) {
    println!(
        "{:<32} {:>10} {:>10} {:>10}",
        "microseconds per operation", "front CPU", "mongod CPU", "latency"
    );
    for case in cases {
        let Sample {
            front,
            mongod,
            latency,
        } = case.median();
        println!(
            "{:<32} {front:>10.1} {mongod:>10.1} {latency:>10.1}",
            case.name
        );
    }
    let median = |name: &str| {
        let case = cases.iter().find(|case| case.name == name);
        case.map(Case::median)
    };
    let echo = median("echo: ping").expect("it was measured").front;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("\nE is {echo:.1} microseconds. Load of the machine at the end: {load}");
    println!("\n{:<32} {:>10} {:>10}", "ratio", "measured", "limit");
    let line = |what: String, ratio: f64, limit: &str| {
        println!("{what:<32} {ratio:>10.2} {limit:>10}");
    };
    for (operation, mongod_limit) in operations.into_iter().zip(["1.15", "1.40", "1.25"]) {
        let name = operation.name();
        let direct = median(&format!("direct: {name}")).expect("it was measured");
        for (place, limit) in [
            ("relay", ""),
            ("without TTL", "2.70"),
            ("with TTL", "3.40"),
            (UNIX, ""),
            ("peer", ""),
        ] {
            let Some(through) = median(&format!("{place}: {name}")) else {
                continue;
            };
            line(
                format!("{place}: {name}, CPU / echo"),
                through.front / echo,
                limit,
            );
            let limit = if place == "without TTL" { "1.40" } else { "" };
            line(
                format!("{place}: {name}, latency / direct"),
                through.latency / direct.latency,
                limit,
            );
            let limit = if place == "with TTL" {
                mongod_limit
            } else {
                ""
            };
            line(
                format!("{place}: {name}, mongod / direct"),
                through.mongod / direct.mongod,
                limit,
            );
        }
    }
    let name = Operation::Batch.name();
    let relay = median(&format!("relay: {name}")).expect("it was measured");
    for (place, limit) in [
        ("without TTL", "2.50"),
        ("with TTL", "2.50"),
        (UNIX, ""),
        ("peer", ""),
    ] {
        if let Some(through) = median(&format!("{place}: {name}")) {
            line(
                format!("{place}: {name}, CPU / relay"),
                through.front / relay.front,
                limit,
            );
        }
    }
}

// === impl Case ===

impl<'a> Case<'a> {
    fn new(
        name: &str,
        front: &'a Process,
        mongod: Option<&'a Process>,
        operation: Operation,
    ) -> Self {
        let target = Target::new(front.address, operation, DATABASE, PLAIN);
        Self::of(name.into(), target, Some(front), mongod)
    }

    fn of(
        name: String,
        target: Target,
        front: Option<&'a Process>,
        mongod: Option<&'a Process>,
    ) -> Self {
        Self {
            name,
            target,
            front,
            mongod,
            volleys: Vec::new(),
        }
    }

    fn measure(&mut self, duration: Duration) {
        let cpu = |process: Option<&Process>| process.map_or(Duration::ZERO, Process::cpu);
        let (front, mongod) = (cpu(self.front), cpu(self.mongod));
        let Volley {
            operations,
            latency,
        } = self.target.fire(duration);
        let each = |from: Duration, to: Duration| {
            to.saturating_sub(from).as_secs_f64() * 1e6 / operations as f64
        };
        self.volleys.push(Sample {
            front: each(front, cpu(self.front)),
            mongod: each(mongod, cpu(self.mongod)),
            latency: latency.as_secs_f64() * 1e6,
        });
    }

    fn median(&self) -> Sample {
        let of = |figure: fn(&Sample) -> f64| {
            let mut all: Vec<f64> = self.volleys.iter().map(figure).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Sample {
            front: of(|sample| sample.front),
            mongod: of(|sample| sample.mongod),
            latency: of(|sample| sample.latency),
        }
    }
}
