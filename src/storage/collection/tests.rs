//! Tests of the guarantees that a collection gives its readers and writers.

use super::*;
use crate::clock::monotonic;
use crate::storage::NoDelta;
use crate::storage::index::IndexSpec;
use crate::storage::{
    Before, Cap, Catalog, DateRuleChange, DateRuleMigration, IndexSelection, New, NewTtl, RecordId,
    Refused, Rules,
};
use crate::ttl::DefaultTtl;
use crate::value::{Doc, DocBuf, Patch};
use bson::doc;
use std::ops::{Bound, ControlFlow};
use std::time::Duration;

fn collection(default: DefaultTtl) -> Collection {
    let made = Collection::new(Namespace::new("db", "c"), CollectionOptions::default());
    made.set_up(Millis(0), |rules| rules.set_default_ttl(default, None));
    made
}

fn add(collection: &Collection, now: i64, document: bson::Document) -> Result<RecordId, Refused> {
    let bytes = document.to_vec().unwrap();
    collection.write(Millis(now), |w| w.insert(&bytes)).unwrap()
}

fn ids(collection: &Collection, now: i64) -> Vec<i32> {
    collection.read(ReadPoint::at(Millis(now)), |view| {
        let up = view.all();
        let mut down = Vec::new();
        let _ = view.each_down(RecordId(u64::MAX), |id, _| {
            down.push(id);
            ControlFlow::<()>::Continue(())
        });
        down.reverse();
        assert_eq!(up.iter().map(|(id, _)| *id).collect::<Vec<_>>(), down);
        assert_eq!(view.totals().count, up.len() as u64);
        up.iter()
            .map(|(_, s)| Doc::new(s.bytes).get("_id").as_i32().unwrap())
            .collect()
    })
}

fn reap(collection: &Collection, now: i64) -> u64 {
    let mut removed = 0;
    loop {
        let slice = collection.reap(Millis(now), monotonic());
        removed += slice.removed;
        if !slice.more {
            return removed;
        }
    }
}

#[test]
fn a_patch_is_a_write_like_any_other() {
    let c = collection(DefaultTtl::Seconds(10));
    c.set_up(Millis(0), |rules| {
        rules.add_index(IndexSpec::new("a_1", DocBuf::from(doc! {"a": 1})))
    });
    add(&c, 0, doc! {"_id": 1, "a": 1, "n": 1}).unwrap();
    add(&c, 0, doc! {"_id": 2, "a": 1, "n": 1}).unwrap();
    let wanted = DocBuf::from(doc! {"_id": 1});
    let id = wanted.as_doc().get("_id");
    let patch = |now: i64, field: &str, new: Option<i32>| {
        let written = c.write(Millis(now), |w| {
            if !w.may_patch(|name| name == field) {
                return None;
            }
            let (id, len) = {
                let view = w.view();
                let (id, stored) = view.by_id(id)?;
                (id, stored.bytes.len())
            };
            let new = match new {
                None => New::Same,
                Some(new) => {
                    let mut patch = Patch::default();
                    patch.put(len - 5, &new.to_le_bytes())?;
                    New::Patch(patch)
                }
            };
            w.update(id, &new, NewTtl::Same, &NoDelta).unwrap()
        });
        written
            .unwrap()
            .map(|written| (written.before.0, written.ts.0))
    };
    let number = |now| {
        c.read(ReadPoint::at(Millis(now)), |view| {
            let (_, stored) = view.by_id(id)?;
            Doc::new(stored.bytes).get("n").as_i32()
        })
    };
    assert_eq!(patch(4_000, "n", Some(7)), Some((0, 4_000)));
    assert_eq!(number(4_000), Some(7));
    // Only the time of the last write changes, and the document's life starts again from it.
    assert_eq!(patch(5_000, "n", None), Some((4_000, 5_000)));
    assert_eq!(ids(&c, 10_000), [1]);
    // Index keys depend on this field.
    assert_eq!(patch(10_000, "a", Some(8)), None);
    assert_eq!(number(14_999), Some(7));
    assert_eq!(patch(15_000, "n", Some(9)), None);
    assert_eq!(reap(&c, 15_000), 2);
    // A partial index or one on _ts may depend on any write.
    for key in [doc! {"_ts": 1}, doc! {"b": 1}] {
        let mut spec = IndexSpec::new("i", DocBuf::from(key));
        assert_eq!(spec.depends_on(|name| name == "n"), spec.names_ts());
        spec.partial = Some(crate::storage::index::Partial {
            filter: DocBuf::new(),
            condition: Arc::new(Always),
        });
        assert!(spec.depends_on(|name| name == "n"));
    }
}

