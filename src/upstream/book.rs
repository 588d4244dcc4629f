//! The rules of the collections that one command touches, loaded before it runs.

use std::sync::Arc;

use super::Rules;
use super::rewrite::{Cursors, Namespace, Rulebook, namespaces};
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::wire::Request;

/// The rules that hold for one command.
pub struct CommandRules {
    rules: Vec<(Namespace, Arc<Rules>)>,
}

// === impl CommandRules ===

impl CommandRules {
    /// Looks up the rules, and waits for the cluster where they are not known. The command's `now` must be taken later.
    pub async fn load(settings: &Settings, request: &Request, cursors: &Cursors) -> Result<Self> {
        let mut rules = Vec::new();
        let mut touched = namespaces(request)?;
        let cursor = request.body().get("getMore").as_i64();
        if let Some(cursor) = cursor.and_then(|id| cursors.get(id)) {
            touched.extend(cursor.joined().cloned());
        }
        for (database, collection) in touched {
            let found = settings.rules(&database, &collection).await?;
            if found.ruled_view {
                return Err(Error::not_implemented(format!(
                    "{database}.{collection}, a view that reads a collection with a TTL, in front of a cluster,"
                )));
            }
            rules.push(((database, collection), found));
        }
        Ok(Self { rules })
    }

    /// Returns whether the command passes as it is.
    pub fn is_none(&self) -> bool {
        self.rules.iter().all(|(_, rules)| rules.is_none())
    }
}

impl Rulebook for CommandRules {
    fn rules(&self, database: &str, collection: &str) -> Arc<Rules> {
        let of = |((d, c), _): &&(Namespace, Arc<Rules>)| &**d == database && &**c == collection;
        let found = self.rules.iter().find(of);
        found.map_or_else(|| Arc::new(Rules::NONE), |(_, rules)| Arc::clone(rules))
    }

    fn has_unique_keys(&self, database: &str, collection: &str) -> bool {
        self.rules(database, collection).unique_keys
    }
}
