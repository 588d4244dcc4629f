//! Cases per operator, from MongoDB's documented behaviour. The laws of the table stand at the end.

use bson::{Bson, Document, doc};

use super::*;
use crate::{
    query::{Scope, Vars},
    value::{DocBuf, Millis},
};

fn parse(filter: &Document) -> crate::error::Result<Filter> {
    Filter::parse(DocBuf::from(filter).as_doc(), &Scope::default())
}

fn vars() -> Vars {
    Vars::at(Millis(0))
}

fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().unwrap())
}

/// Rows of (filter, documents that pass, documents that do not).
fn check(rows: &[(Document, Vec<Document>, Vec<Document>)]) {
    for (filter, yes, no) in rows {
        let parsed = parse(filter).unwrap_or_else(|error| panic!("{filter}: {error:?}"));
        for (docs, expected) in [(yes, true), (no, false)] {
            for doc in docs {
                let bytes = DocBuf::from(doc);
                assert_eq!(
                    parsed.matches(bytes.as_doc(), &vars()).unwrap(),
                    expected,
                    "{filter} on {doc}"
                );
            }
        }
    }
}

/// Rows of (filter, code, part of the message).
fn refuse(rows: &[(Document, i32, &str)]) {
    for (filter, code, words) in rows {
        let error = parse(filter).expect_err(&format!("{filter} should be refused"));
        assert_eq!(error.code().number(), *code, "{filter}: {error:?}");
        assert!(error.message().contains(words), "{filter}: {error:?}");
    }
}

#[test]
fn equality() {
    let nan = f64::NAN;
    check(&[
        (doc! {}, vec![doc! {}, doc! {"a": 1}], vec![]),
        (
            doc! {"a": 1},
            vec![
                doc! {"a": 1},
                doc! {"a": 1i64},
                doc! {"a": 1.0},
                doc! {"a": decimal("1.0")},
                doc! {"a": [0, 1]},
            ],
            vec![
                doc! {},
                doc! {"a": 2},
                doc! {"a": "1"},
                doc! {"a": [[1]]},
                doc! {"a": {"b": 1}},
            ],
        ),
        (
            doc! {"a": Bson::Null},
            vec![doc! {}, doc! {"a": Bson::Null}, doc! {"a": [1, Bson::Null]}],
            vec![
                doc! {"a": []},
                doc! {"a": 0},
                doc! {"a": [1]},
                doc! {"a": Bson::Undefined},
            ],
        ),
        (
            doc! {"a.b": Bson::Null},
            vec![
                doc! {},
                doc! {"a": 1},
                doc! {"a": {}},
                doc! {"a": [{}, {"b": 1}]},
            ],
            vec![doc! {"a": []}, doc! {"a": [1]}, doc! {"a": {"b": 1}}],
        ),
        (
            doc! {"a": [1, 2]},
            vec![doc! {"a": [1, 2]}, doc! {"a": [[1, 2], 3]}],
            vec![doc! {"a": [2, 1]}, doc! {"a": [1, 2, 3]}, doc! {"a": 1}],
        ),
        (
            doc! {"a": []},
            vec![doc! {"a": []}, doc! {"a": [[]]}],
            vec![doc! {"a": [1]}, doc! {}],
        ),
        (
            doc! {"a": {"x": 1, "y": 2}},
            vec![doc! {"a": {"x": 1, "y": 2}}, doc! {"a": {"x": 1.0, "y": 2}}],
            vec![doc! {"a": {"y": 2, "x": 1}}, doc! {"a": {"x": 1}}],
        ),
        (
            doc! {"a": nan},
            vec![doc! {"a": nan}, doc! {"a": decimal("NaN")}],
            vec![doc! {"a": 0}],
        ),
        (
            doc! {"a": 0},
            vec![doc! {"a": -0.0}],
            vec![doc! {"a": false}],
        ),
        (
            doc! {"a.0": 5},
            vec![doc! {"a": [5, 6]}, doc! {"a": {"0": 5}}],
            vec![doc! {"a": [6, 5]}],
        ),
        (
            doc! {"a": {"$eq": 1}, "b": {"$ne": 2}},
            vec![doc! {"a": 1}],
            vec![doc! {"a": 1, "b": [1, 2]}],
        ),
        (
            doc! {"a": {"$ref": "c", "$id": 1}},
            vec![doc! {"a": {"$ref": "c", "$id": 1}}],
            vec![doc! {"a": {"$ref": "c", "$id": 2}}],
        ),
    ]);
    refuse(&[
        (
            doc! {"$x": 1},
            2,
            "unknown top level operator: $x. If you have a field name",
        ),
        (doc! {"a": {"$x": 1}}, 2, "unknown operator: $x"),
        (doc! {"a": {"$eq": 1, "b": 1}}, 2, "unknown operator: b"),
        (
            doc! {"a": Bson::Undefined},
            2,
            "cannot compare to undefined",
        ),
        (
            doc! {"a": {"$where": "x"}},
            2,
            "$where cannot be applied to a field",
        ),
        (doc! {"$where": "x"}, 238, "$where is not implemented"),
        (
            doc! {"a": {"$near": [0, 0]}},
            238,
            "$near is not implemented",
        ),
    ]);
}

