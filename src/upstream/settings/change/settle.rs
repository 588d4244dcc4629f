//! Changes whose author is gone: they are finished if they were installed, and withdrawn if not.

use std::sync::Arc;

use super::super::Inner;
use super::super::collection;
use super::super::record::{Next, SettingRecord};
use super::SettingChange;
use crate::error::Result;

// === impl Inner ===

impl Inner {
    /// Returns whether nobody works on this change any more: its Sundown is dead, or has abandoned it.
    ///
    /// A Sundown registers before it announces anything. So an author that a heartbeat from after the reading of the
    /// announcement does not show has left, or was removed as dead. An earlier heartbeat would not prove that.
    pub(super) async fn is_orphan(&self, next: &Next) -> Result<bool> {
        if !self.may_be_orphan(next) {
            return Ok(false);
        }
        let turn = self.turn.lock().await;
        self.beat(&turn, false).await?;
        Ok(self.may_be_orphan(next))
    }

    /// Returns whether nobody is known to work on this change.
    fn may_be_orphan(&self, next: &Next) -> bool {
        match next.author == self.id {
            true => !self.active.lock().contains(&next.id),
            false => !self.others.lock().is_known(&next.author),
        }
    }

    /// Finishes or withdraws every change that nobody works on.
    pub async fn settle_orphans(self: &Arc<Self>) {
        if !self.lease.holds(self.lease.now()) {
            return;
        }
        let orphans: Vec<String> = {
            let copy = self.copy.read();
            let orphan = |setting: &&Arc<SettingRecord>| {
                let next = setting.next.as_ref();
                next.is_some_and(|next| self.may_be_orphan(next))
            };
            let orphans = copy.settings.values().filter(orphan);
            orphans.map(|setting| setting.namespace.clone()).collect()
        };
        for namespace in orphans {
            if let Err(error) = self.settle(&namespace).await {
                tracing::warn!(%error, collection = %namespace, "an abandoned change of the TTL settings stays open");
            }
        }
    }

    /// Finishes or withdraws the change of a collection, if nobody works on it.
    ///
    /// The other Sundowns need not be waited for: either nothing was installed, or the author has waited for them before.
    pub(in crate::upstream::settings) async fn settle(
        self: &Arc<Self>,
        namespace: &str,
    ) -> Result<()> {
        let Some(stored) = self.cluster.setting(namespace).await? else {
            return Ok(());
        };
        match &stored.next {
            Some(next) if self.is_orphan(next).await? => {}
            _ => return Ok(()),
        }
        let (database, name) = namespace.split_once('.').unwrap_or((namespace, ""));
        let found = collection::find(&self.cluster, database, name).await?;
        let is_void = found.uuid != stored.uuid;
        // The collection was replaced, as announced.
        let arriving = stored.arriving.clone();
        let arriving = arriving.filter(|_| is_void && found.uuid.is_some());
        let Some(mut change) = self.take_up(stored, found).await? else {
            return Ok(());
        };
        let settled = match (is_void, arriving) {
            (_, Some(arriving)) => change.arrived(&arriving).await,
            (true, None) => change.remove().await,
            (false, None) => change.finish().await,
        };
        // If it failed, the next round of `settle_orphans` tries again.
        change.over = true;
        settled
    }
}

// === impl SettingChange ===

impl SettingChange {
    /// Does what is left to do of an abandoned change.
    async fn finish(&mut self) -> Result<()> {
        match self.setting.dates.clone() {
            Some(held) => {
                // The cluster's indexes may have changed already. The rules that they no longer show are lost.
                let now = self.found.dates();
                let lost = held.into_iter().filter(|rule| !now.contains(rule));
                self.install(self.setting.clone(), lost.collect()).await?;
            }
            None => self.drain().await?,
        }
        // The cluster may still be at work on an `$out`, for a Sundown that it does not know to be gone. The new collection
        // will have the settings that hold now.
        let arriving = self.setting.arriving.clone();
        let same = self.setting.handed_over();
        self.close_expecting(arriving.filter(|arriving| *arriving == same))
            .await
    }
}
