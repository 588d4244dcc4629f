//! Statistics leave out a document from the instant of its end, exact to the byte.

use bson::{Document, doc};

use crate::support::world::{Reaper, World, batch, int, through_upstream};

fn size(document: &Document) -> i64 {
    document.to_vec().unwrap().len() as i64
}

fn number(reply: &Document, path: &str) -> i64 {
    let mut parts = path.split('.').peekable();
    let mut at = reply;
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            let value = at
                .get(part)
                .unwrap_or_else(|| panic!("no {path} in {reply}"));
            return int(value).unwrap_or_else(|| panic!("{path} is {value}"));
        }
        at = at
            .get_document(part)
            .unwrap_or_else(|_| panic!("no {path} in {reply}"));
    }
    unreachable!()
}

#[test]
fn sizes_and_counts() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        world.index("c", doc! {"key": {"pad": 1}});
        world.index("c", doc! {"key": {"tags": 1}});
        let short: Vec<Document> = (0..500)
            .map(|id| doc! {"_id": id, "pad": "x".repeat(id as usize % 50), "tags": [id, -id - 1]})
            .collect();
        let long: Vec<Document> = (500..700)
            .map(|id| doc! {"_id": id, "pad": "y", "tags": [id], "ttl": 20})
            .collect();
        world.insert("c", short.clone());
        world.insert("c", long.clone());
        world.insert("plain", [doc! {"_id": 1}]);
        let plain = size(&doc! {"_id": 1});
        let (all, few) = (
            short.iter().chain(&long).map(size).sum(),
            long.iter().map(size).sum(),
        );
        // (millis, documents, bytes, entries of the index on tags)
        for (millis, count, bytes, entries) in [
            (0, 700, all, 1_200),
            (9_999, 700, all, 1_200),
            (10_000, 200, few, 200),
            (19_999, 200, few, 200),
            (20_000, 0, 0, 0),
        ] {
            world.at(millis);
            let stats = world.run(doc! {"collStats": "c"});
            assert_eq!(number(&stats, "count"), count, "{millis} ms");
            assert_eq!(number(&stats, "size"), bytes, "{millis} ms");
            let stats = world.run(doc! {"dbStats": 1});
            assert_eq!(number(&stats, "objects"), count + 1, "{millis} ms");
            assert_eq!(number(&stats, "dataSize"), bytes + plain, "{millis} ms");
            let stats = world.run(doc! {"dataSize": "test.c"});
            assert_eq!(number(&stats, "numObjects"), count, "{millis} ms");
            assert_eq!(number(&stats, "size"), bytes, "{millis} ms");
            let found = world.run(doc! {"validate": "c"});
            assert!(found.get_bool("valid").unwrap());
            assert_eq!(number(&found, "nrecords"), count, "{millis} ms");
            assert_eq!(number(&found, "keysPerIndex._id_"), count, "{millis} ms");
            assert_eq!(number(&found, "keysPerIndex.pad_1"), count, "{millis} ms");
            assert_eq!(
                number(&found, "keysPerIndex.tags_1"),
                entries,
                "{millis} ms"
            );
            let counted = world.run(doc! {"count": "c"});
            assert_eq!(number(&counted, "n"), count, "{millis} ms");
            let (rows, ..) = batch(&world.run(doc! {"aggregate": "c", "pipeline": [{"$collStats": {"count": {}, "storageStats": {}}}], "cursor": {}}));
            assert_eq!(number(&rows[0], "count"), count, "{millis} ms");
            assert_eq!(number(&rows[0], "storageStats.count"), count, "{millis} ms");
            assert_eq!(number(&rows[0], "storageStats.size"), bytes, "{millis} ms");
        }
    }
}

/// Returns the figures of the collection and of its database. A cluster may write to disk between two commands, which
/// changes its figures: then both are asked again.
fn undisturbed(world: &mut World) -> (Document, Document) {
    let ask = |world: &mut World| world.run(doc! {"collStats": "c"});
    for _ in 0..20 {
        let before = ask(world);
        let all = world.run(doc! {"dbStats": 1});
        if ask(world).get("totalIndexSize") == before.get("totalIndexSize") {
            return (before, all);
        }
    }
    panic!("the figures never stand still");
}

