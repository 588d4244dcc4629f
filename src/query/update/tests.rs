//! Tables over the whole language: document, update, and the resulting document or error code.

#[path = "../../../tests/support/literal.rs"]
#[allow(dead_code)]
mod literal;

use bson::{Bson, Document, doc};

use super::*;
use crate::error::{Code, Result};
use crate::query::{Scope, Vars};
use crate::value::{Doc, DocBuf, Millis, Patch, Value};

const NOW: Millis = Millis(1_700_000_000_123);

/// Applies an update. `words` gives the options between update and result.
pub(super) fn run(document: &Document, update: &Bson, words: &str) -> Result<Option<Document>> {
    let filters = match words.strip_prefix("filters ") {
        Some(filters) => literal::value(filters).expect(filters),
        None => Bson::Array(Vec::new()),
    };
    let wrapped = DocBuf::from(doc! {"u": update, "f": filters});
    let wrapped = wrapped.as_doc();
    let update = Update::parse(wrapped.get("u"), wrapped.get("f").as_array(), &Scope::new())?;
    let vars = Vars::at(NOW);
    let apply = Apply {
        now: NOW,
        vars: &vars,
        position: words.strip_prefix("at ").map(|at| at.parse().expect(at)),
        inserting: words == "inserting",
    };
    let before = DocBuf::from(document);
    let after = update.apply(before.as_doc(), &apply);
    if let Some(edit) = update.edit(before.as_doc(), &apply) {
        // An edit must give the same result as a full rewrite.
        let after = after.as_ref().expect("what fails is no edit");
        assert_eq!(edit == Edit::InPlace(Patch::default()), after.is_none());
        assert_eq!(
            edited(before.bytes(), edit),
            after.as_deref().unwrap_or(before.bytes())
        );
    }
    let after = after?;
    if let Some(after) = after.as_deref().filter(|_| update.lacks_ttl()) {
        assert!(!Doc::new(after).has("ttl"));
    }
    Ok(after.map(|bytes| Document::from_reader(&bytes[..]).expect("a whole document")))
}

fn edited(before: &[u8], edit: Edit) -> Vec<u8> {
    match edit {
        Edit::Rebuilt(bytes) => bytes,
        Edit::InPlace(patch) => {
            let mut bytes = before.to_vec();
            patch.apply(&mut bytes);
            bytes
        }
    }
}

/// Applies an update to a document's bytes, once by a full rewrite and once by an edit.
fn both_ways(before: &[u8], update: Document) -> (Result<Option<Vec<u8>>>, Option<Edit>) {
    let update = DocBuf::from(doc! {"u": update});
    let update = Update::parse(update.as_doc().get("u"), None, &Scope::new()).unwrap();
    let vars = Vars::at(NOW);
    let apply = Apply {
        now: NOW,
        vars: &vars,
        position: None,
        inserting: false,
    };
    let doc = Doc::new(before);
    (update.apply(doc, &apply), update.edit(doc, &apply))
}

