//! The rules of the collections that one command touches, loaded before it runs.

use std::sync::Arc;

use super::CollectionRules;
use super::rewrite::{
    CursorRules, NamespacePair, Rulebook, ViewCursors, ViewReply, expand, namespaces,
};
use super::settings::RuleSettings;
use crate::error::{Code, Error, Result};
use crate::wire::Request;

/// The rules that hold for one command.
pub struct CommandRules {
    rules: Vec<(NamespacePair, Arc<CollectionRules>)>,
}

/// A command without views that read collections with rules, and all rules that it needs.
pub struct LoadedCommand {
    pub request: Request,
    pub rules: CommandRules,
    /// What becomes of the reply if the client's command was on such a view.
    pub reply: Option<ViewReply>,
}

/// MongoDB allows no more views upon views.
const MAX_VIEW_DEPTH: usize = 20;

// === impl LoadedCommand ===

impl LoadedCommand {
    /// Looks up the rules, and waits for the cluster where they are not known. The command's `now` must be taken later.
    pub async fn load(
        settings: &RuleSettings,
        request: Request,
        (cursors, views): (&CursorRules, &ViewCursors),
    ) -> Result<Self> {
        let (mut request, mut reply) = match views.sent(&request) {
            Some((request, reply)) => (request, Some(reply)),
            None => (request, None),
        };
        // Each round replaces views by what they read, which may be in other views.
        for _ in 0..=MAX_VIEW_DEPTH {
            let mut rules = CommandRules::load(settings, &request, cursors).await?;
            if !rules.rules.iter().any(|(_, rules)| rules.view.is_some()) {
                return Ok(Self {
                    request,
                    rules,
                    reply,
                });
            }
            match expand(&request, &rules)? {
                Some(expanded) => {
                    request = expanded.request;
                    reply = reply.or(expanded.reply);
                }
                None => {
                    // The cursor is older than the rules, or another Sundown has opened it.
                    if let Some(id) = request.body().get("getMore").as_i64() {
                        return Err(Error::new(
                            Code::CursorNotFound,
                            format!("cursor id {id} not found"),
                        ));
                    }
                    // The cluster refuses such a command on a view.
                    rules.rules.retain(|(_, rules)| rules.view.is_none());
                    return Ok(Self {
                        request,
                        rules,
                        reply,
                    });
                }
            }
        }
        Err(Error::new(
            Code::ViewDepthLimitExceeded,
            format!("View depth exceeds limit of {MAX_VIEW_DEPTH} views"),
        ))
    }
}

// === impl CommandRules ===

impl CommandRules {
    async fn load(
        settings: &RuleSettings,
        request: &Request,
        cursors: &CursorRules,
    ) -> Result<Self> {
        let mut rules = Vec::new();
        let mut touched = namespaces(request)?;
        let cursor = request.body().get("getMore").as_i64();
        if let Some(cursor) = cursor.and_then(|id| cursors.get(id)) {
            touched.extend(cursor.joined().cloned());
        }
        for (database, collection) in touched {
            let found = settings.rules(&database, &collection).await?;
            rules.push(((database, collection), found));
        }
        Ok(Self { rules })
    }

    /// Returns whether the rules are the same now. Waits for the cluster where they are not known.
    pub async fn still_holds(&self, settings: &RuleSettings) -> Result<bool> {
        for ((database, collection), rules) in &self.rules {
            if settings.rules(database, collection).await? != *rules {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether one of the collections is about to be dropped or renamed, so that writes must wait.
    pub fn is_closed(&self) -> bool {
        self.rules.iter().any(|(_, rules)| rules.gate.is_closed())
    }

    /// Returns whether the command passes as it is.
    pub fn is_none(&self) -> bool {
        self.rules.iter().all(|(_, rules)| rules.is_none())
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
