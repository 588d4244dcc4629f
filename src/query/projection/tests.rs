//! Tables of projections: the specification, the document and the result.

use bson::{Document, bson, doc};

use super::*;
use crate::error::Result;
use crate::query::{Scope, Vars};
use crate::value::{DocBuf, Millis};

fn project(
    kind: ProjectionKind,
    spec: &Document,
    document: &Document,
    position: Option<usize>,
) -> Result<Document> {
    let projection = Projection::parse(DocBuf::from(spec).as_doc(), &Scope::new(), kind)?;
    let mut out = Vec::new();
    projection.apply(
        DocBuf::from(document).as_doc(),
        &Vars::at(Millis(0)),
        position,
        &mut out,
    )?;
    crate::value::validate(&out, crate::value::Limits::DEFAULT).unwrap();
    Ok(Document::from_reader(&out[..]).unwrap())
}

fn check(kind: ProjectionKind, rows: &[(Document, Document, Document)]) {
    for (spec, document, expected) in rows {
        let got = project(kind, spec, document, None).unwrap_or_else(|e| panic!("{spec}: {e:?}"));
        assert_eq!(
            got.to_vec().unwrap(),
            expected.to_vec().unwrap(),
            "{spec} of {document}: got {got}, expected {expected}"
        );
    }
}

#[test]
fn inclusion_and_exclusion() {
    let flat = doc! {"_id": 1, "a": 10, "b": 20, "c": 30};
    let nested = doc! {"_id": 1, "a": {"b": 10, "c": 20}, "d": 30};
    let array =
        doc! {"_id": 1, "a": [{"b": 1, "c": 10}, "x", null, {"b": 2}, [{"b": 3, "c": 1}, 5]]};
    let rows = [
        (
            doc! {"c": 1, "a": 1},
            flat.clone(),
            doc! {"_id": 1, "a": 10, "c": 30},
        ),
        (doc! {"a": 1, "_id": 0}, flat.clone(), doc! {"a": 10}),
        (doc! {"z": 1}, flat.clone(), doc! {"_id": 1}),
        (doc! {"_id": 1}, flat.clone(), doc! {"_id": 1}),
        (doc! {"a": f64::NAN}, flat.clone(), doc! {"_id": 1, "a": 10}),
        (
            doc! {"_id": 0},
            flat.clone(),
            doc! {"a": 10, "b": 20, "c": 30},
        ),
        (
            doc! {"b": 0},
            flat.clone(),
            doc! {"_id": 1, "a": 10, "c": 30},
        ),
        (
            doc! {"b": false, "_id": 1},
            flat.clone(),
            doc! {"_id": 1, "a": 10, "c": 30},
        ),
        (doc! {"c": -0.0, "a": 0}, flat, doc! {"_id": 1, "b": 20}),
        (
            doc! {"a.b": 1},
            nested.clone(),
            doc! {"_id": 1, "a": {"b": 10}},
        ),
        (
            doc! {"a": {"b": 1}, "d": 1},
            nested.clone(),
            doc! {"_id": 1, "a": {"b": 10}, "d": 30},
        ),
        (doc! {"a.x": 1}, nested.clone(), doc! {"_id": 1, "a": {}}),
        (doc! {"d.x": 1}, nested.clone(), doc! {"_id": 1}),
        (doc! {"d.x": 0}, nested.clone(), nested.clone()),
        (
            doc! {"a.b": 0},
            nested,
            doc! {"_id": 1, "a": {"c": 20}, "d": 30},
        ),
        (
            doc! {"a.b": 1},
            array.clone(),
            doc! {"_id": 1, "a": [{"b": 1}, {"b": 2}, [{"b": 3}]]},
        ),
        (
            doc! {"a.b": 0},
            array,
            doc! {"_id": 1, "a": [{"c": 10}, "x", null, {}, [{"c": 1}, 5]]},
        ),
        (
            doc! {"a.0": 1},
            doc! {"_id": 1, "a": [10]},
            doc! {"_id": 1, "a": []},
        ),
        (
            doc! {"_id.x": 1, "a": 1},
            doc! {"_id": {"x": 1, "y": 2}, "a": 10},
            doc! {"_id": {"x": 1}, "a": 10},
        ),
    ];
    check(ProjectionKind::Find, &rows);
    check(ProjectionKind::Aggregate, &rows);
}

