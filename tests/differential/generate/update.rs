//! Updates.

use bson::{Bson, Document, bson, doc};

use super::Generator;
use super::value::{KINDS, Kind};

#[rustfmt::skip]
pub const OPERATORS: &[&str] = &[
    "$addToSet", "$bit", "$currentDate", "$inc", "$max", "$min", "$mul", "$pop", "$pull", "$pullAll", "$push", "$rename",
    "$set", "$setOnInsert", "$unset",
];

impl Generator {
    /// Returns an update and its array filters: operators, a replacement or a pipeline.
    pub fn update(&mut self) -> (Bson, Option<Bson>) {
        match self.random.below(12) {
            0 => {
                let mut document = self.document();
                if self.random.chance(20) {
                    document.insert("_id", self.id());
                }
                (document.into(), None)
            }
            1..=2 => {
                let count = self.random.pick(&[1, 1, 2]);
                let stages = (0..count).map(|_| self.changing_stage().into());
                (Bson::Array(stages.collect()), None)
            }
            _ => {
                let mut update = Document::new();
                for _ in 0..self.random.pick(&[1, 1, 1, 2]) {
                    let name = self.random.pick(OPERATORS);
                    let mut fields = Document::new();
                    for _ in 0..self.random.pick(&[1, 1, 1, 2]) {
                        let (path, value) = self.change(name);
                        fields.insert(path, value);
                    }
                    update.insert(name, fields);
                }
                let filters =
                    update
                        .to_string()
                        .contains("$[e]")
                        .then(|| match self.random.below(3) {
                            0 => bson!([{"e": (self.test(Kind::Int, 0))}]),
                            1 => bson!([{"e.y": (self.test(Kind::Text, 0))}]),
                            _ => bson!([{"e.x": (self.test(Kind::Int, 0))}]),
                        });
                (update.into(), filters)
            }
        }
    }

    fn changing_stage(&mut self) -> Document {
        match self.random.below(6) {
            0 => doc! {"$unset": (self.path(Kind::Any))},
            1 => doc! {"$replaceWith": {"$mergeObjects": ["$$ROOT", (self.object(1))]}},
            2 => doc! {"$project": self.projection(false)},
            _ => {
                let kind = self.random.pick(&KINDS);
                let path = self.path(kind);
                doc! {"$set": {path: (self.expression(kind, 2))}}
            }
        }
    }

    /// Returns a path for an update, including positional ones.
    fn way(&mut self, kind: Kind) -> String {
        match self.random.below(14) {
            0 => "a.$[]".to_owned(),
            1 => "a.$[e]".to_owned(),
            2 => "l.$[e].x".to_owned(),
            3 => "l.$[].x".to_owned(),
            4 => self.random.pick(&["a.$", "l.$.x"]).to_owned(),
            5 => self
                .random
                .pick(&["a.3", "o.new", "new", "l.0.x", "a.0", "o.p.q", "n.x"])
                .to_owned(),
            _ => loop {
                let path = self.path(kind);
                // Special rules protect `_id`, so it is changed only rarely.
                if path != "_id" || self.random.chance(10) {
                    break path;
                }
            },
        }
    }

    fn change(&mut self, name: &str) -> (String, Bson) {
        match name {
            "$inc" | "$mul" => (self.way(Kind::Number), self.number()),
            "$bit" => {
                let how = self.random.pick(&["and", "or", "xor", "nope"]);
                (self.way(Kind::Int), bson!({how: (self.int())}))
            }
            "$min" | "$max" | "$set" | "$setOnInsert" => {
                let kind = self.random.pick(&KINDS);
                (self.way(kind), self.value(kind, 2))
            }
            "$unset" => (self.way(Kind::Any), "".into()),
            "$rename" => {
                let from = self.way(Kind::Any);
                (
                    from,
                    self.random
                        .pick(&["new", "o.new", "s", "n.q", "", "a.0"])
                        .into(),
                )
            }
            "$currentDate" => {
                let how = match self.random.below(3) {
                    0 => bson!({"$type": "date"}),
                    1 => bson!({"$type": "nope"}),
                    _ => Bson::Boolean(true),
                };
                (self.random.pick(&["now", "d", "o.now"]).to_owned(), how)
            }
            "$pop" => (
                self.way(Kind::Array),
                self.random.pick(&[1, -1, 1, -1, 2]).into(),
            ),
            "$pull" => {
                let what = match self.random.below(4) {
                    0 => bson!({"x": (self.test(Kind::Int, 1))}),
                    1 => self.value(Kind::Int, 1),
                    _ => self.test(Kind::Int, 1),
                };
                (self.way(Kind::Array), what)
            }
            "$pullAll" => (self.way(Kind::Array), self.array(1)),
            _ => {
                let value = match self.random.below(3) {
                    0 => self.any(1),
                    _ => self.each(name == "$push"),
                };
                (self.way(Kind::Array), value)
            }
        }
    }

    fn each(&mut self, push: bool) -> Bson {
        let mut each = doc! {"$each": (self.array(1))};
        if push {
            if self.random.chance(30) {
                each.insert("$position", self.int());
            }
            if self.random.chance(30) {
                each.insert("$slice", self.int());
            }
            if self.random.chance(30) {
                let order = match self.random.below(3) {
                    0 => bson!({"x": 1}),
                    1 => bson!({"y": -1, "x": 1}),
                    _ => bson!(1),
                };
                each.insert("$sort", order);
            }
        }
        each.into()
    }
}