/// Expired documents take no space in index sizes either, whatever their number of keys. Freeing them changes no figure.
#[test]
fn sizes_of_indexes() {
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": -1});
    world.index("c", doc! {"key": {"a": 1}, "sparse": true});
    world.index("c", doc! {"key": {"tags": -1, "_ts": 1}});
    world.insert("c", [doc! {"_id": 1, "a": "before all", "ttl": 1}]);
    world.at(1_000);
    // This index does not contain the expired document.
    world.index("c", doc! {"key": {"_id": 1, "a": 1}});
    world.insert(
        "c",
        (2..300)
            .map(|id| doc! {"_id": id, "a": "x".repeat(id as usize), "tags": [id, -id], "ttl": 10}),
    );
    world.insert("c", (300..310).map(|id| doc! {"_id": id, "tags": "many"}));
    let sizes = |world: &mut World| {
        let (stats, all) = undisturbed(world);
        let total = number(&stats, "totalIndexSize");
        assert_eq!(number(&all, "indexSize"), total);
        (stats.get_document("indexSizes").unwrap().clone(), total)
    };
    let before = sizes(&mut world);
    world.at(11_000);
    let ended = sizes(&mut world);
    if through_upstream("sizes on disk are the cluster's: ended documents count until deleted") {
        return;
    }
    assert!(ended.1 < before.1 / 10, "{ended:?} of {before:?}");
    // The reaper frees the expired documents.
    world.run(doc! {"validate": "c"});
    assert_eq!(world.ttl_metric("pendingDocuments"), 0);
    assert_eq!(sizes(&mut world), ended);
    assert_eq!(number(&ended.0, "a_1"), 0);
}

/// serverStatus shows how many expired documents are not freed yet, and for how long.
#[test]
fn expired_documents_that_are_not_freed_are_reported() {
    if through_upstream("ended documents that the cluster still holds are not counted") {
        return;
    }
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    world.insert("c", (0..1_000).map(|id| doc! {"_id": id}));
    assert_eq!(world.ttl_metric("pendingDocuments"), 0);
    world.at(10_000);
    assert_eq!(world.ttl_metric("pendingDocuments"), 1_000);
    assert_eq!(world.ttl_metric("deletedDocuments"), 0);
    world.at(13_000);
    assert_eq!(world.ttl_metric("lagMillis"), 3_000);
    // An insert replaces one of them.
    world.insert("c", [doc! {"_id": 5}]);
    assert_eq!(world.ttl_metric("pendingDocuments"), 999);
    world.reaper(true);
    let mut rounds = 0;
    // A pass ends a little later, after the memory is freed.
    while world.ttl_metric("pendingDocuments") > 0 || world.ttl_metric("passes") == 0 {
        rounds += 1;
        assert!(rounds < 100_000, "the reaper does not come");
        std::thread::yield_now();
    }
    assert_eq!(world.ttl_metric("lagMillis"), 0);
    assert_eq!(world.int_ids("c", doc! {}), [5]);
}

/// The lag is that of the document that expired first, whatever was written before or renewed since.
#[test]
fn the_reported_lag_is_that_of_an_expired_document() {
    if through_upstream("ended documents that the cluster still holds are not counted") {
        return;
    }
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    world.insert("c", (0..10).map(|id| doc! {"_id": id}));
    world.at(9_000);
    world.run(doc! {"update": "c", "updates": [{"q": {"_id": {"$gt": 0}}, "u": {"$set": {"a": 1}}, "multi": true}, {"q": {"_id": 0}, "u": {"$set": {"ttl": 2}}}]});
    world.at(10_999);
    assert_eq!(world.ttl_metric("pendingDocuments"), 0);
    assert_eq!(world.ttl_metric("lagMillis"), 0);
    world.at(12_500);
    assert_eq!(world.ttl_metric("pendingDocuments"), 1);
    assert_eq!(world.ttl_metric("lagMillis"), 1_500);
    world.at(19_700);
    assert_eq!(world.ttl_metric("pendingDocuments"), 10);
    assert_eq!(world.ttl_metric("lagMillis"), 8_700);
}

