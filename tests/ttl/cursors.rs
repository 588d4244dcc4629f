//! Cursors that were opened before documents expire and are continued afterwards.

use bson::{Bson, Document, bson, doc};

use crate::support::world::{
    Reaper, World, batch, date, differs_on_mongod, ids, int, through_upstream,
};

/// Inserts ten documents. The odd ones expire after ten seconds. `n` descends as `_id` ascends.
fn prepare(world: &mut World, index: Option<Document>) {
    world.run(doc! {"create": "c", "defaultTtl": -1});
    if let Some(index) = index {
        world.index("c", index);
    }
    world.insert("c", (0..10).map(|id| doc! {"_id": id, "n": 9 - id, "tags": [id, id + 100], "ttl": if id % 2 == 1 { 10 } else { -1 }}));
    world.insert("other", (0..10).map(|id| doc! {"_id": id, "ref": id}));
}

/// Opens a cursor with two rows, moves the clock, and reads the rest.
fn split(world: &mut World, command: Document, millis: i64) -> (Vec<Document>, Vec<Document>) {
    let reply = world.run(command);
    let (first, id, collection) = batch(&reply);
    world.clock.advance(millis);
    if id == 0 {
        return (first, vec![]);
    }
    // In small batches, because every batch checks the rows again.
    let mut rest = Vec::new();
    let mut id = id;
    while id != 0 {
        let more = world.run(doc! {"getMore": id, "collection": &collection, "batchSize": 3});
        let (rows, next, _) = batch(&more);
        rest.extend(rows);
        id = next;
    }
    (first, rest)
}

fn numbers(rows: &[Document]) -> Vec<i64> {
    ids(rows).iter().map(|id| int(id).unwrap()).collect()
}

/// A sort without an index has read the documents before they ended. The rules change while the cursor is open, more than once.
#[test]
fn what_has_ended_does_not_come_back_to_a_cursor_when_the_rules_change() {
    let lengthened = doc! {"collMod": "c", "defaultTtl": 1_000};
    let never = doc! {"collMod": "c", "defaultTtl": -1};
    let off = doc! {"collMod": "c", "defaultTtl": null};
    let again = doc! {"collMod": "c", "defaultTtl": 2_000};
    let project = doc! {"$project": {"n": 1}};
    for opened in [
        doc! {"find": "c", "sort": {"n": 1}, "batchSize": 2},
        doc! {"find": "c", "sort": {"n": 1}, "projection": {"n": 1}, "batchSize": 2},
        doc! {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}, project], "cursor": {"batchSize": 2}},
    ] {
        for changes in [
            vec![&lengthened],
            vec![&never],
            vec![&off],
            vec![&off, &again],
            vec![&lengthened, &off, &never],
        ] {
            let mut world = World::new(Reaper::On);
            world.run(doc! {"create": "c", "defaultTtl": 10});
            world.insert(
                "c",
                (0..8)
                    .map(|id| doc! {"_id": id, "n": id, "ttl": if id % 2 == 1 { 20 } else { -1 }}),
            );
            world.insert("c", [doc! {"_id": 8, "n": 8}]);
            let (first, id, _) = batch(&world.run(opened.clone()));
            assert_eq!(numbers(&first), [0, 1]);
            world.at(10_000);
            let shown = format!("{opened} {changes:?}");
            for change in changes {
                world.run(change.clone());
            }
            world.at(12_000);
            let more = world.run(doc! {"getMore": id, "collection": "c"});
            assert_eq!(numbers(&batch(&more).0), [2, 3, 4, 5, 6, 7], "{shown}");
        }
    }
}

