//! How a rule changes at one instant for all Sundowns.
//!
//! 1. *Announce*: the record gets a `next`, and the version that all heartbeats read is raised.
//! 2. *Wait* until every other Sundown has acknowledged the version, or has certainly lost its lease. From then on each of
//!    them reads the record before every command on the collection, and so does this one.
//! 3. *Install*: one write of the record. That write is the instant.
//! 4. *Drain*: what had ended under the old rule is deleted, if the new rule could show it again.
//! 5. *Close*: `next` is removed.
//!
//! Why no two replies contradict each other: a command takes its rules at one moment between its arrival and its reply. If
//! no `next` is known, the rules are valid at that moment, because nothing is installed before the lease is over. If one is
//! known, the rules are read from the record at that moment. So all commands and the install have one order, and it agrees
//! with the order in which clients see requests and replies.
//!
//! Why an author that is alone need not wait: every Sundown writes its first heartbeat before it reads settings. All
//! heartbeats and announcements are writes of one document, so they have one order. A Sundown that is missing in the reply
//! to the announcement registers later, and then reads the record with its `next`.
//!
//! The instant at which an old rule stops ending documents ([`Former::until`]) is chosen a little ahead, so that it lies
//! after the write that tells everybody about it. Before it the record from before and the new one mean the same.

mod drain;
mod settle;

pub(super) use drain::{delete, delete_ended, ended};

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedMutexGuard;

use super::Inner;
use super::collection::{self, CollectionInfo};
use super::record::{Next, SettingRecord};
use super::store::{RecordWrite, unreachable};
use crate::clock::{Millis, monotonic};
use crate::error::{Code, Error, Result};
use crate::ttl::DefaultTtl;
use crate::upstream::{CollectionRules, DateRule, Former};

/// How far ahead an old rule is stopped, at least. Writing the record must take less time.
const AHEAD: Duration = Duration::from_millis(50);

/// Names beyond this many are forgotten when no change of them is under way.
const QUEUES: usize = 1_000;

/// An announced change of one collection's settings. Dropping it withdraws the announcement.
pub(super) struct SettingChange {
    inner: Arc<Inner>,
    /// The record as it is stored.
    setting: SettingRecord,
    /// The collection, as the cluster describes it after the announcement.
    pub found: CollectionInfo,
    id: String,
    over: bool,
    /// Other changes of the collection through this Sundown wait for it.
    _queue: Option<OwnedMutexGuard<()>>,
}

/// Returns whether documents that ended under the first default could be seen again under the second one.
fn could_revive(old: DefaultTtl, new: DefaultTtl) -> bool {
    match (old, new) {
        (DefaultTtl::Off, _) => false,
        (_, DefaultTtl::Off) => true,
        (DefaultTtl::Never, _) => false,
        (DefaultTtl::Seconds(_), DefaultTtl::Never) => true,
        (DefaultTtl::Seconds(old), DefaultTtl::Seconds(new)) => new > old,
    }
}

// === impl Inner ===

