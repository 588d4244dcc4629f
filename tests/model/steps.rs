//! The steps of a run, and how they are chosen.

use std::fmt;

use bson::{Bson, Document, bson, doc};

use super::order::equal;
use super::random::Random;
use super::state::{Model, default_spec, next_end};
use crate::support::world::{genuine_cluster, in_front_of_cluster};

/// One step of a run. A list of steps can be played again and shortened.
#[derive(Debug, Clone)]
pub enum Step {
    Command(Document),
    /// A write with a transaction number.
    Retryable(Document),
    /// Repeats the last such write.
    Resend,
    /// Moves the clock by this many milliseconds.
    Advance(i64),
    /// The same, over the wire.
    Travel(i64),
    /// Moves the clock to the end of some document, or to just before it.
    NextEnd(i64),
    /// Lets time run for a moment.
    Breathe,
    /// Switches the reaper.
    Reaper(bool),
    /// Sends the next commands through the other Sundown.
    Switch,
    /// Opens a cursor and keeps it in this slot.
    Open(usize, Document),
    More(usize, i32),
    /// Checks all contents in every way.
    Check,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Command(command) => write!(f, "  {command}"),
            Self::Retryable(command) => write!(f, "  retryable {command}"),
            Self::Open(slot, command) => write!(f, "  cursor {slot}: {command}"),
            other => write!(f, "  {other:?}"),
        }
    }
}

/// The number of cursors that are open at once.
pub const SLOTS: usize = 3;

/// The name of the capped collection.
pub const CAPPED: &str = "k";

fn capped(random: &mut Random) -> Document {
    let mut command = doc! {"create": CAPPED, "capped": true, "size": 256 * (2 + random.below(6) as i32), "max": 3 + random.below(10) as i32};
    // Declared in UPSTREAM.md: capped collections take no default.
    if random.chance(60) && !in_front_of_cluster() {
        command.insert("defaultTtl", 1 + random.below(60) as i32);
    }
    command
}

/// Chooses a step. In front of a cluster it is none that UPSTREAM.md declares different.
pub fn generate(random: &mut Random, model: &Model, indexes: bool) -> Step {
    if !in_front_of_cluster() {
        return any(random, model, indexes);
    }
    // Documents from before the first default count as written when it was switched on, so there are none.
    let mut missing = ["c", "d"].into_iter();
    if let Some(name) = missing.find(|name| !model.collections.contains_key(*name)) {
        return Step::Command(doc! {"create": name, "defaultTtl": -1});
    }
    loop {
        match any(random, model, indexes) {
            // Time is the clock of a cluster: it does not go back, and `timeTravel` is refused.
            Step::Travel(millis) | Step::Advance(millis) => {
                return Step::Advance(millis.max(0));
            }
            // The cluster deletes on its own.
            Step::Reaper(_) => {}
            // Capped collections take no default. explain shows what the cluster runs.
            Step::Command(command) if is_different(&command) => {}
            Step::Command(command) | Step::Retryable(command) if depends_on_order(&command) => {}
            Step::Command(command) | Step::Retryable(command) | Step::Open(_, command)
                if genuine_cluster().is_some() && differs_in_6_0(&command) => {}
            step => return step,
        }
    }
}

/// Returns whether the step creates a collection for upstream mode.
pub fn creates_with_default(step: &Step) -> bool {
    let creates = |command: &Document| command.contains_key("create");
    in_front_of_cluster() && matches!(step, Step::Command(command) if creates(command))
}

/// Returns whether UPSTREAM.md declares that the command behaves differently.
fn is_different(command: &Document) -> bool {
    let text = command.to_string();
    let (verb, target) = command.iter().next().expect("a command");
    let sets = text.contains("defaultTtl") || text.contains("\"_ts\"") || text.contains("_ts_1");
    verb == "explain" || (target.as_str() == Some(CAPPED) && verb != "find" && sets)
}

/// Returns whether the statements of an unordered command may get in each other's way. Those that meet ended documents are sent
/// once more, after the others.
fn depends_on_order(command: &Document) -> bool {
    if command.get_bool("ordered").unwrap_or(true) {
        return false;
    }
    let statements = |name| command.get_array(name).into_iter().flatten();
    let mut keys = Vec::new();
    for document in statements("documents").filter_map(Bson::as_document) {
        keys.extend(document.get("_id").map(|id| ("_id", id)));
        keys.extend(document.get("u").map(|u| ("u", u)));
    }
    let shared = keys.iter().enumerate().any(|(at, (name, key))| {
        let mut others = keys[at + 1..].iter();
        others.any(|(other, value)| name == other && equal(key, value))
    });
    shared || statements("updates").count() > 1
}

