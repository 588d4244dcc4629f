//! Tests of what a walk does under the lock of its collection, and what it does outside it.

use std::rc::Rc;

use bson::{Bson, Document, doc};

use super::copies::MAX_COPIES;
use super::*;
use crate::clock::monotonic;
use crate::engine::choose::choose;
use crate::engine::plan::Hint;
use crate::engine::write::{Picked, Picker};
use crate::interrupt::observe;
use crate::query::Scope;
use crate::query::sort::Sort;
use crate::query::stage::Endless;
use crate::storage::index::IndexSpec;
use crate::storage::{CollectionOptions, Namespace};
use crate::value::{DocBuf, Millis};

const NOW: ReadPoint = ReadPoint::at(Millis(0));

fn collection(index: Document, documents: impl IntoIterator<Item = Document>) -> Arc<Collection> {
    let collection = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
    let collection = Arc::new(collection);
    let spec = IndexSpec::new("i", DocBuf::from(index));
    let made = collection.drain_then(Millis(0), monotonic(), |rules| rules.add_index(spec));
    assert!(made.unwrap().is_ok());
    documents
        .into_iter()
        .for_each(|document| insert(&collection, &document));
    collection
}

fn insert(collection: &Collection, document: &Document) {
    let bytes = document.to_vec().unwrap();
    let inserted = collection.write(Millis(0), |w| w.insert(&bytes).is_ok());
    assert_eq!(inserted, Ok(true), "{document}");
}

fn filter(filter: &Document) -> Filter {
    Filter::parse(DocBuf::from(filter).as_doc(), &Scope::new()).unwrap()
}

/// Returns every kind of access to all documents of a collection.
fn access_paths(collection: &Arc<Collection>, count: i32) -> Vec<(&'static str, AccessPath)> {
    let ids = filter(&doc! {"_id": {"$in": (0..count).collect::<Vec<_>>()}});
    let all = Filter::all();
    let hint = Hint::Name("i".to_owned());
    let by_id = choose(collection, &ids, None, None, NOW).unwrap();
    let scan_index = choose(collection, &all, None, Some(&hint), NOW).unwrap();
    vec![
        ("up", AccessPath::CollScan(ScanDirection::Forward)),
        ("down", AccessPath::CollScan(ScanDirection::Backward)),
        ("ids", by_id.access),
        ("index", scan_index.access),
    ]
}

/// With every access, a lock hold reads a few hundred small documents, and fewer large ones.
#[test]
fn one_lock_hold_ends_after_a_few_documents_or_bytes() {
    for (size, count, most) in [
        (10, 600, CHUNK),
        (40_000, 60, CHUNK / 10 + 1),
        (3_000_000, 5, 1),
    ] {
        let text = "x".repeat(size);
        let documents = (0..count).map(|n| doc! {"_id": n, "a": n, "s": &text});
        let collection = collection(doc! {"a": 1}, documents);
        for (name, access) in access_paths(&collection, count) {
            for asked in [doc! {}, doc! {"s": {"$ne": 1}}] {
                let (filter, vars) = (filter(&asked), Vars::at(Millis(0)));
                let mut walk = Walk::new(Arc::clone(&collection), access.clone());
                let mut found = 0;
                loop {
                    let mut held = 0;
                    let pace = walk.slice(NOW, &filter, &vars, |_| {
                        held += 1;
                        Ok(ControlFlow::Continue(()))
                    });
                    assert!(held <= most, "{name}, {size}: {held} in one lock hold");
                    found += held;
                    if pace.unwrap() == SlicePace::End {
                        break;
                    }
                }
                assert_eq!(found, count as usize, "{name}, {size}");
            }
        }
    }
}

