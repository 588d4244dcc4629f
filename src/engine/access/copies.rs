//! Slow filters: the walk copies documents under the lock and tests the copies after releasing it.

use std::ops::{ControlFlow, Range};

use smallvec::SmallVec;

use super::offer::{DocumentTest, OnFound};
use super::{CHUNK, Found, SlicePace, Walk, WalkPosition};
use crate::effort::Effort;
use crate::error::Result;
use crate::query::Vars;
use crate::query::filter::Filter;
use crate::storage::{Collection, ReadPoint, RecordId, Stored, View};

/// The number of documents that one lock hold copies, if testing each of them may take long.
pub(super) const MAX_COPIES: usize = 8;

/// A copy of a document that is tested outside the lock.
struct Copied {
    id: RecordId,
    /// The range of its bytes in the buffer of all copies.
    bytes: Range<usize>,
    /// The stored document without its bytes.
    rest: Stored<'static>,
    /// The position and the effort of the walk after this document.
    position: WalkPosition,
    effort: Effort,
}

// === impl Copied ===

impl Copied {
    fn stored<'c>(&self, copies: &'c [u8]) -> Stored<'c> {
        Stored {
            bytes: copies.get(self.bytes.clone()).unwrap_or_default(),
            ..self.rest
        }
    }
}

// === impl Walk ===

impl Walk {
    /// Tests some documents against a slow filter. It copies them under the lock and tests them after releasing it, so that
    /// no writer waits for the filter.
    pub(super) fn test_copies<F: OnFound>(
        &mut self,
        collection: &Collection,
        at: ReadPoint,
        test: &mut DocumentTest<'_, F>,
    ) -> Result<SlicePace> {
        let mut copied: SmallVec<[Copied; MAX_COPIES]> = SmallVec::new();
        let mut bytes = std::mem::take(&mut self.copies);
        bytes.clear();
        let pace = collection.read(at, |view| {
            self.enter(view)?;
            self.copy(view, test.vars, &mut copied, &mut bytes)
        })?;
        for (nth, copy) in copied.iter().enumerate() {
            if test.offer(copy.id, copy.stored(&bytes))?.is_break() {
                // The walk will read the remaining copies again.
                self.position = copy.position.clone();
                self.effort = copy.effort;
                if let Some(seen) = &mut self.seen {
                    for other in copied.iter().skip(nth + 1) {
                        seen.remove(&other.id.0);
                    }
                }
                self.copies = bytes;
                return Ok(SlicePace::More);
            }
        }
        self.copies = bytes;
        Ok(pace)
    }

    /// Copies the next documents without testing them.
    fn copy(
        &mut self,
        view: &View<'_>,
        vars: &Vars,
        copied: &mut SmallVec<[Copied; MAX_COPIES]>,
        bytes: &mut Vec<u8>,
    ) -> Result<SlicePace> {
        /// The most bytes that one lock hold copies, though a single document may be larger.
        const MAX_BYTES: usize = 1 << 20;
        let all = Filter::all();
        for _ in 0..CHUNK {
            let mut next = None;
            let mut take = |found: Found<'_>| {
                let start = bytes.len();
                bytes.extend_from_slice(found.stored.bytes);
                let rest = Stored {
                    bytes: &[],
                    ..found.stored
                };
                next = Some((found.id, start..bytes.len(), rest));
                Ok(ControlFlow::Break(()))
            };
            let pace = self.read_some(
                view,
                &mut DocumentTest {
                    chunk: 1,
                    filter: &all,
                    vars,
                    exact: true,
                    show_ts: false,
                    scratch: &mut Vec::new(),
                    matched: 0,
                    each: &mut take,
                },
            )?;
            if let Some((id, bytes, rest)) = next {
                copied.push(Copied {
                    id,
                    bytes,
                    rest,
                    position: self.position.clone(),
                    effort: self.effort,
                });
            }
            if pace != SlicePace::More {
                return Ok(pace);
            }
            if copied.len() == MAX_COPIES || bytes.len() >= MAX_BYTES {
                break;
            }
        }
        Ok(SlicePace::More)
    }
}
