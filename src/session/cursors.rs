//! Open cursors: reads with rows left, which wait for a getMore.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::Mutex;

use super::cursor_budget::{self, CursorBudget, CursorShare};
use super::{Idle, SessionId, Source};
use crate::engine::{PlanSummary, ReadPoint, Snapshot};
use crate::error::{Code, Error, Result};
use crate::value::Millis;
use crate::wait::{Flag, Wait};

/// The id of an open cursor. Zero means that there is no cursor.
pub type CursorId = i64;

/// The time after which an idle cursor is removed.
const TIMEOUT_MINUTES: u32 = 10;
/// The limit of open cursors of all clients together. MongoDB has no such limit; it bounds the memory.
const MAX_OPEN: usize = 100_000;

/// An estimate of the memory for a command, in multiples of its size: its bytes, and the trees that were parsed from them.
const COPIES: usize = 4;

const NO_LIMIT: u64 = u64::MAX;

/// Facts about a cursor besides its rows.
#[derive(Debug, Clone)]
pub struct CursorInfo {
    /// `db.collection`
    pub namespace: Arc<str>,
    pub session: Option<SessionId>,
    /// The number of the transaction that it belongs to.
    pub transaction: Option<i64>,
    /// The snapshot that it reads, if that is its own.
    pub snapshot: Option<Arc<Snapshot>>,
    /// The digest of the user who opened it, if logins are required.
    pub owner: Option<[u8; 32]>,
    pub no_timeout: bool,
    /// A getMore waits for rows if there are none.
    pub awaits: bool,
    /// A single row may take long to compute.
    pub is_slow: bool,
    /// Its rows are written to a collection, and each of them may have to wait for a transaction.
    pub writes: bool,
    /// The command that opened it, for currentOp and getMore's `originatingCommand`.
    pub command: Bytes,
    /// Where that command's reads started from. A getMore reads from the same point, moved to its own `now`.
    pub at: ReadPoint,
    usage: Arc<CursorUsage>,
}

/// What the commands of a cursor have done so far. Written by the command that has checked the cursor out.
#[derive(Debug)]
struct CursorUsage {
    /// Microseconds of the opening command's `maxTimeMS` that are left for its getMores.
    micros_left: AtomicU64,
    batches: AtomicU64,
    rows: AtomicU64,
    /// When the last command began.
    last: AtomicI64,
}

/// A cursor that a command has checked out.
pub struct OpenCursor {
    pub id: CursorId,
    pub source: Box<dyn Source>,
    pub info: Arc<CursorInfo>,
    /// Set if the cursor is killed meanwhile.
    killed: Arc<Flag>,
    part: CursorShare,
}

/// The open cursors of a server.
pub struct Cursors {
    open: DashMap<CursorId, CursorSlot, ahash::RandomState>,
    count: AtomicUsize,
    ids: ahash::RandomState,
    next: AtomicUsize,
    idle: Idle,
    timed_out: AtomicUsize,
    opened: AtomicUsize,
    waiting: Arc<CursorBudget>,
}

struct CursorSlot {
    info: Arc<CursorInfo>,
    used: AtomicU32,
    /// `None` while a command has checked the cursor out. The lock is held only to move the source out or in.
    source: Mutex<Option<IdleCursor>>,
    killed: Arc<Flag>,
}

/// The source of a waiting cursor, and its share of the memory budget.
struct IdleCursor {
    source: Box<dyn Source>,
    part: CursorShare,
}

// === impl Cursors ===

impl Cursors {
    pub fn new(idle: Idle) -> Self {
        Self::holding(cursor_budget::LIMIT, idle)
    }

    /// Creates a store with this memory limit for waiting cursors.
    fn holding(limit: usize, idle: Idle) -> Self {
        Self {
            open: DashMap::with_hasher(ahash::RandomState::new()),
            count: AtomicUsize::new(0),
            ids: ahash::RandomState::new(),
            next: AtomicUsize::new(0),
            idle,
            timed_out: AtomicUsize::new(0),
            opened: AtomicUsize::new(0),
            waiting: CursorBudget::new(limit),
        }
    }

