//! Expressions, which compute a value from a document (`$add`, `$cond`, "$a.b", `$$NOW`).
//!
//! [`Expr::parse`] turns BSON into a tree: it looks up every operator once, checks argument counts and folds constants.
//! [`Expr::eval`] evaluates the tree for a document. A value that is only passed on is borrowed
//! ([`Val`](crate::value::Val)) from the document, the tree or the variables.
//!
//! Operators of one family share a file. [`EXPRESSIONS`] lists MongoDB's whole vocabulary; an operator that is not built is
//! refused by name. To add one, write its function in a new file or in the file of its family, and add its `mod` line, its
//! row and its case. Expressions know no storage and read no clock.

#[cfg(test)]
mod check;
mod env;
mod field;
mod fuel;
mod node;
mod parse;
mod table;

mod addition;
pub(super) mod args;
mod arithmetic;
mod array;
mod array_make;
pub(super) mod array_order;
mod associative;
mod binding;
mod bitwise;
mod boolean;
mod comparison;
mod conditional;
pub(super) mod convert;
mod date;
mod field_access;
mod gather;
mod live_values;
mod misc;
pub(super) mod object;
mod power;
mod regex;
mod replace;
mod rounding;
mod set;
mod substring;
mod text;
pub(super) mod total;
mod trigonometry;
mod trim;
pub use args::ExprArgument;
pub use array::array_of;
pub use binding::shallow;
pub use env::{Env, VariableFrame};
pub use field::{FieldPath, check_name};
pub use live_values::{LiveValues, MAX_LIVE_BYTES};
pub use node::{Expr, ExprCall, ExprOp, MAX_DEPTH, check_depth, nesting};
pub use table::{Arity, EXPRESSIONS, ExprParser};
