//! Tables over the whole language: document, update, and the document or code that comes of it. Then the laws: operators
//! agree with a plain model, and an update that fails or changes nothing leaves no trace.

use bson::{Bson, Decimal128, Document, bson, doc};
use proptest::prelude::*;

use super::*;
use crate::query::Vars;
use crate::value::{Doc, DocBuf, Millis};

const NOW: Millis = Millis(1_700_000_000_123);

/// What is expected of an update.
enum Expect {
    Is(Document),
    Same,
    Code(i32),
}
use Expect::{Code, Is, Same};

struct Row {
    doc: Document,
    update: Bson,
    filters: Vec<Bson>,
    position: Option<usize>,
    inserting: bool,
    expect: Expect,
}

fn row(doc: Document, update: impl Into<Bson>, expect: Expect) -> Row {
    Row {
        doc,
        update: update.into(),
        filters: Vec::new(),
        position: None,
        inserting: false,
        expect,
    }
}

impl Row {
    fn filters(mut self, filters: impl IntoIterator<Item = Document>) -> Self {
        self.filters = filters.into_iter().map(Bson::from).collect();
        self
    }

    fn position(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    fn inserting(mut self) -> Self {
        self.inserting = true;
        self
    }
}

fn parse(update: &Bson, filters: &[Bson]) -> Result<Update> {
    let wrapped = DocBuf::from(doc! {"u": update.clone(), "f": filters.to_vec()});
    let wrapped = wrapped.as_doc();
    Update::parse(wrapped.get("u"), wrapped.get("f").as_array(), &Scope::new())
}

fn run(row: &Row) -> Result<Option<Vec<u8>>> {
    let update = parse(&row.update, &row.filters)?;
    let doc = DocBuf::from(&row.doc);
    let vars = Vars::at(NOW);
    let apply = Apply {
        now: NOW,
        vars: &vars,
        position: row.position,
        inserting: row.inserting,
    };
    update.apply(doc.as_doc(), &apply)
}

fn check(rows: Vec<Row>) {
    let mut failed = Vec::new();
    for row in rows {
        let got = run(&row);
        let good = match (&got, &row.expect) {
            (Ok(Some(got)), Is(want)) => *got == want.to_vec().unwrap(),
            (Ok(None), Same) => true,
            (Err(error), Code(code)) => error.code().number() == *code,
            _ => false,
        };
        if !good {
            let got = got.map(|got| got.map(|got| Doc::new(&got).to_owned_text()));
            let want = match row.expect {
                Is(doc) => doc.to_string(),
                Same => "no change".to_owned(),
                Code(code) => format!("code {code}"),
            };
            let text = format!(
                "{} on {}\n  got  {got:?}\n  want {want}",
                row.update, row.doc
            );
            failed.push(text.chars().take(1000).collect::<String>());
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

trait Text {
    fn to_owned_text(self) -> String;
}

impl Text for Doc<'_> {
    fn to_owned_text(self) -> String {
        Document::from_reader(self.bytes())
            .map_or_else(|error| error.to_string(), |doc| doc.to_string())
    }
}

fn dec(text: &str) -> Decimal128 {
    text.parse().unwrap()
}

#[test]
fn the_table_is_sorted() {
    assert!(UPDATES.is_sorted_by(|a, b| a.name < b.name));
}

#[test]
fn set_and_unset() {
    check(vec![
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"$set": {"a": 99}},
            Is(doc! {"_id": 1, "a": 99}),
        ),
        row(doc! {"_id": 1, "a": 1}, doc! {"$set": {"a": 1}}, Same),
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"$set": {"a": 1.0}},
            Is(doc! {"_id": 1, "a": 1.0}),
        ),
        row(doc! {"_id": 1}, doc! {"$set": {}}, Same),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"b": 1, "a": 2}},
            Is(doc! {"_id": 1, "a": 2, "b": 1}),
        ),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"10": 1, "9": 2}},
            Is(doc! {"_id": 1, "9": 2, "10": 1}),
        ),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"a.b.c": 1, "a.d": 2}},
            Is(doc! {"_id": 1, "a": {"b": {"c": 1}, "d": 2}}),
        ),
        row(
            doc! {"_id": 1, "a": {"x": 0}},
            doc! {"$set": {"a.b": 1}},
            Is(doc! {"_id": 1, "a": {"x": 0, "b": 1}}),
        ),
        row(
            doc! {"_id": 1, "a": [1, 2]},
            doc! {"$set": {"a.0": 9}},
            Is(doc! {"_id": 1, "a": [9, 2]}),
        ),
        row(
            doc! {"_id": 1, "a": [1]},
            doc! {"$set": {"a.3": 9}},
            Is(doc! {"_id": 1, "a": [1, null, null, 9]}),
        ),
        row(
            doc! {"_id": 1, "a": [1]},
            doc! {"$set": {"a.1": 9, "a.2": 8}},
            Is(doc! {"_id": 1, "a": [1, 9, 8]}),
        ),
        row(
            doc! {"_id": 1, "a": [1]},
            doc! {"$set": {"a.2.x": 8}},
            Is(doc! {"_id": 1, "a": [1, null, {"x": 8}]}),
        ),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"a.0": 9}},
            Is(doc! {"_id": 1, "a": {"0": 9}}),
        ),
        row(
            doc! {"_id": 1, "a": [1]},
            doc! {"$set": {"a.1600000": 9}},
            Code(33),
        ),
        row(doc! {"_id": 1, "a": 5}, doc! {"$set": {"a.b": 9}}, Code(28)),
        row(
            doc! {"_id": 1, "a": null},
            doc! {"$set": {"a.b": 9}},
            Code(28),
        ),
        row(
            doc! {"_id": 1, "a": [5]},
            doc! {"$set": {"a.b": 9}},
            Code(28),
        ),
        row(doc! {"_id": 1}, doc! {"$set": {"a": 1, "a.b": 2}}, Code(40)),
        row(doc! {"_id": 1}, doc! {"$set": {"a.b": 1, "a": 2}}, Code(40)),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"a": 1}, "$inc": {"a": 2}},
            Code(40),
        ),
        row(doc! {"_id": 1}, doc! {"$set": {"_id": 2}}, Code(66)),
        row(doc! {"_id": 1}, doc! {"$set": {"_id": 1}}, Same),
        row(
            doc! {"_id": {"x": 1}},
            doc! {"$set": {"_id.y": 1}},
            Code(66),
        ),
        row(
            doc! {"_id": {"x": 1}},
            doc! {"$set": {"_id.x": 2}},
            Code(66),
        ),
        row(doc! {"_id": 1}, doc! {"$set": {"$bad": 2}}, Code(52)),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"a.$bad": 2}},
            Is(doc! {"_id": 1, "a": {"$bad": 2}}),
        ),
        row(doc! {"_id": 1}, doc! {"$set": {"": 2}}, Code(56)),
        row(doc! {"_id": 1}, doc! {"$set": {"_ts": 2}}, Code(2)),
        row(doc! {"_id": 1}, doc! {"$set": {"_ts.a": 2}}, Code(2)),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"a._ts": 2}},
            Is(doc! {"_id": 1, "a": {"_ts": 2}}),
        ),
        row(doc! {"_id": 1}, doc! {"$set": 2}, Code(9)),
        row(doc! {"_id": 1}, doc! {"$nope": {"a": 2}}, Code(9)),
        row(doc! {"_id": 1}, doc! {"$set": {"a": 2}, "b": 1}, Code(9)),
        row(doc! {"_id": 1}, "nonsense", Code(9)),
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"$unset": {"a": ""}},
            Is(doc! {"_id": 1}),
        ),
        row(doc! {"_id": 1, "a": 1}, doc! {"$unset": {"b": ""}}, Same),
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"$unset": {"a.b.c": ""}},
            Same,
        ),
        row(
            doc! {"_id": 1, "a": {"b": 1, "c": 2}},
            doc! {"$unset": {"a.b": ""}},
            Is(doc! {"_id": 1, "a": {"c": 2}}),
        ),
        row(
            doc! {"_id": 1, "a": [1, 2, 3]},
            doc! {"$unset": {"a.1": ""}},
            Is(doc! {"_id": 1, "a": [1, null, 3]}),
        ),
        row(
            doc! {"_id": 1, "a": [1]},
            doc! {"$unset": {"a.5": "", "a.-1": ""}},
            Same,
        ),
        row(doc! {"_id": 1}, doc! {"$unset": {"_id": ""}}, Code(66)),
        row(doc! {"_id": 1}, doc! {"$unset": {"_ts": ""}}, Code(2)),
        row(doc! {"_id": 1}, doc! {"$setOnInsert": {"a": 1}}, Same),
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"$setOnInsert": {"a.b": 1}},
            Same,
        ),
        row(
            doc! {"_id": 1},
            doc! {"$setOnInsert": {"a": 1}},
            Is(doc! {"_id": 1, "a": 1}),
        )
        .inserting(),
    ]);
}

