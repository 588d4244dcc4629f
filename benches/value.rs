//! Measures the BSON work of every request: validating bytes, finding a field, making a key, comparing.

use std::hint::black_box;

use bson::doc;
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use sundown::value::{Doc, DocBuf, Limits, compare, key, validate};

/// Builds a document of about 1 KB with ten fields. `score` is the last.
fn document(n: i32) -> DocBuf {
    DocBuf::from(doc! {
        "_id": bson::oid::ObjectId::from_bytes([n as u8; 12]), "name": format!("customer {n:06}"), "category": "standard",
        "price": f64::from(n) / 7.0, "quantity": n, "createdAt": bson::DateTime::from_millis(n.into()), "active": true,
        "description": "x".repeat(780), "email": format!("customer{n:06}@example.com"), "score": n % 100,
    })
}

fn value(c: &mut Criterion) {
    let one = document(7);
    let many: Vec<DocBuf> = (0..10_000).map(document).collect();

    c.bench_function("validate 1 KB", |b| {
        b.iter(|| validate(black_box(one.bytes()), Limits::DEFAULT).is_ok());
    });
    c.bench_function("get last of 10", |b| {
        b.iter(|| Doc::new(black_box(one.bytes())).get(black_box("score")));
    });
    c.bench_function("walk 10 fields", |b| {
        b.iter(|| Doc::new(black_box(one.bytes())).iter().count());
    });
    c.bench_function("scan 10,000 on the last field", |b| {
        b.iter(|| {
            many.iter()
                .filter(|doc| doc.as_doc().get("score").as_i32() == Some(5))
                .count()
        });
    });
    for name in ["quantity", "price", "email", "_id"] {
        let value = one.as_doc().get(name);
        c.bench_function(&format!("key of {name}"), |b| {
            b.iter_batched_ref(
                || Vec::with_capacity(64),
                |out| key::encode(black_box(value), false, out),
                BatchSize::SmallInput,
            );
        });
        c.bench_function(&format!("compare {name}"), |b| {
            b.iter(|| compare(black_box(value), black_box(value)));
        });
    }
}

criterion_group!(benches, value);
criterion_main!(benches);