/// All freed documents are counted, whether the reaper, a rule change, a step back in time or a new document freed them.
#[test]
fn all_freed_documents_are_counted() {
    if through_upstream("ended documents that the cluster still holds are not counted") {
        return;
    }
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 10});
    world.index("c", doc! {"key": {"u": 1}, "unique": true});
    type Step = fn(&mut World);
    let steps: [(&str, Step, i64); 5] = [
        ("an _id", |w| w.insert("c", [doc! {"_id": 1, "u": 101}]), 1),
        ("a key", |w| w.insert("c", [doc! {"_id": 2_000, "u": 2}]), 1),
        (
            "a setting",
            |w| drop(w.run(doc! {"collMod": "c", "defaultTtl": 11})),
            100,
        ),
        ("time", |w| w.clock.advance(-1_000), 100),
        ("validate", |w| drop(w.run(doc! {"validate": "c"})), 100),
    ];
    for (what, step, freed) in steps {
        world.run(doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}]});
        world.run(doc! {"validate": "c"});
        world.insert("c", (0..100).map(|id| doc! {"_id": id, "u": id}));
        let before = world.ttl_metric("deletedDocuments");
        world.clock.advance(11_000);
        assert_eq!(world.ttl_metric("pendingDocuments"), 100, "{what}");
        step(&mut world);
        assert_eq!(
            world.ttl_metric("deletedDocuments") - before,
            freed,
            "{what}"
        );
        assert_eq!(world.ttl_metric("pendingDocuments"), 100 - freed, "{what}");
    }
}

/// explain counts no work on expired documents.
#[test]
fn explain_counts_visible_documents() {
    if through_upstream("explain shows what the cluster runs") {
        return;
    }
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 10});
        world.index("c", doc! {"key": {"n": 1}});
        world.insert("c", (0..50).map(|id| doc! {"_id": id, "n": id, "m": id}));
        world.insert(
            "c",
            (50..60).map(|id| doc! {"_id": id, "n": id, "m": id, "ttl": -1}),
        );
        for (millis, all, high) in [(9_999, 60, 20), (10_000, 10, 10)] {
            world.at(millis);
            for (filter, returned, examined) in [
                (doc! {}, all, all),
                (doc! {"m": {"$gte": 40}}, high, all),
                (doc! {"n": {"$gte": 40}}, high, high),
                (
                    doc! {"_id": 1},
                    i64::from(millis < 10_000),
                    i64::from(millis < 10_000),
                ),
            ] {
                let plan = world.run(doc! {"explain": {"find": "c", "filter": filter.clone()}, "verbosity": "executionStats"});
                assert_eq!(
                    number(&plan, "executionStats.nReturned"),
                    returned,
                    "{filter} at {millis} ms: {plan}"
                );
                assert_eq!(
                    number(&plan, "executionStats.totalDocsExamined"),
                    examined,
                    "{filter} at {millis} ms: {plan}"
                );
            }
            for command in [
                doc! {"count": "c", "query": {"n": {"$gte": 40}}},
                doc! {"distinct": "c", "key": "n", "query": {"n": {"$gte": 40}}},
                doc! {"aggregate": "c", "pipeline": [{"$match": {"n": {"$gte": 40}}}], "cursor": {}},
            ] {
                let plan =
                    world.run(doc! {"explain": command.clone(), "verbosity": "executionStats"});
                // explain of an aggregate shows its stages, and the first one has the figures.
                let figures = match plan.get_array("stages") {
                    Ok(stages) => stages[0]
                        .as_document()
                        .unwrap()
                        .get_document("$cursor")
                        .unwrap()
                        .clone(),
                    Err(_) => plan.clone(),
                };
                assert_eq!(
                    number(&figures, "executionStats.totalDocsExamined"),
                    high,
                    "{command} at {millis} ms: {plan}"
                );
            }
        }
    }
}
