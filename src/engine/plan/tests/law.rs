//! The law of the planner: what an index scan yields holds every document that matches, in the order that the plan promises.
//! Held against a naive evaluator over random documents, filters and indexes.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::super::*;
use super::{Owned, filter, index, infos, keys_of, sorting};
use crate::query::Vars;
use crate::value::{self, DocBuf, Millis, Value, key};

/// A small generator; the seed is in the message of a failure.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())].clone()
    }

    fn scalar(&mut self) -> Bson {
        match self.roll(12) {
            0..=4 => Bson::Int32(self.roll(5) as i32),
            5 => Bson::Double(self.pick(&[0.5, -1.0, 2.0, f64::NAN, f64::INFINITY])),
            6 | 7 => Bson::String(self.pick(&["", "a", "ab", "b"]).to_owned()),
            8 => Bson::Null,
            9 => Bson::Boolean(self.roll(2) == 0),
            10 => self.pick(&[Bson::MinKey, Bson::MaxKey, Bson::Undefined]),
            _ => Bson::Int64(self.roll(5) as i64),
        }
    }

    fn value(&mut self, depth: usize) -> Bson {
        match self.roll(if depth == 0 { 6 } else { 10 }) {
            0..=5 => self.scalar(),
            6 | 7 => Bson::Array((0..self.roll(4)).map(|_| self.value(depth - 1)).collect()),
            _ => Bson::Document(self.fields(depth - 1)),
        }
    }

    fn fields(&mut self, depth: usize) -> Document {
        (0..self.roll(4))
            .map(|_| (self.pick(&["a", "b", "c"]).to_owned(), self.value(depth)))
            .collect()
    }

    fn path(&mut self) -> String {
        self.pick(&[
            "a", "b", "c", "a.b", "a.c", "b.a", "a.b.c", "a.0", "a.0.b", "b.1", "a.b.0",
        ])
        .to_owned()
    }

    fn condition(&mut self) -> Bson {
        let constant = |dice: &mut Self| loop {
            let value = dice.value(2);
            if value != Bson::Undefined {
                return value;
            }
        };
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
                    // Of another `$not` there is no need.
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
                let pattern = bson::Regex {
                    pattern: "^a".try_into().unwrap(),
                    options: "i".try_into().unwrap(),
                };
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
                bson::bson!({"$type": self.pick(&["number", "string", "array", "object", "null", "bool"])})
            }
            14 => {
                bson::bson!({"$regex": self.pick(&["^a", "b", "^$", "^a|b", "^a.*"]), "$options": self.pick(&["", "i", "m", "x"])})
            }
            15 => bson::bson!({"$elemMatch": {"$gte": constant(self), "$lte": constant(self)}}),
            16 => bson::bson!({"$elemMatch": {self.pick(&["a", "b", "c"]): self.condition()}}),
            _ => bson::bson!({"$gte": constant(self), "$lt": constant(self)}),
        }
    }

    fn query(&mut self, depth: usize) -> Document {
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
                let name = self.pick(&["$eq", "$gte", "$lt"]);
                let path = self.pick(&["$a", "$b", "$a.b"]);
                query.insert("$expr", doc! {name: [path, self.roll(4) as i32]});
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

    fn index(&mut self) -> Owned {
        let mut key = Document::new();
        for _ in 0..=self.roll(2) {
            key.insert(self.path(), self.pick(&[1, -1]));
        }
        let mut info = index(key);
        info.spec.sparse = self.roll(5) == 0;
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
}

/// The entries of an index over documents, as storage keeps them, and its multikey bits. `None` if some document cannot
/// be indexed.
fn entries(info: &mut Owned, docs: &[DocBuf], vars: &Vars) -> Option<Vec<(Vec<u8>, usize)>> {
    let (paths, descending) = (&info.spec.paths, &info.spec.descending);
    let mut all = Vec::new();
    for (at, doc) in docs.iter().enumerate() {
        if let Some(partial) = &info.partial
            && !partial.matches(doc.as_doc(), vars).unwrap()
        {
            continue;
        }
        let mut found = Vec::new();
        let multikey = value::keys(paths, doc.as_doc(), |keys| {
            if keys.found || !info.spec.sparse {
                let mut bytes = Vec::new();
                for (value, &descending) in keys.values.iter().zip(descending) {
                    key::encode(*value, descending, &mut bytes);
                }
                found.push(bytes);
            }
        })
        .ok()?;
        info.multikey |= multikey;
        found.sort();
        found.dedup();
        all.extend(found.into_iter().map(|mut bytes| {
            bytes.extend_from_slice(&(at as u64).to_be_bytes());
            (bytes, at)
        }));
    }
    all.sort();
    Some(all)
}

/// The documents of a scan, each once, in the order in which they come.
fn scan(scan: &IndexScan, entries: &[(Vec<u8>, usize)]) -> Vec<usize> {
    assert!(
        scan.ranges
            .windows(2)
            .all(|pair| pair[0].upper <= pair[1].lower),
        "{:?}",
        scan.ranges
    );
    let mut found: Vec<usize> = scan
        .ranges
        .iter()
        .flat_map(|range| {
            entries
                .iter()
                .filter(|(bytes, _)| *bytes >= range.lower && *bytes < range.upper)
        })
        .map(|(_, at)| *at)
        .collect();
    if scan.direction == Direction::Backward {
        found.reverse();
    }
    let mut seen = std::collections::HashSet::new();
    found.retain(|at| seen.insert(*at));
    found
}

fn check_law(rounds: u64, first_seed: u64) {
    let vars = Vars::at(Millis(0));
    let mut indexed = 0;
    for seed in first_seed..first_seed + rounds {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let docs: Vec<DocBuf> = (0..12).map(|_| DocBuf::from(dice.fields(3))).collect();
        let mut owned = Vec::new();
        let mut kept = Vec::new();
        for at in 0..=dice.roll(3) {
            let mut info = dice.index();
            info.spec.name = format!("i{at}");
            if let Some(entries) = entries(&mut info, &docs, &vars) {
                owned.push(info);
                kept.push(entries);
            }
        }
        let indexes = infos(&owned);
        for _ in 0..8 {
            let query = dice.query(2);
            let parsed = filter(&query);
            let sort: Document = (0..dice.roll(3))
                .map(|_| (dice.path(), dice.pick(&[1, -1]).into()))
                .collect();
            let sort = sorting(&sort);
            let sort = keys_of(&sort);
            let plan = plan(&parsed, &sort, None, &indexes).unwrap();
            let expected: Vec<usize> = docs
                .iter()
                .enumerate()
                .filter(|(_, doc)| parsed.matches(doc.as_doc(), &vars).unwrap())
                .map(|(at, _)| at)
                .collect();
            let shown = || {
                let specs: Vec<_> = owned.iter().map(|info| &info.spec).collect();
                format!("seed {seed}: {query} under {specs:?} by {plan:?}")
            };
            let scan = match &plan.access {
                Access::IndexScan(found) => scan(found, &kept[found.index]),
                Access::Union(ways) => ways
                    .iter()
                    .flat_map(|way| match way {
                        Access::IndexScan(found) => scan(found, &kept[found.index]),
                        way => panic!("{way:?}"),
                    })
                    .collect(),
                Access::Nothing => Vec::new(),
                _ => continue,
            };
            indexed += 1;
            for at in &expected {
                assert!(scan.contains(at), "lost {:?}; {}", docs[*at], shown());
            }
            if plan.sort_covered {
                let key = |at: usize| {
                    let mut bytes = Vec::new();
                    for part in &sort {
                        let value = part.path.get(docs[at].as_doc());
                        let value = if value.is_missing() {
                            Value::null()
                        } else {
                            value.to_value()
                        };
                        key::encode(value.as_ref(), part.descending, &mut bytes);
                    }
                    bytes
                };
                let keys: Vec<_> = scan
                    .iter()
                    .filter(|at| expected.contains(at))
                    .map(|at| key(*at))
                    .collect();
                assert!(keys.is_sorted(), "order; {}", shown());
            }
        }
    }
    assert!(
        indexed as u64 > rounds / 2,
        "only {indexed} of {rounds} used an index"
    );
}

#[test]
fn no_index_loses_a_document() {
    check_law(4_000, 1);
}

#[test]
#[ignore = "long"]
fn no_index_loses_a_document_long() {
    check_law(200_000, 1_000_000);
}
