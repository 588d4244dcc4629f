//! Schema changes: they create, modify, rename and drop collections, and build and drop indexes.
//!
//! A change is a value, [`SchemaChange`]. A command makes it from a client's request, [`SchemaChange::begin`] runs it, and
//! [`Done`] holds its result. A change does not refer to the request that it came from, so it can be written to a log and
//! run again. There is no other way to change the schema: the first write to a new collection and `$out` use it, too.
//!
//! Long work runs in steps: filling an index, and removing expired documents before a rule changes. The rules about names,
//! settings and conflicting indexes are checked here, in the lock hold that makes the change.

mod build;
mod collections;
mod create;
mod default_ttl;
mod drain;
mod drop_indexes;
mod find_index;
mod locked;
mod missing;
mod modify;
mod replace;
mod unique;

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::interrupt::{tick, wait_here};
use crate::storage::Catalog;
use crate::value::Millis;
use crate::wait::Wait;

pub use build::{BuildIndexes, BuiltIndexes, Existed};
pub use collections::{DropCollection, DropDatabase, RenameCollection};
pub use create::CreateCollection;
pub use drop_indexes::{DropIndexes, DroppedIndexes};
pub use find_index::IndexName;
pub use missing::WantedIndex;
pub use modify::{ModifiedIndex, ModifyCollection, ModifyIndex};
pub use replace::{CollectionSetup, ReplaceCollection};
pub(super) use replace::{default_of, dropped};

// Types of storage that describe a change.
pub use crate::storage::index::{IndexSpec, Partial};
pub use crate::storage::{Cap, CollectionOptions, Namespace};

/// A schema change, as plain data.
#[derive(Debug, Clone)]
pub enum SchemaChange {
    CreateCollection(CreateCollection),
    ModifyCollection(ModifyCollection),
    BuildIndexes(BuildIndexes),
    DropIndexes(DropIndexes),
    DropCollection(DropCollection),
    DropDatabase(DropDatabase),
    RenameCollection(RenameCollection),
    ReplaceCollection(ReplaceCollection),
}

/// The result of a schema change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    Created,
    /// The collection already exists, which is no error.
    NothingToCreate,
    Modified(ModifiedIndex),
    BuiltIndexes(BuiltIndexes),
    DroppedIndexes(DroppedIndexes),
    /// The dropped collection, and the number of indexes that it had.
    DroppedCollection(Namespace, i32),
    /// The collection does not exist, which is no error.
    NothingToDrop,
    DroppedDatabase(String),
    /// The name that the collection had.
    Renamed(Namespace),
}

/// A schema change that is either done already or runs in steps.
pub enum Begun {
    Done(Done),
    Steps(Box<dyn Steps>),
}

/// A schema change that runs in steps. Dropping it aborts the change and leaves nothing half done.
pub trait Steps: Send {
    /// Runs for about half a millisecond. Time passes between steps, so each step gets its own `now`.
    fn step(&mut self, now: Millis) -> Result<Advance>;
}

/// The progress that a step has made.
pub enum Advance {
    Done(Done),
    /// There is more to do. The caller steps again after other tasks had their turn.
    More,
    /// Another change must finish first. The caller waits and then steps again.
    Wait(Wait),
    /// An open transaction uses the collection. The caller waits and then steps again.
    Locked(Wait),
}

// === impl SchemaChange ===

impl SchemaChange {
    /// Makes the change, or starts it if it takes several steps. Its names are locked.
    fn make(self, catalog: &Arc<Catalog>, now: Millis) -> Result<Begun> {
        let done = match self {
            Self::CreateCollection(change) => change.run(catalog, now)?,
            Self::DropCollection(change) => change.run(catalog, now),
            Self::DropDatabase(change) => change.run(catalog, now),
            Self::RenameCollection(change) => change.run(catalog, now)?,
            Self::ReplaceCollection(change) => change.run(catalog, now)?,
            Self::ModifyCollection(change) => return change.begin(catalog, now),
            Self::BuildIndexes(change) => return change.begin(catalog),
            Self::DropIndexes(change) => return change.begin(catalog, now),
        };
        Ok(Begun::Done(done))
    }
}

// === impl Begun ===

impl Begun {
    /// Finishes the change, for code that cannot return to its task.
    pub fn finish_here(self, now: Millis) -> Result<Done> {
        let mut steps = match self {
            Self::Done(done) => return Ok(done),
            Self::Steps(steps) => steps,
        };
        loop {
            match steps.step(now)? {
                Advance::Done(done) => return Ok(done),
                Advance::More => tick(1)?,
                Advance::Wait(wait) | Advance::Locked(wait) => wait_here(wait)?,
            }
        }
    }
}

/// Returns the error for a collection that does not exist, or was dropped while it was being changed.
pub fn no_collection() -> Error {
    Error::new(Code::NamespaceNotFound, "ns does not exist")
}

/// Returns the error for an attempt to hide an index of a system collection.
fn hides_system_index() -> Error {
    Error::bad_value("Can't hide index on system collection")
}

#[cfg(test)]
mod tests;
