//! Values of every BSON type, and documents made of them.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, JavaScriptCodeWithScope, Regex, Timestamp, bson};

use super::Generator;
use crate::support::literal::db_pointer;

/// The kind of value that is expected at a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Number,
    Int,
    Text,
    Array,
    Date,
    Object,
    Bool,
    Any,
}

pub const KINDS: [Kind; 7] = [
    Kind::Number,
    Kind::Int,
    Kind::Text,
    Kind::Array,
    Kind::Date,
    Kind::Object,
    Kind::Bool,
];

/// The fields of documents, and the kind of value that each has in most cases.
pub const FIELDS: [(&str, Kind); 10] = [
    ("n", Kind::Number),
    ("m", Kind::Number),
    ("i", Kind::Int),
    ("s", Kind::Text),
    ("a", Kind::Array),
    ("l", Kind::Array),
    ("d", Kind::Date),
    ("o", Kind::Object),
    ("b", Kind::Bool),
    ("x", Kind::Any),
];

/// 2020-02-28T23:30:15.250Z
pub const A_DAY: i64 = 1_582_932_615_250;

const TEXTS: &[&str] = &[
    "",
    "a",
    "b",
    "ab",
    "abc",
    "A",
    "Ab c",
    " x ",
    "a,b,,c",
    "10",
    "-1",
    "1.5",
    "true",
    "\u{e9}t\u{e9}",
    "\u{1f600}b",
    "2020-01-02",
    "2020-01-02T03:04:05Z",
    "5f5e0c3f9d3b2a1c4d5e6f70",
    "a.b",
    "x$y",
    "zz",
    "NaN",
    "aXbXc",
];

impl Generator {
    pub fn number(&mut self) -> Bson {
        match self.random.below(20) {
            0..=7 => Bson::Int32(self.random.below(9) as i32 - 2),
            8..=9 => Bson::Int64(self.random.below(9) as i64 - 2),
            10..=12 => Bson::Double(
                self.random
                    .pick(&[0.0, 1.0, -1.0, 0.5, 2.5, 3.0, -7.25, 1e3]),
            ),
            13..=14 => {
                let text = ["0", "1", "1.5", "-2.50", "1E+3", "0.1", "7"];
                decimal(self.random.pick(&text))
            }
            15 => Bson::Int32(self.random.pick(&[i32::MAX, i32::MIN, 100, 1000, 65])),
            16 => Bson::Int64(
                self.random
                    .pick(&[i64::MAX, i64::MIN, 1 << 31, 1 << 53, 1 << 40]),
            ),
            17 => {
                Bson::Double(
                    self.random
                        .pick(&[f64::NAN, f64::INFINITY, -0.0, 1e308, 1e-9, 1e16]),
                )
            }
            18 => decimal(self.random.pick(&[
                "NaN",
                "Infinity",
                "-0",
                "1E-7",
                "9.999999999999999999999999999999999E+6144",
            ])),
            _ => Bson::Double(self.random.below(1000) as f64 / 10.0),
        }
    }

    pub fn int(&mut self) -> Bson {
        match self.random.below(12) {
            0 => Bson::Int64(self.random.below(5) as i64),
            1 => Bson::Double(self.random.below(5) as f64),
            2 => decimal(self.random.pick(&["0", "1", "2"])),
            _ => Bson::Int32(self.random.below(7) as i32 - 1),
        }
    }

    pub fn text(&mut self) -> String {
        self.random.pick(TEXTS).to_owned()
    }

    pub fn date(&mut self) -> Bson {
        let hours = self
            .random
            .pick(&[0, 1, 25, -700, 8_800, 170_000, -450_000, 36, 80_000_000]);
        Bson::DateTime(DateTime::from_millis(A_DAY + hours * 3_600_000))
    }

    /// Returns a value of this kind, and rarely one of another kind.
    pub fn value(&mut self, kind: Kind, depth: u32) -> Bson {
        if self.random.chance(6) {
            return self.any(depth);
        }
        match kind {
            Kind::Number => self.number(),
            Kind::Int => self.int(),
            Kind::Text => Bson::String(self.text()),
            Kind::Date => self.date(),
            Kind::Bool => Bson::Boolean(self.random.chance(50)),
            Kind::Array => self.array(depth),
            Kind::Object => self.object(depth).into(),
            Kind::Any => self.any(depth),
        }
    }

    pub fn array(&mut self, depth: u32) -> Bson {
        let length = self.random.below(5);
        let kind =
            self.random
                .pick(&[Kind::Int, Kind::Number, Kind::Text, Kind::Any, Kind::Object]);
        Bson::Array(
            (0..length)
                .map(|_| self.value(kind, depth.saturating_sub(1)))
                .collect(),
        )
    }

