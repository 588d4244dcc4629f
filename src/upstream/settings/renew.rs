//! Renewing the lease: the heartbeat, and the copy of all settings.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::sync::MutexGuard;
use tokio::task::JoinSet;

use super::Inner;
use super::cache::Epoch;
use super::collection;
use super::record::SettingRecord;
use super::store::unreachable;
use crate::clock::monotonic;
use crate::error::Result;

/// The settings as this Sundown knows them.
pub(super) struct SettingsCopy {
    /// The number of announcements that the copy contains. -1: nothing was read yet.
    pub version: i64,
    pub settings: HashMap<String, Arc<SettingRecord>>,
    /// The version with which the settings of a collection were last seen to change.
    touched: HashMap<String, i64>,
    /// The same for all collections that are not in `touched`.
    others_touched: i64,
    /// There may be records that no version tells of: a Sundown that has begun a change may have died before it raised the
    /// version.
    is_incomplete: bool,
}

/// The number of collections whose last changes are remembered one by one.
const TOUCHED: usize = 10_000;

/// The number of collections that are looked at together.
const TOGETHER: usize = 8;

/// Renews the lease, as long as the settings are in use.
pub(super) async fn keep_renewing(settings: Weak<Inner>) {
    let mut failing = false;
    while let Some(inner) = settings.upgrade() {
        let renewed = {
            let turn = inner.turn.lock().await;
            if inner.lease.is_given_up() {
                return;
            }
            inner.renew(&turn).await
        };
        match &renewed {
            Ok(()) if failing => tracing::info!("the TTL settings of the cluster are known again"),
            Err(error) if !failing => {
                tracing::warn!(%error, "the TTL settings of the cluster cannot be renewed");
            }
            _ => {}
        }
        failing = renewed.is_err();
        let pause = inner.renewal;
        drop(inner);
        tokio::time::sleep(pause).await;
    }
}

/// Looks again at the collections in use before what is known about them is outdated.
pub(super) async fn keep_refreshing(settings: Weak<Inner>) {
    while let Some(inner) = settings.upgrade() {
        if inner.lease.is_given_up() {
            return;
        }
        inner.remove_dead_members().await;
        inner.settle_orphans().await;
        inner.refresh().await;
        let pause = inner.lease.length() / super::RENEWALS;
        drop(inner);
        tokio::time::sleep(pause).await;
    }
}

// === impl SettingsCopy ===

impl Default for SettingsCopy {
    fn default() -> Self {
        Self {
            version: -1,
            settings: HashMap::new(),
            touched: HashMap::new(),
            others_touched: i64::MIN,
            is_incomplete: false,
        }
    }
}

impl SettingsCopy {
    /// Takes what was read after this version was announced.
    fn replace(&mut self, version: i64, all: HashMap<String, SettingRecord>) {
        let all = all.into_iter();
        let new: HashMap<_, _> = all.map(|(name, one)| (name, Arc::new(one))).collect();
        let old = &self.settings;
        let gone_or_other = old
            .iter()
            .filter(|(name, known)| new.get(*name) != Some(known));
        let come = new.iter().filter(|(name, _)| !old.contains_key(*name));
        let names = gone_or_other.chain(come).map(|(name, _)| name.clone());
        for name in names.collect::<Vec<_>>() {
            self.touch(name, version);
        }
        self.version = version;
        self.settings = new;
        self.is_incomplete = false;
    }

    /// Takes a record that this Sundown has written. Others learn of it with the next version.
    pub fn put(&mut self, setting: SettingRecord) {
        let namespace = setting.namespace.clone();
        self.touch(namespace.clone(), self.version + 1);
        self.settings.insert(namespace, Arc::new(setting));
    }

    /// Takes it that this Sundown has removed a record.
    pub fn forget(&mut self, namespace: &str) {
        self.touch(namespace.to_owned(), self.version + 1);
        self.settings.remove(namespace);
    }

    /// Notes that the settings of a collection change with this version, which is the latest. Names come and go, so when there are
    /// too many, all collections count as changed.
    fn touch(&mut self, namespace: String, version: i64) {
        if self.touched.len() >= TOUCHED && !self.touched.contains_key(&namespace) {
            self.touched.clear();
            self.others_touched = version;
        }
        self.touched.insert(namespace, version);
    }

    /// Returns the version with which the settings of a collection last changed.
    fn touched(&self, namespace: &str) -> i64 {
        let known = self.touched.get(namespace);
        known.copied().unwrap_or(self.others_touched)
    }
}

// === impl Inner ===

impl Inner {
    /// Returns the known settings of a collection.
    pub fn known(&self, namespace: &str) -> (Option<Arc<SettingRecord>>, Epoch) {
        let copy = self.copy.read();
        let epoch = Epoch {
            generation: self.cache.generation(),
            version: copy.version,
            touched: copy.touched(namespace),
        };
        (copy.settings.get(namespace).cloned(), epoch)
    }

    /// Returns the settings of a collection as they are at some moment during this call: while a change is announced, and until
    /// this Sundown knows that it is over, only the record tells.
    pub async fn current(&self, namespace: &str) -> Result<Option<Arc<SettingRecord>>> {
        self.hold_lease().await?;
        match self.known(namespace).0 {
            Some(known) if known.next.is_some() => {
                Ok(self.cluster.setting(namespace).await?.map(Arc::new))
            }
            known => Ok(known),
        }
    }

