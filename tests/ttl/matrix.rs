//! The matrix: how `ttl` and `DefaultTTL` combine.

use bson::spec::BinarySubtype;
use bson::{Binary, Bson, Document, doc};

use super::instants::{around, living};
use crate::support::world::{Reaper, World, date, int, through_upstream};

/// When a document expires, in milliseconds after its write.
type End = Option<i64>;

const NEVER: End = None;

/// A value of `ttl` and its meaning in seconds, or `None` if it has no meaning.
fn values() -> Vec<(Bson, Option<i64>)> {
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    vec![
        (Bson::Int32(5), Some(5)),
        (Bson::Int64(5), Some(5)),
        (Bson::Double(5.0), Some(5)),
        (Bson::Int32(1), Some(1)),
        (Bson::Int32(60), Some(60)),
        (Bson::Int32(i32::MAX), Some(i64::from(i32::MAX))),
        (Bson::Int64(i64::from(i32::MAX)), Some(i64::from(i32::MAX))),
        (Bson::Double(2_147_483_647.0), Some(i64::from(i32::MAX))),
        (Bson::Int32(-1), Some(-1)),
        (Bson::Int64(-1), Some(-1)),
        (Bson::Double(-1.0), Some(-1)),
        // From here on, the values are plain data.
        (Bson::Double(5.5), None),
        (Bson::String("5".into()), None),
        (Bson::Int32(0), None),
        (Bson::Int64(0), None),
        (Bson::Double(0.0), None),
        (Bson::Double(-0.0), None),
        (Bson::Int32(-2), None),
        (Bson::Int32(-5), None),
        (Bson::Double(-1.5), None),
        (Bson::Double(0.5), None),
        (Bson::Int32(i32::MIN), None),
        (Bson::Int64(i64::MIN), None),
        (Bson::Int64(i64::MAX), None),
        (Bson::Int64(3_000_000_000), None),
        // Numbers whose low 32 bits would be 5 and -1.
        (Bson::Int64((1 << 32) + 5), None),
        (Bson::Int64(0xffff_ffff), None),
        (Bson::Double(2_147_483_648.0), None),
        (Bson::Double(1e300), None),
        (Bson::Double(f64::NAN), None),
        (Bson::Double(f64::INFINITY), None),
        (Bson::Double(f64::NEG_INFINITY), None),
        (decimal("5"), None),
        (decimal("-1"), None),
        (Bson::Null, None),
        (Bson::Boolean(true), None),
        (Bson::Array(vec![Bson::Int32(5)]), None),
        (Bson::Document(doc! {"ttl": 5}), None),
        (date(5), None),
        (
            Bson::Binary(Binary {
                subtype: BinarySubtype::Generic,
                bytes: vec![5],
            }),
            None,
        ),
        (
            Bson::Timestamp(bson::Timestamp {
                time: 5,
                increment: 0,
            }),
            None,
        ),
    ]
}

/// Computes the end by the matrix in the README.
fn end(default: Option<i64>, ttl: Option<i64>) -> End {
    match (default, ttl) {
        (None, _) => NEVER,
        (Some(_), Some(-1)) => NEVER,
        (Some(_), Some(m)) => Some(m * 1000),
        (Some(-1), None) => NEVER,
        (Some(n), None) => Some(n * 1000),
    }
}

fn documents() -> Vec<(Document, Option<i64>)> {
    let mut documents = vec![
        (doc! {"a": 1}, None),
        (doc! {"a": {"ttl": 5}}, None),
        (
            doc! {"TTL": 5, "Ttl": 5, "ttl ": 5, "tt": 5, "ttll": 5},
            None,
        ),
    ];
    documents.extend(
        values()
            .into_iter()
            .map(|(ttl, means)| (doc! {"ttl": ttl}, means)),
    );
    // The position of the field does not matter.
    documents.push((
        doc! {"a": {"ttl": 7}, "z": [1, 2], "ttl": 5, "ttx": 1},
        Some(5),
    ));
    documents
}

fn check(default: Option<i64>, reaper: Reaper) {
    let mut world = World::new(reaper);
    let mut create = doc! {"create": "c"};
    if let Some(seconds) = default {
        create.insert("defaultTtl", seconds);
    }
    world.run(create);
    let documents = documents();
    let mut ends = Vec::new();
    for (id, (document, means)) in documents.iter().enumerate() {
        let mut stored = doc! {"_id": id as i32};
        stored.extend(document.clone());
        world.insert("c", [stored]);
        ends.push(end(default, *means));
    }
    let mut instants = around(&ends);
    instants.insert(0, 0);
    for instant in instants {
        world.at(instant);
        let expected = living(&ends, instant);
        assert_eq!(
            world.int_ids("c", doc! {}),
            expected,
            "default {default:?}, {instant} ms, reaper {reaper:?}"
        );
        for (id, (document, _)) in documents.iter().enumerate() {
            let found = world.rows(doc! {"find": "c", "filter": {"_id": id as i32}});
            let there = expected.contains(&(id as i64));
            assert_eq!(
                found.len(),
                usize::from(there),
                "{document} at {instant} ms, default {default:?}"
            );
            if there {
                // The value is stored unchanged, whatever it means.
                let mut stored = doc! {"_id": id as i32};
                stored.extend(document.clone());
                assert_eq!(
                    found[0].to_vec().unwrap(),
                    stored.to_vec().unwrap(),
                    "{document}"
                );
            }
        }
    }
}