#[test]
fn order() {
    let nan = f64::NAN;
    check(&[
        (
            doc! {"a": {"$gt": 5}},
            vec![
                doc! {"a": 6},
                doc! {"a": 5.1},
                doc! {"a": [1, 6]},
                doc! {"a": decimal("5.01")},
            ],
            vec![
                doc! {"a": 5},
                doc! {"a": "6"},
                doc! {},
                doc! {"a": nan},
                doc! {"a": Bson::Null},
            ],
        ),
        (
            doc! {"a": {"$lt": "b"}},
            vec![doc! {"a": "a"}, doc! {"a": ""}],
            vec![doc! {"a": 1}, doc! {"a": "b"}],
        ),
        (
            doc! {"a": {"$gte": Bson::Null}},
            vec![doc! {}, doc! {"a": Bson::Null}],
            vec![doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$gt": Bson::Null}},
            vec![],
            vec![doc! {}, doc! {"a": Bson::Null}, doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$lte": nan}},
            vec![doc! {"a": nan}],
            vec![doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$lt": nan}},
            vec![],
            vec![doc! {"a": nan}, doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$gt": Bson::MinKey}},
            vec![doc! {"a": 1}, doc! {}],
            vec![doc! {"a": Bson::MinKey}],
        ),
        (
            doc! {"a": {"$lte": Bson::MaxKey}},
            vec![doc! {"a": 1}, doc! {"a": Bson::MaxKey}],
            vec![],
        ),
        (
            doc! {"a": {"$gt": [1, 2]}},
            vec![doc! {"a": [1, 3]}],
            vec![doc! {"a": [1, 2]}, doc! {"a": 5}],
        ),
        (
            doc! {"a": {"$gt": 1, "$lt": 3}},
            vec![doc! {"a": 2}, doc! {"a": [0, 5]}],
            vec![doc! {"a": 3}],
        ),
    ]);
    let regex = Bson::RegularExpression(bson::Regex {
        pattern: "a".try_into().unwrap(),
        options: "".try_into().unwrap(),
    });
    refuse(&[
        (
            doc! {"a": {"$gt": regex.clone()}},
            2,
            "Can't have RegEx as arg to predicate over field 'a'.",
        ),
        (
            doc! {"a": {"$ne": regex}},
            2,
            "Can't have regex as arg to $ne.",
        ),
    ]);
}

#[test]
fn membership() {
    let regex = Bson::RegularExpression(bson::Regex {
        pattern: "^x".try_into().unwrap(),
        options: "".try_into().unwrap(),
    });
    check(&[
        (
            doc! {"a": {"$in": [1, "b", Bson::Null]}},
            vec![
                doc! {"a": 1.0},
                doc! {"a": "b"},
                doc! {},
                doc! {"a": [7, 1]},
            ],
            vec![doc! {"a": 2}, doc! {"a": []}],
        ),
        (
            doc! {"a": {"$in": []}},
            vec![],
            vec![doc! {}, doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$nin": []}},
            vec![doc! {}, doc! {"a": 1}],
            vec![],
        ),
        (
            doc! {"a": {"$in": [[1, 2]]}},
            vec![doc! {"a": [1, 2]}, doc! {"a": [[1, 2]]}],
            vec![doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$in": [regex, 3]}},
            vec![doc! {"a": "xy"}, doc! {"a": ["q", "x"]}, doc! {"a": 3}],
            vec![doc! {"a": "yx"}],
        ),
        (
            doc! {"a": {"$nin": [1, 2]}},
            vec![doc! {}, doc! {"a": 3}, doc! {"a": []}],
            vec![doc! {"a": [3, 1]}],
        ),
        (
            doc! {"a": {"$in": [f64::NAN]}},
            vec![doc! {"a": f64::NAN}],
            vec![doc! {"a": 1}],
        ),
    ]);
    refuse(&[
        (doc! {"a": {"$in": 1}}, 2, "$in needs an array"),
        (doc! {"a": {"$nin": 1}}, 2, "$nin needs an array"),
        (
            doc! {"a": {"$in": [{"$gt": 1}]}},
            2,
            "cannot nest $ under $in",
        ),
    ]);
}

#[test]
fn logic() {
    check(&[
        (
            doc! {"$or": [{"a": 1}, {"b": 1}]},
            vec![doc! {"a": 1}, doc! {"b": 1}],
            vec![doc! {"a": 2}],
        ),
        (
            doc! {"$nor": [{"a": 1}, {"b": 1}]},
            vec![doc! {"a": 2}, doc! {}],
            vec![doc! {"a": 1}],
        ),
        (
            doc! {"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 3}}]},
            vec![doc! {"a": 2}],
            vec![doc! {"a": 4}],
        ),
        (
            doc! {"a": {"$not": {"$gt": 1}}},
            vec![doc! {}, doc! {"a": 1}, doc! {"a": "x"}],
            vec![doc! {"a": 2}, doc! {"a": [0, 2]}],
        ),
        (
            doc! {"a": {"$not": {"$not": {"$gt": 1}}}},
            vec![doc! {"a": 2}],
            vec![doc! {}],
        ),
        (doc! {"$alwaysFalse": 1}, vec![], vec![doc! {}]),
        (
            doc! {"$comment": "x", "a": 1},
            vec![doc! {"a": 1}],
            vec![doc! {}],
        ),
        (doc! {"$or": [{}]}, vec![doc! {}], vec![]),
        (
            doc! {"$expr": "$a"},
            vec![doc! {"a": 1}],
            vec![doc! {"a": 0}],
        ),
    ]);
    refuse(&[
        (
            doc! {"$and": []},
            2,
            "$and/$or/$nor must be a nonempty array",
        ),
        (doc! {"$or": 1}, 2, "$or must be an array"),
        (
            doc! {"$or": [1]},
            2,
            "$or/$and/$nor entries need to be full objects",
        ),
        (
            doc! {"a": {"$not": 1}},
            2,
            "$not needs a regex or a document",
        ),
        (doc! {"a": {"$not": {}}}, 2, "$not cannot be empty"),
        (
            doc! {"$not": {"a": 1}},
            2,
            "unknown top level operator: $not",
        ),
        (
            doc! {"a": {"$elemMatch": {"$expr": true}}},
            2,
            "$expr can only be applied to the top-level document",
        ),
        (
            doc! {"$sampleRate": 2},
            2,
            "numeric argument to $sampleRate must be in [0, 1]",
        ),
    ]);
}

#[test]
fn element() {
    check(&[
        (
            doc! {"a": {"$exists": true}},
            vec![doc! {"a": Bson::Null}, doc! {"a": []}],
            vec![doc! {}],
        ),
        (
            doc! {"a.b": {"$exists": false}},
            vec![doc! {}, doc! {"a": [1]}, doc! {"a": []}],
            vec![doc! {"a": [{}, {"b": 1}]}],
        ),
        (
            doc! {"a": {"$type": "number"}},
            vec![doc! {"a": 1}, doc! {"a": 1.0}, doc! {"a": [1i64]}],
            vec![doc! {"a": "1"}, doc! {}],
        ),
        (
            doc! {"a": {"$type": 2}},
            vec![doc! {"a": "x"}],
            vec![doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$type": ["array", "null"]}},
            vec![doc! {"a": []}, doc! {"a": Bson::Null}, doc! {"a": [1]}],
            vec![doc! {}, doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$type": -1}},
            vec![doc! {"a": Bson::MinKey}],
            vec![doc! {"a": Bson::MaxKey}],
        ),
    ]);
    refuse(&[
        (
            doc! {"a": {"$type": "foo"}},
            2,
            "Unknown type name alias: foo",
        ),
        (
            doc! {"a": {"$type": 0}},
            2,
            "Invalid numerical type code: 0. Instead use {$exists:false}.",
        ),
        (
            doc! {"a": {"$type": 99}},
            2,
            "Invalid numerical type code: 99",
        ),
        (
            doc! {"a": {"$type": true}},
            14,
            "type must be represented as a number or a string",
        ),
        (
            doc! {"a": {"$type": []}},
            9,
            "a must match at least one type",
        ),
    ]);
}

#[test]
fn arrays() {
    check(&[
        (
            doc! {"a": {"$all": [1, 2]}},
            vec![doc! {"a": [2, 3, 1]}],
            vec![doc! {"a": [1]}, doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$all": [1]}},
            vec![doc! {"a": 1}, doc! {"a": [1]}],
            vec![doc! {"a": 2}],
        ),
        (
            doc! {"a": {"$all": []}},
            vec![],
            vec![doc! {"a": []}, doc! {}],
        ),
        (
            doc! {"a": {"$all": [[1, 2]]}},
            vec![doc! {"a": [1, 2]}, doc! {"a": [[1, 2]]}],
            vec![doc! {"a": [2, 1]}],
        ),
        (
            doc! {"a": {"$all": [{"$elemMatch": {"x": 1}}, {"$elemMatch": {"y": 2}}]}},
            vec![doc! {"a": [{"x": 1}, {"y": 2}]}],
            vec![doc! {"a": [{"x": 1}]}],
        ),
        (
            doc! {"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}},
            vec![doc! {"a": [0, 2]}],
            vec![doc! {"a": [0, 5]}, doc! {"a": 2}, doc! {"a": [[2]]}],
        ),
        (
            doc! {"a": {"$elemMatch": {"x": 1, "y": 2}}},
            vec![doc! {"a": [{"x": 1, "y": 2}]}],
            vec![
                doc! {"a": [{"x": 1}, {"y": 2}]},
                doc! {"a": {"x": 1, "y": 2}},
            ],
        ),
        (
            doc! {"a": {"$elemMatch": {"$or": [{"x": 1}, {"y": 1}]}}},
            vec![doc! {"a": [{"y": 1}]}],
            vec![doc! {"a": [{"y": 2}]}],
        ),
        (
            doc! {"a": {"$elemMatch": {"$elemMatch": {"$gt": 1}}}},
            vec![doc! {"a": [[0, 2]]}],
            vec![doc! {"a": [2]}],
        ),
        (
            doc! {"a": {"$elemMatch": {"0": 5}}},
            vec![doc! {"a": [[5]]}],
            vec![doc! {"a": [5]}],
        ),
        (
            doc! {"a": {"$elemMatch": {"$not": {"$gt": 1}}}},
            vec![doc! {"a": [0, 5]}],
            vec![doc! {"a": [5]}, doc! {"a": []}],
        ),
        (
            doc! {"a": {"$size": 2}},
            vec![doc! {"a": [1, 2]}],
            vec![doc! {"a": [1]}, doc! {"a": 2}, doc! {}],
        ),
        (
            doc! {"a.b": {"$size": 1}},
            vec![doc! {"a": [{"b": [1]}]}],
            vec![doc! {"a": [{"b": 1}]}],
        ),
    ]);
    let many = |n: i32| (0..n).collect::<Vec<_>>();
    check(&[(
        doc! {"a": {"$all": many(40)}},
        vec![doc! {"a": many(50)}],
        vec![doc! {"a": many(39)}, doc! {"a": 1}, doc! {}],
    )]);
    refuse(&[
        (doc! {"a": {"$all": 1}}, 2, "$all needs an array"),
        (
            doc! {"a": {"$all": [{"$gt": 1}]}},
            2,
            "no $ expressions in $all",
        ),
        (
            doc! {"a": {"$all": [{"$elemMatch": {}}, 1]}},
            2,
            "$all/$elemMatch has to be consistent",
        ),
        (
            doc! {"a": {"$elemMatch": 1}},
            2,
            "$elemMatch needs an Object",
        ),
        (
            doc! {"a": {"$size": -1}},
            2,
            "Failed to parse $size. Expected a non-negative number in: $size: -1",
        ),
        (
            doc! {"a": {"$size": 1.5}},
            2,
            "Failed to parse $size. Expected an integer: $size: 1.5",
        ),
        (
            doc! {"a": {"$size": "1"}},
            2,
            "Failed to parse $size. Expected a number in: $size: \"1\"",
        ),
    ]);
}

#[test]
fn numbers_and_bits() {
    check(&[
        (
            doc! {"a": {"$mod": [4, 1]}},
            vec![doc! {"a": 5}, doc! {"a": 5.9}, doc! {"a": [9]}],
            vec![doc! {"a": 4}, doc! {"a": "5"}, doc! {"a": f64::NAN}],
        ),
        (
            doc! {"a": {"$mod": [4, -1]}},
            vec![doc! {"a": -5}],
            vec![doc! {"a": 5}],
        ),
        (
            doc! {"a": {"$mod": [-1, 0]}},
            vec![doc! {"a": i64::MIN}],
            vec![],
        ),
        (
            doc! {"a": {"$bitsAllSet": 5}},
            vec![doc! {"a": 7}, doc! {"a": -1i64}],
            vec![doc! {"a": 4}, doc! {"a": "7"}, doc! {"a": 5.5}],
        ),
        (
            doc! {"a": {"$bitsAnyClear": [0, 200]}},
            vec![doc! {"a": 1}, doc! {"a": 0}],
            vec![doc! {"a": -1}],
        ),
        (
            doc! {"a": {"$bitsAllClear": [1]}},
            vec![doc! {"a": 5}],
            vec![doc! {"a": 2}],
        ),
        (
            doc! {"a": {"$bitsAnySet": 6}},
            vec![doc! {"a": 2}],
            vec![doc! {"a": 1}],
        ),
        (
            doc! {"a": {"$bitsAllSet": [8]}},
            vec![
                doc! {"a": Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1] })},
            ],
            vec![
                doc! {"a": Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1] })},
            ],
        ),
    ]);
    refuse(&[
        (doc! {"a": {"$mod": [0, 1]}}, 2, "divisor cannot be 0"),
        (
            doc! {"a": {"$mod": [1]}},
            2,
            "malformed mod, not enough elements",
        ),
        (
            doc! {"a": {"$mod": [1, 2, 3]}},
            2,
            "malformed mod, too many elements",
        ),
        (
            doc! {"a": {"$mod": 1}},
            2,
            "malformed mod, needs to be an array",
        ),
        (
            doc! {"a": {"$mod": ["a", 1]}},
            2,
            "malformed mod, divisor not a number",
        ),
        (
            doc! {"a": {"$mod": [f64::NAN, 1]}},
            2,
            "malformed mod, divisor value is invalid",
        ),
        (
            doc! {"a": {"$bitsAllSet": -1}},
            9,
            "Expected a non-negative number in: $bitsAllSet: -1",
        ),
        (
            doc! {"a": {"$bitsAllSet": "x"}},
            2,
            "a takes an Array, a number, or a BinData but received: $bitsAllSet: \"x\"",
        ),
        (
            doc! {"a": {"$bitsAllSet": [-1]}},
            2,
            "bit positions must be >= 0 but got: 0: -1",
        ),
    ]);
}

#[test]
fn patterns() {
    check(&[
        (
            doc! {"a": {"$regex": "^ab", "$options": "i"}},
            vec![doc! {"a": "ABc"}, doc! {"a": ["x", "ab"]}],
            vec![doc! {"a": "xab"}, doc! {"a": 1}, doc! {}],
        ),
        (
            doc! {"a": {"$options": "s", "$regex": "a.b"}},
            vec![doc! {"a": "a\nb"}],
            vec![],
        ),
        (
            doc! {"a": {"$regex": "a b", "$options": "x"}},
            vec![doc! {"a": "ab"}],
            vec![doc! {"a": "a b"}],
        ),
        (
            doc! {"a": {"$regex": "^b", "$options": "m"}},
            vec![doc! {"a": "a\nb"}],
            vec![doc! {"a": "ab"}],
        ),
        (
            doc! {"a": {"$not": {"$regex": "b"}}},
            vec![doc! {"a": "a"}, doc! {}],
            vec![doc! {"a": "b"}],
        ),
        (doc! {"a": {"$regex": "^.$"}}, vec![doc! {"a": "é"}], vec![]),
        (
            doc! {"a": {"$regex": "(?<=x)y"}},
            vec![doc! {"a": "xy"}],
            vec![doc! {"a": "y"}],
        ),
    ]);
    refuse(&[
        (doc! {"a": {"$regex": 1}}, 2, "$regex has to be a string"),
        (
            doc! {"a": {"$regex": "a", "$options": 1}},
            2,
            "$options has to be a string",
        ),
        (doc! {"a": {"$options": "i"}}, 2, "$options needs a $regex"),
        (
            doc! {"a": {"$regex": "a", "$options": "g"}},
            51108,
            "invalid flag in regex options: g",
        ),
        (
            doc! {"a": {"$regex": "["}},
            51091,
            "Regular expression is invalid: missing terminating ] for character class",
        ),
    ]);
}

#[test]
fn schemas() {
    check(&[
        (
            doc! {"$jsonSchema": {"required": ["a"], "properties": {"a": {"bsonType": "int", "minimum": 3}}}},
            vec![doc! {"a": 3}],
            vec![doc! {}, doc! {"a": 2}, doc! {"a": 3.0}, doc! {"a": [3]}],
        ),
        (
            doc! {"$jsonSchema": {"properties": {"a": {"minLength": 2, "pattern": "^x"}}}},
            vec![doc! {}, doc! {"a": 1}, doc! {"a": "xé"}],
            vec![doc! {"a": "x"}, doc! {"a": "yy"}],
        ),
        (
            doc! {"$jsonSchema": {"properties": {"_id": {}, "a": {}}, "patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": false}},
            vec![doc! {"a": 1}, doc! {"n_x": 1}],
            vec![doc! {"b": 1}, doc! {"n_x": "s"}],
        ),
        (
            doc! {"$jsonSchema": {"properties": {"a": {"items": [{"type": "string"}], "additionalItems": {"type": "number"}, "uniqueItems": true}}}},
            vec![doc! {"a": ["x", 1, 2]}, doc! {"a": "z"}],
            vec![doc! {"a": ["x", "y"]}, doc! {"a": ["x", 1, 1.0]}],
        ),
        (
            doc! {"$jsonSchema": {"dependencies": {"a": ["b"]}, "oneOf": [{"required": ["a"]}, {"required": ["c"]}]}},
            vec![doc! {"a": 1, "b": 1}, doc! {"c": 1}],
            vec![doc! {"a": 1}, doc! {"a": 1, "b": 1, "c": 1}, doc! {}],
        ),
        (
            doc! {"$jsonSchema": {"properties": {"a": {"enum": [1, {"x": 1, "y": 2}]}}}},
            vec![doc! {"a": 1}, doc! {"a": {"y": 2, "x": 1}}],
            vec![doc! {"a": 2}],
        ),
        (
            doc! {"$jsonSchema": {"properties": {"a": {"multipleOf": 0.5}}}},
            vec![doc! {"a": 1.5}],
            vec![doc! {"a": 1.2}],
        ),
    ]);
    refuse(&[
        (doc! {"$jsonSchema": 1}, 14, "$jsonSchema must be an object"),
        (
            doc! {"$jsonSchema": {"x": 1}},
            9,
            "Unknown $jsonSchema keyword: x",
        ),
        (
            doc! {"$jsonSchema": {"format": 1}},
            9,
            "$jsonSchema keyword 'format' is not currently supported",
        ),
        (
            doc! {"$jsonSchema": {"type": "integer"}},
            9,
            "$jsonSchema type 'integer' is not currently supported.",
        ),
    ]);
}

#[test]
fn the_position_is_that_of_the_outermost_array_passed_through() {
    for (filter, doc, expected) in [
        (doc! {"a": 2}, doc! {"a": [1, 2]}, Some(1)),
        (doc! {"a": 2}, doc! {"a": 2}, None),
        (doc! {"a": [1, 2]}, doc! {"a": [1, 2]}, None),
        (
            doc! {"a.b": 2},
            doc! {"a": [{"b": 1}, {"b": [7, 2]}]},
            Some(1),
        ),
        (
            doc! {"a": {"$elemMatch": {"b": 2}}},
            doc! {"a": [{"b": 1}, {"b": 2}]},
            Some(1),
        ),
        (
            doc! {"a": {"$gt": 1}, "b": 3},
            doc! {"a": [0, 5], "b": [1, 2, 3]},
            Some(1),
        ),
        (
            doc! {"a": {"$gt": 1, "$lt": 5}},
            doc! {"a": [1, 2, 9]},
            Some(1),
        ),
        (
            doc! {"$or": [{"a": 9}, {"b": 2}]},
            doc! {"a": [1], "b": [1, 2]},
            None,
        ),
        (
            doc! {"$or": [{"b": 9}, {"b": 2}]},
            doc! {"b": [1, 2]},
            Some(1),
        ),
        (doc! {"a": {"$ne": 2}}, doc! {"a": [1]}, None),
    ] {
        let bytes = DocBuf::from(&doc);
        let found = parse(&filter).unwrap().position(bytes.as_doc(), &vars());
        assert_eq!(found, expected, "{filter} on {doc}");
    }
}

#[test]
fn an_upsert_takes_over_equalities() {
    let found = |filter: Document| {
        parse(&filter)
            .unwrap()
            .equalities()
            .map(|pairs| format!("{pairs:?}"))
            .map_err(|error| error.code().number())
    };
    assert_eq!(
        found(doc! {"a": 1, "b": {"$gt": 1}, "$and": [{"c.d": {"$eq": 2}}, {"e": {"$in": [3]}}]}),
        Ok(r#"[("a", Some(1)), ("c.d", Some(2)), ("e", Some(3))]"#.into())
    );
    assert_eq!(found(doc! {"$or": [{"a": 1}, {"b": 1}]}), Ok("[]".into()));
    assert_eq!(found(doc! {"$and": [{"a": 1}, {"a": 2}]}), Err(54));
    assert_eq!(found(doc! {"a": 1, "a.b": 2}), Err(54));
}

#[test]
fn a_filter_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<Filter>();
}

#[test]
fn explain_spells_a_filter_out() {
    for (filter, expected) in [
        (doc! {}, doc! {}),
        (doc! {"a": 1}, doc! {"a": {"$eq": 1}}),
        (
            doc! {"a": 1, "b": {"$ne": 2}},
            doc! {"$and": [{"a": {"$eq": 1}}, {"b": {"$not": {"$eq": 2}}}]},
        ),
        (
            doc! {"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}},
            doc! {"a": {"$elemMatch": {"$gt": 1, "$lt": 3}}},
        ),
        (
            doc! {"$or": [{"a": {"$in": [2, 1]}}, {"a": {"$exists": false}}]},
            doc! {"$or": [{"a": {"$in": [1, 2]}}, {"a": {"$not": {"$exists": true}}}]},
        ),
    ] {
        let shown = parse(&filter).unwrap().describe();
        assert_eq!(shown, DocBuf::from(expected), "{filter}");
    }
}

#[test]
fn the_table_is_sorted() {
    assert!(FILTERS.is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        (0..levels).fold(DocBuf::from(doc! {"a": 1}), |inner, _| {
            DocBuf::build(|d| {
                d.array("$and").push_doc(inner.as_doc());
            })
        })
    };
    let parse = |levels| Filter::parse(nested(levels).as_doc(), &Scope::default());
    assert!(parse(90).is_ok());
    assert!(parse(1000).is_err());
}
