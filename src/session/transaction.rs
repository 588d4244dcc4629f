//! The transaction of a session.
//!
//! A session has one transaction at a time, under the number that its client has given it. Each of its commands checks it out
//! ([`Session::join`]) and gives it back when it has succeeded ([`InTransaction::keep`]). A command that fails, or whose client
//! leaves, aborts it. The session remembers how its latest transaction ended, so a commit can be repeated.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use super::sessions::SessionState;
use super::{Busy, Session, SessionId};
use crate::clock::monotonic;
use crate::engine::{Catalog, CommitConflict, LogTransaction, ReadPoint, Transaction};
use crate::error::{Code, Error, Result};
use crate::value::{ClusterTime, DocBuf, Millis};
use crate::wait::Wait;

/// What the latest number of a session stands for.
#[derive(Default)]
pub(super) enum TransactionState {
    /// A retryable write, or nothing yet.
    #[default]
    None,
    Open(Box<OpenTransaction>),
    Committed,
    Aborted,
}

/// A transaction between two commands of its client.
pub(super) struct OpenTransaction {
    transaction: Transaction,
    info: TransactionInfo,
    /// It has opened cursors, which end with it.
    has_cursors: bool,
    api: Option<DocBuf>,
}

/// What currentOp shows of a transaction.
#[derive(Debug, Clone, Copy)]
pub struct TransactionInfo {
    pub session: SessionId,
    pub number: i64,
    /// The read concern of its first command, if there was one.
    pub level: Option<&'static str>,
    /// The logical time that it reads.
    pub read_time: ClusterTime,
    /// When it began and when it must end, by the server's clock.
    pub started: Millis,
    pub expires: Millis,
    /// The connection of its latest command.
    pub connection: u64,
    began: Instant,
    /// How long its commands ran, up to the latest one.
    active: Duration,
    /// When the latest command began or, between two commands, ended.
    since: Instant,
    /// A command of it is running.
    pub is_active: bool,
}

/// What a command wants of the transaction.
pub enum Joining<'a> {
    Start(TransactionStart<'a>),
    Continue,
    Commit,
    Abort,
}

/// How to start a transaction.
pub struct TransactionStart<'a> {
    pub catalog: &'a Arc<Catalog>,
    /// The logical time that it reads, if the client has given one.
    pub at: Option<ClusterTime>,
    pub level: Option<&'static str>,
    /// The parameters with which its first command chooses an API.
    pub api: Option<DocBuf>,
    pub now: Millis,
    /// How long it may last.
    pub lifetime_seconds: i64,
}

/// A transaction that a command has checked out. Dropping it aborts the transaction, unless [`keep`](Self::keep) was called.
pub struct InTransaction {
    session: Arc<Session>,
    number: i64,
    state: TransactionState,
    kept: bool,
}

// === impl Session ===

impl Session {
    /// Checks the transaction out for one of its commands, and starts it if the command asks for that.
    pub fn join(
        self: &Arc<Self>,
        number: i64,
        joining: Joining<'_>,
        now: Millis,
        connection: u64,
    ) -> Result<Result<InTransaction, Busy>> {
        let mut state = self.lock();
        if number < state.number {
            return Err(self.too_old(number, &state));
        }
        if state.checked_out {
            return Ok(Err(state.busy()));
        }
        let before = match joining {
            Joining::Start(start) => {
                if number == state.number {
                    return Err(Error::new(
                        Code::ConflictingOperationInProgress,
                        "Only servers in a sharded cluster can start a new transaction at the active transaction number",
                    ));
                }
                let started = start.open(self.id(), number)?;
                self.count_started();
                state.begin(number, true);
                std::mem::replace(&mut state.transaction, TransactionState::Open(started))
            }
            _ if number > state.number => return Err(no_such_transaction(number, state.number)),
            Joining::Continue | Joining::Commit | Joining::Abort => {
                let is_over = |open: &OpenTransaction| open.info.expires <= now;
                match &state.transaction {
                    TransactionState::Open(open) if is_over(open) => {
                        let began = open.info.began;
                        let expired =
                            std::mem::replace(&mut state.transaction, TransactionState::Aborted);
                        drop(state);
                        drop(expired);
                        self.count_ended(began, false);
                        return Err(aborted(number));
                    }
                    TransactionState::Open(_) => TransactionState::None,
                    TransactionState::Committed if matches!(joining, Joining::Commit) => {
                        TransactionState::None
                    }
                    TransactionState::Committed => {
                        return Err(Error::new(
                            Code::TransactionCommitted,
                            format!(
                                "Transaction with {{ txnNumber: {number} }} has been committed."
                            ),
                        ));
                    }
                    TransactionState::Aborted => return Err(aborted(number)),
                    TransactionState::None => {
                        return Err(no_such_transaction(number, state.number));
                    }
                }
            }
        };
        state.checked_out = true;
        let mut current = std::mem::take(&mut state.transaction);
        drop(state);
        if let TransactionState::Open(open) = &mut current {
            open.info.begin_command(connection);
        }
        // An open transaction with an older number ends here. Its collections are locked without the session's lock.
        self.give_up(before);
        Ok(Ok(InTransaction {
            session: Arc::clone(self),
            number,
            state: current,
            kept: false,
        }))
    }