#[test]
fn inc_mul_min_max_bit() {
    check(vec![
        row(doc! {"a": 1}, doc! {"$inc": {"a": 2}}, Is(doc! {"a": 3})),
        row(doc! {"a": 1}, doc! {"$inc": {"a": 0}}, Same),
        row(
            doc! {"a": 1},
            doc! {"$inc": {"a": 0i64}},
            Is(doc! {"a": 1i64}),
        ),
        row(
            doc! {"a": i32::MAX},
            doc! {"$inc": {"a": 1}},
            Is(doc! {"a": 2_147_483_648i64}),
        ),
        row(doc! {"a": i64::MAX}, doc! {"$inc": {"a": 1}}, Code(2)),
        row(
            doc! {"a": 1},
            doc! {"$inc": {"a": 0.5}},
            Is(doc! {"a": 1.5}),
        ),
        row(doc! {"a": -0.0}, doc! {"$inc": {"a": 0.0}}, Same),
        row(
            doc! {"a": f64::NAN},
            doc! {"$inc": {"a": 1}},
            Is(doc! {"a": f64::NAN}),
        ),
        row(
            doc! {"a": dec("1.5")},
            doc! {"$inc": {"a": 1}},
            Is(doc! {"a": dec("2.5")}),
        ),
        row(
            doc! {"x": 0},
            doc! {"$inc": {"a": 5}},
            Is(doc! {"x": 0, "a": 5}),
        ),
        row(doc! {"a": "s"}, doc! {"$inc": {"a": 5}}, Code(14)),
        row(doc! {"a": 1}, doc! {"$inc": {"a": "s"}}, Code(14)),
        row(
            doc! {"a": [1, 2]},
            doc! {"$inc": {"a.1": 5}},
            Is(doc! {"a": [1, 7]}),
        ),
        row(doc! {"a": 3}, doc! {"$mul": {"a": 2}}, Is(doc! {"a": 6})),
        row(
            doc! {"x": 3},
            doc! {"$mul": {"a": 2i64}},
            Is(doc! {"x": 3, "a": 0i64}),
        ),
        row(doc! {"a": i64::MIN}, doc! {"$mul": {"a": -1}}, Code(2)),
        row(doc! {"_id": 5}, doc! {"$mul": {"_id": 2}}, Code(66)),
        row(doc! {"a": 3}, doc! {"$min": {"a": 2}}, Is(doc! {"a": 2})),
        row(doc! {"a": 3}, doc! {"$min": {"a": 3.0}}, Same),
        row(
            doc! {"a": 3},
            doc! {"$min": {"a": null}},
            Is(doc! {"a": null}),
        ),
        row(
            doc! {"a": 3},
            doc! {"$max": {"a": "x"}},
            Is(doc! {"a": "x"}),
        ),
        row(doc! {"a": 3}, doc! {"$max": {"a": 2}}, Same),
        row(
            doc! {"x": 3},
            doc! {"$max": {"a": 2}},
            Is(doc! {"x": 3, "a": 2}),
        ),
        row(
            doc! {"a": 13},
            doc! {"$bit": {"a": {"and": 10}}},
            Is(doc! {"a": 8}),
        ),
        row(
            doc! {"a": 13},
            doc! {"$bit": {"a": {"or": 2, "xor": 1}}},
            Is(doc! {"a": 14}),
        ),
        row(
            doc! {"a": 13},
            doc! {"$bit": {"a": {"and": 13i64}}},
            Is(doc! {"a": 13i64}),
        ),
        row(doc! {"a": 13}, doc! {"$bit": {"a": {"and": 13}}}, Same),
        row(
            doc! {"x": 13},
            doc! {"$bit": {"a": {"or": 3}}},
            Is(doc! {"x": 13, "a": 3}),
        ),
        row(doc! {"a": 1.5}, doc! {"$bit": {"a": {"or": 3}}}, Code(2)),
        row(doc! {"a": 1}, doc! {"$bit": {"a": {"or": 3.0}}}, Code(2)),
        row(doc! {"a": 1}, doc! {"$bit": {"a": {}}}, Code(2)),
        row(doc! {"a": 1}, doc! {"$bit": {"a": {"nor": 1}}}, Code(2)),
    ]);
}

