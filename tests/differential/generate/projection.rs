//! Projections and sorts.

use bson::{Bson, Document, bson};

use super::Generator;
use super::value::{KINDS, Kind};

impl Generator {
    /// Returns the projection of a find if `found` is set, otherwise that of a `$project`.
    pub fn projection(&mut self, found: bool) -> Document {
        let mut projection = Document::new();
        let shown = self.random.chance(65);
        if self.random.chance(30) {
            projection.insert(
                "_id",
                if self.random.chance(70) {
                    Bson::Int32(0)
                } else {
                    Bson::Boolean(true)
                },
            );
        }
        for _ in 0..self.random.below(3) + 1 {
            let kind = self.random.pick(&KINDS);
            let path = self.path(kind);
            let value = match self.random.below(20) {
                0..=2 if shown => self.expression(kind, 2),
                3 if found => bson!({"$slice": (self.int())}),
                4 if found => bson!({"$slice": [(self.int()), (self.int())]}),
                5 if found => bson!({"$elemMatch": {"x": (self.test(Kind::Int, 0))}}),
                6 if shown => bson!({"x": 1, "q": {"$literal": 1}}),
                7 => {
                    let other = Bson::Boolean(!shown);
                    if self.random.chance(20) {
                        other
                    } else {
                        Bson::Boolean(shown)
                    }
                }
                _ if shown => self.random.pick(&[1.0, 2.5, -1.0]).into(),
                _ => Bson::Int32(0),
            };
            projection.insert(path, value);
        }
        projection
    }

    /// Returns a sort that gives a unique order.
    pub fn sort(&mut self) -> Document {
        let mut sort = Document::new();
        for _ in 0..self.random.below(3) {
            let kind = self.random.pick(&KINDS);
            let path = self.path(kind);
            sort.insert(path, self.random.pick(&[1, -1]));
        }
        if !sort.contains_key("_id") {
            sort.insert("_id", self.random.pick(&[1, -1]));
        }
        sort
    }
}
