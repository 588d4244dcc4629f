//! Measures a whole command without sockets: looking it up, reading its arguments, running it, writing the reply.

use std::hint::black_box;

use bson::{Document, doc};
use criterion::{Criterion, criterion_group, criterion_main};
use sundown::clock::Clock;
use sundown::command::{Commands, Context};
use sundown::config::Config;
use sundown::handler::{Handler, Peer};
use sundown::wire::Request;

fn request(command: &Document) -> Request {
    Request::new(command.to_vec().expect("encodes"))
}

fn commands(c: &mut Criterion) {
    let commands = Commands::new(Context::new(Config::default(), Clock::system()));
    let peer = Peer::plain(1, ([127, 0, 0, 1], 1).into());
    let mut connection = commands.open(peer);
    let lsid = doc! {"id": bson::Uuid::new()};
    let mut reply = Vec::with_capacity(64 * 1024);
    let mut run = |request: Request| {
        reply.clear();
        let _ = commands.call(&mut connection, request, &mut reply);
        black_box(&reply);
    };
    let text = "x".repeat(1000);
    for n in 0..1000 {
        run(request(
            &doc! {"insert": "c", "documents": [{"_id": n, "a": n, "text": &text}], "$db": "b"},
        ));
    }
    let ping = request(&doc! {"ping": 1, "lsid": lsid.clone(), "$db": "b"});
    c.bench_function("ping", |b| b.iter(|| run(ping.clone())));
    let find = doc! {"find": "c", "filter": {"_id": 500}, "limit": 1, "singleBatch": true, "lsid": lsid.clone(), "$db": "b"};
    let find = request(&find);
    c.bench_function("find by _id", |b| b.iter(|| run(find.clone())));
    let mut number = 0_i64;
    c.bench_function("update $inc by _id, retryable", |b| {
        b.iter(|| {
            number += 1;
            let update = doc! {
                "update": "c", "updates": [{"q": {"_id": 500}, "u": {"$inc": {"a": 1}}}],
                "lsid": lsid.clone(), "txnNumber": number, "$db": "b",
            };
            run(request(&update));
        });
    });
}

criterion_group!(benches, commands);
criterion_main!(benches);
