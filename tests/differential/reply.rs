//! Decides whether two replies are the same. It compares values, their types, the order of fields and rows, error codes and
//! their names. It ignores messages and everything that a server generates (ids of cursors, ObjectIds, UUIDs, the time).

use bson::{Bson, DateTime, Document};

use crate::difference::What;
use crate::generate::Step;
use crate::support::print::Printer;

pub fn differ(steps: &[Step], what: What, theirs: &[Document], ours: &[Document]) -> bool {
    text(steps, what, theirs) != text(steps, what, ours)
}

/// Returns the replies as text, without the parts that may differ.
pub fn text(steps: &[Step], what: What, replies: &[Document]) -> String {
    let command = &steps[steps.len() - 1].command;
    let has_rows = replies.iter().any(|reply| batch(reply).is_some());
    if has_rows && what == What::Reply && takes_some_of_unknown_order(steps) {
        let sizes = replies.iter().map(|reply| batch(reply).map(Vec::len));
        return format!("{:?}", sizes.collect::<Vec<_>>());
    }
    let mut printer = Printer::default();
    for step in steps {
        printer.learn(&Bson::Document(step.command.clone()));
    }
    let order = match what {
        What::Reply => Order::of(steps),
        What::State if Order::of(steps) == Order::Anywhere => Order::Anywhere,
        What::State => Order::Known,
    };
    let lines = replies.iter().map(|reply| {
        let reply = essence(command, reply);
        let mut reply = settled(reply.into());
        if order != Order::Known {
            sort_rows(&mut reply, order);
        }
        printer.value(&reply)
    });
    let mut lines: Vec<String> = lines.collect();
    if order != Order::Known && lines.len() > 1 {
        // It is not known either which row comes in which batch.
        if let Some(rows) = rows(steps, replies) {
            let sizes = replies
                .iter()
                .filter_map(batch)
                .map(|batch| batch.len().to_string());
            lines = sizes.chain(rows).collect();
        }
    }
    lines.join("\n")
}

/// The known facts about the order of rows in a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Known,
    Unknown,
    /// The order of the elements in the arrays of `$addToSet` is unknown, too.
    Anywhere,
}

// === impl Order ===

impl Order {
    fn of(steps: &[Step]) -> Self {
        let command = &steps[steps.len() - 1].command;
        let said = command.to_string();
        if makes_sets(command) {
            return Self::Anywhere;
        }
        if command.contains_key("listCollections") {
            return Self::Unknown;
        }
        if command.contains_key("pipeline") && grouping(&said) {
            return Self::Unknown;
        }
        let sorted = said.contains("sort") && said.contains("_id");
        // A filter on _id may be answered in the order of its index.
        if sorted || !(is_indexed(steps) || said.contains("\"_id\"")) {
            return Self::Known;
        }
        Self::Unknown
    }
}

/// Returns true if a pipeline builds arrays in an unknown order.
pub fn makes_sets(command: &Document) -> bool {
    command.contains_key("pipeline") && command.to_string().contains("$addToSet")
}

/// Returns true if the command takes some of the rows and the order is unknown. Then only their number can be compared.
fn takes_some_of_unknown_order(steps: &[Step]) -> bool {
    let Step { command, more } = &steps[steps.len() - 1];
    if more.is_none() && Order::of(steps) != Order::Known {
        return true;
    }
    let Ok(stages) = command.get_array("pipeline") else {
        let cut = command.contains_key("limit") || command.contains_key("skip");
        return cut && command.contains_key("find") && Order::of(steps) != Order::Known;
    };
    let mut known = !is_indexed(steps);
    for stage in stages.iter().filter_map(Bson::as_document) {
        match stage.keys().next().map_or("", String::as_str) {
            "$group" | "$sortByCount" => known = false,
            "$sort" => known |= stage.to_string().contains("\"_id\""),
            "$skip" | "$limit" if !known => return true,
            _ => {}
        }
    }
    false
}

fn is_indexed(steps: &[Step]) -> bool {
    let mut all = steps.iter();
    all.any(|step| step.command.contains_key("createIndexes"))
}

/// Groups have no order, and groups by arrays may be equal for a sort.
fn grouping(said: &str) -> bool {
    ["$group", "$sortByCount"]
        .iter()
        .any(|stage| said.contains(stage))
}

/// Returns the part of a reply that must be the same on both servers.
fn essence(command: &Document, reply: &Document) -> Document {
    let verb = match reply.get_document("cursor").and_then(|cursor| {
        let first = cursor.get_array("firstBatch");
        first.or_else(|_| cursor.get_array("nextBatch"))
    }) {
        // Also in replies about the state of a collection.
        Ok(rows) if rows.iter().all(is_index) && !rows.is_empty() => "listIndexes",
        _ => command.keys().next().map_or("", String::as_str),
    };
    if reply.get_f64("ok").ok() != Some(1.0) {
        let kept = ["ok", "code", "codeName", "keyPattern", "keyValue", "lost"];
        return only(reply, &kept);
    }
    match verb {
        "explain" => return explained(command, reply),
        "aggregate" if !reply.contains_key("cursor") => return only(reply, &["ok"]),
        "validate" if command.contains_key("metadata") => return only(reply, &["ok", "valid"]),
        "validate" => return only(reply, &["ok", "valid", "nrecords", "nIndexes"]),
        "collStats" => return only(reply, &["ok", "count", "nindexes", "capped", "max"]),
        "dbStats" => return only(reply, &["ok", "collections", "views", "objects", "indexes"]),
        "dataSize" => return only(reply, &["ok", "numObjects"]),
        "dropDatabase" | "listDatabases" => return only(reply, &["ok"]),
        _ => {}
    }
    let mut essence = Document::new();
    let mut fields: Vec<_> = reply.iter().collect();
    // The order of the reply's own fields does not matter, except in writes. That of a document's fields does.
    if !["insert", "update", "delete"].contains(&verb) {
        fields.sort_by_key(|(name, _)| *name);
    }
    for (name, value) in fields {
        let value = match (name.as_str(), value) {
            ("$clusterTime" | "operationTime", _) => continue,
            ("writeErrors", Bson::Array(errors)) => {
                let kept = ["index", "code", "codeName", "keyPattern", "keyValue"];
                let errors = errors.iter().filter_map(Bson::as_document);
                let errors: Vec<Document> = errors.map(|error| only(error, &kept)).collect();
                errors.into()
            }
            ("cursor", Bson::Document(cursor)) => {
                let open = cursor.get_i64("id").is_ok_and(|id| id != 0);
                let mut sorted = sorted(cursor);
                sorted.insert("id", i64::from(open));
                if verb == "listIndexes" {
                    sort_descriptions(&mut sorted);
                }
                sorted.into()
            }
            _ => value.clone(),
        };
        essence.insert(name, value);
    }
    essence
}

