//! `local.oplog.rs`: the log of changes as a capped collection, for tools that read or tail it.
//!
//! Writers know nothing of it. The collection is filled by those who read it: before a command looks at it,
//! [`Oplog::catch_up`] copies what the log has recorded since. So it costs nothing while nobody reads it, and a reader sees
//! every change that was acknowledged before. What the log has dropped is dropped here, too.

mod entry;

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Code, Error, Result};
use crate::interrupt::run_blocking;
use crate::storage::{
    Cap, Catalog, ChangeLog, Collection, CollectionOptions, HistoryLost, LogEntry, LogPosition,
    LogScope, Namespace,
};
use crate::value::{ClusterTime, Doc, DocBuf, Millis};
use crate::wait::Wait;

/// The oplog of a server that is a member of a replica set.
pub struct Oplog {
    catalog: Arc<Catalog>,
    collection: Arc<Collection>,
    /// The first entry of the log that is not in the collection. `None` before the first reader.
    copied: Mutex<Option<LogPosition>>,
    /// What its readers wait for.
    scope: LogScope,
}

/// The name of the collection.
pub const OPLOG: (&str, &str) = ("local", "oplog.rs");

/// What a command does to the oplog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OplogUse {
    Read,
    Write,
    /// Changes its size by way of collMod.
    Resize,
    Drop,
}

// === impl Oplog ===

impl Oplog {
    /// Creates the collection. Nothing else uses the catalog yet.
    pub fn create(catalog: &Arc<Catalog>, bytes: u64, now: Millis) -> Arc<Self> {
        let options = CollectionOptions {
            cap: Some(Cap {
                bytes,
                documents: None,
            }),
            ..CollectionOptions::default()
        };
        let name = Namespace::new(OPLOG.0, OPLOG.1);
        let collection = catalog
            .create(name, options, now, |_| ())
            .expect("nothing else is there yet");
        Arc::new(Self {
            catalog: Arc::clone(catalog),
            collection,
            copied: Mutex::new(None),
            scope: LogScope::everything(),
        })
    }

    /// Lets a command at the collection. Only the server writes to it.
    pub fn enter(&self, to: OplogUse, now: Millis) -> Result<()> {
        match to {
            OplogUse::Read => {
                self.catch_up(now);
                Ok(())
            }
            OplogUse::Write => Err(Error::new(
                Code::InvalidNamespace,
                "cannot write to local.oplog.rs",
            )),
            OplogUse::Resize => Err(Error::new(
                Code::InvalidOptions,
                "Cannot resize the oplog using this command. Use the 'replSetResizeOplog' command instead.",
            )),
            OplogUse::Drop => Err(Error::location(
                5255000,
                "can't drop live oplog while replicating",
            )),
        }
    }

    /// Returns a wait that ends when something is recorded after this call.
    pub fn arrival(&self) -> Wait {
        self.log().arrival(&self.scope)
    }

    fn log(&self) -> &ChangeLog {
        &self.catalog.shared().log
    }

    /// Copies what was recorded since the last reader. The first reader starts the recording.
    pub fn catch_up(&self, now: Millis) {
        self.catalog.start_recording(now);
        let shared = self.catalog.shared();
        let mut copied = self.copied.lock();
        if copied.is_none_or(|copied| copied < shared.log.end()) {
            let from = self.copy_some(*copied);
            *copied = Some(from);
            if from < shared.log.end() {
                // A long history is copied for the first reader.
                *copied = Some(run_blocking(|| self.copy_rest(from)));
            }
        }
    }

    fn copy_rest(&self, mut from: LogPosition) -> LogPosition {
        while from < self.log().end() {
            from = self.copy_some(Some(from));
        }
        from
    }

    /// Copies some entries and returns the position behind them.
    fn copy_some(&self, from: Option<LogPosition>) -> LogPosition {
        let log = self.log();
        let mut documents: Vec<(ClusterTime, Millis, DocBuf)> = Vec::new();
        let from = from.unwrap_or_else(|| {
            if let Some(start) = log.started()
                && log.oldest().is_none_or(|oldest| start.time < oldest)
                && log.is_whole()
            {
                documents.push((start.time, start.wall, entry::beginning(start)));
            }
            log.beginning()
        });
        let (found, position) = changes(log, from);
        // The changes of a transaction share their time, and become one entry.
        let groups = found.chunk_by(|one, next| one.time == next.time);
        documents
            .extend(groups.map(|group| (group[0].time, group[0].wall, entry::document(group))));
        let oldest = log.oldest();
        let wall = documents.last().map_or(Millis(0), |(_, wall, _)| *wall);
        // It is never dropped.
        let _ = self.collection.write(wall, |writer| {
            for (time, _, document) in &documents {
                writer.append_entry(document.as_doc(), *time);
            }
            if !log.is_whole() {
                writer.evict_while(|document| {
                    oldest.is_some_and(|oldest| time_of(document) < oldest)
                });
            }
        });
        position
    }
}

/// Returns some changes from a position on, with all of the last transaction, and the position behind them.
fn changes(log: &ChangeLog, from: LogPosition) -> (Vec<Arc<LogEntry>>, LogPosition) {
    let mut found: Vec<Arc<LogEntry>> = Vec::new();
    let mut position = from;
    loop {
        let read = log.read(position, |entry| {
            found.push(Arc::clone(entry));
            true
        });
        let at_end;
        (position, at_end) = match read {
            Ok(read) => read,
            // The log has dropped entries that nobody has read here. The reader sees a gap, as in a capped collection.
            Err(HistoryLost) => (log.beginning(), true),
        };
        let is_in_transaction = found.last().is_some_and(|last| last.transaction.is_some());
        if at_end || !is_in_transaction {
            return (found, position);
        }
    }
}

/// Returns the time of an entry.
fn time_of(document: Doc<'_>) -> ClusterTime {
    let (seconds, increment) = document.get("ts").as_timestamp().unwrap_or_default();
    ClusterTime::from_parts(seconds, increment)
}
