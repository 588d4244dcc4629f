//! Commands that create, change, list or drop collections, indexes and databases: each goes to its own function of
//! `settings`.

use bytes::Bytes;

use super::ask::{Ask, Lost};
use super::command_rules::CommandRules;
use super::rewrite::{Rulebook, check_by_name};
use super::settings::{RuleSettings, WriteInFlight, ddl};
use crate::command::find;
use crate::error::{Error, Result};
use crate::wire::Request;

/// The commands whose first field names a collection.
const NAME_COLLECTION: &[&str] = &[
    "collMod",
    "create",
    "createIndexes",
    "drop",
    "dropIndexes",
    "listIndexes",
];

/// Runs the command.
pub async fn run(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: Request,
) -> Result<Bytes, Lost> {
    let first = request.body().first();
    let command = first.and_then(|first| find(first.name_bytes()));
    let name = command.map_or("", |command| command.name);
    if NAME_COLLECTION.contains(&name)
        && let Some(first) = first
        && first.value.as_str().is_none_or(str::is_empty)
    {
        check_by_name(first.value)?;
        // It touches no collection, and the cluster says what is wrong with it.
        return ask.ask(request).await;
    }
    match name {
        "create" => ddl::create(settings, ask, &request).await,
        "collMod" => ddl::coll_mod(settings, ask, &request).await,
        "createIndexes" => ddl::create_indexes(settings, ask, &request).await,
        "customAction" => ddl::custom_action(settings, ask, &request).await,
        "dropIndexes" => ddl::drop_indexes(settings, ask, &request).await,
        "drop" => ddl::drop_collection(settings, ask, &request).await,
        "dropDatabase" => ddl::drop_database(settings, ask, &request).await,
        "renameCollection" => ddl::rename(settings, ask, &request).await,
        "listIndexes" => ddl::list_indexes(settings, ask, &request).await,
        "listCollections" => ddl::list_collections(settings, ask, &request).await,
        "listDatabases" => ddl::list_databases(ask, &request).await,
        "shardCollection" => ask.ask(request).await,
        other => Err(Error::not_implemented(format!("{other} with --upstream")).into()),
    }
}

/// The target of an `$out`, which becomes another collection of the same name and keeps its settings.
pub struct Replaced {
    replacing: Option<ddl::Replacing>,
    /// The command's own writes. Where a replacement is announced, other changes wait for that.
    _under_way: Vec<WriteInFlight>,
}

// === impl Replaced ===

impl Replaced {
    /// Announces that the target is replaced, if the command ends in an `$out` and the target has rules.
    pub async fn begin(
        settings: &RuleSettings,
        (request, book): (&Request, &CommandRules),
        under_way: Vec<WriteInFlight>,
    ) -> Result<Self> {
        let target = target(request);
        let target = target.filter(|(database, name)| !book.rules(database, name).is_none());
        let Some((database, collection)) = target else {
            return Ok(Self {
                replacing: None,
                _under_way: under_way,
            });
        };
        drop(under_way);
        let replacing = Box::pin(ddl::replacing(settings, database, collection)).await?;
        Ok(Self {
            replacing: Some(replacing),
            _under_way: Vec::new(),
        })
    }

    /// Hands the settings on to the new collection, or leaves them to the old one.
    pub async fn end(self, reply: Result<Bytes, Lost>) -> Result<Bytes, Lost> {
        let Some(replacing) = self.replacing else {
            return reply;
        };
        // Whether it was replaced is seen from the collection itself: the reply may be lost.
        Box::pin(replacing.end()).await?;
        reply
    }
}

/// Returns the collection that an aggregate replaces.
fn target(request: &Request) -> Option<(&str, &str)> {
    let body = request.body();
    body.first().filter(|first| first.name() == "aggregate")?;
    let last = body.get("pipeline").as_array()?.iter().last()?;
    let out = last.value.as_doc()?.get("$out");
    match out.as_doc() {
        Some(out) => Some((out.get("db").as_str()?, out.get("coll").as_str()?)),
        None => Some((body.get("$db").as_str()?, out.as_str()?)),
    }
}
