//! Commands, and the rounds that consist of them.

use bson::{Bson, Document, bson, doc};

use super::value::{KINDS, Kind};
use super::{Generator, Step};
use crate::random::Random;

/// Generates a collection `t` with documents, sometimes with indexes, a second collection `u`, and commands on them.
pub fn round(seed: u64, commands: usize) -> Vec<Step> {
    let mut random = Random::new(seed);
    let plain = random.chance(60);
    let mut generator = Generator { random, plain };
    let mut steps = Vec::new();
    for (collection, most) in [("t", 7), ("u", 4)] {
        let mut documents: Vec<Document> = Vec::new();
        for n in 0..generator.random.below(most) + 1 {
            let mut document = doc! {"_id": (n as i32 + 1)};
            if !plain && generator.random.chance(20) {
                document.insert("_id", generator.id());
            }
            document.extend(generator.document());
            documents.push(document);
        }
        let insert = doc! {"insert": collection, "documents": documents, "ordered": false};
        steps.push(Step::new(insert));
    }
    if !plain {
        for _ in 0..generator.random.below(3) + 1 {
            let index = generator.index();
            steps.push(Step::new(doc! {"createIndexes": "t", "indexes": [index]}));
        }
    }
    for _ in 0..commands {
        steps.push(generator.step());
    }
    steps
}

impl Generator {
    fn step(&mut self) -> Step {
        let mut command = match self.random.below(100) {
            0..=24 => self.find(),
            25..=54 => self.aggregate(),
            55..=58 => self.count(),
            59..=63 => {
                doc! {"distinct": "t", "key": (self.path(Kind::Any)), "query": self.filter(1)}
            }
            64..=67 => self.insert(),
            68..=81 => self.updating(),
            82..=83 => {
                let (q, limit) = self.target();
                doc! {"delete": "t", "deletes": [{"q": q, "limit": limit}]}
            }
            84..=92 => self.find_and_modify(),
            _ => self.definition(),
        };
        if self.random.chance(4) {
            self.spoil(&mut command);
        }
        let more = match self.random.below(8) {
            0 => None,
            1..=3 => Some(0),
            n => Some(n as i32 - 3),
        };
        Step { command, more }
    }

    fn find(&mut self) -> Document {
        let mut find = doc! {"find": "t", "filter": self.filter(2)};
        if self.random.chance(35) {
            find.insert("projection", self.projection(true));
        }
        let cut = self.random.chance(25);
        if self.random.chance(35) || (cut && !self.plain) {
            find.insert("sort", self.sort());
        }
        if cut {
            let name = self.random.pick(&["limit", "skip"]);
            find.insert(name, self.random.below(4) as i32);
        }
        if self.random.chance(25) {
            find.insert("batchSize", self.random.below(4) as i32);
        }
        if self.random.chance(3) {
            find.insert("singleBatch", self.random.chance(50));
        }
        if self.random.chance(3) {
            find.insert("hint", self.random.pick(&["_id_", "nosuch"]));
        }
        if self.random.chance(3) {
            find.insert("let", doc! {"v": (self.int())});
        }
        find
    }

    fn aggregate(&mut self) -> Document {
        let mut pipeline = self.pipeline();
        if self.random.chance(6) {
            pipeline.push(self.writing_stage());
        }
        let collection = match pipeline[0].contains_key("$documents") {
            true => Bson::Int32(1),
            false => "t".into(),
        };
        let mut cursor = Document::new();
        if self.random.chance(25) {
            cursor.insert("batchSize", self.random.below(4) as i32);
        }
        doc! {"aggregate": collection, "pipeline": pipeline, "cursor": cursor}
    }

    fn count(&mut self) -> Document {
        let mut count = doc! {"count": "t", "query": self.filter(2)};
        for name in ["limit", "skip"] {
            if self.random.chance(20) {
                count.insert(name, self.int());
            }
        }
        count
    }