#[test]
fn root_fields_are_changed_in_one_walk() {
    enum Way {
        InPlace,
        Rebuilt,
        Rewritten,
    }
    use Way::{InPlace, Rebuilt, Rewritten};
    let before =
        DocBuf::from(doc! {"_id": 1, "n": 1, "x": 2.5, "s": "abc", "t": true, "n2": 7_i64});
    for (update, way) in [
        (doc! {"$inc": {"n": 1}}, InPlace),
        (doc! {"$set": {"s": "xyz"}}, InPlace),
        // A different type of the same width.
        (doc! {"$set": {"x": 3_i64}}, InPlace),
        (doc! {"$max": {"n2": 9_i64}, "$set": {"t": true}}, InPlace),
        (doc! {"$min": {"n": 5}}, InPlace),
        // Wider, narrower, of another type, too wide for a patch, none at all; alone, and after or before values that fit.
        (doc! {"$inc": {"n": 1_i64}}, Rebuilt),
        (doc! {"$set": {"s": "x"}}, Rebuilt),
        (doc! {"$set": {"s": 7}}, Rebuilt),
        (doc! {"$set": {"s": {"a": [1, 2, 3]}}}, Rebuilt),
        (doc! {"$unset": {"n": 1}}, Rebuilt),
        (doc! {"$unset": {"n2": 1, "_none": 1}}, Rewritten),
        (
            doc! {"$inc": {"n": 1}, "$set": {"x": 1_i64, "s": "longer"}},
            Rebuilt,
        ),
        (
            doc! {"$set": {"n": "", "x": 7_i64, "t": false}, "$unset": {"n2": 1}},
            Rebuilt,
        ),
        // New, deeper, wrong, or more than a value.
        (doc! {"$inc": {"n": 1, "new": 1}}, Rewritten),
        (doc! {"$set": {"s.a": 1}}, Rewritten),
        (doc! {"$inc": {"s": 1}}, Rewritten),
        (doc! {"$set": {"_id": 2}}, Rewritten),
        (doc! {"$rename": {"n": "m"}}, Rewritten),
        (doc! {"n": 2}, Rewritten),
    ] {
        let (long, short) = both_ways(before.bytes(), update.clone());
        let is_right = match way {
            InPlace => matches!(short, Some(Edit::InPlace(_))),
            Rebuilt => matches!(short, Some(Edit::Rebuilt(_))),
            Rewritten => short.is_none(),
        };
        assert!(is_right, "{update}: {short:?}");
        if let Some(short) = short {
            let long = long.unwrap().unwrap_or_else(|| before.bytes().to_vec());
            assert_eq!(edited(before.bytes(), short), long, "{update}");
        }
    }
    // If a document has two fields of one name, the first one changes.
    let mut twice = DocBuf::from(doc! {"a": 1, "b": 1}).bytes().to_vec();
    let second = twice.len() - 1 - 7 + 1;
    twice[second] = b'a';
    for new in [bson::Bson::from(2), "text".into()] {
        let (long, short) = both_ways(&twice, doc! {"$set": {"a": new}});
        assert_eq!(long.unwrap(), short.map(|edit| edited(&twice, edit)));
    }
}

#[test]
fn a_replacement_starts_with_the_old_id() {
    let old = doc! {"_id": "x", "n": 1};
    for (replacement, expected) in [
        (doc! {"a": 1}, Ok(doc! {"_id": "x", "a": 1})),
        (doc! {}, Ok(doc! {"_id": "x"})),
        (doc! {"_id": "x", "ttl": 5}, Ok(doc! {"_id": "x", "ttl": 5})),
        (doc! {"a": 1, "_id": "x"}, Ok(doc! {"_id": "x", "a": 1})),
        (doc! {"_id": "x", "_ts": 7}, Ok(doc! {"_id": "x"})),
        (doc! {"_id": "xy", "a": 1}, Err(Code::ImmutableField)),
        (doc! {"_id": 1, "a": 1}, Err(Code::ImmutableField)),
    ] {
        let after = run(&old, &replacement.clone().into(), "");
        let after = after.map(Option::unwrap).map_err(|error| error.code());
        assert_eq!(after, expected, "{replacement}");
    }
    // Either way, the result may not exceed the size limit.
    for front in [true, false] {
        let text = "x".repeat(crate::value::MAX_DOCUMENT);
        let large = match front {
            true => doc! {"_id": "x", "t": text},
            false => doc! {"t": text},
        };
        let after = run(&old, &large.into(), "");
        assert_eq!(after.unwrap_err().code(), Code::Location(17419));
    }
}

