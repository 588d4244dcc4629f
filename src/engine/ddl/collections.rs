//! Dropping collections and databases, and renaming collections.

use uuid::Uuid;

use super::Done;
use super::create::other_case;
use crate::engine::describe::count_indexes;
use crate::error::{Code, Error, Result};
use crate::names::{check_created, is_system};
use crate::storage::{Catalog, LockScope, Namespace, RenameError};
use crate::value::Millis;

/// A change that drops a collection, if it exists.
#[derive(Debug, Clone)]
pub struct DropCollection {
    pub namespace: Namespace,
    /// If set, only the collection with this UUID is dropped.
    pub uuid: Option<Uuid>,
}

/// A change that drops all collections of a database.
#[derive(Debug, Clone)]
pub struct DropDatabase {
    pub database: String,
}

/// A change that renames a collection, possibly into another database. Documents keep their `_ts`.
#[derive(Debug, Clone)]
pub struct RenameCollection {
    from: Namespace,
    to: Namespace,
    drop_target: bool,
}

// === impl DropCollection ===

impl DropCollection {
    /// Returns the result if there is nothing to drop.
    pub(super) fn look(&self, catalog: &Catalog) -> Option<Done> {
        let name = &self.namespace;
        let found = catalog.get(name.database(), name.collection());
        matches!(found, Ok(None)).then_some(Done::NothingToDrop)
    }

    /// Drops the collection also from under transactions that use it. For collections that are the server's own.
    pub fn run(self, catalog: &Catalog, now: Millis) -> Done {
        let (database, name) = (self.namespace.database(), self.namespace.collection());
        // A collection that a failed write has closed can be dropped. It has no indexes left.
        let there = catalog.get(database, name).unwrap_or_default();
        let indexes = there.map_or(0, |there| there.read_present(now, count_indexes));
        match catalog.drop_collection(database, name, self.uuid, now) {
            Some(_) => Done::DroppedCollection(self.namespace, indexes),
            None => Done::NothingToDrop,
        }
    }
}

// === impl DropDatabase ===

impl DropDatabase {
    pub(super) fn run(self, catalog: &Catalog, now: Millis) -> Done {
        catalog.drop_database(&self.database, now);
        Done::DroppedDatabase(self.database)
    }
}

// === impl RenameCollection ===

impl RenameCollection {
    /// Checks both names. Neither may be one of the server's own.
    pub fn new(from: Namespace, to: Namespace, drop_target: bool) -> Result<Self> {
        check_renamed("source", &from)?;
        check_renamed("target", &to)?;
        if from == to {
            return Err(Error::new(
                Code::IllegalOperation,
                "Can't rename a collection to itself",
            ));
        }
        Ok(Self {
            from,
            to,
            drop_target,
        })
    }

    pub fn from(&self) -> &Namespace {
        &self.from
    }

    pub fn to(&self) -> &Namespace {
        &self.to
    }

    /// A rename into another database needs all of that database, as in MongoDB.
    pub(super) fn scopes(&self) -> Vec<LockScope> {
        let to = match self.from.database() == self.to.database() {
            true => LockScope::Collection(self.to.clone()),
            false => LockScope::Database(self.to.database().to_owned()),
        };
        vec![LockScope::Collection(self.from.clone()), to]
    }

    pub(super) fn run(self, catalog: &Catalog, now: Millis) -> Result<Done> {
        let Self {
            from,
            to,
            drop_target,
        } = self;
        match catalog.rename(&from, &to, drop_target, now) {
            Ok(()) => Ok(Done::Renamed(from)),
            Err(RenameError::NoSuchSource) => Err(Error::new(
                Code::NamespaceNotFound,
                format!("Source collection {from} does not exist"),
            )),
            Err(RenameError::TargetExists) => {
                Err(Error::new(Code::NamespaceExists, "target namespace exists"))
            }
            Err(RenameError::IndexBuild(uuid)) => Err(Error::new(
                Code::BackgroundOperationInProgressForNamespace,
                format!(
                    "cannot perform operation: an index build is currently running for collection with UUID: {uuid}. \
                     Found index build: {}",
                    uuid::Uuid::new_v4()
                ),
            )),
            Err(RenameError::OtherCase(other)) => Err(other_case(&other)),
            Err(RenameError::Damaged(damaged)) => Err(damaged.into()),
        }
    }
}

fn check_renamed(which: &str, namespace: &Namespace) -> Result<()> {
    let illegal = |why: String| Err(Error::new(Code::IllegalOperation, why));
    let name = namespace.collection();
    if is_system(name) {
        return illegal(format!(
            "error with {which} namespace: cannot rename system collection {namespace}"
        ));
    }
    if namespace.database() == "local" && name.starts_with("oplog.") {
        return illegal(format!(
            "error with {which} namespace: cannot rename the oplog {namespace}"
        ));
    }
    match check_created(namespace.database(), name) {
        Ok(()) => Ok(()),
        Err(error) => illegal(format!("error with {which} namespace: {}", error.message())),
    }
}
