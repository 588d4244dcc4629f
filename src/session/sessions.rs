//! The sessions that the server knows of.
//!
//! A session is known only once it has something to remember: a retryable write or a cursor. The many commands that merely
//! carry an lsid cost nothing here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::outcome_budget::{self, OutcomeBudget, OutcomeShare};
use super::retry::{Done, weight};
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
    outcomes: Arc<OutcomeBudget>,
}

pub struct Session {
    id: SessionId,
    outcomes: Arc<OutcomeBudget>,
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
    /// What the outcomes count among those of all sessions, if they are large.
    part: Option<OutcomeShare>,
    /// It has written since it came to its part.
    wrote: bool,
    /// The outcomes were let go, since all sessions' were too many.
    forgotten: bool,
    /// Told when it is given back. There while somebody waits for that.
    awaited: Option<Arc<Notify>>,
}

/// Another command has the session checked out.
#[derive(Debug)]
pub struct Busy {
    /// Completes when it is given back: try again then.
    pub given_back: OwnedNotified,
}

// === impl Sessions ===

impl Sessions {
    pub fn new(idle: Idle) -> Self {
        Self::remembering(outcome_budget::LIMIT, idle)
    }

    /// Sessions that together remember so many bytes of outcomes.
    fn remembering(limit: usize, idle: Idle) -> Self {
        Self {
            known: DashMap::with_hasher(ahash::RandomState::new()),
            count: AtomicUsize::new(0),
            idle,
            outcomes: OutcomeBudget::new(limit),
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
                outcomes: Arc::clone(&self.outcomes),
                used: AtomicU32::new(self.idle.minute()),
                over: AtomicBool::new(false),
                state: Mutex::new(State {
                    checked_out: false,
                    number: -1,
                    done: Done::new(),
                    part: None,
                    wrote: false,
                    forgotten: false,
                    awaited: None,
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
            session.close();
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
                session.close();
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
            let awaited = state.awaited.get_or_insert_default();
            let given_back = Arc::clone(awaited).notified_owned();
            return Ok(Err(Busy { given_back }));
        }
        if number > state.number {
            state.number = number;
            state.done = Done::new();
            state.forgotten = false;
        }
        if state.forgotten {
            return Err(Error::new(
                Code::IncompleteTransactionHistory,
                format!(
                    "Incomplete history detected for transaction {number} on session {}",
                    self.id
                ),
            ));
        }
        state.checked_out = true;
        let done = std::mem::take(&mut state.done);
        drop(state);
        Ok(Ok(Retry::new(Arc::clone(self), number, done)))
    }

    pub(super) fn give_back(self: &Arc<Self>, number: i64, done: Done) {
        let counted = outcome_budget::counted(weight(&done));
        let mut state = self.state.lock();
        debug_assert!(state.checked_out && state.number == number);
        state.checked_out = false;
        if let Some(awaited) = state.awaited.take() {
            awaited.notify_waiters();
        }
        // Nobody will ask a session that is over.
        if self.over.load(Ordering::Acquire) {
            return;
        }
        state.done = done;
        state.wrote = state.part.as_ref().map(OutcomeShare::bytes) == counted;
        if !state.wrote {
            state.part = counted.map(|bytes| self.outcomes.add(self, bytes));
            drop(state);
            if counted.is_some() {
                self.outcomes.fit();
            }
        }
    }

    /// Lets the outcomes go, if they are still the ones of that number and nobody is about to ask for them.
    pub(super) fn forget(self: &Arc<Self>, nth: u64) {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let Some(part) = state.part.as_mut().filter(|part| part.is(nth)) else {
            return;
        };
        if state.checked_out || std::mem::take(&mut state.wrote) {
            part.renew(self);
            return;
        }
        state.part = None;
        state.done = Done::new();
        state.forgotten = true;
    }

    /// It is not known any more. A connection may hold on to it, but what it remembers goes.
    fn close(&self) {
        self.over.store(true, Ordering::Release);
        let mut state = self.state.lock();
        state.done = Done::new();
        state.part = None;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;
    use crate::value::DocBuf;
    use std::pin::pin;

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
        let busy = session.check_out(5).unwrap().err().expect("it is in use");
        let mut given_back = pin!(busy.given_back);
        let mut nobody = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(given_back.as_mut().poll(&mut nobody).is_pending());
        drop(first);
        assert!(given_back.poll(&mut nobody).is_ready());

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

    fn reply(size: usize) -> Outcome {
        Outcome::Reply(Arc::new(DocBuf::from_bytes(vec![7; size])))
    }

    fn run(session: &Arc<Session>, number: i64, outcome: Outcome) {
        let mut retry = session.check_out(number).unwrap().unwrap();
        retry.record(0, outcome);
    }

    #[test]
    fn the_oldest_large_outcomes_are_forgotten_and_not_run_again() {
        let sessions = Sessions::remembering(160 << 10, Idle::default());
        let all: Vec<_> = (0..12).map(|n| session(&sessions, n)).collect();
        run(&all[11], 1, Outcome::Inserted);
        for session in &all[..10] {
            run(session, 1, reply(16 << 10));
        }
        // Whoever is asked again is not the oldest any more.
        let again = all[0].check_out(1).unwrap().unwrap();
        assert_eq!(again.outcome(0), Some(&reply(16 << 10)));
        drop(again);
        run(&all[10], 1, reply(16 << 10));
        assert_eq!(sessions.outcomes.bytes(), 160 << 10);
        for (n, session) in all.iter().enumerate() {
            match session.check_out(1) {
                Ok(retry) => assert!(retry.unwrap().outcome(0).is_some(), "{n}"),
                Err(error) => {
                    assert_eq!((n, error.code()), (1, Code::IncompleteTransactionHistory));
                }
            }
        }
        // The next write of that session is its own affair.
        run(&all[1], 2, Outcome::Inserted);
        let old = all[1].check_out(1).err().expect("too old");
        assert_eq!(old.code(), Code::TransactionTooOld);
    }

    #[test]
    fn outcomes_are_counted_for_as_long_as_they_are_kept() {
        let sessions = Sessions::remembering(160 << 10, Idle::default());
        let bytes = || sessions.outcomes.bytes();
        let first = session(&sessions, 1);
        run(&first, 1, reply(50_000));
        assert_eq!(bytes(), 1 << 16);
        run(&first, 2, reply(20_000));
        assert_eq!(
            bytes(),
            1 << 15,
            "the next write takes the place of the last"
        );
        run(&first, 3, reply(18_000));
        assert_eq!(bytes(), 1 << 15, "about as much");
        run(&first, 4, Outcome::Deleted { n: 1 });
        assert_eq!(bytes(), 0);
        let id = Box::new(crate::value::Value::new(
            crate::value::Type::String,
            &[0; 30_000],
        ));
        let upserted = Outcome::Updated {
            n: 1,
            modified: 0,
            upserted: Some(id),
        };
        run(&first, 5, upserted);
        assert!(bytes() > 30_000);
        // A connection still holds it when it ends, also in the middle of a write.
        sessions.end(&SessionId::new([1; 16]));
        assert_eq!(bytes(), 0);
        let second = session(&sessions, 2);
        let mut retry = second.check_out(1).unwrap().unwrap();
        retry.record(0, reply(50_000));
        sessions.end_where(|_| true);
        drop(retry);
        assert_eq!(bytes(), 0);
        run(&session(&sessions, 3), 1, reply(50_000));
        assert_eq!(bytes(), 1 << 16);
        drop(sessions);
    }
}