#[test]
fn computed_fields() {
    let literal = doc! {"$literal": 99};
    let rows = [
        (
            doc! {"a": "$b", "b": "$a"},
            doc! {"_id": 1, "a": 10, "b": 20},
            doc! {"_id": 1, "a": 20, "b": 10},
        ),
        (
            doc! {"x": "$b", "a": 1},
            doc! {"_id": 1, "a": 10, "b": 20},
            doc! {"_id": 1, "a": 10, "x": 20},
        ),
        (
            doc! {"_id": null, "a": 1},
            doc! {"_id": 1, "a": 10},
            doc! {"a": 10, "_id": null},
        ),
        (
            doc! {"r": "$none", "a": 1},
            doc! {"_id": 1, "a": 10},
            doc! {"_id": 1, "a": 10},
        ),
        (
            doc! {"r": ["$a", "$none"]},
            doc! {"_id": 1, "a": 10},
            doc! {"_id": 1, "r": [10, null]},
        ),
        (
            doc! {"a.b": literal.clone()},
            doc! {"_id": 1, "a": 42},
            doc! {"_id": 1, "a": {"b": 99}},
        ),
        (
            doc! {"a.b": literal.clone()},
            doc! {"_id": 1},
            doc! {"_id": 1, "a": {"b": 99}},
        ),
        (
            doc! {"a.b": literal.clone(), "a.c": 1, "z": 1},
            doc! {"_id": 1, "a": {"b": 1, "c": 2, "d": 3}, "z": 1},
            doc! {"_id": 1, "a": {"c": 2, "b": 99}, "z": 1},
        ),
        (
            doc! {"a.b": literal.clone()},
            doc! {"_id": 1, "a": [{"b": 1, "c": 10}, "x", null, [{"b": 3}, []]]},
            doc! {"_id": 1, "a": [{"b": 99}, {"b": 99}, {"b": 99}, [{"b": 99}, []]]},
        ),
        (
            doc! {"a": {"x": 1, "n": "$_id"}},
            doc! {"_id": 1, "a": {"x": 5}},
            doc! {"_id": 1, "a": {"x": 5, "n": 1}},
        ),
        (
            doc! {"a": 1, "rv": {"$meta": "randVal"}},
            doc! {"_id": 1, "a": 1},
            doc! {"_id": 1, "a": 1},
        ),
        (
            doc! {"a": 0, "rv": {"$meta": "randVal"}},
            doc! {"_id": 1, "a": 1, "b": 2},
            doc! {"_id": 1, "b": 2},
        ),
    ];
    check(ProjectionKind::Find, &rows);
    check(ProjectionKind::Aggregate, &rows);
}

