//! Open cursors: reads that have rows left, waiting for a getMore.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use parking_lot::Mutex;

use super::cursor_budget::{self, CursorBudget, CursorShare};
use super::{Batch, Idle, SessionId};
use crate::effort::Effort;
use crate::engine::ReadPoint;
use crate::error::{Code, Error, Result};
use crate::wait::{Flag, Wait};

/// A client's handle on an open cursor. Zero means that there is none.
pub type CursorId = i64;

/// A cursor that nobody asks for more is forgotten after that long.
const TIMEOUT_MINUTES: u32 = 10;
/// What all clients together may leave open. MongoDB has no such limit; memory has.
const MAX_OPEN: usize = 100_000;

/// What is kept of a command: its bytes, and the trees that were parsed from them, at a guess.
const COPIES: usize = 4;

const NO_LIMIT: u64 = u64::MAX;

/// Where a cursor's rows come from. It keeps its place, not storage; no lock is held between two calls.
pub trait Source: Send {
    /// Appends rows until the batch is full, the rows have ended, or about half a millisecond is used up. `now` is the
    /// moment of the command that asks: a row that stands for one stored document must still be visible then.
    /// What it takes to find them is added to `effort`.
    fn fill(&mut self, at: ReadPoint, batch: &mut Batch<'_>, effort: &mut Effort) -> Result<Fill>;

    /// A wait that is over when there may be rows that were not there before this call. Only for sources that say
    /// [`Fill::Waiting`].
    fn arrival(&self) -> Option<Wait> {
        None
    }

    /// Nobody asks until the next command: lets go of what can be made again, and says how many bytes stay.
    fn at_rest(&mut self) -> usize;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The time slice is used up: call again with the same batch when others had their turn.
    Pause,
    /// The batch has what it can take; there may be more rows.
    Full,
    /// There are no more rows now; there may be later.
    Waiting,
    /// There are no more rows.
    End,
}

/// What is known of a cursor besides its rows.
#[derive(Debug, Clone)]
pub struct CursorInfo {
    /// `db.collection`
    pub namespace: Arc<str>,
    pub session: Option<SessionId>,
    /// Whose it is: the digest of the user who opened it, where somebody had to log in.
    pub owner: Option<[u8; 32]>,
    pub no_timeout: bool,
    /// Where it has no rows, a getMore waits for some.
    pub awaits: bool,
    /// One row may take long to compute.
    pub is_slow: bool,
    /// The command that opened it, for currentOp and getMore's `originatingCommand`.
    pub command: Bytes,
    /// Where that command's reads started from. A getMore reads from the same point, moved to its own `now`.
    pub at: ReadPoint,
    /// Microseconds that the opening command's `maxTimeMS` leaves for its getMores. Written by the command that has the cursor.
    micros_left: Arc<AtomicU64>,
}

/// A cursor that one command has to itself.
pub struct OpenCursor {
    pub id: CursorId,
    pub source: Box<dyn Source>,
    pub info: Arc<CursorInfo>,
    /// Somebody asked for it to be killed meanwhile.
    killed: Arc<Flag>,
    part: CursorShare,
}

pub struct Cursors {
    open: DashMap<CursorId, Slot, ahash::RandomState>,
    count: AtomicUsize,
    ids: ahash::RandomState,
    next: AtomicUsize,
    idle: Idle,
    timed_out: AtomicUsize,
    opened: AtomicUsize,
    waiting: Arc<CursorBudget>,
}

struct Slot {
    info: Arc<CursorInfo>,
    used: AtomicU32,
    /// `None` while a command has it. The lock is held only to move it out or in.
    source: Mutex<Option<IdleCursor>>,
    killed: Arc<Flag>,
}

/// A source that waits, and what it counts among all that do.
struct IdleCursor {
    source: Box<dyn Source>,
    part: CursorShare,
}

// === impl Cursors ===

impl Cursors {
    pub fn new(idle: Idle) -> Self {
        Self::holding(cursor_budget::LIMIT, idle)
    }

    /// Cursors that may together hold so many bytes while they wait.
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

    /// Keeps a cursor that has more rows; the id is what the client asks for it with. Refused where all cursors are too many or
    /// hold too much.
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
        // A copy of its own: the client's whole message is not kept alive by a cursor.
        let info = CursorInfo {
            command: Bytes::copy_from_slice(&info.command),
            ..info
        };
        let mut slot = Slot {
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

    /// Keyed hashes of a counter: nobody can guess another client's cursor. Positive, as MongoDB's are.
    fn fresh_id(&self) -> CursorId {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        ((self.ids.hash_one(n) >> 1) as i64).max(1)
    }

    /// Takes a cursor out for a getMore; give it back with [`Cursors::put_back`] or end it with [`Cursors::finish`].
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

    /// Looks at a cursor without taking it.
    pub fn info(&self, id: CursorId) -> Option<Arc<CursorInfo>> {
        self.open.get(&id).map(|slot| Arc::clone(&slot.info))
    }

    /// Puts a cursor back that has more rows. One that was killed meanwhile is dropped; one that now holds more than there is room
    /// for ends.
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

    /// Forgets a cursor that has no more rows, or that failed.
    pub fn finish(&self, id: CursorId) {
        self.remove(id);
    }

    /// Whether there was such a cursor. One in use ends with the command that uses it.
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

    /// Kills what `which` picks: the cursors of a dropped collection, of an ended session, ...
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

    /// Forgets the cursors that nobody asked for more in ten minutes. Called once a minute.
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

    /// (timed out, opened) since the start.
    pub fn totals(&self) -> (usize, usize) {
        (
            self.timed_out.load(Ordering::Relaxed),
            self.opened.load(Ordering::Relaxed),
        )
    }

    pub fn no_timeout_count(&self) -> usize {
        self.open.iter().filter(|slot| slot.info.no_timeout).count()
    }

    /// The cursors that wait for a getMore now.
    pub fn each_idle(&self, mut visit: impl FnMut(CursorId, &CursorInfo)) {
        for slot in &self.open {
            if slot.source.lock().is_some() {
                visit(*slot.key(), &slot.info);
            }
        }
    }
}

// === impl OpenCursor ===

impl OpenCursor {
    pub fn is_killed(&self) -> bool {
        self.killed.is_set()
    }

