//! Projections: which fields of a document are shown, which are left out, which are computed.
//!
//! [`Projection::parse`] turns the specification of a find or of `$project` into a tree of names and decides whether it
//! includes or excludes; [`Projection::parse_add_fields`] reads `$addFields` into the same tree, in a mode that computes fields
//! in their places and keeps all others. [`Projection::apply`] walks a document's bytes along that tree once and copies what
//! stays as whole elements. Included fields keep the order they have in the document; computed ones follow in the order of the
//! specification. What only a find knows (`$slice` by number, `$elemMatch`, the positional `$`) is a kind of leaf.

mod add_fields;
mod apply;
mod parse;
mod slice;
mod tree;

pub use slice::SliceField;
pub use tree::Projection;

/// Whose projection it is: they share the language, but for the operators that only a find has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Find,
    Aggregate,
}