/// Checks rows of `document | update | result`, or `document | update | words | result`. A result is a document, `same`,
/// or `error` and a code.
fn check(table: &str) {
    let mut failed = Vec::new();
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let cells: Vec<&str> = row.split(" | ").collect();
        let (document, update, words, wanted) = match *cells {
            [document, update, wanted] => (document, update, "", wanted),
            [document, update, words, wanted] => (document, update, words, wanted),
            _ => panic!("not a row: {row}"),
        };
        let document = literal::value(document).expect(row);
        let update = literal::value(update).expect(row);
        let got = run(document.as_document().expect(row), &update, words);
        let good = match &got {
            Ok(None) => wanted == "same",
            // Compares bytes, because types, field order and NaN count.
            Ok(Some(got)) => literal::value(wanted)
                .ok()
                .and_then(|wanted| wanted.as_document()?.to_vec().ok())
                .is_some_and(|wanted| got.to_vec().is_ok_and(|got| got == wanted)),
            Err(error) => wanted == format!("error {}", error.code().number()),
        };
        if !good {
            failed.push(format!("{row}\n  got {got:?}"));
        }
    }
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn set_and_unset() {
    check(
        r"
        {_id: 1, a: 1} | {$set: {a: 99}} | {_id: 1, a: 99}
        {_id: 1, a: 1} | {$set: {a: 1}} | same
        {_id: 1, a: 1} | {$set: {a: 1.0}} | {_id: 1, a: 1.0}
        {_id: 1} | {$set: {}} | same
        {_id: 1} | {$set: {b: 1, a: 2}} | {_id: 1, a: 2, b: 1}
        {_id: 1} | {$set: {'10': 1, '9': 2}} | {_id: 1, '9': 2, '10': 1}
        {_id: 1} | {$set: {'a.b.c': 1, 'a.d': 2}} | {_id: 1, a: {b: {c: 1}, d: 2}}
        {_id: 1, a: {x: 0}} | {$set: {'a.b': 1}} | {_id: 1, a: {x: 0, b: 1}}
        {_id: 1, a: [1, 2]} | {$set: {'a.0': 9}} | {_id: 1, a: [9, 2]}
        {_id: 1, a: [1]} | {$set: {'a.3': 9}} | {_id: 1, a: [1, null, null, 9]}
        {_id: 1, a: [1]} | {$set: {'a.1': 9, 'a.2': 8}} | {_id: 1, a: [1, 9, 8]}
        {_id: 1, a: [1]} | {$set: {'a.2.x': 8}} | {_id: 1, a: [1, null, {x: 8}]}
        {_id: 1} | {$set: {'a.0': 9}} | {_id: 1, a: {'0': 9}}
        {_id: 1, a: [1]} | {$set: {'a.01': 9}} | {_id: 1, a: [1, 9]}
        {_id: 1, a: [1, 2]} | {$set: {'a.01': 9}} | {_id: 1, a: [1, 9]}
        {_id: 1, a: [1, 2]} | {$set: {'a.01': 9, 'a.1': 8}} | error 40
        {_id: 1, a: [1, 2]} | {$set: {'a.5.b': 9}, $unset: {'a.9': 1}} | {_id: 1, a: [1, 2, null, null, null, {b: 9}]}
        {_id: 1, a: [1]} | {$set: {'a.1600000': 9}} | error 34
        {_id: 1, a: 5} | {$set: {'a.b': 9}} | error 28
        {_id: 1, a: null} | {$set: {'a.b': 9}} | error 28
        {_id: 1, a: [5]} | {$set: {'a.b': 9}} | error 28
        {_id: 1} | {$set: {a: 1, 'a.b': 2}} | error 40
        {_id: 1} | {$set: {'a.b': 1, a: 2}} | error 40
        {_id: 1} | {$set: {a: 1}, $inc: {a: 2}} | error 40
        {_id: 1} | {$set: {_id: 2}} | error 66
        {_id: 1} | {$set: {_id: 1}} | same
        {_id: {x: 1}} | {$set: {'_id.y': 1}} | error 66
        {_id: {x: 1}} | {$set: {'_id.x': 2}} | error 66
        {_id: 1} | {$set: {$bad: 2}} | error 52
        {_id: 1} | {$set: {'a.$bad': 2}} | {_id: 1, a: {$bad: 2}}
        {_id: 1} | {$set: {'': 2}} | error 56
        {_id: 1} | {$set: {_ts: 2}} | error 2
        {_id: 1} | {$set: {'_ts.a': 2}} | error 2
        {_id: 1} | {$set: {'a._ts': 2}} | {_id: 1, a: {_ts: 2}}
        {_id: 1} | {$set: 2} | error 9
        {_id: 1} | {$nope: {a: 2}} | error 9
        {_id: 1} | {$set: {a: 2}, b: 1} | error 9
        {_id: 1} | 'nonsense' | error 9
        {_id: 1, a: 1} | {$unset: {a: ''}} | {_id: 1}
        {_id: 1, a: 1} | {$unset: {b: ''}} | same
        {_id: 1, a: 1} | {$unset: {'a.b.c': ''}} | same
        {_id: 1, a: {b: 1, c: 2}} | {$unset: {'a.b': ''}} | {_id: 1, a: {c: 2}}
        {_id: 1, a: [1, 2, 3]} | {$unset: {'a.1': ''}} | {_id: 1, a: [1, null, 3]}
        {_id: 1, a: [1]} | {$unset: {'a.5': '', 'a.-1': ''}} | same
        {_id: 1} | {$unset: {_id: ''}} | error 66
        {_id: 1} | {$unset: {_ts: ''}} | error 2
        {_id: 1} | {$setOnInsert: {a: 1}} | same
        {_id: 1, a: 1} | {$setOnInsert: {'a.b': 1}} | same
        {_id: 1} | {$setOnInsert: {a: 1}} | inserting | {_id: 1, a: 1}
        ",
    );
}