    /// Stores a cursor that has more rows, and returns its id for the client. Fails if there are too many cursors, or if
    /// they hold too much memory.
    pub fn keep(&self, mut source: Box<dyn Source>, info: CursorInfo) -> Result<CursorId> {
        if self.count.load(Ordering::Relaxed) >= MAX_OPEN {
            return Err(Error::new(
                Code::ExceededMemoryLimit,
                format!(
                    "Cannot open a new cursor since too many cursors are already opened (limit {MAX_OPEN})"
                ),
            ));
        }
        let mut part = self.waiting.part();
        part.set(info.weight(&mut *source))?;
        // Copied, so that the cursor does not keep the client's whole message alive.
        let info = CursorInfo {
            command: Bytes::copy_from_slice(&info.command),
            ..info
        };
        let mut slot = CursorSlot {
            info: Arc::new(info),
            used: AtomicU32::new(self.idle.minute()),
            source: Mutex::new(Some(IdleCursor { source, part })),
            killed: Arc::default(),
        };
        loop {
            let id = self.fresh_id();
            match self.open.entry(id) {
                Entry::Vacant(vacant) => {
                    vacant.insert(slot);
                    self.count.fetch_add(1, Ordering::Relaxed);
                    self.opened.fetch_add(1, Ordering::Relaxed);
                    return Ok(id);
                }
                Entry::Occupied(_) => slot.used = AtomicU32::new(self.idle.minute()),
            }
        }
    }

    /// Returns a keyed hash of a counter, so that clients cannot guess the cursors of others. It is positive, as in
    /// MongoDB.
    fn fresh_id(&self) -> CursorId {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        ((self.ids.hash_one(n) >> 1) as i64).max(1)
    }

    /// Checks a cursor out for a getMore. The caller puts it back with [`Cursors::put_back`] or ends it with
    /// [`Cursors::finish`].
    pub fn check_out(&self, id: CursorId) -> Result<OpenCursor> {
        let Some(slot) = self.open.get(&id) else {
            return Err(not_found(id));
        };
        let Some(IdleCursor { source, part }) = slot.source.lock().take() else {
            return Err(Error::new(
                Code::CursorInUse,
                format!("cursor id {id} is already in use"),
            ));
        };
        Ok(OpenCursor {
            id,
            source,
            info: Arc::clone(&slot.info),
            killed: Arc::clone(&slot.killed),
            part,
        })
    }

    /// Returns the facts about a cursor without checking it out.
    pub fn info(&self, id: CursorId) -> Option<Arc<CursorInfo>> {
        self.open.get(&id).map(|slot| Arc::clone(&slot.info))
    }

    /// Puts back a cursor that has more rows. A cursor that was killed meanwhile is dropped. A cursor that now exceeds the
    /// memory budget is removed.
    pub fn put_back(&self, cursor: OpenCursor) -> Result<()> {
        let OpenCursor {
            id,
            mut source,
            info,
            mut part,
            ..
        } = cursor;
        if let Err(full) = part.set(info.weight(&mut *source)) {
            self.remove(id);
            return Err(full);
        }
        if let Some(slot) = self.open.get(&id) {
            self.idle.touch(&slot.used);
            *slot.source.lock() = Some(IdleCursor { source, part });
        }
        Ok(())
    }

    /// Removes a cursor that has no more rows, or that failed.
    pub fn finish(&self, id: CursorId) {
        self.remove(id);
    }

    /// Kills a cursor and returns whether it existed. A cursor in use ends together with the command that uses it.
    pub fn kill(&self, id: CursorId) -> bool {
        self.remove(id)
    }

    fn remove(&self, id: CursorId) -> bool {
        let Some((_, slot)) = self.open.remove(&id) else {
            return false;
        };
        slot.killed.set();
        self.count.fetch_sub(1, Ordering::Relaxed);
        true
    }

    /// Kills the cursors that `which` selects: those of a dropped collection, of an ended session, ...
    pub fn kill_where(&self, mut which: impl FnMut(&CursorInfo) -> bool) -> usize {
        let mut killed = 0;
        self.open.retain(|_, slot| {
            let keep = !which(&slot.info);
            if !keep {
                slot.killed.set();
                killed += 1;
            }
            keep
        });
        self.count.fetch_sub(killed, Ordering::Relaxed);
        killed
    }

    /// Returns the transactions that cursors belong to.
    pub fn transactions(&self) -> Vec<(SessionId, i64)> {
        let info = |info: &CursorInfo| info.session.zip(info.transaction);
        self.open
            .iter()
            .filter_map(|slot| info(&slot.info))
            .collect()
    }

