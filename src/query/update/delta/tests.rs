use bson::{Bson, Document, bson, doc};

use super::*;
use crate::query::{Scope, Vars};
use crate::value::Millis;

/// Applies an update to a document and returns what it tells.
fn told(
    before: Document,
    update: Bson,
    filters: Bson,
    position: Option<usize>,
) -> Option<Document> {
    let scratch = DocBuf::from(doc! {"u": update, "f": filters});
    let (scope, vars) = (Scope::new(), Vars::at(Millis(0)));
    let filters = scratch.as_doc().get("f").as_array();
    let update = Update::parse(scratch.as_doc().get("u"), filters, &scope).unwrap();
    let apply = Apply {
        now: Millis(0),
        vars: &vars,
        position,
        inserting: false,
    };
    let before = DocBuf::from(before);
    let after = update.apply(before.as_doc(), &apply).unwrap().unwrap();
    let delta = update.delta(before.as_doc(), Doc::new(&after), &apply)?;
    Some(Document::from_reader(delta.bytes()).unwrap())
}

/// As mongod 6.0.5 writes its log.
#[test]
fn operators_tell_the_paths_they_wrote_to() {
    let numbers = doc! {"a": [1, 2, 3]};
    let pairs = doc! {"a": [{"b": 1, "c": 1}, {"b": 3, "c": 2}]};
    let push = |clauses: Document| bson!({"$push": {"a": clauses}});
    let rows: Vec<(Document, Bson, Document)> = vec![
        (
            numbers.clone(),
            bson!({"$push": {"a": 4}}),
            doc! {"sa": {"a": true, "u3": 4}},
        ),
        (
            numbers.clone(),
            push(doc! {"$each": [4, 5], "$position": 3}),
            doc! {"u": {"a": [1, 2, 3, 4, 5]}},
        ),
        (
            numbers.clone(),
            push(doc! {"$each": [4, 5], "$position": 9}),
            doc! {"sa": {"a": true, "u3": 4, "u4": 5}},
        ),
        (
            numbers.clone(),
            push(doc! {"$each": [4, 5], "$slice": 10}),
            doc! {"sa": {"a": true, "u3": 4, "u4": 5}},
        ),
        (
            numbers.clone(),
            push(doc! {"$each": [4, 5], "$slice": -4}),
            doc! {"u": {"a": [2, 3, 4, 5]}},
        ),
        (
            numbers.clone(),
            push(doc! {"$each": [4], "$sort": 1}),
            doc! {"u": {"a": [1, 2, 3, 4]}},
        ),
        (
            numbers.clone(),
            bson!({"$push": {"n": 4}}),
            doc! {"i": {"n": [4]}},
        ),
        (
            numbers.clone(),
            bson!({"$addToSet": {"a": 4}}),
            doc! {"u": {"a": [1, 2, 3, 4]}},
        ),
        (
            numbers.clone(),
            bson!({"$pull": {"a": 2}}),
            doc! {"u": {"a": [1, 3]}},
        ),
        (
            numbers.clone(),
            bson!({"$set": {"a.5": 2}}),
            doc! {"sa": {"a": true, "u5": 2}},
        ),
        (
            numbers.clone(),
            bson!({"$unset": {"a.1": 2}}),
            doc! {"sa": {"a": true, "u1": null}},
        ),
        (
            numbers.clone(),
            bson!({"$set": {"a.$[]": 9}}),
            doc! {"u": {"a": [9, 9, 9]}},
        ),
        (
            pairs.clone(),
            bson!({"$set": {"a.$[].b": 3}}),
            doc! {"sa": {"a": true, "u0": {"b": 3, "c": 1}}},
        ),
        (
            pairs.clone(),
            bson!({"$set": {"a.$.b": 5}}),
            doc! {"sa": {"a": true, "s1": {"u": {"b": 5}}}},
        ),
        (
            doc! {"a": 1, "b": 2},
            bson!({"$rename": {"a": "b"}}),
            doc! {"d": {"a": false}, "u": {"b": 1}},
        ),
        (
            doc! {"a": 1, "b": 2},
            bson!({"$set": {"z": 1, "b": 1, "a": 3, "x.q.r": 1, "x.q.s": 1}}),
            doc! {"u": {"a": 3, "b": 1}, "i": {"x": {"q": {"r": 1, "s": 1}}, "z": 1}},
        ),
        (
            doc! {"a": {"10": 1, "9": 1, "b": {"c": 1}}},
            bson!({"$set": {"a.10": 2, "a.9": 3, "a.b.d": 2, "a.B": 1}}),
            doc! {"sa": {"u": {"9": 3, "10": 2}, "i": {"B": 1}, "sb": {"i": {"d": 2}}}},
        ),
    ];
    for (before, update, expected) in rows {
        let told = told(before, update.clone(), bson!([]), Some(1));
        assert_eq!(told, Some(expected), "{update}");
    }
    let filtered = |filter: Bson, value: i32| {
        told(
            numbers.clone(),
            bson!({"$set": {"a.$[x]": value}}),
            bson!([{"x": filter}]),
            None,
        )
    };
    assert_eq!(
        filtered(bson!(2), 9),
        Some(doc! {"sa": {"a": true, "u1": 9}})
    );
    assert_eq!(
        filtered(bson!({"$gte": 2}), 9),
        Some(doc! {"u": {"a": [1, 9, 9]}})
    );
    assert_eq!(
        filtered(bson!({"$gte": 2}), 3),
        Some(doc! {"sa": {"a": true, "u1": 3}})
    );
}

/// As mongod 6.0.5 writes its log.
#[test]
fn pipelines_tell_the_difference_if_it_is_small() {
    let long = "x".repeat(50);
    let tens: Vec<i32> = (1..=10).collect();
    let rows = [
        (doc! {"a": 1}, bson!([{"$set": {"a": 2}}]), None),
        (
            doc! {"a": 1, "big": &long},
            bson!([{"$set": {"a": 2}}]),
            Some(doc! {"u": {"a": 2}}),
        ),
        (
            doc! {"a": 1, "b": {"c": [1, 2, {"d": 1, "e": &long}], "f": &long}},
            bson!([{"$set": {"b.c": [1, 2, {"d": 2, "e": &long}], "g": 1}}, {"$unset": "a"}]),
            Some(
                doc! {"d": {"a": false}, "i": {"g": 1}, "sb": {"sc": {"a": true, "s2": {"u": {"d": 2}}}}},
            ),
        ),
        (
            doc! {"a": tens.clone(), "big": &long},
            bson!([{"$set": {"a": [1, 2, 3, 4, 5, 6, 7, 9]}}]),
            Some(doc! {"sa": {"a": true, "l": 8, "u7": 9}}),
        ),
    ];
    for (before, update, expected) in rows {
        let told = told(before, update.clone(), bson!([]), None);
        assert_eq!(told, expected, "{update}");
    }
}
