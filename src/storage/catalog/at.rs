//! The catalog for readers with a snapshot and for transactions.
//!
//! A snapshot keeps earlier versions of documents, but not of the catalog: it cannot read a collection that was dropped or
//! renamed since. A collection that a transaction has created is in the catalog at once, and nobody else finds it before the
//! commit.

use std::sync::Arc;

use dashmap::mapref::entry::Entry;

use super::{Catalog, CreateError, Damaged};
use crate::error::{Code, Error};
use crate::storage::namespace::Names;
use crate::storage::{Collection, CollectionOptions, Namespace, ReadPoint, Rules};
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
        if at.is_in_transaction()
            && let Some(entry) = self.collections.get(&(database, collection) as &dyn Names)
            && entry.creator() == at.transaction()
        {
            return Ok(Some(Arc::clone(&entry)));
        }
        Ok(self.get(database, collection)?)
    }

    /// Notes that the collection of a name was dropped or renamed.
    pub(super) fn note_vanished(&self, name: &Namespace) {
        // No moment: the next logical time is enough.
        let time = self.shared.time.tick(Millis(0));
        self.shared.snapshots.note_vanished(name, time);
    }

    /// Creates a collection. If a transaction does so, nobody else finds it before the commit; another client that creates
    /// it meanwhile comes first, and the transaction ends with a conflict.
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
        let creator = at.transaction();
        if creator.is_none() {
            self.evict_uncommitted(&namespace);
        }
        let made = match self.collections.entry(namespace) {
            Entry::Occupied(entry) => {
                let by_other = entry.get().creator().is_some_and(|by| Some(by) != creator);
                return Err(match by_other {
                    true => CreateError::Conflict,
                    false => CreateError::Exists,
                });
            }
            Entry::Vacant(entry) => {
                let made = self.made(entry.key(), options);
                made.set_up(at.now(), prepare);
                match creator {
                    None => made.shared().record_created(at.now()),
                    Some(creator) => made.set_creator(creator),
                }
                entry.insert(Arc::clone(&made));
                made
            }
        };
        if let Some(creator) = creator {
            self.shared.transactions.join(creator, Arc::clone(&made));
        }
        Ok(made)
    }

    /// Removes a collection of that name which a transaction has created and not committed. Call it under `changing`.
    pub(super) fn evict_uncommitted(&self, name: &Namespace) {
        let uncommitted = |_: &Namespace, there: &Arc<Collection>| there.creator().is_some();
        if let Some((_, evicted)) = self.collections.remove_if(name, uncommitted) {
            evicted.discard();
        }
    }

    /// Removes a collection whose creator has aborted.
    pub(in crate::storage) fn remove_uncommitted(&self, collection: &Arc<Collection>) {
        let _alone = self.alone();
        let same = |_: &Namespace, there: &Arc<Collection>| Arc::ptr_eq(there, collection);
        if let Some((_, removed)) = self.collections.remove_if(&collection.namespace(), same) {
            removed.discard();
        }
    }
}
