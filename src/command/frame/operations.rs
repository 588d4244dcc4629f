//! What is running: for currentOp and killOp.
//!
//! Only commands that take several steps are noted, and those that may take long to read. One that is over before anybody could
//! ask costs nothing here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use bytes::Bytes;
use dashmap::DashMap;

use super::Client;
use crate::clock::monotonic;
use crate::session::SessionId;
use crate::value::Doc;
use crate::wait::Flag;

#[derive(Default)]
pub struct Operations {
    running: DashMap<u32, Arc<OperationInfo>, ahash::RandomState>,
    next: AtomicU32,
}

/// One running command.
pub struct OperationInfo {
    pub id: u32,
    pub command: &'static str,
    pub database: String,
    /// The command as it was sent, without what is secret.
    body: Bytes,
    pub client: Arc<Client>,
    pub session: Option<SessionId>,
    pub started: Instant,
    /// Set by killOp, seen before the next step and now and then within one. It ends a wait.
    pub killed: Arc<Flag>,
}

/// Takes the command off the list when it is over, however it ends.
pub struct Operation {
    pub info: Arc<OperationInfo>,
    list: Arc<Operations>,
}

// === impl Operations ===

impl Operations {
    pub fn begin(
        self: &Arc<Self>,
        command: &'static str,
        database: &str,
        body: Bytes,
        client: &Arc<Client>,
        session: Option<SessionId>,
    ) -> Operation {
        let info = Arc::new(OperationInfo {
            id: self.next_id(),
            command,
            database: database.to_owned(),
            body,
            client: Arc::clone(client),
            session,
            started: monotonic(),
            killed: Arc::default(),
        });
        self.running.insert(info.id, Arc::clone(&info));
        Operation {
            info,
            list: Arc::clone(self),
        }
    }

    /// A number for an operation that no other running one has; positive and below 2^31, as mongod's.
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

    /// Kills what runs in a session.
    pub fn kill_where(&self, which: impl Fn(&OperationInfo) -> bool) {
        for info in &self.running {
            if which(&info) {
                info.killed.set();
            }
        }
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
}

// === impl Operation ===

impl Operation {
    /// The flag that killOp sets.
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
    fn the_first_operations_have_numbers_of_their_own() {
        let list = Operations::default();
        assert_eq!([list.next_id(), list.next_id(), list.next_id()], [1, 2, 3]);
        list.next.store(0x7fff_fffe, Ordering::Relaxed);
        assert_eq!([list.next_id(), list.next_id()], [0x7fff_ffff, 1]);
    }
}
