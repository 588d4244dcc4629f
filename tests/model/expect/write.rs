//! insert, update, delete, findAndModify and bulkWrite.

use bson::{Bson, Document};

use super::super::change::{Conditions, apply, id_first, project, seed, unchanged};
use super::super::order::{by_sort, number};
use super::super::state::Model;
use super::{BulkDone, Expect, filter, names_ts};

/// The result of one update statement.
struct Done {
    n: i64,
    modified: i64,
    upserted: Option<Bson>,
    before: Option<Document>,
    after: Option<Document>,
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

pub(super) fn insert(model: &mut Model, name: &str, command: &Document) -> Expect {
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

pub(super) fn update(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
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

/// Returns whether a write counts as a modification. Arithmetic with the result NaN always does, because NaN is not equal
/// to NaN. So does $currentDate, and a $push that adds or sorts, whatever the result is.
fn modified(update: &Bson, before: &Document, after: &Document) -> bool {
    let Some(update) = update.as_document() else {
        return !unchanged(after, before);
    };
    let is_nan = |value: &Bson| number(value).is_some_and(f64::is_nan);
    let nan = |path: &String| match path.strip_suffix(".$[]") {
        Some(array) => after
            .get_array(array)
            .is_ok_and(|array| array.iter().any(is_nan)),
        // The other positional forms select numbers greater than another, which NaN is not.
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

impl Change<'_> {
    fn make(&self, model: &mut Model, name: &str) -> Option<Result<Done, i64>> {
        // A statement sees the effects of the statements before it.
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

pub(super) fn delete(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
    let mut n = 0;
    for statement in command.get_array("deletes").expect("deletes") {
        let statement = statement.as_document().expect("a statement");
        let multi = statement.get_i32("limit").is_ok_and(|limit| limit == 0);
        n += remove(model, name, statement, "q", multi)?;
    }
    Some(Expect::Write {
        n,
        modified: None,
        upserted: vec![],
        errors: vec![],
    })
}

/// Removes the documents that a statement selects, and returns their number.
fn remove(
    model: &mut Model,
    name: &str,
    statement: &Document,
    by: &str,
    multi: bool,
) -> Option<i64> {
    let found = model
        .get(name)
        .matching(&filter(statement, by), names_ts(statement));
    if !multi && found.len() > 1 {
        return None;
    }
    if let Some(collection) = model.collections.get_mut(name) {
        collection
            .docs
            .retain(|stored| found.iter().all(|(gone, _)| gone.uid != stored.uid));
    }
    Some(found.len() as i64)
}

pub(super) fn find_and_modify(model: &mut Model, name: &str, command: &Document) -> Option<Expect> {
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

/// Returns the document that findAndModify shows.
fn shown(command: &Document, document: Document) -> Document {
    match command.get_document("fields") {
        Ok(fields) => project(fields, &document),
        Err(_) => document,
    }
}

/// Statements of several kinds on several collections. Returns `None` as soon as one of them depends on the order of
/// documents.
pub(super) fn bulk_write(model: &mut Model, command: &Document) -> Option<Expect> {
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
        // If an earlier operation has ended a document (with a past date), this one does not see it.
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
                let multi = op.get_bool("multi").unwrap_or(false);
                let gone = remove(model, name, op, "filter", multi)?;
                Ok(BulkDone::plain(gone, None))
            }
        };
        let failed = one.is_err();
        done.push(one.unwrap_or_else(|code| BulkDone {
            error: Some(code),
            // An update that failed reports 0 for both counts.
            modified: (kind == "update").then_some(0),
            ..BulkDone::plain(0, None)
        }));
        if failed && ordered {
            break;
        }
    }
    Some(Expect::Bulk(done))
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