    /// Aborts a transaction that the session no longer has. Call it without the session's lock.
    pub(super) fn give_up(&self, state: TransactionState) {
        if let TransactionState::Open(open) = state {
            let began = open.info.began;
            drop(open);
            self.count_ended(began, false);
        }
    }

    pub(super) fn has_transaction(&self, number: i64) -> bool {
        let state = self.lock();
        let is_open = || matches!(state.transaction, TransactionState::Open(_));
        state.number == number && (state.checked_out || is_open())
    }

    /// Returns what currentOp shows of the transaction, if there is one and no command uses it.
    pub(super) fn inactive_transaction(&self) -> Option<TransactionInfo> {
        match &self.lock().transaction {
            TransactionState::Open(open) => Some(open.info),
            _ => None,
        }
    }

    /// Aborts the transaction if it is meant and no command uses it. Returns whether it did.
    pub(super) fn abort_if(&self, is_meant: impl Fn(&TransactionInfo) -> bool) -> bool {
        self.abort_held(self.lock(), is_meant)
    }

    /// Aborts the transaction if it is meant. No command uses it. Returns whether it did.
    pub(super) fn abort_held(
        &self,
        mut state: MutexGuard<'_, SessionState>,
        is_meant: impl Fn(&TransactionInfo) -> bool,
    ) -> bool {
        if !matches!(&state.transaction, TransactionState::Open(open) if is_meant(&open.info)) {
            return false;
        }
        let aborted = std::mem::replace(&mut state.transaction, TransactionState::Aborted);
        drop(state);
        self.give_up(aborted);
        true
    }

    /// Aborts the transaction, at once or when the command that uses it returns it.
    pub(super) fn kill(&self) {
        let mut state = self.lock();
        match state.checked_out {
            true => state.is_killed = true,
            false => {
                self.abort_held(state, |_| true);
            }
        }
    }

    /// Returns the error that the session has gone on to a newer number.
    fn too_old(&self, number: i64, state: &SessionState) -> Error {
        let counter = match state.is_transaction {
            false => -1,
            true => 0,
        };
        Error::new(
            Code::TransactionTooOld,
            format!(
                "Cannot start transaction with {{ txnNumber: {number} }} on session {} because a newer {} with \
                 txnNumberAndRetryCounter {{ txnNumber: {}, txnRetryCounter: {counter} }} has already started on this \
                 session.",
                self.id(),
                state.kind(),
                state.number
            ),
        )
    }
}

fn no_such_transaction(number: i64, active: i64) -> Error {
    Error::new(
        Code::NoSuchTransaction,
        format!(
            "Given transaction number {number} does not match any in-progress transactions. The active transaction number \
             is {active}"
        ),
    )
}

fn aborted(number: i64) -> Error {
    Error::new(
        Code::NoSuchTransaction,
        format!("Transaction with {{ txnNumber: {number} }} has been aborted."),
    )
}

// === impl TransactionStart ===

impl TransactionStart<'_> {
    fn open(&self, session: SessionId, number: i64) -> Result<Box<OpenTransaction>> {
        let transaction = match self.at {
            None => self.catalog.begin(),
            Some(time) => self.catalog.begin_at(time).ok_or_else(|| too_old(time))?,
        };
        let lifetime = self.lifetime_seconds.saturating_mul(1_000);
        let began = monotonic();
        Ok(Box::new(OpenTransaction {
            info: TransactionInfo {
                session,
                number,
                level: self.level,
                read_time: transaction.time(),
                started: self.now,
                expires: Millis(self.now.0.saturating_add(lifetime)),
                connection: 0,
                began,
                active: Duration::ZERO,
                since: began,
                is_active: false,
            },
            transaction,
            has_cursors: false,
            api: self.api.clone(),
        }))
    }
}

/// Returns the error that no open snapshot keeps that time.
pub fn too_old(time: ClusterTime) -> Error {
    let (seconds, increment) = time.parts();
    Error::new(
        Code::SnapshotTooOld,
        format!(
            "Read timestamp Timestamp({seconds}, {increment}) is older than the oldest available timestamp."
        ),
    )
}

// === impl TransactionInfo ===

