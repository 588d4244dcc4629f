//! Raw bytes over TCP, good and hostile, against a server in process. The handler here is the test's own, so that what
//! fails is the wire or the server.

#![allow(clippy::unwrap_used)] // a panic says where

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use sundown::config::Config;
use sundown::error::{Code, Error, Hangup};
use sundown::handler::{Handler, Outcome, Peer, Progress, Work};
use sundown::server::Server;
use sundown::value::DocBuf;
use sundown::wire::Request;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

#[path = "support/raw.rs"]
mod raw;

use raw::{
    CHECKSUM, Client, EXHAUST_ALLOWED, MORE_TO_COME, OP_MSG, PATIENCE, body, checked, compressed,
    deflate, eventually, frame, msg, ping, query, sequence,
};

// The server under test.

/// Answers `ping`, `hello` and `insert` (with the number of documents), and does odd things on demand.
#[derive(Default)]
struct Scripted {
    calls: AtomicUsize,
    abandoned: Arc<AtomicUsize>,
    streamed: Arc<AtomicUsize>,
}

/// `{work: steps, pause: milliseconds}`: so many steps with so much sleep between them.
struct Steps {
    left: i64,
    pause: Duration,
    abandoned: Arc<AtomicUsize>,
    /// What it does last is one reply of a stream.
    streams: Option<Progress>,
}

impl Handler for Scripted {
    type Connection = ();

    fn open(&self, _: Peer) {}

    fn call(&self, (): &mut (), request: Request, reply: &mut Vec<u8>) -> Result<Outcome, Hangup> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let body = request.body();
        let first = body.first().expect("commands here are not empty");
        match first.name() {
            "ping" => put(reply, doc! {"ok": 1.0}),
            "hello" => put(
                reply,
                doc! {"db": request.query_database.clone().unwrap_or_default(), "ok": 1.0},
            ),
            "insert" => {
                let count = request
                    .sequences
                    .iter()
                    .map(|sequence| sequence.iter().count() as i32)
                    .sum::<i32>();
                put(reply, doc! {"n": count, "ok": 1.0});
            }
            "calls" => put(
                reply,
                doc! {"calls": self.calls.load(Ordering::SeqCst) as i32},
            ),
            "large" => {
                let size = first.value.as_i32().unwrap_or_default() as usize;
                put(reply, doc! {"filler": "x".repeat(size)});
            }
            // `{stream: replies}`: a stream of so many; with `pause`, each of them after some work.
            "stream" => {
                let nth = self.streamed.fetch_add(1, Ordering::SeqCst) as i64 + 1;
                let more = nth < first.value.as_i64().unwrap_or_default();
                if let Some(pause) = body.get("pause").as_i64() {
                    return Ok(Outcome::Work(Box::new(Steps {
                        left: 2,
                        pause: Duration::from_millis(pause as u64),
                        abandoned: self.abandoned.clone(),
                        streams: Some(if more {
                            Progress::Streaming
                        } else {
                            Progress::Done
                        }),
                    })));
                }
                put(reply, doc! {"nth": nth, "ok": 1.0});
                if more {
                    return Ok(Outcome::Streaming);
                }
            }
            "panic" => panic!("the test asked for it"),
            "hangup" => return Err(Hangup::new("the test asked for it")),
            "work" => {
                return Ok(Outcome::Work(Box::new(Steps {
                    left: first.value.as_i64().unwrap_or_default(),
                    pause: Duration::from_millis(
                        body.get("pause").as_i64().unwrap_or_default() as u64
                    ),
                    abandoned: self.abandoned.clone(),
                    streams: None,
                })));
            }
            name => Error::new(Code::CommandNotFound, format!("no such command: '{name}'"))
                .write_reply(reply),
        }
        Ok(Outcome::Replied)
    }
}

