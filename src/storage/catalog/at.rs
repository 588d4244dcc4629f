//! The catalog for readers with a snapshot and for transactions.
//!
//! A snapshot keeps earlier versions of documents, but not of the catalog: it cannot read a collection that was dropped or
//! renamed since. A collection that a transaction has created stands apart, and nobody else finds it before the commit.

use std::sync::Arc;

use dashmap::mapref::entry::Entry;

use super::{Catalog, CreateError, Damaged, Databases};
use crate::error::{Code, Error};
use crate::storage::namespace::Names;
use crate::storage::{Collection, CollectionOptions, Namespace, ReadPoint, Rules, TransactionId};
use crate::value::Millis;

/// Why a reader cannot have a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unreadable {
    Damaged(Damaged),
    /// It was dropped or renamed since the reader's snapshot.
    Vanished,
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
            Unreadable::Vanished => Self::new(
                Code::SnapshotUnavailable,
                "Unable to read from a snapshot due to pending collection catalog changes; please retry the operation.",
            ),
        }
    }
}

// === impl Catalog ===

impl Catalog {
    /// Returns the collection of that name for a reader at this point: a transaction also finds those that it has created.
    pub fn get_at(
        &self,
        database: &str,
        collection: &str,
        at: ReadPoint,
    ) -> Result<Option<Arc<Collection>>, Unreadable> {
        let name = (database, collection);
        if let Some(time) = at.as_of()
            && self.shared.snapshots.has_vanished(name, time)
        {
            return Err(Unreadable::Vanished);
        }
        if let Some(transaction) = at.transaction()
            && let Some(created) = self.uncommitted_of(transaction, name)
        {
            return Ok(Some(created));
        }
        Ok(self.get(database, collection)?)
    }

    /// Returns the collection of that name that a transaction has created.
    fn uncommitted_of(&self, by: TransactionId, name: (&str, &str)) -> Option<Arc<Collection>> {
        let uncommitted = self.uncommitted.lock();
        let mut own = uncommitted.iter().filter(|one| one.creator() == Some(by));
        own.find(|one| one.namespace().names() == name).cloned()
    }

    /// Notes that the collection of a name was dropped or renamed.
    pub(super) fn note_vanished(&self, name: &Namespace) {
        // No moment: the next logical time is enough.
        let time = self.shared.time.tick(Millis(0));
        self.shared.snapshots.note_vanished(name, time);
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
            return self.create_uncommitted(creator, &namespace, options, at.now(), prepare);
        }
        match self.collections.entry(namespace) {
            Entry::Occupied(_) => Err(CreateError::Exists),
            Entry::Vacant(entry) => {
                let made = self.made(entry.key(), options);
                made.set_up(at.now(), prepare);
                made.shared().record_created(at.now());
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
        now: Millis,
        prepare: impl FnOnce(&mut Rules<'_>),
    ) -> Result<Arc<Collection>, CreateError> {
        let own = self.uncommitted_of(creator, namespace.names());
        if own.is_some() || self.collections.contains_key(namespace) {
            return Err(CreateError::Exists);
        }
        let made = self.made(namespace, options);
        made.set_up(now, prepare);
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
