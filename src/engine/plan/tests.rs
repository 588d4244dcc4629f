//! The law of the planner, with a naive evaluator over random documents, filters and indexes; and tables of bounds.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use super::*;
use crate::{
    query::{Scope, Vars},
    value::{self, DocBuf, Millis, Value, key},
};

fn filter(filter: &Document) -> Filter {
    Filter::parse(DocBuf::from(filter).as_doc(), &Scope::default())
        .unwrap_or_else(|error| panic!("{filter}: {error:?}"))
}

/// An index as storage describes it, with what only the planner's caller knows.
struct Owned {
    spec: IndexSpec,
    multikey: u64,
    partial: Option<Arc<Filter>>,
}

fn named(name: &str, key: Document) -> Owned {
    Owned {
        spec: IndexSpec::new(name, DocBuf::from(key)),
        multikey: 0,
        partial: None,
    }
}

fn index(key: Document) -> Owned {
    named("i", key)
}

fn infos(all: &[Owned]) -> Vec<IndexInfo<'_>> {
    all.iter()
        .map(|owned| IndexInfo {
            spec: &owned.spec,
            multikey: owned.multikey,
            partial: owned.partial.clone(),
        })
        .collect()
}

/// The keys of a sort; an index specification parses the same document.
fn keys_of(sort: &IndexSpec) -> Vec<SortKey<'_>> {
    sort.paths
        .iter()
        .zip(&sort.descending)
        .map(|(path, &descending)| SortKey { path, descending })
        .collect()
}

fn sorting(sort: &Document) -> IndexSpec {
    IndexSpec::new("sort", DocBuf::from(sort))
}

fn explain(query: Document, sort: Document, indexes: &[Owned]) -> Document {
    let indexes = &infos(indexes);
    let filter = filter(&query);
    let plan = plan(&filter, &keys_of(&sorting(&sort)), None, indexes).unwrap();
    let sort = DocBuf::from(&sort);
    let shown = winning_plan(&plan, &filter, Some(sort.as_doc()), indexes);
    Document::from_reader(shown.bytes()).unwrap()
}

/// The stages from outside in, joined, and the bounds of the innermost.
fn shape(mut plan: Document) -> (String, String) {
    let mut stages = Vec::new();
    loop {
        stages.push(plan.get_str("stage").unwrap().to_owned());
        match plan.get_document("inputStage") {
            Ok(inner) => plan = inner.clone(),
            Err(_) => break,
        }
    }
    let bounds = plan
        .get_document("indexBounds")
        .cloned()
        .unwrap_or_default();
    let bounds: Vec<String> = bounds
        .iter()
        .map(|(name, list)| {
            let list: Vec<&str> = list
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Bson::as_str)
                .collect();
            format!("{name}: {}", list.join(" "))
        })
        .collect();
    (stages.join(" "), bounds.join("; "))
}

