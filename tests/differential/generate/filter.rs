//! Filters.

use bson::{Bson, Document, Regex, bson, doc};

use super::Generator;
use super::value::{KINDS, Kind};

#[rustfmt::skip]
pub const OPERATORS: &[&str] = &[
    "$all", "$alwaysFalse", "$alwaysTrue", "$and", "$bitsAllClear", "$bitsAllSet", "$bitsAnyClear", "$bitsAnySet",
    "$comment", "$elemMatch", "$eq", "$exists", "$expr", "$gt", "$gte", "$in", "$jsonSchema", "$lt", "$lte", "$mod", "$ne",
    "$nin", "$nor", "$not", "$options", "$or", "$regex", "$size", "$type",
];

impl Generator {
    pub fn filter(&mut self, depth: u32) -> Document {
        let mut filter = Document::new();
        if self.random.chance(10) {
            return filter;
        }
        for _ in 0..self.random.pick(&[1, 1, 1, 2]) {
            if depth > 0 && self.random.chance(30) {
                let name = self.random.pick(&[
                    "$and",
                    "$or",
                    "$nor",
                    "$expr",
                    "$jsonSchema",
                    "$comment",
                    "$alwaysTrue",
                    "$alwaysFalse",
                    "$or",
                ]);
                filter.insert(name, self.top(name, depth - 1));
            } else {
                let kind = self.random.pick(&KINDS);
                let path = self.path(kind);
                let test = self.test(kind, depth);
                filter.insert(path, test);
            }
        }
        filter
    }

    fn top(&mut self, name: &str, depth: u32) -> Bson {
        match name {
            "$expr" => self.expression(Kind::Bool, 2),
            "$comment" => self.any(1),
            "$alwaysTrue" | "$alwaysFalse" => self.int(),
            "$jsonSchema" => self.schema(),
            _ => {
                let count = self.random.pick(&[1, 2, 2, 3]);
                Bson::Array((0..count).map(|_| self.filter(depth).into()).collect())
            }
        }
    }

    fn schema(&mut self) -> Bson {
        let (field, rule) = match self.random.below(14) {
            8 => (
                "o",
                bson!({"additionalProperties": false, "properties": {"x": {}}}),
            ),
            9 => (
                "o",
                bson!({"patternProperties": {"^[xy]": {"bsonType": "number"}}, "minProperties": 1, "maxProperties": 2}),
            ),
            10 => (
                "a",
                bson!({"items": [{"type": "number"}, {"type": "string"}], "additionalItems": false, "maxItems": 2}),
            ),
            11 => (
                "n",
                bson!({"anyOf": [{"maximum": (self.number())}, {"bsonType": "string"}], "not": {"enum": [1]}}),
            ),
            12 => (
                "x",
                bson!({"oneOf": [{"type": "object"}, {"type": "array"}], "allOf": [{"title": "a"}], "description": "b"}),
            ),
            13 => (
                "o",
                bson!({"dependencies": {"x": ["y"], "y": {"required": ["z"]}}}),
            ),
            0 => (
                "n",
                bson!({"minimum": (self.number()), "exclusiveMinimum": (self.random.chance(50))}),
            ),
            1 => ("i", bson!({"bsonType": ["int", "long"]})),
            2 => (
                "s",
                bson!({"minLength": 1, "maxLength": 2, "pattern": "^a"}),
            ),
            3 => ("a", bson!({"items": {"bsonType": "number"}, "minItems": 1})),
            4 => (
                "o",
                bson!({"required": ["x"], "properties": {"x": {"type": "number"}}}),
            ),
            5 => ("x", bson!({"enum": [(self.any(1)), (self.any(1))]})),
            6 => ("a", bson!({"uniqueItems": true})),
            _ => ("n", bson!({"multipleOf": 2})),
        };
        let mut schema = doc! {"properties": {field: rule}};
        if self.random.chance(30) {
            schema.insert("required", vec![field]);
        }
        schema.into()
    }

    /// Returns the condition for a field.
    pub fn test(&mut self, kind: Kind, depth: u32) -> Bson {
        if self.random.chance(25) {
            return self.value(kind, 1);
        }
        let mut test = Document::new();
        for _ in 0..self.random.pick(&[1, 1, 1, 2]) {
            let (name, value) = self.clause(kind, depth);
            test.insert(name, value);
        }
        test.into()
    }

    fn clause(&mut self, kind: Kind, depth: u32) -> (&'static str, Bson) {
        let list = |generator: &mut Self| {
            let count = generator.random.below(4);
            Bson::Array((0..count).map(|_| generator.value(kind, 1)).collect())
        };
        let compared = ["$eq", "$ne", "$gt", "$gte", "$lt", "$lte"];
        match self.random.below(24) {
            0..=9 => {
                let name = self.random.pick(&compared);
                (name, self.value(kind, 1))
            }
            10..=11 => ("$in", list(self)),
            12 => ("$nin", list(self)),
            13 => (
                "$exists",
                if self.random.chance(80) {
                    Bson::Boolean(self.random.chance(50))
                } else {
                    self.any(0)
                },
            ),
            14 => (
                "$type",
                match self.random.below(3) {
                    0 => self.int(),
                    1 => bson!(["string", 16]),
                    _ => self
                        .random
                        .pick(&[
                            "number", "string", "array", "null", "object", "bool", "nope", "date",
                            "decimal",
                        ])
                        .into(),
                },
            ),
            15 => ("$mod", bson!([(self.number()), (self.int())])),
            16 => ("$size", self.int()),
            17 => (
                "$all",
                match self.random.below(3) {
                    0 if depth > 0 => bson!([{"$elemMatch": {"x": (self.int())}}]),
                    _ => list(self),
                },
            ),
            18 if depth > 0 => (
                "$elemMatch",
                match self.random.below(2) {
                    0 => bson!({"x": (self.test(Kind::Int, depth - 1))}),
                    _ => {
                        let (name, value) = self.clause(Kind::Int, depth - 1);
                        bson!({name: value})
                    }
                },
            ),
            19 if depth > 0 => (
                "$not",
                match self.random.below(3) {
                    0 => Bson::RegularExpression(Regex {
                        pattern: "a".try_into().expect("no zero"),
                        options: "".try_into().expect("no zero"),
                    }),
                    _ => {
                        let (name, value) = self.clause(kind, depth - 1);
                        bson!({name: value})
                    }
                },
            ),
            20 => (
                "$regex",
                self.random
                    .pick(&["^a", "b$", "A", "\\d", "(", "a|b", "^\u{e9}"])
                    .into(),
            ),
            21 => {
                let name = self.random.pick(&[
                    "$bitsAllClear",
                    "$bitsAllSet",
                    "$bitsAnyClear",
                    "$bitsAnySet",
                ]);
                (
                    name,
                    match self.random.below(3) {
                        0 => bson!([0, 2, (self.int())]),
                        _ => self.int(),
                    },
                )
            }
            22 => ("$options", self.random.pick(&["i", "m", "q"]).into()),
            _ => ("$eq", Bson::Null),
        }
    }
}
