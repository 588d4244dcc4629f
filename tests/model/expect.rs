//! What a command ought to answer, by the model; and what it does to the model.

use bson::{Bson, Document, doc};

use super::change::{Conditions, apply, id_first, project, seed, unchanged};
use super::matcher::{leaves, matches};
use super::order::{by_sort, compare, equal, number};
use super::state::{Cap, Collection, Index, Model, distinct};

#[derive(Debug)]
pub enum Expect {
    /// An error with that code.
    Error(i64),
    /// Fields of the reply, by path; whatever type numbers have.
    Fields(Vec<(&'static str, Bson)>),
    /// Rows in that order.
    Ordered(Vec<Document>),
    /// Rows in any order.
    Set(Vec<Document>),
    /// That many of these rows.
    Some(usize, Vec<Document>),
    /// Groups: `_id`, and numbers.
    Groups(Vec<Document>),
    Distinct(Vec<Bson>),
    Write {
        n: i64,
        modified: Option<i64>,
        upserted: Vec<(i64, Bson)>,
        errors: Vec<(i64, i64)>,
    },
    /// What became of each op that was run.
    Bulk(Vec<BulkDone>),
    Value {
        value: Option<Document>,
        existing: Option<bool>,
        upserted: Option<Bson>,
    },
}

/// One op of a bulkWrite.
#[derive(Debug)]
pub struct BulkDone {
    pub n: i64,
    pub modified: Option<i64>,
    pub upserted: Option<Bson>,
    pub error: Option<i64>,
}

impl BulkDone {
    fn plain(n: i64, error: Option<i64>) -> Self {
        Self {
            n,
            modified: None,
            upserted: None,
            error,
        }
    }
}

/// `None`: the answer depends on the order in which documents are met, so the command is not sent.
pub fn expect(model: &mut Model, command: &Document) -> Option<Expect> {
    model.begin();
    let (verb, target) = command.iter().next().expect("a command");
    let name = target.as_str().unwrap_or_default();
    Some(match verb.as_str() {
        "insert" => insert(model, name, command),
        "update" => return update(model, name, command),
        "delete" => return delete(model, name, command),
        "findAndModify" => return find_and_modify(model, name, command),
        "bulkWrite" => return bulk_write(model, command),
        "find" => find(model, name, command),
        "explain" => explain(model, command),
        "count" => count(model, name, command),
        "distinct" => {
            let key = command.get_str("key").expect("a key");
            let found = model
                .get(name)
                .matching(&filter(command, "query"), names_ts(command));
            let values = found
                .iter()
                .flat_map(|(_, seen)| leaves(seen, key))
                .flatten();
            Expect::Distinct(distinct(values.flat_map(|value| match value {
                Bson::Array(array) => array,
                value => vec![value],
            })))
        }
        "aggregate" => return aggregate(model, name, command),
        "createIndexes" => create_indexes(model, name, command),
        "dropIndexes" => drop_indexes(model, name, command),
        "collMod" => coll_mod(model, name, command),
        "create" => {
            if model.collections.contains_key(name) {
                return None;
            }
            let default = command.get("defaultTtl").and_then(number).map(|n| n as i64);
            let made = model.at(name);
            made.default = default;
            made.shown = "_ts_1".into();
            made.cap = command.get_bool("capped").ok().map(|_| Cap {
                bytes: command.get("size").and_then(number).expect("a size") as i64,
                documents: command.get("max").and_then(number).expect("a number") as i64,
            });
            Expect::Fields(vec![])
        }
        "drop" => {
            model.collections.remove(name)?;
            Expect::Fields(vec![])
        }
        "renameCollection" => {
            let from = name.strip_prefix("test.").expect("a name");
            let to = command
                .get_str("to")
                .expect("a name")
                .strip_prefix("test.")
                .expect("a name");
            let moved = model.collections.remove(from)?;
            model.collections.insert(to.to_owned(), moved);
            Expect::Fields(vec![])
        }
        other => panic!("the model knows no {other}"),
    })
}

fn filter(command: &Document, name: &str) -> Document {
    command.get_document(name).cloned().unwrap_or_default()
}

/// Whether root `_ts` is named anywhere in what a command selects by.
pub fn names_ts(command: &Document) -> bool {
    fn named(value: &Bson) -> bool {
        match value {
            Bson::Document(document) => document
                .iter()
                .any(|(name, value)| name == "_ts" || named(value)),
            Bson::Array(array) => array.iter().any(named),
            _ => false,
        }
    }
    [
        "filter",
        "query",
        "q",
        "sort",
        "projection",
        "fields",
        "pipeline",
    ]
    .iter()
    .any(|part| command.get(part).is_some_and(named))
        || command.get_str("key").is_ok_and(|key| key == "_ts")
}

fn insert(model: &mut Model, name: &str, command: &Document) -> Expect {
    let ordered = command.get_bool("ordered").unwrap_or(true);
    let (mut n, mut errors) = (0, Vec::new());
    for (at, document) in command
        .get_array("documents")
        .expect("documents")
        .iter()
        .enumerate()
    {
        match model.insert(name, document.as_document().expect("a document").clone()) {
            Ok(()) => n += 1,
            Err(code) => {
                errors.push((at as i64, code));
                if ordered {
                    break;
                }
            }
        }
    }
    Expect::Write {
        n,
        modified: None,
        upserted: vec![],
        errors,
    }
}

/// What one update statement did.
struct Done {
    n: i64,
    modified: i64,
    upserted: Option<Bson>,
    before: Option<Document>,
    after: Option<Document>,
}

fn update(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
    let (mut n, mut modified, mut upserted, mut errors) = (0, 0, Vec::new(), Vec::new());
    for (at, statement) in command
        .get_array("updates")
        .expect("updates")
        .iter()
        .enumerate()
    {
        model.expire();
        let statement = statement.as_document().expect("a statement");
        let change = Change {
            filter: filter(statement, "q"),
            update: statement["u"].clone(),
            array_filters: statement.get("arrayFilters").cloned(),
            sort: statement.get_document("sort").ok(),
            multi: statement.get_bool("multi").unwrap_or(false),
            upsert: statement.get_bool("upsert").unwrap_or(false),
            names_ts: names_ts(statement),
        };
        match change.make(model, name)? {
            Ok(done) => {
                n += done.n;
                modified += done.modified;
                upserted.extend(done.upserted.map(|id| (at as i64, id)));
            }
            Err(code) => {
                errors.push((at as i64, code));
                break;
            }
        }
    }
    Some(Expect::Write {
        n,
        modified: Some(modified),
        upserted,
        errors,
    })
}

/// Whether a write counts as a change. Arithmetic that ends in NaN always does: a NaN is not the NaN it was. So does
/// $currentDate, and a $push that adds or sorts, whatever is left of it.
fn modified(update: &Bson, before: &Document, after: &Document) -> bool {
    let Some(update) = update.as_document() else {
        return !unchanged(after, before);
    };
    let is_nan = |value: &Bson| number(value).is_some_and(f64::is_nan);
    let nan = |path: &String| match path.strip_suffix(".$[]") {
        Some(array) => after
            .get_array(array)
            .is_ok_and(|array| array.iter().any(is_nan)),
        // The other positional forms ask for numbers above some other, which a NaN is not.
        None => after.get(path).is_some_and(is_nan),
    };
    let calculated = ["$inc", "$mul"]
        .iter()
        .filter_map(|name| update.get_document(name).ok());
    let pushes = |operand: &Bson| match operand.as_document() {
        Some(how) if how.contains_key("$each") => {
            how.contains_key("$sort") || how.get_array("$each").is_ok_and(|each| !each.is_empty())
        }
        _ => true,
    };
    update.contains_key("$currentDate")
        || calculated.flat_map(Document::keys).any(nan)
        || update
            .get_document("$push")
            .is_ok_and(|push| push.values().any(pushes))
        || !unchanged(after, before)
}

struct Change<'a> {
    filter: Document,
    update: Bson,
    array_filters: Option<Bson>,
    sort: Option<&'a Document>,
    multi: bool,
    upsert: bool,
    names_ts: bool,
}

impl Change<'_> {
    fn make(&self, model: &mut Model, name: &str) -> Option<Result<Done, i64>> {
        // A statement sees what the ones before it did.
        model.move_to(model.now);
        let collection = model.get(name);
        let mut found = collection.matching(&self.filter, self.names_ts);
        if let Some(sort) = self.sort {
            found.sort_by(|(_, a), (_, b)| by_sort(sort, a, b));
            found.truncate(1);
        }
        if !self.multi && found.len() > 1 {
            return None;
        }
        let unique = collection.indexes.iter().any(|index| index.flag("unique"));
        if found.len() > 1 && unique {
            return None;
        }
        if found.is_empty() && self.upsert {
            return Some(self.insert(model, name));
        }
        let mut done = Done {
            n: 0,
            modified: 0,
            upserted: None,
            before: None,
            after: None,
        };
        let several = found.len() > 1;
        let conditions = self.conditions();
        for (stored, _) in found {
            let changed = apply(&self.update, &stored.doc, &conditions, model.now, false);
            let written = changed.and_then(|changed| {
                model
                    .write(name, stored.uid, changed.clone())
                    .map(|()| changed)
            });
            match written {
                Ok(changed) => {
                    done.n += 1;
                    done.modified += i64::from(modified(&self.update, &stored.doc, &changed));
                    done.before = Some(stored.doc);
                    done.after = Some(changed);
                }
                Err(_) if several => return None,
                Err(code) => return Some(Err(code)),
            }
        }
        Some(Ok(done))
    }

