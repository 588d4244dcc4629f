//! Random statements of several transactions, and schema changes between them, one after the other, on both servers. Every reply
//! must be the same, and so must be what is left at the end. A schema change that must wait for a transaction fails.

use std::collections::HashMap;

use bson::{Binary, Bson, Document, doc, spec::BinarySubtype};

use crate::random::Random;
use crate::sides::Sides;

/// A client's session, and what is known of its latest transaction.
struct Session {
    lsid: Bson,
    number: i64,
    is_open: bool,
    /// How many commands were sent when its latest transaction began.
    began: usize,
    /// The latest cursor of the transaction on each side, with its collection.
    cursor: Option<([i64; 2], &'static str)>,
}

/// One command, and where it was sent.
type Sent = (String, Document);

struct Round<'s> {
    sides: &'s mut Sides,
    random: Random,
    database: String,
    sessions: Vec<Session>,
    sent: Vec<Sent>,
    /// How many commands were sent when the schema of a collection last changed outside the transactions.
    changed: HashMap<String, usize>,
    seed: u64,
}

/// Collections that exist, one with a plain and one with a unique index, one that is capped, and those that transactions create.
const PLAIN: &str = "plain";
const UNIQUE: &str = "unique";
const CAPPED: &str = "capped";
const NEW: [&str; 3] = ["new0", "new1", "new2"];

const TIME_EXCEEDED: i32 = 50;
const WRITE_CONFLICT: i32 = 112;
const SNAPSHOT_UNAVAILABLE: i32 = 246;

pub fn round(sides: &mut Sides, seed: u64) {
    let mut random = Random::new(seed);
    let sessions = (0..3).map(|_| Session::random(&mut random)).collect();
    let mut round = Round {
        sides,
        random,
        database: format!("transactions{seed}"),
        sessions,
        sent: Vec::new(),
        changed: HashMap::new(),
        seed,
    };
    round.prepare();
    for _ in 0..10 + round.random.below(30) {
        round.step();
    }
    round.finish();
}

// === impl Session ===

impl Session {
    fn random(random: &mut Random) -> Self {
        let bytes = (0..16).map(|_| random.below(256) as u8).collect();
        let id = Binary {
            subtype: BinarySubtype::Uuid,
            bytes,
        };
        Self {
            lsid: Bson::Document(doc! {"id": id}),
            number: 0,
            is_open: false,
            began: 0,
            cursor: None,
        }
    }

    fn with(&self, mut command: Document, number: i64) -> Document {
        command.insert("lsid", self.lsid.clone());
        command.insert("txnNumber", number);
        command.insert("autocommit", false);
        command
    }
}

// === impl Round ===

