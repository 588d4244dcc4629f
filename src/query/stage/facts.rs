//! What the row of a stage says: everything that others have to know of a stage before, or without, running it.
//!
//! A stage that is not built yet says the same, so that its rights, its place and its part in the stable API are right on the
//! day when it is.

use std::sync::Arc;

use super::each::Each;
use super::{Place, Stage};
use crate::error::Result;
use crate::value::{Doc, ValueRef};
use crate::vocabulary::{self, Status};

/// One row of the table.
pub type Entry = vocabulary::Entry<Parse, StageFacts>;

pub struct StageFacts {
    pub position: Position,
    pub runs_on: RunsOn,
    /// May stand in a pipeline of `$facet`.
    pub in_facet: bool,
    /// May stand in the pipeline of `$lookup` or `$unionWith`.
    pub in_sub: bool,
    /// May stand in the definition of a view.
    pub in_view: bool,
    pub rows_from: RowsFrom,
    pub needs: Need,
    pub stable: Stable,
    pub changes: Changes,
    /// Two queries that differ in this stage have plans of different shapes (explain's `planCacheShapeHash`).
    pub in_plan_shape: bool,
    /// Shows the pipelines inside the stage, as the client wrote them.
    pub inner: EachInner,
}

/// Parses the argument of a stage.
#[derive(Clone, Copy)]
pub enum Parse {
    /// Pushes what it comes to: mostly one stage, for some a row of simpler ones.
    Stages(ParseStages),
    /// One document comes out for each that goes in. Such stages may also stand in an update.
    Each(ParseEach),
}

pub type ParseStages = fn(ValueRef<'_>, &Place<'_>, &mut dyn FnMut(Stage)) -> Result<()>;
pub type ParseEach = fn(ValueRef<'_>, &Place<'_>) -> Result<Arc<dyn Each>>;
pub type EachInner = for<'v> fn(ValueRef<'v>, &mut dyn FnMut(Doc<'v>));

/// Where in a pipeline a stage may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Any,
    /// `code`: what mongod refuses it with anywhere else.
    First {
        code: i32,
    },
    Last,
}

/// What an aggregate that begins with the stage has to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    Collection,
    Database,
    Both,
    /// This collection and no other.
    Only {
        db: &'static str,
        coll: &'static str,
    },
}

/// Where the rows come from if a pipeline begins with the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsFrom {
    /// Documents of the collection, read in front of the stage.
    Input,
    /// The command itself: no collection is needed.
    Command,
    /// The stage finds or makes them itself.
    Stage,
    /// The state of the server. Only the read concern `local` makes sense of it.
    Server,
}

/// What a user must be allowed to do if a pipeline begins with the stage, with the collection (or database) that it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Find,
    /// To have logged in.
    LoggedIn,
    ChangeStream,
    CollStats,
    IndexStats,
    ListCatalog,
    ListSearchIndexes,
    PlanCacheRead,
    /// To see what runs: one's own commands always, those of others with a right of their own.
    CurrentOp,
    /// The same for sessions.
    ListSessions,
    QueryStats,
    /// A matter of the whole server for which no built-in role but root is enough here.
    Everything,
}

