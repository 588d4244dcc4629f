//! The rules of the collections that are in use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use dashmap::DashMap;
use smallvec::SmallVec;

use super::collection::CollectionInfo;
use crate::upstream::CollectionRules;

/// The rules by collection, ready for the hot path.
#[derive(Default)]
pub(super) struct Cache {
    /// By `database.collection`.
    entries: DashMap<Box<[u8]>, CachedRules, ahash::RandomState>,
    /// Counts the changes of the known settings. Rules from an earlier count are made again.
    generation: AtomicU64,
}

/// The settings from which rules were made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Epoch {
    pub generation: u64,
    /// The version of all settings that was known when the cluster was asked about the collection.
    pub version: i64,
    /// The version with which this collection's settings last changed. What was found before is outdated.
    pub touched: i64,
}

struct CachedRules {
    rules: Arc<CollectionRules>,
    found: Arc<CollectionInfo>,
    epoch: Epoch,
    /// The first moment at which `found` may not be used any more, by the clock of the lease.
    until: u64,
    /// Whether it was used since the last refresh.
    used: AtomicBool,
}

/// Joins the names without allocating, unless they are very long.
fn key(database: &str, collection: &str) -> SmallVec<[u8; 120]> {
    let mut key = SmallVec::new();
    key.extend_from_slice(database.as_bytes());
    key.push(b'.');
    key.extend_from_slice(collection.as_bytes());
    key
}

// === impl Cache ===

impl Cache {
    /// Reads the rules in place: a command that passes needs no reference of its own.
    pub fn look_up<T>(
        &self,
        database: &str,
        collection: &str,
        now: u64,
        read: impl FnOnce(&Arc<CollectionRules>) -> T,
    ) -> Option<T> {
        let generation = self.generation();
        let entry = self.entries.get(&*key(database, collection))?;
        if entry.epoch.generation != generation || now >= entry.until {
            return None;
        }
        if !entry.used.load(Ordering::Relaxed) {
            entry.used.store(true, Ordering::Relaxed);
        }
        Some(read(&entry.rules))
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// The known settings have changed.
    pub fn outdate(&self) {
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets a collection, which this Sundown has just changed.
    pub fn forget(&self, database: &str, collection: &str) {
        self.entries.remove(&*key(database, collection));
    }

    /// Returns what was found about a collection, if it may still be used.
    pub fn found(&self, namespace: &str, touched: i64, now: u64) -> Option<Arc<CollectionInfo>> {
        let entry = self.entries.get(namespace.as_bytes())?;
        let is_valid = entry.epoch.version >= touched && now < entry.until;
        is_valid.then(|| Arc::clone(&entry.found))
    }

    pub fn put(
        &self,
        namespace: String,
        rules: &Arc<CollectionRules>,
        found: Arc<CollectionInfo>,
        epoch: Epoch,
        until: u64,
    ) {
        let entry = CachedRules {
            rules: Arc::clone(rules),
            found,
            epoch,
            until,
            used: AtomicBool::new(true),
        };
        let mut there = self.entries.entry(namespace.into_bytes().into());
        match &mut there {
            // An answer that was asked for earlier and came later knows less.
            dashmap::Entry::Occupied(known) if known.get().found.sent > entry.found.sent => {}
            dashmap::Entry::Occupied(known) => drop(known.insert(entry)),
            dashmap::Entry::Vacant(_) => drop(there.insert(entry)),
        }
    }

    /// Returns the collections that were used since the last call and may not be used much longer. Forgets those that were
    /// not used and are outdated.
    pub fn to_refresh(&self, now: u64, soon: u64) -> Vec<String> {
        let mut due = Vec::new();
        self.entries.retain(|name, entry| {
            if entry.until > soon {
                return true;
            }
            if entry.used.swap(false, Ordering::Relaxed) {
                due.push(String::from_utf8_lossy(name).into_owned());
            }
            entry.until > now
        });
        due
    }
}
