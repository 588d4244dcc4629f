//! The log of all changes, which change streams and readers of `local.oplog.rs` follow.
//!
//! Recording is off until somebody asks for changes ([`ChangeLog::start`]) and then stays on. While it is off, a write reads
//! one number and, once per second, stores one: so the log knows whether a change is missing before its first entry. While
//! it is on, each commit appends an entry under the lock of its collection. Giving out the time and appending are one step
//! under the lock of the log, so the entries are in the order of their times, and a reader never sees a gap that is filled
//! later.
//!
//! The log is bounded in bytes and in time. The oldest entries go first, and a reader that needs one of them is told so.

mod entry;
mod followers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{RwLock, RwLockWriteGuard};

use super::LogicalClock;
use crate::value::{ClusterTime, Millis};
use crate::wait::Wait;
use followers::Followers;

pub use entry::{Images, LogEntry, LogOp, LogSubject, LogTransaction, NoDelta, UpdateDelta};
pub use followers::LogScope;

/// The log of a server.
#[derive(Debug)]
pub struct ChangeLog {
    /// [`RECORDING`], or the second of the latest write (0 if there was none).
    state: AtomicU64,
    kept: RwLock<Kept>,
    followers: Arc<Followers>,
}

/// The place of an entry in the log. The first entry ever has number 0; no number is used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(u64);

/// The beginning of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogStart {
    pub time: ClusterTime,
    pub wall: Millis,
    /// Nothing had been written before.
    pub is_complete: bool,
}

/// The turn of a write to be recorded. While it is held, the log is locked: so the entries are in the order of their times,
/// and a snapshot of any time shows what the log has told up to that time, over all collections.
pub(super) struct LogTurn<'a> {
    time: ClusterTime,
    wall: Millis,
    kept: RwLockWriteGuard<'a, Kept>,
    followers: &'a Followers,
}

/// The error that the log no longer has, or never had, changes that a reader needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryLost;

/// How much the log keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    pub bytes: usize,
    pub age: Duration,
}

#[derive(Debug)]
struct Kept {
    entries: VecDeque<Arc<LogEntry>>,
    /// The position of the first entry.
    first: u64,
    bytes: usize,
    /// When recording began.
    started: Option<LogStart>,
    /// Changes up to this time may be missing. `None` if none are.
    lost: Option<ClusterTime>,
    limits: LogLimits,
}

const RECORDING: u64 = u64::MAX;

/// How many entries a reader looks at in one hold of the lock.
const SCAN: usize = 256;

// === impl LogLimits ===

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            bytes: 64 << 20,
            age: Duration::from_secs(3600),
        }
    }
}

// === impl ChangeLog ===

impl Default for ChangeLog {
    fn default() -> Self {
        Self {
            state: AtomicU64::new(0),
            kept: RwLock::new(Kept {
                entries: VecDeque::new(),
                first: 0,
                bytes: 0,
                started: None,
                lost: None,
                limits: LogLimits::default(),
            }),
            followers: Arc::default(),
        }
    }
}

impl ChangeLog {
    pub fn set_limits(&self, limits: LogLimits) {
        self.kept.write().limits = limits;
    }

    /// Returns whether a write at `now` has nothing to tell the log: it is off, and knows that there was a write in this
    /// second.
    #[inline]
    pub(super) fn is_indifferent(&self, now: Millis) -> bool {
        self.state.load(Ordering::Relaxed) == second(now)
    }

