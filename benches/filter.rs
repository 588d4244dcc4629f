//! Measures the cost of a filter per document in a scan: equality, range, conjunction, array, pattern, logic, `$elemMatch`.

#![allow(clippy::unwrap_used)] // a panic says where

use std::hint::black_box;

use bson::doc;
use criterion::{Criterion, criterion_group, criterion_main};
use sundown::{
    query::{Filter, Scope, Vars},
    value::{DocBuf, Millis},
};

/// Builds a document of about 1 KB with eleven fields. `score` and `tags` come last.
fn document(n: i32) -> DocBuf {
    DocBuf::from(doc! {
        "_id": bson::oid::ObjectId::from_bytes([n as u8; 12]), "name": format!("customer {n:06}"), "category": "standard",
        "price": f64::from(n) / 7.0, "quantity": n, "createdAt": bson::DateTime::from_millis(n.into()), "active": true,
        "description": "x".repeat(740), "email": format!("customer{n:06}@example.com"), "score": n % 100,
        "tags": ["a", "b", "c"],
    })
}

fn filter(c: &mut Criterion) {
    let many: Vec<DocBuf> = (0..10_000).map(document).collect();
    let vars = Vars::at(Millis(0));
    for (name, query) in [
        ("equal int", doc! {"score": 5}),
        ("equal text", doc! {"email": "customer000077@example.com"}),
        ("equal, no such field", doc! {"nothing": 5}),
        ("range", doc! {"price": {"$gt": 10, "$lt": 20}}),
        ("two fields", doc! {"active": true, "score": 5}),
        ("in", doc! {"score": {"$in": [5, 15, 25, 35, 45]}}),
        ("in an array", doc! {"tags": "c"}),
        ("prefix", doc! {"email": {"$regex": "^customer00007"}}),
        (
            "or, nor and not",
            doc! {"$or": [{"score": 5}, {"$nor": [{"quantity": {"$gte": 9}}, {"price": 3}]}, {"score": {"$not": {"$gt": 0}}}]},
        ),
        (
            "elements",
            doc! {"tags": {"$elemMatch": {"$gt": "a", "$not": {"$lt": "c"}}}},
        ),
    ] {
        let filter = Filter::parse(DocBuf::from(query).as_doc(), &Scope::new()).unwrap();
        c.bench_function(&format!("10,000 x {name}"), |b| {
            b.iter(|| {
                many.iter()
                    .filter(|doc| filter.matches(black_box(doc.as_doc()), &vars).unwrap())
                    .count()
            });
        });
    }
}

criterion_group!(benches, filter);
criterion_main!(benches);