    pub fn object(&mut self, depth: u32) -> Document {
        let mut object = Document::new();
        for (name, kind) in [
            ("x", Kind::Int),
            ("y", Kind::Text),
            ("z", Kind::Any),
            ("k", Kind::Array),
        ] {
            if self.random.chance(45) {
                object.insert(name, self.value(kind, depth.saturating_sub(1)));
            }
        }
        object
    }

    pub fn any(&mut self, depth: u32) -> Bson {
        match self.random.below(if depth > 0 { 24 } else { 20 }) {
            0..=3 => self.number(),
            4..=5 => Bson::String(self.text()),
            6 => Bson::Boolean(self.random.chance(50)),
            7..=8 => Bson::Null,
            9 => self.date(),
            10 => Bson::Timestamp(Timestamp {
                time: self.random.below(3) as u32 + 1,
                increment: self.random.below(3) as u32,
            }),
            11 => Bson::ObjectId(ObjectId::from_bytes([self.random.below(3) as u8 + 7; 12])),
            12 => Bson::Binary(Binary {
                subtype: self.random.pick(&[
                    BinarySubtype::Generic,
                    BinarySubtype::Function,
                    BinarySubtype::Uuid,
                ]),
                bytes: vec![self.random.below(3) as u8; 16],
            }),
            13 => Bson::Binary(Binary {
                subtype: BinarySubtype::Generic,
                bytes: vec![0xa5; self.random.below(4)],
            }),
            14 => Bson::RegularExpression(Regex {
                pattern: self
                    .random
                    .pick(&["^a", "b", "x*"])
                    .try_into()
                    .expect("no zero"),
                options: self.random.pick(&["", "i"]).try_into().expect("no zero"),
            }),
            15 => match self.random.chance(50) {
                true => Bson::MinKey,
                false => Bson::MaxKey,
            },
            16 => match self.random.below(6) {
                0 => Bson::JavaScriptCode("f()".to_owned()),
                1 => Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                    code: "f()".to_owned(),
                    scope: bson::doc! {"x": 1},
                }),
                2 => Bson::Symbol("sym".to_owned()),
                3 => Bson::Undefined,
                4 => db_pointer(),
                _ => Bson::String("\u{0}".to_owned()),
            },
            17..=19 => Bson::Int32(self.random.below(4) as i32),
            20..=21 => self.array(depth - 1),
            _ => self.object(depth - 1).into(),
        }
    }

    /// Returns an `_id` that a document of this round may have.
    pub fn id(&mut self) -> Bson {
        if self.plain || self.random.chance(70) {
            return Bson::Int32(self.random.below(8) as i32 + 1);
        }
        match self.random.below(9) {
            0 => Bson::Int64(3),
            1 => Bson::Double(2.5),
            2 => "a".into(),
            3 => Bson::Null,
            4 => bson!({"x": 1}),
            5 => self.date(),
            6 => Bson::ObjectId(ObjectId::from_bytes([7; 12])),
            7 => decimal("4"),
            _ => Bson::Boolean(true),
        }
    }

    pub fn document(&mut self) -> Document {
        let mut document = Document::new();
        for (name, kind) in FIELDS {
            if !self.random.chance(75) {
                continue;
            }
            let value = match name {
                // An array of objects, for paths through arrays.
                "l" if self.random.chance(80) => {
                    let length = self.random.below(4);
                    (0..length)
                        .map(|_| Bson::from(self.object(1)))
                        .collect::<Vec<_>>()
                        .into()
                }
                _ => self.value(kind, 2),
            };
            document.insert(name, value);
        }
        document
    }

    /// Returns a path that exists in documents, or almost.
    pub fn path(&mut self, kind: Kind) -> String {
        if self.random.chance(6) {
            return self
                .random
                .pick(&["nosuch", "o.nosuch", "a.0.x", "l.x.y", "_id", "x.x", "a.1"])
                .to_owned();
        }
        let paths: &[&str] = match kind {
            Kind::Number => &["n", "m", "i", "o.x", "n"],
            Kind::Int => &["i", "o.x", "i", "n"],
            Kind::Text => &["s", "o.y", "s"],
            Kind::Array => &["a", "l", "l.x", "o.k", "a", "l.k"],
            Kind::Date => &["d"],
            Kind::Object => &["o", "o", "x"],
            Kind::Bool => &["b"],
            Kind::Any => &[
                "n", "m", "i", "s", "a", "l", "d", "o", "b", "x", "o.x", "l.x", "l.y", "a.0",
                "l.0.x", "o.z", "_id",
            ],
        };
        self.random.pick(paths).to_owned()
    }
}

pub fn decimal(text: &str) -> Bson {
    Bson::Decimal128(text.parse().expect("a decimal"))
}