impl Inner {
    /// Announces a change of a collection's settings, and waits until all Sundowns know about it.
    pub async fn begin(
        self: &Arc<Self>,
        database: &str,
        collection: &str,
    ) -> Result<SettingChange> {
        let namespace = format!("{database}.{collection}");
        if self.queues.len() >= QUEUES {
            // Whoever waits there, or has had its turn, has a reference.
            self.queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        }
        let queue = Arc::clone(&self.queues.entry(namespace.clone()).or_default());
        let queue = queue.lock_owned().await;
        self.hold_lease().await?;
        let mut change = loop {
            let stored = self.cluster.setting(&namespace).await?;
            let open = stored.as_ref().and_then(|stored| stored.next.as_ref());
            if let Some(next) = open {
                if self.is_orphan(next).await? {
                    self.settle(&namespace).await?;
                } else {
                    tokio::time::sleep(self.short_pause()).await;
                }
                continue;
            }
            let found = collection::find(&self.cluster, database, collection).await?;
            let setting = match stored {
                Some(stored) if stored.uuid == found.uuid => stored,
                // The collection has come after those who expected it were gone.
                Some(SettingRecord {
                    arriving: Some(arriving),
                    revision,
                    ..
                }) if found.uuid.is_some() => SettingRecord {
                    namespace: namespace.clone(),
                    uuid: found.uuid,
                    revision,
                    ..*arriving
                },
                // The settings of another collection of that name are void.
                other => SettingRecord {
                    uuid: found.uuid,
                    revision: other.map_or(0, |other| other.revision),
                    ..SettingRecord::new(&namespace)
                },
            };
            if let Some(change) = self.take_up(setting, found).await? {
                break change;
            }
        };
        change._queue = Some(queue);
        self.announce().await?;
        self.wait_for_others().await?;
        change.found = collection::find(&self.cluster, database, collection).await?;
        if change.found.uuid != change.setting.uuid {
            return Err(Error::new(
                Code::NamespaceNotFound,
                format!("the collection {namespace} was dropped while its settings were changed"),
            ));
        }
        Ok(change)
    }

    /// Writes into the record that this Sundown changes it. Returns `None` if somebody else was faster.
    async fn take_up(
        self: &Arc<Self>,
        setting: SettingRecord,
        found: CollectionInfo,
    ) -> Result<Option<SettingChange>> {
        let id = uuid::Uuid::new_v4().simple().to_string();
        self.active.lock().insert(id.clone());
        let mut change = SettingChange {
            inner: Arc::clone(self),
            setting,
            found,
            id: id.clone(),
            over: false,
            _queue: None,
        };
        let next = Next {
            id,
            author: self.id.clone(),
            closed: false,
        };
        let announced = SettingRecord {
            next: Some(next),
            ..change.setting.clone()
        };
        Ok(match change.write(announced).await? {
            RecordWrite::Yes => Some(change),
            RecordWrite::Outdated => {
                change.over = true;
                None
            }
        })
    }

    /// Raises the version that all heartbeats read.
    async fn announce(&self) -> Result<()> {
        let turn = self.turn.lock().await;
        self.beat(&turn, true).await.map(drop)
    }

    /// Waits until no other Sundown uses settings without the latest announcement.
    async fn wait_for_others(&self) -> Result<()> {
        let version = self.copy.read().version;
        let lease = self.lease.length();
        let until = monotonic() + lease;
        loop {
            let now = monotonic();
            if now >= until || self.others.lock().agree_on(version, lease, now) {
                return Ok(());
            }
            tokio::time::sleep(self.short_pause()).await;
            // If it cannot be read, the lease of the others still ends.
            if let Ok(state) = self.cluster.state().await {
                self.others
                    .lock()
                    .observe(&self.id, &state.members, monotonic());
            }
        }
    }

    /// Writes a record and takes it into the copy.
    pub async fn write(&self, setting: &SettingRecord) -> Result<RecordWrite> {
        let _turn = self.turn.lock().await;
        let written = self.cluster.write(setting).await?;
        if written == RecordWrite::Yes {
            self.copy.write().put(setting.clone());
            self.cache.outdate();
        }
        Ok(written)
    }

    pub fn short_pause(&self) -> Duration {
        (self.lease.length() / 250).max(Duration::from_millis(2))
    }

    /// Waits until this moment has come by the clock of the cluster. It does not wait for a clock that stands still.
    async fn wait_until(&self, moment: Millis) {
        while !self.time.is_frozen() {
            let left = moment.0.saturating_sub(self.time.now().0);
            match u64::try_from(left) {
                Ok(left @ 1..) => tokio::time::sleep(Duration::from_millis(left)).await,
                _ => return,
            }
        }
    }
}

// === impl SettingChange ===

impl SettingChange {
    pub fn setting(&self) -> &SettingRecord {
        &self.setting
    }