#[test]
fn inc_mul_min_max_bit() {
    check(
        r"
        {a: 1} | {$inc: {a: 2}} | {a: 3}
        {a: 1} | {$inc: {a: 0}} | same
        {a: 1} | {$inc: {a: NumberLong(0)}} | {a: NumberLong(1)}
        {a: 2147483647} | {$inc: {a: 1}} | {a: NumberLong(2147483648)}
        {a: 9223372036854775807} | {$inc: {a: 1}} | error 2
        {a: 1} | {$inc: {a: 0.5}} | {a: 1.5}
        {a: -0.0} | {$inc: {a: 0.0}} | same
        {a: NaN} | {$inc: {a: 1}} | {a: NaN}
        {a: NumberDecimal('1.5')} | {$inc: {a: 1}} | {a: NumberDecimal('2.5')}
        {x: 0} | {$inc: {a: 5}} | {x: 0, a: 5}
        {a: 's'} | {$inc: {a: 5}} | error 14
        {a: 1} | {$inc: {a: 's'}} | error 14
        {a: [1, 2]} | {$inc: {'a.1': 5}} | {a: [1, 7]}
        {a: 3} | {$mul: {a: 2}} | {a: 6}
        {x: 3} | {$mul: {a: NumberLong(2)}} | {x: 3, a: NumberLong(0)}
        {a: -9223372036854775808} | {$mul: {a: -1}} | error 2
        {_id: 5} | {$mul: {_id: 2}} | error 66
        {a: 3} | {$min: {a: 2}} | {a: 2}
        {a: 3} | {$min: {a: 3.0}} | same
        {a: 3} | {$min: {a: null}} | {a: null}
        {a: 3} | {$max: {a: 'x'}} | {a: 'x'}
        {a: 3} | {$max: {a: 2}} | same
        {x: 3} | {$max: {a: 2}} | {x: 3, a: 2}
        {a: 13} | {$bit: {a: {and: 10}}} | {a: 8}
        {a: 13} | {$bit: {a: {or: 2, xor: 1}}} | {a: 14}
        {a: 13} | {$bit: {a: {and: NumberLong(13)}}} | {a: NumberLong(13)}
        {a: 13} | {$bit: {a: {and: 13}}} | same
        {x: 13} | {$bit: {a: {or: 3}}} | {x: 13, a: 3}
        {a: 1.5} | {$bit: {a: {or: 3}}} | error 2
        {a: 1} | {$bit: {a: {or: 3.0}}} | error 2
        {a: 1} | {$bit: {a: {}}} | error 2
        {a: 1} | {$bit: {a: {nor: 1}}} | error 2
        ",
    );
}

