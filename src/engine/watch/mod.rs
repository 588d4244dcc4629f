//! Change streams: follows the log of changes and makes an event of each change that a client wants to see.
//!
//! A [`Watch`] keeps its position in the log, and holds no lock between two events. It begins where the client says, or
//! behind the last change; whatever is written after it was opened will be found.

mod description;
mod event;

pub use event::MissingImage;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::{Code, Error, Result};
use crate::names::{is_internal, is_system};
use crate::query::stage::{ChangeStream, EventPlace, ResumeToken, StreamScope, StreamStart};
use crate::storage::{
    Catalog, HistoryLost, LogEntry, LogOp, LogPosition, LogScope, Namespace, ReadPoint,
};
use crate::value::{ClusterTime, DocBuf};
use crate::wait::Wait;

/// How many changes are taken out of the log at once.
const CHUNK: usize = 64;

/// An open change stream.
pub struct Watch {
    catalog: Arc<Catalog>,
    stream: ChangeStream,
    /// What it waits for.
    scope: LogScope,
    /// `None` before the first event is asked for, if the client has named a start.
    position: Option<LogPosition>,
    /// Changes that were found and not told yet.
    found: VecDeque<Arc<LogEntry>>,
    /// The change that ends the stream. The event that says so is still to be told.
    ending: Option<Arc<LogEntry>>,
    is_over: bool,
    /// The client wants to go on behind an event that this stream does not tell. It fails at the first event it would tell.
    is_lost: bool,
    /// The place behind which a new stream would go on.
    mark: ResumeToken,
    /// The time of the last change that was read, if nobody is told about it.
    passed: Option<ClusterTime>,
}

/// The answer of [`Watch::next`].
pub enum NextEvent {
    Event {
        token: ResumeToken,
        event: DocBuf,
        missing: Option<MissingImage>,
    },
    /// Many changes were read, and none is for this stream. The caller calls again.
    Pause,
    /// There is none now.
    None,
    /// There will be none any more.
    Over,
}

// === impl Watch ===

impl Watch {
    /// Opens a stream. From now on changes are recorded.
    pub fn open(catalog: &Arc<Catalog>, stream: ChangeStream, at: ReadPoint) -> Self {
        catalog.start_recording(at.now());
        let shared = catalog.shared();
        // The position first: whatever comes in between is before the mark and behind the position.
        let position = match stream.start {
            StreamStart::Now => Some(shared.log.end()),
            StreamStart::At(_) | StreamStart::After(_) => None,
        };
        let mark = match stream.start {
            StreamStart::Now => after(shared.time.latest()),
            StreamStart::At(time) => ResumeToken::before(time),
            StreamStart::After(token) => token,
        };
        Self {
            catalog: Arc::clone(catalog),
            scope: match &stream.scope {
                StreamScope::Collection { db, coll } => LogScope::collection(db, coll),
                StreamScope::Database(db) => LogScope::database(db),
                StreamScope::Cluster => LogScope::everything(),
            },
            stream,
            position,
            found: VecDeque::new(),
            ending: None,
            is_over: false,
            is_lost: false,
            mark,
            passed: None,
        }
    }

    /// Returns the token for the place that the stream has reached.
    pub fn mark(&self) -> ResumeToken {
        self.mark
    }

    /// Returns whether the last event said that the stream ends.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns a wait that ends when there may be another event since this call.
    pub fn arrival(&self) -> Wait {
        self.catalog.shared().log.arrival(&self.scope)
    }

    /// Returns the bytes of the changes that were found and not told yet. They stay even if the log drops them.
    pub fn held(&self) -> usize {
        self.found.iter().map(|entry| entry.weight()).sum()
    }

    /// Returns the next event.
    pub fn next(&mut self, at: ReadPoint) -> Result<NextEvent> {
        if self.is_over {
            return Ok(NextEvent::Over);
        }
        // The first look at the log may find that a resumed stream has only its end to tell.
        let found_none = self.ending.is_none() && self.found.is_empty();
        let at_end = !found_none || self.look()?;
        if let Some(entry) = self.ending.take() {
            self.is_over = true;
            let token = event_token(&entry, true);
            return Ok(self.told(token, event::invalidated(&entry, &token), None));
        }
        if self.found.is_empty() && !at_end {
            return Ok(NextEvent::Pause);
        }
        let Some(entry) = self.found.pop_front() else {
            if let Some(time) = self.passed.take() {
                self.mark = after(time);
            }
            return Ok(NextEvent::None);
        };
        if self.is_lost {
            return Err(not_found(&self.mark));
        }
        if self.ends_with(&entry) {
            self.ending = Some(Arc::clone(&entry));
        }
        let token = event_token(&entry, false);
        let (event, missing) = event::of(&entry, &token, &self.stream, &self.catalog, at);
        Ok(self.told(token, event, missing))
    }

    fn told(
        &mut self,
        token: ResumeToken,
        event: DocBuf,
        missing: Option<MissingImage>,
    ) -> NextEvent {
        self.mark = token;
        NextEvent::Event {
            token,
            event,
            missing,
        }
    }

