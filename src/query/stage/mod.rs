//! Stages: a pipeline is parsed into typed stages and runs by pulling batches of rows.
//!
//! [`Pipeline::parse`] looks up every stage in [`STAGES`]. [`Pipeline::optimise`] rewrites the stages into cheaper ones
//! (`optimise/`). [`Pipeline::split_source`] splits off the part that a planner
//! can handle (filter, sort, skip, limit). The engine turns that part into rows, and the other stages are opened on these
//! rows. At run time a stage is a [`Rows`]: it owns its input and appends to the [`RowBatch`] of its caller. It holds no
//! lock between two pulls, and every pull ends soon ([`Flow::Pause`]). Stages know no storage: they reach other collections
//! through [`Sources`], which the engine implements.
//!
//! To add a stage, write its file, and add its `mod` line, its row and its case. The row holds all that other code needs
//! to know about a stage ([`StageFacts`]): privileges, position, stable API, updates, views, inner pipelines. There is no
//! other list of stages.

mod add_fields;
mod batch;
mod bucket;
mod bucket_auto;
mod change_stream;
mod coll_stats;
mod count;
mod current_op;
mod depth;
mod document_map;
mod documents;
mod facet;
mod facts;
mod granularity;
mod group;
mod index_stats;
mod levels;
mod limit;
mod list_sessions;
mod lookup;
mod lookup_spec;
mod match_;
mod merge;
mod number;
mod optimise;
mod out;
mod pipeline;
mod project;
mod redact;
mod replace_root;
mod rows;
mod run_sorter;
mod sample;
mod skip;
mod sort;
mod sort_by_count;
mod sources;
mod stage_context;
mod table;
#[cfg(test)]
mod tests;
mod tie_order;
mod transform;
mod union_with;
mod unset;
mod unwind;

pub use batch::{Origin, Row, RowBatch};
pub use change_stream::{
    BeforeChange, ChangeStream, EventPlace, FullDocument, ResumeToken, StreamScope, StreamStart,
};
pub use current_op::CurrentOps;
pub use document_map::map;
pub use facts::{
    Changes, ConditionPosition, DocumentsAfter, Entry, Mover, Need, RowsFrom, Stable, StageFacts,
    StageParser,
};
pub use levels::{check_early, each_stage, names};
pub use limit::rows as limit;
pub use list_sessions::ListSessions;
pub use match_::rows as filter;
pub use merge::{Merge, WhenMatched, WhenNotMatched};
pub use pipeline::{Pipeline, PipelineInput, PipelineStep, Stage, StageOp};
pub use project::{found_rows as project_found, rows as project};
pub use rows::{Empty, Endless, Flow, PipelineLimits, RowContext, Rows, StepBudget};
pub use skip::rows as skip;
pub use sort::rows as sort;
pub use sources::{CollectionName, Output, Report, Sink, SourceSpec, Sources};
pub use stage_context::StageContext;
pub use table::STAGES;
pub use transform::{Transform, check_documents, check_names};
