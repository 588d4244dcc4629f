//! What a cursor reads its rows from.

use super::ReplyBatch;
use crate::effort::Effort;
use crate::engine::{PlanSummary, ReadPoint};
use crate::error::Result;
use crate::value::DocBuf;
use crate::wait::Wait;

/// The source of a cursor's rows. It keeps its position, not storage. No lock is held between two calls.
pub trait Source: Send {
    /// Appends rows until the batch is full, the rows have ended, or about half a millisecond has passed. `at` has the
    /// `now` of the calling command: a row that represents one stored document must still be visible at that time. The work
    /// is added to `effort`.
    fn fill(
        &mut self,
        at: ReadPoint,
        batch: &mut ReplyBatch<'_>,
        effort: &mut Effort,
    ) -> Result<Fill>;

    /// Returns a wait that ends when new rows may have arrived since this call. Only for sources that return
    /// [`Fill::Waiting`].
    fn arrival(&self) -> Option<Wait> {
        None
    }

    /// Returns the place that a change stream has reached, for `postBatchResumeToken`.
    fn resume_token(&self) -> Option<DocBuf> {
        None
    }

    /// Returns where the rows come from, for `$currentOp`.
    fn plan_summary(&self) -> Option<PlanSummary> {
        None
    }

    /// Prepares for the time until the next command: frees what can be rebuilt, and returns the number of bytes that
    /// remain.
    fn suspend(&mut self) -> usize;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// The time slice is over: call again with the same batch after other tasks had their turn.
    Pause,
    /// The batch is full. There may be more rows.
    Full,
    /// There are no more rows now, but there may be some later.
    Waiting,
    /// There are no more rows.
    End,
}
