//! What every statement of an update or a delete says, and under which names.

use super::{collation, hint};
use crate::args::{self, Arg};
use crate::engine::plan::Hint;
use crate::error::Result;
use crate::value::Doc;

/// How a command names the parts of its statements: bulkWrite has names of its own.
pub struct Names {
    /// How messages name the statement.
    pub path: &'static str,
    /// The field that says what the statement is; empty where the command says so.
    pub kind: &'static str,
    pub filter: &'static str,
    /// `multi` stands for the limit of a delete.
    pub bulk: bool,
}

/// Which documents a statement is about.
#[derive(Default)]
pub struct Target<'a> {
    filter: Option<Doc<'a>>,
    pub hint: Option<Hint>,
}

// === impl Target ===

impl<'a> Target<'a> {
    /// Takes a field in, if it is one of those that all statements have.
    pub fn take(&mut self, arg: &Arg<'a>, names: &Names) -> Result<bool> {
        match arg.name_bytes() {
            name if name == names.kind.as_bytes() => {}
            name if name == names.filter.as_bytes() => self.filter = arg.doc()?,
            b"hint" => self.hint = hint(arg)?,
            b"collation" => collation(arg)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub fn filter(&self, names: &Names) -> Result<Doc<'a>> {
        args::required(self.filter, names.path, names.filter)
    }
}