/// Returns whether a genuine MongoDB 6.0 answers differently, with or without Sundown in front of it.
fn differs_in_6_0(command: &Document) -> bool {
    let text = command.to_string();
    let updates = command.get_array("updates").into_iter().flatten();
    let mut updates = updates.filter_map(Bson::as_document);
    // It does not know these.
    let is_newer = command.contains_key("bulkWrite")
        || updates.any(|update| update.contains_key("sort"))
        // It merges no document with such an `_id`.
        || text.contains("\"_id\": null");
    // It rounds the size of a capped collection in its own way, and allows no TTL index there.
    let is_capped = command.values().next().and_then(Bson::as_str) == Some(CAPPED);
    // Its clock is not the test's.
    is_newer || is_capped || text.contains("$currentDate") || text.contains("$$NOW")
}

fn any(random: &mut Random, model: &Model, indexes: bool) -> Step {
    let name = match random.below(100) {
        0..=64 => "c",
        65..=86 => "d",
        _ => CAPPED,
    };
    if name == CAPPED && !model.collections.contains_key(name) {
        return Step::Command(capped(random));
    }
    match random.below(100) {
        0..=14 => write(random, name, model.now, insert),
        15..=17 => Step::Command(bulk_write(random, model.now)),
        18..=31 => write(random, name, model.now, update),
        32..=36 => write(random, name, model.now, delete),
        37..=43 => write(random, name, model.now, find_and_modify),
        44..=58 => Step::Command(find(random, name, model)),
        59..=60 => Step::Command(count(random, name, model)),
        61 => Step::Command(
            doc! {"explain": find(random, name, model), "verbosity": "executionStats"},
        ),
        62..=63 => Step::Command(
            doc! {"distinct": name, "key": *random.pick(&["a", "b", "c.x", "arr", "u", "_ts"]), "query": random.filter(model.now, 1)},
        ),
        64..=68 => Step::Command(aggregate(random, name, model.now)),
        69..=71 => Step::Open(
            random.below(SLOTS as u64) as usize,
            open(random, name, model),
        ),
        72..=76 => Step::More(
            random.below(SLOTS as u64) as usize,
            1 + random.below(5) as i32,
        ),
        77..=82 if indexes => Step::Command(index(random, name)),
        83..=85 => Step::Command(setting(random, name)),
        86 => Step::Command(whole(random, name, model.now)),
        87..=88 => Step::Resend,
        89..=90 => Step::Check,
        91..=93 => Step::NextEnd(random.below(2) as i64 - 1),
        94 => Step::Travel(random.below(8_000) as i64 - 1_000),
        95 if random.chance(40) => Step::Reaper(random.chance(70)),
        95 => Step::Breathe,
        96 if random.chance(10) => Step::Advance(-(random.below(100_000_000) as i64)),
        96 => Step::Advance(-(random.below(30_000) as i64)),
        97 if random.chance(20) => Step::Advance(*random.pick(&[3_600_000, 70 * 365 * 86_400_000])),
        _ => match next_end(model) {
            Some(end) if random.chance(30) => {
                Step::Advance(end - model.now + random.below(2) as i64)
            }
            _ => Step::Advance(random.below(4_000) as i64),
        },
    }
}

fn write(
    random: &mut Random,
    name: &str,
    now: i64,
    make: fn(&mut Random, &str, i64) -> Document,
) -> Step {
    let command = make(random, name, now);
    let many = |list: &str| {
        command.get_array(list).is_ok_and(|list| {
            list.iter().any(|one| {
                one.as_document().is_some_and(|one| {
                    one.get_bool("multi").unwrap_or(false)
                        || one.get_i32("limit").is_ok_and(|limit| limit == 0)
                })
            })
        })
    };
    if random.chance(30) && !many("updates") && !many("deletes") {
        Step::Retryable(command)
    } else {
        Step::Command(command)
    }
}

fn insert(random: &mut Random, name: &str, now: i64) -> Document {
    let documents: Vec<Document> = (0..random.several())
        .map(|_| {
            let mut document = doc! {"_id": random.id()};
            document.extend(random.document(now));
            document
        })
        .collect();
    doc! {"insert": name, "documents": documents, "ordered": random.chance(50)}
}

