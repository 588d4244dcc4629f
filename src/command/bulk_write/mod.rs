//! `bulkWrite`: inserts, updates and deletes on several collections in one command, with a result for each.
//!
//! The command reads its collections and checks its operations ([`op`]). [`bulk`] runs them one by one with the statements
//! of `write`, and [`results`] collects a row for each. The rows are sent as the first batch of a cursor.

mod bulk;
mod op;
mod results;

use std::sync::Arc;

use super::frame::transaction::refused_system;
use super::write::{self, WriteOptions};
use super::{Access, Call, Command, Flags, Needs, Outcome, UpdateForms};
use super::{collection_uuid, cursor};
use crate::args::{self, fields};
use crate::auth::{Action, AuthTarget};
use crate::error::{Code, Error, Result};
use crate::names::{check_collection, check_database, check_written};
use crate::value::{Doc, DocBuf, DocBuilder, Type};
use bulk::{Bulk, BulkNamespace};
use op::BulkOp;
use results::{ReplyContext, Results};

pub(super) const COMMAND: Command = Command::ready(
    "bulkWrite",
    Access::Write,
    "Runs inserts, updates and deletes on several collections.",
    run,
)
.with(Flags::STATEMENTS.and(Flags::ADMIN_ONLY))
.needs(Needs::Asked(may));

const LIST: &str = "ops";
const NAMESPACES: &str = "nsInfo";
const CURSOR: &str = "$cmd.bulkWrite";

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut options = WriteOptions::read(call, LIST, &[NAMESPACES, "errorsOnly", "cursor"])?;
    let (mut errors_only, mut batch_size) = (false, None);
    for arg in call.args().skip(1) {
        match arg.name() {
            "errorsOnly" => errors_only = arg.strict_bool()?.unwrap_or(false),
            "cursor" => {
                if let Some(options) = arg.doc()? {
                    batch_size = cursor::batch_size("bulkWrite.cursor", options)?;
                }
            }
            _ => {}
        }
    }
    let documents = call.documents(LIST)?;
    let namespaces = namespaces(call)?;
    let count = write::check_statements(call, LIST, documents)?;
    for (index, value) in documents.iter().enumerate() {
        let op = BulkOp::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
        if op.namespace() >= namespaces.len() {
            return Err(Error::bad_value(format!(
                "BulkWrite ops entry {index} has an invalid nsInfo index."
            )));
        }
        if op.is_multi() && call.transaction_number().is_some() && !call.is_in_transaction() {
            return Err(Error::new(
                Code::InvalidOptions,
                "Cannot use retryable writes with multi=true",
            ));
        }
    }
    for namespace in &namespaces {
        call.use_collection(&namespace.database, &namespace.collection)?;
    }
    let namespace = call.namespace(CURSOR);
    let info = cursor::info(call, &namespace);
    let bulk = Bulk {
        namespaces,
        let_vars: options.let_vars.map(DocBuf::from),
        keeps_empty_timestamps: options.keeps_empty_timestamps,
        offset: 0,
        next: 0,
        current: None,
        tried: [0; 3],
        forms: UpdateForms::default(),
        is_slow: false,
        results: Results::new(options.ordered, errors_only, options.numbers(count)?),
        answer: ReplyContext {
            context: Arc::clone(call.context),
            at: call.read_point(),
            batch_size,
            info: Some(info),
        },
    };
    write::run(call, CURSOR, documents, bulk, false, reply)
}

/// Whether the sender may do what each operation does to the collection that it names.
fn may(call: &Call<'_>) -> Result<bool> {
    let namespaces = namespaces(call)?;
    for value in call.documents(LIST)?.iter() {
        let op = BulkOp::read(value.as_doc().unwrap_or(Doc::EMPTY))?;
        // An operation that names no collection makes the whole command fail later.
        let Some(namespace) = namespaces.get(op.namespace()) else {
            continue;
        };
        let target = AuthTarget::Collection(&namespace.database, &namespace.collection);
        let allowed = match &op {
            BulkOp::Insert(..) => call.may(target, Action::Insert),
            BulkOp::Update(_, statement) => {
                call.may(target, Action::Update)
                    && (!statement.upsert || call.may(target, Action::Insert))
            }
            BulkOp::Delete(..) => call.may(target, Action::Remove),
        };
        if !allowed || !call.may_bypass(target) {
            return Ok(false);
        }
    }
    // A command without operations is refused later.
    Ok(true)
}

/// Reads the collections that the operations refer to by number.
fn namespaces(call: &Call<'_>) -> Result<Vec<BulkNamespace>> {
    let documents = call.documents(NAMESPACES)?;
    let mut namespaces = Vec::new();
    for value in documents.iter() {
        let Some(doc) = value.as_doc() else {
            return Err(Error::wrong_type(
                "bulkWrite.nsInfo",
                &namespaces.len().to_string(),
                value.ty(),
                &[Type::Document],
            ));
        };
        let (mut name, mut uuid) = (None, None);
        for arg in fields("bulkWrite.nsInfo", doc) {
            match arg.name() {
                "ns" => name = arg.str()?,
                "collectionUUID" => {
                    if !arg.is_null() {
                        collection_uuid::read(arg)?;
                        uuid = Some(arg);
                    }
                }
                "encryptionInformation" | "isTimeseriesNamespace" => {
                    return Err(arg.not_implemented());
                }
                _ => return Err(arg.unknown()),
            }
        }
        let name = args::required(name, "bulkWrite.nsInfo", "ns")?;
        let (database, collection) = name.split_once('.').ok_or_else(|| {
            Error::new(
                Code::InvalidNamespace,
                format!("Invalid namespace specified for bulkWrite: '{name}'"),
            )
        })?;
        check_database(database)?;
        check_collection(database, collection)?;
        namespaces.push(BulkNamespace {
            database: database.to_owned(),
            collection: collection.to_owned(),
            refused: check_written(database, collection)
                .err()
                .or_else(|| {
                    uuid.and_then(|uuid| {
                        collection_uuid::check_in(call, database, collection, uuid).err()
                    })
                })
                .or_else(|| match call.is_in_transaction() {
                    true => refused_system(database, collection),
                    false => None,
                }),
        });
    }
    Ok(namespaces)
}

#[cfg(test)]
mod tests;
