//! The options of commands. A new option of the server needs one entry here: it is then sent with fitting values and with
//! values of other types.

use bson::{Bson, Document, bson, doc};

use super::Generator;
use super::value::Kind;

/// A command and its options, with the kind of value that each takes. Options that decide what a command does (its filter,
/// its update) are written by the functions that make the command.
#[rustfmt::skip]
pub const OPTIONS: &[(&str, &[(&str, &str)])] = &[
    ("find", &[
        ("limit", "size"), ("skip", "size"), ("batchSize", "size"), ("singleBatch", "bool"), ("hint", "hint"), ("let", "vars"),
        ("sort", "sort"), ("projection", "projection"), ("min", "bounds"), ("max", "bounds"), ("returnKey", "bool"),
        ("allowDiskUse", "bool"), ("noCursorTimeout", "bool"), ("allowPartialResults", "bool"), ("oplogReplay", "bool"),
        ("tailable", "bool"), ("awaitData", "bool"), ("collation", "collation"), ("maxTimeMS", "time"), ("comment", "any"),
        ("readConcern", "read"), ("filter", "filter"), ("showRecordId", "false"),
    ]),
    ("aggregate", &[
        ("hint", "hint"), ("let", "vars"), ("allowDiskUse", "bool"), ("bypassDocumentValidation", "bool"), ("explain", "bool"),
        ("collation", "collation"), ("maxTimeMS", "time"), ("comment", "any"), ("readConcern", "read"),
        ("writeConcern", "write"), ("cursor", "cursor"),
    ]),
    ("count", &[
        ("limit", "size"), ("skip", "size"), ("hint", "hint"), ("collation", "collation"), ("maxTimeMS", "time"),
        ("comment", "any"), ("readConcern", "read"), ("query", "filter"),
    ]),
    ("distinct", &[
        ("collation", "collation"), ("maxTimeMS", "time"), ("comment", "any"), ("readConcern", "read"), ("query", "filter"),
        ("key", "path"),
    ]),
    ("insert", &[
        ("ordered", "bool"), ("bypassDocumentValidation", "bool"), ("writeConcern", "write"), ("maxTimeMS", "time"),
        ("comment", "any"),
    ]),
    ("update", &[
        ("ordered", "bool"), ("bypassDocumentValidation", "bool"), ("writeConcern", "write"), ("maxTimeMS", "time"),
        ("comment", "any"), ("let", "vars"),
    ]),
    ("updates", &[
        ("multi", "bool"), ("upsert", "bool"), ("hint", "hint"), ("collation", "collation"), ("c", "vars"),
        ("arrayFilters", "filters"),
    ]),
    ("delete", &[
        ("ordered", "bool"), ("writeConcern", "write"), ("maxTimeMS", "time"), ("comment", "any"), ("let", "vars"),
    ]),
    ("deletes", &[("limit", "limit"), ("hint", "hint"), ("collation", "collation")]),
    ("findAndModify", &[
        ("sort", "sort"), ("remove", "bool"), ("new", "bool"), ("upsert", "bool"), ("fields", "projection"), ("hint", "hint"),
        ("let", "vars"), ("arrayFilters", "filters"), ("collation", "collation"), ("bypassDocumentValidation", "bool"),
        ("writeConcern", "write"), ("maxTimeMS", "time"), ("comment", "any"),
    ]),
    ("create", &[
        ("capped", "bool"), ("size", "bytes"), ("max", "size"), ("autoIndexId", "bool"), ("idIndex", "idIndex"),
        ("collation", "collation"), ("storageEngine", "object"), ("indexOptionDefaults", "object"), ("comment", "any"),
        ("writeConcern", "write"), ("flags", "size"), ("maxTimeMS", "time"),
    ]),
    ("collMod", &[("index", "indexChange"), ("comment", "any"), ("writeConcern", "write"), ("maxTimeMS", "time")]),
    ("createIndexes", &[("commitQuorum", "quorum"), ("comment", "any"), ("writeConcern", "write"), ("maxTimeMS", "time")]),
    ("indexes", &[
        ("unique", "bool"), ("sparse", "bool"), ("hidden", "bool"), ("partialFilterExpression", "partial"), ("v", "version"),
        ("background", "bool"), ("expireAfterSeconds", "never"), ("storageEngine", "object"), ("collation", "collation"),
        ("prepareUnique", "false"), ("name", "text"), ("key", "sort"), ("dropDups", "bool"), ("weights", "object"),
    ]),
    ("dropIndexes", &[("index", "indexes"), ("comment", "any"), ("writeConcern", "write"), ("maxTimeMS", "time")]),
    ("listIndexes", &[("cursor", "cursor"), ("comment", "any"), ("maxTimeMS", "time")]),
    ("listCollections", &[
        ("filter", "names"), ("nameOnly", "bool"), ("authorizedCollections", "bool"), ("cursor", "cursor"), ("comment", "any"),
        ("maxTimeMS", "time"),
    ]),
    ("listDatabases", &[
        ("filter", "names"), ("nameOnly", "true"), ("authorizedDatabases", "bool"), ("comment", "any"),
    ]),
    ("drop", &[("comment", "any"), ("writeConcern", "write"), ("maxTimeMS", "time")]),
    ("renameCollection", &[("dropTarget", "bool"), ("comment", "any"), ("writeConcern", "write")]),
    ("validate", &[("full", "false"), ("metadata", "false"), ("comment", "any")]),
    ("explain", &[("verbosity", "verbosity"), ("comment", "any")]),
    ("getMore", &[("collection", "text"), ("batchSize", "size"), ("maxTimeMS", "time"), ("comment", "any")]),
    ("killCursors", &[("cursors", "numbers"), ("comment", "any")]),
    ("dataSize", &[("keyPattern", "sort"), ("min", "object"), ("max", "object"), ("estimate", "bool")]),
    ("collStats", &[("scale", "scale")]),
    ("dbStats", &[("scale", "scale"), ("freeStorage", "size")]),
    ("ping", &[("comment", "any"), ("maxTimeMS", "time")]),
];

