//! The memory that all clients together make the server hold is limited, not only the memory of each client.
//!
//! The tests measure the memory of the whole process, so they run one after the other.

#![allow(clippy::unwrap_used)] // a panic says where

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};
use sundown::Sundown;
use sundown::clock::{Clock, monotonic};
use sundown::config::Config;
use tokio::runtime::{Builder, Runtime};

#[path = "support/raw.rs"]
mod raw;
mod support;

use support::client::Client;

const MB: usize = 1 << 20;

/// Far longer than any step takes. Only a server that hangs reaches it.
const LATE: Duration = Duration::from_secs(120);

struct Server {
    _alone: MutexGuard<'static, ()>,
    server: Sundown,
    _runtime: Runtime,
}

fn start() -> Server {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        enable_test_commands: true,
        ..Config::default()
    };
    let server = runtime
        .block_on(Sundown::start(config, Clock::system()))
        .unwrap();
    Server {
        _alone: alone,
        server,
        _runtime: runtime,
    }
}

impl Server {
    fn address(&self) -> SocketAddr {
        self.server.local_addr()
    }

    fn connect(&self) -> Client {
        Client::connect(self.address()).unwrap()
    }
}

/// Returns a field of /proc/self/status in bytes, or 0 on systems without it.
fn memory(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok())
        .unwrap_or_default()
        * 1024
}

/// Runs `run` and returns by how much the memory of the process grew at its peak.
fn growth(run: impl FnOnce()) -> usize {
    // Resets the recorded peak, on systems that support it.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = memory("VmRSS:");
    run();
    memory("VmHWM:").saturating_sub(before)
}

fn bytes(size: usize) -> Bson {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: vec![0; size],
    }
    .into()
}

#[test]
fn compressed_messages_are_inflated_within_a_budget() {
    const CLIENTS: usize = 24;
    let server = start();
    let mut client = server.connect();
    // The fail point delays each insert, which keeps all its bytes in the meantime.
    let hold = doc! {"failCommands": ["insert"], "blockConnection": true, "blockTimeMS": 1000};
    let point = doc! {"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": hold};
    assert_eq!(client.command("admin", point).unwrap()["ok"], 1.0.into());
    let documents = vec![doc! {"_id": 1, "x": bytes(15_000_000)}; 3];
    let body = raw::body(doc! {"insert": "t", "$db": "test"});
    let message = raw::msg(1, 0, &[&body, &raw::sequence("documents", &documents)]);
    let message = raw::compressed(3, &message);
    assert!(message.len() < 20_000, "{}", message.len());
    drop(documents);
    let address = server.address();
    let grown = growth(|| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                let message = message.clone();
                thread::spawn(move || {
                    let mut socket = TcpStream::connect(address).unwrap();
                    socket.set_read_timeout(Some(LATE)).unwrap();
                    std::io::Write::write_all(&mut socket, &message).unwrap();
                    let mut reply = [0; 16];
                    std::io::Read::read_exact(&mut socket, &mut reply).unwrap();
                })
            })
            .collect();
        // Small commands do not wait for the inserts.
        for _ in 0..100 {
            client.command("admin", doc! {"ping": 1}).unwrap();
        }
        for client in clients {
            client.join().unwrap();
        }
    });
    // All messages at once would need more than a gigabyte. One document stays, and the allocator keeps some memory.
    assert!(grown < 800 * MB, "{} MB", grown / MB);
}

#[test]
fn clients_that_do_not_read_large_replies_are_disconnected_above_the_limit() {
    const CLIENTS: usize = 50;
    let server = start();
    let mut client = server.connect();
    let large = doc! {"_id": 1, "x": bytes(15_000_000)};
    client
        .command("test", doc! {"insert": "t", "documents": [large]})
        .unwrap();
    let ask = raw::msg(
        1,
        0,
        &[&raw::body(
            doc! {"find": "t", "filter": {"_id": 1}, "$db": "test"},
        )],
    );
    let mut idle = server.connect();
    idle.command("admin", doc! {"ping": 1}).unwrap();
    let waiting: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut socket = TcpStream::connect(server.address()).unwrap();
            std::io::Write::write_all(&mut socket, &ask).unwrap();
            socket
        })
        .collect();
    let began = monotonic();
    loop {
        let status = client.command("admin", doc! {"serverStatus": 1}).unwrap();
        let connections = status.get_document("connections").unwrap();
        let open = connections.get_i32("current").unwrap() as usize;
        let asked = connections.get_i32("totalCreated").map_or_else(
            |_| connections.get_i64("totalCreated").unwrap() as usize,
            |created| created as usize,
        );
        // The server may keep 256 MB of unread replies.
        if asked >= CLIENTS + 2 && open <= 20 {
            break;
        }
        assert!(monotonic() - began < LATE, "{open} connections are open");
        thread::sleep(Duration::from_millis(10));
    }
    // A client that reads its replies is served, and a client that requested nothing is still connected.
    let reply = client
        .command("test", doc! {"find": "t", "filter": {}})
        .unwrap();
    assert_eq!(reply["ok"], 1.0.into());
    idle.command("admin", doc! {"ping": 1}).unwrap();
    drop(waiting);
}