    fn conditions(&self) -> Conditions {
        Conditions {
            filter: self.filter.clone(),
            array_filters: self.array_filters.clone(),
        }
    }

    fn insert(&self, model: &mut Model, name: &str) -> Result<Done, i64> {
        let seed = seed(&self.filter, &self.update);
        let made = id_first(apply(
            &self.update,
            &seed,
            &self.conditions(),
            model.now,
            true,
        )?);
        model.insert(name, made.clone())?;
        Ok(Done {
            n: 1,
            modified: 0,
            upserted: made.get("_id").cloned(),
            before: None,
            after: Some(made),
        })
    }
}

fn delete(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
    let mut n = 0;
    for statement in command.get_array("deletes").expect("deletes") {
        let statement = statement.as_document().expect("a statement");
        let found = model
            .get(name)
            .matching(&filter(statement, "q"), names_ts(statement));
        if statement.get_i32("limit").is_ok_and(|limit| limit == 1) && found.len() > 1 {
            return None;
        }
        n += found.len() as i64;
        if let Some(collection) = model.collections.get_mut(name) {
            collection
                .docs
                .retain(|stored| found.iter().all(|(gone, _)| gone.uid != stored.uid));
        }
    }
    Some(Expect::Write {
        n,
        modified: None,
        upserted: vec![],
        errors: vec![],
    })
}