#[test]
fn current_date_and_rename() {
    check(
        r"
        {a: 1} | {$currentDate: {a: true}} | {a: Date(1700000000123)}
        {a: 1} | {$currentDate: {a: false}} | {a: Date(1700000000123)}
        {x: 1} | {$currentDate: {a: {$type: 'timestamp'}}} | {x: 1, a: Timestamp(1700000000, 1)}
        {a: 1} | {$currentDate: {a: {$type: 'time'}}} | error 2
        {a: 1} | {$currentDate: {a: {$kind: 'date'}}} | error 2
        {a: 1} | {$currentDate: {a: 1}} | error 2
        {a: 1, b: 2} | {$rename: {a: 'c'}} | {b: 2, c: 1}
        {a: 1, b: 2} | {$rename: {a: 'b'}} | {b: 1}
        {a: {x: 1}} | {$rename: {'a.x': 'a.y'}} | {a: {y: 1}}
        {a: 1} | {$rename: {a: 'b.c'}} | {b: {c: 1}}
        {a: 1} | {$rename: {z: 'b'}} | same
        {a: 1} | {$rename: {a: 'a'}} | error 2
        {a: 1} | {$rename: {a: 'a.b'}} | error 2
        {a: 1} | {$rename: {a: 1}} | error 2
        {a: 1} | {$rename: {a: 'b\0'}} | error 9867600
        {a: [1]} | {$rename: {'a.0': 'b'}} | error 2
        {a: 1, b: [1]} | {$rename: {a: 'b.0'}} | error 2
        {a: 1} | {$rename: {'a.b': 'c'}} | error 28
        {a: 1, b: 2} | {$rename: {a: 'b.x'}} | error 28
        {_id: 1} | {$rename: {_id: 'x'}} | error 66
        {_id: 1, a: 2} | {$rename: {a: '_id'}} | error 66
        {_id: 1, a: 1} | {$rename: {a: '_id'}} | error 66
        {a: 1} | {$rename: {a: 'b', b: 'c'}} | error 40
        {a: 1} | {$rename: {a: 'b'}, $set: {a: 1}} | error 40
        {a: 1} | {$rename: {a: '_ts'}} | error 2
        {a: 1} | {$rename: {'a.$': 'b'}} | error 2
        ",
    );
}

#[test]
fn push_and_add_to_set() {
    check(
        r"
        {a: [1]} | {$push: {a: 2}} | {a: [1, 2]}
        {x: 1} | {$push: {a: 2}} | {x: 1, a: [2]}
        {a: 1} | {$push: {a: 2}} | error 2
        {a: [1]} | {$push: {a: [2]}} | {a: [1, [2]]}
        {a: [1]} | {$push: {a: {$sort: 1}}} | {a: [1, {$sort: 1}]}
        {a: [1]} | {$push: {a: {$each: [2, 3]}}} | {a: [1, 2, 3]}
        {a: [1]} | {$push: {a: {$each: []}}} | same
        {x: 1} | {$push: {a: {$each: []}}} | {x: 1, a: []}
        {a: [1, 4]} | {$push: {a: {$each: [2, 3], $position: 1}}} | {a: [1, 2, 3, 4]}
        {a: [1, 4]} | {$push: {a: {$each: [2], $position: -1}}} | {a: [1, 2, 4]}
        {a: [1, 4]} | {$push: {a: {$each: [2], $position: -9}}} | {a: [2, 1, 4]}
        {a: [1, 4]} | {$push: {a: {$each: [2], $position: 9}}} | {a: [1, 4, 2]}
        {a: [3, 1]} | {$push: {a: {$each: [2], $sort: -1}}} | {a: [3, 2, 1]}
        {a: [3, 1]} | {$push: {a: {$each: [2], $slice: 2}}} | {a: [3, 1]}
        {a: [3, 1]} | {$push: {a: {$each: [2], $slice: -2}}} | {a: [1, 2]}
        {a: [3, 1]} | {$push: {a: {$each: [], $slice: 0}}} | {a: []}
        {a: [3, 1]} | {$push: {a: {$each: [], $slice: 5}}} | same
        {a: [{s: 5}, 3, {s: 1}]} | {$push: {a: {$each: [{s: 2, t: 1}, {s: 2, t: 0}], $sort: {s: 1, t: -1}}}} | {a: [3, {s: 1}, {s: 2, t: 1}, {s: 2, t: 0}, {s: 5}]}
        {a: [1]} | {$push: {a: {$each: 1}}} | error 2
        {a: [1]} | {$push: {a: {$each: [], $x: 1}}} | error 2
        {a: [1]} | {$push: {a: {$each: [], $slice: 1.5}}} | error 2
        {a: [1]} | {$push: {a: {$each: [], $position: 'x'}}} | error 2
        {a: [1]} | {$push: {a: {$each: [], $sort: 0}}} | error 2
        {a: [1]} | {$push: {a: {$each: [], $sort: {}}}} | error 2
        {a: [1]} | {$push: {a: {$each: [], $sort: {'a.': 1}}}} | error 2
        {a: [1]} | {$push: {a: {$each: [], $sort: 'x'}}} | error 2
        {a: [1]} | {$addToSet: {a: 2}} | {a: [1, 2]}
        {a: [1]} | {$addToSet: {a: 1.0}} | same
        {a: [{x: 1}]} | {$addToSet: {a: {x: NumberLong(1)}}} | same
        {a: [1]} | {$addToSet: {a: {$each: [3, 2, 3, 1]}}} | {a: [1, 3, 2]}
        {x: 1} | {$addToSet: {a: {$each: [3, 3]}}} | {x: 1, a: [3]}
        {a: 1} | {$addToSet: {a: 2}} | error 2
        {a: [1]} | {$addToSet: {a: {$each: 2}}} | error 14
        {a: [1]} | {$addToSet: {a: {$each: [2], $sort: 1}}} | error 2
        ",
    );
}