    /// Returns the collections of a database that have settings.
    pub fn names_in(&self, database: &str) -> Vec<String> {
        let copy = self.copy.read();
        let inside = |namespace: &String| {
            let (named, name) = namespace.split_once('.')?;
            (named == database).then(|| name.to_owned())
        };
        copy.settings.keys().filter_map(inside).collect()
    }

    /// Writes a heartbeat, and reads the settings if something was announced.
    pub async fn renew(&self, turn: &MutexGuard<'_, ()>) -> Result<()> {
        // The second heartbeat acknowledges what was read after the first one.
        for _ in 0..2 {
            if !self.beat(turn, false).await? {
                break;
            }
        }
        Ok(())
    }

    /// Writes one heartbeat. Returns whether there was something new.
    ///
    /// Why the copy may be used for one lease: the heartbeat has shown that the version was current at some moment after
    /// its sending. An announcement that is missing in the copy came later, and its author waits for one lease after it.
    /// A Sundown that starts writes its first heartbeat before it reads any settings. An author that does not see the
    /// heartbeat has announced its change before it, so the new Sundown reads the announcement.
    pub async fn beat(&self, _turn: &MutexGuard<'_, ()>, announce: bool) -> Result<bool> {
        if self.lease.is_given_up() {
            return Err(unreachable("this Sundown is shutting down"));
        }
        let (known, is_incomplete) = {
            let copy = self.copy.read();
            (copy.version, copy.is_incomplete)
        };
        if !self.has_late_writes() {
            self.clear.store(known, Ordering::SeqCst);
        }
        let clear = self.clear.load(Ordering::SeqCst);
        let (sent, local) = (monotonic(), self.time.local());
        let seen = (known, clear);
        let state = self.cluster.beat(&self.id, seen, announce).await?;
        let received = monotonic();
        if let Some(at) = state.at {
            self.time.measure(at, local, received.duration_since(sent));
        }
        self.others
            .lock()
            .observe_all(&self.id, &state.members, received);
        let is_current = !is_incomplete
            && match announce {
                // The only news is the own announcement, which is in the copy.
                true => known >= 0 && state.version == known + 1,
                false => state.version == known,
            };
        if is_current {
            self.copy.write().version = state.version;
        } else {
            let all = self.cluster.settings(&state).await?;
            // Nobody has waited for this Sundown. So a collection may have had another name, and have got its own back: its record
            // may be the same as before.
            if !self.lease.holds(self.lease.now()) {
                self.writes.forget_all();
            }
            let mut copy = self.copy.write();
            copy.replace(state.version, all);
            self.cache.outdate();
        }
        self.lease.renew(sent);
        Ok(!is_current)
    }

    async fn remove_dead_members(&self) {
        let dead = self.others.lock().dead(self.lease.length(), monotonic());
        for (id, beat) in dead {
            // If it fails, the next round tries again.
            if self.cluster.remove_member(&id, Some(beat)).await.is_ok() {
                tracing::warn!(sundown = %id, "another Sundown has not been heard of and is left out");
                let _turn = self.turn.lock().await;
                self.copy.write().is_incomplete = true;
            }
        }
    }

    async fn refresh(self: &Arc<Self>) {
        let now = self.lease.now();
        let half = u64::try_from(self.lease.length().as_nanos() / 2).unwrap_or(u64::MAX);
        let due = self.cache.to_refresh(now, now.saturating_add(half));
        let mut running = JoinSet::new();
        for namespace in due {
            if running.len() >= TOGETHER {
                running.join_next().await;
            }
            let inner = Arc::clone(self);
            running.spawn(async move { inner.refresh_one(namespace).await });
        }
        while running.join_next().await.is_some() {}
    }

    async fn refresh_one(&self, namespace: String) {
        let Some((database, name)) = namespace.split_once('.') else {
            return;
        };
        let (setting, epoch) = self.known(&namespace);
        let Ok(kind) = self.cluster.kind().await else {
            return;
        };
        if setting.as_ref().is_some_and(|known| known.next.is_some()) {
            return;
        }
        // If it fails, the next command on the collection asks and gets the error.
        if let Ok(found) = collection::find(&self.cluster, database, name).await {
            let writes = self.known_writes(kind, &namespace, found.uuid, epoch);
            let gate = self.in_flight.gate(&namespace, false);
            let rules = super::compose(setting.as_deref(), &found, kind, (writes, gate));
            let until = self.lease.after(found.sent);
            self.cache
                .put(namespace, &rules, Arc::new(found), epoch, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_remembered_within_a_bound() {
        let mut copy = SettingsCopy::default();
        copy.replace(1, HashMap::new());
        assert_eq!(copy.touched("d.c"), i64::MIN);
        for name in 0..TOUCHED {
            copy.put(SettingRecord::new(&format!("d.{name}")));
            copy.forget(&format!("d.{name}"));
        }
        assert_eq!((copy.touched("d.0"), copy.touched("d.c")), (2, i64::MIN));
        copy.version = 5;
        copy.put(SettingRecord::new("d.0"));
        assert_eq!((copy.touched("d.0"), copy.touched("d.1")), (6, 2));
        // One too many: whatever was found out before counts as outdated.
        copy.put(SettingRecord::new("d.c"));
        assert_eq!(copy.touched.len(), 1);
        for name in ["d.0", "d.1", "d.c", "d.d"] {
            assert_eq!(copy.touched(name), 6);
        }
        copy.replace(8, HashMap::new());
        assert_eq!((copy.touched("d.c"), copy.touched("d.1")), (8, 6));
    }
}
