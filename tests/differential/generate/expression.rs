//! Expressions, from the vocabulary.

use bson::{Bson, Document, Regex, bson, doc};

use super::Generator;
use super::value::{KINDS, Kind};
use super::vocabulary::{GROUPED, OPERATORS, Row, UNITS, ZONES};

impl Generator {
    /// Returns an expression that gives a value of this kind in most cases.
    pub fn expression(&mut self, kind: Kind, depth: u32) -> Bson {
        let choice = self.random.below(100);
        if depth > 0 && choice < 55 {
            let fitting: Vec<Row> = OPERATORS
                .iter()
                .filter(|row| kind == Kind::Any || row.1 == kind || self.random.chance(2))
                .copied()
                .collect();
            if !fitting.is_empty() {
                let row = self.random.pick(&fitting);
                return self.call(row, depth - 1);
            }
        }
        match choice % 20 {
            0..=10 => Bson::String(format!("${}", self.path(kind))),
            11 => Bson::String(
                self.random
                    .pick(&["$$ROOT", "$$CURRENT.n", "$$ROOT.o", "$$REMOVE", "$$nosuch"])
                    .to_owned(),
            ),
            12 if depth > 0 => {
                let mut object = Document::new();
                for name in ["p", "q"] {
                    object.insert(name, self.expression(Kind::Any, depth - 1));
                }
                object.into()
            }
            13 if depth > 0 => bson!([
                (self.expression(Kind::Any, depth - 1)),
                (self.expression(Kind::Any, depth - 1))
            ]),
            _ => self.constant(kind),
        }
    }

    /// Returns a value that is a valid expression as it is.
    fn constant(&mut self, kind: Kind) -> Bson {
        match self.value(kind, 1) {
            Bson::String(text) if text.starts_with('$') => bson!({"$literal": text}),
            value => value,
        }
    }

    pub fn accumulator(&mut self, depth: u32) -> Bson {
        let row = self.random.pick(GROUPED);
        self.call(row, depth)
    }

    fn call(&mut self, (name, _, takes): Row, depth: u32) -> Bson {
        let argument = self.arguments(takes, depth);
        Bson::Document(doc! {name: argument})
    }

