//! Deleting ended documents in the background, as far as the cluster does not do it itself.
//!
//! The cluster's TTL monitor deletes documents that inherit the default ([`physical`]). Documents with a `ttl` of their own
//! are deleted here, in slices. Documents without a stamp get one. The sweeper is the first of all Sundowns by name: two
//! that believe to be it for a moment do no harm, because everything here can be done twice.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bson::{Bson, DateTime, doc};
use tokio::sync::MutexGuard;

use super::Inner;
use super::change::{delete, delete_ended, ended};
use super::physical::{self, OWN_INDEX};
use super::record::SettingRecord;
use super::store::{RecordWrite, SLICE, SettingsStore};
use crate::error::Result;
use crate::ttl::{OwnTtl, TS_FIELD};
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::Millis;

/// The sweeper passes once in this many leases.
const LEASES: u32 = 2;
/// Every so many passes, a pass also looks for documents that no index finds: those that others have written directly into
/// the cluster, without a stamp, and those with a `ttl` that means nothing.
const THOROUGH: u64 = 360;
/// The number of different values of `ttl` that one pass looks at.
const MOST_VALUES: usize = 10_000;
/// Documents are deleted this many milliseconds after their end, so that the clocks of other Sundowns agree that it has come.
const LATE: i64 = 1_000;

/// What the sweeper has done.
#[derive(Debug)]
pub(super) struct Sweeper {
    pub enabled: AtomicBool,
    pub passes: AtomicU64,
    pub deleted: AtomicU64,
    pub stamped: AtomicU64,
}

/// The sweep of one collection, under the settings with which it began.
pub(super) struct Sweep<'a> {
    inner: &'a Inner,
    setting: &'a SettingRecord,
}

/// Sweeps, as long as the settings are in use.
pub(super) async fn keep_sweeping(settings: Weak<Inner>) {
    loop {
        let Some(pause) = settings
            .upgrade()
            .map(|inner| inner.lease.length() * LEASES)
        else {
            return;
        };
        tokio::time::sleep(pause).await;
        let Some(inner) = settings.upgrade() else {
            return;
        };
        if inner.is_sweeper() {
            inner.sweep().await;
        }
    }
}

// === impl Sweeper ===

impl Default for Sweeper {
    fn default() -> Self {
        Self {
            enabled: AtomicBool::new(true),
            passes: AtomicU64::new(0),
            deleted: AtomicU64::new(0),
            stamped: AtomicU64::new(0),
        }
    }
}

// === impl Sweep ===

impl<'a> Sweep<'a> {
    /// Waits for the turn to write to the collection. `None` if the settings no longer hold: there may be another collection of
    /// that name by now.
    ///
    /// Whoever announces a change waits for a heartbeat of this Sundown, and every heartbeat waits for the turn. So nothing is
    /// installed, dropped or renamed while it is held.
    pub async fn hold(&self) -> Option<MutexGuard<'a, ()>> {
        let turn = self.inner.turn.lock().await;
        let (known, _) = self.inner.known(&self.setting.namespace);
        let is_current = known.is_some_and(|known| *known == *self.setting);
        let holds = is_current && self.inner.lease.holds(self.inner.lease.now());
        holds.then_some(turn)
    }
}

// === impl Inner ===

impl Inner {
    pub fn is_sweeper(&self) -> bool {
        self.sweeper.enabled.load(Ordering::Relaxed)
            && self.lease.holds(self.lease.now())
            && self.others.lock().are_all_after(&self.id)
    }

    /// Passes once over all collections with settings.
    pub async fn sweep(self: &Arc<Self>) {
        let pass = self.sweeper.passes.fetch_add(1, Ordering::Relaxed);
        let settings: Vec<_> = self.copy.read().settings.values().cloned().collect();
        for setting in settings {
            // Whoever changes the settings works on the collection already.
            if !setting.stamped || setting.next.is_some() {
                continue;
            }
            let thorough = pass % THOROUGH == THOROUGH - 1;
            if let Err(error) = self.sweep_collection(&setting, thorough).await {
                tracing::debug!(%error, collection = %setting.namespace, "a collection could not be swept");
            }
        }
    }

