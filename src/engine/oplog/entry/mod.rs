//! An entry of the oplog, in the format of MongoDB's log.

use std::sync::Arc;

use crate::engine::describe::{put_id_index, put_options};
use crate::storage::{LogEntry, LogOp, LogStart, LogSubject, LogTransaction, Namespace};
use crate::value::{ClusterTime, Doc, DocBuf, DocBuilder, Millis, Value};

/// The term of the only primary that there ever was.
const TERM: i64 = 1;
/// The version of the format.
const VERSION: i64 = 2;

/// Returns the entry of a change, or of all changes of a transaction.
pub(super) fn document(changes: &[Arc<LogEntry>]) -> DocBuf {
    DocBuf::build(|entry| {
        let Some(first) = changes.first() else {
            return;
        };
        match &first.transaction {
            None => put_operation(&first.subject, &first.op, entry),
            Some(transaction) => put_transaction(transaction, changes, entry),
        }
        put_times(first.time, first.wall, entry);
        if first.transaction.is_some() {
            let mut before = entry.doc("prevOpTime");
            before
                .put("ts", Value::timestamp(0, 0).as_ref())
                .put_i64("t", -1);
            before.end();
        }
    })
}

fn put_transaction(
    transaction: &LogTransaction,
    changes: &[Arc<LogEntry>],
    entry: &mut DocBuilder<'_>,
) {
    entry
        .put_doc("lsid", transaction.lsid.as_doc())
        .put_i64("txnNumber", transaction.number)
        .put_str("op", "c")
        .put_str("ns", "admin.$cmd");
    let mut command = entry.doc("o");
    let mut operations = command.array("applyOps");
    for change in changes {
        let mut operation = operations.doc();
        put_operation(&change.subject, &change.op, &mut operation);
        operation.end();
    }
    operations.end();
    command.end();
}

/// Returns the entry that stands at the beginning of the log. Tools need one to see how far the log reaches.
pub(super) fn beginning(start: LogStart) -> DocBuf {
    DocBuf::build(|entry| {
        entry.put_str("op", "n").put_str("ns", "");
        let mut message = entry.doc("o");
        message.put_str(
            "msg",
            match start.is_complete {
                true => "initiating set",
                false => "the recording of changes begins",
            },
        );
        message.end();
        put_times(start.time, start.wall, entry);
    })
}

fn put_times(time: ClusterTime, wall: Millis, entry: &mut DocBuilder<'_>) {
    let (seconds, increment) = time.parts();
    entry
        .put("ts", Value::timestamp(seconds, increment).as_ref())
        .put_i64("t", TERM)
        .put_i64("v", VERSION)
        .put_date("wall", wall.0);
}

/// Writes the fields that say what was done.
fn put_operation(subject: &LogSubject, op: &LogOp, entry: &mut DocBuilder<'_>) {
    let name = &subject.namespace;
    let kind = match op {
        LogOp::Insert { .. } => "i",
        LogOp::Update { .. } | LogOp::Replace { .. } => "u",
        LogOp::Delete { .. } => "d",
        _ => "c",
    };
    entry.put_str("op", kind);
    match kind {
        "c" => entry.put_joined("ns", name.database(), "$cmd"),
        _ => entry.put_str("ns", name.as_str()),
    };
    if let Some(uuid) = subject.uuid {
        entry.put("ui", Value::binary(4, uuid.as_bytes()).as_ref());
    }
    match op {
        LogOp::Insert { document } | LogOp::Replace { document, .. } => {
            entry.put_doc("o", document.as_doc());
            let mut key = entry.doc("o2");
            key.put("_id", document.as_doc().get("_id"));
            key.end();
        }
        LogOp::Update { key, delta, .. } => {
            let mut update = entry.doc("o");
            update.put_i32("$v", 2).put_doc("diff", delta.as_doc());
            update.end();
            entry.put_doc("o2", key.as_doc());
        }
        LogOp::Delete { key, .. } => {
            entry.put_doc("o", key.as_doc());
        }
        _ => {
            let mut command = entry.doc("o");
            put_command(name, op, &mut command);
            command.end();
            put_before(op, entry);
        }
    }
}

/// Writes a change of the schema as a command.
fn put_command(name: &Namespace, op: &LogOp, command: &mut DocBuilder<'_>) {
    let collection = name.collection();
    match op {
        LogOp::Create { options, default } => {
            command.put_str("create", collection);
            put_options(options, *default, command);
            let mut index = command.doc("idIndex");
            put_id_index(&mut index);
            index.end();
        }
        LogOp::Drop { .. } => {
            command.put_str("drop", collection);
        }
        LogOp::Rename { to, replaced } => {
            command
                .put_str("renameCollection", name.as_str())
                .put_str("to", to.as_str())
                .put_bool("stayTemp", false);
            if let Some(uuid) = replaced {
                command.put("dropTarget", Value::binary(4, uuid.as_bytes()).as_ref());
            }
        }
        LogOp::DropDatabase => {
            command.put_i32("dropDatabase", 1);
        }
        LogOp::CreateIndexes { indexes } => match &indexes[..] {
            [index] => {
                command
                    .put_str("createIndexes", collection)
                    .put_body(index.as_doc().body());
            }
            several => {
                command.put_str("commitIndexBuild", collection);
                let mut array = command.array("indexes");
                for index in several {
                    array.push_doc(index.as_doc());
                }
                array.end();
            }
        },
        LogOp::DropIndexes { index } => {
            command
                .put_str("dropIndexes", collection)
                .put("index", index.as_doc().get("name"));
        }
        LogOp::Modify { change, .. } => {
            command
                .put_str("collMod", collection)
                .put_body(change.as_doc().body());
        }
        LogOp::Insert { .. }
        | LogOp::Update { .. }
        | LogOp::Replace { .. }
        | LogOp::Delete { .. } => {}
    }
}

/// Writes what a change of the schema has removed or replaced.
fn put_before(op: &LogOp, entry: &mut DocBuilder<'_>) {
    match op {
        LogOp::Drop { documents } => {
            let mut before = entry.doc("o2");
            let count = i32::try_from(*documents).map_or_else(
                |_| Value::int64(i64::try_from(*documents).unwrap_or(i64::MAX)),
                Value::int32,
            );
            before.put("numRecords", count.as_ref());
            before.end();
        }
        LogOp::DropIndexes { index } => {
            entry.put_doc("o2", index.as_doc());
        }
        LogOp::Modify { before, .. } => {
            let mut old = entry.doc("o2");
            put_old(before.as_doc(), &mut old);
            old.end();
        }
        _ => {}
    }
}

/// Writes settings from before a change under the names that they have in the log.
fn put_old(before: Doc<'_>, old: &mut DocBuilder<'_>) {
    for field in before {
        old.put(&format!("{}_old", field.name()), field.value);
    }
}

#[cfg(test)]
mod tests;
