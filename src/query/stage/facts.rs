//! The facts in the row of a stage: all that other code must know about a stage without running it.
//!
//! A planned stage states its facts too. So its privileges, its position and its part in the stable API are already right
//! when it is built.

use std::sync::Arc;

use super::document_map::DocumentMap;
use super::{Stage, StageContext};
use crate::error::Result;
use crate::value::{Doc, ValueRef};
use crate::vocabulary::{self, Status};

/// One row of the table.
pub type Entry = vocabulary::Entry<StageParser, StageFacts>;

/// What the table states about one stage.
pub struct StageFacts {
    pub position: Position,
    pub runs_on: RunsOn,
    /// Whether it may be used in a pipeline of `$facet`.
    pub in_facet: bool,
    /// Whether it may be used in the pipeline of `$lookup` or `$unionWith`.
    pub in_sub: bool,
    /// Whether it may be used in the definition of a view.
    pub in_view: bool,
    pub in_change_stream: InChangeStream,
    pub rows_from: RowsFrom,
    pub needs: Need,
    pub stable: Stable,
    pub changes: Changes,
    /// Whether queries that differ in this stage have different plan shapes (explain's `planCacheShapeHash`).
    pub in_plan_shape: bool,
    /// Visits the pipelines inside the stage, as the client wrote them.
    pub inner: EachInner,
    pub condition: ConditionPosition,
    pub documents: DocumentsAfter,
    pub early: EarlyCheck,
    /// The stages behind it that the optimiser may move before it, if they do not read what it changes.
    pub overtaken_by: &'static [Mover],
}

/// The parser of a stage's argument.
#[derive(Clone, Copy)]
pub enum StageParser {
    /// Pushes the parsed stages: mostly one, but some stages become several simpler ones.
    Stages(ParseStages),
    /// The stage maps one document to one document. Such stages may also be used in an update.
    Each(ParseEach),
}

pub type ParseStages = fn(ValueRef<'_>, &StageContext<'_>, &mut dyn FnMut(Stage)) -> Result<()>;
pub type ParseEach = fn(ValueRef<'_>, &StageContext<'_>) -> Result<Arc<dyn DocumentMap>>;
pub type EachInner = for<'v> fn(ValueRef<'v>, &mut dyn FnMut(Doc<'v>));

/// Where in a pipeline a stage is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    Any,
    /// `code` is mongod's error code for any other position.
    First {
        code: i32,
    },
    Last,
}

/// Whether a stage may follow `$changeStream`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InChangeStream {
    Never,
    Allowed,
    /// Only there, and only as the last stage.
    OnlyLast,
}

/// The namespace that an aggregate needs if it begins with the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunsOn {
    Collection,
    Database,
    Both,
    /// This collection only.
    Only {
        db: &'static str,
        coll: &'static str,
    },
}

/// Where the rows come from if a pipeline begins with the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsFrom {
    /// Documents of the collection, read before the stage.
    Input,
    /// The command itself. No collection is needed.
    Command,
    /// The stage finds or creates them itself.
    Stage,
    /// The state of the server. Only the read concern `local` is valid.
    Server,
}

/// Where a condition on the documents of the collection goes if a pipeline begins with the stage. In front of a cluster,
/// the condition is that they have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionPosition {
    /// In a `$match` before the stage.
    Before,
    /// In its field `query`.
    InQuery,
    /// In a `$match` behind the stage, which must be the first.
    Behind,
    /// The stage reads no documents.
    Nowhere,
    /// In no place: documents are counted or ranked inside the stage.
    Impossible,
}

/// What MongoDB checks of a stage before it parses the first stage of the pipeline.
#[derive(Clone, Copy)]
pub enum EarlyCheck {
    /// Only that it has such a stage.
    Name,
    /// The whole argument.
    Argument,
    /// A part of the argument, mostly the pipelines inside it.
    Part(CheckPart),
}

pub type CheckPart = fn(ValueRef<'_>, &StageContext<'_>) -> Result<()>;

/// A stage that the optimiser moves towards the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mover {
    Match,
    Sort,
    /// `$skip`, `$limit` and `$sample`. They may overtake a stage that makes one row of each row.
    Limit,
}

/// What becomes of the documents that enter the stage, seen as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentsAfter {
    /// Rows are still these documents, perhaps with some fields changed.
    Pass,
    /// Rows of another origin join them.
    Joined,
    /// Only some fields pass, as the stage says.
    Selected,
    /// Rows are new. Only what expressions took from the documents is in them.
    Replaced,
    /// The whole documents are stored, or enter other pipelines.
    Taken,
}

/// The privilege that a user needs if a pipeline begins with the stage, on the collection (or database) that it runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Find,
    /// The user is logged in.
    LoggedIn,
    ChangeStream,
    CollStats,
    IndexStats,
    ListCatalog,
    ListSearchIndexes,
    PlanCacheRead,
    /// Permission to see operations: users always see their own, those of others need an additional privilege.
    CurrentOp,
    /// Permission to see sessions, with the rule of [`Need::CurrentOp`].
    ListSessions,
    QueryStats,
    /// A server-wide privilege that, here, only the built-in role root has.
    Everything,
}

