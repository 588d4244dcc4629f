//! Schema changes that wait for transactions.
//!
//! A change of a collection waits until no open transaction uses it, and keeps further transactions away until it is made
//! (`storage::namespace_locks`). Creating a collection waits for nobody: if a transaction creates one of that name, too, its
//! commit fails. Building indexes needs the collection for itself at the start and at the end only (`build`).

use std::sync::Arc;

use super::{Advance, Begun, Done, SchemaChange, Steps};
use crate::error::Result;
use crate::storage::{Catalog, LockScope, SchemaLock};
use crate::value::Millis;

/// A change that has its names locked, or waits for them.
struct LockedChange {
    catalog: Arc<Catalog>,
    progress: LockedProgress,
    /// Freed last: a change that is abandoned cleans up first.
    lock: SchemaLock,
}

enum LockedProgress {
    Waiting(SchemaChange),
    Running(Box<dyn Steps>),
}

// === impl SchemaChange ===

impl SchemaChange {
    /// Runs the change, or starts it if it takes several steps or must wait.
    pub fn begin(self, catalog: &Arc<Catalog>, now: Millis) -> Result<Begun> {
        if let Some(done) = self.look(catalog)? {
            return Ok(Begun::Done(done));
        }
        let scopes = self.scopes();
        if scopes.is_empty() {
            return self.make(catalog, now);
        }
        let lock = catalog.lock_names(scopes);
        let progress = match lock.wait() {
            Some(_) => LockedProgress::Waiting(self),
            None => match self.make(catalog, now)? {
                Begun::Done(done) => return Ok(Begun::Done(done)),
                Begun::Steps(steps) => LockedProgress::Running(steps),
            },
        };
        Ok(Begun::Steps(Box::new(LockedChange {
            catalog: Arc::clone(catalog),
            progress,
            lock,
        })))
    }

    /// Looks at what can be told before any lock is had. Returns the result if there is nothing to change.
    fn look(&self, catalog: &Catalog) -> Result<Option<Done>> {
        match self {
            Self::DropCollection(change) => Ok(change.look(catalog)),
            Self::DropIndexes(change) => change.look(catalog).map(|()| None),
            _ => Ok(None),
        }
    }

    /// Returns what no transaction may use while the change is made.
    fn scopes(&self) -> Vec<LockScope> {
        match self {
            Self::CreateCollection(_) | Self::BuildIndexes(_) => Vec::new(),
            Self::ModifyCollection(change) if change.dry_run => Vec::new(),
            Self::ModifyCollection(change) => vec![LockScope::Collection(change.namespace.clone())],
            Self::DropIndexes(change) => vec![LockScope::Collection(change.namespace.clone())],
            Self::DropCollection(change) => vec![LockScope::Collection(change.namespace.clone())],
            Self::DropDatabase(change) => vec![LockScope::Database(change.database.clone())],
            Self::RenameCollection(change) => change.scopes(),
            // Nobody uses the collection that was filled.
            Self::ReplaceCollection(change) => vec![LockScope::Collection(change.to.clone())],
        }
    }
}

// === impl LockedChange ===

impl Steps for LockedChange {
    fn step(&mut self, now: Millis) -> Result<Advance> {
        match &mut self.progress {
            LockedProgress::Running(steps) => steps.step(now),
            LockedProgress::Waiting(change) => {
                if let Some(wait) = self.lock.wait() {
                    return Ok(Advance::Locked(wait));
                }
                match change.clone().make(&self.catalog, now)? {
                    Begun::Done(done) => Ok(Advance::Done(done)),
                    Begun::Steps(steps) => {
                        self.progress = LockedProgress::Running(steps);
                        Ok(Advance::More)
                    }
                }
            }
        }
    }
}