#[test]
fn outcomes_of_retryable_writes_have_a_memory_limit() {
    const SESSIONS: u8 = 30;
    let server = start();
    let mut client = server.connect();
    let large = doc! {"_id": 1, "n": 0, "x": bytes(15_000_000)};
    client
        .command("test", doc! {"insert": "t", "documents": [large]})
        .unwrap();
    let mut change = |session: u8, number: i64| {
        let id = Binary {
            subtype: BinarySubtype::Uuid,
            bytes: vec![session; 16],
        };
        let command = doc! {
            "findAndModify": "t", "query": {"_id": 1}, "update": {"$inc": {"n": 1}},
            "lsid": {"id": id}, "txnNumber": number,
        };
        client.command("test", command).unwrap()
    };
    let grown = growth(|| {
        for session in 0..SESSIONS {
            let reply = change(session, 1);
            let before = reply.get_document("value").unwrap();
            assert_eq!(before.get_i32("n").unwrap(), i32::from(session));
        }
    });
    assert!(grown < 400 * MB, "{} MB", grown / MB);
    // A retry of the last write returns the stored reply. A retry of the first one fails and does not run again.
    let reply = change(SESSIONS - 1, 1);
    assert_eq!(reply.get_i32("retriedStmtId").unwrap(), 0);
    let refused = change(0, 1);
    assert_eq!(refused.get_i32("code").unwrap(), 217, "{refused}");
    let words = refused.get_str("errmsg").unwrap();
    assert!(
        words.starts_with("Incomplete history detected for transaction 1 on session "),
        "{words}"
    );
    // The next write of that session succeeds.
    let reply = change(0, 2);
    let before = reply.get_document("value").unwrap();
    assert_eq!(before.get_i32("n").unwrap(), i32::from(SESSIONS));
}

#[test]
fn cursors_have_a_common_memory_limit() {
    let server = start();
    let mut client = server.connect();
    for n in 0..6 {
        let large = doc! {"_id": n, "x": bytes(15_000_000)};
        client
            .command("test", doc! {"insert": "t", "documents": [large]})
            .unwrap();
    }
    let mut run = |command: Document| client.command("test", command).unwrap();
    let sorted = |size: i32| {
        doc! {"aggregate": "t", "pipeline": [{"$sort": {"none": 1}}], "cursor": {"batchSize": size}}
    };
    let id_of = |reply: &Document| {
        let cursor = reply.get_document("cursor");
        cursor.map(|cursor| cursor.get_i64("id").unwrap())
    };
    let open = |reply: Document| id_of(&reply).expect("an open cursor");
    // These cursors have not sorted anything yet, so they hold almost no memory.
    let unread: Vec<_> = (0..3).map(|_| open(run(sorted(0)))).collect();
    let mut kept = Vec::new();
    let refused = loop {
        let reply = run(sorted(1));
        match id_of(&reply) {
            Ok(id) => kept.push(id),
            Err(_) => break reply,
        }
        assert!(kept.len() < 15, "{} cursors hold 90 MB each", kept.len());
    };
    assert_eq!(kept.len(), 11);
    assert_eq!(refused.get_i32("code").unwrap(), 146, "{refused}");
    let more = |id: i64| doc! {"getMore": id, "collection": "t", "batchSize": 1};
    // A getMore that needs more memory than is left ends its cursor. Other cursors go on.
    assert_eq!(run(more(unread[0])).get_i32("code").unwrap(), 146);
    assert_eq!(run(more(unread[0])).get_i32("code").unwrap(), 43);
    assert_eq!(open(run(more(kept[0]))), kept[0]);
    // A cursor that keeps only its position is not refused.
    let find = doc! {"find": "t", "projection": {"x": 0}, "batchSize": 1};
    open(run(find));
    // Killing a cursor and reading a cursor to its end each free the memory for one more.
    run(doc! {"killCursors": "t", "cursors": [kept[1]]});
    open(run(sorted(1)));
    assert_eq!(run(sorted(1)).get_i32("code").unwrap(), 146);
    run(doc! {"getMore": kept[2], "collection": "t", "batchSize": 1});
    while open(run(more(kept[2]))) != 0 {}
    open(run(sorted(1)));
    assert_eq!(run(sorted(1)).get_i32("code").unwrap(), 146);
}