impl Work for Steps {
    fn step(&mut self, reply: &mut Vec<u8>) -> Result<Progress, Hangup> {
        self.left -= 1;
        if self.left <= 0 {
            put(reply, doc! {"worked": true, "ok": 1.0});
            return Ok(self.streams.unwrap_or(Progress::Done));
        }
        Ok(if self.pause.is_zero() {
            Progress::More
        } else {
            Progress::Sleep(self.pause)
        })
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        if self.left > 0 {
            self.abandoned.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn put(reply: &mut Vec<u8>, document: Document) {
    reply.extend_from_slice(DocBuf::from(document).bytes());
}

struct Running {
    address: SocketAddr,
    handler: Arc<Scripted>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start() -> Self {
        Self::with(Config::default()).await
    }

    async fn with(config: Config) -> Self {
        let server = Server::bind(Config { port: 0, ..config }).await.unwrap();
        let address = server.local_addr();
        assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
        assert_eq!(server.config().port, address.port());
        let handler = Arc::new(Scripted::default());
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(handler.clone(), async {
            let _ = stopped.await;
        }));
        Self {
            address,
            handler,
            stop: Some(stop),
            task,
        }
    }

    async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    fn tell_to_stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    async fn stopped(self) {
        tokio::time::timeout(PATIENCE, self.task)
            .await
            .expect("the server stops")
            .unwrap();
    }
}

// What a client may expect.

#[tokio::test]
async fn a_frame_may_come_byte_by_byte() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client.0.set_nodelay(true).unwrap();
    for byte in msg(3, 0, &[&ping()]) {
        client.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.flags), (3, 0));
    assert_eq!(reply.document, doc! {"ok": 1.0});
}

#[tokio::test]
async fn many_messages_in_one_write_are_answered_in_order() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let many: Vec<u8> = (0..5000).flat_map(|id| msg(id, 0, &[&ping()])).collect();
    let (mut reading, mut writing) = client.0.into_split();
    let sender = tokio::spawn(async move {
        writing.write_all(&many).await.unwrap();
        writing
    });
    let mut bytes = vec![0; 5000 * 38];
    tokio::time::timeout(PATIENCE, reading.read_exact(&mut bytes))
        .await
        .expect("all replies")
        .unwrap();
    for (id, reply) in bytes.chunks(38).enumerate() {
        assert_eq!(reply[8..12], (id as i32).to_le_bytes());
    }
    client = Client(reading.reunite(sender.await.unwrap()).unwrap());
    client.assert_alive().await;
}

#[tokio::test]
async fn a_checksum_is_answered_with_a_checksum() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client.send(&checked(4, &[&ping()])).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.flags), (4, CHECKSUM));
    client.assert_alive().await;

    let mut wrong = checked(4, &[&ping()]);
    *wrong.last_mut().unwrap() ^= 1;
    client.send(&wrong).await;
    client.assert_hung_up("wrong checksum").await;
}

#[tokio::test]
async fn what_is_more_to_come_gets_no_reply() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let mut bytes = msg(
        1,
        MORE_TO_COME,
        &[
            &body(doc! {"insert": "c"}),
            &sequence("documents", &[doc! {}]),
        ],
    );
    bytes.extend(msg(2, MORE_TO_COME, &[&body(doc! {"nonsense": 1})]));
    bytes.extend(msg(3, MORE_TO_COME, &[&ping(), &ping()]));
    bytes.extend(msg(4, MORE_TO_COME, &[&body(doc! {"work": 3i64})]));
    bytes.extend(msg(5, 0, &[&body(doc! {"calls": 1})]));
    client.send(&bytes).await;
    let reply = client.receive().await.unwrap();
    // The one with two bodies was refused before it was called.
    assert_eq!((reply.response_to, reply.document), (5, doc! {"calls": 4}));
}

#[tokio::test]
async fn a_stream_of_replies_each_answers_the_one_before() {
    let server = Running::start().await;
    for (what, command) in [
        ("at once", doc! {"stream": 4i64}),
        ("after work", doc! {"stream": 4i64, "pause": 1i64}),
        ("after rest", doc! {"stream": 4i64, "pause": 510i64}),
    ] {
        server.handler.streamed.store(0, Ordering::SeqCst);
        let mut client = server.connect().await;
        client.assert_alive().await;
        // The ping behind it waits for the end of the stream.
        let bytes = [
            msg(70, EXHAUST_ALLOWED, &[&body(command)]),
            msg(71, 0, &[&ping()]),
        ]
        .concat();
        client.send(&bytes).await;
        let mut before = 70;
        for nth in 1..=4 {
            let reply = client.receive().await.unwrap();
            assert_eq!(reply.response_to, before, "{what} {nth}");
            let flags = if nth < 4 { MORE_TO_COME } else { 0 };
            assert_eq!(reply.flags, flags, "{what} {nth}");
            assert_eq!(reply.document.get_f64("ok").unwrap(), 1.0);
            before = reply.request_id;
        }
        assert_eq!(client.receive().await.unwrap().response_to, 71, "{what}");
    }
}

