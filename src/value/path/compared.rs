//! Runs every walk over the same documents: the table of this module as tests.

use std::ops::ControlFlow;

use bson::{Document, doc};

use super::*;
use crate::value::{DocBuf, Value, ValueRef};

/// The result of each walk, in the order of the table.
struct WalkResults {
    path: &'static str,
    document: Document,
    get: &'static str,
    until_array: &'static str,
    element_key: &'static str,
    filter: &'static [&'static str],
    expression: &'static str,
    index: &'static [&'static str],
    join: &'static [&'static str],
    distinct: &'static [&'static str],
    put: Document,
}

fn show(value: ValueRef<'_>) -> String {
    match value.is_missing() {
        true => "missing".to_owned(),
        false => value.to_string(),
    }
}

#[test]
fn walks_differ_where_a_path_meets_an_array() {
    let rows = [
        WalkResults {
            path: "a.b",
            document: doc! {"a": {"b": 1}},
            get: "1",
            until_array: "1",
            element_key: "1",
            filter: &["1"],
            expression: "1",
            index: &["1"],
            join: &["1"],
            distinct: &["1"],
            put: doc! {"a": {"b": 9}},
        },
        WalkResults {
            path: "a.b",
            document: doc! {"a": 5},
            get: "missing",
            until_array: "null",
            element_key: "null",
            filter: &["missing"],
            expression: "missing",
            index: &["null"],
            join: &[],
            distinct: &[],
            put: doc! {"a": {"b": 9}},
        },
        WalkResults {
            path: "a",
            document: doc! {"a": [1, [2]]},
            get: "[ 1, [ 2 ] ]",
            until_array: "[ 1, [ 2 ] ]",
            element_key: "[ 1, [ 2 ] ]",
            filter: &["1", "[ 2 ]", "[ 1, [ 2 ] ]"],
            expression: "[ 1, [ 2 ] ]",
            index: &["1", "[ 2 ]"],
            join: &["1", "[ 2 ]"],
            distinct: &["1", "[ 2 ]"],
            put: doc! {"a": 9},
        },
        WalkResults {
            path: "a",
            document: doc! {"a": []},
            get: "[]",
            until_array: "[]",
            element_key: "[]",
            filter: &["[]"],
            expression: "[]",
            index: &["undefined"],
            join: &[],
            distinct: &[],
            put: doc! {"a": 9},
        },
        WalkResults {
            path: "a.b",
            document: doc! {"a": [{"b": 1}, {"c": 2}, 3, [{"b": 4}], {"b": [5]}]},
            get: "missing",
            until_array: "[ { b: 1 }, { c: 2 }, 3, [ { b: 4 } ], { b: [ 5 ] } ]",
            element_key: "null",
            filter: &["1", "missing", "5", "[ 5 ]"],
            expression: "[ 1, [ 5 ] ]",
            index: &["1", "null", "5"],
            join: &["1", "5"],
            distinct: &["1", "5"],
            put: doc! {"a": {"b": 9}},
        },
        WalkResults {
            path: "a.b",
            document: doc! {"a": [3]},
            get: "missing",
            until_array: "[ 3 ]",
            element_key: "null",
            filter: &[],
            expression: "[]",
            index: &["null"],
            join: &[],
            distinct: &[],
            put: doc! {"a": {"b": 9}},
        },
        WalkResults {
            path: "a.0",
            document: doc! {"a": [[7, 8], 6]},
            get: "missing",
            until_array: "[ [ 7, 8 ], 6 ]",
            element_key: "[ 7, 8 ]",
            filter: &["[ 7, 8 ]"],
            expression: "[]",
            index: &["[ 7, 8 ]"],
            join: &["7", "8"],
            distinct: &["7", "8"],
            put: doc! {"a": {"0": 9}},
        },
        WalkResults {
            path: "a.1",
            document: doc! {"a": [{"1": 4}, 5]},
            get: "missing",
            until_array: "[ { 1: 4 }, 5 ]",
            element_key: "5",
            filter: &["4", "5"],
            expression: "[ 4 ]",
            index: &["error 16746"],
            join: &["4", "5"],
            distinct: &["5"],
            put: doc! {"a": {"1": 9}},
        },
        WalkResults {
            path: "a.b",
            document: doc! {"a.b": 2},
            get: "missing",
            until_array: "null",
            element_key: "2",
            filter: &["missing"],
            expression: "missing",
            index: &["null"],
            join: &[],
            distinct: &["2"],
            put: doc! {"a.b": 2, "a": {"b": 9}},
        },
    ];
    for row in rows {
        let (path, bytes) = (Path::parse(row.path), DocBuf::from(&row.document));
        let doc = bytes.as_doc();
        let name = format!("{} of {}", row.path, row.document);

        assert_eq!(show(path.get(doc)), row.get, "get {name}");
        let until_array = show(path.get_until_array(doc));
        assert_eq!(until_array, row.until_array, "get_until_array {name}");

        let element_key = show(path.element_key(ValueRef::document(doc)));
        assert_eq!(element_key, row.element_key, "element_key {name}");

        let mut hits = Vec::new();
        let _ = path.hits(doc, ArrayLeaf::Elements, |hit| {
            hits.push(show(hit.value));
            ControlFlow::<()>::Continue(())
        });
        assert_eq!(hits, row.filter, "hits {name}");

        let expression = path.get_expr(doc);
        assert_eq!(show(expression.as_ref()), row.expression, "expr {name}");

        let mut index = Vec::new();
        let made = keys(std::slice::from_ref(&path), doc, |keys| {
            index.extend(keys.values.iter().map(|value| show(*value)));
        });
        // The same key may occur more than once.
        index.dedup();
        if let Err(error) = made {
            index.push(format!("error {}", error.code().number()));
        }
        assert_eq!(index, row.index, "keys {name}");

        let join: Vec<String> = path.join_values(doc).into_iter().map(show).collect();
        assert_eq!(join, row.join, "join_values {name}");

        let mut distinct = Vec::new();
        path.distinct_values(doc, &mut |value| {
            distinct.push(show(value));
            Ok(())
        })
        .unwrap();
        assert_eq!(distinct, row.distinct, "distinct_values {name}");

        let mut out = Vec::new();
        path.put(doc, Value::int32(9).as_ref(), &mut out);
        assert_eq!(out, row.put.to_vec().unwrap(), "put {name}");
    }
}
