//! Expressions: what computes a value from a document (`$add`, `$cond`, "$a.b", `$$NOW`).
//!
//! [`Expr::parse`] turns BSON into a tree, looks every operator up once, checks argument counts and folds what is
//! constant; [`Expr::eval`] runs the tree over a document. A value that only passes through is borrowed
//! ([`Val`](crate::value::Val)): from the document, the tree or the variables. Operators of one family share a file;
//! [`EXPRESSIONS`] lists MongoDB's whole vocabulary, and what is not built is refused by name. To add one: write its
//! function in a file (or in that of its family), and add its `mod` line, its row and its case.

#[cfg(test)]
mod check;
mod env;
mod field;
mod fuel;
mod node;
mod parse;
mod table;

pub(super) mod args;
mod arithmetic;
mod array;
mod array_make;
pub(super) mod array_order;
mod binding;
mod bitwise;
mod boolean;
mod comparison;
mod conditional;
mod convert;
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
pub use args::Argument;
pub use array::array_of;
pub use binding::shallow;
pub use env::{Env, Frame};
pub use field::{FieldPath, check_name};
pub use live_values::{LiveValues, MAX_LIVE_BYTES};
pub use node::{Call, Expr, ExprOp, MAX_DEPTH, check_depth, nesting};
pub use table::{Arity, EXPRESSIONS, Parse};
