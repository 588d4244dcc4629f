//! Limits the memory of large replies that clients do not read.
//!
//! A reply stays in memory until its client has read it, and its size is unknown until the command has run. So the server
//! cannot reserve memory for it in advance, as it does for incoming messages
//! ([`InflateBudget`](super::inflate_budget::InflateBudget)). Instead it counts the bytes that wait to be read:
//!
//! - Below the limit a client may take as long as it likes, as with MongoDB.
//! - Above the limit a client that does not read loses its connection: after a second if the excess is small, sooner if it
//!   is large. A client that reads keeps its connection.
//! - Many clients at once can add replies faster than that. So above twice the limit the server holds back commands that
//!   may have large replies, until some bytes are gone. Pings, logins and writes are not held back.
//!
//! Small replies are not counted: the buffers of the operating system take them.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::sync::Notify;
use tokio::time::{timeout, timeout_at};

use crate::clock::monotonic;
use crate::error::Hangup;
use crate::handler::Handler;
use crate::wire::Incoming;

use super::connection::{Connection, ConnectionEnd};
use super::stream::Stream;

/// The unread replies of all connections.
#[derive(Debug, Clone)]
pub(super) struct UnreadReplies {
    waiting: Arc<UnreadBytes>,
    /// Up to this many bytes clients may read slowly.
    limit: usize,
}

/// The number of bytes in large replies, and the tasks that wait for changes of it.
#[derive(Debug, Default)]
struct UnreadBytes {
    bytes: AtomicUsize,
    /// Notified when the number grows.
    more: Notify,
    /// Notified when the number shrinks.
    fewer: Notify,
}

/// One connection's share of the bytes. It lives from the first write of a large reply until the output buffer is freed.
#[derive(Debug)]
pub(super) struct UnreadShare {
    waiting: Arc<UnreadBytes>,
    size: usize,
}

/// Replies up to this size are not counted.
pub(super) const SMALL: usize = 1024 * 1024;

/// Sixteen of the largest replies.
const DEFAULT_LIMIT: usize = 256 * 1024 * 1024;

/// How long a client may pause, and how fast it must read, if the bytes are just above the limit. At twice the limit it has
/// half the time and must read twice as fast.
const PATIENCE: Duration = Duration::from_secs(1);
const BYTES_PER_SECOND: u32 = 4 * 1024 * 1024;

/// The shortest time that a client gets. On a busy machine even a client that reads may pause this long.
const SHORTEST: Duration = Duration::from_millis(250);

/// The longest time that a command is held back: a server that uses too much memory for a while is better than one that
/// does not answer. By then the server has disconnected hundreds of clients that do not read.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

// === impl UnreadReplies ===

impl Default for UnreadReplies {
    fn default() -> Self {
        Self::with_limit(DEFAULT_LIMIT)
    }
}

impl UnreadReplies {
    pub(super) fn with_limit(limit: usize) -> Self {
        Self {
            waiting: Arc::default(),
            limit,
        }
    }

    pub(super) fn add(&self, size: usize) -> UnreadShare {
        self.waiting.bytes.fetch_add(size, Ordering::Relaxed);
        self.waiting.more.notify_waiters();
        UnreadShare {
            waiting: Arc::clone(&self.waiting),
            size,
        }
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_above_limit(&self) -> bool {
        self.waiting() > self.limit
    }

    /// Returns whether commands with large replies must wait until some bytes are gone. It reads one number that hardly
    /// ever changes.
    #[inline]
    pub(super) fn is_far_above_limit(&self) -> bool {
        self.waiting() / 2 > self.limit
    }

    /// Waits until there is room for more.
    async fn wait_for_room(&self) {
        loop {
            let fewer = self.waiting.fewer.notified();
            if !self.is_far_above_limit() {
                return;
            }
            fewer.await;
        }
    }

    /// Waits until a client that has read `read` bytes since `since` has used up its time. The time shrinks if others add
    /// replies.
    async fn time_used_up(&self, since: Instant, read: usize) {
        loop {
            let more = self.waiting.more.notified();
            match self.allowed(read).map(|allowed| since + allowed) {
                Some(end) if monotonic() >= end => return,
                Some(end) => drop(timeout_at(end.into(), more).await),
                None => more.await,
            }
        }
    }

    /// Returns how long a client may take to read this many bytes, or `None` if there is no limit because there is room.
    fn allowed(&self, read: usize) -> Option<Duration> {
        let waiting = self.waiting();
        if waiting <= self.limit {
            return None;
        }
        let earned = Duration::from_secs_f64(read as f64 / f64::from(BYTES_PER_SECOND));
        let share = self.limit as f64 / waiting as f64;
        Some((PATIENCE + earned).mul_f64(share).max(SHORTEST))
    }
}

// === impl UnreadShare ===

impl Drop for UnreadShare {
    fn drop(&mut self) {
        self.waiting.bytes.fetch_sub(self.size, Ordering::Relaxed);
        self.waiting.fewer.notify_waiters();
    }
}

// === impl Connection ===

impl<H: Handler, S: Stream> Connection<H, S> {
    /// Waits until there is room for another large reply, if this request may have one.
    pub(super) async fn hold_back(&mut self, incoming: &Incoming) {
        let Incoming::Request(request) = incoming else {
            return;
        };
        if !self.handler.may_answer_at_length(request) {
            return;
        }
        let _ = timeout(LONGEST_HOLD, self.unread_replies.wait_for_room()).await;
    }

    /// Writes a large output buffer, for as long as the limits allow. The buffer stays counted until it is freed.
    pub(super) async fn write_counted(&mut self) -> Result<(), ConnectionEnd> {
        self.unread_share = None;
        self.unread_share = Some(self.unread_replies.add(self.output.capacity()));
        let mut written = 0;
        // The time since when the client has not taken everything at once, and the bytes it had read by then.
        let (mut since, mut before) = (monotonic(), None);
        while let Some(rest) = self.output.get(written..).filter(|rest| !rest.is_empty()) {
            let read = written - before.unwrap_or(written);
            tokio::select! {
                biased;
                wrote = self.stream.write(rest) => match wrote? {
                    0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                    some => written += some,
                },
                () = self.unread_replies.time_used_up(since, read) => {
                    let left = self.output.len() - written;
                    // Nothing more can be sent to this client, not even its earlier replies.
                    self.output = Vec::new();
                    self.unread_share = None;
                    return Err(ConnectionEnd::Hangup(Hangup::new(format!(
                        "{left} bytes of replies wait to be read, and too many others wait elsewhere"
                    ))));
                }
            }
            if before.is_none() {
                (since, before) = (monotonic(), Some(written));
            }
        }
        self.stream.flush().await?;
        self.output.clear();
        if self.unread_replies.is_above_limit() {
            self.shrink();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_less_time_when_more_bytes_wait() {
        const MB: usize = 1 << 20;
        let unread_replies = UnreadReplies::with_limit(100 * MB);
        let first = unread_replies.add(100 * MB);
        assert_eq!(unread_replies.allowed(0), None);
        let second = unread_replies.add(100 * MB);
        assert_eq!(unread_replies.allowed(0), Some(PATIENCE / 2));
        assert_eq!(
            unread_replies.allowed(8 * MB),
            Some(Duration::from_millis(1500)),
            "a client that reads has more time"
        );
        let third = unread_replies.add(10_000 * MB);
        assert_eq!(unread_replies.allowed(0), Some(SHORTEST));
        drop((first, second));
        assert!(unread_replies.is_above_limit());
        drop(third);
        assert_eq!(
            (unread_replies.waiting(), unread_replies.allowed(0)),
            (0, None)
        );
    }
}