fn find_and_modify(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
    let sort = command.get_document("sort").ok();
    if command.get_bool("remove").unwrap_or(false) {
        let mut found = model
            .get(name)
            .matching(&filter(command, "query"), names_ts(command));
        if let Some(sort) = sort {
            found.sort_by(|(_, a), (_, b)| by_sort(sort, a, b));
            found.truncate(1);
        }
        if found.len() > 1 {
            return None;
        }
        let gone = found.pop();
        if let Some((gone, _)) = &gone {
            model.at(name).docs.retain(|stored| stored.uid != gone.uid);
        }
        return Some(Expect::Value {
            value: gone.map(|(gone, _)| shown(command, gone.doc)),
            existing: None,
            upserted: None,
        });
    }
    let change = Change {
        filter: filter(command, "query"),
        update: command["update"].clone(),
        array_filters: command.get("arrayFilters").cloned(),
        sort,
        multi: false,
        upsert: command.get_bool("upsert").unwrap_or(false),
        names_ts: names_ts(command),
    };
    Some(match change.make(model, name)? {
        Err(code) => Expect::Error(code),
        Ok(done) => Expect::Value {
            value: if command.get_bool("new").unwrap_or(false) {
                done.after
            } else {
                done.before
            }
            .map(|document| shown(command, document)),
            existing: Some(done.upserted.is_none() && done.n > 0),
            upserted: done.upserted,
        },
    })
}

/// What findAndModify shows of a document.
fn shown(command: &Document, document: Document) -> Document {
    match command.get_document("fields") {
        Ok(fields) => project(fields, &document),
        Err(_) => document,
    }
}

