//! What a change stream watches.

use crate::error::Result;
use crate::upstream::settings::RuleSettings;
use crate::value::{Doc, Elem, is_true};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchScope {
    Collection(String, String),
    Database(String),
    Cluster,
}

/// The stage that opens a stream, if a command does.
pub struct WatchStage<'a> {
    pub scope: WatchScope,
    /// The argument of `$changeStream`.
    pub options: Doc<'a>,
    /// The stages behind it.
    pub later: Vec<Elem<'a>>,
}

// === impl WatchStage ===

impl<'a> WatchStage<'a> {
    /// Returns the stage if the command is an aggregate that begins with `$changeStream`.
    pub fn of(command: Doc<'a>) -> Option<Self> {
        let first = command
            .first()
            .filter(|first| first.name() == "aggregate")?;
        let mut stages = command.get("pipeline").as_array()?.iter();
        let stage = stages.next()?.value.as_doc()?.first()?;
        if stage.name() != "$changeStream" {
            return None;
        }
        let options = stage.value.as_doc()?;
        let database = command.get("$db").as_str()?.to_owned();
        let scope = match first.value.as_str() {
            Some(collection) => WatchScope::Collection(database, collection.to_owned()),
            None if is_true(options.get("allChangesForCluster")) => WatchScope::Cluster,
            None => WatchScope::Database(database),
        };
        Some(Self {
            scope,
            options,
            later: stages.collect(),
        })
    }

    /// Returns whether the stream begins in the past, when there may have been other rules.
    pub fn resumes(&self) -> bool {
        let starts = ["resumeAfter", "startAfter", "startAtOperationTime"];
        starts.iter().any(|start| self.options.has(start))
    }

    /// Returns whether the stream looks documents up when they were updated.
    pub fn looks_up(&self) -> bool {
        self.options.get("fullDocument").as_str() == Some("updateLookup")
    }
}

// === impl WatchScope ===

impl WatchScope {
    /// Returns whether documents that are watched may have hidden fields.
    pub async fn has_rules(&self, settings: &RuleSettings) -> Result<bool> {
        match self {
            Self::Collection(database, collection) => {
                Ok(!settings.rules(database, collection).await?.is_none())
            }
            Self::Database(database) => settings.has_settings(database).await,
            // The settings themselves are there, at least.
            Self::Cluster => Ok(true),
        }
    }

    /// Returns whether this is a view, which cannot be watched.
    pub async fn is_view(&self, settings: &RuleSettings) -> Result<bool> {
        match self {
            Self::Collection(database, collection) => {
                let rules = settings.rules(database, collection).await?;
                Ok(rules.view.is_some())
            }
            _ => Ok(false),
        }
    }
}
