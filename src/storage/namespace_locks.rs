//! Which collections open transactions use, and which schema changes wait for that.
//!
//! A transaction uses the name of each collection that its statements name, from the first such statement until it ends, whether
//! or not a collection has that name. A schema change waits until no transaction uses the names that it needs. While it waits
//! and while it runs, no further transaction begins to use them: a statement that wants to waits for a moment and then fails.
//!
//! Nothing else is locked here. Commands outside transactions do not look at these names, and schema changes exclude each other
//! by other means. So a transaction that ends never waits, and all waiting ends with it. A change takes all of its names at
//! once, so two changes never wait for each other.

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use parking_lot::Mutex;

use super::namespace::Names;
use super::{Catalog, Namespace, Shared};
use crate::wait::{Signal, Wait};

/// The names in use. No other lock is acquired under this one.
#[derive(Debug, Default)]
pub(super) struct NamespaceLocks {
    held: Mutex<Held>,
    /// Given under the lock when a name may have become free.
    freed: Signal,
}

#[derive(Debug, Default)]
struct Held {
    /// How many transactions use each name.
    used: AHashMap<Namespace, usize>,
    /// The schema changes that wait or run.
    changes: Vec<(u64, Vec<LockScope>)>,
    /// The number of the next schema change.
    next: u64,
}

/// What a schema change needs for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockScope {
    Collection(Namespace),
    /// All names of the database.
    Database(String),
}

/// The names that a transaction uses. Dropping this frees them. Their memory counts like that of its writes.
#[derive(Debug)]
pub(super) struct UsedNames {
    shared: Arc<Shared>,
    names: AHashSet<Namespace>,
    databases: AHashSet<Box<str>>,
    bytes: usize,
}

/// The names that a schema change needs. Dropping this frees them.
#[derive(Debug)]
pub struct SchemaLock {
    shared: Arc<Shared>,
    number: u64,
}

// === impl LockScope ===

impl LockScope {
    fn covers(&self, name: (&str, &str)) -> bool {
        match self {
            Self::Collection(namespace) => namespace.names() == name,
            Self::Database(database) => database == name.0,
        }
    }
}

// === impl Catalog ===

impl Catalog {
    /// Keeps further transactions from these names. The caller waits until the others have left them ([`SchemaLock::wait`]).
    pub fn lock_names(&self, scopes: Vec<LockScope>) -> SchemaLock {
        let shared = Arc::clone(self.shared());
        let mut held = shared.namespace_locks.held.lock();
        let number = held.next;
        held.next += 1;
        held.changes.push((number, scopes));
        drop(held);
        SchemaLock { shared, number }
    }
}

// === impl SchemaLock ===

impl SchemaLock {
    /// Returns a wait while a transaction uses one of the names. Ask again when it is over.
    pub fn wait(&self) -> Option<Wait> {
        let locks = &self.shared.namespace_locks;
        let held = locks.held.lock();
        let (_, scopes) = held
            .changes
            .iter()
            .find(|(number, _)| *number == self.number)?;
        let is_used = scopes.iter().any(|scope| match scope {
            LockScope::Collection(name) => held.used.contains_key(name),
            LockScope::Database(_) => held.used.keys().any(|name| scope.covers(name.names())),
        });
        is_used.then(|| Wait::until(locks.freed.listen()))
    }
}

impl Drop for SchemaLock {
    fn drop(&mut self) {
        let locks = &self.shared.namespace_locks;
        let mut held = locks.held.lock();
        held.changes.retain(|(number, _)| *number != self.number);
        locks.freed.give();
    }
}

// === impl UsedNames ===

impl UsedNames {
    /// What a name takes besides its bytes, here and in [`Held::used`], roughly.
    const OVERHEAD: usize = 128;