    /// Reads changes from the log. Returns whether its end was reached.
    fn look(&mut self) -> Result<bool> {
        let from = match self.position {
            Some(position) => position,
            None => self.start()?,
        };
        let (stream, found, passed) = (&self.stream, &mut self.found, &mut self.passed);
        let read = self.catalog.shared().log.read(from, |entry| {
            match wants(stream, entry) {
                true => {
                    found.push_back(Arc::clone(entry));
                    *passed = None;
                }
                false => *passed = Some(entry.time),
            }
            found.len() < CHUNK
        });
        let (position, at_end) = read.map_err(|HistoryLost| history_lost())?;
        self.position = Some(position);
        Ok(at_end)
    }

    /// Finds the place where the client wants the stream to begin.
    fn start(&mut self) -> Result<LogPosition> {
        let log = &self.catalog.shared().log;
        let seek = |time| log.seek(time).map_err(|HistoryLost| history_lost());
        let token = match self.stream.start {
            StreamStart::Now => return Ok(log.end()),
            StreamStart::At(time) => return seek(time),
            StreamStart::After(token) => token,
        };
        let from = seek(token.time)?;
        let Some(event) = token.event else {
            return Ok(from);
        };
        let mut found = None;
        let mut is_past = false;
        // A transaction may have made more changes than one look at the log shows.
        let mut position = from;
        let mut at_end = false;
        while !at_end && !is_past {
            let steps = |entry: &Arc<LogEntry>| {
                is_past = entry.time != token.time;
                if !is_past && is_event(entry, &event) {
                    is_past = true;
                    found = wants(&self.stream, entry).then(|| Arc::clone(entry));
                }
                !is_past
            };
            let read = log.read(position, steps);
            (position, at_end) = read.map_err(|HistoryLost| history_lost())?;
        }
        let Some(entry) = found else {
            self.is_lost = true;
            return Ok(from);
        };
        // The client saw some fragments of the event. The caller leaves those out.
        if event.fragment.is_some() {
            self.found.push_back(entry);
            return Ok(position);
        }
        // The client saw the last change, but not the event that the stream ends.
        if self.ends_with(&entry) && !event.is_invalidate {
            self.ending = Some(entry);
        }
        Ok(position)
    }

    /// Returns whether the stream ends with a change.
    fn ends_with(&self, entry: &LogEntry) -> bool {
        match self.stream.scope {
            StreamScope::Collection { .. } => {
                matches!(
                    entry.op,
                    LogOp::Drop { .. } | LogOp::Rename { .. } | LogOp::DropDatabase
                )
            }
            StreamScope::Database(_) => matches!(entry.op, LogOp::DropDatabase),
            StreamScope::Cluster => false,
        }
    }
}

/// Returns the place behind all changes up to a time.
fn after(time: ClusterTime) -> ResumeToken {
    ResumeToken::before(ClusterTime(time.0.saturating_add(1)))
}

fn event_token(entry: &LogEntry, is_invalidate: bool) -> ResumeToken {
    ResumeToken {
        time: entry.time,
        event: Some(EventPlace {
            index: entry.index,
            is_invalidate,
            uuid: entry.subject.uuid,
            fragment: None,
        }),
    }
}

fn is_event(entry: &LogEntry, event: &EventPlace) -> bool {
    (entry.index, entry.subject.uuid) == (event.index, event.uuid)
}

/// Returns whether a stream tells a change.
fn wants(stream: &ChangeStream, entry: &LogEntry) -> bool {
    is_in_scope(&stream.scope, entry) && (stream.expanded || is_classic(&entry.op))
}

/// Returns whether clients see the event without asking for expanded events.
fn is_classic(op: &LogOp) -> bool {
    match op {
        LogOp::Insert { .. }
        | LogOp::Update { .. }
        | LogOp::Replace { .. }
        | LogOp::Delete { .. }
        | LogOp::Drop { .. }
        | LogOp::Rename { .. }
        | LogOp::DropDatabase => true,
        LogOp::Create { .. }
        | LogOp::CreateIndexes { .. }
        | LogOp::DropIndexes { .. }
        | LogOp::Modify { .. } => false,
    }
}

fn is_in_scope(scope: &StreamScope, entry: &LogEntry) -> bool {
    let holds = |name: &Namespace| {
        let is_own = || is_system(name.collection());
        match scope {
            StreamScope::Collection { db, coll } => {
                name.collection() == coll && name.database() == db
            }
            StreamScope::Database(db) => name.database() == db && !is_own(),
            StreamScope::Cluster => !is_internal(name.database()) && !is_own(),
        }
    };
    // A collection that gets the name of the one that a client follows also ends the stream.
    let renamed = || matches!(&entry.op, LogOp::Rename { to, .. } if holds(to));
    holds(&entry.subject.namespace) || renamed()
}

fn history_lost() -> Error {
    fatal(
        Code::ChangeStreamHistoryLost,
        "Resume of change stream was not possible, as the resume point may no longer be in the oplog.".to_owned(),
    )
}

fn not_found(token: &ResumeToken) -> Error {
    fatal(
        Code::ChangeStreamFatalError,
        format!(
            "cannot resume stream; the resume token was not found. {}",
            token.encode()
        ),
    )
}

/// Returns an error after which no driver should open the stream again.
pub fn fatal(code: Code, message: String) -> Error {
    Error::new(code, message).with_label("NonResumableChangeStreamError")
}