    /// Writes the next revision of the record.
    async fn write(&mut self, mut setting: SettingRecord) -> Result<RecordWrite> {
        setting.revision = self.setting.revision + 1;
        let written = self.inner.write(&setting).await?;
        if written == RecordWrite::Yes {
            self.setting = setting;
        }
        Ok(written)
    }

    async fn must_write(&mut self, setting: SettingRecord) -> Result<()> {
        match self.write(setting).await? {
            RecordWrite::Yes => Ok(()),
            // Another Sundown took this one for dead.
            RecordWrite::Outdated => {
                self.over = true;
                Err(unreachable(
                    "another Sundown has withdrawn this change of the TTL settings",
                ))
            }
        }
    }

    /// Makes the writes of all Sundowns stamp the documents from now on, before the default is installed.
    pub async fn stamp(&mut self) -> Result<()> {
        if self.setting.stamped {
            return Ok(());
        }
        let stamped = SettingRecord {
            stamped: true,
            unstamped: true,
            since: self.inner.time.now(),
            ..self.setting.clone()
        };
        self.must_write(stamped).await
    }

    /// Lets these rules on dates hold, whatever the indexes of the cluster show meanwhile.
    pub async fn hold_dates(&mut self, dates: Vec<DateRule>) -> Result<()> {
        let held = SettingRecord {
            dates: Some(dates),
            ..self.setting.clone()
        };
        self.must_write(held).await
    }

    /// Installs new settings. `lost` are the rules on dates that no longer hold.
    ///
    /// What had ended under the old rules and would not be ended under the new ones is deleted before this returns.
    pub async fn install(&mut self, new: SettingRecord, lost: Vec<DateRule>) -> Result<()> {
        let old = &self.setting;
        let now = self.inner.time.now();
        let mut new = SettingRecord {
            namespace: old.namespace.clone(),
            next: old.next.clone(),
            dates: None,
            ..new
        };
        if !old.is_on() && new.is_on() {
            new.stamped = true;
            new.since = now;
        }
        let revives = could_revive(old.default, new.default);
        if revives || !lost.is_empty() {
            let default = match revives {
                true => old.default,
                false => DefaultTtl::Off,
            };
            let former = Former {
                rules: CollectionRules {
                    stamped: old.stamped,
                    default,
                    since: old.since,
                    dates: lost,
                    ..CollectionRules::NONE
                },
                until: Millis(now.0 + self.ahead()),
            };
            new.remember(&former);
            new.former = Some(former);
        }
        self.must_write(new).await?;
        self.drain().await
    }

    /// Returns by how many milliseconds an old rule is stopped ahead. A clock that stands still needs none.
    fn ahead(&self) -> i64 {
        let time = &self.inner.time;
        match time.is_frozen() {
            true => 0,
            false => i64::try_from(AHEAD.max(time.error() * 8).as_millis()).unwrap_or(0),
        }
    }

    /// Deletes what had ended under the former rules.
    async fn drain(&mut self) -> Result<()> {
        let Some(former) = self.setting.former.clone() else {
            return Ok(());
        };
        self.inner.wait_until(former.until).await;
        delete_ended(
            &self.inner.cluster,
            &self.setting.namespace,
            &former.rules,
            former.until,
            None,
        )
        .await?;
        Ok(())
    }

    /// Lets the writes of all Sundowns to these collections wait until the changes are over, and waits for those that are under way.
    pub async fn close_gates(changes: &mut [&mut Self]) -> Result<()> {
        for change in changes.iter_mut() {
            let mut closed = change.setting.clone();
            if let Some(next) = &mut closed.next {
                next.closed = true;
            }
            change.must_write(closed).await?;
        }
        let Some(inner) = changes.first().map(|first| Arc::clone(&first.inner)) else {
            return Ok(());
        };
        inner.announce().await?;
        let names = changes.iter().map(|change| &*change.setting.namespace);
        inner.wait_for_writes(&names.collect::<Vec<_>>()).await;
        Ok(())
    }