impl TransactionInfo {
    fn begin_command(&mut self, connection: u64) {
        self.connection = connection;
        self.since = monotonic();
        self.is_active = true;
    }

    fn end_command(&mut self) {
        let now = monotonic();
        self.active += now.saturating_duration_since(self.since);
        self.since = now;
        self.is_active = false;
    }

    /// Returns how long it has been open, and how long its commands have run.
    pub fn times(&self) -> (Duration, Duration) {
        let now = monotonic();
        let running = match self.is_active {
            true => now.saturating_duration_since(self.since),
            false => Duration::ZERO,
        };
        let open = now.saturating_duration_since(self.began);
        (open, self.active + running)
    }
}

// === impl InTransaction ===

impl InTransaction {
    /// Returns where the command reads and writes, unless the transaction has ended.
    pub fn read_point(&self, now: Millis) -> Option<ReadPoint> {
        match &self.state {
            TransactionState::Open(open) => Some(open.transaction.read_point(now)),
            _ => None,
        }
    }

    /// Returns whether the transaction may use another collection.
    pub fn may_use_more(&self) -> bool {
        match &self.state {
            TransactionState::Open(open) => open.transaction.may_use_more(),
            _ => true,
        }
    }

    /// Notes that the command uses the collection of this name. Returns a wait if a schema change needs the name.
    pub fn use_collection(&mut self, database: &str, collection: &str) -> Result<(), Wait> {
        match &mut self.state {
            TransactionState::Open(open) => open.transaction.use_collection(database, collection),
            _ => Ok(()),
        }
    }

    pub fn session(&self) -> SessionId {
        self.session.id()
    }

    pub fn number(&self) -> i64 {
        self.number
    }

    /// Returns what currentOp shows of it, unless it has ended.
    pub fn info(&self) -> Option<TransactionInfo> {
        match &self.state {
            TransactionState::Open(open) => Some(open.info),
            _ => None,
        }
    }

    /// Returns the API that the first command has chosen, if the transaction is open.
    pub fn api(&self) -> Option<Option<&DocBuf>> {
        match &self.state {
            TransactionState::Open(open) => Some(open.api.as_ref()),
            _ => None,
        }
    }

    /// Notes that a cursor was opened, which ends with the transaction.
    pub fn note_cursor(&mut self) {
        if let TransactionState::Open(open) = &mut self.state {
            open.has_cursors = true;
        }
    }

    pub fn has_cursors(&self) -> bool {
        matches!(&self.state, TransactionState::Open(open) if open.has_cursors)
    }

    /// Gives the transaction back to the session: the command has succeeded.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// Commits. A transaction that was committed before stays so.
    pub fn commit(&mut self, now: Millis) -> Result<(), CommitConflict> {
        let state = std::mem::replace(&mut self.state, TransactionState::Committed);
        self.kept = true;
        let TransactionState::Open(open) = state else {
            return Ok(());
        };
        let began = open.info.began;
        let committed = open.transaction.commit(now, || LogTransaction {
            lsid: self.session.id().to_doc(),
            number: self.number,
        });
        if committed.is_err() {
            self.state = TransactionState::Aborted;
        }
        self.session.count_ended(began, committed.is_ok());
        committed
    }
}

impl Drop for InTransaction {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut self.state);
        if !self.kept && matches!(state, TransactionState::Open(_)) {
            self.session.give_up(state);
            state = TransactionState::Aborted;
        }
        if let TransactionState::Open(open) = &mut state {
            open.info.end_command();
        }
        self.session.return_transaction(state);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Idle, Sessions};
    use super::*;

    #[test]
    fn a_session_that_is_killed_while_a_command_uses_it_loses_its_transaction_then() {
        const NOW: Millis = Millis(1_000_000);
        let catalog = Arc::new(Catalog::new());
        let sessions = Sessions::new(Idle::default());
        let session = sessions.get(&SessionId::new([1; 16]), &mut None).unwrap();
        let start = Joining::Start(TransactionStart {
            catalog: &catalog,
            at: None,
            level: None,
            api: None,
            now: NOW,
            lifetime_seconds: 60,
        });
        let open = || sessions.transactions().open();
        let join = |joining| session.join(1, joining, NOW, 1).map(Result::unwrap);
        let joined = join(start).unwrap();
        sessions.kill_where(|_| true);
        assert_eq!(open(), 1, "a command uses it");
        joined.keep();
        assert_eq!(open(), 0);
        for joining in [Joining::Continue, Joining::Commit] {
            let error = join(joining).err().unwrap();
            assert_eq!(error.code(), Code::NoSuchTransaction);
        }
        assert_eq!(catalog.oldest_snapshot(), None);
    }
}
