//! Pulling batches: a stage at run time, and the context of every pull.

use super::{RowBatch, Sources};
use crate::error::{Code, Error, Result};
use crate::query::Vars;

/// A running stage, or the source before the first one. It owns its input and holds no lock between two calls.
pub trait Rows: Send {
    /// Appends rows to `out` until it is full or the time slice is over.
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow>;

    /// Prepares for a wait until the next command. Frees the buffers that can be rebuilt, also those of the input, and
    /// returns the bytes that remain.
    fn suspend(&mut self) -> usize;
}

/// The answer of [`Rows::fill`]: whether and when to call it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The caller may call again at once. Rows may have been appended or not (a filter may have dropped all of them).
    More,
    /// The time slice is over. The caller calls again after other tasks had their turn. Rows may have been appended.
    Pause,
    /// There are no more rows, though this call may have appended the last ones. The caller must not call again.
    End,
}

/// The context of a pull.
pub struct RowContext<'c> {
    /// The command's variables and its `now`.
    pub vars: &'c Vars,
    pub slice: &'c dyn StepBudget,
    pub limits: PipelineLimits,
    pub sources: &'c dyn Sources,
}

/// Tells when a step has run long enough. The engine implements it, because this module does not read the clock.
pub trait StepBudget {
    fn is_over(&self) -> bool;
}

/// A slice that is never over, for tests and for work that is always short.
pub struct Endless;

/// The resource limits of a pipeline.
#[derive(Debug, Clone, Copy)]
pub struct PipelineLimits {
    /// The bytes that one blocking stage may hold.
    pub memory: usize,
    /// The command's `allowDiskUse`. Nothing is ever written to disk here.
    pub allow_disk_use: bool,
}

/// A source without rows: the input of a stage that has rows of its own.
pub struct Empty;

/// Rows that end with a failure.
struct RowsBeforeFailure {
    rows: Box<dyn Rows>,
    failure: Option<Error>,
}

/// Passes on the rows that a stage made before it failed, and then the failure. In MongoDB a row goes through all stages
/// before the next one is read, so a later stage that fails with an earlier row fails first.
pub(super) fn rows_before_failure(rows: Box<dyn Rows>) -> Box<dyn Rows> {
    Box::new(RowsBeforeFailure {
        rows,
        failure: None,
    })
}

// === impl RowContext ===

impl RowContext<'_> {
    #[inline]
    pub fn out_of_time(&self) -> bool {
        self.slice.is_over()
    }

    /// Returns this context with other variables, for a pipeline inside a stage.
    pub fn with_vars<'a>(&'a self, vars: &'a Vars) -> RowContext<'a> {
        RowContext {
            vars,
            slice: self.slice,
            limits: self.limits,
            sources: self.sources,
        }
    }
}

// === impl StepBudget ===

impl StepBudget for Endless {
    fn is_over(&self) -> bool {
        false
    }
}

// === impl PipelineLimits ===

impl PipelineLimits {
    /// MongoDB's limit for a stage that may not use the disk.
    const WITHOUT_DISK: usize = 100 * 1024 * 1024;

    /// Returns the limits of a query. Where MongoDB would use the disk, a stage may use this much memory instead.
    pub fn new(allow_disk_use: bool, memory: usize) -> Self {
        Self {
            memory: match allow_disk_use {
                true => memory,
                false => memory.min(Self::WITHOUT_DISK),
            },
            allow_disk_use,
        }
    }
}

// === impl Rows ===

impl Rows for RowsBeforeFailure {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        let before = out.len();
        match self.rows.fill(cx, out) {
            // An operation that must end does not work on.
            Err(failure)
                if out.len() > before
                    && !matches!(failure.code(), Code::Interrupted | Code::MaxTimeMSExpired) =>
            {
                self.failure = Some(failure);
                Ok(Flow::More)
            }
            filled => filled,
        }
    }

    fn suspend(&mut self) -> usize {
        self.rows.suspend()
    }
}

impl Rows for Empty {
    fn fill(&mut self, _: &mut RowContext<'_>, _: &mut RowBatch) -> Result<Flow> {
        Ok(Flow::End)
    }

    fn suspend(&mut self) -> usize {
        0
    }
}

impl<R: Rows + ?Sized> Rows for Box<R> {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        (**self).fill(cx, out)
    }

    fn suspend(&mut self) -> usize {
        (**self).suspend()
    }
}