    fn insert(&mut self) -> Document {
        let mut documents = Vec::new();
        for _ in 0..self.random.below(3) + 1 {
            let mut document = doc! {"_id": (self.id())};
            document.extend(self.document());
            documents.push(document);
        }
        let mut insert = doc! {"insert": "t", "documents": documents};
        if self.random.chance(30) {
            insert.insert("ordered", self.random.chance(50));
        }
        insert
    }

    /// Returns a filter, and how many of the found documents to change: only one if it is known which.
    fn target(&mut self) -> (Document, i32) {
        let one = self.random.chance(60);
        let mut filter = self.filter(1);
        if one && (!self.plain || self.random.chance(60)) {
            filter.insert("_id", self.id());
        }
        (filter, i32::from(one))
    }

    fn updating(&mut self) -> Document {
        let (q, limit) = self.target();
        let (u, filters) = self.update();
        let mut update = doc! {"q": q, "u": u};
        if limit == 0 {
            update.insert("multi", true);
        }
        if self.random.chance(20) {
            update.insert("upsert", true);
        }
        if let Some(filters) = filters {
            update.insert("arrayFilters", filters);
        }
        doc! {"update": "t", "updates": [update]}
    }

    fn find_and_modify(&mut self) -> Document {
        let mut command = doc! {"findAndModify": "t", "query": self.filter(1), "sort": self.sort()};
        if self.random.chance(15) {
            command.insert("remove", true);
        } else {
            let (u, filters) = self.update();
            command.insert("update", u);
            if let Some(filters) = filters {
                command.insert("arrayFilters", filters);
            }
            if self.random.chance(50) {
                command.insert("new", true);
            }
            if self.random.chance(20) {
                command.insert("upsert", true);
            }
        }
        if self.random.chance(25) {
            command.insert("fields", self.projection(true));
        }
        command
    }

    fn index(&mut self) -> Bson {
        let mut key = Document::new();
        for _ in 0..self.random.pick(&[1, 1, 2]) {
            let kind = self.random.pick(&KINDS);
            let path = self.path(kind);
            key.insert(path, self.random.pick(&[1, -1]));
        }
        let name = self.random.pick(&["i1", "i2", "i3"]);
        let mut index = doc! {"key": key, "name": name};
        if self.random.chance(12) {
            index.insert("unique", true);
        }
        if self.random.chance(15) {
            index.insert("sparse", true);
        }
        if self.random.chance(10) {
            let filter = match self.random.below(2) {
                0 => bson!({"n": {"$gt": (self.number())}}),
                _ => bson!({"s": {"$exists": true}}),
            };
            index.insert("partialFilterExpression", filter);
        }
        if self.random.chance(8) {
            index.insert("hidden", self.random.chance(70));
        }
        index.into()
    }

    fn definition(&mut self) -> Document {
        match self.random.below(if self.plain { 9 } else { 12 }) {
            0 => doc! {"listIndexes": "t"},
            1 => doc! {"create": (self.random.pick(&["t", "v", "", "$a", "a..b"]))},
            2 => doc! {"drop": (self.random.pick(&["u", "nosuch"]))},
            3 => {
                doc! {"listCollections": 1, "nameOnly": true, "filter": {"name": (self.random.pick(&["t", "u", "v"]))}}
            }
            4 => doc! {"find": "nosuch", "filter": self.filter(1)},
            5 => doc! {"explain": self.find(), "verbosity": "queryPlanner"},
            6 => doc! {"collMod": "t"},
            7 => doc! {"dropIndexes": "t", "index": (self.random.pick(&["_id_", "nosuch", "*"]))},
            8 => doc! {"validate": "t"},
            9 => doc! {"dropIndexes": "t", "index": (self.random.pick(&["i1", "i2", "i3"]))},
            _ => doc! {"createIndexes": "t", "indexes": [(self.index())]},
        }
    }
}