#[test]
fn pop_and_pull() {
    check(
        r"
        {a: [1, 2, 3]} | {$pop: {a: 1}} | {a: [1, 2]}
        {a: [1, 2, 3]} | {$pop: {a: -1.0}} | {a: [2, 3]}
        {a: []} | {$pop: {a: 1}} | same
        {x: []} | {$pop: {a: 1}} | same
        {a: {b: 1}} | {$pop: {'a.c': 1}} | same
        {a: 1} | {$pop: {a: 1}} | error 14
        {a: 1} | {$pop: {'a.b': 1}} | error 28
        {a: [{b: [1]}]} | {$pop: {'a.b': 1}} | error 28
        {a: [1]} | {$pop: {a: 2}} | error 9
        {a: [1]} | {$pop: {a: 0.5}} | error 9
        {a: [1]} | {$pop: {a: 'x'}} | error 9
        {a: [1, 2, 1.0]} | {$pull: {a: 1}} | {a: [2]}
        {a: [1, 2]} | {$pull: {a: 3}} | same
        {a: [1, 5, 9]} | {$pull: {a: {$gte: 5}}} | {a: [1]}
        {a: [{x: 1, y: 1}, {x: 2}, 1]} | {$pull: {a: {x: 1}}} | {a: [{x: 2}, 1]}
        {a: [[1], [2]]} | {$pull: {a: [1]}} | {a: [[2]]}
        {a: [{x: 1}, {y: 2}, {x: 3}, 1]} | {$pull: {a: {$or: [{x: 1}, {y: 2}]}}} | {a: [{x: 3}, 1]}
        {a: 1} | {$pull: {a: 1}} | error 2
        {a: [1]} | {$pull: {a: {$bad: 1}}} | error 2
        {a: 1} | {$pull: {'a.b': 1}} | error 28
        {x: 1} | {$pull: {a: 1}} | same
        {a: [1, 2, 3, 2]} | {$pullAll: {a: [2.0, 3]}} | {a: [1]}
        {a: [1]} | {$pullAll: {a: 1}} | error 2
        ",
    );
}

#[test]
fn positions_and_array_filters() {
    check(
        r"
        {a: [1, 2, 3]} | {$set: {'a.$': 9}} | at 1 | {a: [1, 9, 3]}
        {a: [1, 2, 3]} | {$set: {'a.$': 9}} | error 2
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$inc: {'a.$.x': 1}} | at 2 | {a: [{x: 1}, {x: 5}, {x: 10}]}
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$.x': 1, 'a.2.y': 1}} | at 2 | {a: [{x: 1}, {x: 5}, {x: 1, y: 1}]}
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$.x': 1, 'a.2.x': 1}} | at 2 | error 40
        {a: [1, 2]} | {$inc: {'a.$[]': 1}} | {a: [2, 3]}
        {a: []} | {$inc: {'a.$[]': 1}} | same
        {x: []} | {$inc: {'a.$[]': 1}} | error 2
        {a: 5} | {$inc: {'a.$[]': 1}} | error 2
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0}} | filters [{'e.x': {$gt: 1}}] | {a: [{x: 1}, {x: 5, y: 0}, {x: 9, y: 0}]}
        {a: [1, 5]} | {$set: {'a.$[e]': 0}} | filters [{e: {$gt: 1}}] | {a: [1, 0]}
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0, 'a.$[].z': 1}} | filters [{'e.x': {$gt: 1}}] | {a: [{x: 1, z: 1}, {x: 5, y: 0, z: 1}, {x: 9, y: 0, z: 1}]}
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0, 'a.$[].y': 1}} | filters [{'e.x': 9}] | error 40
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0}} | error 2
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[].y': 0}} | filters [{'e.x': 9}] | error 9
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0}} | filters [{'e.x': 9, f: 1}] | error 9
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0}} | filters [{'e.x': 9}, {e: 1}] | error 9
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[E].y': 0}} | filters [{'E.x': 9}] | error 2
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0}} | filters [{}] | error 9
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[e].y': 0}} | filters [{$text: {$search: 'x'}}] | error 2
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'a.$[].y': 0, 'a.0.y': 1}} | error 40
        {a: [{x: 1}, {x: 5}, {x: 9}]} | {$set: {'$[].y': 0}} | error 2
        ",
    );
}

