//! The change streams that are open through this Sundown.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ahash::AHashMap;
use parking_lot::Mutex;

use super::scope::WatchScope;
use super::stages::EventStages;
use crate::clock::monotonic;

/// The open streams by the ids of their cursors. Shared by all connections, since drivers continue a cursor on any of them.
#[derive(Default)]
pub struct OpenStreams {
    open: Mutex<AHashMap<i64, (Arc<WatchedStream>, Instant)>>,
}

pub struct WatchedStream {
    pub scope: WatchScope,
    /// Full documents of updates are looked up when the event is read.
    pub looks_up: bool,
    /// The client's stages. `None` if the cluster runs them, because the stream can meet no rules.
    pub stages: Option<EventStages>,
}

/// With more streams than this, those that the cluster must have forgotten are removed.
const MANY: usize = 10_000;

/// The cluster forgets a cursor after ten minutes, unless an administrator has changed that.
const FORGOTTEN: Duration = Duration::from_secs(60 * 60);

// === impl OpenStreams ===

impl OpenStreams {
    pub fn contains(&self, id: i64) -> bool {
        self.open.lock().contains_key(&id)
    }

    pub fn get(&self, id: i64) -> Option<Arc<WatchedStream>> {
        let mut open = self.open.lock();
        let (stream, used) = open.get_mut(&id)?;
        *used = monotonic();
        Some(Arc::clone(stream))
    }

    pub fn opened(&self, id: i64, stream: Arc<WatchedStream>) {
        let now = monotonic();
        let mut open = self.open.lock();
        if open.len() >= MANY {
            open.retain(|_, (_, used)| now - *used < FORGOTTEN);
        }
        open.insert(id, (stream, now));
    }

    pub fn closed(&self, id: i64) {
        self.open.lock().remove(&id);
    }
}
