//! Earlier versions of documents, kept for open snapshots.

use std::collections::BTreeMap;

use ahash::AHashMap;
use smallvec::SmallVec;

use crate::storage::RecordId;
use crate::ttl::{End, OwnTtl};
use crate::value::{ClusterTime, Millis};

/// A version of a document that a write has replaced or removed.
pub(in crate::storage) struct EarlierVersion {
    pub bytes: Box<[u8]>,
    pub ts: Millis,
    pub ttl: OwnTtl,
    /// The hash of the key of its `_id`.
    pub hash: u64,
}

/// The versions of a collection's records that are no longer current. The first version of a record is the one before the
/// first write that was noted.
#[derive(Default)]
pub(in crate::storage) struct Earlier {
    records: BTreeMap<RecordId, SmallVec<[Ended; 1]>>,
    /// The records of the kept versions by the hash of their `_id`: the collection's own map forgets removed documents.
    by_id: AHashMap<u64, SmallVec<[RecordId; 1]>>,
    /// What the versions take.
    bytes: usize,
    /// No version ended before this time, so no snapshot from then on needs any that ended by it.
    first: Option<ClusterTime>,
}

/// A version, `None` if there was no document, and the time of the write that ended it.
struct Ended {
    at: ClusterTime,
    /// The write has set only `_ts`.
    is_touch: bool,
    version: Option<EarlierVersion>,
}

// === impl Earlier ===

impl Earlier {
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many versions there are at most.
    pub fn most(&self) -> u64 {
        (self.bytes / Ended::OVERHEAD) as u64
    }

    /// Notes the version of a record before a write at that time. `is_touch` says that the write sets only `_ts`.
    pub fn note(
        &mut self,
        id: RecordId,
        version: Option<EarlierVersion>,
        at: ClusterTime,
        is_touch: bool,
    ) {
        if let Some(version) = &version {
            let ids = self.by_id.entry(version.hash).or_default();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        self.first.get_or_insert(at);
        let ended = Ended {
            at,
            is_touch,
            version,
        };
        self.bytes += ended.bytes();
        self.records.entry(id).or_default().push(ended);
    }

    /// Returns the version of a record at the time of a snapshot. The outer `None` means that it has not changed since.
    pub fn as_of(&self, id: RecordId, time: ClusterTime) -> Option<Option<&EarlierVersion>> {
        Ended::as_of(self.records.get(&id)?, time)
    }

    /// Returns whether a record was changed since a snapshot, apart from its `_ts`.
    pub fn has_changed(&self, id: RecordId, time: ClusterTime) -> bool {
        let Some(ended) = self.records.get(&id) else {
            return false;
        };
        let since = &ended[Ended::first_after(ended, time)..];
        // The latest first: most writes set more than `_ts`.
        since.iter().rev().any(|ended| !ended.is_touch)
    }

    /// Returns the records from that one on that have changed since a snapshot, with their versions then.
    pub fn since(
        &self,
        time: ClusterTime,
        from: RecordId,
    ) -> impl DoubleEndedIterator<Item = (RecordId, Option<&EarlierVersion>)> {
        let records = self.records.range(from..);
        records.filter_map(move |(id, ended)| Some((*id, Ended::as_of(ended, time)?)))
    }

    /// Returns the records with kept versions whose `_id` has that hash.
    pub fn by_id(&self, hash: u64) -> &[RecordId] {
        self.by_id.get(&hash).map_or(&[], SmallVec::as_slice)
    }

    /// Returns whether some version may be needed no more. `oldest` is the oldest open snapshot.
    pub fn has_unneeded(&self, oldest: Option<ClusterTime>) -> bool {
        let Some(first) = self.first else {
            return false;
        };
        oldest.is_none_or(|oldest| first <= oldest)
    }

    /// Drops the versions that the oldest open snapshot does not need.
    pub fn prune(&mut self, oldest: ClusterTime) {
        let (mut first, mut bytes) = (None, 0);
        self.records.retain(|_, ended| {
            ended.retain(|ended| ended.at > oldest);
            bytes += ended.iter().map(Ended::bytes).sum::<usize>();
            if let Some(ended) = ended.first() {
                first = Some(first.map_or(ended.at, |first: ClusterTime| first.min(ended.at)));
            }
            !ended.is_empty()
        });
        (self.first, self.bytes) = (first, bytes);
        self.enter_ids();
    }

    /// Forgets the versions whose documents have ended, because a rule is about to change that must not revive them.
    pub fn forget_ended(&mut self, end: impl Fn(&EarlierVersion) -> End, by: Millis) {
        for ended in self.records.values_mut().flatten() {
            if ended
                .version
                .as_ref()
                .is_some_and(|version| end(version).has_come(by))
            {
                self.bytes -= ended.bytes();
                ended.version = None;
                self.bytes += ended.bytes();
            }
        }
        self.enter_ids();
    }

    fn enter_ids(&mut self) {
        self.by_id.clear();
        for (id, ended) in &self.records {
            for version in ended.iter().filter_map(|ended| ended.version.as_ref()) {
                let ids = self.by_id.entry(version.hash).or_default();
                if !ids.contains(id) {
                    ids.push(*id);
                }
            }
        }
    }
}

// === impl Ended ===

impl Ended {
    /// What an entry takes besides the document, roughly.
    const OVERHEAD: usize = 128;

    fn bytes(&self) -> usize {
        let document = self
            .version
            .as_ref()
            .map_or(0, |version| version.bytes.len());
        document + Self::OVERHEAD
    }

    /// Returns the place of the first version that ended after that time. The versions of a record are in the order of their
    /// ends, and a document that is often written may have hundreds of thousands.
    fn first_after(ended: &[Self], time: ClusterTime) -> usize {
        ended.partition_point(|ended| ended.at <= time)
    }

    /// Returns the first version that ended after that time.
    fn as_of(ended: &[Self], time: ClusterTime) -> Option<Option<&EarlierVersion>> {
        let ended = ended.get(Self::first_after(ended, time))?;
        Some(ended.version.as_ref())
    }
}
