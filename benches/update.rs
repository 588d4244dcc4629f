//! Measures common updates on a 1 KB document.

use std::hint::black_box;

use bson::{Bson, Document, doc};
use criterion::{Criterion, criterion_group, criterion_main};
use sundown::query::update::{Apply, Update};
use sundown::query::{Scope, Vars};
use sundown::value::{Doc, DocBuf, Millis};

/// Builds a document with ten fields of about a hundred bytes around a counter and a short list.
fn document() -> Document {
    let mut document = doc! {"_id": 7};
    for n in 0..5 {
        document.insert(format!("text{n}"), "x".repeat(85));
    }
    document.insert("count", 1);
    document.insert("list", [1, 2, 3]);
    for n in 5..10 {
        document.insert(format!("text{n}"), "x".repeat(85));
    }
    document
}

fn updates(c: &mut Criterion) {
    let bytes = document().to_vec().expect("encodes");
    let vars = Vars::at(Millis(0));
    let apply = Apply {
        now: Millis(0),
        vars: &vars,
        position: None,
        inserting: false,
    };
    for (name, update) in [
        ("inc", doc! {"$inc": {"count": 1}}),
        ("set", doc! {"$set": {"text3": "y"}}),
        ("set new", doc! {"$set": {"fresh": 1}}),
        ("push", doc! {"$push": {"list": 4}}),
        ("replace", doc! {"_id": 7, "count": 2}),
    ] {
        let wrapped = DocBuf::from(doc! {"u": Bson::Document(update)});
        let spec = wrapped.as_doc().get("u");
        let parse = || Update::parse(spec, None, &Scope::new()).expect("parses");
        c.bench_function(&format!("update parse/{name}"), |b| {
            b.iter(|| black_box(parse()))
        });
        let update = parse();
        let mut out = Vec::new();
        c.bench_function(&format!("update apply/{name}"), |b| {
            b.iter(|| {
                out.clear();
                update
                    .apply_into(Doc::new(black_box(&bytes)), &apply, &mut out)
                    .expect("applies")
            })
        });
    }
}

criterion_group!(benches, updates);
criterion_main!(benches);
