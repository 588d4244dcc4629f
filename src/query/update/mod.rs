//! The update language: operators, replacement documents, pipelines, and the document that an upsert inserts.
//!
//! [`Update::parse`] turns the client's `u` into a typed tree, or into an error in mongod's words. Operators become a tree
//! of paths ([`tree`]) whose leaves are [`Modify`](modify::Modify) objects, with one file per family. [`rewrite`] then
//! walks the document's bytes once along that tree and writes the new document: it copies what no path touches, a leaf
//! replaces its value, and new fields follow in mongod's order. The old document is never modified, so a failed update has
//! no effect. [`edit`] is a shorter walk for updates that only change or remove root fields. [`delta`] tells afterwards what an update has
//! changed.
//!
//! This module knows no collection. The caller chooses the document and the array index for `$`.

mod add_to_set;
mod arithmetic;
mod array_filter;
mod bit;
mod check;
mod compare;
mod current_date;
mod delta;
mod edit;
mod modify;
mod parse;
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
pub use edit::Edit;
pub use modify::UpdateArgument;
pub use parse::{Apply, Style, Update};
pub use table::{UPDATES, UpdateParser};

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
