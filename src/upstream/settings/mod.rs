//! Where the [`CollectionRules`] of a collection come from, how they change, and how ended documents are deleted.
//!
//! The settings are stored in the cluster, in the hidden database `sundown` ([`record`] draws a record). Each Sundown keeps
//! a copy and may use it for one [`lease`]. A heartbeat ([`store`]) renews the lease and tells whether anything was
//! announced; then the copy is read again. [`ddl`] are the commands that change settings, [`change`] is the protocol by
//! which they do it, and [`sweep`] deletes documents. Nothing here looks at a client's documents or filters.

mod cache;
mod change;
mod collection;
pub mod ddl;
mod figures;
mod in_flight;
mod lease;
mod members;
mod physical;
mod record;
mod renew;
mod status;
mod store;
mod sweep;
mod time;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;

use dashmap::DashMap;
use mongodb::Client;
use parking_lot::{Mutex, RwLock};

use cache::{Cache, Epoch};
use collection::NameKind;
use in_flight::InFlight;
use lease::Lease;
use members::Others;
use record::{SettingRecord, is_named};
use renew::SettingsCopy;
use store::{SettingsStore, StoreKind, unreachable};
use sweep::Sweeper;
use time::PrimaryClock;

use super::retry::is_of_failover;
use super::rewrite::{NamespacePair, pipeline_namespaces};
use super::{CollectionRules, KnownWrites, LastWrites, RuledView};
use crate::clock::{Clock, Millis, monotonic};
use crate::error::Result;
use crate::value::{ArrayBuilder, Doc, DocBuf};

pub use figures::{Measured, MeasuredPart};
pub use in_flight::{WriteGate, WriteInFlight};
pub use physical::{is_physical, is_physical_name};
pub use status::SettingsStatus;
pub use store::SETTINGS_DATABASE;

/// How the settings are kept.
#[derive(Debug, Clone)]
pub struct SettingsOptions {
    /// How long settings may be used after they were asked for. A change waits at most this long for a Sundown that does
    /// not answer.
    pub lease: Duration,
    /// How often the lease is renewed, well before it ends.
    pub renewal: Duration,
    /// How long a command waits for rules while the cluster elects a primary.
    pub patience: Duration,
}

/// What was known of the settings at some moment.
#[derive(Debug, Clone, Copy)]
pub struct KnownAt {
    generation: u64,
}

/// The settings of all collections of a cluster. Clones share them.
#[derive(Clone)]
pub struct RuleSettings(Arc<Inner>);

struct Inner {
    /// Names this Sundown among the others.
    id: String,
    cluster: SettingsStore,
    time: PrimaryClock,
    lease: Lease,
    /// See [`SettingsOptions::renewal`].
    renewal: Duration,
    /// See [`SettingsOptions::patience`].
    patience: Duration,
    /// The settings as they are known. Written by whoever holds `turn`.
    copy: RwLock<SettingsCopy>,
    cache: Cache,
    others: Mutex<Others>,
    /// The ids of the changes that this Sundown is making. An open one that is not here was abandoned.
    active: Mutex<HashSet<String>>,
    /// By collection: the changes through this Sundown wait here for each other.
    queues: DashMap<String, Arc<tokio::sync::Mutex<()>>, ahash::RandomState>,
    sweeper: Sweeper,
    writes: Arc<LastWrites>,
    in_flight: InFlight,
    /// The version at which no write from before was under way to a closed gate.
    clear: AtomicI64,
    /// Held while the settings are read or written, so that an older answer never replaces a newer one.
    turn: tokio::sync::Mutex<()>,
}

/// The lease is renewed at least this many times before it ends.
const RENEWALS: u32 = 4;

/// While the cluster elects a primary, it is asked again after this time.
const NEXT_ASK: Duration = Duration::from_millis(100);

// === impl SettingsOptions ===

impl Default for SettingsOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(5),
            renewal: Duration::from_secs(5),
            patience: Duration::from_secs(30),
        }
    }
}

// === impl RuleSettings ===