#[tokio::test]
async fn a_stream_only_for_those_who_allow_it() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for command in [doc! {"stream": 9i64}, doc! {"stream": 9i64, "pause": 1i64}] {
        client.send(&msg(1, 0, &[&body(command.clone())])).await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.response_to, reply.flags), (1, 0));
        // Who wants no reply gets no stream of them.
        let flags = EXHAUST_ALLOWED | MORE_TO_COME;
        client.send(&msg(2, flags, &[&body(command)])).await;
        client.assert_alive().await;
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_client_and_with_the_server() {
    for pause in [None, Some(1i64), Some(3_600_000)] {
        let mut command = doc! {"stream": i64::MAX};
        if let Some(pause) = pause {
            command.insert("pause", pause);
        }
        let mut server = Running::start().await;
        let stream = msg(1, EXHAUST_ALLOWED, &[&body(command)]);
        let mut leaving = server.connect().await;
        let mut staying = server.connect().await;
        leaving.send(&stream).await;
        staying.send(&stream).await;
        eventually("both stream", || {
            server.handler.streamed.load(Ordering::SeqCst) >= 2
        })
        .await;
        server.connect().await.assert_alive().await;
        drop(leaving);
        server.tell_to_stop();
        let reading = tokio::spawn(async move { while staying.receive().await.is_some() {} });
        tokio::time::timeout(Duration::from_secs(5), server.stopped())
            .await
            .unwrap_or_else(|_| panic!("{pause:?}: it stops at once"));
        reading.await.unwrap();
    }
}

#[tokio::test]
async fn sequences_arrive_whole() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let documents = vec![doc! {"text": "y".repeat(1000)}; 3000];
    let insert = body(doc! {"insert": "c", "$db": "d"});
    // Three megabytes: more than the buffer of any quiet connection, and enough to be checked aside.
    client
        .send(&msg(1, 0, &[&insert, &sequence("documents", &documents)]))
        .await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.document, doc! {"n": 3000, "ok": 1.0});
    client.assert_alive().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_messages_and_replies_on_a_runtime_with_workers() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        let documents = vec![doc! {"text": "y".repeat(1_000_000)}; 20];
        let insert = body(doc! {"insert": "c", "$db": "d"});
        client
            .send(&msg(1, 0, &[&insert, &sequence("documents", &documents)]))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!(reply.document, doc! {"n": 20, "ok": 1.0});
        let reply = client.ask(doc! {"large": 15_000_000}).await;
        assert_eq!(reply.get_str("filler").unwrap().len(), 15_000_000);
        // Enough small ones for the buffers to become small again.
        for _ in 0..100 {
            client.assert_alive().await;
        }
    }
}

#[tokio::test]
async fn a_connection_that_rests_after_a_large_message_goes_on() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    assert!(
        client
            .ask(doc! {"ping": "x".repeat(1 << 20)})
            .await
            .contains_key("ok")
    );
    assert!(
        client
            .ask(doc! {"large": 1 << 20})
            .await
            .contains_key("filler")
    );
    // Long enough for its buffers to be given back, which nothing shows: the only wait here that is for a time and not for an event.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    client.assert_alive().await;
    assert!(
        client
            .ask(doc! {"ping": "x".repeat(1 << 20)})
            .await
            .contains_key("ok")
    );
}

