//! What the caller brings to a command: the rules of the collections, and the moment.

use std::sync::Arc;

use crate::upstream::CollectionRules;
use crate::value::Millis;

/// The rules of all collections. Those that a command touches ([`namespaces`](super::namespaces())) are loaded before it
/// runs, so that asking for them does not wait.
pub trait Rulebook: Sync {
    fn rules(&self, database: &str, collection: &str) -> Arc<CollectionRules>;

    /// Returns whether the collection may have a unique index besides the one on `_id`. Without one, far less has to be
    /// cleared away before a write.
    fn has_unique_keys(&self, _database: &str, _collection: &str) -> bool {
        true
    }
}

/// The circumstances of one command.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    pub now: Millis,
    /// Show `_ts` to every command (`--expose-ts`).
    pub expose_ts: bool,
}

/// The rules where no collection is read.
pub static NO_RULES: CollectionRules = CollectionRules::NONE;
