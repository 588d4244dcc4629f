//! The query language, free of side effects: filters, updates, projections, sorts, stages, accumulators, expressions.
//!
//! The `parse` functions turn a client's BSON into a typed tree, or into an error with MongoDB's code and message. The
//! tree then runs over documents and no longer looks at operator names. [`Scope`] holds what is known at parse time: the
//! names of variables. [`Vars`] holds what is known at run time: their values and the time.
//!
//! Each vocabulary is a folder with one table. This module works on values only. It knows no storage, no clock and no
//! collection.

pub mod accumulator;
mod direction;
mod element_order;
pub mod expr;
pub mod filter;
mod named;
mod origin;
pub mod pattern;
pub mod projection;
mod scope;
pub mod sort;
pub mod stage;
mod survey;
pub mod update;
mod vars;

pub use expr::Expr;
pub use filter::Filter;
pub use origin::{PathOrigin, of_read_path};
pub use projection::Projection;
pub use scope::Scope;
pub use survey::{Survey, SurveyResult};
pub use vars::{Vars, bind_let};