#[test]
fn pipelines() {
    check(
        r"
        {_id: 1, a: 1} | [{$set: {b: '$a', a: 2}}] | {_id: 1, a: 2, b: 1}
        {_id: 1, a: 1} | [{$set: {a: 1}}] | same
        {_id: 1, a: 1} | [] | same
        {_id: 1, a: 1, b: 2} | [{$unset: 'a'}, {$addFields: {c: '$b'}}] | {_id: 1, b: 2, c: 2}
        {_id: 1, a: 1, b: 2} | [{$project: {b: 1}}] | {_id: 1, b: 2}
        {_id: 1, a: 1, b: 2} | [{$project: {_id: 0, b: 1}}] | {_id: 1, b: 2}
        {_id: 1, n: {x: 1}} | [{$replaceWith: '$n'}] | {_id: 1, x: 1}
        {_id: 1, n: {x: 1}} | [{$replaceRoot: {newRoot: {a: '$n.x'}}}] | {_id: 1, a: 1}
        {_id: 1, a: 1} | [{$set: {_id: 2}}] | error 66
        {_id: 1, a: 1} | [{$match: {a: 1}}] | error 72
        {_id: 1, a: 1} | [{$nope: {a: 1}}] | error 40324
        {_id: 1, a: 1} | [{$set: {_ts: 1}}] | error 2
        {_id: 1, a: 1} | [{$unset: ['a', '_ts']}] | error 2
        {_id: 1, a: 1} | [{$project: {_ts: '$a'}}] | error 2
        {_id: 1, n: {x: 1, _ts: 2}} | [{$replaceWith: '$n'}] | {_id: 1, x: 1}
        {_id: 1, a: 1} | [{$set: {a: 2}}] | filters [{x: 1}] | error 9
        ",
    );
}

#[test]
fn replacement() {
    check(
        r"
        {_id: 1, a: 1} | {b: 2} | {_id: 1, b: 2}
        {_id: 1, a: 1} | {} | {_id: 1}
        {_id: 1, a: 1} | {b: 2, _id: 1} | {_id: 1, b: 2}
        {_id: 1, a: 1} | {_id: 1, a: 1} | same
        {_id: 1, a: 1} | {_id: 2, a: 1} | error 66
        {_id: 1, a: 1} | {b: 2, $set: 1} | error 52
        {_id: 1, a: 1} | {b: {$x: 1}} | {_id: 1, b: {$x: 1}}
        {_id: 1, a: 1} | {b: 2, _ts: 5} | {_id: 1, b: 2}
        {_id: 1} | {t: Timestamp(0, 0), d: {t: Timestamp(0, 0)}} | {_id: 1, t: Timestamp(1700000000, 1), d: {t: Timestamp(0, 0)}}
        ",
    );
}

