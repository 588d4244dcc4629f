//! Scans of the whole collection in insertion order, and reads of documents by their `_id`.

use std::ops::ControlFlow;

use super::offer::{DocumentTest, OnFound, cost};
use super::{SlicePace, Walk, WalkPosition};
use crate::engine::plan::AccessPath;
use crate::error::Result;
use crate::storage::{RecordId, Stored, View};

// === impl Walk ===

impl Walk {
    pub(super) fn scan_forward<F: OnFound>(
        &mut self,
        view: &View<'_>,
        newest: RecordId,
        test: &mut DocumentTest<'_, F>,
    ) -> Result<SlicePace> {
        let from = match self.position {
            WalkPosition::Start => RecordId::FIRST,
            WalkPosition::Record(last) => last.next(),
            _ => return Ok(SlicePace::End),
        };
        let mut left = test.chunk;
        let stopped = view.each_up(from, |id, stored| {
            if id > newest {
                return ControlFlow::Break(Ok(SlicePace::End));
            }
            self.test_scanned(id, stored, &mut left, test)
        });
        stopped.break_value().unwrap_or(Ok(SlicePace::End))
    }

    pub(super) fn scan_backward<F: OnFound>(
        &mut self,
        view: &View<'_>,
        newest: RecordId,
        test: &mut DocumentTest<'_, F>,
    ) -> Result<SlicePace> {
        let from = match self.position {
            WalkPosition::Start => newest,
            WalkPosition::Record(last) => match last.previous() {
                Some(before) => before,
                None => return Ok(SlicePace::End),
            },
            _ => return Ok(SlicePace::End),
        };
        let mut left = test.chunk;
        let stopped = view.each_down(from, |id, stored| {
            self.test_scanned(id, stored, &mut left, test)
        });
        stopped.break_value().unwrap_or(Ok(SlicePace::End))
    }

    /// Tests one document of a scan. The speed of scans depends on this function.
    #[inline(always)]
    fn test_scanned<F: OnFound>(
        &mut self,
        id: RecordId,
        stored: Stored<'_>,
        left: &mut usize,
        test: &mut DocumentTest<'_, F>,
    ) -> ControlFlow<Result<SlicePace>> {
        *left = left.saturating_sub(cost(&stored));
        self.position = WalkPosition::Record(id);
        self.effort.documents += 1;
        match test.offer(id, stored) {
            Ok(ControlFlow::Continue(())) if *left > 0 => ControlFlow::Continue(()),
            Ok(_) => ControlFlow::Break(Ok(SlicePace::More)),
            Err(error) => ControlFlow::Break(Err(error)),
        }
    }

    pub(super) fn read_ids<F: OnFound>(
        &mut self,
        view: &View<'_>,
        test: &mut DocumentTest<'_, F>,
    ) -> Result<SlicePace> {
        let AccessPath::Ids(keys) = &self.access else {
            return Ok(SlicePace::End);
        };
        let from = match self.position {
            WalkPosition::Start => {
                view.id_usage().note();
                0
            }
            WalkPosition::Id(next) => next,
            _ => return Ok(SlicePace::End),
        };
        let mut left = test.chunk;
        for (n, key) in keys.iter().enumerate().skip(from) {
            if left == 0 {
                return Ok(SlicePace::More);
            }
            left -= 1;
            self.position = WalkPosition::Id(n + 1);
            if let Some((id, stored)) = view.by_key(key) {
                left = left.saturating_sub(cost(&stored) - 1);
                self.effort.keys += 1;
                if self.seen.as_mut().is_some_and(|seen| !seen.insert(id.0)) {
                    continue;
                }
                self.effort.documents += 1;
                self.effort.by_id += 1;
                if test.offer(id, stored)?.is_break() {
                    return Ok(SlicePace::More);
                }
            }
        }
        Ok(SlicePace::End)
    }
}