/// Selects one document in most cases: by `_id`, or as the first of a sort.
fn one(random: &mut Random, now: i64, filter: &str) -> Document {
    let mut selection = Document::new();
    if random.chance(50) {
        let mut by_id = doc! {"_id": random.id()};
        if random.chance(20) {
            by_id.extend(
                random
                    .filter(now, 0)
                    .into_iter()
                    .filter(|(path, _)| path != "_id"),
            );
        }
        selection.insert(filter, by_id);
    } else {
        selection.insert(filter, random.filter(now, 1));
        selection.insert("sort", random.sort());
    }
    selection
}

fn update(random: &mut Random, name: &str, now: i64) -> Document {
    let statements: Vec<Document> = (0..=random.below(2))
        .map(|_| match random.below(12) {
            10 => {
                let (mut filter, update, array_filters) = random.elements(now);
                filter.insert("_id", random.id());
                let mut statement = doc! {"q": filter, "u": update};
                statement.extend(array_filters.map(|filters| ("arrayFilters".to_owned(), filters)));
                statement
            }
            11 => {
                let multi = random.chance(50);
                let filter = match multi {
                    true => random.filter(now, 1),
                    false => doc! {"_id": random.id()},
                };
                doc! {"q": filter, "u": random.pipeline(), "multi": multi}
            }
            0..=2 => {
                let update = random.update(now);
                let multi = update
                    .keys()
                    .next()
                    .is_some_and(|name| name.starts_with('$'));
                doc! {"q": random.filter(now, 1), "u": update, "multi": multi}
            }
            3..=5 => {
                let mut filter = doc! {"_id": random.id()};
                if random.chance(30) {
                    filter.insert("b", *random.pick(&["a", "b", "c"]));
                }
                doc! {"q": filter, "u": random.update(now), "upsert": true}
            }
            _ => {
                let mut statement = one(random, now, "q");
                statement.insert("u", random.update(now));
                statement
            }
        })
        .collect();
    doc! {"update": name, "updates": statements}
}

fn bulk_write(random: &mut Random, now: i64) -> Document {
    let ops: Vec<Document> = (0..=random.below(4))
        .map(|_| {
            let at = random.below(2) as i32;
            match random.below(6) {
                0..=1 => {
                    let mut document = doc! {"_id": random.id()};
                    document.extend(random.document(now));
                    doc! {"insert": at, "document": document}
                }
                2 => doc! {"update": at, "filter": {"_id": random.id()}, "updateMods": random.update(now), "upsert": random.chance(50)},
                3 => doc! {"update": at, "filter": {"_id": random.id()}, "updateMods": random.pipeline()},
                4 => doc! {"update": at, "filter": random.filter(now, 1), "updateMods": {"$inc": {"n": 1}}, "multi": true},
                _ => {
                    let multi = random.chance(30);
                    let filter = match multi {
                        true => random.filter(now, 1),
                        false => doc! {"_id": random.id()},
                    };
                    doc! {"delete": at, "filter": filter, "multi": multi}
                }
            }
        })
        .collect();
    doc! {
        "bulkWrite": 1,
        "ops": ops,
        "nsInfo": [{"ns": "test.c"}, {"ns": "test.d"}],
        "ordered": random.chance(50),
    }
}

fn delete(random: &mut Random, name: &str, now: i64) -> Document {
    let statement = match random.below(4) {
        0 => doc! {"q": random.filter(now, 1), "limit": 0},
        _ => doc! {"q": {"_id": random.id()}, "limit": 1},
    };
    doc! {"delete": name, "deletes": [statement]}
}

fn find_and_modify(random: &mut Random, name: &str, now: i64) -> Document {
    let mut command = doc! {"findAndModify": name};
    match random.below(10) {
        0..=1 => {
            command.extend(one(random, now, "query"));
            command.insert("remove", true);
        }
        2..=4 => {
            command.insert("query", doc! {"_id": random.id()});
            command.insert("update", random.update(now));
            command.insert("upsert", true);
            command.insert("new", random.chance(50));
        }
        _ => {
            command.extend(one(random, now, "query"));
            command.insert("update", random.update(now));
            command.insert("new", random.chance(50));
        }
    }
    if random.chance(25) {
        command.insert("fields", random.projection());
    }
    // Other tests check how it shows `_ts`.
    if super::expect::names_ts(&command) {
        return doc! {"findAndModify": name, "query": {"_id": random.id()}, "update": {"$inc": {"n": 1}}};
    }
    command
}

