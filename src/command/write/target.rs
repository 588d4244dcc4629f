//! The parts that all statements of update and delete have, and their names.

use super::hint;
use crate::args::{self, Arg};
use crate::command::collation;
use crate::engine::plan::Hint;
use crate::error::{Code, Error, Result};
use crate::value::Doc;

/// The names of the parts of a statement. bulkWrite has its own.
pub struct StatementNames {
    /// The name of the statement in messages.
    pub path: &'static str,
    /// The field that gives the kind of the statement; empty if the command gives it.
    pub kind: &'static str,
    pub filter: &'static str,
    /// `multi` replaces the limit of a delete.
    pub bulk: bool,
}

/// What selects the documents of a statement.
#[derive(Default)]
pub struct StatementSelector<'a> {
    filter: Option<Doc<'a>>,
    pub hint: Option<Hint>,
    /// What is wrong with the collation. It fails this statement only.
    wrong_collation: Option<Error>,
}

// === impl StatementSelector ===

impl<'a> StatementSelector<'a> {
    /// Reads a field if it is one that all statements have. Returns whether it is.
    pub fn take(&mut self, arg: &Arg<'a>, names: &StatementNames) -> Result<bool> {
        match arg.name_bytes() {
            name if name == names.kind.as_bytes() => {}
            name if name == names.filter.as_bytes() => self.filter = arg.doc()?,
            b"hint" => self.hint = hint(arg)?,
            b"collation" => {
                arg.doc()?;
                match collation::read(arg) {
                    Err(error) if error.code() != Code::NotImplemented => {
                        self.wrong_collation = Some(error);
                    }
                    other => other?,
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Complains of a collation that cannot be read.
    pub fn check_collation(&mut self) -> Result<()> {
        self.wrong_collation.take().map_or(Ok(()), Err)
    }

    pub fn filter(&self, names: &StatementNames) -> Result<Doc<'a>> {
        args::required(self.filter, names.path, names.filter)
    }
}