#[tokio::test]
async fn an_old_hello_gets_an_old_reply() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client.send(&query("admin.$cmd", doc! {"hello": 1})).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.opcode, reply.response_to), (1, 5));
    assert_eq!(reply.document, doc! {"db": "admin", "ok": 1.0});

    client.send(&query("admin.$cmd", doc! {"find": 1})).await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.opcode, 1);
    assert_eq!(reply.document.get_i32("code").unwrap(), 352);
    client.assert_alive().await;

    client.send(&query("test.things", doc! {})).await;
    client.assert_hung_up("a find by OP_QUERY").await;
}

// Compression.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_question_gets_an_answer_compressed_alike() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for compressor in 1..=3 {
        for size in [10_000, 200_000, 3_000_000] {
            let large = body(doc! {"large": size, "padding": "x".repeat(1000)});
            client
                .send(&compressed(compressor, &msg(5, 0, &[&large])))
                .await;
            let reply = client.receive().await.unwrap();
            assert_eq!((reply.response_to, reply.compressor), (5, compressor));
            assert_eq!(
                reply.document.get_str("filler").unwrap().len(),
                size as usize
            );

            let documents = vec![doc! {"text": "y".repeat(1000)}; size as usize / 1000];
            let insert = body(doc! {"insert": "c", "$db": "d"});
            let message = msg(6, 0, &[&insert, &sequence("documents", &documents)]);
            client.send(&compressed(compressor, &message)).await;
            let reply = client.receive().await.unwrap();
            assert_eq!(reply.document, doc! {"n": size / 1000, "ok": 1.0});
        }
        // The checksum is the one of the message inside.
        let large = body(doc! {"large": 1000});
        client
            .send(&compressed(compressor, &checked(7, &[&large])))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.flags, reply.compressor), (CHECKSUM, compressor));
        // What would not become smaller is sent as it is.
        client
            .send(&compressed(compressor, &msg(8, 0, &[&ping()])))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.response_to, reply.compressor), (8, 0));
        // Work, streams, refusals.
        let work = body(doc! {"work": 3i64, "pause": 1i64});
        client
            .send(&compressed(compressor, &msg(9, 0, &[&work])))
            .await;
        assert_eq!(client.receive().await.unwrap().response_to, 9);
        client
            .send(&compressed(compressor, &msg(10, 0, &[&ping(), &ping()])))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!(reply.document.get_i32("code").unwrap(), 40430);
        client
            .send(&compressed(compressor, &msg(11, MORE_TO_COME, &[&large])))
            .await;
        // And who does not compress is not answered so.
        client.send(&msg(12, 0, &[&large])).await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.response_to, reply.compressor), (12, 0));
    }
}

#[tokio::test]
async fn a_handshake_is_never_answered_in_compressed_form() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for name in [
        "hello",
        "isMaster",
        "saslStart",
        "saslContinue",
        "createUser",
    ] {
        let long = body(doc! {name: 1, "padding": "x".repeat(1000)});
        for compressor in 1..=3 {
            client
                .send(&compressed(compressor, &msg(1, 0, &[&long])))
                .await;
            assert_eq!(client.receive().await.unwrap().compressor, 0, "{name}");
        }
    }
    let old = query("admin.$cmd", doc! {"hello": 1, "padding": "x".repeat(1000)});
    client.send(&compressed(1, &old)).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.opcode, reply.compressor), (1, 0));
}

