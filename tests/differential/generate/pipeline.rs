//! Pipelines.

use bson::{Bson, Document, bson, doc};

use super::Generator;
use super::value::{KINDS, Kind};

#[rustfmt::skip]
pub const STAGES: &[&str] = &[
    "$addFields", "$bucket", "$bucketAuto", "$count", "$documents", "$facet", "$group", "$limit", "$lookup", "$match", "$merge",
    "$out", "$project", "$redact", "$replaceRoot", "$replaceWith", "$set", "$skip", "$sort", "$sortByCount", "$unionWith",
    "$unset", "$unwind",
];

/// Stages that process documents one by one and keep the order.
const STREAMING: &[&str] = &[
    "$addFields",
    "$match",
    "$match",
    "$project",
    "$project",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$set",
    "$unset",
    "$unwind",
    "$lookup",
];

impl Generator {
    pub fn pipeline(&mut self) -> Vec<Document> {
        let mut stages = Vec::new();
        if self.random.chance(4) {
            let count = self.random.below(3);
            let documents: Vec<Document> = (0..count).map(|_| self.object(1)).collect();
            stages.push(doc! {"$documents": documents});
        }
        // A stage that depends on the order gets a known order.
        if !self.plain || self.random.chance(30) {
            stages.push(doc! {"$sort": self.sort()});
        }
        let count = self.random.pick(&[1, 1, 2, 2, 3]);
        for _ in 0..count {
            match self.random.below(14) {
                0..=2 => {
                    stages.push(self.group());
                    stages.push(doc! {"$sort": {"_id": 1}});
                }
                3 => stages.push(doc! {"$limit": (self.random.below(6) as i64 + 1)}),
                4 => stages.push(doc! {"$skip": (self.int())}),
                5 => {
                    stages.push(doc! {"$sort": self.sort()});
                }
                6 => {
                    let name = self.random.pick(&[
                        "$count",
                        "$facet",
                        "$unionWith",
                        "$bucket",
                        "$bucketAuto",
                        "$sortByCount",
                    ]);
                    stages.push(self.stage(name));
                    if name == "$sortByCount" {
                        stages.push(doc! {"$sort": {"_id": 1}});
                    }
                }
                _ => {
                    let name = self.random.pick(STREAMING);
                    stages.push(self.stage(name));
                }
            }
        }
        stages
    }

    /// Returns the last stage of a pipeline that writes.
    pub fn writing_stage(&mut self) -> Document {
        match self.random.below(3) {
            0 => doc! {"$out": "u"},
            _ => {
                let mut merge = doc! {"into": "u"};
                if self.random.chance(15) {
                    let path = self.path(Kind::Number);
                    merge.insert(
                        "whenMatched",
                        vec![doc! {"$set": {path: "$$new.n", "w": "$$v"}}],
                    );
                    merge.insert("let", doc! {"v": (self.expression(Kind::Any, 1))});
                } else if self.random.chance(60) {
                    let how =
                        self.random
                            .pick(&["replace", "keepExisting", "merge", "fail", "nope"]);
                    merge.insert("whenMatched", how);
                }
                if self.random.chance(50) {
                    let how = self.random.pick(&["insert", "discard", "fail"]);
                    merge.insert("whenNotMatched", how);
                }
                if self.random.chance(10) {
                    merge.insert("on", self.random.pick(&["_id", "n"]));
                }
                doc! {"$merge": merge}
            }
        }
    }

    fn group(&mut self) -> Document {
        let id = match self.random.below(5) {
            0 => Bson::Null,
            1 => {
                bson!({"p": (self.expression(Kind::Any, 0)), "q": (self.expression(Kind::Int, 1))})
            }
            _ => {
                // Different arrays may be equal for a sort.
                let kind = self.random.pick(&[
                    Kind::Number,
                    Kind::Int,
                    Kind::Text,
                    Kind::Date,
                    Kind::Bool,
                ]);
                self.expression(kind, 1)
            }
        };
        let mut group = doc! {"_id": id};
        for name in ["p", "q"] {
            if self.random.chance(75) {
                group.insert(name, self.accumulator(1));
            }
        }
        doc! {"$group": group}
    }

