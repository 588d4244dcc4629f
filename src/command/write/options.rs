//! The options beside the statements of a write, and the limit on the number of statements.

use crate::args::Arg;
use crate::command::collection_uuid;
use crate::command::{Call, DocumentList};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, ValueRef};

/// The most statements in one command, as hello announces it (`maxWriteBatchSize`).
pub const MAX_STATEMENTS: usize = 100_000;

/// The options beside the statements.
pub struct WriteOptions<'a> {
    pub ordered: bool,
    pub let_vars: Option<Doc<'a>>,
    /// Whether empty timestamps are stored as they are (`bypassEmptyTsReplacement`).
    pub keeps_empty_timestamps: bool,
    stmt_id: Option<i32>,
    stmt_ids: Option<Vec<i32>>,
}

/// The numbers under which a session remembers the statements.
pub enum Numbers {
    From(i32),
    EachStatement(Vec<i32>),
}

// === impl WriteOptions ===

impl<'a> WriteOptions<'a> {
    /// Reads the options. `list` is the field that holds the statements. The command itself reads the fields in `others`.
    pub fn read(call: &Call<'a>, list: &str, others: &[&str]) -> Result<Self> {
        let mut options = Self {
            ordered: true,
            let_vars: None,
            keeps_empty_timestamps: false,
            stmt_id: None,
            stmt_ids: None,
        };
        for arg in call.args().skip(1) {
            match arg.name_bytes() {
                b"ordered" => options.ordered = arg.strict_bool()?.unwrap_or(true),
                b"bypassDocumentValidation" => drop(arg.bool()?),
                b"bypassEmptyTsReplacement" => {
                    options.keeps_empty_timestamps = arg.bool()?.unwrap_or(false);
                }
                b"let" if call.command.name != "insert" => options.let_vars = arg.doc()?,
                b"stmtId" => options.stmt_id = arg.i32()?,
                b"stmtIds" => {
                    options.stmt_ids = arg.array()?.map(|ids| read_ids(call, ids)).transpose()?;
                }
                // bulkWrite has a UUID for each of its collections.
                b"collectionUUID" if call.command.name != "bulkWrite" => {
                    collection_uuid::check(call, arg)?;
                }
                b"isTimeseriesNamespace" | b"encryptionInformation" | b"runtimeConstants" => {
                    return Err(arg.not_implemented());
                }
                name if name == list.as_bytes() || others.iter().any(|o| name == o.as_bytes()) => {}
                _ => return Err(arg.unknown()),
            }
        }
        Ok(options)
    }

    /// Returns whether no statement runs after a failed one. In a transaction that is always so: the failure ends it.
    pub fn is_ordered(&self, call: &Call<'_>) -> bool {
        self.ordered || call.is_in_transaction()
    }

    pub fn numbers(&mut self, count: usize) -> Result<Numbers> {
        match self.stmt_ids.take() {
            Some(ids) if ids.len() == count => Ok(Numbers::EachStatement(ids)),
            Some(ids) => Err(Error::new(
                Code::InvalidLength,
                format!(
                    "Number of statement ids must match the number of batch entries. Got {} statement ids but {count} operations.",
                    ids.len()
                ),
            )),
            None => Ok(Numbers::From(self.stmt_id.unwrap_or(0))),
        }
    }
}

fn read_ids(call: &Call<'_>, ids: Doc<'_>) -> Result<Vec<i32>> {
    let path = format!("{}.stmtIds", call.command.name);
    let mut read = Vec::new();
    for elem in ids {
        read.extend(Arg::new(&path, elem).i32()?);
    }
    Ok(read)
}

// === impl Numbers ===

impl Numbers {
    pub fn of(&self, index: usize) -> i32 {
        match self {
            Self::From(first) => first.saturating_add(i32::try_from(index).unwrap_or(i32::MAX)),
            Self::EachStatement(all) => all.get(index).copied().unwrap_or(i32::MAX),
        }
    }
}

/// Checks the number of statements, and that each is a document.
pub fn check_statements(call: &Call<'_>, list: &str, documents: DocumentList<'_>) -> Result<usize> {
    let mut count = 0;
    let mut offset = 0;
    while let Some(value) = documents.take_next(&mut offset) {
        if value.as_doc().is_none() {
            let path = format!("{}.{list}", call.command.name);
            return Err(Error::wrong_type(
                &path,
                &count.to_string(),
                value.ty(),
                &[Type::Document],
            ));
        }
        count += 1;
    }
    if count == 0 || count > MAX_STATEMENTS {
        return Err(Error::new(
            Code::InvalidLength,
            format!(
                "Write batch sizes must be between 1 and {MAX_STATEMENTS}. Got {count} operations."
            ),
        ));
    }
    Ok(count)
}

/// Returns the only statement of a command that is explained.
pub fn only_statement<'a>(call: &Call<'a>, list: &'static str) -> Result<Doc<'a>> {
    let documents = call.documents(list)?;
    match check_statements(call, list, documents)? {
        1 => Ok(documents
            .iter()
            .next()
            .and_then(ValueRef::as_doc)
            .unwrap_or(Doc::EMPTY)),
        _ => Err(Error::new(
            Code::InvalidLength,
            "explained write batches must be of size 1",
        )),
    }
}
