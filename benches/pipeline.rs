//! Measures the cost of a pipeline per document: `$group`, `$sort`, `$lookup` by `_id` and computed fields, on a collection
//! of 1 KB documents.

#![allow(clippy::unwrap_used)] // a panic says where

use std::hint::black_box;
use std::sync::Arc;

use bson::{Bson, bson, doc};
use criterion::{Criterion, criterion_group, criterion_main};
use sundown::engine::write::insert_batch;
use sundown::engine::{EngineSources, ReadPoint};
use sundown::query::stage::{
    Endless, Flow, Pipeline, PipelineLimits, RowBatch, RowContext, StageContext,
};
use sundown::query::{Scope, Vars};
use sundown::storage::{Catalog, CollectionOptions, Namespace};
use sundown::value::{DocBuf, Millis};

/// Builds a document of about 1 KB with eleven fields.
fn document(n: i32) -> DocBuf {
    DocBuf::from(doc! {
        "_id": n, "name": format!("customer {n:06}"), "category": "standard", "price": f64::from(n) / 7.0, "quantity": n,
        "createdAt": bson::DateTime::from_millis(n.into()), "active": true, "description": "x".repeat(740),
        "email": format!("customer{n:06}@example.com"), "score": n % 100, "tags": ["a", "b", "c"],
    })
}

/// Runs a pipeline to its end and returns the number of rows.
fn run(catalog: &Arc<Catalog>, stages: &Bson) -> usize {
    let spec = DocBuf::from(doc! {"p": stages});
    let scope = Scope::new();
    let place = StageContext::new(&scope, "db", Some("c"));
    let stages = spec.as_doc().get("p").as_array().unwrap();
    let mut pipeline = Pipeline::parse(stages, &place).unwrap();
    // `OPTIMISE=0` measures the pipelines as they were written.
    if std::env::var("OPTIMISE").as_deref() != Ok("0") {
        pipeline = pipeline.optimise().unwrap();
    }
    let sources = EngineSources::new(Arc::clone(catalog), ReadPoint::at(Millis(1)), false);
    let vars = Vars::at(Millis(1));
    let (front, rest) = pipeline.split_source();
    let source = sources.read_spec("db", "c", &front, None).unwrap();
    let mut rows = rest.open(source);
    let mut cx = RowContext {
        vars: &vars,
        slice: &Endless,
        limits: PipelineLimits::new(true, 100 << 20),
        sources: &sources,
    };
    let (mut batch, mut count) = (RowBatch::new(), 0);
    loop {
        batch.clear();
        let flow = rows.fill(&mut cx, &mut batch).unwrap();
        count += batch.len();
        if flow == Flow::End {
            return count;
        }
    }
}

fn pipeline(c: &mut Criterion) {
    let catalog = Arc::new(Catalog::new());
    let name = Namespace::new("db", "c");
    let collection = catalog
        .create(name, CollectionOptions::default(), Millis(1), |_| ())
        .expect("a new name");
    let many: Vec<DocBuf> = (0..10_000).map(document).collect();
    for some in many.chunks(100) {
        insert_batch(
            &collection,
            some.iter().map(DocBuf::bytes),
            ReadPoint::at(Millis(1)),
        )
        .unwrap();
    }
    for (name, stages) in [
        (
            "count of 10,000",
            bson!([{"$match": {"active": true}}, {"$count": "n"}]),
        ),
        (
            "group of 10,000",
            bson!([{"$group": {"_id": "$score", "n": {"$sum": 1}, "total": {"$sum": "$quantity"}}}]),
        ),
        (
            "match and group of 10,000",
            bson!([{"$match": {"active": true}}, {"$group": {"_id": "$category", "avg": {"$avg": "$price"}}}]),
        ),
        ("sort of 10,000", bson!([{"$sort": {"email": -1}}])),
        (
            "late match of 10,000",
            bson!([{"$set": {"total": {"$multiply": ["$price", "$quantity"]}}}, {"$sort": {"total": 1}}, {"$match": {"score": 7}}]),
        ),
        (
            "first 10 of 10,000",
            bson!([{"$sort": {"email": -1}}, {"$limit": 10}]),
        ),
        (
            "lookup of 100 by _id",
            bson!([{"$limit": 100}, {"$lookup": {"from": "c", "localField": "score", "foreignField": "_id", "as": "j"}}]),
        ),
        ("unwind of 10,000", bson!([{"$unwind": "$tags"}])),
        (
            "add fields to 10,000",
            bson!([{"$addFields": {"score": {"$add": ["$score", 1]}, "more.deep": "$quantity", "tags.x": 1}}]),
        ),
        (
            "project of 10,000",
            bson!([{"$project": {"name": 1, "price": 1, "sum": {"$add": ["$score", 1]}, "more.deep": "$quantity"}}]),
        ),
    ] {
        c.bench_function(name, |b| b.iter(|| run(&catalog, black_box(&stages))));
    }
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