#[test]
fn current_date_and_rename() {
    let now = bson::DateTime::from_millis(NOW.0);
    let stamp = bson::Timestamp {
        time: 1_700_000_000,
        increment: 1,
    };
    check(vec![
        row(
            doc! {"a": 1},
            doc! {"$currentDate": {"a": true}},
            Is(doc! {"a": now}),
        ),
        row(
            doc! {"a": 1},
            doc! {"$currentDate": {"a": false}},
            Is(doc! {"a": now}),
        ),
        row(
            doc! {"x": 1},
            doc! {"$currentDate": {"a": {"$type": "timestamp"}}},
            Is(doc! {"x": 1, "a": stamp}),
        ),
        row(
            doc! {"a": 1},
            doc! {"$currentDate": {"a": {"$type": "time"}}},
            Code(2),
        ),
        row(
            doc! {"a": 1},
            doc! {"$currentDate": {"a": {"$kind": "date"}}},
            Code(2),
        ),
        row(doc! {"a": 1}, doc! {"$currentDate": {"a": 1}}, Code(2)),
        row(
            doc! {"a": 1, "b": 2},
            doc! {"$rename": {"a": "c"}},
            Is(doc! {"b": 2, "c": 1}),
        ),
        row(
            doc! {"a": 1, "b": 2},
            doc! {"$rename": {"a": "b"}},
            Is(doc! {"b": 1}),
        ),
        row(
            doc! {"a": {"x": 1}},
            doc! {"$rename": {"a.x": "a.y"}},
            Is(doc! {"a": {"y": 1}}),
        ),
        row(
            doc! {"a": 1},
            doc! {"$rename": {"a": "b.c"}},
            Is(doc! {"b": {"c": 1}}),
        ),
        row(doc! {"a": 1}, doc! {"$rename": {"z": "b"}}, Same),
        row(doc! {"a": 1}, doc! {"$rename": {"a": "a"}}, Code(2)),
        row(doc! {"a": 1}, doc! {"$rename": {"a": "a.b"}}, Code(2)),
        row(doc! {"a": 1}, doc! {"$rename": {"a": 1}}, Code(2)),
        row(
            doc! {"a": 1},
            doc! {"$rename": {"a": "b\0"}},
            Code(9_867_600),
        ),
        row(doc! {"a": [1]}, doc! {"$rename": {"a.0": "b"}}, Code(2)),
        row(
            doc! {"a": 1, "b": [1]},
            doc! {"$rename": {"a": "b.0"}},
            Code(2),
        ),
        row(doc! {"a": 1}, doc! {"$rename": {"a.b": "c"}}, Code(28)),
        row(
            doc! {"a": 1, "b": 2},
            doc! {"$rename": {"a": "b.x"}},
            Code(28),
        ),
        row(doc! {"_id": 1}, doc! {"$rename": {"_id": "x"}}, Code(66)),
        row(
            doc! {"_id": 1, "a": 2},
            doc! {"$rename": {"a": "_id"}},
            Code(66),
        ),
        row(
            doc! {"a": 1},
            doc! {"$rename": {"a": "b", "b": "c"}},
            Code(40),
        ),
        row(
            doc! {"a": 1},
            doc! {"$rename": {"a": "b"}, "$set": {"a": 1}},
            Code(40),
        ),
        row(doc! {"a": 1}, doc! {"$rename": {"a": "_ts"}}, Code(2)),
        row(doc! {"a": 1}, doc! {"$rename": {"a.$": "b"}}, Code(2)),
    ]);
}

