//! Room for what compressed messages become.
//!
//! A few kilobytes become as many megabytes, before anybody has logged in. So all connections together unpack no more at once than
//! fits into one room: who has a large message waits for its place before it is inflated. The place is kept by the bytes themselves
//! and is free again when the last of them is dropped, whoever holds them until then. Small messages do not come here, and a
//! message that came in full length has none to wait for: the client has sent every byte of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::Hangup;
use crate::wire::MAX_MESSAGE;

/// The room, shared by all connections. Places are given in the order in which they were asked for, so that large messages get
/// their turn, too.
#[derive(Debug, Clone)]
pub(super) struct InflateBudget {
    /// Kilobytes that are free.
    free: Arc<Semaphore>,
}

/// What is no larger needs no place: such messages come and go within a step, and mostly one per thread.
pub(super) const SMALL: usize = 1024 * 1024;

/// Ten of the largest messages.
const TOTAL: usize = 512 * 1024 * 1024;

/// Commands on large messages take no longer, as a rule. If all places are taken for that long, it is better for a client to learn
/// that it is not served than to wait without an end.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

const KILOBYTE: usize = 1024;

// === impl InflateBudget ===

impl Default for InflateBudget {
    fn default() -> Self {
        Self::of(TOTAL)
    }
}

impl InflateBudget {
    pub(super) fn of(bytes: usize) -> Self {
        Self {
            free: Arc::new(Semaphore::new(bytes / KILOBYTE)),
        }
    }

    /// Waits for a place for a message that says it will be of that size. What says that it is larger than any may be is not
    /// believed, and refused when it is looked into.
    pub(super) async fn place(&self, size: usize) -> Result<OwnedSemaphorePermit, Hangup> {
        // At most 48 million bytes.
        let kilobytes = size.min(MAX_MESSAGE).div_ceil(KILOBYTE) as u32;
        let place = Arc::clone(&self.free).acquire_many_owned(kilobytes);
        match timeout(LONGEST_WAIT, place).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(Hangup::new(format!(
                "no room to unpack {size} bytes within {LONGEST_WAIT:?}"
            ))),
        }
    }

    /// Bytes that are free now.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits() * KILOBYTE
    }
}
