//! The language, pure: BSON from a client becomes a typed tree or an error in MongoDB's words; the tree then runs
//! over documents without looking at an operator's name.
//!
//! [`Scope`] is what is known while a tree is parsed (the names of variables), [`Vars`] what is known while it runs (their
//! values and the time). Each vocabulary is a folder with one table. This room knows values only: no storage, no
//! clock, no collection.

pub mod accumulator;
mod direction;
mod element_order;
pub mod expr;
pub mod filter;
mod named;
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
pub use projection::Projection;
pub use scope::Scope;
pub use survey::{Survey, Surveyed};
pub use vars::{Vars, bind_let};
