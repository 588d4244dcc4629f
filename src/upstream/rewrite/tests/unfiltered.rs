//! Updates without predicate, of documents whose last write is known.

use bson::{Bson, Document, bson, doc};

use super::world::{START, World};

const LIFE: i64 = 1_000;

fn increment(id: i32) -> Document {
    doc! {"update": "a", "updates": [{"q": {"_id": id}, "u": {"$inc": {"n": 1}}}]}
}

/// Returns how many documents an update of this one has met, and whether it was sent without predicate.
fn update(world: &mut World, id: i32) -> (Bson, bool) {
    world.cluster.asked.clear();
    let reply = world.run(increment(id));
    let first = world.cluster.asked[0].get_array("updates").unwrap()[0].clone();
    let filter = first.as_document().unwrap().get_document("q").unwrap();
    (reply["n"].clone(), *filter == doc! {"_id": id})
}

fn world() -> World {
    let mut world = World::new();
    world.default_ttl("a", LIFE);
    world.remember_writes("a", 0);
    world.insert(bson!([{"_id": 1, "n": 0}, {"_id": 2, "n": 0, "ttl": 1_500}]));
    world
}

#[test]
fn a_document_that_was_written_lately_is_updated_without_predicate() {
    let mut world = world();
    assert_eq!(update(&mut world, 1), (1.into(), true));
    assert_eq!(update(&mut world, 2), (1.into(), false));
    // The update was a write. Half of the life must be left.
    for (seconds, unfiltered) in [(499, true), (500, false), (0, true)] {
        world.wait(seconds);
        assert_eq!(update(&mut world, 1), (1.into(), unfiltered), "{seconds}");
    }
    world.wait(LIFE - 1);
    assert_eq!(update(&mut world, 1).0, 1.into());
    world.wait(LIFE);
    assert_eq!(update(&mut world, 1).0, 0.into());
    assert_eq!(world.find(doc! {}), bson!([]));
}

/// Another Sundown has given the document a `ttl` of its own. It has ended by that, although the default would let it live.
#[test]
fn a_ttl_that_another_sundown_has_set_is_noticed() {
    for (ttl, n) in [
        (bson!(1), 0),
        (bson!(50), 1),
        (bson!(-1), 1),
        (bson!("text"), 1),
        (Bson::Null, 1),
        (bson!([1]), 1),
    ] {
        let mut world = world();
        let stamp = bson::DateTime::from_millis(START);
        let set = bson!({"$set": {"ttl": ttl.clone(), "_sundown": stamp}});
        world.straight(doc! {"update": "a", "updates": [{"q": {"_id": 1}, "u": set}]});
        world.wait(2);
        assert_eq!(update(&mut world, 1), (n.into(), true), "{ttl}");
        let stored = world.straight(doc! {"find": "a", "filter": {"_id": 1}});
        let stored = stored.get_document("cursor").unwrap();
        let stored = stored.get_array("firstBatch").unwrap()[0].clone();
        let stored = stored.as_document().unwrap();
        assert_eq!((&stored["n"], &stored["ttl"]), (&n.into(), &ttl));
    }
}

