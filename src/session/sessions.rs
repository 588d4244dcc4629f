//! The sessions that the server knows.
//!
//! A session is stored only once it has something to remember: a retryable write or a cursor. The many commands that merely
//! carry an lsid cost nothing here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Instant;

use dashmap::DashMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

use super::outcome_budget::{self, OutcomeBudget, OutcomeShare};
use super::retry::{CompletedStatements, weight};
use super::transaction::{TransactionInfo, TransactionState};
use super::transaction_counts::TransactionCounts;
use super::{Idle, Retry, SessionId};
use crate::clock::monotonic;
use crate::error::{Code, Error, Result};
use crate::latency::micros;
use crate::value::Millis;

/// The time after which an unused session is removed (`logicalSessionTimeoutMinutes`).
pub const SESSION_MINUTES: u32 = 30;
/// MongoDB's own limit (`maxSessions`).
const MAX_SESSIONS: usize = 1_000_000;

/// The sessions of a server.
pub struct Sessions {
    known: DashMap<SessionId, Arc<Session>, ahash::RandomState>,
    /// The number of sessions. `DashMap::len` would walk every shard.
    count: AtomicUsize,
    idle: Idle,
    outcomes: Arc<OutcomeBudget>,
    transactions: Arc<TransactionCounts>,
}

/// A logical session: its latest retryable write or transaction, and when it was last used.
pub struct Session {
    id: SessionId,
    outcomes: Arc<OutcomeBudget>,
    transactions: Arc<TransactionCounts>,
    /// The minute of the last use.
    used: AtomicU32,
    /// Ended or expired: a holder must look the session up again.
    over: AtomicBool,
    state: Mutex<SessionState>,
}

/// The latest retryable write or transaction. A command that checks the session out takes the outcomes, or the transaction,
/// out of it.
pub(super) struct SessionState {
    pub checked_out: bool,
    /// The session was killed while a command had it checked out. Its transaction is aborted when that command returns it.
    pub is_killed: bool,
    pub number: i64,
    /// The number is that of a transaction, open or not.
    pub is_transaction: bool,
    pub transaction: TransactionState,
    done: CompletedStatements,
    /// The outcomes' share of the memory budget, if they are large.
    part: Option<OutcomeShare>,
    /// The session has written since it got its position in the queue.
    wrote: bool,
    /// The outcomes were evicted, because those of all sessions exceeded the budget.
    forgotten: bool,
    /// Notified when the session is returned. It exists only while a command waits for that.
    awaited: Option<Arc<Notify>>,
}

/// Another command has checked the session out.
#[derive(Debug)]
pub struct Busy {
    /// Completes when the session is returned: try again then.
    pub given_back: OwnedNotified,
}

// === impl Sessions ===

impl Sessions {
    pub fn new(idle: Idle) -> Self {
        Self::remembering(outcome_budget::LIMIT, idle)
    }

    /// Creates a store with this memory limit for outcomes.
    fn remembering(limit: usize, idle: Idle) -> Self {
        Self {
            known: DashMap::with_hasher(ahash::RandomState::new()),
            count: AtomicUsize::new(0),
            idle,
            outcomes: OutcomeBudget::new(limit),
            transactions: Arc::default(),
        }
    }