/// Statements of several kinds, on several collections. `None` as soon as one of them depends on the order of documents.
fn bulk_write(model: &mut Model, command: &Document) -> Option<Expect> {
    let ordered = command.get_bool("ordered").unwrap_or(true);
    let names: Vec<String> = command
        .get_array("nsInfo")
        .expect("namespaces")
        .iter()
        .map(|info| {
            let info = info.as_document().expect("a namespace");
            let name = info.get_str("ns").expect("a name");
            name.strip_prefix("test.").expect("a name").to_owned()
        })
        .collect();
    let mut done = Vec::new();
    for op in command.get_array("ops").expect("ops") {
        // What an op before it has ended (a date of long ago) is gone for this one.
        model.expire();
        let op = op.as_document().expect("an op");
        let (kind, at) = op.iter().next().expect("an op");
        let name = &names[number(at).expect("a place") as usize];
        let one = match kind.as_str() {
            "insert" => {
                let document = op.get_document("document").expect("a document").clone();
                model
                    .insert(name, document)
                    .map(|()| BulkDone::plain(1, None))
            }
            "update" => {
                let change = Change {
                    filter: filter(op, "filter"),
                    update: op["updateMods"].clone(),
                    array_filters: op.get("arrayFilters").cloned(),
                    sort: None,
                    multi: op.get_bool("multi").unwrap_or(false),
                    upsert: op.get_bool("upsert").unwrap_or(false),
                    names_ts: names_ts(op),
                };
                change.make(model, name)?.map(|done| BulkDone {
                    n: done.n,
                    modified: Some(done.modified),
                    upserted: done.upserted,
                    error: None,
                })
            }
            _ => {
                let found = model
                    .get(name)
                    .matching(&filter(op, "filter"), names_ts(op));
                if !op.get_bool("multi").unwrap_or(false) && found.len() > 1 {
                    return None;
                }
                if let Some(collection) = model.collections.get_mut(name) {
                    collection
                        .docs
                        .retain(|stored| found.iter().all(|(gone, _)| gone.uid != stored.uid));
                }
                Ok(BulkDone::plain(found.len() as i64, None))
            }
        };
        let failed = one.is_err();
        done.push(one.unwrap_or_else(|code| BulkDone {
            error: Some(code),
            // An update that failed says so of both its figures.
            modified: (kind == "update").then_some(0),
            ..BulkDone::plain(0, None)
        }));
        if failed && ordered {
            break;
        }
    }
    Some(Expect::Bulk(done))
}

/// Whether a find is told to take an index that is not there.
pub fn bad_hint(collection: Option<&Collection>, command: &Document) -> bool {
    match (collection, command.get_str("hint")) {
        (Some(collection), Ok(hint)) => {
            let shown = collection.default.is_some() && collection.shown == hint;
            let there = collection
                .index(hint)
                .is_some_and(|index| !index.flag("hidden"));
            hint != "_id_" && !shown && !there
        }
        _ => false,
    }
}

fn find(model: &Model, name: &str, command: &Document) -> Expect {
    if bad_hint(model.collections.get(name), command) {
        return Expect::Error(2);
    }
    let found = model
        .get(name)
        .matching(&filter(command, "filter"), names_ts(command));
    let mut rows: Vec<Document> = found.into_iter().map(|(_, seen)| seen).collect();
    let show = |rows: Vec<Document>| match command.get_document("projection") {
        Ok(projection) => rows.iter().map(|row| project(projection, row)).collect(),
        Err(_) => rows,
    };
    let skip = command.get_i32("skip").unwrap_or(0) as usize;
    let limit = command
        .get_i32("limit")
        .map_or(usize::MAX, |limit| limit as usize);
    let Ok(sort) = command.get_document("sort") else {
        let left = rows.len().saturating_sub(skip).min(limit);
        return if left < rows.len() {
            Expect::Some(left, show(rows))
        } else {
            Expect::Set(show(rows))
        };
    };
    rows.sort_by(|a, b| by_sort(sort, a, b));
    Expect::Ordered(show(rows.into_iter().skip(skip).take(limit).collect()))
}

/// explain counts what a find would return.
fn explain(model: &Model, command: &Document) -> Expect {
    let command = command.get_document("explain").expect("a command");
    let name = command.get_str("find").expect("a collection");
    let rows = match find(model, name, command) {
        Expect::Ordered(rows) | Expect::Set(rows) => rows.len(),
        Expect::Some(count, _) => count,
        failure => return failure,
    };
    Expect::Fields(vec![("executionStats.nReturned", Bson::Int64(rows as i64))])
}

