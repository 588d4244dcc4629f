//! Statements of a transaction that wait for a schema change.
//!
//! A statement uses the collections that it names, and its transaction uses them until it ends. If a schema change needs one of
//! them, the statement returns before it has done anything. It runs again when the change is made, or fails if that takes longer
//! than `maxTransactionLockRequestTimeoutMillis`.

use std::time::{Duration, Instant};

use super::super::operations::Operation;
use super::super::{Call, Context, reply, transaction};
use super::list;
use crate::clock::monotonic;
use crate::command::Command;
use crate::engine::write::transactions_too_large;
use crate::error::{Code, Error, Result};
use crate::interrupt::Limit;
use crate::session::InTransaction;
use crate::wait::Wait;

/// The waiting of a statement.
pub(in crate::command) struct LockWait {
    /// Keeps the statement on the list of operations.
    operation: Operation,
    /// When it fails.
    until: Option<Instant>,
    /// When the time of the statement is over. It does not begin anew with each try.
    deadline: Option<Instant>,
    /// Ends when the schema change is made. `None` while the statement tries.
    wait: Option<Wait>,
}

/// A statement that waits, and its transaction.
pub(super) struct LockedStatement {
    command: &'static Command,
    transaction: InTransaction,
    waiting: Box<LockWait>,
    limit: Limit,
}

/// Uses the collection that the command names in its first field.
#[cold]
pub(super) fn use_target(call: &mut Call<'_>) -> Result<()> {
    match call.target().as_str() {
        Some(name) => call.use_collection(call.database(), name),
        None => Ok(()),
    }
}

// === impl Call ===

impl Call<'_> {
    /// Uses a collection in the transaction of this statement, if it has one. Called before the statement does anything. If it
    /// fails, the framework may run the statement again.
    pub(in crate::command) fn use_collection(
        &mut self,
        database: &str,
        collection: &str,
    ) -> Result<()> {
        let Some(transaction) = &mut self.transaction else {
            return Ok(());
        };
        if !transaction.may_use_more() {
            return Err(transactions_too_large());
        }
        let Err(wait) = transaction.use_collection(database, collection) else {
            return Ok(());
        };
        let millis = self.context.lock_timeout();
        let mut waiting = self.lock_wait.take().unwrap_or_else(|| {
            let timeout = millis.map(Duration::from_millis);
            Box::new(LockWait {
                operation: list(self),
                until: timeout.map(|timeout| monotonic() + timeout),
                deadline: self.deadline,
                wait: None,
            })
        });
        waiting.wait = Some(wait);
        let id = waiting.operation.info.id;
        self.lock_wait = Some(waiting);
        Err(Error::new(
            Code::LockTimeout,
            format!(
                "Unable to acquire IX lock on '{{Collection, {database}.{collection}}}' within {}ms. opId: {id}, op: \
                 conn{client}, connId: {client}.",
                millis.unwrap_or_default(),
                client = self.client.id,
            ),
        ))
    }
}

// === impl LockedStatement ===

impl LockedStatement {
    /// Returns the statement, if it waits for a schema change and may wait longer.
    #[inline]
    pub fn of(call: &mut Call<'_>) -> Option<Box<Self>> {
        let waiting = call.lock_wait.take()?;
        Self::new(call, waiting)
    }

    #[cold]
    fn new(call: &mut Call<'_>, waiting: Box<LockWait>) -> Option<Box<Self>> {
        let is_over = |until| until <= monotonic();
        if waiting.wait.is_none() || waiting.until.is_some_and(is_over) {
            return None;
        }
        waiting.operation.info.note_lock(true);
        let transaction = call.transaction.take()?;
        // Its time may be over before the schema change is made.
        let left = transaction.info().map(|info| info.expires.0 - call.now.0);
        let left = left.and_then(|left| u64::try_from(left).ok());
        let expires = monotonic() + Duration::from_millis(left.unwrap_or_default());
        Some(Box::new(Self {
            command: call.command,
            limit: Limit {
                deadline: Some(waiting.deadline.map_or(expires, |end| end.min(expires))),
                killed: Some(waiting.operation.killed()),
                ..Limit::default()
            },
            transaction,
            waiting,
        }))
    }

    /// Returns what the statement waits for before it tries again.
    pub fn take_wait(&mut self) -> Option<Wait> {
        let wait = self.waiting.wait.take()?;
        Some(self.limit.bound(match self.waiting.until {
            Some(until) => wait.no_later_than(until),
            None => wait,
        }))
    }

    /// Checks whether the statement may try again.
    pub fn check(&self, context: &Context) -> Result<()> {
        transaction::check_lifetime(&self.transaction, context.clock.now())?;
        self.limit.check()
    }

    /// Makes the statement part of its transaction again.
    pub fn resume(self, call: &mut Call<'_>) {
        self.waiting.operation.info.note_lock(false);
        call.deadline = self.waiting.deadline;
        call.transaction = Some(self.transaction);
        call.lock_wait = Some(self.waiting);
    }

    /// Answers the statement with an error, which aborts its transaction.
    pub fn fail(self, context: &Context, shard: usize, error: Error, out: &mut Vec<u8>) {
        let start = out.len();
        transaction::finish(context, self.transaction, Err(&error));
        context.counters.failed(shard, self.command, &error);
        reply::fail(out, start, &transaction::labelled(error));
        context.put_time(out, start);
    }
}

// === impl Context ===

impl Context {
    /// Returns how many milliseconds a statement of a transaction waits for a schema change. `None` means without end.
    fn lock_timeout(&self) -> Option<u64> {
        let limit = self
            .parameters
            .get("maxTransactionLockRequestTimeoutMillis");
        let millis = limit.and_then(|(_, value)| value.as_ref().as_num()?.to_i64_exact());
        u64::try_from(millis.unwrap_or(5)).ok()
    }
}
