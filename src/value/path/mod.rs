//! Dotted paths such as `a.b.0.c`, and the ways in which MongoDB walks them.
//!
//! A [`Path`] is split into its parts once. MongoDB has several semantics of a path, which differ when it meets an array.
//! Each has a file here, and the tests in `compared.rs` show them side by side on the same documents. This module knows
//! only documents; the callers decide which walk they need.
//!
//! | walk | used by | an array on the way | a number after an array | an array at the end | no such field |
//! |---|---|---|---|---|---|
//! | [`Path::get`] | `$unwind`, `$merge` | ends the walk: missing | a field name | as it is | missing |
//! | [`Path::element_key`] | `$push` with `$sort`, `$sortArray` | is entered by name | the element | as it is | null |
//! | [`Path::get_until_array`] | sort keys | is the result | a field name | as it is | null |
//! | [`Path::hits`] | filters | every document in it is entered | also the element | its elements, then itself ([`ArrayLeaf`]) | missing, once for each document; nothing for an array without documents |
//! | [`Path::get_expr`] | expressions | becomes the array of the values in its documents | a field name | as it is | missing |
//! | [`keys`] | indexes, sorts by arrays | every element is entered, by all paths of the index together | the element; an error if a field has that name too | its elements; undefined if it is empty | null |
//! | [`Path::join_values`] | `$lookup` | every document in it is entered | also the element | its elements | nothing |
//! | [`Path::distinct_values`] | `distinct` | every document in it is entered | only the element | its elements | nothing |
//! | [`Path::put`] | `$unwind`, `$lookup` | is replaced by a document | a field name | is replaced | documents are created |
//!
//! `distinct` and the sort of elements also accept the rest of the path as one field name that contains dots. Updates
//! create elements and report paths that are not viable, and projections follow many paths at once. Both walk their own
//! trees of names (`query/update/rewrite.rs`, `query/projection/apply.rs`).

mod distinct;
mod documents;
mod dotted;
mod element_key;
mod expression;
mod filter;
mod index_keys;
mod lookup;
mod multikey;
mod write;

pub use dotted::Path;
pub use filter::{ArrayLeaf, Hit};
pub use index_keys::{Keys, keys};
pub use multikey::{ArrayParts, MultikeyPaths};

#[cfg(test)]
mod compared;