struct Always;

impl crate::storage::index::PartialCondition for Always {
    fn holds(&self, _: Doc<'_>) -> bool {
        true
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

#[test]
fn an_ended_document_makes_way_for_its_id_and_its_unique_keys() {
    let c = collection(DefaultTtl::Seconds(10));
    let mut spec = IndexSpec::new("u_1", DocBuf::from(doc! {"u": 1}));
    spec.unique = true;
    c.set_up(Millis(0), |rules| rules.add_index(spec));
    add(&c, 0, doc! {"_id": 1, "u": "a"}).unwrap();
    add(&c, 5_000, doc! {"_id": 2, "u": "b"}).unwrap();
    assert!(matches!(
        add(&c, 9_999, doc! {"_id": 1}),
        Err(Refused::Duplicate { index: None, .. })
    ));
    assert!(matches!(
        add(&c, 9_999, doc! {"_id": 3, "u": "a"}),
        Err(Refused::Duplicate { index: Some(_), .. })
    ));
    add(&c, 10_000, doc! {"_id": 3, "u": "a"}).unwrap();
    add(&c, 15_000, doc! {"_id": 2, "u": "c"}).unwrap();
    assert_eq!(ids(&c, 15_000), [3, 2]);
    c.read(ReadPoint::at(Millis(15_000)), |view| {
        assert_eq!(view.index("u_1").unwrap().len(), 2)
    });
    assert_eq!(reap(&c, 15_000), 0);
}

#[test]
fn a_longer_default_brings_nothing_back() {
    let c = collection(DefaultTtl::Seconds(10));
    for n in 0..500 {
        add(&c, i64::from(n) * 20, doc! {"_id": n}).unwrap();
    }
    let now = Millis(15_000);
    let mut change = |rules: &mut Rules<'_>| rules.set_default_ttl(DefaultTtl::Never, None);
    let mut rounds = 0;
    // The deadline has passed already: every round removes one chunk.
    while let Err(again) = c.drain_then(now, monotonic(), change).unwrap() {
        change = again;
        rounds += 1;
    }
    assert!(rounds > 3, "{rounds}");
    assert_eq!(ids(&c, 15_000).first(), Some(&251));
    assert_eq!(ids(&c, 1_000_000).len(), 249);
}

#[test]
fn a_writer_with_an_older_now_cannot_revive_what_was_seen_to_be_gone() {
    let c = collection(DefaultTtl::Seconds(10));
    let document = doc! {"_id": 1};
    let id = add(&c, 0, document.clone()).unwrap();
    assert_eq!(ids(&c, 10_000), Vec::<i32>::new());
    let bytes = document.to_vec().unwrap();
    for new in [New::Same, New::Bytes(bytes)] {
        let written = c.write(Millis(9_000), |w| {
            w.update(id, &new, NewTtl::Same, &NoDelta)
        });
        assert_eq!(written.unwrap(), Ok(None));
    }
}

/// If a caller claims that a document was found and it was not, nothing is written.
#[test]
fn what_is_not_there_is_not_written_to() {
    let c = collection(DefaultTtl::Seconds(10));
    c.set_up(Millis(0), |rules| {
        rules.add_index(IndexSpec::new("_ts_1", DocBuf::from(doc! {"_ts": 1})));
    });
    let id = add(&c, 0, doc! {"_id": 1}).unwrap();
    let before = c.read(ReadPoint::at(Millis(0)), |view| {
        Before::of(&view.get(id).unwrap())
    });
    let bytes = doc! {"_id": 1, "n": 1}.to_vec().unwrap();
    for new in [New::Same, New::Bytes(bytes)] {
        let update =
            |w: &mut Writer<'_>| w.update_found(id, before, &new, NewTtl::Unknown, &NoDelta);
        assert_eq!(c.write(Millis(10_000), update).unwrap(), Ok(None));
    }
    assert_eq!(reap(&c, 10_000), 1);
    c.read(ReadPoint::at(Millis(10_000)), |view| {
        assert_eq!(view.index("_ts_1").unwrap().len(), 0);
    });
}

/// A statement over many documents takes a while, and its `_ts` is the moment at which it began.
#[test]
fn a_writer_with_an_older_now_ends_nobody_early() {
    let documents = [doc! {"_id": 1, "n": 0}, doc! {"_id": 2, "n": 0}];
    let bytes = documents.map(|document| document.to_vec().unwrap());
    let other = doc! {"_id": 1, "n": 1}.to_vec().unwrap();
    for indexed in [false, true] {
        let c = collection(DefaultTtl::Seconds(10));
        if indexed {
            c.set_up(Millis(0), |rules| {
                rules.add_index(IndexSpec::new("_ts_1", DocBuf::from(doc! {"_ts": 1})))
            });
        }
        let add = |bytes| c.write(Millis(0), |w| w.insert(bytes)).unwrap().unwrap();
        let ids_of = bytes.each_ref().map(|bytes| add(bytes));
        // It begins at 2 s. Others write at 9 s. At 9.5 s it reaches the same documents.
        for (now, seen) in [(9_000, 9_000), (2_000, 9_500)] {
            c.read(ReadPoint::at(Millis(seen)), |_| ());
            let (new, old) = match now {
                9_000 => (&other, &bytes[0]),
                _ => (&bytes[0], &other),
            };
            c.write(Millis(now), |w| {
                assert!(w.is_unchanged(ids_of[0], old));
                let new = New::Bytes(new.clone());
                let written = w.update(ids_of[0], &new, NewTtl::Unknown, &NoDelta);
                assert!(matches!(written, Ok(Some(_))));
                let touched = w.update(ids_of[1], &New::Same, NewTtl::Same, &NoDelta);
                assert!(matches!(touched, Ok(Some(_))));
            })
            .unwrap();
        }
        assert_eq!(ids(&c, 18_999), [1, 2], "{indexed}");
        if indexed {
            let moments: Vec<_> = c.read(ReadPoint::at(Millis(18_999)), |view| {
                let index = view.index("_ts_1").unwrap();
                let entries = index.up(Bound::Unbounded, &[0xff]);
                entries
                    .map(|entry| crate::storage::index::split(entry).1)
                    .collect()
            });
            assert_eq!(moments, ids_of);
        }
        assert_eq!(ids(&c, 19_000), Vec::<i32>::new(), "{indexed}");
        assert_eq!(reap(&c, 19_000), 2);
    }
}

#[test]
fn a_reader_with_an_older_now_finds_no_more_than_others_did() {
    let c = collection(DefaultTtl::Seconds(10));
    add(&c, 0, doc! {"_id": 1}).unwrap();
    add(&c, 5_000, doc! {"_id": 2}).unwrap();
    assert_eq!(ids(&c, 10_000), [2]);
    // Otherwise a writer would find, by its own `now`, a document that the latest read does not let it touch, and search
    // for ever.
    assert_eq!(ids(&c, 9_999), [2]);
}

#[test]
fn a_command_from_before_the_clock_was_set_back_does_no_harm() {
    let clock = Clock::frozen(Millis(5_000));
    let c = collection(DefaultTtl::Seconds(10)).with(Some(clock.clone()), Arc::default());
    add(&c, 5_000, doc! {"_id": 1}).unwrap();
    // It began when the clock was 90 seconds later.
    let late = Millis(95_000);
    assert_eq!(ids(&c, late.0), [1]);
    assert_eq!(c.reap(late, monotonic()).removed, 0);
    assert_eq!(ids(&c, 5_000), [1]);
    assert!(
        add(&c, 5_000, doc! {"_id": 1}).is_err(),
        "it lives, so nobody takes its place"
    );
    // Its writes happen now, and the document lives no longer than its ttl.
    add(&c, late.0, doc! {"_id": 2}).unwrap();
    clock.set(Millis(14_999));
    assert_eq!(ids(&c, 14_999), [1, 2]);
    clock.set(Millis(15_000));
    assert_eq!(ids(&c, 15_000), Vec::<i32>::new());
}

/// Counted in documents visited: each insert into a full collection may visit a few, not all expired ones.
#[test]
fn a_capped_collection_makes_room_first_where_documents_have_ended() {
    let cap = Cap {
        bytes: u64::MAX,
        documents: Some(100),
    };
    let options = CollectionOptions {
        cap: Some(cap),
        ..CollectionOptions::default()
    };
    let shared = Arc::<Shared>::default();
    let c = Collection::new(Namespace::new("db", "c"), options).with(None, Arc::clone(&shared));
    c.set_up(Millis(0), |rules| {
        rules.set_default_ttl(DefaultTtl::Never, None);
    });
    // Every other document expires after a second.
    for n in 0..100 {
        let ttl = if n % 2 == 0 { 1 } else { -1 };
        add(&c, 0, doc! {"_id": n, "ttl": ttl}).unwrap();
    }
    for n in 100..150 {
        add(&c, 1_000, doc! {"_id": n}).unwrap();
    }
    let living: Vec<i32> = (0..150).filter(|n| n % 2 == 1 || *n >= 100).collect();
    assert_eq!(ids(&c, 1_000), living, "nobody had to go");
    assert_eq!(c.shared().contents().evicted(), None);
    add(&c, 1_000, doc! {"_id": 150}).unwrap();
    assert_eq!(ids(&c, 1_000).first(), Some(&3), "the oldest has made way");
    assert_eq!(ids(&c, 1_000).len(), 100);
    assert_eq!(shared.freed(), 50);
}

#[test]
fn a_full_capped_collection_holds_no_more_ended_documents_than_living_ones() {
    let options = CollectionOptions {
        cap: Some(Cap {
            bytes: 20_000,
            documents: None,
        }),
        ..CollectionOptions::default()
    };
    let c = Collection::new(Namespace::new("db", "c"), options);
    c.set_up(Millis(0), |rules| {
        rules.set_default_ttl(DefaultTtl::Seconds(1), None);
    });
    for n in 0..20_000 {
        add(&c, i64::from(n), doc! {"_id": n}).unwrap();
        assert!(c.shared().contents().totals().bytes <= 20_000, "{n}");
    }
    assert_eq!(ids(&c, 19_999), (19_000..20_000).collect::<Vec<_>>());
    assert_eq!(c.shared().contents().evicted(), None);
}

#[test]
fn reaping_leaves_exactly_the_living_and_their_index_entries() {
    let c = collection(DefaultTtl::Seconds(100));
    c.set_up(Millis(0), |rules| {
        rules.add_index(IndexSpec::new("n_1", DocBuf::from(doc! {"n": 1})))
    });
    let pad = "x".repeat(200);
    for n in 0..20_000 {
        let ttl = if n % 10 == 3 { -1 } else { 1 + n % 7 };
        add(&c, 0, doc! {"_id": n, "n": n, "ttl": ttl, "pad": &pad}).unwrap();
    }
    let before = c.read(ReadPoint::at(Millis(0)), |view| view.allocated());
    assert_eq!(reap(&c, 7_000), 18_000);
    let living: Vec<i32> = (0..20_000).filter(|n| n % 10 == 3).collect();
    assert_eq!(ids(&c, 7_000), living);
    c.read(ReadPoint::at(Millis(7_000)), |view| {
        assert!(
            view.allocated() < before / 6,
            "{} of {before}",
            view.allocated()
        );
        let index = view.index("n_1").unwrap();
        let through: Vec<RecordId> = index
            .up(Bound::Unbounded, &[0xff])
            .map(|entry| crate::storage::index::split(entry).1)
            .collect();
        assert_eq!(through.len(), 2_000);
        assert!(through.iter().all(|&id| view.get(id).is_some()));
        for n in 0..20_000 {
            let id = crate::value::Value::int32(n);
            assert_eq!(view.by_id(id.as_ref()).is_some(), n % 10 == 3, "{n}");
        }
    });
}

#[test]
fn date_indexes_end_documents_too_and_changing_them_brings_nothing_back() {
    let c = collection(DefaultTtl::Off);
    c.set_up(Millis(0), |rules| rules.add_index(dated("at_1", "at", 5)));
    let date = |ms: i64| bson::DateTime::from_millis(ms);
    add(&c, 0, doc! {"_id": 1, "at": date(1_000)}).unwrap();
    add(
        &c,
        0,
        doc! {"_id": 2, "at": [date(9_000), date(2_000), date(7_000)]},
    )
    .unwrap();
    add(&c, 0, doc! {"_id": 3, "at": "soon"}).unwrap();
    add(&c, 0, doc! {"_id": 4, "at": date(50_000)}).unwrap();
    assert_eq!(ids(&c, 5_999), [1, 2, 3, 4]);
    assert_eq!(ids(&c, 6_000), [2, 3, 4]);
    assert_eq!(ids(&c, 7_000), [3, 4]);
    let until = monotonic() + Duration::from_secs(120);
    assert!(
        c.drain_then(Millis(7_000), until, |w| w
            .drop_indexes(&IndexSelection::Named(vec!["at_1".into()]))
            .len())
            .unwrap()
            .is_ok()
    );
    assert_eq!(ids(&c, 99_000), [3, 4]);
}

/// A condition that panics when the test says so, as a bug in the query language would.
#[derive(Default)]
struct Fails(AtomicBool);

impl crate::storage::index::PartialCondition for Fails {
    fn holds(&self, _: Doc<'_>) -> bool {
        assert!(!self.0.load(Ordering::Relaxed), "a bug in the condition");
        true
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

fn dated(name: &str, field: &str, seconds: i32) -> IndexSpec {
    let mut spec = IndexSpec::new(name, DocBuf::from(doc! {field: 1}));
    spec.expire_after = Some(seconds);
    spec
}

/// Returns whether the closure panics.
fn panics(run: impl FnOnce()) -> bool {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err()
}

fn assert_closed(catalog: &Catalog, c: &Collection, what: &str) {
    // A caller that still holds the collection finds it empty, and a lookup returns an error.
    assert_eq!(ids(c, 0), Vec::<i32>::new(), "{what}");
    assert!(c.read(ReadPoint::at(Millis(0)), |view| view.is_dropped()));
    assert_eq!(c.write(Millis(0), |_| ()), Err(Dropped));
    let error = crate::error::Error::from(catalog.get("db", "c").unwrap_err());
    assert!(error.message().contains("db.c is closed"), "{error:?}");
    assert!(catalog.get_or_create("db", "c").is_err());
    // Other collections are not affected, and after a drop the name is free again.
    assert!(catalog.get_or_create("db", "d").is_ok());
    assert!(
        catalog
            .drop_collection("db", "c", None, Millis(0))
            .is_some()
    );
    assert!(catalog.get_or_create("db", "c").is_ok());
}

/// A panic in the middle of a change must not leave a document in one place and not in another.
#[test]
fn a_change_that_panics_half_way_closes_the_collection() {
    type Change = fn(&Collection, RecordId);
    fn update(c: &Collection, id: RecordId, new: &New, new_ttl: NewTtl) {
        let _ = c.write(Millis(0), |w| w.update(id, new, new_ttl, &NoDelta));
    }
    fn rules(c: &Collection, change: impl FnOnce(&mut Rules<'_>)) {
        let _ = c.drain_then(Millis(0), monotonic(), change);
    }
    let changes: &[(&str, Change)] = &[
        ("insert", |c, _| drop(add(c, 0, doc! {"_id": 2}))),
        ("replace", |c, id| {
            let bytes = doc! {"_id": 1, "n": 2, "m": 3}.to_vec().unwrap();
            update(c, id, &New::Bytes(bytes), NewTtl::Unknown);
        }),
        ("patch", |c, id| {
            let mut patch = Patch::default();
            let before = doc! {"_id": 1, "n": 1}.to_vec().unwrap();
            patch.put(before.len() - 5, &2_i32.to_le_bytes()).unwrap();
            update(c, id, &New::Patch(patch), NewTtl::Same);
        }),
        ("touch", |c, id| update(c, id, &New::Same, NewTtl::Same)),
        ("remove", |c, id| {
            let _ = c.write(Millis(0), |w| w.remove(id));
        }),
        ("finish a date rule", |c, _| {
            let _ = c.write(Millis(0), |w| {
                let number = w.begin_index(dated("until_1", "until", 5));
                w.finish_indexes(&[number]);
            });
        }),
        ("change a date rule", |c, _| {
            rules(c, |rules| assert!(rules.set_expiry("at_1", 9)));
        }),
        ("drop a date rule", |c, _| {
            rules(c, |rules| drop(rules.drop_indexes(&IndexSelection::All)));
        }),
    ];
    for (what, change) in changes {
        let catalog = Catalog::new();
        let name = Namespace::new("db", "c");
        let set_up = |rules: &mut Rules<'_>| rules.add_index(dated("at_1", "at", 5));
        let c = catalog.create(name, CollectionOptions::default(), Millis(0), set_up);
        let c = c.unwrap();
        let id = add(&c, 0, doc! {"_id": 1, "n": 1}).unwrap();
        c.panic_half_way();
        assert!(panics(|| change(&c, id)), "{what}");
        assert_closed(&catalog, &c, what);
    }
    // A panic before anything has changed closes nothing.
    let catalog = Catalog::new();
    let (c, _) = catalog.get_or_create("db", "c").unwrap();
    add(&c, 0, doc! {"_id": 1}).unwrap();
    assert!(panics(|| {
        let _ = c.write(Millis(0), |_| panic!("before the change"));
    }));
    assert_eq!(ids(&c, 0), [1]);
    assert!(catalog.get("db", "c").is_ok());
}

/// When date rules change, the conditions of the remaining rules are evaluated for every document.
#[test]
fn a_condition_that_panics_while_date_rules_change_closes_the_collection() {
    for prepared in [false, true] {
        let catalog = Catalog::new();
        let fails = Arc::new(Fails::default());
        let mut partial = dated("until_1", "until", 5);
        partial.partial = Some(crate::storage::index::Partial {
            filter: DocBuf::new(),
            condition: Arc::clone(&fails) as _,
        });
        let set_up = |rules: &mut Rules<'_>| {
            rules.add_index(dated("at_1", "at", 5));
            rules.add_index(partial);
        };
        let name = Namespace::new("db", "c");
        let c = catalog.create(name, CollectionOptions::default(), Millis(0), set_up);
        let c = c.unwrap();
        add(&c, 0, doc! {"_id": 1}).unwrap();
        fails.0.store(true, Ordering::Relaxed);
        let which = IndexSelection::Named(vec!["at_1".into()]);
        let what = format!("prepared: {prepared}");
        assert!(panics(|| match prepared {
            true => {
                let change = DateRuleChange::Drop(which);
                let _ = DateRuleMigration::new(Arc::clone(&c), change).step(monotonic());
            }
            false => {
                let drop_it = |rules: &mut Rules<'_>| drop(rules.drop_indexes(&which));
                let _ = c.drain_then(Millis(0), monotonic(), drop_it);
            }
        }));
        assert_closed(&catalog, &c, &what);
    }
}