    async fn sweep_collection(
        self: &Arc<Self>,
        setting: &SettingRecord,
        thorough: bool,
    ) -> Result<()> {
        let namespace = &setting.namespace;
        let (database, name) = namespace.split_once('.').unwrap_or((namespace, ""));
        let found = self.find(database, name).await?;
        if found.uuid != setting.uuid {
            if setting.arriving.is_some() && found.uuid.is_some() {
                // Those who expected it are gone. A change takes the settings over.
                self.begin(database, name).await?.close().await?;
            }
            return Ok(());
        }
        // An author may have died before the indexes followed its change.
        physical::prepare(&self.cluster, namespace, &found, setting.default).await?;
        physical::follow(&self.cluster, namespace, &found, setting.default).await?;
        let stores_ts = !self.cluster.kind().await?.keeps_ts;
        let stamped;
        let mut sweep = Sweep {
            inner: self,
            setting,
        };
        if setting.unstamped || thorough {
            self.stamp(database, name, &sweep, stores_ts).await?;
        }
        if setting.unstamped {
            // If somebody has changed the record meanwhile, the next pass does the rest.
            stamped = SettingRecord {
                unstamped: false,
                revision: setting.revision + 1,
                ..setting.clone()
            };
            if self.write(&stamped).await? == RecordWrite::Outdated {
                return Ok(());
            }
            sweep.setting = &stamped;
        }
        if !setting.is_on() {
            return Ok(());
        }
        let late = match self.time.is_frozen() {
            true => 0,
            false => LATE + i64::try_from(self.time.error().as_millis()).unwrap_or(0),
        };
        let at = Millis(self.time.now().0.saturating_sub(late));
        let rules = setting.rules(Vec::new(), stores_ts);
        let deleted = match thorough {
            true => delete_ended(&self.cluster, namespace, &rules, at, Some(&sweep)).await?,
            false => self.delete_own(database, name, &rules, at, &sweep).await?,
        };
        self.sweeper.deleted.fetch_add(deleted, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes documents that have ended by their own `ttl`. The index has them by `ttl` and then by stamp, so for each value
    /// of `ttl` the ended ones stand together.
    async fn delete_own(
        &self,
        database: &str,
        name: &str,
        rules: &CollectionRules,
        at: Millis,
        sweep: &Sweep<'_>,
    ) -> Result<u64> {
        let Some(ended) = ended(rules, at) else {
            return Ok(0);
        };
        let mut deleted = 0;
        let mut value = Bson::Int32(0);
        for _ in 0..MOST_VALUES {
            let Some(next) = self.next_value(database, name, &value).await? else {
                break;
            };
            value = next;
            let Some(seconds) = super::record::number(&value) else {
                continue;
            };
            let latest = DateTime::from_millis(at.0.saturating_sub(seconds.saturating_mul(1_000)));
            loop {
                let find = doc! {
                    "find": name,
                    "filter": {OwnTtl::FIELD: value.clone(), HIDDEN_FIELD: {"$lte": latest}},
                    "projection": {"_id": 1},
                    "hint": OWN_INDEX,
                    "limit": SLICE,
                };
                let rows = self.cluster.rows(database, find).await?;
                let is_last = rows.len() < SLICE as usize;
                let Some(_turn) = sweep.hold().await else {
                    return Ok(deleted);
                };
                let count = match rows.is_empty() {
                    true => 0,
                    false => delete(&self.cluster, database, name, rows, &ended).await?,
                };
                deleted += count;
                if is_last || count == 0 {
                    break;
                }
            }
        }
        Ok(deleted)
    }

    /// Returns the next larger number in the field `ttl`.
    async fn next_value(&self, database: &str, name: &str, after: &Bson) -> Result<Option<Bson>> {
        let find = doc! {
            "find": name,
            "filter": {OwnTtl::FIELD: {
                "$gt": after.clone(), "$lte": i32::MAX, "$not": {"$type": "array"},
            }},
            "projection": {"_id": 0, OwnTtl::FIELD: 1},
            "sort": {OwnTtl::FIELD: 1, HIDDEN_FIELD: 1},
            "hint": OWN_INDEX,
            "limit": 1,
        };
        let mut rows = self.cluster.rows(database, find).await?;
        Ok(rows.pop().and_then(|mut row| row.remove(OwnTtl::FIELD)))
    }

    /// Stamps the documents that have no stamp: they count as written when the default was switched on.
    async fn stamp(
        &self,
        database: &str,
        name: &str,
        sweep: &Sweep<'_>,
        stores_ts: bool,
    ) -> Result<()> {
        let since = sweep.setting.since;
        let missing = doc! {HIDDEN_FIELD: {"$exists": false}};
        let mut stamp = doc! {HIDDEN_FIELD: DateTime::from_millis(since.0)};
        if stores_ts {
            stamp.insert(TS_FIELD, since.0.div_euclid(1_000));
        }
        let find = doc! {
            "find": name, "filter": missing.clone(), "projection": {"_id": 1}, "batchSize": SLICE,
        };
        let mut cursor = self.cluster.cursor(database, find).await?;
        loop {
            let rows = SettingsStore::slice(&mut cursor).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let ids = rows.into_iter().filter_map(|mut row| row.remove("_id"));
            let ids: Vec<Bson> = ids.collect();
            // One that a client has written since then has its own stamp.
            let mut query = doc! {"_id": {"$in": ids}};
            query.extend(missing.clone());
            let update = doc! {
                "update": name,
                "updates": [{"q": query, "u": {"$set": stamp.clone()}, "multi": true}],
                "bypassDocumentValidation": true,
            };
            let Some(_turn) = sweep.hold().await else {
                return Ok(());
            };
            let reply = self.cluster.run(database, update).await?;
            let count = u64::try_from(reply.get_i32("nModified").unwrap_or(0)).unwrap_or(0);
            self.sweeper.stamped.fetch_add(count, Ordering::Relaxed);
        }
    }
}