fn count(model: &Model, name: &str, command: &Document) -> Expect {
    if bad_hint(model.collections.get(name), command) {
        return Expect::Error(2);
    }
    let found = model
        .get(name)
        .matching(&filter(command, "query"), names_ts(command))
        .len();
    let skip = command.get_i32("skip").unwrap_or(0) as usize;
    let limit = command
        .get_i32("limit")
        .map_or(usize::MAX, |limit| limit as usize);
    let n = found.saturating_sub(skip).min(limit);
    Expect::Fields(vec![("n", Bson::Int64(n as i64))])
}

fn aggregate(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
    let with_ts = names_ts(command);
    let mut rows: Vec<Document> = model
        .get(name)
        .docs
        .iter()
        .map(|stored| Collection::seen(stored, with_ts))
        .collect();
    let mut ordered = false;
    let mut groups = false;
    for stage in command.get_array("pipeline").expect("a pipeline") {
        let (stage, spec) = stage
            .as_document()
            .expect("a stage")
            .iter()
            .next()
            .expect("a stage");
        match stage.as_str() {
            "$match" => {
                let filter = spec.as_document().expect("a filter");
                rows.retain(|row| matches(filter, row));
            }
            "$sort" => {
                let sort = spec.as_document().expect("a sort");
                rows.sort_by(|a, b| by_sort(sort, a, b));
                ordered = true;
            }
            "$limit" => rows.truncate(number(spec).expect("a number") as usize),
            "$skip" => drop(rows.drain(..rows.len().min(number(spec).expect("a number") as usize))),
            "$project" => {
                let projection = spec.as_document().expect("a projection");
                rows = rows.iter().map(|row| project(projection, row)).collect();
            }
            "$unwind" => {
                let field = spec.as_str().expect("a path").trim_start_matches('$');
                rows = rows.iter().flat_map(|row| unwind(row, field)).collect();
            }
            "$count" => {
                let n = rows.len() as i64;
                rows = (n > 0)
                    .then(|| doc! {"_id": null, (spec.as_str().expect("a name")): n})
                    .into_iter()
                    .collect();
                groups = true;
            }
            "$group" => {
                let spec = spec.as_document().expect("a group");
                rows = group(
                    spec.get_str("_id").expect("a path").trim_start_matches('$'),
                    &rows,
                );
                groups = true;
            }
            "$lookup" => {
                let spec = spec.as_document().expect("a lookup");
                if let Ok(stages) = spec.get_array("pipeline") {
                    let filter = stages[0].as_document().expect("a stage")["$match"].clone();
                    let from = model.get(spec.get_str("from").expect("a collection"));
                    let mut joined =
                        from.matching(filter.as_document().expect("a filter"), with_ts);
                    joined.sort_by(|(_, a), (_, b)| compare(&a["_id"], &b["_id"]));
                    let joined: Vec<Document> = joined.into_iter().map(|(_, seen)| seen).collect();
                    for row in &mut rows {
                        row.insert("joined", joined.clone());
                    }
                    continue;
                }
                let (local, foreign) = (
                    spec.get_str("localField").expect("a field"),
                    spec.get_str("foreignField").expect("a field"),
                );
                let from = model.get(spec.get_str("from").expect("a collection"));
                for row in &mut rows {
                    let value = row.get(local).cloned().unwrap_or(Bson::Null);
                    let mut joined = from.matching(&doc! {foreign: {"$eq": value}}, with_ts);
                    joined.sort_by(|(_, a), (_, b)| compare(&a["_id"], &b["_id"]));
                    let joined: Vec<Document> = joined.into_iter().map(|(_, seen)| seen).collect();
                    row.insert(spec.get_str("as").expect("a name"), joined);
                }
            }
            "$sortByCount" => {
                let path = spec.as_str().expect("a path").trim_start_matches('$');
                rows = group(path, &rows);
                for row in &mut rows {
                    row.remove("total");
                }
                groups = true;
            }
            "$sample" => {
                let size = spec.as_document().expect("a size")["size"].clone();
                let size = number(&size).expect("a number") as usize;
                return Some(Expect::Some(size.min(rows.len()), rows));
            }
            "$facet" => {
                let spec = spec.as_document().expect("facets");
                let mut faceted = Document::new();
                for (name, stages) in spec {
                    let first = stages.as_array().expect("stages")[0].as_document();
                    let filter = first.and_then(|stage| stage.get_document("$match").ok());
                    let passes = |row: &&Document| filter.is_none_or(|filter| matches(filter, row));
                    let n = rows.iter().filter(passes).count() as i32;
                    let counted: Vec<Document> =
                        (n > 0).then(|| doc! {"count": n}).into_iter().collect();
                    faceted.insert(name, counted);
                }
                rows = vec![faceted];
            }
            "$unionWith" => {
                let other = model.get(spec.as_str().expect("a collection"));
                rows.extend(
                    other
                        .docs
                        .iter()
                        .map(|stored| Collection::seen(stored, with_ts)),
                );
                ordered = false;
            }
            "$out" if with_ts => return None,
            "$out" => {
                out(
                    model,
                    spec.as_str().expect("a name"),
                    std::mem::take(&mut rows),
                )?;
            }
            "$merge" if with_ts => return None,
            "$merge" => {
                let rows = std::mem::take(&mut rows);
                if let Err(code) = merge(model, spec.as_document().expect("a merge"), rows)? {
                    return Some(Expect::Error(code));
                }
            }
            other => panic!("the model knows no {other}"),
        }
    }
    Some(match (groups, ordered) {
        (true, _) => Expect::Groups(rows),
        (false, true) => Expect::Ordered(rows),
        (false, false) => Expect::Set(rows),
    })
}

