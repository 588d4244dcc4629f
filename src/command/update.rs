//! `update`: changes documents.

use super::write::{self, Selecting, Statement, StatementNames, StatementSelector};
use super::{Access, Call, Command, Counter, Flags, Needs};
use crate::args::{self, fields};
use crate::auth::{self, Action};
use crate::engine::write::Updating;
use crate::error::{Error, Result};
use crate::query::Vars;
use crate::query::stage;
use crate::query::update::{Style, Update as Change};
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef, is_true};

pub(super) const COMMAND: Command = Command::ready(
    "update",
    Access::Write,
    "Updates documents of a collection.",
    write::run_each::<Updates>,
)
.with(Flags::STATEMENTS)
.needs(Needs::Asked(may));

/// Checks the rights. An upsert may also insert.
fn may(call: &Call<'_>) -> Result<bool> {
    let Some(name) = call.target().as_str() else {
        return Ok(true);
    };
    let place = auth::AuthTarget::Collection(call.database(), name);
    let statements = call.documents(<Updates as write::StatementKind>::LIST);
    let inserts = statements.is_ok_and(|statements| {
        statements
            .iter()
            .filter_map(ValueRef::as_doc)
            .flatten()
            .any(|elem| elem.name() == "upsert" && is_true(elem.value))
    });
    Ok(call.may(place, Action::Update) && (!inserts || call.may(place, Action::Insert)))
}

/// The `update` command, as a kind of write command.
pub(super) struct Updates;

impl write::StatementKind for Updates {
    const LIST: &'static str = "updates";
    const NAMES: &'static StatementNames = &StatementNames {
        path: "update.updates",
        kind: "",
        filter: "q",
        bulk: false,
    };
    const COUNTED: Counter = Counter::Update;
    const MODIFIES: bool = true;
    type Writing = Updating;
    type Statement<'a> = Update<'a>;
}

/// The names of an update's fields in a bulkWrite.
pub(super) const BULK: StatementNames = StatementNames {
    path: "BulkWriteUpdateOp",
    kind: "update",
    filter: "filter",
    bulk: true,
};

/// One statement: `{q, u, multi, upsert, arrayFilters, hint, sort, c, collation}`.
pub(super) struct Update<'a> {
    filter: Doc<'a>,
    target: StatementSelector<'a>,
    update: ValueRef<'a>,
    pub multi: bool,
    pub(super) upsert: bool,
    array_filters: Option<Doc<'a>>,
    sort: Option<Doc<'a>>,
    constants: Option<Doc<'a>>,
}

/// Writes the constants `c` as variables. Unlike those of `let`, their values are not expressions.
fn put_literals(vars: &mut DocBuilder<'_>, constants: Doc<'_>) {
    for constant in constants {
        let mut literal = vars.doc(constant.name());
        literal.put("$literal", constant.value);
        literal.end();
    }
}

// === impl Update ===

impl<'a> Statement<'a> for Update<'a> {
    type Writing = Updating;

    fn read_as(doc: Doc<'a>, names: &StatementNames) -> Result<Self> {
        let (update_name, constants_name) = if names.bulk {
            ("updateMods", "constants")
        } else {
            ("u", "c")
        };
        let mut target = StatementSelector::default();
        let mut update = None;
        let (mut multi, mut upsert) = (false, false);
        let (mut array_filters, mut sort, mut constants) = (None, None, None);
        for arg in fields(names.path, doc) {
            if target.take(&arg, names)? {
                continue;
            }
            match arg.name_bytes() {
                name if name == update_name.as_bytes() => {
                    Change::check_form(arg.value())?;
                    update = Some(arg.value());
                }
                b"multi" => multi = arg.strict_bool()?.unwrap_or(false),
                b"upsert" => upsert = arg.strict_bool()?.unwrap_or(false),
                b"arrayFilters" => {
                    arg.docs()?;
                    array_filters = arg.array()?;
                }
                b"sort" => sort = arg.doc()?,
                name if name == constants_name.as_bytes() => constants = arg.doc()?,
                b"upsertSupplied"
                | b"sampleId"
                | b"allowShardKeyUpdatesWithoutFullShardKeyInQuery" => {
                    return Err(arg.not_implemented());
                }
                _ => return Err(arg.unknown()),
            }
        }
        Ok(Self {
            filter: target.filter(names)?,
            target,
            update: args::required(update, names.path, update_name)?,
            multi,
            upsert,
            array_filters,
            sort,
            constants,
        })
    }

    fn many(&self) -> Option<&'static str> {
        self.multi.then_some("multi=true")
    }

    fn creates(&self) -> bool {
        self.upsert
    }

    /// MongoDB counts the stages of all pipelines once the statements have run, and fails where it cannot read one.
    fn late_error(&self) -> Option<Error> {
        let stages = self.update.as_array()?;
        stage::check_names(stages).err()
    }

    fn parse(mut self, let_vars: Option<Doc<'_>>, vars: &Vars) -> Result<Updating> {
        self.target.check_collation()?;
        let both;
        let let_vars = match (let_vars, self.constants) {
            (Some(outer), Some(inner)) => {
                both = DocBuf::build(|d| {
                    d.put_body(outer.body());
                    put_literals(d, inner);
                });
                Some(both.as_doc())
            }
            (None, Some(inner)) => {
                both = DocBuf::build(|d| put_literals(d, inner));
                Some(both.as_doc())
            }
            (outer, None) => outer,
        };
        if self.multi && self.sort.is_some_and(|sort| !sort.is_empty()) {
            return Err(Error::failed_to_parse(
                "Cannot specify sort with multi=true",
            ));
        }
        let multi = self.multi;
        let selecting = Selecting {
            filter: self.filter,
            sort: self.sort,
            hint: self.target.hint,
            let_vars,
            constants: true,
            multi,
            upsert: self.upsert,
        };
        let (selection, update) = selecting.parse(vars, |scope| {
            if self.constants.is_some() && self.update.as_array().is_none() {
                return Err(Error::location(
                    51198,
                    "Constant values may only be specified for pipeline updates",
                ));
            }
            let update = Change::parse(self.update, self.array_filters, scope)?;
            if multi && update.style() == Style::Replacement {
                return Err(Error::failed_to_parse(
                    "multi update is not supported for replacement-style update",
                ));
            }
            Ok(update)
        })?;
        Ok(Updating::new(selection, update, self.upsert))
    }
}