impl RuleSettings {
    /// Starts to keep the settings of a cluster, which need not be there yet. Call it on the runtime that will serve.
    pub fn start(client: Client, clock: Clock, options: &SettingsOptions) -> Self {
        let inner = Arc::new(Inner {
            id: uuid::Uuid::new_v4().simple().to_string(),
            cluster: SettingsStore::new(client, options.lease),
            time: PrimaryClock::new(clock),
            lease: Lease::new(options.lease),
            // A slow answer does no harm if it can be asked for several times.
            renewal: options.renewal.min(options.lease / RENEWALS),
            patience: options.patience,
            copy: RwLock::default(),
            cache: Cache::default(),
            others: Mutex::default(),
            active: Mutex::default(),
            queues: DashMap::default(),
            sweeper: Sweeper::default(),
            writes: Arc::default(),
            in_flight: InFlight::default(),
            clear: AtomicI64::new(-1),
            turn: tokio::sync::Mutex::default(),
        });
        tokio::spawn(renew::keep_renewing(Arc::downgrade(&inner)));
        tokio::spawn(renew::keep_refreshing(Arc::downgrade(&inner)));
        tokio::spawn(sweep::keep_sweeping(Arc::downgrade(&inner)));
        Self(inner)
    }

    /// Returns the current time. It is the clock of the primary that holds the settings, so all Sundowns agree.
    #[inline]
    pub fn now(&self) -> Millis {
        self.0.time.now()
    }

    /// Returns the rules of a collection if they are known and may be used now. For the hot path: it waits for nothing and
    /// allocates nothing.
    #[inline]
    pub fn cached(&self, database: &str, collection: &str) -> Option<Arc<CollectionRules>> {
        self.look_up(database, collection, Arc::clone)
    }

    /// Reads the rules of a collection in place, as [`RuleSettings::cached`] returns them.
    #[inline]
    pub fn look_up<T>(
        &self,
        database: &str,
        collection: &str,
        read: impl FnOnce(&Arc<CollectionRules>) -> T,
    ) -> Option<T> {
        let Inner { lease, cache, .. } = &*self.0;
        let now = lease.now();
        let usable = lease.holds(now);
        usable.then(|| cache.look_up(database, collection, now, read))?
    }

    /// Returns what is known now, to be compared later.
    #[inline]
    pub fn known_now(&self) -> KnownAt {
        KnownAt {
            generation: self.0.cache.generation(),
        }
    }

    /// Returns whether rules that were looked up after this moment are certainly the same still: no change of any settings is
    /// known, and none is made without this Sundown's knowledge.
    #[inline]
    pub fn is_known_since(&self, then: KnownAt) -> bool {
        let Inner { lease, cache, .. } = &*self.0;
        cache.generation() == then.generation && lease.holds(lease.now())
    }

    /// Returns the rules of a collection as they are at some moment during this call. Take the command's `now` after it.
    ///
    /// Fails if the cluster cannot be asked: rules are never guessed.
    pub async fn rules(&self, database: &str, collection: &str) -> Result<Arc<CollectionRules>> {
        if let Some(rules) = self.cached(database, collection) {
            return Ok(rules);
        }
        let deadline = monotonic() + self.0.patience;
        loop {
            // Boxed, because it is rare and large.
            match Box::pin(self.0.rules(database, collection)).await {
                Err(error) if is_of_failover(&error) && monotonic() < deadline => {
                    tokio::time::sleep(NEXT_ASK).await;
                }
                found => return found,
            }
        }
    }

    /// Counts a write to these collections as under way. If the gate of one is known to be closed, it first waits until it is open,
    /// if it can wait.
    pub async fn begin_write(
        &self,
        names: &[NamespacePair],
        waits: bool,
    ) -> Result<Vec<WriteInFlight>> {
        let inner = &*self.0;
        let names = names.iter().map(|(db, name)| format!("{db}.{name}"));
        let names: Vec<String> = names.collect();
        for name in names.iter().filter(|_| waits) {
            let (known, _) = inner.known(name);
            if known.is_some_and(|known| known.is_closed()) {
                inner.gate_opens(name).await?;
            }
        }
        let names = names.iter();
        Ok(names.map(|name| inner.in_flight.enter(name)).collect())
    }