/// Whether what a write stage does depends on the order of its rows.
fn has_unique(model: &Model, name: &str) -> bool {
    model
        .get(name)
        .indexes
        .iter()
        .any(|index| index.flag("unique"))
}

/// The target keeps its settings; its documents are new ones.
fn out(model: &mut Model, into: &str, rows: Vec<Document>) -> Option<()> {
    if has_unique(model, into) {
        return None;
    }
    model.at(into).docs.clear();
    for row in rows {
        model.insert(into, row).expect("nothing is unique but _id");
    }
    Some(())
}

/// What went wrong first; the rows behind it are written all the same.
fn merge(model: &mut Model, spec: &Document, rows: Vec<Document>) -> Option<Result<(), i64>> {
    let into = spec.get_str("into").expect("a name");
    if has_unique(model, into) {
        return None;
    }
    let how = &spec["whenMatched"];
    let by_name = matches!(how.as_str(), Some("merge" | "keepExisting"));
    let mut failed = Ok(());
    for mut row in rows {
        // What a row before it has made end (a date of long ago) is gone for this one.
        model.expire();
        if by_name {
            // It is an update with $set or $setOnInsert: new fields come in the order of their names.
            let mut fields: Vec<(String, Bson)> = row.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| (a != "_id", a).cmp(&(b != "_id", b)));
            row = fields.into_iter().collect();
        }
        let there = model
            .get(into)
            .docs
            .into_iter()
            .find(|stored| equal(&stored.doc["_id"], &row["_id"]));
        let Some(there) = there else {
            if spec.get_str("whenNotMatched").expect("a word") == "insert" {
                model.insert(into, row).ok()?;
            }
            continue;
        };
        // Numbers of two types: which of them stays is another question.
        if there.doc["_id"] != row["_id"] {
            return None;
        }
        let changed = match how.as_str() {
            Some("replace") => Ok(row),
            Some("merge") => {
                let mut merged = there.doc.clone();
                merged.extend(row);
                Ok(merged)
            }
            Some("fail") => Err(11_000),
            Some(_) => continue,
            None => apply(how, &there.doc, &Conditions::default(), model.now, false),
        };
        let written = changed.and_then(|changed| model.write(into, there.uid, changed));
        failed = failed.and(written);
    }
    Some(failed)
}

fn unwind(row: &Document, field: &str) -> Vec<Document> {
    let with = |value: &Bson| {
        let mut row = row.clone();
        row.insert(field, value.clone());
        row
    };
    match row.get(field) {
        None | Some(Bson::Null) => vec![],
        Some(Bson::Array(array)) => array.iter().map(with).collect(),
        Some(value) => vec![with(value)],
    }
}

