//! The update language: operators, replacement documents, pipelines, and what an upsert inserts.
//!
//! [`Update::parse`] turns the client's `u` into a typed tree or an error in mongod's words. Operators become a tree of
//! paths ([`tree`]) whose leaves are [`Modify`](modify::Modify) objects, one file per family; [`rewrite`] then walks a
//! document's bytes once beside that tree and writes the new document: what no path touches is copied as it stands, a
//! leaf replaces its value, new fields follow in mongod's order. Nothing is changed in place, so an update that fails
//! leaves nothing behind. Where every new value is as wide as the old one, [`patch`] tells just the bytes that differ. This
//! room knows no collection: which document is meant, and which array index `$` stands for, is the caller's business.

mod add_to_set;
mod arithmetic;
mod array_filter;
mod bit;
mod check;
mod compare;
mod current_date;
mod modify;
mod parse;
mod patch;
mod path;
mod pipeline;
mod pop;
mod pull;
mod push;
mod rename;
mod replace;
mod rewrite;
mod set;
mod table;
mod tree;
mod unset;
mod upsert;

pub use check::{MAX_DEPTH, check_id, depth};
pub use modify::Argument;
pub use parse::{Apply, Style, Update};
pub use table::{Parse, UPDATES};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
