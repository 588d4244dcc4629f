//! The laws of the planner, tested against a naive evaluator with random documents, filters and indexes. An access yields
//! every document that matches, in the order that the plan promises. If the plan is exact, it yields nothing else. A plan
//! with a hint uses the hinted index, and yields only documents that this index holds. Without a hint, a hidden index is not
//! used. A join by equality through an index finds the same documents as a scan.

use std::sync::Arc;

use bson::spec::BinarySubtype;
use bson::{Bson, Document, doc};

use super::super::hint::Hinted;
use super::super::*;
use super::{facts, filter, index, keys_of, sorting};
use crate::clock::monotonic;
use crate::engine::holders::holders;
use crate::error::Result;
use crate::query::Vars;
use crate::storage::{Collection, Namespace, Options, ReadPoint, RecordId, Stored, Writer};
use crate::value::{self, Doc, DocBuf, Millis, Path, Value, key};

/// A small random generator. The message of a failure shows the seed.
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

    fn fields(&mut self, depth: usize) -> Document {
        (0..self.roll(4))
            .map(|_| (self.pick(&["a", "b", "c"]).to_owned(), self.value(depth)))
            .collect()
    }

    fn path(&mut self) -> String {
        self.pick(&[
            "a", "b", "c", "a.b", "a.c", "b.a", "a.b.c", "a.0", "a.0.b", "b.1", "a.b.0", "_id",
        ])
        .to_owned()
    }

    /// Returns an operand of a comparison.
    fn constant(&mut self) -> Bson {
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
                bson::bson!({"$type": self.pick(&["number", "string", "array", "object", "null", "bool", "decimal", "binData", "timestamp", "date", "objectId", "regex"])})
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

    /// Returns a query that an index may answer alone: it fixes the first fields, mostly to values that some document has.
    fn query_for(&mut self, index: &IndexFacts, docs: &[Document]) -> Document {
        let paths = &index.spec.paths;
        let last = self.roll(paths.len());
        let operand = |dice: &mut Self, path: &Path| {
            let from = dice.roll(docs.len() + 2);
            let held = docs.get(from).and_then(|doc| value_at(doc, path.as_str()));
            match held {
                Some(held) if is_operand(&held) => held,
                _ => dice.constant(),
            }
        };
        let condition = |(at, path): (usize, &Path)| {
            let name = match at == last {
                false => "$eq",
                true => self.pick(&["$eq", "$gt", "$gte", "$lt", "$lte", "$in"]),
            };
            let value = operand(self, path);
            let condition = match name {
                "$in" => bson::bson!({name: [value, operand(self, path)]}),
                name => bson::bson!({name: value}),
            };
            (path.as_str().to_owned(), condition)
        };
        let given = paths.iter().enumerate().take(last + 1);
        given.map(condition).collect()
    }

    fn index(&mut self) -> IndexFacts {
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
    fn hint(&mut self, facts: &Facts) -> (Hint, Hinted) {
        let way = self.roll(facts.indexes.len() + 2);
        let Some(index) = facts.indexes.get(way) else {
            let direction = self.pick(&[Direction::Forward, Direction::Backward]);
            return (Hint::Natural(direction), Hinted::Natural(direction));
        };
        // Two indexes may have the same key. The hint then means the first.
        let by_key = Hint::Key(index.spec.key.clone());
        let same = |other: &IndexFacts| by_key.names(&other.spec.name, other.spec.key.as_doc());
        let is_first = facts.indexes.iter().position(same) == Some(way);
        let hint = match is_first && self.roll(2) == 0 {
            true => by_key,
            false => Hint::Name(index.spec.name.clone()),
        };
        (hint, Hinted::Index(way))
    }
}

/// Returns whether a value can be the operand of `$eq`, `$lt` and similar operators.
fn is_operand(value: &Bson) -> bool {
    !matches!(value, Bson::Undefined | Bson::RegularExpression(_))
}

/// Returns the value at a path, if no array is on it.
fn value_at(doc: &Document, path: &str) -> Option<Bson> {
    match path.split_once('.') {
        None => doc.get(path).cloned(),
        Some((first, rest)) => value_at(doc.get_document(first).ok()?, rest),
    }
}

/// Returns whether no two documents share a key, so that the index could be unique.
fn is_unique(entries: &[(Vec<u8>, usize)]) -> bool {
    let key = |entry: &(Vec<u8>, usize)| entry.0[..entry.0.len() - size_of::<u64>()].to_vec();
    entries
        .windows(2)
        .all(|pair| key(&pair[0]) != key(&pair[1]))
}

/// Returns the entries of an index over documents, as storage keeps them, and sets its multikey bits. Returns `None` if some
/// document cannot be indexed.
fn entries(info: &mut IndexFacts, docs: &[DocBuf], vars: &Vars) -> Option<Vec<(Vec<u8>, usize)>> {
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

/// Documents, each with its `_id`, and the contents of the indexes.
struct World {
    docs: Vec<DocBuf>,
    /// The entries of each index.
    kept: Vec<Vec<(Vec<u8>, usize)>>,
}

impl World {
    /// Returns the documents that an access yields, in its order.
    fn walk(&self, access: &Access) -> Vec<usize> {
        let mut found = match access {
            Access::Nothing => Vec::new(),
            Access::CollScan(_) => (0..self.docs.len()).collect(),
            Access::Ids(keys) => {
                let id_of =
                    |at: &usize| key::with(self.docs[*at].as_doc().get("_id"), <[u8]>::to_vec);
                assert!(keys.is_sorted(), "{keys:?}");
                keys.iter()
                    .filter_map(|key| (0..self.docs.len()).find(|at| id_of(at) == *key))
                    .collect()
            }
            Access::IndexScan(scan) => self.scan(scan),
            Access::Union(ways) => ways.iter().flat_map(|way| self.walk(way)).collect(),
        };
        let mut seen = std::collections::HashSet::new();
        found.retain(|at| seen.insert(*at));
        found
    }

    fn scan(&self, scan: &IndexScan) -> Vec<usize> {
        assert!(
            scan.ranges
                .windows(2)
                .all(|pair| pair[0].upper <= pair[1].lower),
            "{:?}",
            scan.ranges
        );
        let entries = &self.kept[scan.number.0 as usize];
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
        found
    }
}

/// Counts of plans: those that read an index, those of them that were exact and found something, and those that used a
/// unique or a hinted index.
#[derive(Debug, Default)]
struct Seen {
    indexed: u64,
    exact: u64,
    unique: u64,
    hinted: u64,
}

/// Returns the positions of the indexes that an access reads.
fn read_by(access: &Access) -> Vec<usize> {
    match access {
        Access::IndexScan(scan) => vec![scan.number.0 as usize],
        Access::Union(ways) => ways.iter().flat_map(read_by).collect(),
        _ => Vec::new(),
    }
}

/// Checks that a hint at a hidden index is refused, and that any other hint is followed unless nothing can match.
fn check_hinted(
    plan: &Result<Plan<'_>>,
    hinted: Hinted,
    facts: &Facts,
    shown: &dyn Fn() -> String,
) {
    let index = match hinted {
        Hinted::Index(at) => Some((at, &facts.indexes[at].spec)),
        _ => None,
    };
    let plan = match (plan, index) {
        (Err(_), Some((_, spec))) => {
            assert!(spec.hidden, "refused; {}", shown());
            return;
        }
        (Err(error), None) => panic!("{error}; {}", shown()),
        (Ok(plan), _) => plan,
    };
    assert!(
        !index.is_some_and(|(_, spec)| spec.hidden),
        "hidden; {}",
        shown()
    );
    let followed = match (&plan.access, hinted) {
        (Access::Nothing, _) => true,
        (Access::CollScan(direction), Hinted::Natural(wanted)) => *direction == wanted,
        (access, Hinted::Index(at)) => read_by(access) == [at],
        _ => false,
    };
    assert!(followed, "not followed; {}", shown());
}

fn check_law(rounds: u64, first_seed: u64) {
    let vars = Vars::at(Millis(0));
    let mut seen = Seen::default();
    for seed in first_seed..first_seed + rounds {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // If documents have no arrays, indexes are not multikey, and plans can be exact.
        let depth = dice.pick(&[0, 1, 3]);
        let docs: Vec<Document> = (0..12)
            .map(|n| {
                let mut doc = doc! {"_id": n};
                doc.extend(dice.fields(depth));
                doc
            })
            .collect();
        let mut world = World {
            docs: docs.iter().map(DocBuf::from).collect(),
            kept: Vec::new(),
        };
        let mut indexes = Vec::new();
        for at in 0..=dice.roll(3) {
            let mut info = dice.index();
            Arc::make_mut(&mut info.spec).name = format!("i{at}");
            if let Some(entries) = entries(&mut info, &world.docs, &vars) {
                Arc::make_mut(&mut info.spec).unique = is_unique(&entries) && dice.roll(2) == 0;
                indexes.push(info);
                world.kept.push(entries);
            }
        }
        let facts = facts(indexes);
        for _ in 0..8 {
            let query = match dice.roll(3) {
                0 if !facts.indexes.is_empty() => {
                    let index = dice.roll(facts.indexes.len());
                    dice.query_for(&facts.indexes[index], &docs)
                }
                _ => dice.query(2),
            };
            let parsed = filter(&query);
            let sort: Document = (0..dice.roll(3))
                .map(|_| (dice.path(), dice.pick(&[1, -1]).into()))
                .collect();
            let sort = sorting(&sort);
            let sort = keys_of(&sort);
            let hint = (dice.roll(4) == 0).then(|| dice.hint(&facts));
            let planned = plan(&parsed, &sort, hint.as_ref().map(|(hint, _)| hint), &facts);
            let shown = || {
                let specs: Vec<_> = facts.indexes.iter().map(|info| &info.spec).collect();
                format!("seed {seed}: {query}, {hint:?} under {specs:?} by {planned:?}")
            };
            if let Some((_, hinted)) = &hint {
                check_hinted(&planned, *hinted, &facts, &shown);
            }
            let Ok(plan) = &planned else { continue };
            // A hint at an index that leaves documents out yields only what the index holds.
            let held = |at: usize| match hint {
                Some((_, Hinted::Index(index))) => {
                    world.kept[index].iter().any(|(_, held)| *held == at)
                }
                _ => true,
            };
            let expected: Vec<usize> = world
                .docs
                .iter()
                .enumerate()
                .filter(|(at, doc)| parsed.matches(doc.as_doc(), &vars).unwrap() && held(*at))
                .map(|(at, _)| at)
                .collect();
            let found = world.walk(&plan.access);
            let read = read_by(&plan.access);
            if !read.is_empty() {
                let spec = |at: &usize| &facts.indexes[*at].spec;
                assert!(
                    !read.iter().any(|at| spec(at).hidden),
                    "hidden; {}",
                    shown()
                );
                seen.indexed += 1;
                seen.exact += u64::from(plan.exact && !found.is_empty());
                seen.unique += u64::from(read.iter().any(|at| spec(at).unique));
                seen.hinted += u64::from(hint.is_some());
            }
            for at in &expected {
                assert!(
                    found.contains(at),
                    "lost {:?}; {}",
                    world.docs[*at],
                    shown()
                );
            }
            if plan.exact {
                for at in &found {
                    let doc = &world.docs[*at];
                    assert!(expected.contains(at), "not asked for: {doc:?}; {}", shown());
                }
            }
            if plan.sort_covered && !sort.is_empty() {
                let key = |at: usize| {
                    let mut bytes = Vec::new();
                    for part in &sort {
                        let value = part.path.get(world.docs[at].as_doc());
                        let value = if value.is_missing() {
                            Value::null()
                        } else {
                            value.to_value()
                        };
                        key::encode(value.as_ref(), part.descending, &mut bytes);
                    }
                    bytes
                };
                let keys: Vec<_> = found
                    .iter()
                    .filter(|at| expected.contains(at))
                    .map(|at| key(*at))
                    .collect();
                assert!(keys.is_sorted(), "order; {}", shown());
            }
        }
    }
    assert!(seen.indexed > rounds / 2, "{seen:?} in {rounds} rounds");
    for rare in [seen.exact, seen.unique, seen.hinted] {
        assert!(rare > rounds / 8, "{seen:?} in {rounds} rounds");
    }
}

/// Compares the results of [`holders`] in a collection with a scan of all documents.
fn check_joins(rounds: u64, first_seed: u64) {
    let vars = Vars::at(Millis(0));
    let (mut answered, mut found_some) = (0, 0);
    for seed in first_seed..first_seed + rounds {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let collection = Collection::new(Namespace::new("db", "c"), Options::default());
        let write = |change: &mut dyn FnMut(&mut Writer<'_>)| {
            collection
                .write(Millis(0), |writer| change(writer))
                .unwrap();
        };
        for at in 0..=dice.roll(2) {
            let mut spec = IndexSpec::clone(&dice.index().spec);
            spec.name = format!("i{at}");
            // If two documents have the same value, the second is refused and is not part of the collection.
            spec.unique = dice.roll(4) == 0;
            let made = collection.drain_then(Millis(0), monotonic(), |rules| rules.add_index(spec));
            assert!(made.unwrap().is_ok());
        }
        let depth = dice.pick(&[0, 0, 1, 3]);
        let mut docs: Vec<Document> = Vec::new();
        for n in 0..12 {
            let id = match dice.roll(3) {
                0 => dice.scalar(),
                _ => Bson::Int32(n),
            };
            if !is_operand(&id) {
                continue;
            }
            let mut doc = doc! {"_id": id};
            doc.extend(dice.fields(depth));
            let bytes = doc.to_vec().unwrap();
            write(&mut |writer| {
                if writer.insert(&bytes).is_ok() {
                    docs.push(doc.clone());
                }
            });
        }
        for _ in 0..8 {
            let field = dice.path();
            let keys: Vec<Bson> = (0..=dice.roll(2))
                .map(|_| {
                    let from = dice.roll(docs.len() + 2);
                    let held = docs.get(from).and_then(|doc| value_at(doc, &field));
                    held.filter(is_operand).unwrap_or_else(|| dice.constant())
                })
                .collect();
            let asked: Vec<Document> = keys.iter().map(|key| doc! {&field: {"$eq": key}}).collect();
            let parsed = filter(&doc! {"$or": asked});
            let keys = DocBuf::from(doc! {"k": keys});
            let keys = keys.as_doc().get("k").as_array().unwrap();
            let keys: Vec<_> = keys.iter().map(|elem| elem.value).collect();
            collection.read(ReadPoint::at(Millis(0)), |view| {
                let Some(found) = holders(view, &field, &keys) else {
                    return;
                };
                let mut found: Vec<RecordId> = found.iter().map(|(id, _)| *id).collect();
                found.sort_unstable();
                let matching = |stored: &Stored<'_>| parsed.matches(Doc::new(stored.bytes), &vars);
                let all = view.all();
                let scanned = all.iter().filter(|(_, stored)| matching(stored).unwrap());
                let scanned: Vec<RecordId> = scanned.map(|(id, _)| *id).collect();
                let specs: Vec<_> = view.indexes().map(|index| &index.spec).collect();
                assert_eq!(
                    found, scanned,
                    "seed {seed}: {field} {keys:?} under {specs:?}"
                );
                answered += 1;
                found_some += u64::from(!found.is_empty());
            });
        }
    }
    assert!(answered > rounds / 2, "{answered} joins in {rounds} rounds");
    assert!(
        found_some > rounds / 4,
        "{found_some} of {answered} found something"
    );
}

#[test]
fn plans_lose_nothing_and_exact_ones_find_nothing_else() {
    check_law(4_000, 1);
}

#[test]
fn a_join_by_equality_finds_what_a_scan_finds() {
    check_joins(4_000, 1);
}

#[test]
#[ignore = "long"]
fn plans_lose_nothing_and_exact_ones_find_nothing_else_long() {
    check_law(200_000, 1_000_000);
}