#[test]
fn push_and_add_to_set() {
    let push = |spec: Bson| doc! {"$push": {"a": spec}};
    check(vec![
        row(doc! {"a": [1]}, push(bson!(2)), Is(doc! {"a": [1, 2]})),
        row(doc! {"x": 1}, push(bson!(2)), Is(doc! {"x": 1, "a": [2]})),
        row(doc! {"a": 1}, push(bson!(2)), Code(2)),
        row(doc! {"a": [1]}, push(bson!([2])), Is(doc! {"a": [1, [2]]})),
        row(
            doc! {"a": [1]},
            push(bson!({"$sort": 1})),
            Is(doc! {"a": [1, {"$sort": 1}]}),
        ),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [2, 3]})),
            Is(doc! {"a": [1, 2, 3]}),
        ),
        row(doc! {"a": [1]}, push(bson!({"$each": []})), Same),
        row(
            doc! {"x": 1},
            push(bson!({"$each": []})),
            Is(doc! {"x": 1, "a": []}),
        ),
        row(
            doc! {"a": [1, 4]},
            push(bson!({"$each": [2, 3], "$position": 1})),
            Is(doc! {"a": [1, 2, 3, 4]}),
        ),
        row(
            doc! {"a": [1, 4]},
            push(bson!({"$each": [2], "$position": -1})),
            Is(doc! {"a": [1, 2, 4]}),
        ),
        row(
            doc! {"a": [1, 4]},
            push(bson!({"$each": [2], "$position": -9})),
            Is(doc! {"a": [2, 1, 4]}),
        ),
        row(
            doc! {"a": [1, 4]},
            push(bson!({"$each": [2], "$position": 9})),
            Is(doc! {"a": [1, 4, 2]}),
        ),
        row(
            doc! {"a": [3, 1]},
            push(bson!({"$each": [2], "$sort": -1})),
            Is(doc! {"a": [3, 2, 1]}),
        ),
        row(
            doc! {"a": [3, 1]},
            push(bson!({"$each": [2], "$slice": 2})),
            Is(doc! {"a": [3, 1]}),
        ),
        row(
            doc! {"a": [3, 1]},
            push(bson!({"$each": [2], "$slice": -2})),
            Is(doc! {"a": [1, 2]}),
        ),
        row(
            doc! {"a": [3, 1]},
            push(bson!({"$each": [], "$slice": 0})),
            Is(doc! {"a": []}),
        ),
        row(
            doc! {"a": [3, 1]},
            push(bson!({"$each": [], "$slice": 5})),
            Same,
        ),
        row(
            doc! {"a": [{"s": 5}, 3, {"s": 1}]},
            push(
                bson!({"$each": [{"s": 2, "t": 1}, {"s": 2, "t": 0}], "$sort": {"s": 1, "t": -1}}),
            ),
            Is(doc! {"a": [3, {"s": 1}, {"s": 2, "t": 1}, {"s": 2, "t": 0}, {"s": 5}]}),
        ),
        row(doc! {"a": [1]}, push(bson!({"$each": 1})), Code(2)),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [], "$x": 1})),
            Code(2),
        ),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [], "$slice": 1.5})),
            Code(2),
        ),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [], "$position": "x"})),
            Code(2),
        ),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [], "$sort": 0})),
            Code(2),
        ),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [], "$sort": {}})),
            Code(2),
        ),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [], "$sort": {"a.": 1}})),
            Code(2),
        ),
        row(
            doc! {"a": [1]},
            push(bson!({"$each": [], "$sort": "x"})),
            Code(2),
        ),
        row(
            doc! {"a": [1]},
            doc! {"$addToSet": {"a": 2}},
            Is(doc! {"a": [1, 2]}),
        ),
        row(doc! {"a": [1]}, doc! {"$addToSet": {"a": 1.0}}, Same),
        row(
            doc! {"a": [{"x": 1}]},
            doc! {"$addToSet": {"a": {"x": 1i64}}},
            Same,
        ),
        row(
            doc! {"a": [1]},
            doc! {"$addToSet": {"a": {"$each": [3, 2, 3, 1]}}},
            Is(doc! {"a": [1, 3, 2]}),
        ),
        row(
            doc! {"x": 1},
            doc! {"$addToSet": {"a": {"$each": [3, 3]}}},
            Is(doc! {"x": 1, "a": [3]}),
        ),
        row(doc! {"a": 1}, doc! {"$addToSet": {"a": 2}}, Code(2)),
        row(
            doc! {"a": [1]},
            doc! {"$addToSet": {"a": {"$each": 2}}},
            Code(14),
        ),
        row(
            doc! {"a": [1]},
            doc! {"$addToSet": {"a": {"$each": [2], "$sort": 1}}},
            Code(2),
        ),
    ]);
}