#[test]
fn off() {
    for reaper in [Reaper::On, Reaper::Off] {
        check(None, reaper);
    }
}

#[test]
fn minus_one() {
    for reaper in [Reaper::On, Reaper::Off] {
        check(Some(-1), reaper);
    }
}

#[test]
fn seconds() {
    for reaper in [Reaper::On, Reaper::Off] {
        check(Some(20), reaper);
        check(Some(i64::from(i32::MAX)), reaper);
    }
}

/// `_ts` has millisecond precision: a document lives for its n seconds and not a millisecond longer.
#[test]
fn to_the_millisecond() {
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 2});
    for id in 0..10 {
        world.at(id * 137);
        world.insert("c", [doc! {"_id": id}]);
    }
    for id in 0..10 {
        world.at(id * 137 + 1_999);
        assert_eq!(world.int_ids("c", doc! {}), (id..10).collect::<Vec<_>>());
        world.at(id * 137 + 2_000);
        assert_eq!(
            world.int_ids("c", doc! {}),
            (id + 1..10).collect::<Vec<_>>()
        );
    }
}

/// A new default applies at once to documents that inherit it, counted from each document's `_ts`. It does not affect
/// others.
#[test]
fn a_new_default_counts_from_the_last_write() {
    // Documents in a cluster have no `_ts` before the first default.
    let first = match through_upstream(
        "documents from before the first default count as written when it was switched on",
    ) {
        true => Bson::Int32(-1),
        false => Bson::Null,
    };
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": first.clone()});
        world.insert(
            "c",
            [
                doc! {"_id": 1},
                doc! {"_id": 2, "ttl": 50},
                doc! {"_id": 3, "ttl": -1},
            ],
        );
        world.at(10_000);
        world.insert("c", [doc! {"_id": 4}]);
        world.at(20_000);
        // (default, visible documents): all at the same instant, so only shorter defaults have an effect.
        for (default, left) in [
            (Bson::Int32(-1), vec![1, 2, 3, 4]),
            (Bson::Int32(21), vec![1, 2, 3, 4]),
            (Bson::Int32(20), vec![2, 3, 4]),
            (Bson::Int32(11), vec![2, 3, 4]),
            (Bson::Int32(10), vec![2, 3]),
            (Bson::Int32(1), vec![2, 3]),
        ] {
            world.run(doc! {"collMod": "c", "defaultTtl": default.clone()});
            assert_eq!(world.int_ids("c", doc! {}), left, "{default}");
        }
        world.at(50_000);
        assert_eq!(world.int_ids("c", doc! {}), [3]);
    }
}

/// While the default is off, `ttl` is plain data. When the default is turned on again, `ttl` counts again, from each
/// document's `_ts`.
#[test]
fn off_and_on_again() {
    for reaper in [Reaper::On, Reaper::Off] {
        let mut world = World::new(reaper);
        world.run(doc! {"create": "c", "defaultTtl": -1});
        world.insert(
            "c",
            [
                doc! {"_id": 1, "ttl": 10},
                doc! {"_id": 2, "ttl": 30},
                doc! {"_id": 3},
            ],
        );
        world.at(9_999);
        world.run(doc! {"collMod": "c", "defaultTtl": null});
        world.at(25_000);
        assert_eq!(world.int_ids("c", doc! {}), [1, 2, 3]);
        world.run(doc! {"collMod": "c", "defaultTtl": -1});
        assert_eq!(world.int_ids("c", doc! {}), [2, 3]);
        world.at(30_000);
        assert_eq!(world.int_ids("c", doc! {}), [3]);
    }
}

/// Changing the default does not visit the documents.
#[test]
fn a_change_of_the_default_reaches_documents_of_every_age() {
    let mut world = World::new(Reaper::Off);
    world.run(doc! {"create": "c", "defaultTtl": 1000});
    for round in 0..20 {
        world.at(round * 1_000);
        world.insert("c", (0..100).map(|n| doc! {"_id": round * 100 + n}));
    }
    world.at(20_000);
    for default in [20, 15, 7, 3, 2, 1] {
        world.run(doc! {"collMod": "c", "defaultTtl": default});
        let left = world.int_ids("c", doc! {});
        // Round r was written at r seconds and expires `default` seconds later.
        let expected: Vec<i64> = ((20 - default + 1) * 100..2_000).collect();
        assert_eq!(left, expected, "{default}");
        let stats = world.run(doc! {"collStats": "c"});
        assert_eq!(
            stats.get("count").and_then(int),
            Some(expected.len() as i64)
        );
    }
}
