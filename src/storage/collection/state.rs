//! Everything that a collection's lock guards.

use std::sync::Arc;

use uuid::Uuid;

use crate::clock::Clock;
use crate::storage::contents::Contents;
use crate::storage::index::IndexUsage;
use crate::storage::{
    CollectionOptions, LogOp, LogSubject, Namespace, ReadPoint, Shared, SizeLimit,
};
use crate::value::{ClusterTime, Millis};

/// Everything that the lock of a collection guards. Written only under the exclusive lock.
pub(in crate::storage) struct State {
    contents: Contents,
    /// The usage of the map of `_id`s.
    id_usage: IndexUsage,
    options: CollectionOptions,
    limit: Option<SizeLimit>,
    dropped: bool,
    /// What a dropped collection held, for snapshots from before that time.
    past: Option<(ClusterTime, Box<Contents>)>,
    /// How often the collection was renamed. A reader that works in steps compares it.
    renames: u32,
}

// === impl State ===

impl State {
    pub fn new(namespace: Namespace, uuid: Uuid, options: CollectionOptions) -> Self {
        let subject = LogSubject::collection(namespace, uuid);
        let mut contents = Contents::new(Arc::default(), subject);
        contents.keep_images(options.keeps_images);
        Self {
            contents,
            id_usage: IndexUsage::since(Millis(0)),
            options,
            limit: None,
            dropped: false,
            past: None,
            renames: 0,
        }
    }

    /// Attaches the collection to a server.
    pub(super) fn join(&mut self, clock: Option<&Clock>, shared: Arc<Shared>) {
        if let Some(clock) = clock {
            self.id_usage = IndexUsage::since(clock.now());
        }
        self.contents.share(shared);
    }

    pub(super) fn set_limit(&mut self, limit: Option<SizeLimit>) {
        self.limit = limit;
    }

    #[inline]
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Returns what a reader at this point sees. A dropped collection is empty, but not for an earlier snapshot.
    #[inline]
    pub fn contents_at(&self, at: ReadPoint) -> &Contents {
        match &self.past {
            None => &self.contents,
            Some((until, past)) => match at.as_of() {
                Some(time) if time < *until => past,
                _ => &self.contents,
            },
        }
    }

    #[inline]
    pub fn contents_mut(&mut self) -> &mut Contents {
        &mut self.contents
    }

    #[inline]
    pub fn id_usage(&self) -> &IndexUsage {
        &self.id_usage
    }

    pub fn namespace(&self) -> &Namespace {
        &self.contents.subject().namespace
    }

    pub fn renames(&self) -> u32 {
        self.renames
    }

    pub(super) fn rename(&mut self, to: Namespace) {
        self.contents.rename(to);
        self.renames += 1;
    }

    #[inline]
    pub fn options(&self) -> &CollectionOptions {
        &self.options
    }

    pub fn options_mut(&mut self) -> &mut CollectionOptions {
        &mut self.options
    }

    #[inline]
    pub fn limit(&self) -> Option<&SizeLimit> {
        self.limit.as_ref()
    }

    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// Returns what the log is told when the collection is created: its settings.
    pub fn created(&self) -> LogOp {
        LogOp::Create {
            options: Box::new(self.options.clone()),
            default: self.contents.default_ttl(),
        }
    }

    /// Tells the log that the collection was created.
    pub fn record_created(&self, now: Millis) {
        self.contents.record(now, || self.created());
    }

    /// Takes out what a dropped collection holds for snapshots.
    pub(super) fn take_past(&mut self) -> Option<Box<Contents>> {
        self.past.take().map(|(_, contents)| contents)
    }

    /// Marks the collection as dropped and returns its contents, so that the caller can free them without the lock. They stay
    /// for snapshots from before `kept`.
    pub(super) fn empty(&mut self, kept: Option<ClusterTime>) -> Option<Box<dyn Send>> {
        self.dropped = true;
        let contents = Box::new(self.contents.take(kept.is_some()));
        match kept {
            None => Some(contents),
            Some(until) => {
                self.contents.note_changed(until);
                self.past = Some((until, contents));
                None
            }
        }
    }
}
