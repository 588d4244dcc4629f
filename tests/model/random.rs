//! Random numbers from a seed (splitmix64), and random values, filters, updates and commands.

use bson::{Bson, Document, bson, doc};

/// The same seed gives the same numbers.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
    crowd: Crowd,
}

/// The size of the collections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crowd {
    /// A few documents, so that commands often affect the same ones.
    Few,
    /// Hundreds of documents, some of them large: enough for several segments, which are compacted as documents are
    /// removed.
    Many,
}

// === impl Random ===

impl Random {
    pub fn new(seed: u64, crowd: Crowd) -> Self {
        Self { state: seed, crowd }
    }

    /// The number of documents in one insert.
    pub fn several(&mut self) -> u64 {
        match self.crowd {
            Crowd::Few => 1 + self.below(4),
            Crowd::Many => 1 + self.below(60),
        }
    }

    /// The number of different `_id`s.
    fn ids(&self) -> u64 {
        match self.crowd {
            Crowd::Few => 24,
            Crowd::Many => 400,
        }
    }

    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns true with this probability in percent.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    pub fn id(&mut self) -> Bson {
        let ids = self.ids();
        match self.below(30) {
            0 => Bson::String("x".into()),
            1 => Bson::Double(2.5),
            2 => Bson::Null,
            // Equal to the int of the same value.
            3 => Bson::Double(self.below(ids) as f64),
            4 => Bson::Int64(self.below(ids) as i64),
            _ => Bson::Int32(self.below(ids) as i32),
        }
    }

    pub fn scalar(&mut self, now: i64) -> Bson {
        match self.below(40) {
            0..=15 => Bson::Int32(self.below(7) as i32),
            16..=19 => self
                .pick(&[
                    Bson::Double(0.0),
                    Bson::Double(1.0),
                    Bson::Double(2.5),
                    Bson::Double(3.0),
                    Bson::Double(-1.5),
                ])
                .clone(),
            20..=22 => Bson::Int64(self.below(7) as i64),
            23..=30 => Bson::String(self.pick(&["a", "ab", "b", "c", ""]).to_string()),
            31..=33 => Bson::Null,
            34..=35 => Bson::Boolean(self.chance(50)),
            36..=37 => self.date(now),
            38 => Bson::Double(f64::NAN),
            _ => bson!({"x": (self.below(3) as i32)}),
        }
    }

    pub fn date(&mut self, now: i64) -> Bson {
        // Near now, in whole seconds, so that some are equal.
        let seconds = self.below(60) as i64 - 20;
        Bson::DateTime(bson::DateTime::from_millis((now / 1000 + seconds) * 1000))
    }

    fn array(&mut self, now: i64) -> Bson {
        let length = self.below(4);
        Bson::Array((0..length).map(|_| self.scalar(now)).collect())
    }

    /// Returns a value for the field of this name.
    pub fn value(&mut self, field: &str, now: i64) -> Bson {
        match field {
            "a" => match self.below(10) {
                0..=1 => self.array(now),
                _ => self.scalar(now),
            },
            "c" => match self.below(10) {
                0..=4 => bson!({"x": (self.scalar(now))}),
                5..=6 => {
                    let length = self.below(3);
                    Bson::Array(
                        (0..length)
                            .map(|_| bson!({"x": (self.scalar(now)), "y": 1}))
                            .collect(),
                    )
                }
                7 => bson!([{"y": 1}, 3]),
                _ => self.scalar(now),
            },
            "n" => match self.below(6) {
                0 => Bson::Int64(self.below(9) as i64),
                1 => Bson::Double(self.below(9) as f64 / 2.0),
                _ => Bson::Int32(self.below(9) as i32),
            },
            "arr" => self.array(now),
            "u" => Bson::Int32(self.below(self.ids() * 5 / 3) as i32),
            "at" => match self.below(8) {
                0 => Bson::Array(vec![self.date(now), Bson::Int32(1), self.date(now)]),
                1 => Bson::String("soon".into()),
                _ => self.date(now),
            },
            "ttl" => match self.below(12) {
                0 => Bson::Int32(-1),
                1 => Bson::Int64(1 + self.below(60) as i64),
                2 => Bson::Double(1.0 + self.below(60) as f64),
                3 => self
                    .pick(&[
                        Bson::Double(2.5),
                        Bson::Int32(0),
                        Bson::Int32(-7),
                        Bson::Null,
                        Bson::String("5".into()),
                        Bson::Int64(3_000_000_000),
                        Bson::Int64(i64::MAX),
                        Bson::Int64(i64::MIN),
                        Bson::Int32(i32::MAX),
                        Bson::Int32(i32::MIN),
                        Bson::Double(-1.0),
                        Bson::Double(1e300),
                        Bson::Boolean(true),
                        Bson::Array(vec![Bson::Int32(5)]),
                    ])
                    .clone(),
                _ => Bson::Int32(1 + self.below(60) as i32),
            },
            // Scalars only: two arrays cannot share a compound index.
            _ => self.scalar(now),
        }
    }