    /// Looks at the collection again. Returns its UUID.
    pub async fn look_again(&mut self) -> Result<Option<[u8; 16]>> {
        let namespace = &self.setting.namespace;
        let (database, name) = namespace.split_once('.').unwrap_or((namespace, ""));
        self.found = self.inner.find(database, name).await?;
        Ok(self.found.uuid)
    }

    /// Looks at the collection again, and lets the settings belong to it: the cluster has just created it.
    pub async fn adopt(&mut self) -> Result<()> {
        self.look_again().await?;
        let adopted = SettingRecord {
            uuid: self.found.uuid,
            arriving: None,
            ..self.setting.clone()
        };
        self.must_write(adopted).await
    }

    /// Announces that a collection with these settings is about to get this name.
    pub async fn expect(&mut self, arriving: Box<SettingRecord>) -> Result<()> {
        let expecting = SettingRecord {
            arriving: Some(arriving),
            ..self.setting.clone()
        };
        self.must_write(expecting).await
    }

    /// Lets the announced settings hold for the collection that has come, and ends the change.
    pub async fn arrived(&mut self, arriving: &SettingRecord) -> Result<()> {
        self.replace_setting(SettingRecord {
            namespace: self.setting.namespace.clone(),
            next: self.setting.next.clone(),
            ..arriving.clone()
        });
        self.adopt().await?;
        self.end().await
    }

    /// Replaces the settings. The next write stores them.
    pub fn replace_setting(&mut self, setting: SettingRecord) {
        self.setting = SettingRecord {
            revision: self.setting.revision,
            ..setting
        };
    }

    /// Ends the change without an effect on the settings. A collection without settings needs no record.
    pub async fn end(&mut self) -> Result<()> {
        let is_needed = !self.setting.is_empty() || self.setting.uuid.is_some();
        match is_needed {
            true => self.close().await,
            false => self.remove().await,
        }
    }

    /// Ends the change: from now on the settings may be used from the copy again.
    pub async fn close(&mut self) -> Result<()> {
        self.close_expecting(None).await
    }

    /// The same, while a collection with these settings may still get the name.
    async fn close_expecting(&mut self, arriving: Option<Box<SettingRecord>>) -> Result<()> {
        let closed = SettingRecord {
            next: None,
            former: None,
            arriving,
            dates: None,
            ..self.setting.clone()
        };
        self.must_write(closed).await?;
        self.over = true;
        self.inner.announce().await
    }

    /// Ends the change and removes the settings: the collection is gone.
    pub async fn remove(&mut self) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        {
            let _turn = inner.turn.lock().await;
            let (namespace, revision) = (&self.setting.namespace, self.setting.revision);
            inner.cluster.remove(namespace, revision).await?;
            inner.copy.write().forget(namespace);
            inner.cache.outdate();
        }
        self.over = true;
        inner.announce().await
    }
}

/// A change that is not finished is withdrawn, or finished if it was installed.
impl Drop for SettingChange {
    fn drop(&mut self) {
        self.inner.active.lock().remove(&self.id);
        if self.over {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let inner = Arc::clone(&self.inner);
            let namespace = self.setting.namespace.clone();
            // If it fails, `settle_orphans` tries again.
            runtime.spawn(async move { inner.settle(&namespace).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_defaults_could_bring_documents_back() {
        use DefaultTtl::{Never, Off, Seconds};
        let rows = [
            (Off, Off, false),
            (Off, Never, false),
            (Off, Seconds(1), false),
            (Never, Off, true),
            (Never, Never, false),
            (Never, Seconds(1), false),
            (Seconds(5), Off, true),
            (Seconds(5), Never, true),
            (Seconds(5), Seconds(4), false),
            (Seconds(5), Seconds(5), false),
            (Seconds(5), Seconds(6), true),
        ];
        for (old, new, expected) in rows {
            assert_eq!(could_revive(old, new), expected, "{old:?} {new:?}");
        }
    }
}
