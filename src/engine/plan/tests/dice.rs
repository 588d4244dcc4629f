//! Random documents, filters, indexes and hints for the laws of the planner.

use std::sync::Arc;

use bson::spec::BinarySubtype;
use bson::{Bson, Document, doc};

use super::super::hint::Hinted;
use super::super::*;
use super::{filter, index};
use crate::value::Path;

/// A small random generator. The message of a failure shows the seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % sides
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }

    pub(super) fn scalar(&mut self) -> Bson {
        match self.roll(24) {
            0..=7 => Bson::Int32(self.roll(5) as i32),
            8 => Bson::Double(self.pick(&[0.5, -1.0, 2.0, f64::NAN, f64::INFINITY])),
            9 => Bson::Double(self.pick(&[-0.0, f64::NEG_INFINITY, 2.5, 1e300])),
            10..=12 => Bson::String(self.pick(&["", "a", "ab", "b"]).to_owned()),
            13 => Bson::Null,
            14 => Bson::Boolean(self.roll(2) == 0),
            15 => self.pick(&[Bson::MinKey, Bson::MaxKey, Bson::Undefined]),
            16 => {
                let text =
                    self.pick(&["2", "2.50", "-0", "NaN", "Infinity", "-Infinity", "1E+400"]);
                Bson::Decimal128(text.parse().unwrap())
            }
            17 => Bson::Binary(bson::Binary {
                subtype: self.pick(&[BinarySubtype::Generic, BinarySubtype::UserDefined(0x80)]),
                bytes: self.pick(&[vec![], vec![0], vec![1], vec![0, 0]]),
            }),
            18 => Bson::Timestamp(bson::Timestamp {
                time: self.pick(&[0, 1, u32::MAX]),
                increment: self.roll(2) as u32,
            }),
            19 => Bson::DateTime(bson::DateTime::from_millis(self.pick(&[
                i64::MIN,
                -1,
                0,
                1,
                i64::MAX,
            ]))),
            20 => Bson::ObjectId(bson::oid::ObjectId::from_bytes(
                self.pick(&[[0; 12], [7; 12], [0xff; 12]]),
            )),
            21 => self.pattern(),
            22 => self.pick(&[
                Bson::Symbol("a".into()),
                Bson::JavaScriptCode("a".into()),
                Bson::Symbol("b".into()),
            ]),
            _ => Bson::Int64(self.roll(5) as i64),
        }
    }

    fn pattern(&mut self) -> Bson {
        Bson::RegularExpression(bson::Regex {
            pattern: self.pick(&["^a", "b", "^$"]).try_into().unwrap(),
            options: self.pick(&["", "i"]).try_into().unwrap(),
        })
    }

    fn value(&mut self, depth: usize) -> Bson {
        match self.roll(if depth == 0 { 6 } else { 10 }) {
            0..=5 => self.scalar(),
            6 | 7 => Bson::Array((0..self.roll(4)).map(|_| self.value(depth - 1)).collect()),
            _ => Bson::Document(self.fields(depth - 1)),
        }
    }

    pub(super) fn fields(&mut self, depth: usize) -> Document {
        (0..self.roll(4))
            .map(|_| (self.pick(&["a", "b", "c"]).to_owned(), self.value(depth)))
            .collect()
    }

    pub(super) fn path(&mut self) -> String {
        self.pick(&[
            "a", "b", "c", "a.b", "a.c", "b.a", "a.b.c", "a.0", "a.0.b", "b.1", "a.b.0", "_id",
        ])
        .to_owned()
    }

    /// Returns an operand of a comparison.
    pub(super) fn constant(&mut self) -> Bson {
        loop {
            let value = self.value(2);
            if is_operand(&value) {
                return value;
            }
        }
    }

    fn condition(&mut self) -> Bson {
        let constant = Self::constant;
        let several = |dice: &mut Self| {
            let mut all: Vec<Bson> = (0..dice.roll(4)).map(|_| constant(dice)).collect();
            all.dedup();
            Bson::Array(all)
        };
        match self.roll(26) {
            18 => bson::bson!({"$all": several(self)}),
            19 => {
                bson::bson!({"$all": [{"$elemMatch": {"$gte": constant(self)}}, {"$elemMatch": {"$lt": constant(self)}}]})
            }
            20 => bson::bson!({"$size": self.roll(4) as i32}),
            21 => bson::bson!({"$mod": [2, self.roll(2) as i32]}),
            22 => {
                let name = self.pick(&[
                    "$bitsAllSet",
                    "$bitsAllClear",
                    "$bitsAnySet",
                    "$bitsAnyClear",
                ]);
                bson::bson!({name: self.roll(8) as i32})
            }
            23 => {
                let negated = loop {
                    // A nested `$not` is not needed.
                    let condition = self.condition();
                    if condition
                        .as_document()
                        .is_some_and(|inner| !inner.contains_key("$not"))
                    {
                        break condition;
                    }
                };
                bson::bson!({"$not": negated})
            }
            24 => {
                let pattern = self.pattern();
                bson::bson!({"$in": [Bson::Null, constant(self), pattern]})
            }
            25 => {
                bson::bson!({"$type": [self.pick(&["int", "string", "null"]), self.pick(&["array", "double", "minKey"])]})
            }
            0..=3 => bson::bson!({"$eq": constant(self)}),
            4 => bson::bson!({"$gt": constant(self)}),
            5 => bson::bson!({"$gte": constant(self)}),
            6 => bson::bson!({"$lt": constant(self)}),
            7 => bson::bson!({"$lte": constant(self)}),
            8 | 9 => bson::bson!({"$in": several(self)}),
            10 => bson::bson!({"$nin": several(self)}),
            11 => bson::bson!({"$ne": constant(self)}),
            12 => bson::bson!({"$exists": self.roll(2) == 0}),
            13 => {
                bson::bson!({"$type": self.pick(&["number", "string", "array", "object", "null", "bool", "decimal", "binData", "timestamp", "date", "objectId", "regex", "undefined", "symbol", "maxKey"])})
            }
            14 => {
                bson::bson!({"$regex": self.pick(&["^a", "b", "^$", "^a|b", "^a.*"]), "$options": self.pick(&["", "i", "m", "x"])})
            }
            15 => bson::bson!({"$elemMatch": {"$gte": constant(self), "$lte": constant(self)}}),
            16 => bson::bson!({"$elemMatch": {self.pick(&["a", "b", "c"]): self.condition()}}),
            _ => bson::bson!({"$gte": constant(self), "$lt": constant(self)}),
        }
    }

    pub(super) fn query(&mut self, depth: usize) -> Document {
        if depth > 0 && self.roll(6) == 0 {
            let name = self.pick(&["$or", "$and", "$nor"]);
            let all: Vec<Document> = (0..=self.roll(2)).map(|_| self.query(depth - 1)).collect();
            return doc! {name: all};
        }
        let mut query: Document = (0..=self.roll(2))
            .map(|_| (self.path(), self.condition()))
            .collect();
        match self.roll(24) {
            0 => {
                let name = self.pick(&["$eq", "$gte", "$lt", "$lte", "$gt"]);
                let path = self.pick(&["$a", "$b", "$a.b"]);
                let value = doc! {"$literal": self.constant()};
                let operands = match self.roll(3) {
                    0 => bson::bson!([value, path]),
                    _ => bson::bson!([path, value]),
                };
                query.insert("$expr", doc! {name: operands});
            }
            1 => {
                let ty = self.pick(&["number", "string", "object", "array"]);
                query.insert(
                    "$jsonSchema",
                    doc! {"required": ["a"], "properties": {"a": {"bsonType": ty}}},
                );
            }
            _ => {}
        }
        query
    }

    /// Returns a query that an index may answer alone: it fixes the first fields, mostly to values that some document has.
    pub(super) fn query_for(&mut self, index: &IndexFacts, docs: &[Document]) -> Document {
        let paths = &index.spec.paths;
        let last = self.roll(paths.len());
        let operand = |dice: &mut Self, path: &Path| {
            let from = dice.roll(docs.len() + 2);
            let present = docs.get(from).and_then(|doc| value_at(doc, path.as_str()));
            match present {
                Some(value) if is_operand(&value) => value,
                _ => dice.constant(),
            }
        };
        let condition = |(at, path): (usize, &Path)| {
            let name = match at == last {
                false => self.pick(&["$eq", "$eq", "$gte"]),
                true => self.pick(&["$eq", "$gt", "$gte", "$lt", "$lte", "$in"]),
            };
            let value = operand(self, path);
            let condition = match name {
                "$in" => bson::bson!({name: [value, operand(self, path)]}),
                name => bson::bson!({name: value}),
            };
            (path.as_str().to_owned(), condition)
        };
        let fixed = paths.iter().enumerate().take(last + 1);
        fixed.map(condition).collect()
    }

    pub(super) fn index(&mut self) -> IndexFacts {
        let mut key = Document::new();
        for _ in 0..=self.roll(2) {
            key.insert(self.path(), self.pick(&[1, -1]));
        }
        let mut info = index(key);
        let spec = Arc::make_mut(&mut info.spec);
        spec.sparse = self.roll(5) == 0;
        spec.hidden = self.roll(8) == 0;
        if self.roll(6) == 0 {
            let condition = self.pick(&[
                doc! {"a": {"$exists": true}},
                doc! {"a": {"$gt": 1}},
                doc! {"b": {"$in": [1, 2]}},
                doc! {"$or": [{"a": 1}, {"b": {"$lt": 3}}]},
                doc! {"a": {"$type": "number"}},
                doc! {"a": {"$gte": 0, "$lt": 3}, "b": {"$exists": true}},
            ]);
            info.partial = Some(Arc::new(filter(&condition)));
        }
        info
    }

    /// Returns a hint at one of the indexes or at none.
    pub(super) fn hint(&mut self, facts: &Facts) -> (Hint, Hinted) {
        let number = self.roll(facts.indexes.len() + 2);
        let Some(index) = facts.indexes.get(number) else {
            let direction = self.pick(&[ScanDirection::Forward, ScanDirection::Backward]);
            return (Hint::Natural(direction), Hinted::Natural(direction));
        };
        // Two indexes may have the same key. The hint then means the first.
        let by_key = Hint::Key(index.spec.key.clone());
        let same = |other: &IndexFacts| by_key.names(&other.spec.name, other.spec.key.as_doc());
        let is_first = facts.indexes.iter().position(same) == Some(number);
        let hint = match is_first && self.roll(2) == 0 {
            true => by_key,
            false => Hint::Name(index.spec.name.clone()),
        };
        (hint, Hinted::Index(number))
    }
}

/// Returns whether a value can be the operand of `$eq`, `$lt` and similar operators.
pub(super) fn is_operand(value: &Bson) -> bool {
    !matches!(value, Bson::Undefined | Bson::RegularExpression(_))
}

/// Returns the value at a path, if no array is on it.
pub(super) fn value_at(doc: &Document, path: &str) -> Option<Bson> {
    match path.split_once('.') {
        None => doc.get(path).cloned(),
        Some((first, rest)) => value_at(doc.get_document(first).ok()?, rest),
    }
}
