//! Earlier versions and the writes of transactions, beside the documents.

use super::{Cause, Change, Contents};
use crate::storage::index::IndexKeys;
use crate::storage::versions::{EarlierVersion, OwnWrites, TransactionId, Versions};
use crate::storage::{RecordId, free};
use crate::ttl::{End, OwnTtl};
use crate::value::{ClusterTime, Doc, Millis};

// === impl Contents ===

impl Contents {
    /// Notes what a change is about to replace or remove. Expired documents are gone for snapshots, too.
    #[cold]
    pub(super) fn note_version(&mut self, change: &Change<'_>, time: ClusterTime) {
        let (Change::Replace { id, .. }
        | Change::Patch { id, .. }
        | Change::Touch { id, .. }
        | Change::Remove {
            id,
            cause: Cause::Deleted | Cause::Evicted,
        }) = *change
        else {
            return;
        };
        let segment = self.segments.get(id.segment());
        let Some((bytes, ts)) = segment.and_then(|segment| segment.document(id.slot())) else {
            return;
        };
        let doc = Doc::new(bytes);
        let version = EarlierVersion {
            bytes: bytes.into(),
            ts,
            ttl: OwnTtl::of(doc),
            hash: self.ids.hash_of(doc),
        };
        let is_touch = matches!(change, Change::Touch { .. });
        self.note(id, Some(version), time, is_touch);
    }

    /// Notes that a document was not there before that time.
    #[cold]
    pub(super) fn note_absence(&mut self, id: RecordId, time: ClusterTime) {
        self.note(id, None, time, false);
    }

    fn note(
        &mut self,
        id: RecordId,
        version: Option<EarlierVersion>,
        time: ClusterTime,
        is_touch: bool,
    ) {
        let earlier = &mut self.versions_mut().earlier;
        let before = earlier.bytes();
        earlier.note(id, version, time, is_touch);
        let after = earlier.bytes();
        self.shared.snapshots.count_bytes(before, after);
    }

    /// Returns the end of an earlier version under the present rules.
    pub fn end_of(&self, version: &EarlierVersion) -> End {
        let own = self.default.end(version.ttl, version.ts);
        own.min(self.date_end(Doc::new(&version.bytes)))
    }

    pub fn versions_mut(&mut self) -> &mut Versions {
        self.versions.get_or_insert_default()
    }

    /// Returns the writes of a transaction to this collection.
    pub fn own_mut(&mut self, transaction: TransactionId) -> &mut OwnWrites {
        let schema = self.schema;
        let own = &mut self.versions_mut().own;
        own.entry(transaction)
            .or_insert_with(|| OwnWrites::new(schema))
    }

    /// Takes the writes of a transaction out, and releases what it has claimed.
    pub fn take_own(&mut self, transaction: TransactionId) -> Option<OwnWrites> {
        let own = self.versions.as_deref_mut()?.take(transaction)?;
        self.shared.transactions.release(own.bytes());
        self.prune_versions();
        Some(own)
    }

    /// Lets an index know of the arrays in a document that a transaction will add: its readers rely on that.
    pub fn expect_arrays(&mut self, at: usize, keys: &IndexKeys) {
        self.indexes[at].note_arrays(keys);
    }

    pub(super) fn has_unneeded_versions(&self) -> bool {
        let snapshots = &self.shared.snapshots;
        let unneeded = |versions: &Versions| versions.earlier.has_unneeded(snapshots.oldest());
        self.versions().is_some_and(unneeded)
    }

    /// Drops the earlier versions that no snapshot needs.
    pub fn prune_versions(&mut self) {
        let Some(versions) = self.versions.as_deref_mut() else {
            return;
        };
        let snapshots = &self.shared.snapshots;
        let oldest = snapshots.oldest();
        if versions.earlier.has_unneeded(oldest) {
            let before = versions.earlier.bytes();
            match oldest {
                Some(oldest) => versions.earlier.prune(oldest),
                // There may be millions, and the collection is locked.
                None => {
                    let gone = std::mem::take(&mut versions.earlier);
                    let most = gone.most();
                    free(gone, most);
                }
            }
            snapshots.count_bytes(before, versions.earlier.bytes());
        }
        if versions.is_empty() {
            self.versions = None;
        }
    }

    /// Forgets the earlier versions that have ended, before a rule changes.
    pub fn forget_ended_versions(&mut self, by: Millis) {
        if let Some(mut versions) = self.versions.take() {
            let earlier = &mut versions.earlier;
            let before = earlier.bytes();
            earlier.forget_ended(|version| self.end_of(version), by);
            self.shared.snapshots.count_bytes(before, earlier.bytes());
            self.versions = Some(versions);
        }
    }

    /// Gives up all writes of transactions, because the collection is dropped, and the earlier versions, unless they are needed.
    pub(super) fn release_all(&mut self, keep_earlier: bool) {
        let Some(mut versions) = self.versions.take() else {
            return;
        };
        for own in versions.own.values() {
            self.shared.transactions.release(own.bytes());
        }
        self.shared
            .snapshots
            .count_bytes(versions.earlier.bytes(), 0);
        versions.released.give();
        if keep_earlier {
            let earlier = std::mem::take(&mut versions.earlier);
            self.versions = Some(Box::new(Versions {
                earlier,
                ..Versions::default()
            }));
        }
    }
}