    /// Waits while the gate of one of these collections is closed.
    pub async fn gates_open(&self, names: &[NamespacePair]) -> Result<()> {
        for (database, name) in names {
            self.0.gate_opens(&format!("{database}.{name}")).await?;
        }
        Ok(())
    }

    /// Returns whether a collection of the database has or had settings. For commands that do not name a collection, or that
    /// Sundown does not know.
    pub async fn has_settings(&self, database: &str) -> Result<bool> {
        self.0.hold_lease().await?;
        let copy = self.0.copy.read();
        let mut settings = copy.settings.values();
        Ok(settings.any(|one| one.may_matter() && is_in(&one.namespace, database)))
    }

    /// Returns whether a collection of any database has or had settings.
    pub async fn has_settings_anywhere(&self) -> Result<bool> {
        self.0.hold_lease().await?;
        let copy = self.0.copy.read();
        Ok(copy.settings.values().any(|one| one.may_matter()))
    }

    /// Tells the other Sundowns that this one leaves, so that no change waits for it. Rules are refused from then on.
    pub async fn leave(&self) {
        let _turn = self.0.turn.lock().await;
        self.0.lease.give_up();
        let _ = self.0.cluster.remove_member(&self.0.id, None).await;
    }
}

// === impl Inner ===

impl Inner {
    async fn rules(&self, database: &str, collection: &str) -> Result<Arc<CollectionRules>> {
        self.hold_lease().await?;
        let kind = self.cluster.kind().await?;
        let namespace = format!("{database}.{collection}");
        let (setting, epoch) = self.known(&namespace);
        if setting.as_ref().is_some_and(|known| known.next.is_some()) {
            return self.current_rules(database, collection, kind).await;
        }
        let now = self.lease.now();
        let found = match self.cache.found(&namespace, epoch.touched, now) {
            // A name that was free may be that of a view by now, and the change of the settings be about what it reads.
            Some(found) if found.shape != NameKind::Missing => found,
            _ => Arc::new(collection::find(&self.cluster, database, collection).await?),
        };
        if found.shape == NameKind::View {
            // Not cached: the rules of what it reads may change.
            let definition = DocBuf::from(&found.options);
            return self.view_rules(database, definition.as_doc()).await;
        }
        let writes = self.known_writes(kind, &namespace, found.uuid, epoch);
        let gate = self.in_flight.gate(&namespace, false);
        let rules = compose(setting.as_deref(), &found, kind, (writes, gate));
        let until = self.lease.after(found.sent);
        self.cache.put(namespace, &rules, found, epoch, until);
        Ok(rules)
    }

    async fn find(&self, database: &str, collection: &str) -> Result<collection::CollectionInfo> {
        collection::find(&self.cluster, database, collection).await
    }

    /// Returns whether this defines a view that reads a collection with rules.
    async fn reads_rules(&self, database: &str, definition: Doc<'_>) -> Result<bool> {
        match definition.get("viewOn").is_nullish() {
            true => Ok(false),
            false => Ok(!self.view_rules(database, definition).await?.is_none()),
        }
    }

    /// Returns a view with what it reads, if that has rules.
    fn view_rules<'a>(
        &'a self,
        database: &'a str,
        definition: Doc<'a>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<CollectionRules>>> + Send + 'a>> {
        Box::pin(async move {
            let stages = definition.get("pipeline").as_array().unwrap_or(Doc::EMPTY);
            let base = definition.get("viewOn").as_str().unwrap_or_default();
            let of_base = self.rules(database, base).await?;
            let mut has_rules = !of_base.is_none();
            for (database, collection) in pipeline_namespaces(stages, database)? {
                has_rules |= !self.rules(&database, &collection).await?.is_none();
            }
            let collation = definition.get("collation").as_doc().map(DocBuf::from);
            let view = has_rules.then(|| match &of_base.view {
                Some(inner) => RuledView {
                    base: inner.base.clone(),
                    stages: joined(inner.stages.as_doc(), stages),
                    collation,
                },
                None => RuledView {
                    base: base.into(),
                    stages: DocBuf::from(stages),
                    collation,
                },
            });
            Ok(Arc::new(CollectionRules {
                view: view.map(Arc::new),
                ..CollectionRules::NONE
            }))
        })
    }

