//! An operation of a bulkWrite: its collection, and what to do there.

use crate::args::{self, Arg, fields};
use crate::command::delete::{self, Delete};
use crate::command::update::{self, Update};
use crate::command::write::Statement;
use crate::error::{Error, Result};
use crate::value::Doc;

/// An operation that is read but not yet parsed.
pub enum BulkOp<'a> {
    Insert(usize, Doc<'a>),
    Update(usize, Update<'a>),
    Delete(usize, Delete<'a>),
}

// === impl BulkOp ===

impl<'a> BulkOp<'a> {
    pub fn read(doc: Doc<'a>) -> Result<Self> {
        let Some(first) = doc.first() else {
            return Err(Error::bad_value(
                "BulkWriteOperations must have at least one field",
            ));
        };
        let index = |path| {
            let namespace = Arg::new(path, first).int_at_least(0)?;
            args::required(namespace, path, first.name()).map(|n| n as usize)
        };
        match first.name() {
            "insert" => {
                let path = "BulkWriteInsertOp";
                let namespace = index(path)?;
                let mut document = None;
                for arg in fields(path, doc).skip(1) {
                    match arg.name() {
                        "document" => document = arg.doc()?,
                        _ => return Err(arg.unknown()),
                    }
                }
                Ok(Self::Insert(
                    namespace,
                    args::required(document, path, "document")?,
                ))
            }
            "update" => {
                let namespace = index(update::BULK.path)?;
                let statement = Update::read_as(doc, &update::BULK)?;
                Ok(Self::Update(namespace, statement))
            }
            "delete" => {
                let namespace = index(delete::BULK.path)?;
                let statement = Delete::read_as(doc, &delete::BULK)?;
                Ok(Self::Delete(namespace, statement))
            }
            other => Err(Error::unknown_field("bulkWrite.ops", other)),
        }
    }

    pub fn namespace(&self) -> usize {
        match self {
            Self::Insert(at, _) | Self::Update(at, _) | Self::Delete(at, _) => *at,
        }
    }

    pub fn is_multi(&self) -> bool {
        match self {
            Self::Insert(..) => false,
            Self::Update(_, statement) => statement.multi,
            Self::Delete(_, statement) => statement.multi,
        }
    }

    pub fn kind(&self) -> usize {
        match self {
            Self::Insert(..) => 0,
            Self::Update(..) => 1,
            Self::Delete(..) => 2,
        }
    }
}