/// Returns an index for the hint of a find.
fn hint(random: &mut Random, name: &str, model: &Model) -> Option<Bson> {
    let collection = model.get(name);
    let mut names: Vec<Bson> = collection
        .indexes
        .iter()
        .filter(|index| index.is_whole())
        .map(|index| index.name().into())
        .collect();
    names.extend([
        bson!({"$natural": 1}),
        bson!({"$natural": -1}),
        bson!("_id_"),
    ]);
    if collection.default.is_some() {
        names.push(Bson::String(collection.shown.clone()));
    }
    // A server cannot check a hint on a collection that does not exist.
    (model.collections.contains_key(name) && random.chance(25)).then(|| random.pick(&names).clone())
}

fn find(random: &mut Random, name: &str, model: &Model) -> Document {
    let mut command = doc! {"find": name, "filter": random.filter(model.now, 2)};
    if random.chance(50) {
        command.insert("sort", random.sort());
    }
    if random.chance(25) {
        command.insert("limit", 1 + random.below(8) as i32);
    }
    if random.chance(15) {
        command.insert("skip", random.below(5) as i32);
    }
    if random.chance(25) {
        command.insert("projection", random.projection());
    }
    if let Some(hint) = hint(random, name, model) {
        command.insert("hint", hint);
    }
    command
}

fn open(random: &mut Random, name: &str, model: &Model) -> Document {
    let filter = match random.chance(50) {
        true => doc! {},
        false => random.filter(model.now, 1),
    };
    let size = random.below(4) as i32;
    if random.chance(20) {
        let mut pipeline = vec![doc! {"$match": filter}];
        if random.chance(60) {
            pipeline.push(doc! {"$sort": random.sort()});
        }
        return doc! {"aggregate": name, "pipeline": pipeline, "cursor": {"batchSize": size}};
    }
    let mut command = doc! {"find": name, "filter": filter, "batchSize": size};
    if model.get(name).cap.is_some() && random.chance(40) {
        command.insert("tailable", true);
        return command;
    }
    if random.chance(50) {
        command.insert("sort", random.sort());
    }
    if let Some(hint) = hint(random, name, model) {
        command.insert("hint", hint);
    }
    command
}

fn count(random: &mut Random, name: &str, model: &Model) -> Document {
    let mut command = doc! {"count": name};
    if random.chance(70) {
        command.insert("query", random.filter(model.now, 2));
    }
    if let Some(hint) = hint(random, name, model) {
        command.insert("hint", hint);
    }
    if random.chance(15) {
        command.insert("skip", random.below(5) as i32);
    }
    if random.chance(15) {
        command.insert("limit", 1 + random.below(9) as i32);
    }
    command
}

fn aggregate(random: &mut Random, name: &str, now: i64) -> Document {
    let mut pipeline = Vec::new();
    if random.chance(70) {
        pipeline.push(doc! {"$match": random.filter(now, 1)});
    }
    let other = match name {
        "c" if random.chance(15) => CAPPED,
        "c" => "d",
        _ => "c",
    };
    match random.below(14) {
        10 => pipeline.push(doc! {"$lookup": {"from": other, "pipeline": [{"$match": random.filter(now, 0)}], "as": "joined"}}),
        11 => pipeline.push(doc! {"$sortByCount": *random.pick(&["$a", "$b", "$u"])}),
        12 => pipeline.push(doc! {"$sample": {"size": 1 + random.below(6) as i32}}),
        13 => pipeline.push(doc! {"$facet": {"all": [{"$count": "count"}], "some": [{"$match": random.filter(now, 0)}, {"$count": "count"}]}}),
        8 => {
            let into = if random.chance(80) { other } else { name };
            let matched = match random.below(5) {
                0 => random.pipeline(),
                _ => Bson::String(random.pick(&["replace", "merge", "keepExisting", "fail"]).to_string()),
            };
            let not = match matched.as_str() {
                Some("keepExisting" | "fail") => "insert",
                _ => *random.pick(&["insert", "discard"]),
            };
            // In a random order, which then is the natural order.
            pipeline.push(doc! {"$sort": {"_id": 1}});
            pipeline.push(doc! {"$merge": {"into": into, "whenMatched": matched, "whenNotMatched": not}});
        }
        9 if random.chance(40) && name != CAPPED && other != CAPPED => pipeline.extend([doc! {"$sort": {"_id": -1}}, doc! {"$out": if random.chance(80) { other } else { name }}]),
        0 => pipeline.extend([doc! {"$sort": random.sort()}, doc! {"$limit": 1 + random.below(6) as i32}]),
        1 => pipeline.extend([doc! {"$sort": random.sort()}, doc! {"$skip": random.below(6) as i32}]),
        2 => pipeline.push(doc! {"$group": {"_id": *random.pick(&["$a", "$b", "$u"]), "count": {"$sum": 1}, "total": {"$sum": "$n"}}}),
        3 => pipeline.push(doc! {"$count": "count"}),
        4 => pipeline.extend([doc! {"$unwind": "$arr"}, doc! {"$group": {"_id": "$arr", "count": {"$sum": 1}, "total": {"$sum": "$n"}}}]),
        5 => pipeline.push(doc! {"$lookup": {"from": other, "localField": *random.pick(&["u", "_id"]), "foreignField": *random.pick(&["u", "_id"]), "as": "joined"}}),
        6 => pipeline.push(doc! {"$unionWith": other}),
        _ => pipeline.extend([doc! {"$project": {"a": 1, "n": 1}}, doc! {"$sort": {"n": -1, "_id": 1}}]),
    }
    doc! {"aggregate": name, "pipeline": pipeline, "cursor": {}}
}

