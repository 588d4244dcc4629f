//! Who waits for the next entry of the log.
//!
//! A follower says which collection or database it follows. So a write wakes only those who may want its entry: it looks up
//! three names, however many followers wait, and wakes one follower per name, which wakes the others.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::AHashMap;
use parking_lot::Mutex;

use super::{LogEntry, LogOp};
use crate::storage::Namespace;
use crate::wait::WakeRelay;

/// What a follower of the log follows: a collection, a database, or everything. A clone is cheap.
///
/// The name of a collection has a dot, that of a database has none, and everything has no name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LogScope(Arc<str>);

/// The followers that wait.
///
/// It follows the rules of [`WakeRelay`]: a follower starts to wait before it looks at the log.
#[derive(Debug, Default)]
pub(super) struct Followers {
    /// How many there are.
    count: AtomicUsize,
    scopes: Mutex<AHashMap<Arc<str>, Arc<WakeRelay>>>,
}

/// A follower that waits. Dropping it ends that.
struct Follower {
    followers: Arc<Followers>,
    scope: LogScope,
    relay: Arc<WakeRelay>,
}

// === impl LogScope ===

impl LogScope {
    pub fn collection(database: &str, collection: &str) -> Self {
        Self(Namespace::new(database, collection).as_str().into())
    }

    pub fn database(name: &str) -> Self {
        Self(name.into())
    }

    pub fn everything() -> Self {
        Self("".into())
    }
}

// === impl Followers ===

impl Followers {
    /// Returns a future that completes when [`give`](Self::give) is called for the scope after this call. It may also
    /// complete without that.
    pub fn listen(self: &Arc<Self>, scope: &LogScope) -> impl Future<Output = ()> + Send + use<> {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut scopes = self.scopes.lock();
        let relay = match scopes.get(&scope.0) {
            Some(relay) => Arc::clone(relay),
            None => Arc::clone(scopes.entry(Arc::clone(&scope.0)).or_default()),
        };
        drop(scopes);
        let woken = relay.listen();
        let follower = Follower {
            followers: Arc::clone(self),
            scope: scope.clone(),
            relay,
        };
        async move {
            woken.await;
            drop(follower);
        }
    }

    /// Wakes those who follow what these entries are about.
    #[inline]
    pub fn give(&self, entries: &[Arc<LogEntry>]) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.wake(entries);
        }
    }

    /// Returns how many wait, and for how many scopes.
    #[cfg(test)]
    pub fn waiting(&self) -> (usize, usize) {
        (self.count.load(Ordering::Relaxed), self.scopes.lock().len())
    }

    fn wake(&self, entries: &[Arc<LogEntry>]) {
        let scopes = self.scopes.lock();
        let give = |scope: &str| {
            if let Some(relay) = scopes.get(scope) {
                relay.give();
            }
        };
        give("");
        // The entries of a transaction are mostly about few collections, which are woken once.
        for alike in entries.chunk_by(|one, next| Arc::ptr_eq(&one.subject, &next.subject)) {
            for entry in alike {
                if let LogOp::Rename { to, .. } = &entry.op {
                    give(to.database());
                    give(to.as_str());
                }
            }
            let own = &alike[0].subject.namespace;
            give(own.database());
            give(own.as_str());
        }
    }
}

// === impl Follower ===

impl Drop for Follower {
    fn drop(&mut self) {
        /// The one in the map, and this one.
        const LAST: usize = 2;
        let mut scopes = self.followers.scopes.lock();
        if Arc::strong_count(&self.relay) == LAST {
            scopes.remove(&self.scope.0);
        }
        self.followers.count.fetch_sub(1, Ordering::Relaxed);
    }
}