#[test]
fn added_fields() {
    let rows: Vec<(Document, Document, Document)> = vec![
        (
            doc! {"a": 10, "b": 20},
            doc! {"a": "$b", "b": "$a"},
            doc! {"a": 20, "b": 10},
        ),
        (
            doc! {"x": 5},
            doc! {"a": 1, "b": "$a"},
            doc! {"x": 5, "a": 1},
        ),
        (doc! {}, doc! {"a.b.c": 1}, doc! {"a": {"b": {"c": 1}}}),
        (
            doc! {"a": {"x": 1, "y": 2}},
            doc! {"a": {"z": 3}},
            doc! {"a": {"x": 1, "y": 2, "z": 3}},
        ),
        (doc! {"a": {"x": 1}}, doc! {"a": {}}, doc! {"a": {}}),
        (doc! {"a": 4}, doc! {"a.b": 1}, doc! {"a": {"b": 1}}),
        (
            doc! {"a": 4, "z": 5},
            doc! {"y": 1, "a.b": 1},
            doc! {"a": {"b": 1}, "z": 5, "y": 1},
        ),
        (
            doc! {"a": [{"x": 1}, 2, [{"x": 3}]]},
            doc! {"a.y": 9},
            doc! {"a": [bson!({"x": 1, "y": 9}), bson!({"y": 9}), bson!([{"x": 3, "y": 9}])]},
        ),
        (
            doc! {"a": {"x": 1}, "z": 0},
            doc! {"a.b": 2, "a": {"c": 3}},
            doc! {"a": {"x": 1, "b": 2, "c": 3}, "z": 0},
        ),
        (doc! {"a": 1, "b": 2}, doc! {"a": "$$REMOVE"}, doc! {"b": 2}),
    ];
    for (before, spec, after) in rows {
        let fields =
            Projection::parse_add_fields(DocBuf::from(&spec).as_doc(), &Scope::new()).unwrap();
        let mut out = Vec::new();
        let vars = Vars::at(Millis(0));
        fields
            .apply(DocBuf::from(&before).as_doc(), &vars, None, &mut out)
            .unwrap();
        assert_eq!(out, after.to_vec().unwrap(), "{before} {spec}");
    }
}

#[test]
fn the_first_of_two_fields_with_the_same_name_is_set() {
    let twice = DocBuf::build(|doc| {
        doc.put_i32("a", 1).put_i32("b", 2).put_i32("a", 3);
    });
    let expected = DocBuf::build(|doc| {
        doc.put_i32("a", 9).put_i32("b", 2).put_i32("a", 3);
        doc.put_i32("c", 9);
    });
    let spec = DocBuf::from(doc! {"a": 9, "c": 9});
    let fields = Projection::parse_add_fields(spec.as_doc(), &Scope::new()).unwrap();
    let mut out = Vec::new();
    let vars = Vars::at(Millis(0));
    fields.apply(twice.as_doc(), &vars, None, &mut out).unwrap();
    assert_eq!(out, expected.as_doc().bytes());
}

#[test]
fn slices_and_elements() {
    let slice = |argument: bson::Bson| doc! {"$slice": argument};
    let gte = |n: i32| doc! {"$elemMatch": {"$gte": n}};
    let d = doc! {"_id": 1, "t": "x", "a": [1, 2, 3, 4], "c": 5};
    let sliced = |array: Vec<i32>| doc! {"_id": 1, "t": "x", "a": array, "c": 5};
    let rows = [
        (doc! {"a": slice(2.into())}, d.clone(), sliced(vec![1, 2])),
        (
            doc! {"a": slice((-2).into())},
            d.clone(),
            sliced(vec![3, 4]),
        ),
        (doc! {"a": slice(0.into())}, d.clone(), sliced(vec![])),
        (
            doc! {"a": slice(f64::INFINITY.into())},
            d.clone(),
            d.clone(),
        ),
        (
            doc! {"a": slice(f64::NAN.into())},
            d.clone(),
            sliced(vec![]),
        ),
        (doc! {"a": slice(i64::MIN.into())}, d.clone(), d.clone()),
        (
            doc! {"a": slice(bson::bson!([1, 2]))},
            d.clone(),
            sliced(vec![2, 3]),
        ),
        (
            doc! {"a": slice(bson::bson!([-3, 2]))},
            d.clone(),
            sliced(vec![2, 3]),
        ),
        (
            doc! {"a": slice(bson::bson!([-9, 2]))},
            d.clone(),
            sliced(vec![1, 2]),
        ),
        (
            doc! {"a": slice(bson::bson!([9, 2]))},
            d.clone(),
            sliced(vec![]),
        ),
        (
            doc! {"a": slice(1.into()), "t": 0},
            d.clone(),
            doc! {"_id": 1, "a": [1], "c": 5},
        ),
        (
            doc! {"a": slice(1.into()), "t": 1},
            d.clone(),
            doc! {"_id": 1, "t": "x", "a": [1]},
        ),
        (
            doc! {"a": slice(1.into()), "_id": 0},
            d.clone(),
            doc! {"t": "x", "a": [1], "c": 5},
        ),
        (
            doc! {"a": slice(1.into()), "_id": 1},
            d.clone(),
            doc! {"_id": 1, "a": [1]},
        ),
        (doc! {"c": slice(1.into())}, d.clone(), d.clone()),
        (
            doc! {"a.b": slice(1.into())},
            doc! {"_id": 1, "a": [{"b": [1, 2], "c": 1}, {"b": [3]}]},
            doc! {"_id": 1, "a": [{"b": [1], "c": 1}, {"b": [3]}]},
        ),
        (doc! {"a": gte(2)}, d.clone(), doc! {"_id": 1, "a": [2]}),
        (doc! {"a": gte(9)}, d.clone(), doc! {"_id": 1}),
        (doc! {"t": gte(0)}, d.clone(), doc! {"_id": 1}),
        (doc! {"a": gte(2), "_id": 0}, d.clone(), doc! {"a": [2]}),
        (
            doc! {"a": gte(2), "c": 1},
            d.clone(),
            doc! {"_id": 1, "c": 5, "a": [2]},
        ),
        (
            doc! {"a": gte(2), "t": 0},
            d,
            doc! {"_id": 1, "a": [2], "c": 5},
        ),
        (
            doc! {"a": {"$elemMatch": {"x": {"$gt": 1}}}},
            doc! {"_id": 1, "a": [{"x": 1}, {"x": 2, "y": 1}]},
            doc! {"_id": 1, "a": [{"x": 2, "y": 1}]},
        ),
        (doc! {"_id": gte(1)}, doc! {"_id": 1, "x": 1}, doc! {}),
    ];
    check(ProjectionKind::Find, &rows);
}