#[test]
fn bounds_as_mongod_prints_them() {
    let ab = || vec![index(doc! {"a": 1, "b": -1})];
    let none = || doc! {};
    let table = [
        (
            doc! {"a": 5},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [5, 5]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": {"$gt": 5}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: (5, inf.0]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": {"$gte": 1, "$lt": 5}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [1, 5); b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": 1, "b": {"$lt": 5}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [1, 1]; b: (5, -inf.0]",
        ),
        (
            doc! {"a": {"$in": [3, 1]}, "b": 2},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [1, 1] [3, 3]; b: [2, 2]",
        ),
        (
            doc! {"a": {"$regex": "^ab"}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [\"ab\", \"ac\") [/^ab/, /^ab/]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": Bson::Null},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [null, null]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"a": {"$ne": 3}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "a: [MinKey, 3) (3, MaxKey]; b: [MaxKey, MinKey]",
        ),
        (doc! {"b": 1}, none(), ab(), "COLLSCAN", ""),
        (doc! {"_id": 1}, none(), ab(), "IDHACK", ""),
        (
            doc! {"_id": {"$in": [2, 1]}},
            none(),
            ab(),
            "FETCH IXSCAN",
            "_id: [1, 1] [2, 2]",
        ),
        (
            doc! {"_id": 1, "c": 2},
            none(),
            ab(),
            "FETCH IXSCAN",
            "_id: [1, 1]",
        ),
        (
            doc! {},
            doc! {"a": 1, "b": -1},
            ab(),
            "FETCH IXSCAN",
            "a: [MinKey, MaxKey]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {},
            doc! {"a": -1, "b": 1},
            ab(),
            "FETCH IXSCAN",
            "a: [MaxKey, MinKey]; b: [MinKey, MaxKey]",
        ),
        (doc! {}, doc! {"a": 1, "b": 1}, ab(), "SORT COLLSCAN", ""),
        (
            doc! {"a": 1},
            doc! {"b": 1},
            ab(),
            "FETCH IXSCAN",
            "a: [1, 1]; b: [MinKey, MaxKey]",
        ),
        (
            doc! {"a": {"$gt": 1}},
            doc! {"b": 1},
            ab(),
            "SORT FETCH IXSCAN",
            "a: (1, inf.0]; b: [MaxKey, MinKey]",
        ),
        (
            doc! {"$or": [{"a": 1}, {"b": 1}]},
            none(),
            ab(),
            "COLLSCAN",
            "",
        ),
        (
            doc! {"$or": [{"a": 1}, {"_id": 1}]},
            none(),
            ab(),
            "SUBPLAN FETCH OR",
            "",
        ),
        (
            doc! {"c": 1, "$or": [{"a": 1}, {"a": 2}]},
            doc! {"c": 1},
            ab(),
            "SORT SUBPLAN FETCH OR",
            "",
        ),
        (doc! {"$alwaysFalse": 1}, none(), ab(), "EOF", ""),
    ];
    for (query, sort, indexes, stages, bounds) in table {
        let found = shape(explain(query.clone(), sort.clone(), &indexes));
        assert_eq!(
            found,
            (stages.to_owned(), bounds.to_owned()),
            "{query} {sort}"
        );
    }
}

fn with(mut index: Owned, set: impl FnOnce(&mut IndexSpec)) -> Owned {
    set(&mut index.spec);
    index
}

#[test]
fn which_index_wins() {
    let indexes = vec![
        named("a", doc! {"a": 1}),
        named("ab", doc! {"a": 1, "b": 1}),
        named("b", doc! {"b": 1}),
        with(named("u", doc! {"u": 1}), |spec| spec.unique = true),
        with(named("s", doc! {"s": 1}), |spec| spec.sparse = true),
        with(named("h", doc! {"h": 1}), |spec| spec.hidden = true),
        Owned {
            partial: Some(Arc::new(filter(&doc! {"p": {"$gt": 5}}))),
            ..named("p", doc! {"p": 1})
        },
    ];
    let indexes = infos(&indexes);
    for (query, sort, expected) in [
        (doc! {"a": 1}, doc! {}, Some("a")),
        (doc! {"a": 1, "b": 1}, doc! {}, Some("ab")),
        (doc! {"a": 1, "b": {"$gt": 1}}, doc! {}, Some("ab")),
        (doc! {"a": {"$gt": 1}, "b": 1}, doc! {}, Some("b")),
        (doc! {"a": 1}, doc! {"b": 1}, Some("ab")),
        (doc! {"a": {"$gt": 1}}, doc! {"b": 1}, Some("a")),
        (doc! {"a": 1, "u": 2}, doc! {}, Some("u")),
        (doc! {"s": 1}, doc! {}, Some("s")),
        (doc! {"s": Bson::Null}, doc! {}, None),
        (doc! {}, doc! {"s": 1}, None),
        (doc! {"s": {"$exists": true}}, doc! {}, Some("s")),
        (doc! {"h": 1}, doc! {}, None),
        (doc! {"p": 9}, doc! {}, Some("p")),
        (doc! {"p": {"$gte": 6}}, doc! {}, Some("p")),
        (doc! {"p": 1}, doc! {}, None),
        (doc! {"p": {"$gt": "x"}}, doc! {}, None),
        (doc! {"$or": [{"p": 7}, {"p": 8}]}, doc! {}, Some("p")),
    ] {
        let plan = plan(&filter(&query), &keys_of(&sorting(&sort)), None, &indexes).unwrap();
        let first = match &plan.access {
            Access::Union(ways) => &ways[0],
            access => access,
        };
        let found = match first {
            Access::IndexScan(scan) => Some(indexes[scan.index].spec.name.as_str()),
            _ => None,
        };
        assert_eq!(found, expected, "{query} {sort}");
    }
    let hint = |hint| plan(&filter(&doc! {"a": 1}), &[], Some(hint), &indexes);
    assert!(
        matches!(hint(Hint::Name("b")).unwrap().access, Access::IndexScan(scan) if scan.index == 2)
    );
    assert!(matches!(
        hint(Hint::Natural(Direction::Backward)).unwrap().access,
        Access::CollScan(Direction::Backward)
    ));
    assert!(
        matches!(hint(Hint::Name("p")).unwrap().access, Access::IndexScan(scan) if scan.index == 6)
    );
    assert_eq!(hint(Hint::Name("x")).unwrap_err().code().number(), 2);
    assert_eq!(hint(Hint::Name("h")).unwrap_err().code().number(), 2);
    let key = DocBuf::from(doc! {"a": 1, "b": 1});
    assert!(
        matches!(hint(Hint::Key(key.as_doc())).unwrap().access, Access::IndexScan(scan) if scan.index == 1)
    );
}

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

/// The entries of an index over documents, as storage keeps them, and its multikey bits. `None` if some document cannot be indexed.
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