/// A slow filter does not run under the lock, and one slice tests only a few documents with it.
#[test]
fn a_slow_filter_is_tested_outside_the_lock() {
    let documents = (0..100).map(|n| doc! {"_id": n, "a": n, "s": "aab"});
    let collection = collection(doc! {"a": 1}, documents);
    let many: Vec<Document> = (1000..1100).map(|n| doc! {"a": {"$ne": n}}).collect();
    let pattern = |pattern: &str| {
        Bson::from(bson::Regex {
            pattern: pattern.try_into().unwrap(),
            options: "".try_into().unwrap(),
        })
    };
    for (asked, is_slow) in [
        (doc! {"$and": many}, true),
        (doc! {"s": {"$regex": "a{0,65535}b"}}, true),
        (doc! {"s": {"$in": ["x", pattern("a+b")]}}, true),
        (doc! {"s": {"$not": {"$regex": ".*c"}}}, true),
        (doc! {"s": {"$elemMatch": {"$regex": "a*b"}}}, true),
        (
            doc! {"s": {"$regex": format!("{}b", "a?".repeat(18))}},
            true,
        ),
        (doc! {"s": {"$regex": "(?=a)a*b"}}, true),
        (doc! {"s": {"$regex": "(?=a)a"}}, false),
        (doc! {"$expr": {"$eq": ["$s", "aab"]}}, true),
        (doc! {"s": {"$regex": "^aa"}}, false),
        (doc! {"s": {"$regex": "aab?|[*]x"}}, false),
        (doc! {"s": {"$in": ["aab", pattern("ab")]}}, false),
        (doc! {"s": "aab"}, false),
    ] {
        let (filter, vars) = (filter(&asked), Vars::at(Millis(0)));
        assert_eq!(filter.is_slow(), is_slow, "{asked}");
        for (name, access) in access_paths(&collection, 100) {
            let mut walk = Walk::new(Arc::clone(&collection), access);
            let (mut most, mut all) = (0, 0);
            loop {
                let watched = Arc::clone(&collection);
                let locked = Rc::new(std::cell::Cell::new(false));
                let seen = Rc::clone(&locked);
                let pace = observe::ticks(
                    move |_| seen.set(seen.get() || watched.is_locked()),
                    || {
                        walk.slice(NOW, &filter, &vars, |_| {
                            assert_eq!(collection.is_locked(), !is_slow, "{name}: {asked}");
                            Ok(ControlFlow::Continue(()))
                        })
                    },
                );
                assert!(!(is_slow && locked.get()), "{name}: {asked} under the lock");
                let documents = walk.take_effort().documents;
                most = most.max(documents);
                all += documents;
                if pace.unwrap() == SlicePace::End {
                    break;
                }
            }
            assert_eq!(all, 100, "{name}: {asked}");
            assert!(
                !is_slow || most <= MAX_COPIES as u64,
                "{name}: {most} at a time"
            );
        }
    }
}

/// A write brings an array into the index between the plan and the first step of the walk. The keys of the array are not at
/// the position that the sort requires. So the walk reports that it cannot keep the order, and the caller sorts.
#[test]
fn rows_are_sorted_if_an_array_has_broken_the_index_order() {
    let documents = (0..9).map(|n| doc! {"_id": n, "a": 5, "b": 8 - n});
    let asked = Arc::new(filter(&doc! {"a": 5}));
    let vars = Vars::at(Millis(0));
    let sort = |by: Document| Sort::parse(DocBuf::from(by).as_doc()).unwrap();
    // By its keys the array comes before all other documents; by the sort it comes last.
    for (by, last, first) in [(doc! {"b": 1}, 9, 8), (doc! {"b": -1}, -1, 0)] {
        for is_broken in [false, true] {
            let collection = collection(doc! {"a": 1, "b": 1}, documents.clone());
            let sort = sort(by.clone());
            let plan = choose(&collection, &asked, Some(&sort), None, NOW).unwrap();
            assert!(plan.sort_covered && plan.exact, "{by}");
            if is_broken {
                insert(&collection, &doc! {"_id": 9, "a": [1, 5, 7], "b": last});
            }
            let walk = Walk::new(collection, plan.access).exact(plan.exact);
            let mut picker = Picker::new(walk.in_order(true), Arc::clone(&asked), Some(sort), true);
            let mut current = Vec::new();
            let picked = picker.next(NOW, &vars, &Endless, &mut current).unwrap();
            assert!(matches!(picked, Picked::One(..)), "{by}");
            let found = Doc::new(&current).get("_id").as_i32();
            assert_eq!(found, Some(first), "{by}, {is_broken}");
        }
    }
}