impl Round<'_> {
    fn prepare(&mut self) {
        let rows = |field: &str| -> Vec<Document> {
            (0..3).map(|id| doc! {"_id": id, field: id}).collect()
        };
        for command in [
            doc! {"insert": PLAIN, "documents": rows("n")},
            doc! {"createIndexes": PLAIN, "indexes": [{"key": {"n": 1}, "name": "n_1"}]},
            doc! {"insert": UNIQUE, "documents": rows("u")},
            doc! {"createIndexes": UNIQUE, "indexes": [{"key": {"u": 1}, "name": "u_1", "unique": true}]},
            doc! {"create": CAPPED, "capped": true, "size": 4096},
            doc! {"insert": CAPPED, "documents": rows("n")},
        ] {
            self.same(command);
        }
    }

    /// Ends all transactions and compares what is left.
    fn finish(&mut self) {
        for at in 0..self.sessions.len() {
            self.end(at, "abortTransaction", 0);
        }
        for name in [PLAIN, UNIQUE, CAPPED].into_iter().chain(NEW) {
            self.same(doc! {"find": name, "sort": {"_id": 1}});
        }
        self.sides.both(
            &self.database,
            [doc! {"dropDatabase": 1}, doc! {"dropDatabase": 1}],
        );
    }

    fn step(&mut self) {
        let at = self.random.below(self.sessions.len());
        let is_open = self.sessions[at].is_open;
        match self.random.below(100) {
            0..=9 => self.outside(),
            95..=99 => self.change_schema(),
            10..=23 if is_open => {
                let end = self.random.pick(&[
                    "commitTransaction",
                    "commitTransaction",
                    "abortTransaction",
                ]);
                self.end(at, end, 0);
            }
            // Again, or one that is not there.
            24..=26 => {
                let end = self.random.pick(&["commitTransaction", "abortTransaction"]);
                let other = self.random.pick(&[-1, 0, 0, 1]);
                self.end(at, end, other);
            }
            27..=36 if is_open && self.sessions[at].cursor.is_some() => self.more(at),
            _ if is_open => {
                let command = self.statement();
                if !self.is_older(at, &command) {
                    self.run(at, command, None);
                }
            }
            _ => {
                let session = &mut self.sessions[at];
                session.number += 1;
                session.cursor = None;
                session.began = self.sent.len();
                let mut command = self.statement();
                command.insert("startTransaction", true);
                let level = match self.random.below(10) {
                    0 => Some("snapshot"),
                    1 => Some("local"),
                    2 => Some("majority"),
                    _ => None,
                };
                self.run(at, command, level);
            }
        }
    }

    /// A command outside the transactions. One that writes would wait for them, or they for it.
    fn outside(&mut self) {
        let command = self.statement();
        let name = command.keys().next().cloned().unwrap_or_default();
        let reads = matches!(name.as_str(), "find" | "aggregate" | "distinct");
        let writes = matches!(
            name.as_str(),
            "insert" | "update" | "delete" | "findAndModify"
        );
        let is_alone = !self.sessions.iter().any(|session| session.is_open);
        if reads || writes && is_alone {
            self.same(command);
        }
    }

    /// Changes the schema outside the transactions. A change that waits for one of them soon gives up.
    fn change_schema(&mut self) {
        // mongod builds an index in many steps, and a busy machine is slow.
        const PATIENCE_MILLIS: [i32; 2] = [100, 1_500];
        let all = [PLAIN, UNIQUE, CAPPED, NEW[0], NEW[1], NEW[2]];
        let (name, other) = (self.random.pick(&all), self.random.pick(&all));
        let full = |name: &str| format!("{}.{name}", self.database);
        let hidden = self.random.chance(50);
        let command = match self.random.below(10) {
            0 => doc! {"create": self.random.pick(&NEW)},
            1 | 2 => doc! {"drop": name},
            3 | 4 => doc! {"createIndexes": name, "indexes": [{"key": {"x": 1}, "name": "x_1"}]},
            5 => doc! {"dropIndexes": name, "index": "x_1"},
            6 => doc! {"collMod": name, "index": {"name": "x_1", "hidden": hidden}},
            7 => doc! {"dropDatabase": 1},
            _ if name == other => return,
            _ => {
                let drops = self.random.chance(50);
                doc! {"renameCollection": full(name), "to": full(other), "dropTarget": drops}
            }
        };
        let kind = command.keys().next().cloned().unwrap_or_default();
        if kind == "dropDatabase" && self.random.chance(70) {
            return;
        }
        let commands = PATIENCE_MILLIS.map(|millis| {
            let mut command = command.clone();
            command.insert("maxTimeMS", millis);
            command
        });
        let database = match kind.as_str() {
            "renameCollection" => "admin".to_owned(),
            _ => self.database.clone(),
        };
        self.sent.push((database.clone(), commands[0].clone()));
        let replies = self.sides.both(&database, commands);
        let [ours, theirs] = replies
            .each_ref()
            .map(|reply| reply.get_i32("code").unwrap_or_default());
        let waits = [ours, theirs].map(|code| code == TIME_EXCEEDED);
        let seed = self.seed;
        // What has changed since 6.0: a collection may be created again, and one that is not there dropped.
        let is_new = ours == 0 && matches!(kind.as_str(), "create" | "drop");
        // mongod 6.0 waits before it tells that the collection is not there, and 8.2 tells it also of an index.
        let is_missing = matches!(kind.as_str(), "collMod" | "dropIndexes")
            && matches!(ours, 26 | 27)
            && waits[1];
        assert!(
            ours == theirs || is_new && !waits[1] || is_missing,
            "SEED={seed} ROUNDS=1\n{}\nSundown {}\nmongod  {}",
            listed(&self.sent),
            replies[0],
            replies[1]
        );
        if theirs == 0 {
            let names = match kind.as_str() {
                "dropDatabase" => all.to_vec(),
                "create" => NEW.to_vec(),
                _ => vec![name, other],
            };
            for name in names {
                self.changed.insert(name.to_owned(), self.sent.len());
            }
        }
    }

    /// Whether the statement would use a collection whose schema has changed since the transaction began. What mongod 6.0 says
    /// of that is no longer true since 7.0.
    fn is_older(&self, at: usize, command: &Document) -> bool {
        let name = command.values().next().and_then(Bson::as_str);
        let changed = name.and_then(|name| self.changed.get(name));
        changed.is_some_and(|changed| *changed > self.sessions[at].began)
    }

    /// Sends a statement of a transaction.
    fn run(&mut self, at: usize, mut command: Document, level: Option<&str>) {
        if let Some(level) = level {
            command.insert("readConcern", doc! {"level": level});
        }
        let session = &mut self.sessions[at];
        let command = session.with(command, session.number);
        let name = command.values().next().and_then(Bson::as_str);
        let collection = [PLAIN, UNIQUE, CAPPED]
            .into_iter()
            .chain(NEW)
            .find(|known| Some(*known) == name);
        let database = self.database.clone();
        let [ours, theirs] = self.both(&database, [command.clone(), command]);
        let session = &mut self.sessions[at];
        session.is_open = theirs.get_f64("ok").ok() == Some(1.0);
        let ids = [&ours, &theirs].map(cursor_id);
        if let (Some(collection), [Some(ours), Some(theirs)]) = (collection, ids) {
            session.cursor = (ours != 0 && theirs != 0).then_some(([ours, theirs], collection));
        }
        self.abort_if_unavailable(at, &theirs);
        // Statements that fail inside an `ok` reply end the transaction, too.
        if theirs.contains_key("writeErrors") {
            self.sessions[at].is_open = false;
        }
    }

    /// Reads on from the last cursor.
    fn more(&mut self, at: usize) {
        let Some((ids, collection)) = self.sessions[at].cursor.take() else {
            return;
        };
        let session = &self.sessions[at];
        let commands = ids.map(|id| {
            session.with(
                doc! {"getMore": id, "collection": collection},
                session.number,
            )
        });
        let database = self.database.clone();
        let [_, theirs] = self.both(&database, commands);
        self.sessions[at].is_open = theirs.get_f64("ok").ok() == Some(1.0);
    }

    fn end(&mut self, at: usize, command: &str, other: i64) {
        let session = &mut self.sessions[at];
        let number = (session.number + other).max(0);
        let command = session.with(doc! {command: 1}, number);
        if other == 0 {
            session.is_open = false;
        }
        self.both("admin", [command.clone(), command]);
    }

    /// mongod 6.0 cannot read a collection in a transaction that is older than the collection; since 7.0 it can.
    fn abort_if_unavailable(&mut self, at: usize, theirs: &Document) {
        if theirs.get_i32("code").ok() == Some(SNAPSHOT_UNAVAILABLE) {
            let session = &self.sessions[at];
            let abort = session.with(doc! {"abortTransaction": 1}, session.number);
            self.sides.both("admin", [abort.clone(), abort]);
            // What both say of it afterwards differs, too.
            let session = &mut self.sessions[at];
            session.number += 1;
            session.is_open = false;
        }
    }

    /// Sends a command outside the transactions.
    fn same(&mut self, command: Document) {
        let database = self.database.clone();
        self.both(&database, [command.clone(), command]);
    }

    /// Sends a command to both servers, and compares the replies.
    fn both(&mut self, database: &str, commands: [Document; 2]) -> [Document; 2] {
        self.sent.push((database.to_owned(), commands[0].clone()));
        let replies = self.sides.both(database, commands);
        let [ours, theirs] = replies.each_ref().map(normal);
        let is_old = theirs.get_i32("code").ok() == Some(SNAPSHOT_UNAVAILABLE);
        let seed = self.seed;
        assert!(
            ours == theirs || is_old,
            "SEED={seed} ROUNDS=1\n{}\nSundown {ours}\nmongod  {theirs}",
            listed(&self.sent)
        );
        replies
    }

    fn statement(&mut self) -> Document {
        let random = &mut self.random;
        let (name, field) = match random.below(10) {
            0..=3 => (PLAIN, "n"),
            4..=6 => (UNIQUE, "u"),
            7 => (CAPPED, "n"),
            _ => (random.pick(&NEW), "n"),
        };
        let id = random.below(5) as i32;
        let by_id = doc! {"_id": id};
        match random.below(24) {
            0..=2 => doc! {"find": name, "filter": by_id},
            3 => doc! {"find": name, "filter": {field: {"$gte": 1}}, "sort": {"_id": 1}},
            4 | 5 => {
                let size = random.below(3) as i32;
                doc! {"find": name, "sort": {"_id": random.pick(&[1, -1])}, "batchSize": size}
            }
            6..=9 => {
                // Adding nothing changes nothing.
                let by = random.below(3) as i32;
                let upsert = random.chance(30);
                doc! {"update": name, "updates": [{"q": by_id, "u": {"$inc": {field: by}}, "upsert": upsert}]}
            }
            10 => {
                let set = doc! {"$set": {"x": random.below(2) as i32}};
                doc! {"update": name, "updates": [{"q": {"_id": {"$lte": id}}, "u": set, "multi": true}]}
            }
            11 => {
                let second = doc! {"q": {"_id": id + 1}, "u": {field: random.below(6) as i32}};
                doc! {"update": name, "updates": [{"q": by_id, "u": {"$inc": {field: 1}}}, second]}
            }
            12..=14 => {
                let document = doc! {"_id": id, field: random.below(7) as i32};
                doc! {"insert": name, "documents": [document]}
            }
            15 | 16 => doc! {"delete": name, "deletes": [{"q": by_id, "limit": 1}]},
            17 => {
                let by = random.below(2) as i32;
                doc! {"findAndModify": name, "query": by_id, "update": {"$inc": {field: by}}, "new": true}
            }
            18 => doc! {"findAndModify": name, "query": by_id, "remove": true},
            19 => {
                let group =
                    doc! {"_id": null, "sum": {"$sum": format!("${field}")}, "count": {"$sum": 1}};
                doc! {"aggregate": name, "pipeline": [{"$match": {}}, {"$group": group}], "cursor": {}}
            }
            20 => doc! {"distinct": name, "key": "_id"},
            21 => doc! {"create": random.pick(&NEW)},
            22 => {
                let name = random.pick(&[PLAIN, NEW[0], NEW[1], NEW[2]]);
                doc! {"createIndexes": name, "indexes": [{"key": {"n": 1}, "name": "n_1"}]}
            }
            _ => match random.below(6) {
                // What transactions refuse.
                0 => doc! {"count": name},
                1 => doc! {"drop": name},
                2 => doc! {"listCollections": 1},
                3 => doc! {"dropIndexes": name, "index": "*"},
                4 => doc! {"aggregate": name, "pipeline": [{"$out": "z"}], "cursor": {}},
                _ => doc! {"create": "z", "capped": true, "size": 1000},
            },
        }
    }
}

