//! A memory budget for compressed messages.
//!
//! A few kilobytes can inflate to as many megabytes, before the client has logged in. So all connections share one budget:
//! a connection with a large message waits for its share before it inflates the message. The permit travels with the bytes
//! of the message, and is returned when the last reference to them is dropped. Small messages need no permit. Uncompressed
//! messages need none either, because the client has sent every byte of them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::error::Hangup;
use crate::wire::MAX_MESSAGE;

/// The budget, shared by all connections. Permits are granted in the order of the requests, so that large messages get
/// their turn, too.
#[derive(Debug, Clone)]
pub(super) struct InflateBudget {
    /// Free kilobytes.
    free: Arc<Semaphore>,
}

/// Messages up to this size need no permit. They come and go within a step, and mostly one per thread.
pub(super) const SMALL: usize = 1024 * 1024;

/// Enough for ten of the largest messages.
const TOTAL: usize = 512 * 1024 * 1024;

/// The longest wait for a permit. Commands with large messages rarely take longer. If the budget is exhausted for that
/// long, an error is better for the client than an endless wait.
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

    /// Waits for a permit for a message that claims to have this size. A size above the limit is cut to the limit here, and
    /// the decoder refuses the message.
    pub(super) async fn acquire(&self, size: usize) -> Result<OwnedSemaphorePermit, Hangup> {
        // At most 48 million bytes, so the number of kilobytes fits.
        let kilobytes = size.min(MAX_MESSAGE).div_ceil(KILOBYTE) as u32;
        let permit = Arc::clone(&self.free).acquire_many_owned(kilobytes);
        match timeout(LONGEST_WAIT, permit).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Hangup::new(format!(
                "no room to unpack {size} bytes within {LONGEST_WAIT:?}"
            ))),
        }
    }

    /// Returns the free bytes.
    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.available_permits() * KILOBYTE
    }
}