#[rustfmt::skip]
#[test]
fn rows_with_an_origin_are_checked_when_they_are_returned() {
    let index = |key: Document| Some(doc! {"key": key});
    // (name, index, command with two rows in its first batch, ids in the expected order)
    let up: Vec<i64> = (0..10).collect();
    let down: Vec<i64> = (0..10).rev().collect();
    let rows: Vec<(&str, Option<Document>, Document, &[i64])> = vec![
        ("natural", None, doc! {"find": "c", "batchSize": 2}, &up),
        ("backwards", None, doc! {"find": "c", "hint": {"$natural": -1}, "batchSize": 2}, &down),
        ("sort", None, doc! {"find": "c", "sort": {"n": 1}, "batchSize": 2}, &down),
        ("sort limit", None, doc! {"find": "c", "sort": {"n": 1}, "limit": 8, "batchSize": 2}, &down[..8]),
        ("sort and project", None, doc! {"find": "c", "sort": {"n": 1}, "projection": {"n": 1}, "batchSize": 2}, &down),
        ("by _id", None, doc! {"find": "c", "filter": {"_id": {"$gte": 0}}, "sort": {"_id": 1}, "batchSize": 2}, &up),
        ("_ids", None, doc! {"find": "c", "filter": {"_id": {"$in": up.clone()}}, "sort": {"_id": 1}, "batchSize": 2}, &up),
        ("index", index(doc! {"n": 1}), doc! {"find": "c", "filter": {"n": {"$gte": 0}}, "sort": {"n": 1}, "batchSize": 2}, &down),
        ("index down", index(doc! {"n": 1}), doc! {"find": "c", "filter": {"n": {"$gte": 0}}, "sort": {"n": -1}, "batchSize": 2}, &up),
        ("index compound", index(doc! {"n": -1, "tags": 1}), doc! {"find": "c", "filter": {"n": {"$gte": 0}}, "sort": {"n": -1}, "batchSize": 2}, &up),
        ("index multikey", index(doc! {"tags": 1}), doc! {"find": "c", "filter": {"tags": {"$gte": 0, "$lt": 100}}, "hint": {"tags": 1}, "batchSize": 2}, &up),
        ("index and another sort", index(doc! {"n": 1}), doc! {"find": "c", "filter": {"n": {"$gte": 0}}, "hint": {"n": 1}, "sort": {"tags": 1}, "batchSize": 2}, &up),
        ("with _ts", None, doc! {"find": "c", "filter": {"_ts": {"$gt": 0}}, "sort": {"n": 1}, "batchSize": 2}, &down),
        ("aggregate", None, doc! {"aggregate": "c", "pipeline": [], "cursor": {"batchSize": 2}}, &up),
        ("$sort", None, doc! {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}], "cursor": {"batchSize": 2}}, &down),
        ("$sort $limit", None, doc! {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}, {"$limit": 8}], "cursor": {"batchSize": 2}}, &down[..8]),
        ("$match $project $sort", None, doc! {"aggregate": "c", "pipeline": [{"$match": {"n": {"$gte": 0}}}, {"$project": {"n": 1}}, {"$sort": {"n": 1}}], "cursor": {"batchSize": 2}}, &down),
        ("$addFields $sort", None, doc! {"aggregate": "c", "pipeline": [{"$addFields": {"m": {"$add": ["$n", 1]}}}, {"$sort": {"m": 1}}], "cursor": {"batchSize": 2}}, &down),
        ("$sort $unwind", None, doc! {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}, {"$unwind": "$tags"}, {"$match": {"tags": {"$lt": 100}}}], "cursor": {"batchSize": 2}}, &down),
        ("$sort $replaceRoot", None, doc! {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}, {"$replaceRoot": {"newRoot": {"_id": "$_id"}}}], "cursor": {"batchSize": 2}}, &down),
        ("$sort $lookup", None, doc! {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}, {"$lookup": {"from": "other", "localField": "_id", "foreignField": "ref", "as": "r"}}], "cursor": {"batchSize": 2}}, &down),
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for (name, index, command, order) in &rows {
            for millis in [9_999, 10_000, 10_001] {
                let mut world = World::new(reaper);
                prepare(&mut world, index.clone());
                let (first, rest) = split(&mut world, command.clone(), millis);
                let (early, late) = order.split_at(2);
                assert_eq!(numbers(&first), early, "{name}");
                let expected: Vec<i64> = late.iter().copied().filter(|id| millis < 10_000 || id % 2 == 0).collect();
                assert_eq!(numbers(&rest), expected, "{name}, {millis} ms after, reaper {reaper:?}");
            }
        }
    }
}