/// Whatever the document holds that is there now, with the stamp that was seen or a later one, the outcome is that of the
/// predicate.
#[test]
fn what_is_known_changes_no_outcome() {
    let stamped = |offset: i64| Bson::from(bson::DateTime::from_millis(START + offset));
    let rows = [
        bson!({"_id": 1, "_sundown": stamped(0)}),
        bson!({"_id": 1, "_sundown": stamped(100_000)}),
        bson!({"_id": 1, "_sundown": stamped(0), "ttl": 150}),
        bson!({"_id": 1, "_sundown": stamped(100_000), "ttl": 150}),
        bson!({"_id": 1, "_sundown": stamped(0), "ttl": 150.5}),
        bson!({"_id": 1, "_sundown": stamped(0), "ttl": {"a": 1}}),
        bson!({"_id": 1, "_sundown": stamped(0), "ttl": [1, 150]}),
        bson!({"_id": 1, "_sundown": stamped(0), "ttl": Bson::Null}),
        bson!({"_id": 1, "_sundown": stamped(0), "ttl": -1, "n": "text"}),
        bson!({"_id": 1, "_sundown": stamped(0), "ttl": 150, "n": "text"}),
        bson!({"_id": 2}),
    ];
    let commands = [
        increment(1),
        doc! {"update": "a", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": true}]},
        doc! {"findAndModify": "a", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "new": true},
        doc! {"findAndModify": "a", "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "upsert": true},
    ];
    let mut world = World::new();
    for default in [LIFE, -1] {
        for (row, command) in rows
            .iter()
            .flat_map(|row| commands.iter().map(move |c| (row, c)))
        {
            for seconds in [1, 149, 150, 200, 249, 250, 400] {
                let mut outcomes = [false, true].map(|knows| {
                    world.default_ttl("a", default);
                    world.now = START;
                    if knows {
                        world.remember_writes("a", seconds);
                        world.run(doc! {"delete": "a", "deletes": [{"q": {}, "limit": 0}]});
                        world.insert(bson!([{"_id": 1}]));
                    }
                    world.straight(doc! {"delete": "a", "deletes": [{"q": {}, "limit": 0}]});
                    world.straight(doc! {"insert": "a", "documents": [row.clone()]});
                    world.wait(seconds);
                    let mut reply = world.run(command.clone());
                    for varies in ["$clusterTime", "operationTime", "opTime", "electionId"] {
                        reply.remove(varies);
                    }
                    (reply, world.straight(doc! {"find": "a"}))
                });
                for (_, found) in &mut outcomes {
                    found.remove("$clusterTime");
                    found.remove("operationTime");
                }
                assert_eq!(
                    outcomes[0], outcomes[1],
                    "{row} {command} after {seconds} s"
                );
            }
        }
    }
}

/// A new primary may have an older version, and another collection of the name has other documents.
#[test]
fn what_may_be_lost_is_forgotten() {
    let mut world = world();
    assert_eq!(update(&mut world, 1), (1.into(), true));
    world.cluster.term += 1;
    assert_eq!(update(&mut world, 1), (1.into(), false));
    assert_eq!(update(&mut world, 1), (1.into(), true));
    world.remember_writes("a", 1);
    assert_eq!(update(&mut world, 1), (1.into(), false));
    assert_eq!(update(&mut world, 1), (1.into(), true));
    let nothing = world.writes.nothing();
    world.change("a", |rules| rules.writes = Some(nothing));
    for _ in 0..2 {
        assert_eq!(update(&mut world, 1), (1.into(), false));
    }
}

/// The clock was set back: the document had a stamp from the future, and the next write gave it an earlier one.
#[test]
fn a_stamp_ahead_of_the_clock_counts_as_one_of_now() {
    let mut world = world();
    let mut straight = |offset: i64| {
        let stamp = bson::DateTime::from_millis(START + offset);
        let set = bson!({"$set": {"_sundown": stamp}});
        world.straight(doc! {"update": "a", "updates": [{"q": {"_id": 1}, "u": set}]});
        world.remember_writes("a", 1);
        world.run(doc! {"find": "a", "filter": {"_id": 1}, "limit": 1, "singleBatch": true});
    };
    straight(5 * LIFE * 1_000);
    straight(0);
    world.wait(LIFE);
    assert_eq!(update(&mut world, 1), (0.into(), false));
}

/// A document whose life is shorter than a command may be under way is never known well enough.
#[test]
fn short_lives_go_the_usual_way() {
    for (life, unfiltered) in [(60, false), (61, true)] {
        let mut world = World::new();
        world.default_ttl("a", life);
        world.remember_writes("a", 0);
        world.insert(bson!([{"_id": 1}]));
        assert_eq!(update(&mut world, 1), (1.into(), unfiltered), "{life}");
    }
}