#[test]
fn pop_and_pull() {
    check(vec![
        row(
            doc! {"a": [1, 2, 3]},
            doc! {"$pop": {"a": 1}},
            Is(doc! {"a": [1, 2]}),
        ),
        row(
            doc! {"a": [1, 2, 3]},
            doc! {"$pop": {"a": -1.0}},
            Is(doc! {"a": [2, 3]}),
        ),
        row(doc! {"a": []}, doc! {"$pop": {"a": 1}}, Same),
        row(doc! {"x": []}, doc! {"$pop": {"a": 1}}, Same),
        row(doc! {"a": {"b": 1}}, doc! {"$pop": {"a.c": 1}}, Same),
        row(doc! {"a": 1}, doc! {"$pop": {"a": 1}}, Code(14)),
        row(doc! {"a": 1}, doc! {"$pop": {"a.b": 1}}, Code(28)),
        row(
            doc! {"a": [{"b": [1]}]},
            doc! {"$pop": {"a.b": 1}},
            Code(28),
        ),
        row(doc! {"a": [1]}, doc! {"$pop": {"a": 2}}, Code(9)),
        row(doc! {"a": [1]}, doc! {"$pop": {"a": 0.5}}, Code(9)),
        row(doc! {"a": [1]}, doc! {"$pop": {"a": "x"}}, Code(9)),
        row(
            doc! {"a": [1, 2, 1.0]},
            doc! {"$pull": {"a": 1}},
            Is(doc! {"a": [2]}),
        ),
        row(doc! {"a": [1, 2]}, doc! {"$pull": {"a": 3}}, Same),
        row(
            doc! {"a": [1, 5, 9]},
            doc! {"$pull": {"a": {"$gte": 5}}},
            Is(doc! {"a": [1]}),
        ),
        row(
            doc! {"a": [{"x": 1, "y": 1}, {"x": 2}, 1]},
            doc! {"$pull": {"a": {"x": 1}}},
            Is(doc! {"a": [{"x": 2}, 1]}),
        ),
        row(
            doc! {"a": [[1], [2]]},
            doc! {"$pull": {"a": [1]}},
            Is(doc! {"a": [[2]]}),
        ),
        row(
            doc! {"a": [{"x": 1}, {"y": 2}, {"x": 3}, 1]},
            doc! {"$pull": {"a": {"$or": [{"x": 1}, {"y": 2}]}}},
            Is(doc! {"a": [{"x": 3}, 1]}),
        ),
        row(doc! {"a": 1}, doc! {"$pull": {"a": 1}}, Code(2)),
        row(doc! {"a": [1]}, doc! {"$pull": {"a": {"$bad": 1}}}, Code(2)),
        row(doc! {"a": 1}, doc! {"$pull": {"a.b": 1}}, Code(28)),
        row(doc! {"x": 1}, doc! {"$pull": {"a": 1}}, Same),
        row(
            doc! {"a": [1, 2, 3, 2]},
            doc! {"$pullAll": {"a": [2.0, 3]}},
            Is(doc! {"a": [1]}),
        ),
        row(doc! {"a": [1]}, doc! {"$pullAll": {"a": 1}}, Code(2)),
    ]);
}

