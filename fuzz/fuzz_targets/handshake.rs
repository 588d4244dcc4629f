//! Tests the first message of an unknown client: bytes that may or may not be TLS, and hellos built from the fields that
//! drivers send. Nothing may panic, every reply must be one valid document with an `ok`, and the server may only agree to
//! options that both sides offered.

#![no_main]

mod source;

use libfuzzer_sys::fuzz_target;
use sundown::clock::{Clock, Millis};
use sundown::command::{Commands, Context};
use sundown::config::Config;
use sundown::handler::{CallOutcome, Handler, Peer, Progress};
use sundown::server::Greeting;
use sundown::value::{ArrayBuilder, Doc, DocBuilder, Limits, Type, Value, ValueRef, validate};
use sundown::wire::Request;

use source::Source;

#[rustfmt::skip]
const FIELDS: &[&str] = &[
    "helloOk", "topologyVersion", "maxAwaitTimeMS", "client", "compression", "saslSupportedMechs", "loadBalanced",
    "speculativeAuthenticate", "hostInfo", "internalClient", "$readPreference", "apiVersion", "apiStrict", "comment", "lsid",
];

#[rustfmt::skip]
const INNER: &[&str] = &[
    "processId", "counter", "driver", "os", "name", "version", "type", "application", "platform", "saslStart", "mechanism",
    "payload", "db", "authenticate", "options", "skipEmptyExchange", "0", "1", "id",
];

#[rustfmt::skip]
const TEXTS: &[&str] = &[
    "snappy", "zlib", "zstd", "noop", "admin.ann", "ann", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN", "n,,n=ann,r=abc",
    "n,a=x,n=,r=", "y,,n==2C=3D,r=\u{0}", "p=tls-unique,,n=a,r=b", "1", "",
];

impl Source<'_> {
    fn scalar(&mut self, process: &[u8; 12]) -> Value {
        match self.byte() % 10 {
            0 => Value::null(),
            1 => Value::int32(i32::from(self.byte()) - 20),
            2 => Value::int64(i64::from(self.byte()) - 1),
            3 => Value::double(f64::from(self.byte()) / 4.0),
            4 => Value::boolean(self.byte().is_multiple_of(2)),
            5 => Value::oid(*process),
            6 => Value::int64(i64::MAX),
            7 => Value::binary(0, self.pick(TEXTS).as_bytes()),
            8 => {
                // Arbitrary bytes, in the place of a driver's first SCRAM message.
                let (taken, rest) = self.0.split_at(self.0.len().min(40));
                self.0 = rest;
                Value::binary(0, taken)
            }
            _ => Value::string(*self.pick(TEXTS)),
        }
    }

    fn document(&mut self, out: &mut DocBuilder<'_>, process: &[u8; 12], depth: u8) {
        for _ in 0..self.byte() % 5 {
            let name = *self.pick(INNER);
            if depth < 4 && self.byte().is_multiple_of(3) {
                let mut inner = out.doc(name);
                self.document(&mut inner, process, depth + 1);
                inner.end();
            } else {
                let value = self.scalar(process);
                out.put(name, value.as_ref());
            }
        }
    }

    fn array(&mut self, out: &mut ArrayBuilder<'_>, process: &[u8; 12]) {
        for _ in 0..self.byte() % 6 {
            if self.byte().is_multiple_of(5) {
                let value = self.scalar(process);
                out.push(value.as_ref());
            } else {
                out.push_str(*self.pick(TEXTS));
            }
        }
    }

    fn hello(&mut self, process: &[u8; 12]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut body = DocBuilder::begin(&mut bytes);
        body.put_i32(
            ["hello", "isMaster", "ismaster"][usize::from(self.byte() % 3)],
            1,
        );
        for _ in 0..self.byte() % 8 {
            let field = *self.pick(FIELDS);
            match self.byte() % 4 {
                // The fields that a monitor sends, so that waiting and streaming are tested often.
                0 => {
                    let mut version = body.doc("topologyVersion");
                    version
                        .put("processId", ValueRef::new(Type::ObjectId, process))
                        .put_i64("counter", 0);
                    version.end();
                    body.put_i32("maxAwaitTimeMS", i32::from(self.byte()));
                }
                1 => {
                    let mut inner = body.doc(field);
                    self.document(&mut inner, process, 0);
                    inner.end();
                }
                2 => {
                    let mut inner = body.array(field);
                    self.array(&mut inner, process);
                    inner.end();
                }
                _ => {
                    let value = self.scalar(process);
                    body.put(field, value.as_ref());
                }
            }
        }
        body.put_str("$db", "admin");
        body.end();
        bytes
    }
}

/// Creates a new server for every input.
fn server() -> Commands {
    let config = Config {
        compressors: "zlib,snappy".parse().expect("names of compressors"),
        ..Config::default()
    };
    Commands::new(Context::new(
        config,
        Clock::frozen(Millis(1_800_000_000_000)),
    ))
}

fuzz_target!(|data: &[u8]| {
    greet(data);
    let commands = server();
    let mut source = Source(data);
    let mut connection = commands.open(Peer::plain(1, ([127, 0, 0, 1], 1).into()));
    let process = commands.context().process;
    while !source.0.is_empty() {
        let exhaust = source.byte().is_multiple_of(2);
        let body = source.hello(&process);
        let request = Request {
            exhaust_allowed: exhaust,
            ..Request::new(body.clone())
        };
        let mut reply = Vec::new();
        let Ok(outcome) = commands.call(&mut connection, request, &mut reply) else {
            continue;
        };
        let streams = match outcome {
            CallOutcome::Replied => false,
            CallOutcome::Streaming => true,
            CallOutcome::Awaited(_) => unreachable!("commands make their replies themselves"),
            CallOutcome::Work(mut work) => loop {
                match work.step(&mut reply) {
                    Ok(Progress::Done) => break false,
                    Ok(Progress::Streaming) => break true,
                    // The wait counts as finished when the next step runs.
                    Ok(Progress::More | Progress::Blocking | Progress::Wait(_)) => {}
                    Err(_) => return,
                }
            },
        };
        check(Doc::new(&body), &reply, exhaust, streams);
    }
});

/// Checks that more bytes do not change the greeting once it is clear.
fn greet(data: &[u8]) {
    let mut clear = None;
    for end in 0..data.len().min(32) {
        let greeting = Greeting::of(&data[..end]);
        assert!(end < Greeting::ENOUGH || greeting != Greeting::Unclear);
        assert!(
            clear.is_none_or(|clear| clear == greeting),
            "{:x?}",
            &data[..end]
        );
        clear = Some(greeting).filter(|greeting| *greeting != Greeting::Unclear);
    }
}

fn check(asked: Doc<'_>, reply: &[u8], exhaust: bool, streams: bool) {
    validate(reply, Limits::default()).expect("a reply is a valid document");
    let reply = Doc::new(reply);
    let ok = reply
        .get("ok")
        .as_f64()
        .expect("a reply says whether it went well")
        == 1.0;
    assert!(
        !streams || (exhaust && ok && asked.has("topologyVersion")),
        "a stream that nobody asked for"
    );
    let Some(agreed) = reply.get("compression").as_array() else {
        return;
    };
    for name in agreed {
        let name = name.value.as_str().expect("names");
        assert!(["zlib", "snappy"].contains(&name), "{name} is not offered");
        let wanted = asked.iter().filter(|field| field.name() == "compression");
        let mut names = wanted.filter_map(|field| field.value.as_array()).flatten();
        assert!(
            names.any(|wanted| wanted.value.as_str() == Some(name)),
            "{name} was not wanted"
        );
    }
}
