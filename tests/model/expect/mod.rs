//! The reply that the model expects from a command, and the effect of the command on the model.

mod pipeline;
mod read;
mod settings;
mod write;

use bson::{Bson, Document};

use super::state::Model;

pub use read::bad_hint;

#[derive(Debug)]
pub enum Expect {
    /// An error with this code.
    Error(i64),
    /// Fields of the reply, by path. The types of numbers are ignored.
    Fields(Vec<(&'static str, Bson)>),
    /// Rows in this order.
    Ordered(Vec<Document>),
    /// Rows in any order.
    Set(Vec<Document>),
    /// This many of these rows.
    Some(usize, Vec<Document>),
    /// Groups: `_id` and numbers.
    Groups(Vec<Document>),
    /// Values, and what may be among them if an index serves the command.
    Distinct(Vec<Bson>, Vec<Bson>),
    Write {
        n: i64,
        modified: Option<i64>,
        upserted: Vec<(i64, Bson)>,
        errors: Vec<(i64, i64)>,
    },
    /// The result of each operation that was run.
    Bulk(Vec<BulkDone>),
    Value {
        value: Option<Document>,
        existing: Option<bool>,
        upserted: Option<Bson>,
    },
}

/// One operation of a bulkWrite.
#[derive(Debug)]
pub struct BulkDone {
    pub n: i64,
    pub modified: Option<i64>,
    pub upserted: Option<Bson>,
    pub error: Option<i64>,
}

/// Returns `None` if the reply depends on the order in which documents are read. The command is not sent then.
pub fn expect(model: &mut Model, command: &Document) -> Option<Expect> {
    model.begin();
    let (verb, target) = command.iter().next().expect("a command");
    let name = target.as_str().unwrap_or_default();
    Some(match verb.as_str() {
        "insert" => write::insert(model, name, command),
        "update" => return write::update(model, name, command),
        "delete" => return write::delete(model, name, command),
        "findAndModify" => return write::find_and_modify(model, name, command),
        "bulkWrite" => return write::bulk_write(model, command),
        "find" => read::find(model, name, command),
        "explain" => read::explain(model, command),
        "count" => read::count(model, name, command),
        "distinct" => read::distinct(model, name, command),
        "aggregate" => return pipeline::aggregate(model, name, command),
        "create" => return settings::create(model, name, command),
        "drop" => return settings::drop(model, name),
        "renameCollection" => return settings::rename(model, name, command),
        "collMod" => settings::coll_mod(model, name, command),
        "createIndexes" => settings::create_indexes(model, name, command),
        "dropIndexes" => settings::drop_indexes(model, name, command),
        other => panic!("the model knows no {other}"),
    })
}

fn filter(command: &Document, name: &str) -> Document {
    command.get_document(name).cloned().unwrap_or_default()
}

/// Returns whether the filters of a command name the root field `_ts`.
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