    pub fn document(&mut self, now: i64) -> Document {
        let mut document = Document::new();
        for (field, percent) in [
            ("a", 80),
            ("b", 80),
            ("c", 50),
            ("n", 95),
            ("arr", 60),
            ("u", 70),
            ("at", 15),
            ("ttl", 30),
        ] {
            if self.chance(percent) {
                document.insert(field, self.value(field, now));
            }
        }
        if self.crowd == Crowd::Many && self.chance(40) {
            let most = if self.chance(4) { 40_000 } else { 6_000 };
            document.insert("pad", "x".repeat(self.below(most) as usize));
        }
        document
    }

    pub fn field(&mut self) -> &'static str {
        self.pick::<&str>(&["a", "b", "c", "n", "arr", "u", "at", "ttl"])
    }

    /// Returns a filter with up to `deep` levels of $and, $or and $nor.
    pub fn filter(&mut self, now: i64, deep: u32) -> Document {
        if self.chance(12) {
            return doc! {};
        }
        if deep > 0 && self.chance(20) {
            let clauses: Vec<Document> = (0..=self.below(2) + 1)
                .map(|_| self.filter(now, deep - 1))
                .collect();
            return doc! {(self.pick(&["$and", "$or", "$nor", "$or"]).to_string()): clauses};
        }
        let mut filter = Document::new();
        for _ in 0..=self.below(2) {
            let (path, value) = self.clause(now);
            filter.insert(path, value);
        }
        if self.chance(6) {
            let (name, value) = self.whole_clause();
            filter.insert(name, value);
        }
        filter
    }

    /// Returns a condition on the document, not on a field.
    fn whole_clause(&mut self) -> (&'static str, Bson) {
        let field = *self.pick(&["a", "b", "n", "u"]);
        if self.chance(60) {
            let operator = *self.pick(&["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"]);
            let other = match self.below(3) {
                0 => Bson::String(self.pick(&["$n", "$b", "$u"]).to_string()),
                _ => Bson::Int32(self.below(7) as i32),
            };
            return ("$expr", bson!({operator: [(format!("${field}")), other]}));
        }
        let rules = match self.below(4) {
            0 => {
                bson!({"bsonType": (self.pick(&["int", "number", "string", "array"]).to_string())})
            }
            1 => bson!({"minimum": (self.below(6) as i32)}),
            2 => bson!({"minLength": 1, "bsonType": "string"}),
            _ => bson!({"enum": ["a", 1, 2.5, null, [1]]}),
        };
        let required = *self.pick(&["a", "b", "c", "arr", "ttl"]);
        (
            "$jsonSchema",
            bson!({"required": [required], "properties": {field: rules}}),
        )
    }

    fn clause(&mut self, now: i64) -> (String, Bson) {
        if self.chance(12) {
            let ids = self.ids();
            let id = match self.below(4) {
                0 => bson!({"$in": [(self.id()), (self.id()), (self.id())]}),
                1 => bson!({"$gte": (self.below(ids) as i32)}),
                2 => bson!({"$lt": (self.below(ids) as i32), "$gt": 2}),
                _ => self.id(),
            };
            return ("_id".into(), id);
        }
        if self.chance(4) {
            let second = now.div_euclid(1000) - self.below(20) as i64;
            let operator = *self.pick(&["$gte", "$lt", "$eq"]);
            return ("_ts".into(), bson!({operator: second}));
        }
        let path = *self.pick(&[
            "a", "a", "a", "b", "b", "c.x", "c", "n", "n", "arr", "arr", "u", "at", "ttl", "c.y",
            "arr.0", "c.0.x",
        ]);
        let field = path.split('.').next().expect("a name");
        let mut value = match path {
            "c.x" | "arr" | "arr.0" | "c.0.x" | "c.y" => self.scalar(now),
            _ => self.value(field, now),
        };
        if path == "at" && matches!(value, Bson::Array(_)) {
            value = self.date(now);
        }
        let plain = !matches!(value, Bson::Document(_) | Bson::Array(_));
        let condition = match self.below(22) {
            0..=5 => value,
            6..=10 if plain => {
                let operator = *self.pick(&["$gt", "$gte", "$lt", "$lte"]);
                bson!({operator: value})
            }
            11..=12 if plain => {
                let other = self.scalar(now);
                let (low, high) = (*self.pick(&["$gt", "$gte"]), *self.pick(&["$lt", "$lte"]));
                match other {
                    Bson::Document(_) => bson!({low: value}),
                    other => bson!({low: value, high: other}),
                }
            }
            13..=14 => bson!({"$in": [value, (self.scalar(now)), (self.scalar(now))]}),
            15 => bson!({"$nin": [value, (self.scalar(now))]}),
            16 => bson!({"$ne": value}),
            17 => bson!({"$exists": (self.chance(50))}),
            18 => bson!({"$not": {"$gt": (Bson::Int32(self.below(6) as i32))}}),
            19 => match self.below(10) {
                0 => bson!({"$size": (self.below(3) as i32)}),
                1 => bson!({"$all": [(self.scalar(now))]}),
                2 => bson!({"$all": [(self.scalar(now)), (self.scalar(now))]}),
                3 => bson!({"$mod": [2, (self.below(2) as i32)]}),
                4 => {
                    bson!({"$regex": (self.pick(&["^a", "^b", "b$", "a"]).to_string()), "$options": "s"})
                }
                5 => {
                    let operator = *self.pick(&[
                        "$bitsAllSet",
                        "$bitsAllClear",
                        "$bitsAnySet",
                        "$bitsAnyClear",
                    ]);
                    match self.below(2) {
                        0 => bson!({operator: (self.below(8) as i32)}),
                        _ => bson!({operator: [(self.below(4) as i32), (self.below(4) as i32)]}),
                    }
                }
                6 => bson!({"$type": (self.type_alias())}),
                7 => bson!({"$type": [(self.type_alias()), (self.type_alias())]}),
                8 => bson!({"$not": {"$in": [(self.scalar(now)), null]}}),
                _ => bson!({"$not": {"$type": (self.type_alias())}}),
            },
            20 => match path {
                "c" => bson!({"$elemMatch": {"x": (self.below(4) as i32)}}),
                _ => bson!({"$elemMatch": {"$gte": (self.below(4) as i32), "$lt": 6}}),
            },
            _ => bson!({"$eq": value}),
        };
        (path.into(), condition)
    }

    fn type_alias(&mut self) -> String {
        self.pick(&[
            "int", "long", "double", "number", "string", "null", "bool", "date", "object", "array",
        ])
        .to_string()
    }

    /// Returns a sort that ends with `_id`, so that the order is unique.
    pub fn sort(&mut self) -> Document {
        let mut sort = Document::new();
        // At most one path may have an array, because documents cannot be sorted by two of them.
        let array = *self.pick(&["a", "c.x", "arr", "at"]);
        for _ in 0..self.below(3) {
            let path = *self.pick(&[array, array, "b", "n", "u", "_ts"]);
            sort.insert(path, if self.chance(50) { 1 } else { -1 });
        }
        sort.insert("_id", if self.chance(50) { 1 } else { -1 });
        sort
    }

    pub fn update(&mut self, now: i64) -> Document {
        if self.chance(12) {
            return self.document(now);
        }
        if self.chance(5) {
            let (from, to) = *self.pick(&[("a", "z"), ("ttl", "was"), ("z", "a"), ("was", "ttl")]);
            return doc! {"$rename": {from: to}};
        }
        let mut update = Document::new();
        let mut touched: Vec<&str> = Vec::new();
        for _ in 0..=self.below(2) {
            let (operator, path, operand) = match self.below(20) {
                0..=4 => {
                    let field = self.field();
                    ("$set", field, self.value(field, now))
                }
                5 => ("$set", "c.x", self.scalar(now)),
                6..=7 => (
                    "$unset",
                    *self.pick(&["a", "b", "ttl", "at", "c.x", "u", "arr"]),
                    Bson::Int32(1),
                ),
                8..=10 => ("$inc", "n", Bson::Int32(self.below(3) as i32)),
                11 => ("$inc", *self.pick(&["a", "b", "ttl"]), Bson::Int32(1)),
                12 => ("$mul", "n", Bson::Double(0.5)),
                13 => ("$min", "n", Bson::Int32(self.below(9) as i32)),
                14 => ("$max", "n", Bson::Int64(self.below(9) as i64)),
                15 => ("$push", "arr", self.scalar(now)),
                16 => (
                    "$push",
                    "arr",
                    bson!({"$each": [(self.scalar(now)), (self.scalar(now))], "$slice": -3}),
                ),
                17 => match self.below(4) {
                    0 => (
                        "$addToSet",
                        "arr",
                        bson!({"$each": [(self.below(5) as i32), (self.below(5) as i32)]}),
                    ),
                    1 => (
                        "$push",
                        "arr",
                        bson!({
                            "$each": [(self.below(9) as i32), (self.scalar(now))],
                            "$position": (self.below(5) as i32 - 2),
                        }),
                    ),
                    2 => (
                        "$push",
                        "arr",
                        bson!({
                            "$each": [(self.below(9) as i32)],
                            "$sort": (if self.chance(50) { 1 } else { -1 }),
                            "$slice": (self.below(5) as i32),
                        }),
                    ),
                    _ => ("$addToSet", "arr", Bson::Int32(self.below(5) as i32)),
                },
                18 if self.chance(40) => match self.below(2) {
                    0 => (
                        "$pullAll",
                        "arr",
                        bson!([(self.below(5) as i32), (self.scalar(now))]),
                    ),
                    _ => {
                        let operation = *self.pick(&["and", "or", "xor"]);
                        let operand = match self.below(2) {
                            0 => Bson::Int32(self.below(8) as i32),
                            _ => Bson::Int64(self.below(8) as i64),
                        };
                        ("$bit", "n", bson!({operation: operand}))
                    }
                },
                18 => match self.below(3) {
                    0 => (
                        "$pop",
                        "arr",
                        Bson::Int32(if self.chance(50) { 1 } else { -1 }),
                    ),
                    1 => ("$pull", "arr", bson!({"$gte": 3})),
                    _ => ("$pull", "arr", Bson::Int32(self.below(5) as i32)),
                },
                _ => match self.below(2) {
                    0 => ("$currentDate", "at", Bson::Boolean(true)),
                    _ => ("$setOnInsert", "b", Bson::String("new".into())),
                },
            };
            // One update may change each field only once.
            let root = path.split('.').next().expect("a name");
            if touched.contains(&root) {
                continue;
            }
            touched.push(root);
            if !update.contains_key(operator) {
                update.insert(operator, Document::new());
            }
            update
                .get_document_mut(operator)
                .expect("just made")
                .insert(path, operand);
        }
        update
    }

    /// Returns a change of array elements in a positional form, the condition that the filter needs, and the array filters.
    pub fn elements(&mut self, now: i64) -> (Document, Document, Option<Bson>) {
        let least = self.below(5) as i32;
        let (operator, operand) = match self.below(3) {
            0 => ("$inc", Bson::Int32(10)),
            1 => ("$max", Bson::Int32(self.below(9) as i32)),
            _ => ("$set", self.scalar(now)),
        };
        match self.below(3) {
            0 => (
                doc! {"arr": {"$gte": least}},
                doc! {operator: {"arr.$": operand}},
                None,
            ),
            1 => (doc! {}, doc! {operator: {"arr.$[]": operand}}, None),
            _ => (
                doc! {},
                doc! {operator: {"arr.$[e]": operand}},
                Some(bson!([{"e": {"$gte": least}}])),
            ),
        }
    }

    /// Returns a pipeline update.
    pub fn pipeline(&mut self) -> Bson {
        match self.below(7) {
            4 => bson!([{"$set": {"ttl": (*self.pick(&[1, 2, 10, -1, 0]))}}]),
            5 => bson!([{"$unset": "ttl"}]),
            6 => bson!([{"$set": {"was": "$ttl", "ttl": "$n"}}]),
            0 => bson!([{"$set": {"n": {"$add": ["$n", (self.below(4) as i32)]}}}]),
            1 => bson!([{"$set": {"z": "$b"}}, {"$unset": "b"}]),
            2 => bson!([{"$unset": ["a", "z"]}, {"$addFields": {"was": "$u"}}]),
            _ => bson!([{"$set": {"n": 3}}, {"$set": {"z": "$n", "b": {"$literal": "$n"}}}]),
        }
    }

    pub fn projection(&mut self) -> Document {
        self.pick(&[
            doc! {"a": 1, "n": 1},
            doc! {"_id": 0, "b": 1},
            doc! {"arr": 0, "c": 0},
            doc! {"c.x": 1},
            doc! {"c.x": 0, "a": 0},
            doc! {"_id": 0, "u": 0},
            doc! {"_id": 1},
            doc! {"n": 1, "_ts": 1},
        ])
        .clone()
    }

    /// Returns indexes of all kinds, each with its own name.
    pub fn index(&mut self) -> Document {
        self.pick(&[
            doc! {"key": {"a": 1}, "name": "a"},
            doc! {"key": {"a": -1}, "name": "a down"},
            doc! {"key": {"b": 1, "a": -1}, "name": "b a"},
            doc! {"key": {"b": -1, "n": 1, "c.x": 1}, "name": "b n cx"},
            doc! {"key": {"c.x": 1}, "name": "c.x"},
            doc! {"key": {"c": 1}, "name": "c"},
            doc! {"key": {"arr": 1}, "name": "arr"},
            doc! {"key": {"arr.0": 1}, "name": "arr.0"},
            doc! {"key": {"n": 1, "arr": -1}, "name": "n arr"},
            doc! {"key": {"u": 1}, "name": "u", "unique": true},
            doc! {"key": {"u": -1}, "name": "u sparse", "unique": true, "sparse": true},
            doc! {"key": {"u": 1, "n": 1}, "name": "u n", "unique": true, "partialFilterExpression": {"b": "a"}},
            doc! {"key": {"b": 1}, "name": "b partial", "partialFilterExpression": {"n": {"$gte": 3}}},
            doc! {"key": {"a": 1}, "name": "a sparse", "sparse": true},
            doc! {"key": {"a": 1, "b": 1}, "name": "a b hidden", "hidden": true},
            doc! {"key": {"at": 1}, "name": "at", "expireAfterSeconds": 20},
            doc! {"key": {"at": -1}, "name": "at partial", "expireAfterSeconds": 5, "partialFilterExpression": {"n": {"$lt": 4}}},
            doc! {"key": {"at": 1}, "name": "at unique", "expireAfterSeconds": 10, "unique": true, "sparse": true},
            doc! {"key": {"c.x": -1}, "name": "at inside", "expireAfterSeconds": 15},
            doc! {"key": {"ttl": -1}, "name": "ttl ends", "expireAfterSeconds": 3, "hidden": true},
            doc! {"key": {"_ts": 1, "n": 1}, "name": "ts n"},
            doc! {"key": {"_id": -1, "n": 1}, "name": "id n"},
            doc! {"key": {"ttl": 1}, "name": "ttl"},
        ])
        .clone()
    }
}