    /// Removes the cursors that were not used for ten minutes. Called once a minute.
    pub fn sweep(&self) {
        let mut over = 0;
        self.open.retain(|_, slot| {
            let keep = slot.source.lock().is_none()
                || slot.info.no_timeout
                || !self.idle.is_over(&slot.used, TIMEOUT_MINUTES);
            over += usize::from(!keep);
            keep
        });
        self.count.fetch_sub(over, Ordering::Relaxed);
        self.timed_out.fetch_add(over, Ordering::Relaxed);
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of cursors that timed out and that were opened, since the start.
    pub fn totals(&self) -> (usize, usize) {
        (
            self.timed_out.load(Ordering::Relaxed),
            self.opened.load(Ordering::Relaxed),
        )
    }

    pub fn no_timeout_count(&self) -> usize {
        self.open.iter().filter(|slot| slot.info.no_timeout).count()
    }

    /// Visits the cursors that currently wait for a getMore, with what they read from.
    pub fn each_idle(&self, mut visit: impl FnMut(CursorId, &CursorInfo, Option<PlanSummary>)) {
        for slot in &self.open {
            let idle = slot.source.lock();
            let summary = idle.as_ref().map(|idle| idle.source.plan_summary());
            drop(idle);
            if let Some(summary) = summary {
                visit(*slot.key(), &slot.info, summary);
            }
        }
    }
}

// === impl OpenCursor ===

impl OpenCursor {
    pub fn is_killed(&self) -> bool {
        self.killed.is_set()
    }

    /// Like [`Source::arrival`], and also ends when the cursor is killed.
    pub fn arrival(&self) -> Option<Wait> {
        let arrival = self.source.arrival()?;
        Some(arrival.unless(Arc::clone(&self.killed)))
    }
}

// === impl CursorInfo ===

impl CursorInfo {
    pub fn new(namespace: &str, session: Option<SessionId>, command: Bytes, at: ReadPoint) -> Self {
        Self {
            namespace: namespace.into(),
            session,
            transaction: None,
            snapshot: None,
            owner: None,
            no_timeout: false,
            awaits: false,
            is_slow: false,
            writes: false,
            command,
            at,
            usage: Arc::new(CursorUsage {
                micros_left: AtomicU64::new(NO_LIMIT),
                batches: AtomicU64::new(0),
                rows: AtomicU64::new(0),
                last: AtomicI64::new(at.now().0),
            }),
        }
    }

    /// Returns the bytes that the cursor takes while it waits.
    fn weight(&self, source: &mut dyn Source) -> usize {
        source.suspend() + COPIES * self.command.len()
    }

    /// Returns the time that its getMores may take together.
    pub fn time_left(&self) -> Option<Duration> {
        match self.usage.micros_left.load(Ordering::Relaxed) {
            NO_LIMIT => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    pub fn set_time_left(&self, left: Option<Duration>) {
        let micros = left.map_or(NO_LIMIT, |left| {
            u64::try_from(left.as_micros()).unwrap_or(NO_LIMIT)
        });
        self.usage.micros_left.store(micros, Ordering::Relaxed);
    }

    /// Notes a batch of so many rows, of a command that began at `now`.
    pub fn note_batch(&self, rows: u32, now: Millis) {
        self.usage.batches.fetch_add(1, Ordering::Relaxed);
        self.usage.rows.fetch_add(rows.into(), Ordering::Relaxed);
        self.usage.last.store(now.0, Ordering::Relaxed);
    }

    /// Returns how many batches and rows the client has got.
    pub fn returned(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.usage.batches), of(&self.usage.rows))
    }