/// Values that were computed from several documents stay unchanged.
#[rustfmt::skip]
#[test]
fn computed_values_stay() {
    let rows = [
        ("$group", doc! {"aggregate": "c", "pipeline": [{"$sort": {"n": 1}}, {"$group": {"_id": {"$mod": ["$_id", 2]}, "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], "cursor": {"batchSize": 0}},
            bson!([{"_id": 0, "n": 5}, {"_id": 1, "n": 5}])),
        ("$count", doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": "$_id"}}, {"$count": "n"}], "cursor": {"batchSize": 0}}, bson!([{"n": 10}])),
    ];
    for reaper in [Reaper::On, Reaper::Off] {
        for (name, command, all) in &rows {
            let mut world = World::new(reaper);
            prepare(&mut world, None);
            // If the first batch is empty, nothing has been read yet, and the getMore is a command of its own.
            let (first, rest) = split(&mut world, command.clone(), 9_999);
            assert!(first.is_empty());
            assert_eq!(Bson::Array(rest.into_iter().map(Bson::Document).collect()), *all, "{name}");
        }
        let mut world = World::new(reaper);
        prepare(&mut world, None);
        let command = doc! {"aggregate": "c", "pipeline": [{"$group": {"_id": "$_id", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], "cursor": {"batchSize": 2}};
        let (first, rest) = split(&mut world, command, 10_000);
        assert_eq!(first.len() + rest.len(), 10);
    }
}

/// Every getMore has its own `now`, so documents that expire between two of them disappear one after another.
#[test]
fn documents_end_between_getmores() {
    for reaper in [Reaper::On, Reaper::Off] {
        for sort in [doc! {}, doc! {"n": -1}] {
            let mut world = World::new(reaper);
            world.run(doc! {"create": "c", "defaultTtl": -1});
            // Document i ends after i + 1 seconds.
            world.insert(
                "c",
                (0..300).map(|id| doc! {"_id": id, "n": -id, "ttl": id + 1}),
            );
            let reply = world.run(doc! {"find": "c", "sort": sort, "batchSize": 1});
            let (_, cursor, _) = batch(&reply);
            let mut seen = Vec::new();
            let mut now = 0;
            loop {
                now += 7_500;
                world.at(now);
                let more = world.run(doc! {"getMore": cursor, "collection": "c", "batchSize": 3});
                let (rows, next, _) = batch(&more);
                for id in numbers(&rows) {
                    assert!((id + 1) * 1000 > now, "{id} was given out at {now} ms");
                    seen.push(id);
                }
                if next == 0 {
                    break;
                }
            }
            // No visible document is skipped: the batch after each step begins with the first one that is left.
            for (nth, three) in seen.chunks(3).enumerate() {
                let at = 7_500 * (nth as i64 + 1);
                let last = if nth == 0 { 0 } else { seen[nth * 3 - 1] };
                let first = (at / 1000).max(last + 1);
                assert_eq!(three[0], first, "batch {nth} of {seen:?}");
            }
        }
    }
}

/// A document that was deleted and inserted again under its `_id` is a different document.
#[test]
fn a_reused_id_is_not_the_row_that_was_found() {
    let mut world = World::new(Reaper::Off);
    prepare(&mut world, None);
    let reply = world.run(doc! {"find": "c", "sort": {"n": 1}, "batchSize": 2});
    let (first, cursor, _) = batch(&reply);
    assert_eq!(numbers(&first), [9, 8]);
    world.at(10_000);
    world.insert("c", [doc! {"_id": 7, "n": 2, "again": true}]);
    let more = world.run(doc! {"getMore": cursor, "collection": "c"});
    let (rest, ..) = batch(&more);
    assert_eq!(numbers(&rest), [6, 4, 2, 0]);
}

/// Cursors on collections with date rules, and with a default that became shorter meanwhile.
#[test]
fn other_rules_end_rows_in_the_middle_of_a_cursor() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        let now = world.now();
        world.index("c", doc! {"key": {"at": 1}, "expireAfterSeconds": 5});
        world.insert(
            "c",
            (0..10).map(|id| doc! {"_id": id, "at": date(now + id * 1000)}),
        );
        let (first, rest) = split(
            &mut world,
            doc! {"find": "c", "sort": {"at": -1}, "batchSize": 2},
            11_000,
        );
        assert_eq!(numbers(&first), [9, 8]);
        assert_eq!(numbers(&rest), [7]);

        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": 100});
        world.insert("c", (0..5).map(|id| doc! {"_id": id}));
        world.at(10_000);
        world.insert("c", (5..10).map(|id| doc! {"_id": id}));
        let reply = world.run(doc! {"find": "c", "sort": {"_id": -1, "x": 1}, "batchSize": 2});
        world.run(doc! {"collMod": "c", "defaultTtl": 10});
        let all = world.drain(&reply);
        assert_eq!(numbers(&all), [9, 8, 7, 6, 5]);
    }
}

/// The documents that rows are joined with are looked up once per command, and again for the next command, even if no time
/// has passed.
#[test]
fn joined_documents_end_between_getmores() {
    let lookup = doc! {"$lookup": {"from": "c", "pipeline": [{"$sort": {"_id": 1}}], "as": "all"}};
    let ends: [fn(&mut World); 3] = [
        |world| world.clock.advance(10_000),
        |world| {
            drop(world.run(
                doc! {"collMod": "c", "index": {"keyPattern": {"at": 1}, "expireAfterSeconds": 1}},
            ))
        },
        |world| drop(world.run(doc! {"delete": "c", "deletes": [{"q": {"ttl": 10}, "limit": 0}]})),
    ];
    // It joins all rows with the same documents, which it reads once.
    let kept = usize::from(differs_on_mongod("a $lookup does not notice a delete"));
    for end in ends.iter().take(ends.len() - kept) {
        let mut world = World::new(Reaper::Off);
        prepare(&mut world, None);
        let now = world.now();
        world.index("c", doc! {"key": {"at": 1}, "expireAfterSeconds": 1_000});
        world.run(doc! {"update": "c", "updates": [{"q": {"ttl": 10}, "u": {"$set": {"at": date(now - 1_000)}}, "multi": true}]});
        let joined = |reply: &Document| -> Vec<usize> {
            let (rows, ..) = batch(reply);
            let all = rows.iter().map(|row| row.get_array("all").unwrap());
            all.map(Vec::len).collect()
        };
        let reply = world
            .run(doc! {"aggregate": "other", "pipeline": [&lookup], "cursor": {"batchSize": 2}});
        assert_eq!(joined(&reply), [10, 10]);
        let (_, cursor, _) = batch(&reply);
        end(&mut world);
        let more = world.run(doc! {"getMore": cursor, "collection": "other"});
        assert_eq!(joined(&more), [5; 8]);
    }
}

/// In a capped collection, expired documents do not count. A cursor whose last document has expired continues after it.
#[test]
fn a_tailable_cursor_survives_its_last_document() {
    if through_upstream("capped collections take no default") {
        return;
    }
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world
            .run(doc! {"create": "c", "capped": true, "size": 100_000, "max": 2, "defaultTtl": 10});
        world.insert("c", [doc! {"_id": 1}, doc! {"_id": 2}]);
        let opened = world.run(doc! {"find": "c", "tailable": true, "batchSize": 1});
        let (first, cursor, _) = batch(&opened);
        assert_eq!(numbers(&first), [1]);
        let more = |world: &mut World| {
            let reply = world.run(doc! {"getMore": cursor, "collection": "c"});
            let (rows, id, _) = batch(&reply);
            assert_eq!(id, cursor);
            numbers(&rows)
        };
        world.at(9_999);
        assert_eq!(more(&mut world), [2]);
        world.at(10_000);
        assert!(more(&mut world).is_empty());
        // Two of four, because the expired ones are not counted.
        world.insert("c", [doc! {"_id": 3}, doc! {"_id": 4}]);
        assert_eq!(world.int_ids("c", doc! {}), [3, 4]);
        assert_eq!(more(&mut world), [3, 4]);
        // Other documents replace both, so the cursor cannot know what it missed.
        world.insert("c", [doc! {"_id": 5}, doc! {"_id": 6}, doc! {"_id": 7}]);
        let (code, _) = world.refused(doc! {"getMore": cursor, "collection": "c"});
        assert_eq!(code, 136);
    }
}
