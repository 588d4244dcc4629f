//! A computation that cannot be split delays only the client that asked for it, however few threads there are.

#![allow(clippy::unwrap_used)] // a panic says where

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use bson::{Bson, Document, doc};
use sundown::Sundown;
use sundown::clock::{Clock, monotonic};
use sundown::config::Config;
use tokio::runtime::{Builder, Runtime};

mod support;

use support::client::Client;

/// Everything that is told to end has ended by then, even on a busy machine. Only a server that hangs takes longer.
const LATE: Duration = Duration::from_secs(120);

/// Returns an expression that runs for an hour on one document, if nothing stops it.
fn endless(start: impl Into<Bson>) -> Document {
    let inner = doc! {"$reduce": {
        "input": {"$range": [0, 1000]},
        "initialValue": start.into(),
        "in": {"$add": ["$$value", "$$this"]},
    }};
    let sum = |of: Document| doc! {"$sum": {"$map": {"input": {"$range": [0, 10_000]}, "in": of}}};
    sum(sum(inner))
}

fn start(workers: usize) -> (Runtime, Sundown) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap();
    let config = Config {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        ..Config::default()
    };
    let server = runtime
        .block_on(Sundown::start(config, Clock::system()))
        .unwrap();
    let mut client = Client::connect(server.local_addr()).unwrap();
    let documents = doc! {"insert": "t", "documents": [{"_id": 1}]};
    client.command("test", documents).unwrap();
    (runtime, server)
}

/// Sends a command on its own connection. The receiver gets the reply when it arrives.
fn ask(address: SocketAddr, command: Document) -> Receiver<Document> {
    let (tell, reply) = channel();
    thread::spawn(move || {
        let mut client = Client::connect(address).unwrap();
        // The test may have ended first, so the receiver may be gone.
        let _ = tell.send(client.command("test", command).unwrap());
    });
    reply
}

/// Returns the peak memory of this process in bytes, or 0 on systems that do not report it.
fn memory_peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
        .unwrap_or_default()
        * 1024
}

/// Returns the ids of the operations on the collection, for killOp.
fn operations(client: &mut Client) -> Vec<Bson> {
    let reply = client
        .command("admin", doc! {"currentOp": 1, "ns": "test.t"})
        .unwrap();
    let found = reply.get_array("inprog").unwrap().iter();
    found
        .map(|operation| operation.as_document().unwrap()["opid"].clone())
        .collect()
}