/// Whether the stage is part of MongoDB's stable API.
#[derive(Debug, Clone, Copy)]
pub enum Stable {
    Always,
    Never,
    /// Only with these options. Otherwise it is rejected with this message.
    If(fn(ValueRef<'_>) -> bool, &'static str),
}

/// How the stage changes the fields of its rows.
#[derive(Debug, Clone, Copy)]
pub enum Changes {
    /// Rows pass unchanged or are dropped.
    Nothing,
    /// Visits the paths that are set or removed. All other fields pass.
    Fields(EachPath),
    /// Visits the paths that are set or removed. The second function tells which paths pass.
    Selection(EachPath, fn(ValueRef<'_>, &str) -> bool),
    /// The output rows are new.
    Everything,
}

pub type EachPath = for<'v> fn(ValueRef<'v>, &mut dyn FnMut(&'v str));

/// The usual error code for a stage that must be the first.
const NOT_FIRST: i32 = 40602;

// === impl Changes ===

impl Changes {
    /// Visits the paths that a stage with this specification sets or removes by name.
    pub fn each_written<'v>(&self, spec: ValueRef<'v>, visit: &mut dyn FnMut(&'v str)) {
        match self {
            Self::Nothing | Self::Everything => {}
            Self::Fields(each) | Self::Selection(each, _) => each(spec, visit),
        }
    }

    /// Returns whether the value at a path passes through the stage unchanged.
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

/// Returns the first name of a path.
pub(super) fn root(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

// === impl Entry ===

impl Entry {
    const fn new(name: &'static str, status: Status<StageParser>) -> Self {
        Self {
            name,
            status,
            facts: StageFacts {
                position: Position::Any,
                runs_on: RunsOn::Collection,
                in_facet: true,
                in_sub: true,
                in_view: true,
                in_change_stream: InChangeStream::Never,
                rows_from: RowsFrom::Input,
                needs: Need::Find,
                stable: Stable::Always,
                changes: Changes::Everything,
                in_plan_shape: false,
                inner: |_, _| {},
                condition: ConditionPosition::Before,
                documents: DocumentsAfter::Replaced,
                early: EarlyCheck::Name,
                overtaken_by: &[],
            },
        }
    }

    pub(super) const fn ready(name: &'static str, parse: ParseStages) -> Self {
        Self::new(name, Status::Ready(StageParser::Stages(parse)))
    }

    /// Declares a stage that makes one row of each row.
    pub(super) const fn each(name: &'static str, parse: ParseEach) -> Self {
        Self::new(name, Status::Ready(StageParser::Each(parse)))
            .overtaken_by(&[Mover::Match, Mover::Limit])
            .in_change_stream(InChangeStream::Allowed)
    }

    pub(super) const fn planned(name: &'static str) -> Self {
        Self::new(name, Status::Planned)
    }

    /// Allows the stage only at the beginning of a pipeline, with rows of its own.
    pub(super) const fn first(self, rows_from: RowsFrom, needs: Need) -> Self {
        self.first_or(NOT_FIRST, rows_from, needs)
    }

    /// Allows the stage only at the beginning of a pipeline. Anywhere else, mongod rejects it with this code.
    pub(super) const fn first_or(mut self, code: i32, rows_from: RowsFrom, needs: Need) -> Self {
        self.facts.position = Position::First { code };
        self.facts.in_facet = false;
        self.facts.rows_from = rows_from;
        self.facts.needs = needs;
        if !matches!(rows_from, RowsFrom::Input) {
            self.facts.condition = ConditionPosition::Nowhere;
        }
        self
    }

    /// Lets the stage run on a collection or on a whole database.
    pub(super) const fn on_both(mut self) -> Self {
        self.facts.runs_on = RunsOn::Both;
        self
    }

    /// Lets the stage run on a database only. A view needs a collection.
    pub(super) const fn on_database(mut self) -> Self {
        self.facts.runs_on = RunsOn::Database;
        self.not_in_view()
    }

    /// Lets the stage run on one collection only.
    pub(super) const fn on_only(mut self, db: &'static str, coll: &'static str) -> Self {
        self.facts.runs_on = RunsOn::Only { db, coll };
        self.not_in_view()
    }

    /// Allows the stage only at the end of a pipeline, because it writes.
    pub(super) const fn last(mut self) -> Self {
        self.facts.position = Position::Last;
        self.facts.documents = DocumentsAfter::Taken;
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

    pub(super) const fn in_change_stream(mut self, place: InChangeStream) -> Self {
        self.facts.in_change_stream = place;
        self
    }

    pub(super) const fn stable(mut self, stable: Stable) -> Self {
        self.facts.stable = stable;
        self
    }

    pub(super) const fn changes(mut self, changes: Changes) -> Self {
        self.facts.documents = match changes {
            Changes::Nothing | Changes::Fields(_) => DocumentsAfter::Pass,
            Changes::Selection(..) => DocumentsAfter::Selected,
            Changes::Everything => DocumentsAfter::Replaced,
        };
        self.facts.changes = changes;
        self
    }

    pub(super) const fn in_plan_shape(mut self) -> Self {
        self.facts.in_plan_shape = true;
        self
    }

    pub(super) const fn condition(mut self, condition: ConditionPosition) -> Self {
        self.facts.condition = condition;
        self
    }

    pub(super) const fn documents(mut self, documents: DocumentsAfter) -> Self {
        self.facts.documents = documents;
        self
    }

    pub(super) const fn overtaken_by(mut self, movers: &'static [Mover]) -> Self {
        self.facts.overtaken_by = movers;
        self
    }

    pub(super) const fn early(mut self, check: EarlyCheck) -> Self {
        self.facts.early = check;
        self
    }

    pub(super) const fn inner(mut self, inner: EachInner) -> Self {
        self.facts.inner = inner;
        self
    }
}
