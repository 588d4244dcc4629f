//! Privileges: actions on resources.

use super::action::{Action, Actions};
use crate::names::is_system;

/// A resource on which actions are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// The server.
    Cluster,
    /// A database and its ordinary collections, which are all except `system.…`.
    Database(String),
    /// All databases and their ordinary collections, except the server's own databases, `config` and `local`.
    Every,
    /// One collection of a database.
    Collection(String, String),
    /// The collections with this name in all databases.
    EveryCollection(String),
    Anything,
}

/// The object that a command acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthTarget<'a> {
    Cluster,
    Database(&'a str),
    Collection(&'a str, &'a str),
}

/// All privileges of a user. No two entries have the same resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Privileges(Vec<(Resource, Actions)>);

// === impl Resource ===

impl Resource {
    fn covers(&self, target: AuthTarget<'_>) -> bool {
        match (self, target) {
            (Self::Anything, _) | (Self::Cluster, AuthTarget::Cluster) => true,
            (Self::Database(own), AuthTarget::Database(db)) => own == db,
            (Self::Database(own), AuthTarget::Collection(db, name)) => {
                own == db && is_ordinary(name)
            }
            (Self::Every, AuthTarget::Database(db)) => is_clients(db),
            (Self::Every, AuthTarget::Collection(db, name)) => is_clients(db) && is_ordinary(name),
            (Self::Collection(own, known), AuthTarget::Collection(db, name)) => {
                own == db && known == name
            }
            (Self::EveryCollection(known), AuthTarget::Collection(_, name)) => known == name,
            _ => false,
        }
    }

    /// Returns whether the resource includes the database or something in it.
    fn touches(&self, db: &str) -> bool {
        match self {
            Self::Anything => true,
            Self::Database(own) | Self::Collection(own, _) => own == db,
            Self::Every => is_clients(db),
            Self::Cluster | Self::EveryCollection(_) => false,
        }
    }
}

fn is_ordinary(collection: &str) -> bool {
    !is_system(collection)
}

fn is_clients(db: &str) -> bool {
    db != "config" && db != "local"
}

// === impl Privileges ===

impl Privileges {
    pub fn add(&mut self, resource: Resource, actions: Actions) {
        match self.0.iter_mut().find(|(known, _)| *known == resource) {
            Some((_, known)) => *known = known.and(actions),
            None => self.0.push((resource, actions)),
        }
    }

    pub fn allow(&self, target: AuthTarget<'_>, action: Action) -> bool {
        self.0
            .iter()
            .any(|(resource, actions)| actions.has(action) && resource.covers(target))
    }

    /// Returns whether any action is allowed on the collection.
    pub fn reach(&self, db: &str, collection: &str) -> bool {
        let target = AuthTarget::Collection(db, collection);
        self.0.iter().any(|(resource, _)| resource.covers(target))
    }

    /// Returns whether any action is allowed in the database.
    pub fn enter(&self, db: &str) -> bool {
        self.0.iter().any(|(resource, _)| resource.touches(db))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Resource, Actions)> {
        self.0
            .iter()
            .map(|(resource, actions)| (resource, *actions))
    }
}