fn index(random: &mut Random, name: &str) -> Document {
    match random.below(11) {
        10 => several(random, name),
        0..=6 => doc! {"createIndexes": name, "indexes": [random.index()]},
        7 if random.chance(30) => doc! {"dropIndexes": name, "index": "*"},
        8 => match random.below(2) {
            0 => {
                doc! {"collMod": name, "index": {"name": *random.pick(&["at", "at partial"]), "expireAfterSeconds": random.below(30) as i32}}
            }
            _ => {
                doc! {"collMod": name, "index": {"name": *random.pick(&["a", "b a", "u"]), "hidden": random.chance(30)}}
            }
        },
        _ => {
            let index = random.index();
            doc! {"dropIndexes": name, "index": index.get_str("name").expect("a name")}
        }
    }
}

/// Several settings in one command: all of them are changed, or none.
fn several(random: &mut Random, name: &str) -> Document {
    let seconds = 1 + random.below(40) as i64;
    if random.chance(40) {
        let index = *random.pick(&["at", "at partial", "at inside"]);
        return doc! {"collMod": name, "defaultTtl": seconds, "index": {"name": index, "expireAfterSeconds": random.below(30) as i32}};
    }
    let mut indexes = vec![random.index()];
    let another = random.index();
    if another.get("name") != indexes[0].get("name") {
        indexes.push(another);
    }
    if random.chance(50) {
        indexes.insert(0, default_spec("_ts_1", seconds));
    }
    doc! {"createIndexes": name, "indexes": indexes}
}

/// Sets `DefaultTTL` through one of the commands that can do so.
fn setting(random: &mut Random, name: &str) -> Document {
    let seconds = match random.below(4) {
        0 => -1,
        // So long that Sundown remembers the last writes to documents (`last_writes.rs`).
        1 if in_front_of_cluster() => 61 + random.below(200) as i64,
        _ => 1 + random.below(60) as i64,
    };
    if name == CAPPED && random.chance(30) {
        return match random.chance(50) {
            true => doc! {"collMod": name, "cappedMax": 2 + random.below(12) as i32},
            false => doc! {"collMod": name, "cappedSize": 256 * (1 + random.below(8) as i32)},
        };
    }
    match random.below(9) {
        8 => {
            doc! {"collMod": name, "index": {"keyPattern": {"_ts": 1}, "expireAfterSeconds": seconds}}
        }
        0..=3 => doc! {"collMod": name, "defaultTtl": seconds},
        4 => doc! {"collMod": name, "defaultTtl": null},
        5..=6 => {
            doc! {"createIndexes": name, "indexes": [default_spec(random.pick::<&str>(&["_ts_1", "other"]), seconds)]}
        }
        _ => doc! {"dropIndexes": name, "index": "_ts_1"},
    }
}

/// Creates, renames and drops collections.
fn whole(random: &mut Random, name: &str, now: i64) -> Document {
    match random.below(4) {
        0 => doc! {"drop": name},
        1 => doc! {"renameCollection": "test.d", "to": "test.c", "dropTarget": true},
        2 if name != CAPPED => doc! {"create": name, "defaultTtl": 1 + random.below(60) as i32},
        _ => doc! {"delete": name, "deletes": [{"q": random.filter(now, 1), "limit": 0}]},
    }
}