#[tokio::test]
async fn compressed_messages_that_are_not_what_they_say() {
    let server = Running::start().await;
    let mut good = server.connect().await;
    let inside = msg(1, 0, &[&body(doc! {"ping": "x".repeat(5000)})]);
    let announcing = |compressor: u8, opcode: i32, size: i32, bytes: &[u8]| {
        let mut message = opcode.to_le_bytes().to_vec();
        message.extend(size.to_le_bytes());
        message.push(compressor);
        message.extend_from_slice(bytes);
        frame(1, 2012, &message)
    };
    let size = inside.len() as i32 - 16;
    let mut rows = vec![
        ("nothing inside".to_owned(), frame(1, 2012, &[])),
        (
            "half a head".to_owned(),
            frame(1, 2012, &[0xDD, 7, 0, 0, 9]),
        ),
        (
            "not compressed at all".to_owned(),
            announcing(0, OP_MSG, size, &inside[16..]),
        ),
        (
            "unknown compressor".to_owned(),
            announcing(4, OP_MSG, size, &inside[16..]),
        ),
    ];
    for compressor in 1..=3 {
        let bytes = deflate(compressor, &inside[16..]);
        let twice = compressed(compressor, &compressed(compressor, &inside));
        let mut damaged = bytes.clone();
        damaged[0] ^= 0x55;
        for (what, message) in [
            ("inside itself", twice),
            ("as a reply", announcing(compressor, 1, size, &bytes)),
            (
                "of an unknown opcode",
                announcing(compressor, 2002, size, &bytes),
            ),
            (
                "one byte too few",
                announcing(compressor, OP_MSG, size - 1, &bytes),
            ),
            (
                "one byte too many",
                announcing(compressor, OP_MSG, size + 1, &bytes),
            ),
            (
                "nothing announced",
                announcing(compressor, OP_MSG, 0, &bytes),
            ),
            ("negative", announcing(compressor, OP_MSG, -1, &bytes)),
            (
                "beyond the limit",
                announcing(compressor, OP_MSG, 48_000_001, &bytes),
            ),
            (
                "beyond everything",
                announcing(compressor, OP_MSG, i32::MAX, &bytes),
            ),
            (
                "cut short",
                announcing(compressor, OP_MSG, size, &bytes[..bytes.len() - 1]),
            ),
            ("damaged", announcing(compressor, OP_MSG, size, &damaged)),
            ("empty", announcing(compressor, OP_MSG, size, &[])),
            (
                "a bad message",
                compressed(compressor, &msg(1, 4, &[&ping()])),
            ),
            // Inflates to 48 million bytes and a few, which the head of the message inside makes too many.
            (
                "a bomb",
                announcing(
                    compressor,
                    OP_MSG,
                    48_000_000,
                    &deflate(compressor, &vec![0; 48_000_000]),
                ),
            ),
        ] {
            rows.push((format!("{what}, compressor {compressor}"), message));
        }
    }
    for (what, bytes) in rows {
        let mut bad = server.connect().await;
        bad.send(&bytes).await;
        bad.assert_hung_up(&what).await;
        good.assert_alive().await;
    }
}

#[tokio::test]
async fn only_what_is_offered_is_inflated() {
    let server = Running::with(Config {
        compressors: "zlib".parse().unwrap(),
        ..Config::default()
    })
    .await;
    for compressor in 1..=3 {
        let mut client = server.connect().await;
        client
            .send(&compressed(compressor, &msg(1, 0, &[&ping()])))
            .await;
        if compressor == 2 {
            assert_eq!(client.receive().await.unwrap().response_to, 1);
        } else {
            client.assert_hung_up("not offered").await;
        }
    }
}

// What a hostile client gets.

#[tokio::test]
async fn broken_contents_get_mongodbs_error_and_the_connection_lives_on() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let deep = |levels: usize| {
        let mut bytes = vec![5, 0, 0, 0, 0];
        for _ in 1..levels {
            let length = (bytes.len() as i32 + 8).to_le_bytes();
            bytes = [&length[..], &[3, b'a', 0], &bytes, &[0]].concat();
        }
        [&[0][..], &bytes].concat()
    };
    let mut not_text = body(doc! {"ping": "xy"});
    let at = not_text.len() - 4;
    not_text[at] = 0xC0;
    let mut no_end = ping();
    *no_end.last_mut().unwrap() = 1;
    let rows: &[(&str, Vec<u8>, i32)] = &[
        ("two bodies", [ping(), ping()].concat(), 40430),
        ("trailing byte", [ping(), vec![7]].concat(), 40432),
        ("no body", vec![], 40587),
        ("cut short", ping()[..20].to_vec(), 22),
        ("without its last zero", no_end, 22),
        ("not UTF-8", not_text, 22),
        ("202 levels, the command among them", deep(202), 15),
        ("20,000 levels", deep(20_000), 15),
        ("17 MB", body(doc! {"a": "x".repeat(17 << 20)}), 10334),
    ];
    for (what, sections, code) in rows {
        client.send(&msg(9, 0, &[sections])).await;
        let reply = client.receive().await.expect(what);
        assert_eq!(reply.response_to, 9, "{what}");
        assert_eq!(reply.document.get_i32("code").unwrap(), *code, "{what}");
        assert_eq!(reply.document.get_f64("ok").unwrap(), 0.0, "{what}");
    }
    client.assert_alive().await;
}

