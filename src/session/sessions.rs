//! The sessions that the server knows of.
//!
//! A session is known only once it has something to remember: a retryable write or a cursor. The many commands that merely
//! carry an lsid cost nothing here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;

use super::retry::Done;
use super::{Idle, Retry, SessionId};
use crate::error::{Code, Error, Result};

/// A session that nobody uses is forgotten after that long (`logicalSessionTimeoutMinutes`).
pub const SESSION_MINUTES: u32 = 30;
/// MongoDB's own limit (`maxSessions`).
const MAX_SESSIONS: usize = 1_000_000;

pub struct Sessions {
    known: DashMap<SessionId, Arc<Session>, ahash::RandomState>,
    /// How many there are: `DashMap::len` walks every shard.
    count: AtomicUsize,
    idle: Idle,
}

pub struct Session {
    id: SessionId,
    /// The minute of the last use.
    used: AtomicU32,
    /// Ended or expired: whoever still holds it must look it up again.
    over: AtomicBool,
    state: Mutex<State>,
}

/// The latest retryable write. Taken out of the session while a command has it checked out.
struct State {
    checked_out: bool,
    number: i64,
    done: Done,
}

/// Another command has the session checked out: try again when it is done.
#[derive(Debug, PartialEq, Eq)]
pub struct Busy;

// === impl Sessions ===

impl Sessions {
    pub fn new(idle: Idle) -> Self {
        Self {
            known: DashMap::with_hasher(ahash::RandomState::new()),
            count: AtomicUsize::new(0),
            idle,
        }
    }

    /// The session of that id, made known if it is not yet. `cached` is what the connection used last.
    #[inline]
    pub fn get(&self, id: &SessionId, cached: &mut Option<Arc<Session>>) -> Result<Arc<Session>> {
        if let Some(session) = cached
            && session.id == *id
            && !session.over.load(Ordering::Acquire)
        {
            self.idle.touch(&session.used);
            return Ok(Arc::clone(session));
        }
        let session = self.look_up(id)?;
        *cached = Some(Arc::clone(&session));
        Ok(session)
    }

    fn look_up(&self, id: &SessionId) -> Result<Arc<Session>> {
        if let Some(session) = self.known.get(id) {
            self.idle.touch(&session.used);
            return Ok(Arc::clone(&session));
        }
        if self.count.load(Ordering::Relaxed) >= MAX_SESSIONS {
            return Err(Error::new(
                Code::TooManyLogicalSessions,
                format!(
                    "Unable to add session ID {id} into the cache because the number of active sessions is too high"
                ),
            ));
        }
        let session = self.known.entry(*id).or_insert_with(|| {
            self.count.fetch_add(1, Ordering::Relaxed);
            Arc::new(Session {
                id: *id,
                used: AtomicU32::new(self.idle.minute()),
                over: AtomicBool::new(false),
                state: Mutex::new(State {
                    checked_out: false,
                    number: -1,
                    done: Done::new(),
                }),
            })
        });
        Ok(Arc::clone(&session))
    }

    /// Keeps a session from expiring (refreshSessions). One that is not known needs no keeping.
    pub fn refresh(&self, id: &SessionId) {
        if let Some(session) = self.known.get(id) {
            self.idle.touch(&session.used);
        }
    }

    /// Forgets a session (endSessions, killSessions).
    pub fn end(&self, id: &SessionId) {
        if let Some((_, session)) = self.known.remove(id) {
            session.over.store(true, Ordering::Release);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub fn end_where(&self, which: impl Fn(&SessionId) -> bool) {
        self.retain(|session| !which(&session.id));
    }

    /// Forgets the sessions that nobody used for half an hour. Called once a minute.
    pub fn sweep(&self) {
        self.retain(|session| {
            !self.idle.is_over(&session.used, SESSION_MINUTES) || session.state.lock().checked_out
        });
    }

    fn retain(&self, mut keep: impl FnMut(&Session) -> bool) {
        self.known.retain(|_, session| {
            let keep = keep(session);
            if !keep {
                session.over.store(true, Ordering::Release);
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            keep
        });
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ids of all sessions that are known now.
    #[cfg(test)]
    pub fn ids(&self) -> Vec<SessionId> {
        self.known.iter().map(|entry| *entry.key()).collect()
    }
}

// === impl Session ===

impl Session {
    /// Begins the retryable write `number`, or goes on with it if it began before. `Ok(Err(Busy))`: another attempt is
    /// still at it, and running both would write twice.
    #[inline]
    pub fn check_out(self: &Arc<Self>, number: i64) -> Result<Result<Retry, Busy>> {
        let mut state = self.state.lock();
        if number < state.number {
            return Err(Error::new(
                Code::TransactionTooOld,
                format!(
                    "Retryable write with txnNumber {number} is prohibited on session {} because a newer retryable write \
                     with txnNumber {} has already started on this session.",
                    self.id, state.number
                ),
            ));
        }
        if state.checked_out {
            return Ok(Err(Busy));
        }
        state.checked_out = true;
        if number > state.number {
            state.number = number;
            state.done = Done::new();
        }
        let done = std::mem::take(&mut state.done);
        drop(state);
        Ok(Ok(Retry::new(Arc::clone(self), number, done)))
    }

    pub(super) fn give_back(&self, number: i64, done: Done) {
        let mut state = self.state.lock();
        debug_assert!(state.checked_out && state.number == number);
        state.checked_out = false;
        state.done = done;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;

    fn session(sessions: &Sessions, n: u8) -> Arc<Session> {
        sessions.get(&SessionId::new([n; 16]), &mut None).unwrap()
    }

    #[test]
    fn a_repeat_finds_the_outcome_and_an_older_number_is_refused() {
        let sessions = Sessions::new(Idle::default());
        let session = session(&sessions, 1);
        let mut first = session.check_out(5).unwrap().unwrap();
        for statement in 0..1000 {
            assert_eq!(first.outcome(statement), None);
            first.record(statement, Outcome::Inserted);
        }
        first.record(1000, Outcome::Deleted { n: 2 });
        assert_eq!(
            first.done.len(),
            2,
            "neighbours with one outcome share an entry"
        );
        assert_eq!(session.check_out(5).unwrap().err(), Some(Busy));
        drop(first);

        let again = session.check_out(5).unwrap().unwrap();
        assert_eq!(again.outcome(999), Some(&Outcome::Inserted));
        assert_eq!(again.outcome(1000), Some(&Outcome::Deleted { n: 2 }));
        assert_eq!(again.outcome(1001), None);
        drop(again);

        assert_eq!(session.check_out(6).unwrap().unwrap().outcome(0), None);
        let old = session.check_out(5).err().expect("too old");
        assert_eq!(old.code(), Code::TransactionTooOld);
    }

    #[test]
    fn sessions_expire_after_half_an_hour_without_use() {
        let idle = Idle::default();
        let sessions = Sessions::new(idle.clone());
        let mut cached = None;
        let id = SessionId::new([1; 16]);
        sessions.get(&id, &mut cached).unwrap();
        session(&sessions, 2);
        for _ in 0..20 {
            idle.tick();
        }
        sessions.get(&id, &mut cached).unwrap();
        for _ in 0..20 {
            idle.tick();
        }
        sessions.sweep();
        assert_eq!(sessions.ids(), [id]);
        sessions.end(&id);
        assert!(sessions.is_empty());
        let renewed = sessions.get(&id, &mut cached).unwrap();
        assert!(
            renewed.check_out(0).unwrap().is_ok(),
            "an ended session starts afresh"
        );
    }
}
