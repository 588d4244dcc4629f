//! Builds commands from the server's own vocabulary and runs them one after another on a new in-memory server. No command may
//! panic or run forever without a pause, and every reply must be one valid document with an `ok`.

#![no_main]

mod source;

use libfuzzer_sys::fuzz_target;
use sundown::clock::{Clock, Millis};
use sundown::command::{COMMANDS, Commands, Connection, Context};
use sundown::config::Config;
use sundown::handler::{CallOutcome, Handler, Peer, Progress};
use sundown::query::accumulator::ACCUMULATORS;
use sundown::query::expr::EXPRESSIONS;
use sundown::query::filter::FILTERS;
use sundown::query::stage::STAGES;
use sundown::query::update::UPDATES;
use sundown::value::{ArrayBuilder, Doc, DocBuilder, Limits, Value, validate};
use sundown::wire::Request;

use source::Source;

/// Field names of documents, of command options and of operator arguments.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "a", "b", "c", "a.b", "a.0", "a.$", "a.$[]", "a.$[x]", "_id", "_ts", "ttl", "filter", "query", "q", "u", "update",
    "updates", "deletes", "documents", "pipeline", "cursor", "sort", "projection", "fields", "limit", "skip", "batchSize",
    "multi", "upsert", "new", "remove", "hint", "key", "name", "indexes", "index", "unique", "sparse", "expireAfterSeconds",
    "partialFilterExpression", "defaultTtl", "let", "arrayFilters", "ordered", "collection", "from", "localField",
    "foreignField", "as", "in", "input", "vars", "cond", "if", "then", "else", "on", "into", "whenMatched", "path", "field",
    "distinct", "hidden", "x", "maxTimeMS", "to", "freeze", "advanceSeconds", "explain", "verbosity", "ops", "nsInfo", "ns",
];

const TEXTS: &[&str] = &[
    "c", "d", "a", "$a", "$a.b", "$$ROOT", "$$NOW", "$$this", "_id_", "*", "a.b", "(a+)+$", "", "é",
];

impl Source<'_> {
    fn name(&mut self) -> &'static str {
        match self.byte() % 8 {
            0 => self.pick(FILTERS.entries()).name,
            1 => self.pick(UPDATES.entries()).name,
            2 => self.pick(EXPRESSIONS.entries()).name,
            3 => self.pick(STAGES.entries()).name,
            4 => self.pick(ACCUMULATORS.entries()).name,
            _ => *self.pick(NAMES),
        }
    }

    fn scalar(&mut self) -> Value {
        match self.byte() % 12 {
            0 => Value::null(),
            1 => Value::int32(i32::from(self.byte()) - 20),
            2 => Value::int64(i64::MAX - i64::from(self.byte())),
            3 => Value::double(f64::from(self.byte()) / 4.0),
            4 => {
                Value::double([f64::NAN, f64::INFINITY, -0.0, 1e300][usize::from(self.byte() % 4)])
            }
            5 => Value::boolean(self.byte().is_multiple_of(2)),
            6 => Value::date(i64::from(self.byte()) * 1000),
            7 => Value::oid([self.byte(); 12]),
            8 => Value::regex(*self.pick(TEXTS), "i"),
            9 => Value::decimal((0x3040_u128 << 112 | u128::from(self.byte())).to_le_bytes()),
            _ => Value::string(*self.pick(TEXTS)),
        }
    }

    fn document(&mut self, out: &mut DocBuilder<'_>, depth: u8) {
        for _ in 0..self.byte() % 4 {
            let name = self.name();
            match self.byte() % 4 {
                0 if depth < 6 => {
                    let mut inner = out.doc(name);
                    self.document(&mut inner, depth + 1);
                    inner.end();
                }
                1 if depth < 6 => {
                    let mut inner = out.array(name);
                    self.array(&mut inner, depth + 1);
                    inner.end();
                }
                _ => {
                    let value = self.scalar();
                    out.put(name, value.as_ref());
                }
            }
        }
    }

    fn array(&mut self, out: &mut ArrayBuilder<'_>, depth: u8) {
        for _ in 0..self.byte() % 4 {
            match self.byte() % 3 {
                0 if depth < 6 => {
                    let mut inner = out.doc();
                    self.document(&mut inner, depth + 1);
                    inner.end();
                }
                1 if depth < 6 => {
                    let mut inner = out.array();
                    self.array(&mut inner, depth + 1);
                    inner.end();
                }
                _ => {
                    let value = self.scalar();
                    out.push(value.as_ref());
                }
            }
        }
    }

    fn command(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut body = DocBuilder::begin(&mut bytes);
        let command = self.pick(COMMANDS.entries()).name;
        let target = match self.byte() % 4 {
            0 => Value::int32(1),
            _ => Value::string("c"),
        };
        body.put(command, target.as_ref());
        for _ in 0..self.byte() % 6 {
            let name = *self.pick(NAMES);
            match self.byte() % 3 {
                0 => {
                    let mut inner = body.doc(name);
                    self.document(&mut inner, 0);
                    inner.end();
                }
                1 => {
                    let mut inner = body.array(name);
                    self.array(&mut inner, 0);
                    inner.end();
                }
                _ => {
                    let value = self.scalar();
                    body.put(name, value.as_ref());
                }
            }
        }
        let database = match self.byte() % 4 {
            0 => "admin",
            _ => "d",
        };
        body.put_str("$db", database);
        body.end();
        bytes
    }
}

/// Creates a new server for every input, so that the bytes of a finding are enough to reproduce it.
fn server() -> Commands {
    let config = Config {
        enable_test_commands: true,
        ..Config::default()
    };
    Commands::new(Context::new(
        config,
        Clock::frozen(Millis(1_800_000_000_000)),
    ))
}

fuzz_target!(|data: &[u8]| {
    let mut source = Source(data);
    let commands = server();
    let mut connection = commands.open(Peer::plain(1, ([127, 0, 0, 1], 1).into()));
    while !source.0.is_empty() {
        run(&commands, &mut connection, source.command());
    }
});

fn run(commands: &Commands, connection: &mut Connection, body: Vec<u8>) {
    let request = Request::new(body);
    let mut reply = Vec::new();
    let Ok(outcome) = commands.call(connection, request, &mut reply) else {
        return;
    };
    if let CallOutcome::Work(mut work) = outcome {
        for _ in 0..2_000 {
            match work.step(&mut reply) {
                Ok(Progress::Done | Progress::Streaming) => break,
                Ok(Progress::Wait(_)) | Err(_) => return,
                Ok(Progress::More | Progress::Blocking) => {}
            }
        }
        if reply.is_empty() {
            return;
        }
    }
    validate(&reply, Limits::default()).expect("a reply is a valid document");
    assert!(
        Doc::new(&reply).has("ok"),
        "a reply says whether it went well"
    );
}