fn cursor_id(reply: &Document) -> Option<i64> {
    reply.get_document("cursor").ok()?.get_i64("id").ok()
}

/// Returns a reply without what must differ.
fn normal(reply: &Document) -> Document {
    let mut reply = reply.clone();
    for field in [
        "$clusterTime",
        "operationTime",
        "electionId",
        "opTime",
        "commitQuorum",
    ] {
        reply.remove(field);
    }
    if let Ok(cursor) = reply.get_document_mut("cursor") {
        let is_open = cursor.get_i64("id").is_ok_and(|id| id != 0);
        cursor.insert("id", is_open);
        cursor.remove("atClusterTime");
    }
    let is_conflict = reply.get_i32("code").ok() == Some(WRITE_CONFLICT);
    if let Ok(message) = reply.get_str("errmsg") {
        let message = match is_conflict {
            true => "",
            false => plain(message),
        };
        let message = message.to_owned();
        reply.insert("errmsg", message);
    }
    if let Ok(errors) = reply.get_array_mut("writeErrors") {
        for error in errors.iter_mut().filter_map(Bson::as_document_mut) {
            let message = plain(error.get_str("errmsg").unwrap_or_default()).to_owned();
            error.insert("errmsg", message);
        }
    }
    reply
}

/// Returns a message without the part of mongod that it comes from.
fn plain(message: &str) -> &str {
    match message.split_once(" :: caused by :: ") {
        Some((from, cause)) if from.starts_with("Plan executor error during ") => cause,
        _ => message,
    }
}

fn listed(sent: &[Sent]) -> String {
    let lines: Vec<String> = sent
        .iter()
        .map(|(database, command)| format!("  {database}: {command}"))
        .collect();
    lines.join("\n")
}
