//! Writes that are under way.
//!
//! A write takes the rules of its collection, and reaches the collection that has the name when the cluster runs it. If that is
//! another one by then, because the first was dropped or another was renamed to its name, the write has the wrong stamp or none.
//! So before the cluster drops or renames a collection, the author *closes the gate* of its name: the record says so, and it is
//! announced as any change is. From then on:
//!
//! 1. Every Sundown that reads the record lets writes wait at the gate.
//! 2. A Sundown acknowledges the announcement (`clear` in its heartbeat) when no write from before is under way to the name.
//! 3. The author waits for that, but not for ever ([`PATIENCE`]): a command may be under way for hours.
//!
//! Why no write is overlooked: a write counts itself *before* it looks whether its rules are still known and the gate is open, and
//! a Sundown looks at the count *after* it knows that the gate is closed.
//!
//! What a killed Sundown, or one whose connection broke, has sent before cannot be waited for: the cluster may run it at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;

use super::Inner;
use crate::clock::monotonic;
use crate::error::{Code, Error, Result};

/// The writes that are under way through this Sundown, by collection.
#[derive(Default)]
pub(super) struct InFlight(DashMap<String, Arc<AtomicUsize>, ahash::RandomState>);

/// Where the writes to one name are counted, and whether new ones must wait.
#[derive(Clone)]
pub struct WriteGate {
    count: Option<Arc<AtomicUsize>>,
    is_closed: bool,
}

/// One write that is under way.
pub struct WriteInFlight(Arc<AtomicUsize>);

/// Names beyond this many are forgotten when nothing is under way to them.
const NAMES: usize = 10_000;

/// The author of a change waits for writes for this many leases.
const PATIENCE: u32 = 2;

// === impl InFlight ===

impl InFlight {
    pub fn gate(&self, namespace: &str, is_closed: bool) -> WriteGate {
        WriteGate {
            count: Some(self.count(namespace)),
            is_closed,
        }
    }

    fn count(&self, namespace: &str) -> Arc<AtomicUsize> {
        if let Some(count) = self.0.get(namespace) {
            return Arc::clone(&count);
        }
        if self.0.len() >= NAMES {
            // Whoever counts there, or may do so, has a reference.
            self.0.retain(|_, count| Arc::strong_count(count) > 1);
        }
        Arc::clone(&self.0.entry(namespace.to_owned()).or_default())
    }

    /// Counts a write.
    pub fn enter(&self, namespace: &str) -> WriteInFlight {
        WriteInFlight::new(self.count(namespace))
    }

    /// Returns whether a write to this name is under way.
    pub fn has(&self, namespace: &str) -> bool {
        let count = self.0.get(namespace);
        count.is_some_and(|count| count.load(Ordering::SeqCst) > 0)
    }
}

// === impl WriteGate ===

impl WriteGate {
    /// The gate of a name that nobody counts.
    pub const NONE: Self = Self {
        count: None,
        is_closed: false,
    };

    /// Counts a write.
    pub fn enter(&self) -> Option<WriteInFlight> {
        self.count.clone().map(WriteInFlight::new)
    }

    /// Returns whether writes must wait.
    pub fn is_closed(&self) -> bool {
        self.is_closed
    }
}

/// It is no part of what the rules say.
impl PartialEq for WriteGate {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for WriteGate {}

impl std::fmt::Debug for WriteGate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("WriteGate").field(&self.is_closed).finish()
    }
}

// === impl WriteInFlight ===

impl WriteInFlight {
    fn new(count: Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for WriteInFlight {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

// === impl Inner ===

impl Inner {
    /// Returns whether a write from before is under way to a name whose gate is closed, as far as this Sundown knows.
    pub fn has_late_writes(&self) -> bool {
        let copy = self.copy.read();
        let mut closed = copy.settings.values().filter(|one| one.is_closed());
        closed.any(|one| self.in_flight.has(&one.namespace))
    }

    /// Waits while the gate of a name is closed.
    pub async fn gate_opens(&self, namespace: &str) -> Result<()> {
        let deadline = monotonic() + self.patience;
        let mut pause = self.short_pause();
        loop {
            let stored = self.cluster.setting(namespace).await?;
            if !stored.is_some_and(|stored| stored.is_closed()) {
                return Ok(());
            }
            if monotonic() >= deadline {
                return Err(Error::new(
                    Code::LockTimeout,
                    format!("the collection {namespace} is being dropped or renamed"),
                ));
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(self.lease.length() / 20);
        }
    }

    /// Waits until no write from before is under way to these names, through any Sundown. Their gates are closed, and that was
    /// announced.
    pub async fn wait_for_writes(&self, names: &[&str]) {
        let version = self.copy.read().version;
        let lease = self.lease.length();
        let until = monotonic() + lease * PATIENCE;
        loop {
            let now = monotonic();
            let is_here = names.iter().any(|name| self.in_flight.has(name));
            if !is_here && self.others.lock().are_clear(version, lease, now) {
                return;
            }
            if now >= until {
                tracing::warn!(
                    ?names,
                    "writes to a collection that is dropped or renamed are under way for long"
                );
                return;
            }
            tokio::time::sleep(self.short_pause()).await;
            // If it cannot be read, the lease of the others still ends.
            if let Ok(state) = self.cluster.state().await {
                let mut others = self.others.lock();
                others.observe(&self.id, &state.members, monotonic());
            }
        }
    }
}