#[tokio::test]
async fn what_cannot_be_answered_ends_that_connection_and_no_other() {
    let server = Running::start().await;
    let mut good = server.connect().await;
    let with_length = |length: i32| {
        let mut bytes = msg(1, 0, &[&ping()]);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    };
    let rows: &[(&str, Vec<u8>)] = &[
        ("length 0", with_length(0)),
        ("length 15", with_length(15)),
        ("negative length", with_length(-1)),
        ("length beyond the limit", with_length(48_000_001)),
        ("length 16 of an OP_MSG", frame(1, OP_MSG, &[])),
        ("required flag bit 2", msg(1, 4, &[&ping()])),
        ("required flag bit 15", msg(1, 1 << 15, &[&ping()])),
        ("unknown opcode", frame(1, 9999, &[0; 10])),
        ("OP_COMPRESSED", frame(1, 2012, &[0; 30])),
        ("OP_INSERT", frame(1, 2002, &[0; 30])),
        (
            "HTTP",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        ),
        (
            "sequence longer than the message",
            msg(1, 0, &[&ping(), &[1, 99, 0, 0, 0, b'a', 0]]),
        ),
        (
            "the handler says so",
            msg(1, 0, &[&body(doc! {"hangup": 1})]),
        ),
        ("the handler panics", msg(1, 0, &[&body(doc! {"panic": 1})])),
    ];
    for (what, bytes) in rows {
        let mut bad = server.connect().await;
        bad.assert_alive().await;
        bad.send(bytes).await;
        bad.assert_hung_up(what).await;
        good.assert_alive().await;
    }
}

#[tokio::test]
async fn what_was_asked_before_a_bad_message_is_answered() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let bytes = [msg(1, 0, &[&ping()]), msg(2, 4, &[&ping()])].concat();
    client.send(&bytes).await;
    assert_eq!(client.receive().await.unwrap().response_to, 1);
    client.assert_hung_up("flag bit").await;
}

#[tokio::test]
async fn a_huge_length_with_few_bytes_holds_up_nobody() {
    let server = Running::start().await;
    let mut waiting = Vec::new();
    for _ in 0..50 {
        let mut client = server.connect().await;
        let mut bytes = msg(1, 0, &[&ping()]);
        bytes[..4].copy_from_slice(&48_000_000i32.to_le_bytes());
        client.send(&bytes).await;
        waiting.push(client);
    }
    server.connect().await.assert_alive().await;
}

#[tokio::test]
async fn bytes_drawn_at_random_disturb_nobody() {
    let server = Running::start().await;
    let mut good = server.connect().await;
    let mut seed = 0x2545_F491_4F6C_DD1Du64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let whole = checked(
        1,
        &[&ping(), &sequence("documents", &[doc! {"a": [1, {}]}])],
    );
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + random() % 4 {
            // Lengths stay, so that the message is read at all.
            let at = 4 + random() as usize % (bytes.len() - 4);
            bytes[at] = random() as u8;
        }
        let mut bad = server.connect().await;
        bad.send(&bytes).await;
        bad.0.shutdown().await.unwrap();
        while bad.receive().await.is_some() {}
    }
    good.assert_alive().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused() {
    let server = Running::with(Config {
        max_connections: 2,
        ..Config::default()
    })
    .await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.assert_alive().await;
    second.assert_alive().await;
    server.connect().await.assert_hung_up("the third").await;

    drop(second);
    // The server notices soon that a place is free.
    let mut tries = 0;
    loop {
        let mut next = server.connect().await;
        next.send(&msg(1, 0, &[&ping()])).await;
        if next.receive().await.is_some() {
            break;
        }
        tries += 1;
        assert!(tries < 1000, "the place stays taken");
    }
    first.assert_alive().await;
}

// Commands that take longer.