    /// As [`Source::arrival`]; over as well when the cursor is killed.
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
            owner: None,
            no_timeout: false,
            awaits: false,
            is_slow: false,
            command,
            at,
            micros_left: Arc::new(AtomicU64::new(NO_LIMIT)),
        }
    }

    /// Bytes that the cursor takes while it waits.
    fn weight(&self, source: &mut dyn Source) -> usize {
        source.at_rest() + COPIES * self.command.len()
    }

    /// The time that its getMores may take together.
    pub fn time_left(&self) -> Option<Duration> {
        match self.micros_left.load(Ordering::Relaxed) {
            NO_LIMIT => None,
            micros => Some(Duration::from_micros(micros)),
        }
    }

    pub fn set_time_left(&self, left: Option<Duration>) {
        let micros = left.map_or(NO_LIMIT, |left| {
            u64::try_from(left.as_micros()).unwrap_or(NO_LIMIT)
        });
        self.micros_left.store(micros, Ordering::Relaxed);
    }
}

pub(super) fn not_found(id: CursorId) -> Error {
    Error::new(Code::CursorNotFound, format!("cursor id {id} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{DocBuf, Millis};

    struct Numbers(i32);

    impl Source for Numbers {
        fn fill(&mut self, _: ReadPoint, batch: &mut Batch<'_>, _: &mut Effort) -> Result<Fill> {
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

        fn at_rest(&mut self) -> usize {
            0
        }
    }

    /// Holds so many bytes.
    struct Heavy(usize);

    impl Source for Heavy {
        fn fill(&mut self, _: ReadPoint, _: &mut Batch<'_>, _: &mut Effort) -> Result<Fill> {
            Ok(Fill::Full)
        }

        fn at_rest(&mut self) -> usize {
            self.0
        }
    }

    fn info() -> CursorInfo {
        CursorInfo::new("db.c", None, Bytes::new(), ReadPoint::at(Millis(0)))
    }

    #[test]
    fn a_cursor_is_used_by_one_command_at_a_time() {
        let cursors = Cursors::new(Idle::default());
        let id = cursors.keep(Box::new(Numbers(3)), info()).unwrap();
        assert!(id > 0);
        let mut open = cursors.check_out(id).unwrap();
        let second = cursors.check_out(id).err().unwrap();
        assert_eq!(second.code(), Code::CursorInUse);
        let mut out = Vec::new();
        let mut batch = Batch::new(&mut out, 2);
        assert_eq!(
            open.source
                .fill(ReadPoint::at(Millis(0)), &mut batch, &mut Effort::default())
                .unwrap(),
            Fill::Full
        );
        assert_eq!(batch.rows(), 2);
        cursors.put_back(open).unwrap();
        let mut open = cursors.check_out(id).unwrap();
        let mut batch = Batch::new(&mut out, 100);
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
    fn a_cursor_killed_in_use_does_not_come_back() {
        let cursors = Cursors::new(Idle::default());
        let id = cursors.keep(Box::new(Numbers(3)), info()).unwrap();
        let open = cursors.check_out(id).unwrap();
        assert!(cursors.kill(id));
        assert!(open.is_killed());
        cursors.put_back(open).unwrap();
        assert!(cursors.is_empty());
        assert!(!cursors.kill(id));
    }

    #[test]
    fn idle_cursors_time_out_unless_told_not_to() {
        let idle = Idle::default();
        let cursors = Cursors::new(idle.clone());
        cursors.keep(Box::new(Numbers(3)), info()).unwrap();
        let stays = CursorInfo {
            no_timeout: true,
            ..info()
        };
        let stays = cursors.keep(Box::new(Numbers(3)), stays).unwrap();
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
    fn what_all_cursors_hold_is_bounded_and_counted_while_they_hold_it() {
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
        // One that holds a place only is always welcome.
        for _ in 0..100 {
            cursors.kill(keep(1_000).unwrap());
        }
        // In use it is still there, and killed in use it goes when its command lets it go.
        let open = cursors.check_out(first).unwrap();
        refused(keep(5_000));
        assert!(cursors.kill(first));
        assert_eq!(waiting(), 100_000);
        cursors.put_back(open).unwrap();
        assert_eq!(waiting(), 40_000);
        // It may become less, and more as long as there is room.
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
        // A command that fails drops what it has.
        drop(cursors.check_out(third).unwrap());
        cursors.finish(third);
        assert_eq!(waiting(), 0);
        // Its session ends, nobody asks for it.
        keep(50_000).unwrap();
        assert_eq!(cursors.kill_where(|_| true), 1);
        assert_eq!(waiting(), 0);
        keep(50_000).unwrap();
        for _ in 0..11 {
            idle.tick();
        }
        cursors.sweep();
        assert_eq!((cursors.len(), waiting()), (0, 0));
        // A large command is kept as well.
        let mut large = info();
        large.command = vec![0; 30_000].into();
        refused(cursors.keep(Box::new(Numbers(1)), large));
    }
}