fn group(path: &str, rows: &[Document]) -> Vec<Document> {
    let mut groups: Vec<(Bson, i64, f64)> = Vec::new();
    for row in rows {
        let key = row.get(path).cloned().unwrap_or(Bson::Null);
        let n = row.get("n").and_then(number).unwrap_or(0.0);
        match groups.iter_mut().find(|(known, ..)| equal(known, &key)) {
            Some((_, count, total)) => {
                *count += 1;
                *total += n;
            }
            None => groups.push((key, 1, n)),
        }
    }
    groups.sort_by(|a, b| compare(&a.0, &b.0));
    groups
        .into_iter()
        .map(|(key, count, total)| doc! {"_id": key, "count": count, "total": total})
        .collect()
}

fn create_indexes(model: &mut Model, name: &str, command: &Document) -> Expect {
    let collection = model.at(name);
    let before = collection.clone();
    let made = make_indexes(collection, command);
    if matches!(made, Expect::Error(_)) {
        *collection = before;
    }
    made
}

fn make_indexes(collection: &mut Collection, command: &Document) -> Expect {
    for spec in command.get_array("indexes").expect("indexes") {
        let spec = spec.as_document().expect("an index").clone();
        if spec.get_document("key").expect("a key").len() == 1
            && spec.get_document("key").expect("a key").contains_key("_ts")
        {
            collection.default = spec
                .get("expireAfterSeconds")
                .and_then(number)
                .map(|n| n as i64);
            collection.shown = spec.get_str("name").expect("a name").to_owned();
            continue;
        }
        let index = Index { spec };
        match collection.index(index.name()) {
            Some(there) if there.spec != index.spec => return Expect::Error(85),
            Some(_) => continue,
            None => {}
        }
        if collection.would_clash(&index) {
            return Expect::Error(11_000);
        }
        collection.indexes.push(index);
    }
    Expect::Fields(vec![(
        "numIndexesAfter",
        Bson::Int64(collection.index_count()),
    )])
}

fn drop_indexes(model: &mut Model, name: &str, command: &Document) -> Expect {
    let Some(collection) = model.collections.get_mut(name) else {
        return Expect::Error(26);
    };
    let before = collection.index_count();
    let index = command.get_str("index").expect("a name");
    if index == "*" {
        collection.indexes.clear();
        collection.default = None;
    } else if collection.default.is_some() && collection.shown == index {
        collection.default = None;
    } else if collection.index(index).is_some() {
        collection.indexes.retain(|there| there.name() != index);
    } else {
        return Expect::Error(27);
    }
    Expect::Fields(vec![("nIndexesWas", Bson::Int64(before))])
}

fn coll_mod(model: &mut Model, name: &str, command: &Document) -> Expect {
    let Some(collection) = model.collections.get_mut(name) else {
        return Expect::Error(26);
    };
    let documents = command.get("cappedMax").and_then(number);
    let bytes = command.get("cappedSize").and_then(number);
    if documents.or(bytes).is_some() {
        let Some(cap) = &mut collection.cap else {
            return Expect::Error(72);
        };
        cap.documents = documents.map_or(cap.documents, |n| n as i64);
        cap.bytes = bytes.map_or(cap.bytes, |n| n as i64);
        return Expect::Fields(vec![]);
    }
    let change = command.get_document("index").ok();
    if let Some(default) = command.get("defaultTtl") {
        let index = change.and_then(|change| change.get_str("name").ok());
        if index.is_some_and(|index| collection.index(index).is_none()) {
            return Expect::Error(27);
        }
        if collection.default.is_none() {
            collection.shown = "_ts_1".into();
        }
        collection.default = number(default).map(|n| n as i64);
    }
    let Some(change) = change else {
        return Expect::Fields(vec![]);
    };
    if change.contains_key("keyPattern") {
        // The one that shows the default; one that was given another name is found by its key as well.
        if collection.default.is_none() {
            return Expect::Error(27);
        }
        let seconds = change.get("expireAfterSeconds").and_then(number);
        collection.default = seconds.map(|n| n as i64);
        return Expect::Fields(vec![]);
    }
    let index = change.get_str("name").expect("a name");
    let Some(there) = collection
        .indexes
        .iter_mut()
        .find(|there| there.name() == index)
    else {
        return Expect::Error(27);
    };
    for option in ["expireAfterSeconds", "hidden"] {
        if let Some(value) = change.get(option) {
            there.spec.insert(option, value.clone());
            if *value == Bson::Boolean(false) {
                there.spec.remove(option);
            }
        }
    }
    Expect::Fields(vec![])
}
