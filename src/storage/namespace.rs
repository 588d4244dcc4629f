//! The full name of a collection: `database.collection`.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The full name of a collection.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    full: Box<str>,
    /// The position of the dot between database and collection.
    dot: usize,
}

// === impl Namespace ===

impl Namespace {
    pub fn new(database: &str, collection: &str) -> Self {
        Self {
            full: [database, ".", collection].concat().into(),
            dot: database.len(),
        }
    }

    pub fn database(&self) -> &str {
        &self.full[..self.dot]
    }

    pub fn collection(&self) -> &str {
        self.full.get(self.dot + 1..).unwrap_or_default()
    }

    pub fn as_str(&self) -> &str {
        &self.full
    }
}

/// The two names by which every command looks up a collection, whether they are in a [`Namespace`] or borrowed.
pub(super) trait Names {
    fn names(&self) -> (&str, &str);
}

impl Names for Namespace {
    fn names(&self) -> (&str, &str) {
        (self.database(), self.collection())
    }
}

impl Names for (&str, &str) {
    fn names(&self) -> (&str, &str) {
        *self
    }
}

impl Hash for dyn Names + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.names().hash(state);
    }
}

impl PartialEq for dyn Names + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.names() == other.names()
    }
}

impl Eq for dyn Names + '_ {}

// A namespace must hash like the borrowed names by which it is looked up.
impl Hash for Namespace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self as &dyn Names).hash(state);
    }
}

impl<'a> Borrow<dyn Names + 'a> for Namespace {
    fn borrow(&self) -> &(dyn Names + 'a) {
        self
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}