#[tokio::test]
async fn long_work_lets_others_pass_and_answers_in_its_turn() {
    let server = Running::start().await;
    let mut slow = server.connect().await;
    let mut quick = server.connect().await;
    // The first ping is answered while the work goes on, the second one behind it.
    let bytes = [
        msg(1, 0, &[&ping()]),
        checked(2, &[&body(doc! {"work": 20i64, "pause": 10i64})]),
        msg(3, 0, &[&ping()]),
    ]
    .concat();
    slow.send(&bytes).await;
    assert_eq!(slow.receive().await.unwrap().response_to, 1);
    quick.assert_alive().await;
    let reply = slow.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.flags), (2, CHECKSUM));
    assert_eq!(reply.document, doc! {"worked": true, "ok": 1.0});
    assert_eq!(slow.receive().await.unwrap().response_to, 3);
}

#[tokio::test]
async fn what_comes_during_work_is_not_lost() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client
        .send(&msg(1, 0, &[&body(doc! {"work": 10i64, "pause": 10i64})]))
        .await;
    for id in 2..40 {
        client.send(&msg(id, 0, &[&ping()])).await;
        tokio::task::yield_now().await;
    }
    for id in 1..40 {
        assert_eq!(client.receive().await.unwrap().response_to, id);
    }
}

#[tokio::test]
async fn work_is_abandoned_when_its_client_leaves() {
    let server = Running::start().await;
    for command in [
        doc! {"work": i64::MAX},
        doc! {"work": i64::MAX, "pause": 3_600_000i64},
    ] {
        let before = server.handler.abandoned.load(Ordering::SeqCst);
        let mut client = server.connect().await;
        client.send(&msg(1, 0, &[&body(command.clone())])).await;
        // Its call has begun when another connection sees it counted.
        server.connect().await.assert_alive().await;
        drop(client);
        eventually(&format!("{command} is abandoned"), || {
            server.handler.abandoned.load(Ordering::SeqCst) > before
        })
        .await;
    }
}

#[tokio::test]
async fn unacknowledged_work_goes_on_without_its_client() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let work = body(doc! {"work": 20i64, "pause": 1i64});
    let bytes = [
        msg(1, MORE_TO_COME, &[&work]),
        msg(2, MORE_TO_COME, &[&work]),
    ]
    .concat();
    client.send(&bytes).await;
    drop(client);
    eventually("both run", || {
        server.handler.calls.load(Ordering::SeqCst) >= 2
    })
    .await;
    assert_eq!(server.handler.abandoned.load(Ordering::SeqCst), 0);
}

// The end.

#[tokio::test]
async fn stopping_closes_idle_connections_and_lets_running_commands_finish() {
    let mut server = Running::start().await;
    let mut idle = server.connect().await;
    idle.assert_alive().await;
    let mut half = server.connect().await;
    half.send(&msg(1, 0, &[&ping()])[..10]).await;
    let mut busy = server.connect().await;
    busy.assert_alive().await;
    busy.send(&msg(1, 0, &[&body(doc! {"work": 10i64, "pause": 20i64})]))
        .await;
    eventually("it is busy", || {
        server.handler.calls.load(Ordering::SeqCst) >= 3
    })
    .await;
    server.tell_to_stop();
    idle.assert_hung_up("idle").await;
    half.assert_hung_up("in the middle of a message").await;
    let reply = busy.receive().await.expect("the running command's reply");
    assert_eq!(reply.document, doc! {"worked": true, "ok": 1.0});
    busy.assert_hung_up("after its reply").await;
    let address = server.address;
    server.stopped().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// Every driver keeps such a command open: a hello that waits for news.
#[tokio::test]
async fn stopping_does_not_wait_for_a_command_that_only_sleeps() {
    let mut server = Running::start().await;
    let mut resting = server.connect().await;
    resting
        .send(&msg(
            1,
            0,
            &[&body(doc! {"work": 2i64, "pause": 3_600_000i64})],
        ))
        .await;
    eventually("it rests", || {
        server.handler.calls.load(Ordering::SeqCst) >= 1
    })
    .await;
    server.tell_to_stop();
    tokio::time::timeout(Duration::from_secs(5), server.stopped())
        .await
        .expect("it stops at once");
}
