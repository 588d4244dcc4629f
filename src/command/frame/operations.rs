//! The list of running operations, for currentOp and killOp.
//!
//! Only commands that take several steps are listed, and those that may take long to read. A command that ends quickly costs
//! nothing here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use bytes::Bytes;
use dashmap::DashMap;

use super::{Call, Client, guard};
use crate::clock::monotonic;
use crate::session::{InTransaction, SessionId, TransactionInfo};
use crate::value::{ClusterTime, Doc};
use crate::wait::Flag;

#[derive(Default)]
pub struct Operations {
    running: DashMap<u32, Arc<OperationInfo>, ahash::RandomState>,
    next: AtomicU32,
}

/// A running command.
pub struct OperationInfo {
    pub id: u32,
    pub command: &'static str,
    pub database: String,
    /// The command as the client sent it, without its secrets.
    body: Bytes,
    pub client: Arc<Client>,
    pub session: Option<SessionId>,
    pub transaction: Option<TransactionInfo>,
    /// The logical time of the snapshot that it reads, if it has one.
    pub read_time: Option<ClusterTime>,
    pub started: Instant,
    /// Set by killOp. The command checks it before each step and now and then within a step. It also ends a wait.
    pub killed: Arc<Flag>,
    waits_for_lock: AtomicBool,
}

/// Removes the command from the list when it ends, in every case.
pub struct Operation {
    pub info: Arc<OperationInfo>,
    list: Arc<Operations>,
}

// === impl Operations ===

impl Operations {
    /// Lists a command.
    pub fn begin(self: &Arc<Self>, call: &Call<'_>) -> Operation {
        let transaction = call.transaction.as_ref().and_then(InTransaction::info);
        let snapshot = call.snapshot.as_ref().map(|snapshot| snapshot.time());
        let info = Arc::new(OperationInfo {
            id: self.next_id(),
            command: call.command.name,
            database: call.database().to_owned(),
            body: guard::redacted(call.command, call.request),
            client: Arc::clone(call.client),
            session: call.session(),
            transaction,
            read_time: transaction.map(|info| info.read_time).or(snapshot),
            started: monotonic(),
            killed: Arc::default(),
            waits_for_lock: AtomicBool::new(false),
        });
        self.running.insert(info.id, Arc::clone(&info));
        Operation {
            info,
            list: Arc::clone(self),
        }
    }

    /// Returns a number that no other running operation has. It is positive and below 2^31, as in mongod.
    pub fn next_id(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed) % 0x7fff_ffff + 1
    }

    pub fn kill(&self, id: u32) -> bool {
        let info = self.running.get(&id).map(|entry| Arc::clone(&entry));
        if let Some(info) = &info {
            info.killed.set();
        }
        info.is_some()
    }

    /// Kills the operations that match. Returns how many were not killed before.
    pub fn kill_where(&self, which: impl Fn(&OperationInfo) -> bool) -> usize {
        let mut killed = 0;
        for info in &self.running {
            if which(&info) {
                killed += usize::from(!info.killed.is_set());
                info.killed.set();
            }
        }
        killed
    }

    pub fn all(&self) -> Vec<Arc<OperationInfo>> {
        self.running
            .iter()
            .map(|entry| Arc::clone(&entry))
            .collect()
    }
}

// === impl OperationInfo ===

impl OperationInfo {
    pub fn body(&self) -> Doc<'_> {
        Doc::new(&self.body)
    }

    /// Notes whether it waits for a lock that a transaction or a schema change holds.
    pub fn note_lock(&self, waits: bool) {
        self.waits_for_lock.store(waits, Ordering::Relaxed);
    }

    pub fn waits_for_lock(&self) -> bool {
        self.waits_for_lock.load(Ordering::Relaxed)
    }
}

// === impl Operation ===

impl Operation {
    /// Returns the flag that killOp sets.
    pub fn killed(&self) -> Arc<Flag> {
        Arc::clone(&self.info.killed)
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.list.running.remove(&self.info.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_operations_have_distinct_numbers() {
        let list = Operations::default();
        assert_eq!([list.next_id(), list.next_id(), list.next_id()], [1, 2, 3]);
        list.next.store(0x7fff_fffe, Ordering::Relaxed);
        assert_eq!([list.next_id(), list.next_id()], [0x7fff_ffff, 1]);
    }
}