    fn stage(&mut self, name: &str) -> Document {
        let kind = self.random.pick(&KINDS);
        let argument: Bson = match name {
            "$addFields" | "$set" => {
                let path = self.path(kind);
                bson!({path: (self.expression(kind, 3)), "new": (self.expression(Kind::Any, 2))})
            }
            "$match" => self.filter(1).into(),
            "$project" => self.projection(false).into(),
            "$redact" => bson!({"$cond": {
                "if": (self.expression(Kind::Bool, 1)),
                "then": (self.random.pick(&["$$DESCEND", "$$KEEP"])),
                "else": (self.random.pick(&["$$PRUNE", "$$DESCEND", "$$KEEP"])),
            }}),
            "$replaceRoot" => bson!({"newRoot": (self.expression(Kind::Object, 2))}),
            "$replaceWith" => self.expression(Kind::Object, 2),
            "$unset" => match self.random.below(2) {
                0 => self.path(Kind::Any).into(),
                _ => bson!([(self.path(Kind::Any)), (self.path(Kind::Object))]),
            },
            "$unwind" => {
                let path = format!("${}", self.path(Kind::Array));
                match self.random.below(2) {
                    0 => path.into(),
                    _ => bson!({
                        "path": path,
                        "preserveNullAndEmptyArrays": (self.random.chance(50)),
                        "includeArrayIndex": (self.random.pick(&["at", "o.at"])),
                    }),
                }
            }
            "$lookup" => match self.random.below(6) {
                1 => {
                    bson!({"from": (self.random.pick(&["u", "nosuch"])), "localField": (self.path(kind)),
                    "foreignField": (self.path(kind)), "as": "found"})
                }
                2 => {
                    let (local, stages) = (
                        self.path(kind),
                        [doc! {"$sort": {"_id": 1}}, doc! {"$match": self.filter(1)}],
                    );
                    bson!({"from": "u", "let": {"v": (self.expression(kind, 1))}, "localField": local, "foreignField": "n",
                    "as": "found", "pipeline": (stages.to_vec())})
                }
                0 => {
                    bson!({"from": "u", "let": {"v": (self.expression(kind, 0))}, "as": "found", "pipeline": [
                    {"$match": {"$expr": {"$eq": ["$$v", "$n"]}}}, {"$sort": {"_id": 1}}, {"$project": {"n": 1}}]})
                }
                _ => {
                    bson!({"from": "u", "localField": (self.path(kind)), "foreignField": (self.path(kind)),
                    "as": (self.random.pick(&["found", "o.found"])), "pipeline": [{"$sort": {"_id": 1}}, {"$project": {"s": 1}}]})
                }
            },
            "$count" => "total".into(),
            "$facet" => match self.random.below(3) {
                0 => bson!({"p": [{"$match": self.filter(1)}], "q": [{"$count": "n"}]}),
                1 => bson!({"p": [], "q": [{"$limit": 1}, {"$project": self.projection(false)}]}),
                _ => {
                    let name = self.random.pick(STREAMING);
                    bson!({"p": [(self.stage(name))]})
                }
            },
            "$unionWith" if self.random.chance(20) => "u".into(),
            "$unionWith" => {
                bson!({"coll": "u", "pipeline": [{"$match": self.filter(1)}, {"$sort": {"_id": 1}}]})
            }
            "$bucket" => {
                let mut bucket = doc! {"groupBy": (self.expression(Kind::Number, 0)), "boundaries": [-10, 0, 2.5, 100]};
                if self.random.chance(75) {
                    bucket.insert("default", "other");
                }
                if self.random.chance(50) {
                    bucket.insert("output", doc! {"p": (self.accumulator(0))});
                }
                bucket.into()
            }
            "$bucketAuto" => {
                let mut bucket = doc! {"groupBy": (self.expression(Kind::Number, 0)), "buckets": (self.random.below(4) as i32 + 1)};
                if self.random.chance(20) {
                    let series = self
                        .random
                        .pick(&["R5", "1-2-5", "POWERSOF2", "E12", "nope"]);
                    bucket.insert("granularity", series);
                }
                if self.random.chance(30) {
                    bucket.insert("output", doc! {"p": (self.accumulator(0))});
                }
                bucket.into()
            }
            _ => self.expression(kind, 1),
        };
        doc! {name: argument}
    }
}
