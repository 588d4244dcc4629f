//! The engine: the room in which the query language meets storage.
//!
//! A read is planned first: [`choose`] copies facts from the collection and [`plan`] picks an index and its bounds.
//! [`access`] then walks the collection or the index in slices and returns the documents that pass the filter.
//! [`CollectionRows`] makes such a walk the source of a pipeline. [`mod@write`] changes documents. [`ddl`] changes
//! collections and indexes.
//!
//! Commands reach storage only through this room. The engine knows nothing of the wire protocol, of commands or of sessions.
//! It takes `now` from its caller.

pub mod access;
pub mod choose;
pub mod ddl;
pub mod describe;
pub mod distinct;
mod id_order;
pub mod key_bounds;
mod matching_records;
mod merge;
mod oid;
mod oplog;
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
mod watch;
pub mod write;

pub use id_order::order_ids;
pub use merge::check_on;
pub use oid::ObjectIds;
pub use oplog::{OPLOG, Oplog, OplogUse};
pub use partial::PartialFilter;
pub use plan::PlanSummary;
pub use point::{is_visible, show_by_id};
pub use report::ServerLists;
pub use rows::{CollectionRows, SourceHandles};
pub use slice::{STEP, TimeSlice};
pub use sources::{EngineSources, OpenedWalk, Planned, Reading};
pub use tail::{Tail, has_tail};
pub use validate::{Findings, validate};
pub use watch::{MissingImage, NextEvent, Watch, fatal};

// Types of storage that are part of the engine's interface.
pub use crate::storage::expiry::Reaper;
pub use crate::storage::{
    Catalog, Collection, CommitConflict, LogLimits, LogTransaction, ReadPoint, RecordId, SizeLimit,
    Snapshot, Transaction,
};