    pub fn new(shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            names: AHashSet::new(),
            databases: AHashSet::new(),
            bytes: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Adds a name. Returns a wait if a schema change needs it: ask again when it is over.
    pub fn add(&mut self, name: (&str, &str)) -> Result<(), Wait> {
        if self.names.contains(&name as &dyn Names) {
            return Ok(());
        }
        // It already keeps a change of the whole database waiting.
        let in_database = self.databases.contains(name.0);
        let locks = &self.shared.namespace_locks;
        let mut held = locks.held.lock();
        let scopes = held.changes.iter().flat_map(|(_, scopes)| scopes);
        let is_taken = scopes
            .filter(|scope| !in_database || matches!(scope, LockScope::Collection(_)))
            .any(|scope| scope.covers(name));
        if is_taken {
            return Err(Wait::until(locks.freed.listen()));
        }
        let namespace = Namespace::new(name.0, name.1);
        *held.used.entry(namespace.clone()).or_default() += 1;
        drop(held);
        let bytes = Self::OVERHEAD + 2 * namespace.as_str().len();
        self.shared.transactions.count(0, bytes);
        self.bytes += bytes;
        self.names.insert(namespace);
        if !in_database {
            self.databases.insert(name.0.into());
        }
        Ok(())
    }
}

impl Drop for UsedNames {
    fn drop(&mut self) {
        if self.names.is_empty() {
            return;
        }
        self.shared.transactions.release(self.bytes);
        let locks = &self.shared.namespace_locks;
        let mut held = locks.held.lock();
        for name in &self.names {
            if let Some(count) = held.used.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    held.used.remove(name);
                }
            }
        }
        locks.freed.give();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use super::*;

    fn catalog() -> Catalog {
        Catalog::new()
    }

    fn collection(database: &str, name: &str) -> LockScope {
        LockScope::Collection(Namespace::new(database, name))
    }

    fn is_over(wait: &mut Wait) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        Pin::new(wait).poll(&mut nobody).is_ready()
    }

    #[test]
    fn a_change_waits_for_the_transactions_that_use_its_names() {
        let catalog = catalog();
        let mut used = UsedNames::new(catalog.shared());
        used.add(("db", "c")).unwrap();
        used.add(("db", "c")).unwrap();
        for (scope, waits) in [
            (collection("db", "c"), true),
            (collection("db", "d"), false),
            (collection("other", "c"), false),
            (LockScope::Database("db".into()), true),
            (LockScope::Database("other".into()), false),
        ] {
            let lock = catalog.lock_names(vec![scope.clone()]);
            assert_eq!(lock.wait().is_some(), waits, "{scope:?}");
        }
        let scopes = vec![collection("db", "d"), collection("db", "c")];
        let lock = catalog.lock_names(scopes);
        let mut wait = lock.wait().unwrap();
        assert!(!is_over(&mut wait));
        drop(used);
        assert!(is_over(&mut wait));
        assert!(lock.wait().is_none());
        assert!(catalog.shared().namespace_locks.held.lock().used.is_empty());
    }

    #[test]
    fn many_names_are_counted_and_added_in_linear_time() {
        const MANY: usize = 200_000;
        let catalog = catalog();
        let mut used = UsedNames::new(catalog.shared());
        for n in 0..MANY {
            used.add(("db", &n.to_string())).unwrap();
        }
        assert!(catalog.buffered_bytes() > MANY * 100);
        drop(used);
        assert_eq!(catalog.buffered_bytes(), 0);
        assert!(catalog.shared().namespace_locks.held.lock().used.is_empty());
    }

    #[test]
    fn a_change_keeps_other_transactions_away_and_lets_its_own_go_on() {
        let catalog = catalog();
        let (mut early, mut late) = (
            UsedNames::new(catalog.shared()),
            UsedNames::new(catalog.shared()),
        );
        early.add(("db", "c")).unwrap();
        let scopes = vec![collection("db", "c"), LockScope::Database("db".into())];
        let lock = catalog.lock_names(scopes);
        assert!(early.add(("db", "c")).is_ok(), "it uses the name already");
        assert!(early.add(("db", "d")).is_ok(), "and the database");
        assert!(late.add(("other", "c")).is_ok());
        assert!(late.add(("db", "d")).is_err());
        let mut wait = late.add(("db", "c")).unwrap_err();
        drop(early);
        assert!(lock.wait().is_none(), "only the late one is left");
        assert!(late.add(("db", "c")).is_err(), "the change runs");
        drop(lock);
        assert!(is_over(&mut wait));
        assert!(late.add(("db", "c")).is_ok());
    }
}
