//! Collections that are dropped, renamed or replaced: their settings go with them.

use bytes::Bytes;

use super::{collection, database, is_ok};
use crate::error::Result;
use crate::upstream::settings::RuleSettings;
use crate::upstream::settings::change::SettingChange;
use crate::upstream::{Ask, Lost};
use crate::wire::Request;

/// A collection that `$out` is about to replace. Dropping it without [`Replacing::end`] leaves that to
/// whoever settles abandoned changes.
pub struct Replacing(Option<SettingChange>);

/// `drop`.
pub async fn drop_collection(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let (database, name) = (database(request)?, collection(request)?);
    let Some(mut change) = begin_if_needed(settings, database, name).await? else {
        return ask.ask(request.clone()).await;
    };
    SettingChange::close_gates(&mut [&mut change]).await?;
    let reply = ask.ask(request.clone()).await?;
    match is_ok(&reply) {
        true => change.remove().await?,
        false => change.end().await?,
    }
    Ok(reply)
}

/// `dropDatabase`.
pub async fn drop_database(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let database = database(request)?;
    settings.0.hold_lease().await?;
    let mut names = settings.0.names_in(database);
    // In one order for all, so that two of them never wait for each other.
    names.sort_unstable();
    let mut changes = Vec::new();
    for name in &names {
        changes.push(settings.0.begin(database, name).await?);
    }
    let mut all: Vec<_> = changes.iter_mut().collect();
    SettingChange::close_gates(&mut all).await?;
    let reply = ask.ask(request.clone()).await?;
    for mut change in changes {
        match is_ok(&reply) {
            true => change.remove().await?,
            false => change.close().await?,
        }
    }
    Ok(reply)
}

/// `renameCollection`. The settings move with the collection, also to another database.
pub async fn rename(
    settings: &RuleSettings,
    ask: &mut impl Ask,
    request: &Request,
) -> Result<Bytes, Lost> {
    let body = request.body();
    let from = body.first().and_then(|elem| elem.value.as_str());
    let to = body.get("to").as_str();
    let split = |name: Option<&str>| {
        let (database, name) = name?.split_once('.')?;
        Some((database.to_owned(), name.to_owned()))
    };
    let (Some(from), Some(to)) = (split(from), split(to)) else {
        return ask.ask(request.clone()).await;
    };
    let has_rules = needs_change(settings, &from.0, &from.1).await?
        || needs_change(settings, &to.0, &to.1).await?;
    if !has_rules || from == to {
        return ask.ask(request.clone()).await;
    }
    // In one order for all, so that two of them never wait for each other.
    let (first, second) = if from < to {
        (&from, &to)
    } else {
        (&to, &from)
    };
    let first = settings.0.begin(&first.0, &first.1).await?;
    let second = settings.0.begin(&second.0, &second.1).await?;
    let (mut source, mut target) = match from < to {
        true => (first, second),
        false => (second, first),
    };
    SettingChange::close_gates(&mut [&mut source, &mut target]).await?;
    let settings = source.setting().handed_over();
    target.expect(settings.clone()).await?;
    let reply = ask.ask(request.clone()).await?;
    if !is_ok(&reply) {
        source.end().await?;
        target.end().await?;
        return Ok(reply);
    }
    target.arrived(&settings).await?;
    source.remove().await?;
    Ok(reply)
}

/// Announces that `$out` is about to replace a collection. It keeps its settings.
pub async fn replacing(settings: &RuleSettings, database: &str, name: &str) -> Result<Replacing> {
    let mut change = begin_if_needed(settings, database, name).await?;
    if let Some(change) = &mut change {
        change.expect(change.setting().handed_over()).await?;
    }
    Ok(Replacing(change))
}

async fn needs_change(settings: &RuleSettings, database: &str, name: &str) -> Result<bool> {
    let rules = settings.rules(database, name).await?;
    let (known, _) = settings.0.known(&format!("{database}.{name}"));
    Ok(!rules.is_none() || known.is_some())
}

async fn begin_if_needed(
    settings: &RuleSettings,
    database: &str,
    name: &str,
) -> Result<Option<SettingChange>> {
    match needs_change(settings, database, name).await? {
        true => settings.0.begin(database, name).await.map(Some),
        false => Ok(None),
    }
}

// === impl Replacing ===

impl Replacing {
    /// Hands the settings on to the new collection, or leaves them to the old one if it was not replaced.
    pub async fn end(self) -> Result<()> {
        let Some(mut change) = self.0 else {
            return Ok(());
        };
        let found = change.look_again().await?;
        let old = change.setting();
        let arriving = old.arriving.clone();
        match arriving.filter(|_| found.is_some() && found != old.uuid) {
            Some(arriving) => change.arrived(&arriving).await,
            None => change.end().await,
        }
    }
}
