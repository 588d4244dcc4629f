//! Random writes and changes of the schema.

use bson::{Bson, Document, bson, doc};

use crate::random::Random;

/// One thing that both servers do.
#[derive(Clone)]
pub enum Step {
    Command(String, Document),
    /// Writes of one transaction, and whether it commits.
    Transaction(Vec<(String, Document)>, bool),
}

const COLLECTIONS: [&str; 3] = ["a", "b", "c"];
const FIELDS: [&str; 4] = ["x", "y", "s", "arr"];
const PATHS: [&str; 8] = ["x", "y", "s", "arr", "s.t", "s.u.v", "arr.1", "n.0"];

// === impl Step ===

impl Step {
    /// Whether a collection may lose its name.
    pub fn moves_names(&self) -> bool {
        let moves = ["renameCollection", "drop", "dropDatabase"];
        match self {
            Self::Command(_, command) => moves.iter().any(|name| command.contains_key(name)),
            Self::Transaction(..) => false,
        }
    }

    pub fn drop_database(database: &str) -> Self {
        Self::Command(database.to_owned(), doc! {"dropDatabase": 1})
    }
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Command(database, command) => write!(f, "{database}: {command}"),
            Self::Transaction(writes, commits) => {
                let end = if *commits { "commit" } else { "abort" };
                write!(f, "transaction ({end})")?;
                writes
                    .iter()
                    .try_for_each(|(database, write)| write!(f, "\n    {database}: {write}"))
            }
        }
    }
}

/// Some collections to begin with.
pub fn prepare(random: &mut Random, database: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for name in COLLECTIONS {
        if random.chance(50) {
            let images = doc! {"enabled": random.chance(60)};
            let create = doc! {"create": name, "changeStreamPreAndPostImages": images};
            steps.push(Step::Command(database.to_owned(), create));
            for _ in 0..random.below(3) {
                steps.push(Step::Command(database.to_owned(), insert(random, name)));
            }
        }
    }
    steps
}

pub fn random(random: &mut Random, database: &str) -> Vec<Step> {
    let count = 10 + random.below(40);
    let mut steps = Vec::new();
    for _ in 0..count {
        let next = step(random, database, &mut steps);
        steps.push(next);
    }
    steps
}

/// Returns the next step, and adds those before it that it needs.
fn step(random: &mut Random, database: &str, steps: &mut Vec<Step>) -> Step {
    let name = random.pick(&COLLECTIONS);
    let command = match random.below(100) {
        0..=2 => doc! {"drop": name},
        3..=4 => doc! {"create": name},
        5 => match random.chance(30) {
            // No transaction may write to a capped collection.
            true => doc! {"create": "k", "capped": true, "size": 4096, "max": 2},
            false => insert(random, "k"),
        },
        6..=9 => return rename(random, database, name),
        10..=12 => {
            let key = doc! {random.pick(&FIELDS): 1};
            let index = doc! {"key": key, "name": random.pick(&["i", "j"])};
            doc! {"createIndexes": name, "indexes": [index]}
        }
        13..=14 => doc! {"dropIndexes": name, "index": random.pick(&["i", "j", "*"])},
        15..=17 => {
            let images = doc! {"enabled": random.chance(70)};
            doc! {"collMod": name, "changeStreamPreAndPostImages": images}
        }
        18 => {
            let hidden = random.chance(50);
            doc! {"collMod": name, "index": {"name": "i", "hidden": hidden}}
        }
        19 => {
            // One by one: the order in which mongod drops the collections of a database is its own.
            // One must be left, because mongod remembers a database without collections.
            for name in ["k", "a", "b"] {
                steps.push(Step::Command(database.to_owned(), doc! {"drop": name}));
            }
            steps.push(Step::Command(database.to_owned(), doc! {"create": "c"}));
            doc! {"dropDatabase": 1}
        }
        20..=32 => {
            let count = 1 + random.below(5);
            let writes = (0..count).map(|_| {
                let name = random.pick(&COLLECTIONS);
                (database.to_owned(), write(random, name))
            });
            let writes = writes.collect();
            return Step::Transaction(writes, random.chance(80));
        }
        _ => write(random, name),
    };
    Step::Command(database.to_owned(), command)
}

