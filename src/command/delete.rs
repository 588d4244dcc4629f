//! `delete`: removes documents.

use super::write::{self, Selecting, Statement, StatementNames, StatementSelector};
use super::{Access, Command, Counter, Flags, Needs};
use crate::args::{self, fields};
use crate::auth::Action;
use crate::engine::write::Deleting;
use crate::error::{Error, Result};
use crate::query::Vars;
use crate::value::Doc;

pub(super) const COMMAND: Command = Command::ready(
    "delete",
    Access::Write,
    "Deletes documents from a collection.",
    write::run_each::<Deletes>,
)
.with(Flags::STATEMENTS)
.needs(Needs::Collection(Action::Remove));

/// The `delete` command, as a kind of write command.
pub(super) struct Deletes;

impl write::StatementKind for Deletes {
    const LIST: &'static str = "deletes";
    const NAMES: &'static StatementNames = &StatementNames {
        path: "delete.deletes",
        kind: "",
        filter: "q",
        bulk: false,
    };
    const COUNTED: Counter = Counter::Delete;
    const MODIFIES: bool = false;
    type Writing = Deleting;
    type Statement<'a> = Delete<'a>;
}

/// The names of a delete's fields in a bulkWrite.
pub(super) const BULK: StatementNames = StatementNames {
    path: "BulkWriteDeleteOp",
    kind: "delete",
    filter: "filter",
    bulk: true,
};

/// One statement: `{q, limit, hint, collation}`.
pub(super) struct Delete<'a> {
    filter: Doc<'a>,
    target: StatementSelector<'a>,
    pub multi: bool,
}

// === impl Delete ===

impl<'a> Statement<'a> for Delete<'a> {
    type Writing = Deleting;

    fn read_as(doc: Doc<'a>, names: &StatementNames) -> Result<Self> {
        let mut target = StatementSelector::default();
        let (mut limit, mut multi) = (None, false);
        for arg in fields(names.path, doc) {
            if target.take(&arg, names)? {
                continue;
            }
            match arg.name() {
                "limit" if !names.bulk => limit = Some(arg),
                "multi" if names.bulk => multi = arg.strict_bool()?.unwrap_or(false),
                "sampleId" => return Err(arg.not_implemented()),
                _ => return Err(arg.unknown()),
            }
        }
        let filter = target.filter(names)?;
        if !names.bulk {
            let limit = args::required(limit, names.path, "limit")?;
            // A limit that is not a number counts as 0.
            multi = match args::to_f64(limit.value()).unwrap_or(0.0) {
                0.0 => true,
                1.0 => false,
                other => {
                    return Err(Error::failed_to_parse(format!(
                        "The limit field in delete objects must be 0 or 1. Got {other}"
                    )));
                }
            };
        }
        Ok(Self {
            filter,
            target,
            multi,
        })
    }

    fn many(&self) -> Option<&'static str> {
        self.multi.then_some("limit=0")
    }

    fn parse(mut self, let_vars: Option<Doc<'_>>, vars: &Vars) -> Result<Deleting> {
        self.target.check_collation()?;
        let selecting = Selecting {
            filter: self.filter,
            sort: None,
            hint: self.target.hint,
            let_vars,
            constants: true,
            multi: self.multi,
            upsert: false,
        };
        Ok(Deleting::new(selecting.parse(vars, |_| Ok(()))?.0))
    }
}
