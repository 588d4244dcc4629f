//! Views that read a collection with rules.
//!
//! The predicate has to stand in front of the view's own stages, where only the collection can be asked. So the command
//! becomes an aggregate on the collection that the view is based on, as the cluster itself would do ([`expand()`]), and is
//! then rewritten like any other. Its reply becomes the one that the client expects ([`ViewReply`]).

mod collation;
mod cursors;
mod expand;
mod read;
mod reply;
mod stages;

pub use cursors::ViewCursors;
pub use expand::expand;
pub use reply::ViewReply;
