//! The rules of the collections that one command touches, loaded before it runs.

use std::sync::Arc;

use super::CollectionRules;
use super::rewrite::{CursorRules, NamespacePair, Rulebook, namespaces};
use super::settings::RuleSettings;
use crate::error::{Error, Result};
use crate::value::Doc;
use crate::wire::Request;

/// The rules that hold for one command.
pub struct CommandRules {
    rules: Vec<(NamespacePair, Arc<CollectionRules>)>,
}

// === impl CommandRules ===

impl CommandRules {
    /// Looks up the rules, and waits for the cluster where they are not known. The command's `now` must be taken later.
    pub async fn load(
        settings: &RuleSettings,
        request: &Request,
        cursors: &CursorRules,
    ) -> Result<Self> {
        refuse_wide_change_stream(settings, request).await?;
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

/// Refuses a change stream of a whole database, or of the cluster, if a collection in it has rules: its events would show the
/// hidden fields.
async fn refuse_wide_change_stream(settings: &RuleSettings, request: &Request) -> Result<()> {
    let body = request.body();
    let first = body.first().filter(|first| first.name() == "aggregate");
    let Some(_) = first.filter(|first| first.value.as_str().is_none()) else {
        return Ok(());
    };
    let stages = body.get("pipeline").as_array();
    let stage = stages.and_then(|stages| stages.iter().next()?.value.as_doc()?.first());
    let Some(stage) = stage.filter(|stage| stage.name() == "$changeStream") else {
        return Ok(());
    };
    let options = stage.value.as_doc().unwrap_or(Doc::EMPTY);
    let database = body.get("$db").as_str().unwrap_or_default();
    let sees_rules = match options.get("allChangesForCluster").as_bool() {
        Some(true) => settings.has_settings_anywhere().await?,
        _ => settings.has_settings(database).await?,
    };
    match sees_rules {
        true => Err(Error::not_implemented(
            "a change stream of more than one collection, where one has a TTL, in front of a cluster,",
        )),
        false => Ok(()),
    }
}

impl Rulebook for CommandRules {
    fn rules(&self, database: &str, collection: &str) -> Arc<CollectionRules> {
        let of = |((d, c), _): &&(NamespacePair, Arc<CollectionRules>)| {
            &**d == database && &**c == collection
        };
        let found = self.rules.iter().find(of);
        found.map_or_else(
            || Arc::new(CollectionRules::NONE),
            |(_, rules)| Arc::clone(rules),
        )
    }

    fn has_unique_keys(&self, database: &str, collection: &str) -> bool {
        self.rules(database, collection).unique_keys
    }
}
