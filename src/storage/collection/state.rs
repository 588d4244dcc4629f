//! Everything that a collection's lock guards.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::clock::Clock;
use crate::storage::contents::Contents;
use crate::storage::index::Usage;
use crate::storage::{Namespace, Options, SizeLimit};
use crate::value::Millis;

pub(in crate::storage) struct State {
    namespace: Namespace,
    contents: Contents,
    /// That of the map of `_id`s.
    id_usage: Usage,
    options: Options,
    limit: Option<SizeLimit>,
    dropped: bool,
    /// How often it was given another name: readers that go on are told.
    renames: u32,
}

// === impl State ===

impl State {
    pub fn new(namespace: Namespace, options: Options) -> Self {
        Self {
            namespace,
            contents: Contents::new(Arc::default()),
            id_usage: Usage::since(Millis(0)),
            options,
            limit: None,
            dropped: false,
            renames: 0,
        }
    }

    /// The collection belongs to a server, which counts what all of its collections have freed.
    pub(super) fn join(&mut self, clock: Option<&Clock>, freed: Arc<AtomicU64>) {
        if let Some(clock) = clock {
            self.id_usage = Usage::since(clock.now());
        }
        self.contents.count_freed(freed);
    }

    pub(super) fn set_limit(&mut self, limit: Option<SizeLimit>) {
        self.limit = limit;
    }

    #[inline]
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    #[inline]
    pub fn contents_mut(&mut self) -> &mut Contents {
        &mut self.contents
    }

    #[inline]
    pub fn id_usage(&self) -> &Usage {
        &self.id_usage
    }

    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub fn renames(&self) -> u32 {
        self.renames
    }

    pub(super) fn rename(&mut self, to: Namespace) {
        self.namespace = to;
        self.renames += 1;
    }

    #[inline]
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub fn options_mut(&mut self) -> &mut Options {
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

    /// Marks it dropped and hands over what it held, so that freeing that holds up nobody.
    pub(super) fn empty(&mut self) -> Box<dyn Send> {
        self.dropped = true;
        Box::new(self.contents.take())
    }
}
