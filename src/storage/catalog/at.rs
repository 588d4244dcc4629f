//! The catalog for readers with a snapshot and for transactions.
//!
//! A reader with a snapshot finds each collection under the name that it had then: one that was created since is not there, and one
//! that was dropped or renamed since is. It can be read, but a transaction cannot write to it, nor to one whose indexes or settings
//! have changed since. A collection that a transaction has created stands apart, and nobody else finds it before the commit.

use std::sync::Arc;

use dashmap::mapref::entry::Entry;

use super::{Catalog, CreateError, Damaged, Databases};
use crate::error::{Code, Error};
use crate::storage::namespace::Names;
use crate::storage::snapshots::Forgotten;
use crate::storage::{Collection, CollectionOptions, Namespace, ReadPoint, Rules, TransactionId};
use crate::value::{ClusterTime, Millis};

/// Why a reader cannot have a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    Damaged(Damaged),
    /// It was dropped or renamed since the reader's snapshot, and its documents are no longer kept.
    Vanished,
    /// A transaction wants to write to it, and it was dropped, renamed or modified since the transaction's snapshot.
    Changed(Namespace),
}

impl From<Damaged> for Unreadable {
    fn from(damaged: Damaged) -> Self {
        Self::Damaged(damaged)
    }
}

impl From<Unreadable> for Error {
    fn from(reason: Unreadable) -> Self {
        match reason {
            Unreadable::Damaged(damaged) => damaged.into(),
            Unreadable::Changed(name) => Self::new(
                Code::WriteConflict,
                format!(
                    "Unable to write to collection '{name}' due to catalog changes; please retry the operation"
                ),
            ),
            Unreadable::Vanished => Self::new(
                Code::SnapshotUnavailable,
                "Unable to read from a snapshot due to pending collection catalog changes; please retry the operation.",
            ),
        }
    }
}

// === impl Catalog ===

impl Catalog {
    /// Returns the collection that has that name for a reader at this point: a transaction also finds those that it has created.
    #[inline]
    pub fn get_at(
        &self,
        database: &str,
        collection: &str,
        at: ReadPoint,
    ) -> Result<Option<Arc<Collection>>, Unreadable> {
        match at.as_of() {
            None => Ok(self.get(database, collection)?),
            Some(time) => self.get_as_of((database, collection), time, at.transaction()),
        }
    }

    /// Returns the collection for a writer at this point.
    #[inline]
    pub fn get_to_write_at(
        &self,
        database: &str,
        collection: &str,
        at: ReadPoint,
    ) -> Result<Option<Arc<Collection>>, Unreadable> {
        let found = self.get_at(database, collection, at)?;
        // A collection that another transaction is just committing has its time when the lock is had.
        if let (Some(time), Some(found)) = (at.as_of(), &found)
            && found.creator().is_none()
            && (found.shared().contents().changed() > time || found.named() > time)
        {
            return Err(Unreadable::Changed(Namespace::new(database, collection)));
        }
        Ok(found)
    }

    fn get_as_of(
        &self,
        name: (&str, &str),
        time: ClusterTime,
        by: Option<TransactionId>,
    ) -> Result<Option<Arc<Collection>>, Unreadable> {
        if let Some(transaction) = by
            && let Some(created) = self.uncommitted_of(transaction, name)
        {
            return Ok(Some(created));
        }
        // In this order: one that loses its name is noted before that.
        let current = self.get(name.0, name.1)?;
        match current.filter(|current| current.named() <= time) {
            Some(current) => Ok(Some(current)),
            None => {
                let former = self.shared.snapshots.former(name, time);
                former.map_err(|Forgotten| Unreadable::Vanished)
            }
        }
    }

    /// Returns the collection of that name that a transaction has created.
    fn uncommitted_of(&self, by: TransactionId, name: (&str, &str)) -> Option<Arc<Collection>> {
        let uncommitted = self.uncommitted.lock();
        let mut own = uncommitted.iter().filter(|one| one.creator() == Some(by));
        own.find(|one| one.namespace().names() == name).cloned()
    }

    /// Returns the next logical time, for a change of the catalog.
    pub(super) fn next_time(&self) -> ClusterTime {
        // No moment: the next time is enough.
        self.shared.time.tick(Millis(0))
    }

    /// Creates a collection. If a transaction does so, nobody else finds it before the commit. Another client that creates
    /// one of that name meanwhile comes first, and the transaction ends with a conflict.
    pub fn create_at(
        &self,
        namespace: Namespace,
        options: CollectionOptions,
        at: ReadPoint,
        prepare: impl FnOnce(&mut Rules<'_>),
    ) -> Result<Arc<Collection>, CreateError> {
        let mut alone = self.alone();
        self.check_case(namespace.database(), &mut alone)
            .map_err(CreateError::OtherCase)?;
        if let Some(creator) = at.transaction() {
            return self.create_uncommitted(creator, &namespace, options, at, prepare);
        }
        match self.collections.entry(namespace) {
            Entry::Occupied(_) => Err(CreateError::Exists),
            Entry::Vacant(entry) => {
                let made = self.made(entry.key(), options);
                made.set_up(at.now(), prepare);
                made.shared().record_created(at.now());
                if self.shared.snapshots.are_open() {
                    made.set_named(self.next_time());
                }
                entry.insert(Arc::clone(&made));
                Ok(made)
            }
        }
    }

    fn create_uncommitted(
        &self,
        creator: TransactionId,
        namespace: &Namespace,
        options: CollectionOptions,
        at: ReadPoint,
        prepare: impl FnOnce(&mut Rules<'_>),
    ) -> Result<Arc<Collection>, CreateError> {
        // One that was created since its snapshot is a conflict at the commit.
        let there = self.get_at(namespace.database(), namespace.collection(), at);
        if !matches!(there, Ok(None)) {
            return Err(CreateError::Exists);
        }
        let made = self.made(namespace, options);
        made.set_up(at.now(), prepare);
        made.set_creator(creator);
        self.uncommitted.lock().push(Arc::clone(&made));
        self.shared.transactions.join(creator, Arc::clone(&made));
        Ok(made)
    }

    /// Returns whether a collection that a transaction has created can be shown to all. Call it under `changing`.
    pub(in crate::storage) fn may_publish(&self, name: &Namespace, alone: &mut Databases) -> bool {
        !self.collections.contains_key(name) && self.check_case(name.database(), alone).is_ok()
    }

    /// Shows a collection to all: its creator commits. Call it under `changing`.
    pub(in crate::storage) fn publish(&self, name: Namespace, collection: &Arc<Collection>) {
        self.forget_uncommitted(collection);
        collection.reveal();
        self.collections.insert(name, Arc::clone(collection));
    }

    /// Drops a collection whose creator has aborted.
    pub(in crate::storage) fn remove_uncommitted(&self, collection: &Arc<Collection>) {
        let mut alone = self.alone();
        // Its database may disappear with it.
        *alone = None;
        self.forget_uncommitted(collection);
        collection.discard();
    }

    fn forget_uncommitted(&self, collection: &Arc<Collection>) {
        let mut uncommitted = self.uncommitted.lock();
        uncommitted.retain(|other| !Arc::ptr_eq(other, collection));
    }
}