#[test]
fn positions_and_array_filters() {
    let scores = || doc! {"a": [{"x": 1}, {"x": 5}, {"x": 9}]};
    check(vec![
        row(
            doc! {"a": [1, 2, 3]},
            doc! {"$set": {"a.$": 9}},
            Is(doc! {"a": [1, 9, 3]}),
        )
        .position(1),
        row(doc! {"a": [1, 2, 3]}, doc! {"$set": {"a.$": 9}}, Code(2)),
        row(
            scores(),
            doc! {"$inc": {"a.$.x": 1}},
            Is(doc! {"a": [{"x": 1}, {"x": 5}, {"x": 10}]}),
        )
        .position(2),
        row(
            scores(),
            doc! {"$set": {"a.$.x": 1, "a.2.y": 1}},
            Is(doc! {"a": [{"x": 1}, {"x": 5}, {"x": 1, "y": 1}]}),
        )
        .position(2),
        row(scores(), doc! {"$set": {"a.$.x": 1, "a.2.x": 1}}, Code(40)).position(2),
        row(
            doc! {"a": [1, 2]},
            doc! {"$inc": {"a.$[]": 1}},
            Is(doc! {"a": [2, 3]}),
        ),
        row(doc! {"a": []}, doc! {"$inc": {"a.$[]": 1}}, Same),
        row(doc! {"x": []}, doc! {"$inc": {"a.$[]": 1}}, Code(2)),
        row(doc! {"a": 5}, doc! {"$inc": {"a.$[]": 1}}, Code(2)),
        row(
            scores(),
            doc! {"$set": {"a.$[e].y": 0}},
            Is(doc! {"a": [{"x": 1}, {"x": 5, "y": 0}, {"x": 9, "y": 0}]}),
        )
        .filters([doc! {"e.x": {"$gt": 1}}]),
        row(
            doc! {"a": [1, 5]},
            doc! {"$set": {"a.$[e]": 0}},
            Is(doc! {"a": [1, 0]}),
        )
        .filters([doc! {"e": {"$gt": 1}}]),
        row(
            scores(),
            doc! {"$set": {"a.$[e].y": 0, "a.$[].z": 1}},
            Is(doc! {"a": [{"x": 1, "z": 1}, {"x": 5, "y": 0, "z": 1}, {"x": 9, "y": 0, "z": 1}]}),
        )
        .filters([doc! {"e.x": {"$gt": 1}}]),
        row(
            scores(),
            doc! {"$set": {"a.$[e].y": 0, "a.$[].y": 1}},
            Code(40),
        )
        .filters([doc! {"e.x": 9}]),
        row(scores(), doc! {"$set": {"a.$[e].y": 0}}, Code(2)),
        row(scores(), doc! {"$set": {"a.$[].y": 0}}, Code(9)).filters([doc! {"e.x": 9}]),
        row(scores(), doc! {"$set": {"a.$[e].y": 0}}, Code(9)).filters([doc! {"e.x": 9, "f": 1}]),
        row(scores(), doc! {"$set": {"a.$[e].y": 0}}, Code(9))
            .filters([doc! {"e.x": 9}, doc! {"e": 1}]),
        row(scores(), doc! {"$set": {"a.$[E].y": 0}}, Code(2)).filters([doc! {"E.x": 9}]),
        row(scores(), doc! {"$set": {"a.$[e].y": 0}}, Code(9)).filters([doc! {}]),
        row(scores(), doc! {"$set": {"a.$[e].y": 0}}, Code(2))
            .filters([doc! {"$text": {"$search": "x"}}]),
        row(
            scores(),
            doc! {"$set": {"a.$[].y": 0, "a.0.y": 1}},
            Code(40),
        ),
        row(scores(), doc! {"$set": {"$[].y": 0}}, Code(2)),
    ]);
}