fn rename(random: &mut Random, database: &str, name: &str) -> Step {
    let (from, to) = (
        format!("{database}.{name}"),
        format!("{database}.{}", random.pick(&COLLECTIONS)),
    );
    let rename = doc! {"renameCollection": from, "to": to, "dropTarget": random.chance(70)};
    Step::Command("admin".to_owned(), rename)
}

fn write(random: &mut Random, name: &str) -> Document {
    match random.below(10) {
        0..=3 => insert(random, name),
        4..=7 => {
            let upsert = random.chance(20);
            let multi = random.chance(20);
            let mut update = doc! {"q": filter(random), "u": update(random), "upsert": upsert};
            let operators = |update: &Bson| match update {
                Bson::Document(update) => {
                    update.keys().next().is_some_and(|key| key.starts_with('$'))
                }
                _ => true,
            };
            // A multi-update visits documents in an order of its own only if there are several.
            if multi && operators(update.get("u").unwrap()) {
                update.insert("multi", true);
                update.insert("upsert", false);
            }
            doc! {"update": name, "updates": [update]}
        }
        8 => doc! {"delete": name, "deletes": [{"q": filter(random), "limit": 1}]},
        _ => {
            let mut command = doc! {"findAndModify": name, "query": filter(random)};
            match random.chance(40) {
                true => command.insert("remove", true),
                false => command.insert("update", update(random)),
            };
            command
        }
    }
}

fn insert(random: &mut Random, name: &str) -> Document {
    let count = 1 + random.below(3);
    let documents: Vec<Document> = (0..count).map(|_| document(random)).collect();
    doc! {"insert": name, "documents": documents, "ordered": random.chance(50)}
}

fn filter(random: &mut Random) -> Document {
    match random.below(10) {
        0..=7 => doc! {"_id": random.below(6) as i32},
        8 => doc! {"x": {"$gt": random.below(3) as i32}},
        _ => doc! {},
    }
}

fn document(random: &mut Random) -> Document {
    let mut document = doc! {"_id": random.below(6) as i32};
    for field in FIELDS {
        if random.chance(60) {
            document.insert(field, value(random, 2));
        }
    }
    document
}

fn value(random: &mut Random, depth: usize) -> Bson {
    match random.below(if depth == 0 { 5 } else { 8 }) {
        0 | 1 => Bson::Int32(random.below(5) as i32),
        2 => Bson::String("text".repeat(1 + random.below(12))),
        3 => Bson::Null,
        4 => Bson::Double(random.below(4) as f64 / 2.0),
        5 | 6 => {
            let count = random.below(5);
            Bson::Array((0..count).map(|_| value(random, depth - 1)).collect())
        }
        _ => {
            let mut inner = Document::new();
            for name in ["t", "u", "0"] {
                if random.chance(60) {
                    inner.insert(name, value(random, depth - 1));
                }
            }
            Bson::Document(inner)
        }
    }
}

fn update(random: &mut Random) -> Bson {
    match random.below(10) {
        0..=5 => {
            let mut update = Document::new();
            for _ in 0..1 + random.below(2) {
                let (name, fields) = operator(random);
                update.insert(name, fields);
            }
            Bson::Document(update)
        }
        6 | 7 => {
            let mut replacement = document(random);
            replacement.remove("_id");
            Bson::Document(replacement)
        }
        _ => {
            let path = random.pick(&PATHS[..6]);
            match random.below(3) {
                0 => bson!([{"$set": {path: {"$literal": value(random, 2)}}}]),
                1 => bson!([{"$unset": path}]),
                _ => {
                    bson!([{"$set": {"arr": {"$slice": [{"$cond": [{"$isArray": "$arr"}, "$arr", [1, 2, 3]]}, 2]}}}])
                }
            }
        }
    }
}

fn operator(random: &mut Random) -> (&'static str, Document) {
    let path = random.pick(&PATHS);
    match random.below(8) {
        0..=2 => ("$set", doc! {path: value(random, 2)}),
        3 => ("$unset", doc! {path: 1}),
        4 => ("$inc", doc! {path: 1}),
        5 => ("$push", doc! {path: value(random, 1)}),
        6 => ("$pop", doc! {path: random.pick(&[1, -1])}),
        _ => ("$rename", doc! {path: "z"}),
    }
}