/// The commands that are sent most often, also as lists of statements.
const FREQUENT: &[&str] = &[
    "find",
    "aggregate",
    "update",
    "updates",
    "findAndModify",
    "indexes",
];

impl Generator {
    /// Adds some of the options that the command takes, mostly with values of the right type.
    pub fn add_options(&mut self, of: &str, command: &mut Document) {
        let rows = OPTIONS.iter().find(|(name, _)| *name == of);
        for (name, kind) in rows.into_iter().flat_map(|(_, options)| *options) {
            // An option that is there already was made to fit the rest.
            let chance = match command.contains_key(*name) {
                true => 1,
                false if FREQUENT.contains(&of) => 2,
                false => 8,
            };
            if self.random.chance(chance) {
                let wrong = self.random.chance(30);
                let value = if wrong {
                    self.any(1)
                } else {
                    self.option(kind)
                };
                command.insert(*name, value);
            }
        }
    }

    /// Returns the name of an option of any command.
    pub fn any_option(&mut self) -> &'static str {
        let (_, options) = self.random.pick(OPTIONS);
        self.random.pick(options).0
    }

    fn option(&mut self, kind: &str) -> Bson {
        match kind {
            "size" => match self.random.below(6) {
                0 => self.number(),
                1 => self.int(),
                n => Bson::Int32(n as i32 - 2),
            },
            "limit" => Bson::Int32(self.random.below(3) as i32),
            "bool" => Bson::Boolean(self.random.chance(60)),
            "true" => Bson::Boolean(true),
            "false" => Bson::Boolean(false),
            "hint" => match self.random.below(6) {
                0 => "_id_".into(),
                1 => bson!({"_id": 1}),
                2 => bson!({"$natural": (self.random.pick(&[1, -1]))}),
                3 => "nosuch".into(),
                4 => self.random.pick(&["i1", "i2", "i3"]).into(),
                _ => self.sort().into(),
            },
            "vars" => match self.random.below(4) {
                0 => bson!({}),
                1 => bson!({"v": (self.expression(Kind::Any, 1))}),
                2 => bson!({"v": (self.any(1)), "w": 1}),
                _ => bson!({"v": (self.int())}),
            },
            "sort" => self.sort().into(),
            "projection" => self.projection(true).into(),
            "filter" => self.filter(1).into(),
            "names" => match self.random.below(3) {
                0 => bson!({"name": (self.random.pick(&["t", "u", "v", "nosuch"]))}),
                1 => bson!({"name": {"$in": ["t", "u"]}}),
                _ => bson!({"name": "t", "type": "collection"}),
            },
            "filters" => bson!([{"e": (self.test(Kind::Int, 0))}]),
            "bounds" => {
                let path = self.path(Kind::Int);
                bson!({path: (self.int())})
            }
            "collation" => match self.random.below(3) {
                0 => bson!({}),
                _ => bson!({"locale": "simple"}),
            },
            "time" => Bson::Int32(self.random.pick(&[0, 60_000, 100_000, -1])),
            "read" => match self.random.below(4) {
                0 => bson!({}),
                1 => bson!({"level": "available"}),
                2 => bson!({"level": "nope"}),
                _ => bson!({"level": "local"}),
            },
            "write" => match self.random.below(6) {
                0 => bson!({}),
                1 => bson!({"w": "majority"}),
                2 => bson!({"w": (self.int())}),
                3 => bson!({"w": 1, "j": (self.random.chance(50))}),
                4 => bson!({"w": 1, "wtimeout": (self.int())}),
                _ => bson!({"w": 1}),
            },
            "cursor" => match self.random.below(3) {
                0 => bson!({}),
                _ => bson!({"batchSize": (self.int())}),
            },
            "path" => self.path(Kind::Any).into(),
            "text" => self.text().into(),
            "bytes" => Bson::Int32(self.random.pick(&[4096, 1, 100_000, 0])),
            "idIndex" => match self.random.below(3) {
                0 => bson!({"key": {"_id": 1}, "name": "_id_", "v": 2}),
                1 => bson!({"key": {"_id": 1}, "name": "x"}),
                _ => bson!({"key": {"a": 1}, "name": "_id_"}),
            },
            "object" => self.object(1).into(),
            "partial" => self.filter(1).into(),
            "version" => Bson::Int32(self.random.pick(&[1, 2, 2, 2, 2, 3, 0])),
            // It lies after every date of the documents, because mongod removes expired documents at any time.
            "never" => Bson::Int32(i32::MAX),
            "quorum" => match self.random.below(3) {
                0 => "majority".into(),
                1 => "votingMembers".into(),
                _ => self.int(),
            },
            "indexChange" => {
                let mut change = doc! {"name": (self.random.pick(&["i1", "i2", "_id_", "nosuch"]))};
                if self.random.chance(70) {
                    change.insert("hidden", self.random.chance(60));
                }
                if self.random.chance(15) {
                    change.insert("expireAfterSeconds", i32::MAX);
                }
                if self.random.chance(15) {
                    change.insert("keyPattern", self.sort());
                }
                if self.random.chance(10) {
                    change.insert("forceNonUnique", self.random.chance(80));
                }
                change.into()
            }
            "indexes" => match self.random.below(4) {
                0 => bson!(["i1", "i2"]),
                1 => self.sort().into(),
                2 => bson!([]),
                _ => "i1".into(),
            },
            "verbosity" => self
                .random
                .pick(&[
                    "queryPlanner",
                    "executionStats",
                    "allPlansExecution",
                    "nope",
                ])
                .into(),
            "numbers" => bson!([1_i64, 2_i64]),
            "scale" => self.number(),
            _ => self.any(1),
        }
    }
}