#[test]
fn the_positional_operator() {
    for (spec, document, position, expected) in [
        (
            doc! {"a.$": 1},
            doc! {"_id": 1, "a": [5, 6], "b": 1},
            Some(1),
            Ok(doc! {"_id": 1, "a": [6]}),
        ),
        (
            doc! {"x.y.$": 1},
            doc! {"_id": 1, "x": {"y": [1, 2], "z": 1}},
            Some(0),
            Ok(doc! {"_id": 1, "x": {"y": [1]}}),
        ),
        (
            doc! {"x.y.$": 1},
            doc! {"_id": 1, "x": [{"y": 1, "z": 1}, {"y": 2}]},
            Some(0),
            Ok(doc! {"_id": 1, "x": [{"y": 1}]}),
        ),
        (
            doc! {"a.$": 1},
            doc! {"_id": 1, "a": 7},
            None,
            Ok(doc! {"_id": 1, "a": 7}),
        ),
        (doc! {"a.$": 1}, doc! {"_id": 1}, None, Ok(doc! {"_id": 1})),
        (
            doc! {"x.y.$": 1},
            doc! {"_id": 1, "x": {"o": 1}},
            None,
            Ok(doc! {"_id": 1, "x": {}}),
        ),
        (doc! {"a.$": 1}, doc! {"_id": 1, "a": [5]}, None, Err(51246)),
        (
            doc! {"a.$": 1},
            doc! {"_id": 1, "a": [5]},
            Some(1),
            Err(51247),
        ),
    ] {
        let got = project(ProjectionKind::Find, &spec, &document, position)
            .map_err(|e| e.code().number());
        assert_eq!(got, expected, "{spec} {document}");
    }
}

#[test]
fn many_names() {
    let all: Document = (0..500)
        .map(|n| (format!("f{n}"), bson::Bson::Int32(n)))
        .collect();
    let spec = |flag: i32| -> Document {
        (0..500)
            .step_by(2)
            .map(|n| (format!("f{n}"), flag.into()))
            .collect()
    };
    assert_eq!(
        project(ProjectionKind::Find, &spec(1), &all, None)
            .unwrap()
            .len(),
        250
    );
    assert_eq!(
        project(ProjectionKind::Find, &spec(0), &all, None)
            .unwrap()
            .len(),
        250
    );
}