/// Whether the stage is part of MongoDB's stable API.
#[derive(Debug, Clone, Copy)]
pub enum Stable {
    Always,
    Never,
    /// With these options, or it is refused with these words.
    If(fn(ValueRef<'_>) -> bool, &'static str),
}

/// What the stage does to the fields of its rows.
#[derive(Debug, Clone, Copy)]
pub enum Changes {
    /// Rows pass as they are, or not at all.
    Nothing,
    /// Shows the paths that are set or removed; all other fields pass.
    Fields(EachPath),
    /// Shows the paths that are set or removed; the second function says which paths pass.
    Selection(EachPath, fn(ValueRef<'_>, &str) -> bool),
    /// Other rows come out.
    Everything,
}

pub type EachPath = for<'v> fn(ValueRef<'v>, &mut dyn FnMut(&'v str));

/// The usual code for a stage that has to be the first.
const NOT_FIRST: i32 = 40602;

// === impl Changes ===

impl Changes {
    /// Shows the paths that a stage with this specification sets or removes by name.
    pub fn each_written<'v>(&self, spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
        match self {
            Self::Nothing | Self::Everything => {}
            Self::Fields(each) | Self::Selection(each, _) => each(spec, visit),
        }
    }

    /// Whether what stands at a path comes out of the stage as it went in.
    pub fn passes(&self, spec: ValueRef<'_>, path: &str) -> bool {
        match self {
            Self::Nothing => true,
            Self::Fields(each) => {
                let mut passes = true;
                each(spec, &mut |written| passes &= root(written) != root(path));
                passes
            }
            Self::Selection(_, passes) => passes(spec, path),
            Self::Everything => false,
        }
    }
}

/// The first name of a path.
pub(super) fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

// === impl Entry ===

impl Entry {
    const fn new(name: &'static str, status: Status<Parse>) -> Self {
        Self {
            name,
            status,
            facts: StageFacts {
                position: Position::Any,
                runs_on: RunsOn::Collection,
                in_facet: true,
                in_sub: true,
                in_view: true,
                rows_from: RowsFrom::Input,
                needs: Need::Find,
                stable: Stable::Always,
                changes: Changes::Everything,
                in_plan_shape: false,
                inner: |_, _| {},
            },
        }
    }

    pub(super) const fn ready(name: &'static str, parse: ParseStages) -> Self {
        Self::new(name, Status::Ready(Parse::Stages(parse)))
    }

    pub(super) const fn each(name: &'static str, parse: ParseEach) -> Self {
        Self::new(name, Status::Ready(Parse::Each(parse)))
    }

    pub(super) const fn planned(name: &'static str) -> Self {
        Self::new(name, Status::Planned)
    }

    /// Only at the beginning of a pipeline, with rows of its own.
    pub(super) const fn first(self, rows_from: RowsFrom, needs: Need) -> Self {
        self.first_or(NOT_FIRST, rows_from, needs)
    }

    /// The same, where mongod refuses it elsewhere with a code of its own.
    pub(super) const fn first_or(mut self, code: i32, rows_from: RowsFrom, needs: Need) -> Self {
        self.facts.position = Position::First { code };
        self.facts.in_facet = false;
        self.facts.rows_from = rows_from;
        self.facts.needs = needs;
        self
    }

    /// The same, for a collection or a database as a whole.
    pub(super) const fn on_both(mut self) -> Self {
        self.facts.runs_on = RunsOn::Both;
        self
    }

    /// The same, for a database alone. A view is made of a collection.
    pub(super) const fn on_database(mut self) -> Self {
        self.facts.runs_on = RunsOn::Database;
        self.not_in_view()
    }

    /// The same, for one collection alone.
    pub(super) const fn on_only(mut self, db: &'static str, coll: &'static str) -> Self {
        self.facts.runs_on = RunsOn::Only { db, coll };
        self.not_in_view()
    }

    /// Only at the end of a pipeline: it writes.
    pub(super) const fn last(mut self) -> Self {
        self.facts.position = Position::Last;
        self.not_in_facet().not_in_sub().not_in_view()
    }

    pub(super) const fn not_in_sub(mut self) -> Self {
        self.facts.in_sub = false;
        self
    }

    pub(super) const fn not_in_facet(mut self) -> Self {
        self.facts.in_facet = false;
        self
    }

    pub(super) const fn not_in_view(mut self) -> Self {
        self.facts.in_view = false;
        self
    }

    pub(super) const fn stable(mut self, stable: Stable) -> Self {
        self.facts.stable = stable;
        self
    }

    pub(super) const fn changes(mut self, changes: Changes) -> Self {
        self.facts.changes = changes;
        self
    }

    pub(super) const fn in_plan_shape(mut self) -> Self {
        self.facts.in_plan_shape = true;
        self
    }

    pub(super) const fn inner(mut self, inner: EachInner) -> Self {
        self.facts.inner = inner;
        self
    }
}
