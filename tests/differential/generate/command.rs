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
            0..=21 => self.find(),
            22..=51 => self.aggregate(),
            52..=55 => self.count(),
            56..=59 => {
                let mut distinct = doc! {"distinct": "t", "key": (self.path(Kind::Any))};
                // Without a filter an index may serve it alone.
                if self.random.chance(60) {
                    distinct.insert("query", self.filter(1));
                }
                distinct
            }
            60..=63 => self.insert(),
            64..=77 => self.updating(),
            78..=80 => self.delete(),
            81..=89 => self.find_and_modify(),
            90..=95 => self.definition(),
            _ => self.inquiry(),
        };
        let verb = command.keys().next().cloned().unwrap_or_default();
        self.add_options(&verb, &mut command);
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
        find
    }

    fn delete(&mut self) -> Document {
        let mut deletes = Vec::new();
        for _ in 0..self.random.pick(&[1, 1, 1, 2]) {
            let (q, limit) = self.target();
            let mut statement = doc! {"q": q, "limit": limit};
            self.add_options("deletes", &mut statement);
            deletes.push(statement);
        }
        doc! {"delete": "t", "deletes": deletes}
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
        let mut updates = Vec::new();
        for _ in 0..self.random.pick(&[1, 1, 1, 1, 2]) {
            updates.push(self.update_statement());
        }
        doc! {"update": "t", "updates": updates}
    }

    fn update_statement(&mut self) -> Document {
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
        self.add_options("updates", &mut update);
        update
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
        for _ in 0..self.random.pick(&[1, 1, 2, 3]) {
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
            let filter = match self.random.below(5) {
                0 => bson!({"n": {"$gt": (self.number())}}),
                1 => bson!({"i": (self.int()), "s": {"$exists": true}}),
                2 => bson!({"$and": [{"n": {"$lte": (self.int())}}, {"d": {"$type": "date"}}]}),
                3 => bson!({"b": true}),
                _ => bson!({"s": {"$exists": true}}),
            };
            index.insert("partialFilterExpression", filter);
        }
        if self.random.chance(8) {
            index.insert("hidden", self.random.chance(70));
        }
        self.add_options("indexes", &mut index);
        index.into()
    }

    /// Returns a command that changes collections or indexes.
    fn definition(&mut self) -> Document {
        match self.random.below(if self.plain { 10 } else { 14 }) {
            0..=1 => {
                let name = self
                    .random
                    .pick(&["t", "v", "v", "v", "", "$a", "a..b", "system.x"]);
                doc! {"create": name}
            }
            2 => doc! {"drop": (self.random.pick(&["u", "nosuch", "v"]))},
            3..=4 => {
                let from = self
                    .random
                    .pick(&["DB.u", "DB.v", "DB.t", "DB.nosuch", "DB."]);
                let to = self.random.pick(&["DB.v", "DB.v", "DB.u", "DB.$a", "DB"]);
                doc! {"renameCollection": from, "to": to}
            }
            5 => {
                let change = doc! {"name": (self.random.pick(&["i1", "_id_", "nosuch"])), "hidden": (self.random.chance(50))};
                doc! {"collMod": (self.random.pick(&["t", "t", "nosuch"])), "index": change}
            }
            6 => doc! {"collMod": "t"},
            7 => doc! {"dropIndexes": "t", "index": (self.random.pick(&["_id_", "nosuch", "*"]))},
            8 => doc! {"dropDatabase": 1},
            9 => doc! {"createIndexes": "v", "indexes": [{"key": {"_id": 1}, "name": "_id_"}]},
            10 => doc! {"dropIndexes": "t", "index": (self.random.pick(&["i1", "i2", "i3"]))},
            _ => {
                let mut indexes = vec![self.index()];
                if self.random.chance(20) {
                    indexes.push(self.index());
                }
                doc! {"createIndexes": "t", "indexes": indexes}
            }
        }
    }

    /// Returns a command that asks about collections, cursors and plans.
    fn inquiry(&mut self) -> Document {
        match self.random.below(13) {
            0 => doc! {"listIndexes": (self.random.pick(&["t", "t", "nosuch", ""]))},
            1 => {
                let name = self.random.pick(&["t", "u", "v"]);
                doc! {"listCollections": 1, "nameOnly": true, "filter": {"name": name}}
            }
            2 => doc! {"find": "nosuch", "filter": self.filter(1)},
            3..=5 => {
                let inner = match self.random.below(6) {
                    0 => self.count(),
                    1 => {
                        doc! {"distinct": "t", "key": (self.path(Kind::Any)), "query": self.filter(1)}
                    }
                    2 => self.aggregate(),
                    3 => self.find_and_modify(),
                    4 => match self.random.chance(50) {
                        true => {
                            doc! {"delete": "t", "deletes": [{"q": self.filter(1), "limit": 1}]}
                        }
                        false => doc! {"update": "t", "updates": [(self.update_statement())]},
                    },
                    _ => self.find(),
                };
                let how = self.random.pick(&["queryPlanner", "executionStats"]);
                doc! {"explain": inner, "verbosity": how}
            }
            6 => doc! {"validate": (self.random.pick(&["t", "t", "nosuch"]))},
            7 => doc! {"getMore": (self.random.pick(&[1_i64, 0, -1])), "collection": "t"},
            8 => doc! {"killCursors": "t", "cursors": [1_i64]},
            9 => doc! {"dataSize": (self.random.pick(&["DB.t", "DB.nosuch", ""]))},
            10 => doc! {"collStats": (self.random.pick(&["t", "t", "nosuch"]))},
            11 => doc! {"dbStats": 1},
            _ => match self.random.below(3) {
                0 => doc! {"ping": (self.any(1))},
                1 => doc! {"listDatabases": 1, "nameOnly": true, "filter": {"name": "admin"}},
                _ => doc! {"nosuch": 1},
            },
        }
    }
}