#[test]
fn replacement() {
    let zero = bson::Timestamp {
        time: 0,
        increment: 0,
    };
    let stamp = bson::Timestamp {
        time: 1_700_000_000,
        increment: 1,
    };
    check(vec![
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"b": 2},
            Is(doc! {"_id": 1, "b": 2}),
        ),
        row(doc! {"_id": 1, "a": 1}, doc! {}, Is(doc! {"_id": 1})),
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"b": 2, "_id": 1},
            Is(doc! {"_id": 1, "b": 2}),
        ),
        row(doc! {"_id": 1, "a": 1}, doc! {"_id": 1, "a": 1}, Same),
        row(doc! {"_id": 1, "a": 1}, doc! {"_id": 2, "a": 1}, Code(66)),
        row(doc! {"_id": 1, "a": 1}, doc! {"b": 2, "$set": 1}, Code(52)),
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"b": {"$x": 1}},
            Is(doc! {"_id": 1, "b": {"$x": 1}}),
        ),
        row(
            doc! {"_id": 1, "a": 1},
            doc! {"b": 2, "_ts": 5},
            Is(doc! {"_id": 1, "b": 2}),
        ),
        row(
            doc! {"_id": 1},
            doc! {"t": zero, "d": {"t": zero}},
            Is(doc! {"_id": 1, "t": stamp, "d": {"t": zero}}),
        ),
    ]);
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
    let one = crate::value::Value::int32(1);
    let two = crate::value::Value::int32(2);
    let list = DocBuf::from(doc! {"v": [1, 2]})
        .as_doc()
        .get("v")
        .to_value();
    type Pairs<'a> = Vec<(&'a str, &'a crate::value::Value)>;
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
        (vec![("_id.x", &two)], doc! {"b": 2}, Err(111)),
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
        (vec![], doc! {"_id": [1]}, Err(53)),
    ];
    for (equalities, update, want) in rows {
        let parsed = parse(&update.clone().into(), &[]).unwrap();
        let got = parsed
            .upsert(&equalities, &apply, || crate::value::Value::int32(7))
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
    check(vec![
        row(
            doc! {"_id": 1},
            doc! {"$set": {"a": deep.clone()}},
            Is(doc! {"_id": 1, "a": deep.clone()}),
        ),
        row(
            doc! {"_id": 1},
            doc! {"$set": {"a.b": deep.clone()}},
            Code(15),
        ),
        row(
            doc! {"_id": 1, "a": deep.clone()},
            doc! {"$rename": {"a": "b.c"}},
            Code(15),
        ),
        row(
            doc! {"_id": 1, "a": &big},
            doc! {"$set": {"b": &big}},
            Code(17419),
        ),
        row(
            doc! {"_id": 1, "a": [1, 2, 3]},
            doc! {"$set": {"a.$[]": &big}},
            Code(17419),
        ),
    ]);
}

// === the model ===

/// Small documents over few names, so that paths meet.
fn value() -> impl Strategy<Value = Bson> {
    let scalar = prop_oneof![
        (-3..4i32).prop_map(Bson::from),
        (-3..4i64).prop_map(Bson::from),
        (-3..4i32).prop_map(|n| Bson::from(f64::from(n) / 2.0)),
        Just(Bson::Null),
        "[a-c]{0,2}".prop_map(Bson::from),
    ];
    scalar.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::btree_map("[abc01]", inner, 0..4)
                .prop_map(|map| Bson::Document(map.into_iter().collect())),
        ]
    })
}

fn document() -> impl Strategy<Value = Document> {
    prop::collection::btree_map("[abc]", value(), 0..4).prop_map(|map| map.into_iter().collect())
}

fn operation() -> impl Strategy<Value = (&'static str, String, Bson)> {
    let path = prop::collection::vec("[abc012]", 1..4).prop_map(|mut parts| {
        if parts[0].as_bytes()[0].is_ascii_digit() {
            parts[0] = "a".to_owned();
        }
        parts.join(".")
    });
    let operator = prop_oneof![
        Just("$set"),
        Just("$unset"),
        Just("$inc"),
        Just("$min"),
        Just("$max"),
        Just("$push"),
        Just("$addToSet"),
        Just("$pop"),
    ];
    (operator, path, value()).prop_map(|(operator, path, value)| {
        let value = match operator {
            "$inc" => Bson::from(2),
            "$pop" => Bson::from(1),
            "$push" | "$addToSet" if matches!(&value, Bson::Document(doc) if doc.contains_key("$each")) => {
                Bson::Null
            }
            _ => value,
        };
        (operator, path, value)
    })
}