/// Returns the number of documents that a plan found. The plans themselves differ.
fn explained(command: &Document, reply: &Document) -> Document {
    let inner = command.get_document("explain").ok();
    let is_pipeline = inner.is_some_and(|inner| inner.contains_key("pipeline"));
    let stats = reply.get_document("executionStats").ok();
    let mut essence = only(reply, &["ok"]);
    if let Some(stats) = stats.filter(|_| !is_pipeline) {
        essence.insert("nReturned", stats.get("nReturned").cloned());
    }
    essence
}

fn is_index(row: &Bson) -> bool {
    let row = row.as_document();
    row.is_some_and(|row| row.contains_key("v") && row.contains_key("key"))
}

fn sorted(document: &Document) -> Document {
    let mut fields: Vec<_> = document.clone().into_iter().collect();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    fields.into_iter().collect()
}

/// mongod orders the fields of the descriptions in the first batch only; a later one shows them as they were stored.
fn sort_descriptions(cursor: &mut Document) {
    for row in cursor.get_array_mut("nextBatch").into_iter().flatten() {
        if let Bson::Document(row) = row {
            *row = sorted(row);
        }
    }
}

/// Returns the value with the fields of all documents sorted by name.
pub fn sorted_deeply(value: Bson) -> Bson {
    match value {
        Bson::Array(list) => list
            .into_iter()
            .map(sorted_deeply)
            .collect::<Vec<_>>()
            .into(),
        Bson::Document(document) => {
            let fields = sorted(&document).into_iter();
            let fields = fields.map(|(name, value)| (name, sorted_deeply(value)));
            fields.collect::<Document>().into()
        }
        other => other,
    }
}

fn only(document: &Document, names: &[&str]) -> Document {
    let kept = document
        .iter()
        .filter(|(name, _)| names.contains(&name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Replaces times near now by one instant, and every NaN by one value.
fn settled(value: Bson) -> Bson {
    match value {
        Bson::DateTime(date) => {
            let now = DateTime::now().timestamp_millis();
            let near = (now - 600_000..now + 600_000).contains(&date.timestamp_millis());
            Bson::DateTime(if near { DateTime::from_millis(0) } else { date })
        }
        Bson::Array(list) => list.into_iter().map(settled).collect::<Vec<_>>().into(),
        Bson::Document(document) => {
            let fields = document.into_iter();
            let fields = fields.map(|(name, value)| (name, settled(value)));
            fields.collect::<Document>().into()
        }
        other => other,
    }
}

fn sort_rows(reply: &mut Bson, order: Order) {
    match reply {
        Bson::Document(document) => {
            for (name, value) in document.iter_mut() {
                let rows = ["firstBatch", "nextBatch", "values"].contains(&name.as_str());
                if let (Bson::Array(list), true) = (&mut *value, rows || order == Order::Anywhere) {
                    list.sort_by_cached_key(Bson::to_string);
                }
                sort_rows(value, order);
            }
        }
        Bson::Array(list) => list.iter_mut().for_each(|value| sort_rows(value, order)),
        _ => {}
    }
}

/// Returns all rows of a cursor as text, in their order if it is known, or `None` if a batch is missing.
pub fn ordered_rows(steps: &[Step], replies: &[Document]) -> Option<Vec<String>> {
    let mut all = printed_rows(steps, replies)?;
    if Order::of(steps) != Order::Known {
        all.sort();
    }
    Some(all)
}

/// Returns the same rows sorted as text.
fn rows(steps: &[Step], replies: &[Document]) -> Option<Vec<String>> {
    let mut all = printed_rows(steps, replies)?;
    all.sort();
    Some(all)
}

fn printed_rows(steps: &[Step], replies: &[Document]) -> Option<Vec<String>> {
    let mut printer = Printer::default();
    for step in steps {
        printer.learn(&Bson::Document(step.command.clone()));
    }
    let mut rows = Vec::new();
    let told = |reply: &&Document| !reply.contains_key("killed");
    let command = &steps[steps.len() - 1].command;
    for reply in replies.iter().filter(told) {
        for row in batch(&essence(command, reply))? {
            let mut row = settled(row.clone());
            if Order::of(steps) == Order::Anywhere {
                sort_rows(&mut row, Order::Anywhere);
            }
            rows.push(printer.value(&row));
        }
    }
    Some(rows)
}

/// Returns the rows of a reply.
pub fn batch(reply: &Document) -> Option<&Vec<Bson>> {
    let cursor = reply.get_document("cursor").ok()?;
    let batch = cursor.get_array("firstBatch");
    batch.or_else(|_| cursor.get_array("nextBatch")).ok()
}