/// Waits until there are `count` operations on the collection and returns their ids.
fn running(client: &mut Client, count: usize) -> Vec<Bson> {
    let began = monotonic();
    loop {
        let found = operations(client);
        if found.len() == count {
            return found;
        }
        assert!(monotonic() - began < LATE, "{found:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a command and kills it as soon as currentOp shows it. Some commands end by themselves before that.
fn ask_and_kill(client: &mut Client, address: SocketAddr, command: Document) -> Document {
    let asked = ask(address, command);
    loop {
        match asked.try_recv() {
            Ok(reply) => return reply,
            Err(problem) => assert_eq!(problem, TryRecvError::Empty),
        }
        for op in operations(client) {
            client
                .command("admin", doc! {"killOp": 1, "op": op})
                .unwrap();
        }
    }
}

#[test]
fn others_are_answered_while_expressions_compute_and_all_can_be_killed() {
    for workers in [1, 2] {
        let (_runtime, server) = start(workers);
        let address = server.local_addr();
        let mut client = Client::connect(address).unwrap();
        // There are more of them than workers, and one of them runs under the collection's lock.
        let mut asked = vec![ask(
            address,
            doc! {"find": "t", "filter": {"$expr": {"$eq": [endless("$_id"), 0]}}},
        )];
        for _ in 0..workers {
            let stage = doc! {"$project": {"x": endless("$_id")}};
            asked.push(ask(
                address,
                doc! {"aggregate": "t", "pipeline": [stage], "cursor": {}},
            ));
        }
        let operations = running(&mut client, asked.len());
        for _ in 0..50 {
            client.command("admin", doc! {"ping": 1}).unwrap();
        }
        // All pings are answered before any of these commands is.
        for reply in &asked {
            assert_eq!(reply.try_recv(), Err(TryRecvError::Empty), "too early");
        }
        let began = monotonic();
        for op in operations {
            let killed = client.command("admin", doc! {"killOp": 1, "op": op});
            assert_eq!(killed.unwrap().get_f64("ok").unwrap(), 1.0);
        }
        for reply in asked {
            let reply = reply.recv().unwrap();
            assert_eq!(reply.get_i32("code").ok(), Some(11601), "{reply}");
        }
        assert!(monotonic() - began < LATE, "{workers} workers");
    }
}

/// The work of each command is the size of the document times the size of the filter.
#[test]
fn a_long_filter_on_a_large_array_ends_at_the_time_limit() {
    let (_runtime, server) = start(2);
    let mut client = Client::connect(server.local_addr()).unwrap();
    let mut run = |command: Document| client.command("test", command).unwrap();
    let large: Vec<i32> = (0..100_000).collect();
    run(doc! {"insert": "t", "documents": [{"_id": 2, "a": large}]});
    let conditions: Vec<Document> = (0..10_000).map(|n| doc! {"a": {"$ne": -1 - n}}).collect();
    for command in [
        doc! {"count": "t", "query": {"$and": &conditions}, "maxTimeMS": 20},
        doc! {"find": "t", "filter": {"$nor": [{"$and": &conditions}]}, "maxTimeMS": 20},
        doc! {"delete": "t", "deletes": [{"q": {"$and": &conditions}, "limit": 0}], "maxTimeMS": 20},
    ] {
        let name = command.keys().next().unwrap().clone();
        let began = monotonic();
        let reply = run(command);
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{name}: {reply}");
        assert!(monotonic() - began < LATE, "{name}");
    }
}

/// Returns a filter of `count` conditions on `_id`. Every document of the collection matches all of them.
fn many_conditions(count: i32) -> Document {
    let conditions = (0..count).map(|n| doc! {"_id": {"$ne": -1 - n}});
    doc! {"$and": conditions.collect::<Vec<_>>()}
}

/// Inserts documents and makes the server build the order of their `_id`s.
fn fill_in_order(client: &mut Client, count: i32) {
    let documents: Vec<Document> = (2..=count).map(|n| doc! {"_id": n}).collect();
    client
        .command("test", doc! {"insert": "t", "documents": documents})
        .unwrap();
    let ordered = doc! {"find": "t", "filter": {"_id": {"$gt": 0}}, "sort": {"_id": 1}};
    client.command("test", ordered).unwrap();
    let explained = doc! {"explain": {"find": "t", "filter": many_conditions(9)}};
    let plan = client.command("test", explained).unwrap();
    assert!(plan.to_string().contains("IXSCAN"), "{plan}");
}

/// While the server plans and tests 50,000 conditions, other clients read and write the collection.
#[test]
fn a_filter_of_many_conditions_blocks_nobody() {
    let (_runtime, server) = start(2);
    let address = server.local_addr();
    let mut client = Client::connect(address).unwrap();
    fill_in_order(&mut client, 100);
    let mut run = |command: Document| client.command("test", command).unwrap();
    let either: Vec<Document> = (0..50_000).map(|n| doc! {"_id": n}).collect();
    for filter in [many_conditions(50_000), doc! {"$or": either}] {
        let asked = ask(
            address,
            doc! {"find": "t", "filter": filter, "batchSize": 1000},
        );
        let reply = loop {
            run(doc! {"insert": "t", "documents": [{"_id": 60_000}]});
            let deleted =
                run(doc! {"delete": "t", "deletes": [{"q": {"_id": 60_000}, "limit": 1}]});
            assert_eq!(deleted.get_i32("n").ok(), Some(1), "{deleted}");
            let found = run(doc! {"find": "t", "filter": {"_id": 1}});
            assert_eq!(rows_of(&found), 1, "{found}");
            match asked.try_recv() {
                Ok(reply) => break reply,
                Err(error) => assert_eq!(error, TryRecvError::Empty),
            }
        };
        // The document that is inserted and deleted in the loop may be among the results.
        let found = rows_of(&reply);
        assert!((100..=101).contains(&found), "{found}");
    }
}

/// A command with 50,000 conditions ends at its time limit, when it is killed, and when its client disconnects. A server
/// that shuts down lets it finish.
#[test]
fn a_filter_of_many_conditions_stops_when_its_command_ends() {
    let (runtime, server) = start(2);
    let address = server.local_addr();
    let mut client = Client::connect(address).unwrap();
    fill_in_order(&mut client, 100);
    let filter = many_conditions(50_000);
    let explained = doc! {"explain": {"find": "t", "filter": &filter}};
    let aggregate = doc! {"aggregate": "t", "pipeline": [{"$match": &filter}], "cursor": {}};
    let delete = doc! {"delete": "t", "deletes": [{"q": &filter, "limit": 0}]};
    for mut command in [
        doc! {"find": "t", "filter": &filter},
        doc! {"count": "t", "query": &filter},
        doc! {"distinct": "t", "key": "_id", "query": &filter},
        doc! {"update": "t", "updates": [{"q": &filter, "u": {"$set": {"x": 1}}, "multi": true}]},
        delete,
        aggregate,
        explained,
    ] {
        let name = command.keys().next().unwrap().clone();
        command.insert("maxTimeMS", 1);
        let reply = client.command("test", command.clone()).unwrap();
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{name}: {reply}");
    }
    // The endless expression makes sure that the command does not end before it is killed.
    let mut endless_find = doc! {"find": "t", "filter": &filter};
    let conditions = endless_find.get_document_mut("filter").unwrap();
    conditions.insert("$expr", endless("$_id"));
    let asked = ask(address, endless_find);
    let operation = running(&mut client, 1).remove(0);
    let killed = client.command("admin", doc! {"killOp": 1, "op": operation});
    assert_eq!(killed.unwrap().get_f64("ok").unwrap(), 1.0);
    let reply = asked.recv_timeout(LATE).unwrap();
    assert_eq!(reply.get_i32("code").ok(), Some(11601), "{reply}");

    // These clients disconnect without waiting for their replies.
    let find = doc! {"find": "t", "filter": &filter, "batchSize": 1000};
    for _ in 0..3 {
        let mut leaving = Client::connect(address).unwrap();
        leaving.send("test", find.clone()).unwrap();
        drop(leaving);
    }
    running(&mut client, 0);
    let mut last = Client::connect(address).unwrap();
    last.send("test", find).unwrap();
    runtime.block_on(async { tokio::time::timeout(LATE, server.stop()).await.unwrap() });
    // The server had started the command when it was told to stop, or it closed the connection.
    if let Ok(reply) = last.receive() {
        assert_eq!(rows_of(&reply), 100);
    }
}

fn rows_of(reply: &Document) -> usize {
    let cursor = reply.get_document("cursor").unwrap();
    cursor.get_array("firstBatch").unwrap().len()
}

/// Short commands that need much work on one large document.
#[test]
fn work_on_one_large_document_ends_at_the_time_limit() {
    let (_runtime, server) = start(2);
    let mut client = Client::connect(server.local_addr()).unwrap();
    let mut run = |command: Document| client.command("test", command).unwrap();
    let documents: Vec<Document> = (0..50_000).map(|n| doc! {"b": n}).collect();
    let fields: Document = (0..100_000).map(|n| (format!("f{n}"), n.into())).collect();
    let texts = vec!["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; 150_000];
    run(doc! {"insert": "t", "documents": [
        {"_id": 2, "a": documents, "s": "a".repeat(1_000_000), "t": texts, "f": fields},
    ]});
    let list: Vec<Document> = (0..5000).map(|n| doc! {"z": n}).collect();
    let tree = (0..4).fold(doc! {"z": 1}, |inner, _| doc! {"$or": vec![inner; 15]});
    let within = |condition: &Document| doc! {"a": {"$elemMatch": condition}};
    let schema = |schema: Document| doc! {"$jsonSchema": {"properties": schema}};
    let catastrophic = Bson::from(bson::Regex {
        pattern: "^(a+)+$b".try_into().unwrap(),
        options: "".try_into().unwrap(),
    });
    let names: Vec<String> = (90_000..95_000).map(|n| format!("f{n}")).collect();
    let all_of = vec![doc! {"type": "object"}; 5000];
    let in_array =
        |expr: Bson| doc! {"$size": {"$map": {"input": {"$range": [0, 100_000]}, "in": expr}}};
    let project = |expr: Document| {
        doc! {"aggregate": "t", "pipeline": [{"$match": {"_id": 2}}, {"$project": {"x": expr}}], "cursor": {}}
    };
    let find = |filter: Document| doc! {"find": "t", "filter": filter};
    for mut command in [
        find(within(&doc! {"$or": &list})),
        find(within(&tree)),
        find(doc! {"t": &catastrophic}),
        find(doc! {"t": {"$not": {"$in": [&catastrophic]}}}),
        find(schema(doc! {"f": {"required": &names}})),
        find(schema(doc! {"a": {"items": {"allOf": &all_of}}})),
        doc! {"count": "t", "query": &tree},
        doc! {"delete": "t", "deletes": [{"q": {"$nor": [within(&tree)]}, "limit": 0}]},
        doc! {"update": "t", "updates": [
            {"q": {"a": {"$elemMatch": {"$nor": &list, "b": 49_999}}}, "u": {"$set": {"a.$": 1}}},
        ]},
        doc! {"find": "t", "filter": {}, "projection": {"a": {"$elemMatch": {"$or": &list}}}},
        doc! {"find": "t", "filter": {}, "sort": {"s": 1, "t": 1}},
        doc! {"aggregate": "t", "pipeline": [{"$set": {"a": (0..3000).map(|n| (format!("x{n}"), "$z".into())).collect::<Document>()}}], "cursor": {}},
        project(doc! {"$size": {"$regexFindAll": {"input": "$s", "regex": ""}}}),
        project(in_array("$z".into())),
        project(in_array("$f.z".into())),
        project(doc! {"$let": {"vars": {"f": "$f"}, "in": in_array("$$f.z".into())}}),
    ] {
        command.insert("maxTimeMS", 1);
        let began = monotonic();
        let reply = run(command.clone());
        let shown: String = command.to_string().chars().take(200).collect();
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{shown}: {reply}");
        assert!(monotonic() - began < LATE, "{shown}");
    }
    // None of the commands changed anything.
    assert_eq!(
        run(doc! {"count": "t", "query": {"a.b": 49_999}})
            .get_i32("n")
            .unwrap(),
        1
    );
}

/// A result that would be many times larger than a document is refused before it is built.
#[test]
fn short_commands_with_huge_results_are_refused() {
    let (_runtime, server) = start(2);
    let mut client = Client::connect(server.local_addr()).unwrap();
    let mut run = |command: Document| client.command("test", command).unwrap();
    let numbers: Vec<i32> = (0..10_000).collect();
    run(doc! {"insert": "t", "documents": [{"_id": 2, "a": numbers, "s": "a".repeat(100_000)}]});
    run(doc! {"createIndexes": "t", "indexes": [{"key": {"q": 1, "r": 1}, "name": "i"}]});
    let many = |expr: Bson| {
        (0..10_000)
            .map(|n| (format!("x{n}"), expr.clone()))
            .collect::<Document>()
    };
    let aggregate = |stage: Document| doc! {"aggregate": "t", "pipeline": [stage], "cursor": {}};
    for (command, code) in [
        (aggregate(doc! {"$project": many("$s".into())}), 10334),
        (aggregate(doc! {"$set": many("$s".into())}), 10334),
        (aggregate(doc! {"$set": {"a.s": "$s"}}), 10334),
        (aggregate(doc! {"$project": {"a.s": "$s"}}), 10334),
        (doc! {"find": "t", "projection": many("$s".into())}, 10334),
        (
            aggregate(
                doc! {"$project": {"x": {"$regexFind": {"input": "$s", "regex": "(?=(a*))".repeat(1000)}}}},
            ),
            10334,
        ),
        (
            aggregate(
                doc! {"$project": {"x": {"$let": {"vars": many(bson::bson!({"$concatArrays": ["$a"]})), "in": 1}}}},
            ),
            146,
        ),
    ] {
        let reply = run(command.clone());
        let shown: String = command.to_string().chars().take(200).collect();
        assert_eq!(
            reply.get_i32("code").ok(),
            Some(code),
            "{shown}: {:.300}",
            reply.to_string()
        );
    }
    // The document of one stage is freed when the next stage has built its own, and the size of a batch is limited.
    run(doc! {"insert": "s", "documents": (0..300).map(|n| doc! {"_id": n}).collect::<Vec<_>>()});
    let large = doc! {"$set": {"x": "$$large"}};
    let mut stages = vec![doc! {"$match": {"_id": {"$lt": 3}}}, large.clone()];
    stages.extend(vec![doc! {"$set": {"y": 1}}; 200]);
    stages.extend([doc! {"$match": {"z": 1}}]);
    for pipeline in [
        stages,
        vec![large, doc! {"$match": {"z": 1}}, doc! {"$limit": 1}],
    ] {
        let before = memory_peak();
        let mut command = doc! {"aggregate": "s", "pipeline": pipeline, "cursor": {}};
        command.insert("let", doc! {"large": {"$range": [0, 200_000]}});
        let reply = run(command);
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
        // Without these limits each pipeline would need about half a gigabyte. Other tests use some memory, too.
        let grown = memory_peak() - before;
        assert!(grown < 300 << 20, "{grown}");
    }
    let reply = run(doc! {"update": "t", "updates": [
        {"q": {"_id": 2}, "u": [{"$set": {"q": "$s", "r": "$a"}}]},
    ]});
    let errors = reply.get_array("writeErrors").unwrap();
    assert_eq!(
        errors[0].as_document().unwrap().get_i32("code").ok(),
        Some(201),
        "{reply}"
    );
}

#[test]
fn one_expression_ends_at_the_time_limit() {
    let (_runtime, server) = start(2);
    let mut client = Client::connect(server.local_addr()).unwrap();
    let update = doc! {"q": {"_id": 1}, "u": [{"$set": {"x": endless("$_id")}}]};
    for mut command in [
        doc! {"find": "t", "filter": {"_id": 1}, "projection": {"x": endless("$_id")}},
        doc! {"aggregate": "t", "pipeline": [{"$project": {"x": endless("$_id")}}], "cursor": {}},
        doc! {"aggregate": "t", "pipeline": [], "let": {"x": endless(0)}, "cursor": {}},
        doc! {"update": "t", "updates": [update]},
        doc! {"findAndModify": "t", "query": {"_id": 1}, "update": [{"$set": {"x": endless("$_id")}}]},
        doc! {"count": "t", "query": {"$expr": endless("$_id")}},
    ] {
        command.insert("maxTimeMS", 20);
        let began = monotonic();
        let reply = client.command("test", command.clone()).unwrap();
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{command}: {reply}");
        assert_eq!(
            reply.get_str("errmsg").unwrap(),
            "operation exceeded time limit"
        );
        assert!(monotonic() - began < LATE, "{command}");
    }
}

/// A regular expression search is a single call into a library. Even so, other clients are served meanwhile and the search
/// can be killed.
#[test]
fn one_pattern_search_can_be_killed() {
    let (_runtime, server) = start(1);
    let address = server.local_addr();
    let mut client = Client::connect(address).unwrap();
    let text = format!("{}b", "a".repeat(8_000_000));
    let document = doc! {"insert": "t", "documents": [{"_id": 2, "s": text}]};
    client.command("test", document).unwrap();
    let pattern = "a{0,65535}bb";
    let regex = |name: &str| doc! {name: {"input": "$s", "regex": pattern}};
    let project = |expr: Document| {
        doc! {"aggregate": "t", "pipeline": [{"$match": {"_id": 2}}, {"$project": {"x": expr}}], "cursor": {}}
    };
    let not = doc! {"_id": 2, "s": {"$not": {"$regex": pattern}}};
    for mut command in [
        doc! {"find": "t", "filter": {"s": {"$regex": pattern}}},
        doc! {"find": "t", "filter": &not},
        doc! {"delete": "t", "deletes": [{"q": &not, "limit": 0}]},
        doc! {"count": "t", "query": {"$jsonSchema": {"properties": {"s": {"pattern": pattern}}}}},
        project(regex("$regexMatch")),
        project(regex("$regexFind")),
        project(regex("$regexFindAll")),
    ] {
        let reply = ask(address, command.clone());
        let operation = running(&mut client, 1).remove(0);
        for _ in 0..5 {
            client.command("admin", doc! {"ping": 1}).unwrap();
        }
        // Other clients can write to the collection meanwhile, because the search does not hold its lock.
        let mut run = |command: Document| client.command("test", command).unwrap();
        run(doc! {"insert": "t", "documents": [{"_id": 3}]});
        run(doc! {"delete": "t", "deletes": [{"q": {"_id": 3}, "limit": 1}]});
        assert_eq!(reply.try_recv(), Err(TryRecvError::Empty), "too early");
        let killed = client.command("admin", doc! {"killOp": 1, "op": operation});
        assert_eq!(killed.unwrap().get_f64("ok").unwrap(), 1.0);
        let reply = reply.recv_timeout(LATE).unwrap();
        assert_eq!(
            reply.get_i32("code").ok(),
            Some(11601),
            "{command}: {reply}"
        );
        command.insert("maxTimeMS", 20);
        let began = monotonic();
        let reply = client.command("test", command.clone()).unwrap();
        assert_eq!(reply.get_i32("code").ok(), Some(50), "{command}: {reply}");
        assert!(monotonic() - began < LATE, "{command}");
    }
    let left = client.command("test", doc! {"count": "t"}).unwrap();
    assert_eq!(left.get_i32("n").unwrap(), 2);
}

/// Long work before the command itself starts is visible and can be killed, too.
#[test]
fn a_command_is_in_current_op_while_it_is_parsed() {
    let (_runtime, server) = start(2);
    let address = server.local_addr();
    let mut client = Client::connect(address).unwrap();
    let large: Vec<Document> = (0..400_000)
        .map(|n| doc! {"a": {"$gt": n, "$lt": n}})
        .collect();
    for command in [
        doc! {"find": "t", "let": {"x": endless(0)}},
        doc! {"aggregate": "t", "pipeline": [], "let": {"x": endless(0)}, "cursor": {}},
        doc! {"find": "t", "filter": {"$or": &large}},
        doc! {"aggregate": "t", "pipeline": [{"$match": {"$or": &large}}], "cursor": {}},
        doc! {"count": "t", "query": {"$nor": &large}},
    ] {
        let shown: String = command.to_string().chars().take(100).collect();
        // On a fast machine, or if this thread is slow, the filter is parsed before the kill arrives. Then the test tries
        // again.
        let began = monotonic();
        loop {
            let reply = ask_and_kill(&mut client, address, command.clone());
            if reply.get_i32("code").ok() == Some(11601) {
                break;
            }
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{shown}: {reply}");
            assert!(monotonic() - began < LATE, "{shown}: never killed");
        }
    }
}