/// One operator at the end of a path, by plain recursion. `Err` where mongod refuses.
fn model(
    slot: Option<&Bson>,
    path: &[&str],
    operator: &str,
    value: &Bson,
) -> Result<Option<Bson>, ()> {
    if let [part, rest @ ..] = path {
        let creates = !matches!(operator, "$unset" | "$pop");
        return match slot {
            None if !creates => Ok(None),
            None => {
                let inner = model(None, rest, operator, value)?;
                Ok(inner.map(|inner| Bson::Document(doc! {*part: inner})))
            }
            Some(Bson::Document(doc)) => {
                let mut doc = doc.clone();
                match model(doc.get(*part), rest, operator, value)? {
                    Some(new) => {
                        doc.insert(*part, new);
                    }
                    None => {
                        doc.remove(*part);
                    }
                }
                Ok(Some(Bson::Document(doc)))
            }
            Some(Bson::Array(array)) if path::index(part).is_some() => {
                let mut array = array.clone();
                let at = path::index(part).unwrap();
                match (
                    model(array.get(at), rest, operator, value)?,
                    at < array.len(),
                ) {
                    (Some(new), true) => array[at] = new,
                    (None, true) => array[at] = Bson::Null,
                    (None, false) => {}
                    (Some(new), false) => {
                        array.resize(at, Bson::Null);
                        array.push(new);
                    }
                }
                Ok(Some(Bson::Array(array)))
            }
            Some(other) if operator == "$unset" => Ok(Some(other.clone())),
            Some(_) => Err(()),
        };
    }
    let raw = |value: &Bson| DocBuf::from(doc! {"v": value.clone()});
    let order = |a: &Bson, b: &Bson| {
        crate::value::compare(raw(a).as_doc().get("v"), raw(b).as_doc().get("v"))
    };
    Ok(match (operator, slot) {
        ("$unset", _) => None,
        ("$set", _) => Some(value.clone()),
        ("$inc", None) => Some(value.clone()),
        ("$inc", Some(Bson::Int32(n))) => Some(Bson::from(n + 2)),
        ("$inc", Some(Bson::Int64(n))) => Some(Bson::from(n + 2)),
        ("$inc", Some(Bson::Double(n))) => Some(Bson::from(n + 2.0)),
        ("$min" | "$max", None) => Some(value.clone()),
        ("$min", Some(old)) if order(value, old).is_lt() => Some(value.clone()),
        ("$max", Some(old)) if order(value, old).is_gt() => Some(value.clone()),
        ("$min" | "$max", Some(old)) => Some(old.clone()),
        ("$push" | "$addToSet", None) => Some(Bson::Array(vec![value.clone()])),
        ("$push", Some(Bson::Array(array))) => Some(Bson::Array(
            [&array[..], std::slice::from_ref(value)].concat(),
        )),
        ("$addToSet", Some(Bson::Array(array))) => {
            let known = array.iter().any(|old| order(old, value).is_eq());
            let new = if known { vec![] } else { vec![value.clone()] };
            Some(Bson::Array([&array[..], &new[..]].concat()))
        }
        ("$pop", None) => None,
        ("$pop", Some(Bson::Array(array))) => {
            Some(Bson::Array(array[..array.len().max(1) - 1].to_vec()))
        }
        _ => return Err(()),
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn operators_agree_with_a_plain_model(
        before in document(),
        operations in prop::collection::vec(operation(), 1..4),
    ) {
        let mut update = Document::new();
        for (operator, path, value) in &operations {
            let entry = update.entry((*operator).to_owned()).or_insert(doc! {}.into());
            entry.as_document_mut().unwrap().insert(path, value.clone());
        }
        let row = row(before.clone(), update.clone(), Same);
        let got = run(&row);
        if matches!(&got, Err(error) if error.code().number() == 40) {
            return Ok(());
        }
        // Last of equal (operator, path) wins in the document above; then by path, as mongod orders new fields.
        let mut wanted: std::collections::BTreeMap<Vec<(bool, String)>, (&str, &Bson)> = Default::default();
        for (operator, path, value) in &operations {
            let key = path.split('.').map(|part| (path::index(part).is_none(), part.to_owned())).collect();
            wanted.insert(key, (operator, value));
        }
        let mut after = Ok(Bson::Document(before.clone()));
        for (path, (operator, value)) in &wanted {
            let path: Vec<&str> = path.iter().map(|(_, part)| part.as_str()).collect();
            after = after.and_then(|doc| Ok(model(Some(&doc), &path, operator, value)?.unwrap()));
        }
        match (got, after) {
            (Ok(Some(got)), Ok(Bson::Document(after))) => {
                let got = Document::from_reader(&got[..]).unwrap();
                prop_assert_eq!(got, after, "{} on {}", update, before);
            }
            (Ok(None), Ok(Bson::Document(after))) => {
                prop_assert_eq!(before, after, "{}", update);
            }
            (Err(_), Err(())) => {}
            (got, after) => {
                let got = got.map(|got| got.map(|got| Doc::new(&got).to_owned_text()));
                prop_assert!(false, "{} on {}: {:?}, model {:?}", update, before, got, after);
            }
        }
    }
}
