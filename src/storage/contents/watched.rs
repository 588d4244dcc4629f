//! Changes that the log of changes is told about.

use std::sync::Arc;

use super::{Cause, Change, Contents};
use crate::storage::{Images, LogOp, RecordId};
use crate::value::{Doc, DocBuf, Millis};

// === impl Contents ===

impl Contents {
    /// Applies a change and tells the log about it, at one logical time. The log and the contents agree: nobody else has the
    /// lock.
    #[cold]
    #[inline(never)]
    pub(super) fn commit_watched(&mut self, now: Millis, change: Change<'_>) -> RecordId {
        if !self.subject.is_told() || !self.shared.log.note_write(now) {
            let time = self.tick(now);
            return self.commit_at(time, change);
        }
        if let Change::Remove {
            id,
            cause: Cause::Expired,
        } = change
            && let Some(end) = self.record_end(id)
        {
            self.shared.expiry_events.note_delay(end, now);
        }
        // What takes long comes before the turn: the writers of all collections wait for each other there.
        let op = self.op_of(change);
        let shared = Arc::clone(&self.shared);
        let turn = shared.turn(now);
        let id = self.commit_at(turn.time(), change);
        if let Some(op) = op {
            turn.append(&self.subject, op);
        }
        id
    }

    /// Returns what the log is told about a change that is about to be applied.
    fn op_of(&self, change: Change<'_>) -> Option<LogOp> {
        let (before, after, delta) = match change {
            Change::Insert { bytes, .. } => (None, Some(Doc::new(bytes).into()), None),
            Change::Touch { .. } => return None,
            Change::Remove { id, .. } => (self.copy_of(id), None, None),
            Change::Replace {
                id, bytes, delta, ..
            } => (self.copy_of(id), Some(Doc::new(bytes).into()), Some(delta)),
            Change::Patch {
                id, patch, delta, ..
            } => {
                let before = self.copy_of(id);
                let after = before.clone().map(|before| {
                    let mut bytes = before.into_bytes();
                    patch.apply(&mut bytes);
                    DocBuf::from_bytes(bytes)
                });
                (before, after, Some(delta))
            }
        };
        let delta = match (&before, &after, delta) {
            (Some(before), Some(after), Some(delta)) => {
                delta.delta(before.as_doc(), after.as_doc())
            }
            _ => None,
        };
        self.logged(before, after, delta)
    }

    /// Notes that documents may end earlier than before, for those who tell it at the instant.
    #[inline]
    pub(super) fn note_end(&self) {
        let events = &self.shared.expiry_events;
        if events.is_instant() {
            events.note_end(self.earliest_end());
        }
    }

    /// Tells the log about a change of the collection itself.
    pub fn record(&self, now: Millis, op: impl FnOnce() -> LogOp) {
        if self.shared.snapshots.are_open() {
            self.note_changed(self.shared.time.tick(now));
        }
        self.shared.record(now, &self.subject, op);
    }

    /// Sets whether the log keeps whole documents from before and after a change.
    pub fn keep_images(&mut self, keep: bool) {
        self.keeps_images = keep;
    }

    /// Returns what the log is told about a change of a document. `delta` has the changed fields, if an update tells them.
    pub fn logged(
        &self,
        before: Option<DocBuf>,
        after: Option<DocBuf>,
        delta: Option<DocBuf>,
    ) -> Option<LogOp> {
        Some(match (before, after, delta) {
            (None, None, _) => return None,
            (None, Some(document), _) => LogOp::Insert { document },
            (Some(before), None, _) => LogOp::Delete {
                key: document_key(before.as_doc()),
                images: self.images(Some(before), None),
            },
            (Some(before), Some(after), Some(delta)) => LogOp::Update {
                key: document_key(after.as_doc()),
                delta,
                images: self.images(Some(before), Some(after)),
            },
            (Some(before), Some(document), None) => LogOp::Replace {
                document,
                images: self.images(Some(before), None),
            },
        })
    }

    fn images(&self, before: Option<DocBuf>, after: Option<DocBuf>) -> Images {
        match self.keeps_images {
            true => Images { before, after },
            false => Images::default(),
        }
    }

    /// Returns a copy of a document, expired or not.
    pub fn copy_of(&self, id: RecordId) -> Option<DocBuf> {
        let bytes = self.segments.get(id.segment())?.bytes_of(id.slot())?;
        Some(Doc::new(bytes).into())
    }
}

/// Returns `{_id: ...}`.
fn document_key(document: Doc<'_>) -> DocBuf {
    DocBuf::build(|key| {
        key.put("_id", document.get("_id"));
    })
}