    /// Returns the session with this id, and creates it if necessary. `cached` is the session that the connection used
    /// last.
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
                transactions: Arc::clone(&self.transactions),
                used: AtomicU32::new(self.idle.minute()),
                over: AtomicBool::new(false),
                state: Mutex::new(SessionState {
                    checked_out: false,
                    is_killed: false,
                    number: -1,
                    is_transaction: false,
                    transaction: TransactionState::None,
                    done: CompletedStatements::new(),
                    part: None,
                    wrote: false,
                    forgotten: false,
                    awaited: None,
                }),
            })
        });
        Ok(Arc::clone(&session))
    }

    /// Keeps a session from expiring (refreshSessions). A session that is not stored needs nothing.
    pub fn refresh(&self, id: &SessionId) {
        if let Some(session) = self.known.get(id) {
            self.idle.touch(&session.used);
        }
    }

    /// Removes a session (endSessions).
    pub fn end(&self, id: &SessionId) {
        if let Some((_, session)) = self.known.remove(id) {
            session.close();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Aborts the transactions of these sessions (killSessions). The sessions stay, because a client may still ask how its latest
    /// write or transaction ended.
    pub fn kill_where(&self, which: impl Fn(&SessionId) -> bool) {
        let meant = self.known.iter().filter(|session| which(session.key()));
        let meant: Vec<_> = meant.map(|session| Arc::clone(&session)).collect();
        // Their transactions lock collections, so no shard is locked meanwhile.
        for session in meant {
            session.kill();
        }
    }

    /// Removes the sessions that were not used for half an hour. Called once a minute.
    pub fn sweep(&self) {
        self.retain(|session| {
            !self.idle.is_over(&session.used, SESSION_MINUTES) || session.state.lock().checked_out
        });
    }

    fn retain(&self, mut keep: impl FnMut(&Session) -> bool) {
        let mut ended = Vec::new();
        self.known.retain(|_, session| {
            let keep = keep(session);
            if !keep {
                ended.push(Arc::clone(session));
                self.count.fetch_sub(1, Ordering::Relaxed);
            }
            keep
        });
        // Their transactions lock collections, so no shard is locked meanwhile.
        for session in ended {
            session.close();
        }
    }

    /// Returns how many transactions there were.
    pub fn transactions(&self) -> &TransactionCounts {
        &self.transactions
    }

    /// Aborts the transactions that are meant and that no command uses now. Returns how many.
    pub fn abort_where(&self, is_meant: impl Fn(&TransactionInfo) -> bool) -> usize {
        let sessions = self.with_transactions();
        let aborted = sessions
            .iter()
            .filter(|session| session.abort_if(&is_meant));
        aborted.count()
    }

    /// Returns whether the transaction with that number is open.
    pub fn has_transaction(&self, id: &SessionId, number: i64) -> bool {
        let session = self.known.get(id).map(|session| Arc::clone(&session));
        session.is_some_and(|session| session.has_transaction(number))
    }

    /// Returns the transactions that no command uses now.
    pub fn inactive_transactions(&self) -> Vec<TransactionInfo> {
        let sessions = self.with_transactions();
        let infos = sessions
            .iter()
            .filter_map(|session| session.inactive_transaction());
        infos.collect()
    }

    /// Returns all sessions, if one of them may have an open transaction.
    fn with_transactions(&self) -> Vec<Arc<Session>> {
        if self.transactions.open() == 0 {
            return Vec::new();
        }
        let sessions = self.known.iter().map(|session| Arc::clone(&session));
        sessions.collect()
    }

    /// Returns the stored sessions, each with its last use to the minute.
    pub fn list(&self, now: Millis) -> Vec<(SessionId, Millis)> {
        let sessions = self.known.iter().map(|session| {
            let minutes = self.idle.minutes_since(&session.used);
            (session.id, Millis(now.0 - i64::from(minutes) * 60_000))
        });
        sessions.collect()
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ids of all stored sessions.
    #[cfg(test)]
    pub fn ids(&self) -> Vec<SessionId> {
        self.known.iter().map(|entry| *entry.key()).collect()
    }
}

// === impl Session ===

impl Session {
    /// Starts the retryable write `number`, or continues it if it began before. `Ok(Err(Busy))` means that another attempt
    /// is still running, and running both would write twice.
    #[inline]
    pub fn check_out(self: &Arc<Self>, number: i64) -> Result<Result<Retry, Busy>> {
        let mut state = self.state.lock();
        if number < state.number {
            return Err(Error::new(
                Code::TransactionTooOld,
                format!(
                    "Retryable write with txnNumber {number} is prohibited on session {} because a newer {} with txnNumber \
                     {} has already started on this session.",
                    self.id,
                    state.kind(),
                    state.number
                ),
            ));
        }
        if state.checked_out {
            return Ok(Err(state.busy()));
        }
        let mut before = TransactionState::None;
        if number > state.number {
            state.begin(number, false);
            before = std::mem::take(&mut state.transaction);
        } else if state.is_transaction {
            return Err(Error::new(
                Code::IncompleteTransactionHistory,
                "Cannot retry a retryable write that has been converted into a transaction",
            ));
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
        self.give_up(before);
        Ok(Ok(Retry::new(Arc::clone(self), number, done)))
    }

    pub(super) fn return_session(self: &Arc<Self>, number: i64, done: CompletedStatements) {
        let counted = outcome_budget::counted(weight(&done));
        let mut state = self.state.lock();
        debug_assert!(state.checked_out && state.number == number);
        state.end_check_out();
        // A session that has ended is never asked again.
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

    /// Evicts the outcomes, if they still have this position in the queue. If the session is checked out or has written
    /// since, it moves to the end of the queue instead.
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
        state.done = CompletedStatements::new();
        state.forgotten = true;
    }

    /// Marks the session as ended and frees what it remembers. A connection may still hold a reference to it.
    fn close(&self) {
        self.over.store(true, Ordering::Release);
        let mut state = self.state.lock();
        state.done = CompletedStatements::new();
        state.part = None;
        let transaction = std::mem::take(&mut state.transaction);
        drop(state);
        self.give_up(transaction);
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }

    /// Takes back what a command of a transaction has checked out.
    pub(super) fn return_transaction(&self, transaction: TransactionState) {
        let mut state = self.state.lock();
        let is_killed = state.end_check_out();
        state.transaction = transaction;
        // A session that has ended has no transaction.
        if self.over.load(Ordering::Acquire) {
            let transaction = std::mem::take(&mut state.transaction);
            drop(state);
            self.give_up(transaction);
        } else if is_killed {
            self.abort_held(state, |_| true);
        }
    }

    /// Counts a transaction that has ended.
    pub(super) fn count_ended(&self, began: Instant, committed: bool) {
        let lasted = micros(monotonic().saturating_duration_since(began));
        self.transactions.latencies.lock().add(lasted, 1);
        let counter = match committed {
            true => &self.transactions.committed,
            false => &self.transactions.aborted,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_started(&self) {
        self.transactions.started.fetch_add(1, Ordering::Relaxed);
    }
}

// === impl SessionState ===

impl SessionState {
    /// Goes on to a newer number.
    pub fn begin(&mut self, number: i64, is_transaction: bool) {
        self.number = number;
        self.is_transaction = is_transaction;
        self.done = CompletedStatements::new();
        self.forgotten = false;
    }

    /// Returns what the present number stands for.
    pub fn kind(&self) -> &'static str {
        match self.is_transaction {
            false => "retryable write",
            true => "transaction",
        }
    }

    /// Returns a wait for the command that has checked the session out.
    pub fn busy(&mut self) -> Busy {
        let awaited = self.awaited.get_or_insert_default();
        Busy {
            given_back: Arc::clone(awaited).notified_owned(),
        }
    }

    /// Returns whether the session was killed meanwhile.
    fn end_check_out(&mut self) -> bool {
        self.checked_out = false;
        if let Some(awaited) = self.awaited.take() {
            awaited.notify_waiters();
        }
        std::mem::take(&mut self.is_killed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::StatementOutcome;
    use super::*;
    use crate::value::DocBuf;
    use std::pin::pin;

    fn session(sessions: &Sessions, n: u8) -> Arc<Session> {
        sessions.get(&SessionId::new([n; 16]), &mut None).unwrap()
    }

    #[test]
    fn a_retry_finds_the_outcome_and_an_older_number_is_refused() {
        let sessions = Sessions::new(Idle::default());
        let session = session(&sessions, 1);
        let mut first = session.check_out(5).unwrap().unwrap();
        for statement in 0..1000 {
            assert_eq!(first.outcome(statement), None);
            first.record(statement, StatementOutcome::Inserted);
        }
        first.record(1000, StatementOutcome::Deleted { n: 2 });
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
        assert_eq!(again.outcome(999), Some(&StatementOutcome::Inserted));
        assert_eq!(
            again.outcome(1000),
            Some(&StatementOutcome::Deleted { n: 2 })
        );
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

    fn reply(size: usize) -> StatementOutcome {
        StatementOutcome::Reply(Arc::new(DocBuf::from_bytes(vec![7; size])))
    }

    fn run(session: &Arc<Session>, number: i64, outcome: StatementOutcome) {
        let mut retry = session.check_out(number).unwrap().unwrap();
        retry.record(0, outcome);
    }

    #[test]
    fn the_oldest_large_outcomes_are_forgotten_and_not_run_again() {
        let sessions = Sessions::remembering(160 << 10, Idle::default());
        let all: Vec<_> = (0..12).map(|n| session(&sessions, n)).collect();
        run(&all[11], 1, StatementOutcome::Inserted);
        for session in &all[..10] {
            run(session, 1, reply(16 << 10));
        }
        // A session that was asked again is no longer the oldest.
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
        // The next write of that session starts anew.
        run(&all[1], 2, StatementOutcome::Inserted);
        let old = all[1].check_out(1).err().expect("too old");
        assert_eq!(old.code(), Code::TransactionTooOld);
    }

    #[test]
    fn outcomes_are_counted_while_they_are_kept() {
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
        run(&first, 4, StatementOutcome::Deleted { n: 1 });
        assert_eq!(bytes(), 0);
        let id = Box::new(crate::value::Value::new(
            crate::value::Type::String,
            &[0; 30_000],
        ));
        let upserted = StatementOutcome::Updated {
            n: 1,
            modified: 0,
            upserted: Some(id),
        };
        run(&first, 5, upserted);
        assert!(bytes() > 30_000);
        // A connection still holds the session when it ends, also in the middle of a write.
        sessions.end(&SessionId::new([1; 16]));
        assert_eq!(bytes(), 0);
        let second = session(&sessions, 2);
        let mut retry = second.check_out(1).unwrap().unwrap();
        retry.record(0, reply(50_000));
        sessions.end(&SessionId::new([2; 16]));
        drop(retry);
        assert_eq!(bytes(), 0);
        run(&session(&sessions, 3), 1, reply(50_000));
        assert_eq!(bytes(), 1 << 16);
        drop(sessions);
    }
}