    fn arguments(&mut self, takes: &str, depth: u32) -> Bson {
        if let Some(named) = takes
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        {
            let mut document = Document::new();
            for part in named.split(", ").filter(|part| !part.is_empty()) {
                let (name, kind) = part.split_once(':').expect("name:kind");
                match name.strip_suffix('?') {
                    Some(name) if self.random.chance(40) => {
                        document.insert(name, self.argument(kind, depth));
                    }
                    Some(_) => {}
                    // Left out sometimes, to get the error for a missing argument.
                    None if self.random.chance(2) => {}
                    None => {
                        document.insert(name, self.argument(kind, depth));
                    }
                }
            }
            return document.into();
        }
        if let Some(one) = takes
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            return bson!([(self.argument(one, depth))]);
        }
        if let Some(kind) = takes.strip_suffix('*') {
            let count = self.random.pick(&[0, 1, 2, 2, 2, 3]);
            return Bson::Array((0..count).map(|_| self.argument(kind, depth)).collect());
        }
        if !takes.contains(',') {
            return self.argument(takes, depth);
        }
        let mut list = Vec::new();
        for kind in takes.split(',') {
            match kind.strip_suffix('?') {
                Some(kind) if self.random.chance(40) => list.push(self.argument(kind, depth)),
                Some(_) => break,
                None => list.push(self.argument(kind, depth)),
            }
        }
        if self.random.chance(2) {
            list.pop();
        }
        Bson::Array(list)
    }

    fn argument(&mut self, kind: &str, depth: u32) -> Bson {
        if self.random.chance(2) {
            return self.any(1);
        }
        match kind {
            "num" => self.expression(Kind::Number, depth),
            "int" => self.expression(Kind::Int, depth),
            "str" => self.expression(Kind::Text, depth),
            "arr" => self.expression(Kind::Array, depth),
            "date" => self.expression(Kind::Date, depth),
            "obj" => self.expression(Kind::Object, depth),
            "bool" => self.expression(Kind::Bool, depth),
            "any" => {
                let kind = self.random.pick(&KINDS);
                self.expression(kind, depth)
            }
            "unit" => self.argument(UNITS, depth),
            "zone" => self.argument(ZONES, depth),
            "year" => Bson::Int32(self.random.pick(&[2020, 1970, 1, 9999, 2021])),
            "count" => Bson::Int32(self.random.pick(&[1, 2, 3])),
            "type" => match self.random.below(8) {
                0 => Bson::Int32(self.random.pick(&[1, 2, 7, 8, 9, 16, 18, 19, 3, 99])),
                _ => self.argument(
                    "'double|string|objectId|bool|date|int|long|decimal|array|nope'",
                    depth,
                ),
            },
            "literal" => self.any(2),
            "regex" => match self.random.below(2) {
                0 => Bson::String(
                    self.random
                        .pick(&["a", "^[ab]", "(b)(c)?", "x*", "\\d+", "[", ""])
                        .to_owned(),
                ),
                _ => Bson::RegularExpression(Regex {
                    pattern: self
                        .random
                        .pick(&["a", "(?<q>b)", "b|c"])
                        .try_into()
                        .expect("no zero"),
                    options: self.random.pick(&["", "i"]).try_into().expect("no zero"),
                }),
            },
            // Inside it, $$this is an element.
            "inside" => {
                let other = self.expression(Kind::Any, depth.saturating_sub(1));
                match self.random.below(6) {
                    0 => bson!("$$this"),
                    1 => bson!({"$gt": ["$$this", other]}),
                    2 => bson!({"$add": ["$$this", 1]}),
                    3 => bson!("$$this.x"),
                    4 => bson!({"$eq": ["$$this.y", other]}),
                    _ => other,
                }
            }
            "reducing" => match self.random.below(4) {
                0 => bson!({"$concatArrays": ["$$value", ["$$this"]]}),
                1 => bson!({"$max": ["$$value", "$$this"]}),
                2 => bson!({"$add": ["$$value", "$$this"]}),
                _ => self.expression(Kind::Any, depth.saturating_sub(1)),
            },
            "vars" => bson!({"this": (self.expression(Kind::Any, depth.saturating_sub(1)))}),
            "branches" => {
                let count = self.random.below(3);
                let branch = |generator: &mut Self| {
                    let case = generator.expression(Kind::Bool, depth.saturating_sub(1));
                    bson!({"case": case, "then": (generator.expression(Kind::Any, 0))})
                };
                Bson::Array((0..count).map(|_| branch(self)).collect())
            }
            "pairs" => match self.random.below(3) {
                0 => bson!([[(self.text()), 1], ["k", (self.any(1))]]),
                1 => bson!([{"k": (self.text()), "v": (self.any(1))}, {"k": "b", "v": "$n"}]),
                _ => bson!({"$objectToArray": (self.expression(Kind::Object, 0))}),
            },
            "arrays" => bson!([
                (self.expression(Kind::Array, depth)),
                (self.expression(Kind::Array, depth))
            ]),
            "defaults" => bson!([(self.any(0)), (self.any(0))]),
            "order" => match self.random.below(4) {
                0 => Bson::Int32(1),
                1 => Bson::Int32(-1),
                2 => bson!({"x": 1}),
                _ => bson!({"y": -1, "x": 1}),
            },
            // Every document has a different `_id`, so the order is known.
            "sort" => {
                let path = self.random.pick(&["n", "s", "i", "d", "b"]);
                let direction = self.random.pick(&[1, -1]);
                bson!({path: direction, "_id": 1})
            }
            "{}" => bson!({}),
            constant => {
                let words: Vec<&str> = constant.trim_matches('\'').split('|').collect();
                // A wrong one comes last, and rarely.
                let wrong = self.random.chance(10);
                match wrong {
                    true => Bson::String(words[words.len() - 1].to_owned()),
                    false => Bson::String(
                        words[self.random.below(words.len().saturating_sub(1).max(1))].to_owned(),
                    ),
                }
            }
        }
    }
}
