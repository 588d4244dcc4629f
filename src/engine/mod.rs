//! Where language meets storage.
//!
//! [`access`] walks a collection (or an index) in slices and hands out what passes a filter. [`rows`] makes that the source
//! of a pipeline. [`mod@write`] changes documents, [`ddl`] collections and indexes. Nothing here knows the wire, a command or a
//! session; commands meet storage only through this room.

pub mod access;
pub mod choose;
pub mod ddl;
pub mod describe;
mod holders;
mod id_order;
pub mod key_bounds;
mod merge;
mod oid;
mod out;
mod partial;
pub mod plan;
mod point;
mod report;
pub mod return_key;
mod rows;
mod slice;
mod sources;
pub mod stats;
mod tail;
mod validate;
pub mod write;

pub use id_order::order_ids;
pub use merge::check_on;
pub use oid::ObjectIds;
pub use partial::PartialFilter;
pub use point::{is_there, show_by_id};
pub use report::ListOperations;
pub use rows::{CollectionRows, SourceHandles};
pub use slice::{STEP, TimeSlice};
pub use sources::{EngineSources, OpenedWalk, Planned, Reading};
pub use tail::{Tail, has_tail};
pub use validate::{Findings, validate};

// SourceHandles and plain values of storage that are part of what engine says and is told.
pub use crate::storage::expiry::Reaper;
pub use crate::storage::{Catalog, Collection, ReadPoint, RecordId, SizeLimit};
