//! Large replies, and clients that do not take them.
//!
//! A reply stands in memory until its client has read it, and nobody can say before a command has run how large its reply will be.
//! So there is no room to wait for beforehand, as there is for what comes in ([`InflateBudget`](super::inflate_budget::InflateBudget)). Instead,
//! what waits is counted, and when it is too much together, time is what becomes short: who does not read loses the
//! connection, after a second where there is a little too much and sooner where there is more, and who reads keeps it. Many clients at
//! once are faster than that, so where twice as much waits, commands that may add to it are held back until some have gone;
//! pings, logins and writes are not. While there is room a client may take as long as it likes, as with MongoDB. Small replies are not
//! looked at: the buffers of the operating system take them.

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

use super::connection::{Connection, End};
use super::stream::Stream;

/// The replies of all connections.
#[derive(Debug, Clone)]
pub(super) struct UnreadReplies {
    waiting: Arc<UnreadBytes>,
    /// Up to here nobody is in a hurry.
    enough: usize,
}

/// The bytes of the large ones, and those who have to know how many they are.
#[derive(Debug, Default)]
struct UnreadBytes {
    bytes: AtomicUsize,
    /// Told when there are more.
    more: Notify,
    /// Told when there are fewer.
    fewer: Notify,
}

/// One connection's part of them, from when a large reply is to be written until its buffer is given back.
#[derive(Debug)]
pub(super) struct UnreadShare {
    waiting: Arc<UnreadBytes>,
    size: usize,
}

/// Replies up to this size are not counted.
pub(super) const SMALL: usize = 1024 * 1024;

/// Sixteen replies of the largest kind.
const ENOUGH: usize = 256 * 1024 * 1024;

/// How long a client may take nothing, and how fast it has to read, where just a little too much waits. Where it is twice as much,
/// half as long and twice as fast.
const PATIENCE: Duration = Duration::from_secs(1);
const BYTES_PER_SECOND: u32 = 4 * 1024 * 1024;

/// Who reads may still be out of breath for that long on a busy machine.
const SHORTEST: Duration = Duration::from_millis(250);

/// Nobody is held back for longer, whatever waits: a server that takes too much memory for a while is better than one that does not
/// answer. Until then hundreds of clients that do not read have been let go.
const LONGEST_HOLD: Duration = Duration::from_secs(10);

// === impl UnreadReplies ===

impl Default for UnreadReplies {
    fn default() -> Self {
        Self::of(ENOUGH)
    }
}

impl UnreadReplies {
    pub(super) fn of(enough: usize) -> Self {
        Self {
            waiting: Arc::default(),
            enough,
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

    pub(super) fn is_too_much(&self) -> bool {
        self.waiting() > self.enough
    }

    /// No more is to be made before some of it is gone. One look at a number that hardly ever changes.
    #[inline]
    pub(super) fn is_far_too_much(&self) -> bool {
        self.waiting() / 2 > self.enough
    }

    /// Waits until there is room for more.
    async fn room(&self) {
        loop {
            let fewer = self.waiting.fewer.notified();
            if !self.is_far_too_much() {
                return;
            }
            fewer.await;
        }
    }

    /// Waits until a client that has taken so many bytes since then has had its time, whatever others add in the meantime.
    async fn too_late(&self, since: Instant, taken: usize) {
        loop {
            let more = self.waiting.more.notified();
            match self.allowed(taken).map(|allowed| since + allowed) {
                Some(end) if monotonic() >= end => return,
                Some(end) => drop(timeout_at(end.into(), more).await),
                None => more.await,
            }
        }
    }

    /// How long a client may have taken for so many bytes; for as long as it likes if there is room.
    fn allowed(&self, taken: usize) -> Option<Duration> {
        let waiting = self.waiting();
        if waiting <= self.enough {
            return None;
        }
        let earned = Duration::from_secs_f64(taken as f64 / f64::from(BYTES_PER_SECOND));
        let share = self.enough as f64 / waiting as f64;
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
    /// Waits until there is room for another large reply, if this may be one.
    pub(super) async fn hold_back(&mut self, incoming: &Incoming) {
        let Incoming::Request(request) = incoming else {
            return;
        };
        if !self.handler.may_answer_at_length(request) {
            return;
        }
        let _ = timeout(LONGEST_HOLD, self.unread.room()).await;
    }

    /// Writes what stands in a large output buffer, as long as that is affordable. The buffer stays counted until it is given back.
    pub(super) async fn write_counted(&mut self) -> Result<(), End> {
        self.part = None;
        self.part = Some(self.unread.add(self.output.capacity()));
        let mut written = 0;
        // Since when the client does not take all at once, and how much it had by then.
        let (mut since, mut before) = (monotonic(), None);
        while let Some(rest) = self.output.get(written..).filter(|rest| !rest.is_empty()) {
            let taken = written - before.unwrap_or(written);
            tokio::select! {
                biased;
                wrote = self.stream.write(rest) => match wrote? {
                    0 => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
                    some => written += some,
                },
                () = self.unread.too_late(since, taken) => {
                    let left = self.output.len() - written;
                    // Nothing more can be said to it, not even what it was told before.
                    self.output = Vec::new();
                    self.part = None;
                    return Err(End::Hangup(Hangup::new(format!(
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
        if self.unread.is_too_much() {
            self.shrink();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_waits_the_less_time_there_is() {
        const MB: usize = 1 << 20;
        let unread = UnreadReplies::of(100 * MB);
        let first = unread.add(100 * MB);
        assert_eq!(unread.allowed(0), None);
        let second = unread.add(100 * MB);
        assert_eq!(unread.allowed(0), Some(PATIENCE / 2));
        assert_eq!(
            unread.allowed(8 * MB),
            Some(Duration::from_millis(1500)),
            "who reads has more"
        );
        let much = unread.add(10_000 * MB);
        assert_eq!(unread.allowed(0), Some(SHORTEST));
        drop((first, second));
        assert!(unread.is_too_much());
        drop(much);
        assert_eq!((unread.waiting(), unread.allowed(0)), (0, None));
    }
}