    /// Notes a write. Returns whether it must be recorded.
    pub(super) fn note_write(&self, now: Millis) -> bool {
        let latest = |state: u64| (state != RECORDING).then(|| state.max(second(now)));
        let noted = self
            .state
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, latest);
        noted.is_err()
    }

    pub fn is_recording(&self) -> bool {
        self.state.load(Ordering::Relaxed) == RECORDING
    }

    /// Starts to record, unless that has begun already.
    pub fn start(&self, clock: &LogicalClock, now: Millis) {
        let mut kept = self.kept.write();
        let latest_write = self.state.swap(RECORDING, Ordering::Relaxed);
        if latest_write != RECORDING {
            let started = clock.tick(now);
            let end_of_second = |second| {
                ClusterTime::from_parts(u32::try_from(second).unwrap_or(u32::MAX), u32::MAX)
            };
            kept.lost = (latest_write > 0).then(|| end_of_second(latest_write).min(started));
            kept.started = Some(LogStart {
                time: started,
                wall: now,
                is_complete: latest_write == 0,
            });
        }
    }

    /// Returns when recording began, if it has.
    pub fn started(&self) -> Option<LogStart> {
        self.kept.read().started
    }

    /// Returns the moment of the newest entry.
    pub(super) fn latest_wall(&self) -> Option<Millis> {
        self.kept.read().entries.back().map(|entry| entry.wall)
    }

    /// Returns the time of the oldest entry that is kept.
    pub fn oldest(&self) -> Option<ClusterTime> {
        self.kept.read().entries.front().map(|entry| entry.time)
    }

    /// Returns whether no entry was ever dropped.
    pub fn is_whole(&self) -> bool {
        self.kept.read().first == 0
    }

    /// Returns the position of the oldest entry that is kept.
    pub fn beginning(&self) -> LogPosition {
        LogPosition(self.kept.read().first)
    }

    /// Gives out the logical time of a write that is recorded, and the right to append it. Called under the locks of its
    /// collections. No other entry gets a time until the turn is over.
    pub(super) fn turn(&self, clock: &LogicalClock, now: Millis) -> LogTurn<'_> {
        let kept = self.kept.write();
        LogTurn {
            time: clock.tick(now),
            wall: now,
            kept,
            followers: &self.followers,
        }
    }

    /// Returns the position behind the last entry.
    pub fn end(&self) -> LogPosition {
        LogPosition(self.kept.read().end())
    }

    /// Returns the position of the first entry at or after a time.
    pub fn seek(&self, time: ClusterTime) -> Result<LogPosition, HistoryLost> {
        let kept = self.kept.read();
        if kept.lost.is_some_and(|lost| time <= lost) {
            return Err(HistoryLost);
        }
        let before = kept.entries.partition_point(|entry| entry.time < time);
        Ok(LogPosition(kept.first + before as u64))
    }

    /// Passes the entries from a position on to `take`, until it returns `false` or many were passed. Returns the position
    /// behind the last one, and whether the end of the log was reached. `take` runs under the lock of the log.
    pub fn read(
        &self,
        from: LogPosition,
        mut take: impl FnMut(&Arc<LogEntry>) -> bool,
    ) -> Result<(LogPosition, bool), HistoryLost> {
        let kept = self.kept.read();
        let skipped = from.0.checked_sub(kept.first).ok_or(HistoryLost)?;
        let mut at = from.0;
        let rest = kept.entries.iter().skip(skipped as usize);
        for entry in rest.take(SCAN) {
            at += 1;
            if !take(entry) {
                break;
            }
        }
        Ok((LogPosition(at), at >= kept.end()))
    }

    /// Returns a wait that ends when an entry in the scope is added after this call.
    pub fn arrival(&self, scope: &LogScope) -> Wait {
        Wait::until(self.followers.listen(scope))
    }
}

// === impl LogTurn ===

impl LogTurn<'_> {
    pub fn time(&self) -> ClusterTime {
        self.time
    }

    /// Appends a change.
    pub fn append(self, subject: &Arc<LogSubject>, op: LogOp) {
        let entry = self.entry(0, Arc::clone(subject), op, None);
        self.push(&[entry]);
    }

    /// Appends the changes of a transaction, in the order of its statements. They share one time.
    pub fn append_all(
        self,
        transaction: LogTransaction,
        changes: impl IntoIterator<Item = (Arc<LogSubject>, LogOp)>,
    ) {
        let transaction = Arc::new(transaction);
        let entries: Vec<_> = (0..)
            .zip(changes)
            .map(|(index, (subject, op))| {
                self.entry(index, subject, op, Some(Arc::clone(&transaction)))
            })
            .collect();
        self.push(&entries);
    }

    fn entry(
        &self,
        index: u32,
        subject: Arc<LogSubject>,
        op: LogOp,
        transaction: Option<Arc<LogTransaction>>,
    ) -> Arc<LogEntry> {
        Arc::new(LogEntry {
            time: self.time,
            index,
            wall: self.wall,
            subject,
            op,
            transaction,
        })
    }

    /// Ends the turn: the log has the entries, and their followers are woken.
    fn push(mut self, entries: &[Arc<LogEntry>]) {
        for entry in entries {
            self.kept.push(Arc::clone(entry));
        }
        self.kept.shrink(self.wall);
        drop(self.kept);
        self.followers.give(entries);
    }
}

// === impl Kept ===

impl Kept {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn push(&mut self, entry: Arc<LogEntry>) {
        self.bytes += entry.weight();
        self.entries.push_back(entry);
    }

    /// Drops what is too old or too much.
    fn shrink(&mut self, now: Millis) {
        let age = i64::try_from(self.limits.age.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.0.saturating_sub(age);
        let newest = self.entries.back().map(|entry| entry.time);
        while let Some(first) = self.entries.front()
            && Some(first.time) != newest // the newest changes stay, however large they are
            && (self.bytes > self.limits.bytes || first.wall.0 < oldest)
        {
            self.bytes -= first.weight();
            self.lost = Some(first.time);
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

/// Returns the whole second of a moment, as a number that is neither 0 nor [`RECORDING`].
#[inline]
fn second(now: Millis) -> u64 {
    now.seconds().max(1).unsigned_abs()
}

#[cfg(test)]
mod tests;
