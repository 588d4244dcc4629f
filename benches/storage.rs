//! Measures a point read and a write in storage, and what expiry adds to them.
//!
//! Besides criterion's figures, this prints the added cost of a DefaultTTL, which should stay below 25 ns. Runs with and
//! without it alternate, so that a busy machine affects both equally.

use std::hint::black_box;
use std::ops::ControlFlow;

use bson::doc;
use criterion::{BatchSize, Criterion, criterion_group};
use sundown::clock::monotonic;
use sundown::engine::write::insert_batch;
use sundown::query::update::{Apply, Update};
use sundown::query::{Scope, Vars};
use sundown::storage::{
    Collection, CollectionOptions, Namespace, New, NewTtl, NoDelta, ReadPoint, RecordId,
};
use sundown::ttl::{DefaultTtl, OwnTtl};
use sundown::value::{Doc, DocBuf, Millis, Value};

const NOW: Millis = Millis(1_900_000_000_000);
const DOCUMENTS: i32 = 10_000;
const NINETY_DAYS: DefaultTtl = DefaultTtl::Seconds(90 * 86_400);

/// Builds a document of about 1 KB.
fn document(n: i32, count: i32) -> Vec<u8> {
    let document =
        doc! {"_id": n, "name": format!("customer {n:06}"), "count": count, "pad": "x".repeat(940)};
    DocBuf::from(document).bytes().to_vec()
}

fn empty(default: DefaultTtl) -> Collection {
    let made = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
    let set = made.drain_then(NOW, monotonic(), |rules| {
        rules.set_default_ttl(default, None);
    });
    assert!(set.expect("it was just made").is_ok());
    made
}

fn full(default: DefaultTtl) -> Collection {
    let made = empty(default);
    for n in 0..DOCUMENTS {
        made.write(NOW, |writer| writer.insert(&document(n, 0)))
            .expect("it was just made")
            .expect("every _id is new");
    }
    made
}

/// Reads one document by its `_id` into a reply buffer.
fn point_read(collection: &Collection, id: &Value, out: &mut Vec<u8>) -> bool {
    out.clear();
    collection.read(ReadPoint::at(NOW), |view| match view.by_id(id.as_ref()) {
        Some((_, stored)) => {
            out.extend_from_slice(stored.bytes);
            true
        }
        None => false,
    })
}

/// Replaces one document with another of the same size.
fn point_write(collection: &Collection, id: RecordId, from: &[u8], to: &[u8]) {
    let replaced = collection.write(NOW, |writer| {
        let new = New::Bytes(to.to_vec());
        writer
            .is_unchanged(id, from)
            .then(|| writer.update(id, &new, NewTtl::Unknown, &NoDelta))
    });
    assert!(matches!(replaced, Ok(Some(Ok(Some(_))))));
}

fn storage(c: &mut Criterion) {
    for (name, default) in [
        ("DefaultTTL off", DefaultTtl::Off),
        ("DefaultTTL 90 days", NINETY_DAYS),
    ] {
        let collection = full(default);
        let id = Value::int32(5_000);
        let mut out = Vec::with_capacity(2_048);
        c.bench_function(&format!("find by _id, {name}"), |b| {
            b.iter(|| point_read(&collection, black_box(&id), &mut out));
        });
        let id = collection
            .read(ReadPoint::at(NOW), |view| {
                view.by_id(id.as_ref()).map(|(id, _)| id)
            })
            .expect("it was inserted");
        let versions = [document(5_000, 0), document(5_000, 1)];
        let mut turn = 0;
        c.bench_function(&format!("replace, {name}"), |b| {
            b.iter(|| {
                point_write(&collection, id, &versions[turn], &versions[1 - turn]);
                turn = 1 - turn;
            });
        });
        let vars = Vars::at(NOW);
        let apply = Apply {
            now: NOW,
            vars: &vars,
            position: None,
            inserting: false,
        };
        let spec = DocBuf::from(doc! {"u": {"$inc": {"count": 1}}});
        let update = Update::parse(spec.as_doc().get("u"), None, &Scope::new()).expect("parses");
        let mut current = versions[turn].clone();
        c.bench_function(&format!("$inc by record, {name}"), |b| {
            b.iter(|| {
                let changed = update.apply(Doc::new(&current), &apply);
                let changed = changed.expect("applies").expect("it changes");
                point_write(&collection, id, &current, &changed);
                current = changed;
            });
        });
        let documents: Vec<Vec<u8>> = (0..100).map(|n| document(n, 0)).collect();
        c.bench_function(&format!("insert 100, {name}"), |b| {
            b.iter_batched_ref(
                || empty(default),
                |collection| {
                    let batch = documents.iter().map(Vec::as_slice);
                    insert_batch(collection, batch, ReadPoint::at(NOW))
                        .map(|inserted| inserted.count)
                },
                BatchSize::SmallInput,
            );
        });
        c.bench_function(&format!("scan 10,000, {name}"), |b| {
            b.iter(|| {
                let mut count = 0;
                let _ = collection.read(ReadPoint::at(NOW), |view| {
                    view.each_up(RecordId::FIRST, |_, _| {
                        count += 1;
                        ControlFlow::<()>::Continue(())
                    })
                });
                count
            });
        });
    }
    c.bench_function("expiry check", |b| {
        b.iter(|| {
            black_box(NINETY_DAYS)
                .end(black_box(OwnTtl::NONE), black_box(NOW))
                .has_come(black_box(NOW))
        });
    });
}

criterion_group!(benches, storage);

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` only check that the program starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    benches();
    Criterion::default().configure_from_args().final_summary();
    price_of_a_default();
}

/// Prints how much longer an operation takes with a DefaultTTL than without, as the median of many short runs.
fn price_of_a_default() {
    let plain = full(DefaultTtl::Off);
    let ending = full(NINETY_DAYS);
    let ids: Vec<Value> = (0..DOCUMENTS).map(Value::int32).collect();
    let mut out = Vec::with_capacity(2_048);
    let mut read = |collection: &Collection| {
        for id in ids.iter().step_by(7) {
            black_box(point_read(collection, black_box(id), &mut out));
        }
    };
    let reads = ids.iter().step_by(7).count();
    println!(
        "price of a DefaultTTL, point read: {:+.1} ns",
        price(&plain, &ending, reads, &mut read)
    );

    let versions = [document(77, 0), document(77, 1)];
    let id = |collection: &Collection| {
        collection
            .read(ReadPoint::at(NOW), |view| {
                view.by_id(ids[77].as_ref()).map(|(id, _)| id)
            })
            .expect("it was inserted")
    };
    let mut write = |collection: &Collection| {
        let id = id(collection);
        for _ in 0..500 {
            point_write(collection, id, &versions[0], &versions[1]);
            point_write(collection, id, &versions[1], &versions[0]);
        }
    };
    println!(
        "price of a DefaultTTL, write:      {:+.1} ns",
        price(&plain, &ending, 1_000, &mut write)
    );
}

fn price(
    plain: &Collection,
    ending: &Collection,
    operations: usize,
    run: &mut dyn FnMut(&Collection),
) -> f64 {
    let mut time = |collection: &Collection| {
        let start = monotonic();
        run(collection);
        (monotonic() - start).as_secs_f64() * 1e9 / operations as f64
    };
    let mut differences: Vec<f64> = (0..401)
        .map(|turn| {
            // The order of the two also alternates.
            if turn % 2 == 0 {
                let without = time(plain);
                time(ending) - without
            } else {
                let with = time(ending);
                with - time(plain)
            }
        })
        .collect();
    differences.sort_by(f64::total_cmp);
    differences[differences.len() / 2]
}
