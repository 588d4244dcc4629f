//! `database.collection`.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

/// The full name of a collection, kept as one string so that a look-up needs no allocation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Namespace {
    full: Box<str>,
    /// Where the dot between database and collection stands.
    dot: usize,
}

// === impl Namespace ===

impl Namespace {
    pub fn new(database: &str, collection: &str) -> Self {
        Self {
            full: format!("{database}.{collection}").into(),
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

// A database has no dot in its name, so the text alone tells two namespaces apart; and it must hash like its bytes, by which
// it is looked up.
impl Hash for Namespace {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.full.as_bytes().hash(state);
    }
}

impl Borrow<[u8]> for Namespace {
    fn borrow(&self) -> &[u8] {
        self.full.as_bytes()
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
