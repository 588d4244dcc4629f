//! Laws of creating, dropping and renaming collections.

use super::*;
use crate::ttl::DefaultTtl;
use crate::value::DocBuf;
use bson::doc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_sweep_misses_no_collection_that_is_being_given_another_name() {
    let catalog = Catalog::new();
    let names = [Namespace::new("db", "a"), Namespace::new("db", "b")];
    let ends = |rules: &mut Rules<'_>| rules.set_default_ttl(DefaultTtl::Seconds(1), None);
    let made = catalog.create(
        names[0].clone(),
        CollectionOptions::default(),
        Millis(0),
        ends,
    );
    let made = made.unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for at in (0..2).cycle() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                catalog
                    .rename(&names[at], &names[1 - at], false, Millis(0))
                    .unwrap();
            }
        });
        for n in 0..3_000_i64 {
            let document = doc! {"_id": n}.to_vec().unwrap();
            let added = made.write(Millis(n * 1_000), |w| w.insert(&document));
            added.unwrap().unwrap();
            catalog.sweep(Millis(n * 1_000 + 1_000));
            if catalog.freed() != n.unsigned_abs() + 1 {
                over.store(true, Ordering::Relaxed);
                panic!("the {n}th document was passed over");
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

fn add(catalog: &Catalog, name: &str, ids: std::ops::Range<i32>) -> Arc<Collection> {
    let (made, _) = catalog.get_or_create("db", name).unwrap();
    for id in ids {
        let document = doc! {"_id": id}.to_vec().unwrap();
        made.write(Millis(0), |w| w.insert(&document))
            .unwrap()
            .unwrap();
    }
    made
}

#[test]
fn a_collection_whose_ids_are_being_ordered_can_be_renamed_and_replaced() {
    let catalog = Catalog::new();
    let [from, to] = ["from", "to"].map(|name| Namespace::new("db", name));
    let builds = ["from", "to"].map(|name| {
        let made = add(&catalog, name, 0..300);
        let mut build = made.begin_id_order(Millis(0)).unwrap();
        assert!(!build.step());
        build
    });
    catalog.rename(&from, &to, true, Millis(0)).unwrap();
    for mut build in builds {
        while !build.step() {}
    }
    let there = catalog.get("db", "to").unwrap().unwrap();
    there.read(crate::storage::ReadPoint::at(Millis(0)), |view| {
        let ids = view.way(crate::storage::index::ID_INDEX).unwrap();
        assert_eq!((ids.ready, ids.len()), (true, 300));
    });
    // An index that a client is building prevents the rename.
    let spec = crate::storage::index::IndexSpec::new("a", DocBuf::from(doc! {"a": 1}));
    there.write(Millis(0), |w| w.begin_index(spec)).unwrap();
    let refused = catalog.rename(&to, &from, false, Millis(0));
    assert_eq!(refused, Err(RenameError::IndexBuild(there.uuid())));
}

#[test]
fn a_damaged_collection_neither_takes_a_place_nor_gives_way() {
    let catalog = Catalog::new();
    let [good, bad] = ["good", "bad"].map(|name| Namespace::new("db", name));
    add(&catalog, "good", 0..3);
    let damaged = add(&catalog, "bad", 0..3);
    damaged.panic_half_way();
    let document = doc! {"_id": 9}.to_vec().unwrap();
    let written = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = damaged.write(Millis(0), |w| w.insert(&document));
    }));
    assert!(written.is_err());
    let refused = Err(RenameError::Damaged(Damaged(bad.clone())));
    for drop_target in [true, false] {
        assert_eq!(catalog.rename(&bad, &good, drop_target, Millis(0)), refused);
        assert_eq!(catalog.rename(&good, &bad, drop_target, Millis(0)), refused);
    }
    let there = catalog.get("db", "good").unwrap().unwrap();
    assert_eq!(there.shared().contents().totals().count, 3);
    // After it is dropped, its name is free.
    catalog
        .drop_collection("db", "bad", None, Millis(0))
        .unwrap();
    catalog.rename(&good, &bad, false, Millis(0)).unwrap();
}

#[test]
fn a_snapshot_keeps_what_is_dropped_and_renamed_until_it_closes_or_the_clock_goes_back() {
    let catalog = Arc::new(Catalog::new());
    let [first, second] = ["first", "second"].map(|name| Namespace::new("db", name));
    for goes_back in [false, true] {
        add(&catalog, "first", 0..3);
        let snapshot = catalog.snapshot();
        let at = ReadPoint::of(&snapshot, Millis(0));
        let count = |name: &str, at: ReadPoint| -> Result<_, Unreadable> {
            let found = catalog.get_at("db", name, at)?;
            Ok(found.map(|found| found.read(at, |view| (view.all().len(), view.is_dropped()))))
        };
        let (now, there) = (ReadPoint::at(Millis(0)), Ok(Some((3, false))));
        assert!(catalog.get_to_write_at("db", "first", at).is_ok());
        catalog.rename(&first, &second, false, Millis(0)).unwrap();
        add(&catalog, "second", 3..4);
        assert_eq!(
            [count("first", at), count("second", at)],
            [there.clone(), Ok(None)]
        );
        assert_eq!(count("second", now), Ok(Some((4, false))));
        let before = catalog.earlier_bytes();
        // Dropped under its later name, it is still what it was under the earlier one.
        catalog.drop_collection("db", "second", None, Millis(0));
        assert_eq!([count("first", at), count("second", at)], [there, Ok(None)]);
        assert_eq!(
            [count("first", now), count("second", now)],
            [Ok(None), Ok(None)]
        );
        assert_eq!(
            catalog.get_to_write_at("db", "first", at).err(),
            Some(Unreadable::Changed(first.clone()))
        );
        assert!(catalog.earlier_bytes() > before);
        if goes_back {
            catalog.go_back();
            assert_eq!(count("first", at), Err(Unreadable::Vanished));
        }
        drop(snapshot);
        assert_eq!(catalog.earlier_bytes(), 0);
    }
}