#[test]
fn upserts() {
    let vars = Vars::at(NOW);
    let apply = Apply {
        now: NOW,
        vars: &vars,
        position: None,
        inserting: false,
    };
    let one = Value::int32(1);
    let two = Value::int32(2);
    let list = DocBuf::from(doc! {"v": [1, 2]})
        .as_doc()
        .get("v")
        .to_value();
    type Pairs<'a> = Vec<(&'a str, &'a Value)>;
    let rows: Vec<(Pairs<'_>, Document, Result<Document, i32>)> = vec![
        (
            vec![("_id", &one)],
            doc! {"$set": {"x": 5}},
            Ok(doc! {"_id": 1, "x": 5}),
        ),
        (
            vec![("b", &one), ("a", &two)],
            doc! {"$inc": {"b": 5}},
            Ok(doc! {"_id": 7, "a": 2, "b": 6}),
        ),
        (
            vec![("a.b", &one)],
            doc! {"$set": {"a.c": 2}},
            Ok(doc! {"_id": 7, "a": {"b": 1, "c": 2}}),
        ),
        (
            vec![("a", &one)],
            doc! {"b": 2},
            Ok(doc! {"_id": 7, "b": 2}),
        ),
        (
            vec![("a", &one), ("_id", &two)],
            doc! {"b": 2},
            Ok(doc! {"_id": 2, "b": 2}),
        ),
        (vec![("_id", &two)], doc! {"b": 2, "_id": 3}, Err(66)),
        (
            vec![("_id", &one)],
            doc! {"$setOnInsert": {"x": 5}},
            Ok(doc! {"_id": 1, "x": 5}),
        ),
        (
            vec![("_id", &one)],
            doc! {"$setOnInsert": {"_id": 5}},
            Err(66),
        ),
        (
            vec![("_id.a", &one)],
            doc! {"$setOnInsert": {"_id.b": 5}},
            Err(66),
        ),
        (
            vec![],
            doc! {"$set": {"x": 1, "_id": 5}},
            Ok(doc! {"_id": 5, "x": 1}),
        ),
        (
            vec![("_id", &one), ("a", &list)],
            doc! {"$set": {"a.$[]": 0}},
            Ok(doc! {"_id": 1, "a": [0, 0]}),
        ),
        (vec![("a", &one)], doc! {"$set": {"a.$": 0}}, Err(2)),
        (
            vec![("_ts", &one)],
            doc! {"$set": {"a": 0}},
            Ok(doc! {"_id": 7, "a": 0}),
        ),
        (vec![], doc! {"_id": [1]}, Err(54)),
    ];
    for (equalities, update, want) in rows {
        let wrapped = DocBuf::from(&update);
        let spec = crate::value::ValueRef::document(wrapped.as_doc());
        let parsed = Update::parse(spec, None, &Scope::new()).unwrap();
        let got = parsed
            .upsert(&equalities, &apply, || Value::int32(7))
            .map(|bytes| Document::from_reader(&bytes[..]).unwrap())
            .map_err(|error| error.code().number());
        assert_eq!(got, want, "{equalities:?} {update}");
    }
}

#[test]
fn too_deep_and_too_large_are_refused() {
    let mut deep = doc! {"x": 1};
    for _ in 0..178 {
        deep = doc! {"a": deep};
    }
    let big = "x".repeat(9 << 20);
    // A path is walked recursively, so this one would overflow the stack.
    let long = vec!["x"; 100_000].join(".");
    let too_deep = vec!["x"; 255].join(".");
    for (before, update, code) in [
        (doc! {"_id": 1}, doc! {"$set": {&long: 1}}, 10_396_001),
        (doc! {"_id": 1}, doc! {"$unset": {&long: 1}}, 10_396_001),
        (doc! {"_id": 1}, doc! {"$rename": {"a": &long}}, 10_396_001),
        (doc! {"_id": 1}, doc! {"$set": {&too_deep: 1}}, 15),
        (doc! {"_id": 1}, doc! {"$set": {"a": deep.clone()}}, 0),
        (doc! {"_id": 1}, doc! {"$set": {"a.b": deep.clone()}}, 15),
        (
            doc! {"_id": 1, "a": deep.clone()},
            doc! {"$rename": {"a": "b.c"}},
            15,
        ),
        (
            doc! {"_id": 1, "a": &big},
            doc! {"$set": {"b": &big}},
            17419,
        ),
        (
            doc! {"_id": 1, "a": [1, 2, 3]},
            doc! {"$set": {"a.$[]": &big}},
            17419,
        ),
    ] {
        let got = run(&before, &update.into(), "")
            .err()
            .map_or(0, |error| error.code().number());
        assert_eq!(got, code);
    }
}