    /// Reads the rules of a collection while a change of them is announced.
    ///
    /// The collection is read between two readings of the record that must be the same: a change writes what it does into the
    /// record before it touches the indexes, and adopts a new collection after it has come.
    async fn current_rules(
        &self,
        database: &str,
        collection: &str,
        kind: StoreKind,
    ) -> Result<Arc<CollectionRules>> {
        let namespace = format!("{database}.{collection}");
        let mut before = self.cluster.setting(&namespace).await?;
        loop {
            let found = collection::find(&self.cluster, database, collection).await?;
            if found.shape == NameKind::View {
                let definition = DocBuf::from(&found.options);
                return self.view_rules(database, definition.as_doc()).await;
            }
            let setting = self.cluster.setting(&namespace).await?;
            if before == setting {
                // A change may be about to give the name to another collection.
                let writes = kind.checks_pull_all.then(|| self.writes.nothing());
                let is_closed = setting.as_ref().is_some_and(SettingRecord::is_closed);
                let gate = self.in_flight.gate(&namespace, is_closed);
                let rules = compose(setting.as_ref(), &found, kind, (writes, gate));
                return Ok(rules);
            }
            before = setting;
        }
    }

    /// Returns what is known of the last writes to a collection, for its rules.
    fn known_writes(
        &self,
        kind: StoreKind,
        namespace: &str,
        uuid: Option<[u8; 16]>,
        epoch: Epoch,
    ) -> Option<KnownWrites> {
        let known = match uuid.filter(|_| kind.is_direct) {
            Some(uuid) => self.writes.of(namespace, uuid, epoch.touched),
            None => self.writes.nothing(),
        };
        kind.checks_pull_all.then_some(known)
    }

    /// Makes sure that the known settings may be used.
    async fn hold_lease(&self) -> Result<()> {
        if self.lease.holds(self.lease.now()) {
            return Ok(());
        }
        let renewed = tokio::time::timeout(self.lease.length(), async {
            let turn = self.turn.lock().await;
            // The holder of the turn before may have renewed it.
            match self.lease.holds(self.lease.now()) {
                true => Ok(()),
                false => self.renew(&turn).await,
            }
        });
        renewed.await.unwrap_or_else(|_| {
            Err(unreachable(
                "the cluster does not confirm the TTL settings in time, so they may have changed",
            ))
        })
    }
}

fn is_in(namespace: &str, database: &str) -> bool {
    let named = namespace.split_once('.');
    named.is_some_and(|(named, _)| named == database)
}

/// Returns the array of all these stages.
fn joined(first: Doc<'_>, then: Doc<'_>) -> DocBuf {
    let mut bytes = Vec::with_capacity(first.bytes().len() + then.bytes().len());
    let mut all = ArrayBuilder::begin(&mut bytes);
    for stage in first.iter().chain(then) {
        all.push(stage.value);
    }
    all.end();
    DocBuf::from_bytes(bytes)
}

/// Returns the rules of a collection of the cluster that has these settings.
fn compose(
    setting: Option<&SettingRecord>,
    found: &collection::CollectionInfo,
    kind: StoreKind,
    (writes, gate): (Option<KnownWrites>, WriteGate),
) -> Arc<CollectionRules> {
    let setting = setting.and_then(|setting| setting.of(found.uuid));
    let dates = found.dates();
    let rules = match setting {
        Some(setting) => setting.rules(dates, !kind.keeps_ts),
        None => CollectionRules {
            dates,
            ..CollectionRules::NONE
        },
    };
    let shown = setting.filter(|setting| setting.is_on());
    let shown = shown.and_then(|setting| setting.ts_index.as_ref());
    let shown = shown.filter(|shown| !found.indexes.iter().any(|real| is_named(real, &shown.name)));
    Arc::new(CollectionRules {
        unique_keys: found.has_unique_keys(),
        capped: found.is_capped(),
        ts_index: shown.map(|shown| shown.name.as_str().into()),
        writes: writes.filter(|_| rules.stamped),
        gate,
        ..rules
    })
}