    /// Returns when the last command of the cursor began.
    pub fn last_used(&self) -> Millis {
        Millis(self.usage.last.load(Ordering::Relaxed))
    }
}

pub(super) fn not_found(id: CursorId) -> Error {
    Error::new(Code::CursorNotFound, format!("cursor id {id} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effort::Effort;
    use crate::session::{Fill, ReplyBatch};
    use crate::value::{DocBuf, Millis};

    struct NumberSource(i32);

    impl Source for NumberSource {
        fn fill(
            &mut self,
            _: ReadPoint,
            batch: &mut ReplyBatch<'_>,
            _: &mut Effort,
        ) -> Result<Fill> {
            while self.0 > 0 {
                let row = DocBuf::build(|d| {
                    d.put_i32("n", self.0);
                });
                if !batch.push(row.as_doc()) {
                    return Ok(Fill::Full);
                }
                self.0 -= 1;
            }
            Ok(Fill::End)
        }

        fn suspend(&mut self) -> usize {
            0
        }
    }

    /// A source that holds this many bytes.
    struct Heavy(usize);

    impl Source for Heavy {
        fn fill(&mut self, _: ReadPoint, _: &mut ReplyBatch<'_>, _: &mut Effort) -> Result<Fill> {
            Ok(Fill::Full)
        }

        fn suspend(&mut self) -> usize {
            self.0
        }
    }

    fn info() -> CursorInfo {
        CursorInfo::new("db.c", None, Bytes::new(), ReadPoint::at(Millis(0)))
    }

    #[test]
    fn a_cursor_is_used_by_one_command_at_a_time() {
        let cursors = Cursors::new(Idle::default());
        let id = cursors.keep(Box::new(NumberSource(3)), info()).unwrap();
        assert!(id > 0);
        let mut open = cursors.check_out(id).unwrap();
        let second = cursors.check_out(id).err().unwrap();
        assert_eq!(second.code(), Code::CursorInUse);
        let mut out = Vec::new();
        let mut batch = ReplyBatch::new(&mut out, 2);
        assert_eq!(
            open.source
                .fill(ReadPoint::at(Millis(0)), &mut batch, &mut Effort::default())
                .unwrap(),
            Fill::Full
        );
        assert_eq!(batch.rows(), 2);
        cursors.put_back(open).unwrap();
        let mut open = cursors.check_out(id).unwrap();
        let mut batch = ReplyBatch::new(&mut out, 100);
        assert_eq!(
            open.source
                .fill(ReadPoint::at(Millis(0)), &mut batch, &mut Effort::default())
                .unwrap(),
            Fill::End
        );
        cursors.finish(id);
        assert_eq!(
            cursors.check_out(id).err().unwrap().code(),
            Code::CursorNotFound
        );
        assert!(cursors.is_empty());
    }

    #[test]
    fn a_cursor_killed_while_in_use_is_not_returned() {
        let cursors = Cursors::new(Idle::default());
        let id = cursors.keep(Box::new(NumberSource(3)), info()).unwrap();
        let open = cursors.check_out(id).unwrap();
        assert!(cursors.kill(id));
        assert!(open.is_killed());
        cursors.put_back(open).unwrap();
        assert!(cursors.is_empty());
        assert!(!cursors.kill(id));
    }

    #[test]
    fn idle_cursors_time_out_unless_no_timeout_is_set() {
        let idle = Idle::default();
        let cursors = Cursors::new(idle.clone());
        cursors.keep(Box::new(NumberSource(3)), info()).unwrap();
        let stays = CursorInfo {
            no_timeout: true,
            ..info()
        };
        let stays = cursors.keep(Box::new(NumberSource(3)), stays).unwrap();
        for _ in 0..10 {
            idle.tick();
        }
        cursors.sweep();
        assert_eq!(cursors.len(), 2, "ten minutes are allowed");
        idle.tick();
        cursors.sweep();
        assert_eq!(cursors.len(), 1);
        assert!(cursors.info(stays).is_some());
    }

    #[test]
    fn the_memory_of_all_cursors_is_limited_and_counted() {
        let idle = Idle::default();
        let cursors = Cursors::holding(100_000, idle.clone());
        let keep = |bytes| cursors.keep(Box::new(Heavy(bytes)), info());
        let waiting = || cursors.waiting.bytes();
        let refused = |result: Result<CursorId>| {
            assert_eq!(result.err().unwrap().code(), Code::ExceededMemoryLimit);
        };
        let first = keep(60_000).unwrap();
        let second = keep(40_000).unwrap();
        refused(keep(5_000));
        // A cursor that holds only a position is always accepted.
        for _ in 0..100 {
            cursors.kill(keep(1_000).unwrap());
        }
        // In use it is still counted, and killed in use it is freed when its command drops it.
        let open = cursors.check_out(first).unwrap();
        refused(keep(5_000));
        assert!(cursors.kill(first));
        assert_eq!(waiting(), 100_000);
        cursors.put_back(open).unwrap();
        assert_eq!(waiting(), 40_000);
        // It may shrink, and grow as long as there is room.
        let mut open = cursors.check_out(second).unwrap();
        open.source = Box::new(Heavy(30_000));
        cursors.put_back(open).unwrap();
        assert_eq!(waiting(), 30_000);
        let third = keep(70_000).unwrap();
        let mut open = cursors.check_out(second).unwrap();
        open.source = Box::new(Heavy(30_001));
        let full = cursors.put_back(open).err().unwrap();
        assert_eq!(full.code(), Code::ExceededMemoryLimit);
        assert!(
            cursors.info(second).is_none(),
            "its rows are lost, so it is"
        );
        assert_eq!(waiting(), 70_000);
        // A command that fails drops its cursor.
        drop(cursors.check_out(third).unwrap());
        cursors.finish(third);
        assert_eq!(waiting(), 0);
        // Its session ends, or it times out.
        keep(50_000).unwrap();
        assert_eq!(cursors.kill_where(|_| true), 1);
        assert_eq!(waiting(), 0);
        keep(50_000).unwrap();
        for _ in 0..11 {
            idle.tick();
        }
        cursors.sweep();
        assert_eq!((cursors.len(), waiting()), (0, 0));
        // A large command counts as well.
        let mut large = info();
        large.command = vec![0; 30_000].into();
        refused(cursors.keep(Box::new(NumberSource(1)), large));
    }
}
