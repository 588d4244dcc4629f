//! Projections: which fields of a document are shown, left out or computed.
//!
//! [`Projection::parse`] turns the specification of a find or of `$project` into a tree of names and decides whether it
//! includes or excludes. [`Projection::parse_add_fields`] parses `$addFields` into the same tree, in a mode that computes
//! fields in place and keeps all others. [`Projection::apply`] walks the document's bytes along that tree once, and copies
//! the elements that stay as they are.
//!
//! Included fields keep the order of the document. Computed fields follow in the order of the specification. The operators
//! that only a find has (`$slice` by number, `$elemMatch`, the positional `$`) are leaves of the tree. A projection knows
//! one document and its variables, and no collection.

mod add_fields;
mod apply;
mod origin;
mod parse;
mod places;
mod slice;
#[cfg(test)]
mod tests;
mod tree;

pub use places::in_places;
pub use slice::SliceField;
pub use tree::Projection;

/// The command that the projection belongs to. Both kinds share the language, except for the operators that only a find
/// has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionKind {
    Find,
    Aggregate,
}
