//! Schema changes: which collections there are, how they are set up, and which indexes they have.
//!
//! A change is a value, [`SchemaChange`]: a command makes it from a client's words, [`SchemaChange::begin`] makes the change, and
//! [`Done`] says what came of it. Nothing in it is bound to the request that it came from, so it can be written to a log and made
//! again. There is no other way: the collection that a first write creates and those of `$out` are made so as well. What takes long (filling an index, removing what has ended before a rule changes) runs in steps. Rules about
//! names, settings and indexes that exclude each other are checked here, in the lock hold that makes the change.

mod build;
mod collections;
mod create;
mod default_ttl;
mod drain;
mod drop_indexes;
mod find_index;
mod missing;
mod modify;
mod names;
mod replace;
mod unique;

use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::storage::Catalog;
use crate::value::Millis;
use crate::wait::Wait;

pub use build::{BuildIndexes, BuiltIndexes};
pub use collections::{DropCollection, DropDatabase, RenameCollection};
pub use create::CreateCollection;
pub use drop_indexes::{DropIndexes, DroppedIndexes};
pub use find_index::IndexName;
pub use missing::WantedIndex;
pub use modify::{Modified, ModifyCollection, ModifyIndex};
pub use names::{check_collection, check_created, check_database, check_read, check_written};
pub use replace::{ReplaceCollection, Setup};
pub(super) use replace::{default_of, dropped};

// The words in which a change is written.
pub use crate::storage::index::{IndexSpec, Partial};
pub use crate::storage::{Cap, Namespace, Options};

/// A change of the schema, as plain data.
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

/// What came of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Done {
    Created,
    /// There was such a collection, which is no error.
    NothingToCreate,
    Modified(Modified),
    BuiltIndexes(BuiltIndexes),
    DroppedIndexes(DroppedIndexes),
    /// With the number of indexes that the collection had.
    DroppedCollection(Namespace, i32),
    /// There was no such collection, which is no error.
    NothingToDrop,
    DroppedDatabase(String),
    Renamed,
}

/// A change that has begun.
pub enum Begun {
    Done(Done),
    Steps(Box<dyn Steps>),
}

/// A change that is made in steps. Dropping it gives the change up and leaves nothing half done.
pub trait Steps: Send {
    /// Goes on for about half a millisecond. Time passes between steps, so each has its own `now`.
    fn step(&mut self, now: Millis) -> Result<Advance>;
}

/// How far a step has come.
pub enum Advance {
    Done(Done),
    /// Step again when others had their turn.
    More,
    /// Somebody else's change has to be over first: step again then.
    Wait(Wait),
}

// === impl SchemaChange ===

impl SchemaChange {
    /// Makes the change, or begins to.
    pub fn begin(self, catalog: &Arc<Catalog>, now: Millis) -> Result<Begun> {
        let done = match self {
            Self::CreateCollection(change) => change.run(catalog, now)?,
            Self::DropCollection(change) => change.run(catalog, now),
            Self::DropDatabase(change) => change.run(catalog),
            Self::RenameCollection(change) => change.run(catalog)?,
            Self::ReplaceCollection(change) => change.run(catalog, now)?,
            Self::ModifyCollection(change) => return change.begin(catalog, now),
            Self::BuildIndexes(change) => return change.begin(catalog),
            Self::DropIndexes(change) => return change.begin(catalog, now),
        };
        Ok(Begun::Done(done))
    }
}

/// The collection went away while it was being changed, or was never there.
pub fn no_collection() -> Error {
    Error::new(Code::NamespaceNotFound, "ns does not exist")
}

/// The server's own collections keep their indexes in sight.
fn hides_system_index() -> Error {
    Error::bad_value("Can't hide index on system collection")
}

#[cfg(test)]
mod tests;
