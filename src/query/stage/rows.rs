//! Pull of batches: what a stage is at run time, and what it is handed with every pull.

use super::{Batch, Sources};
use crate::error::Result;
use crate::query::Vars;

/// A running stage (or the source in front of the first one). It owns its input and holds no lock between two calls.
pub trait Rows: Send {
    /// Appends rows to `out`, until it is full or the time slice is used up.
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow>;

    /// Nobody asks until the next command: lets go of buffers that can be made again, its input's too, and says how many bytes
    /// stay.
    fn at_rest(&mut self) -> usize;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Call again, at once if you like. Rows may have been appended or not (a filter may have dropped all of them).
    More,
    /// The time slice is used up: call again after others had their turn. Rows may have been appended.
    Pause,
    /// There are no more rows; this very call may still have appended the last of them. Not to be called again.
    End,
}

/// What a pull may use.
pub struct Cx<'c> {
    /// The command's variables and its `now`.
    pub vars: &'c Vars,
    pub slice: &'c dyn Slice,
    pub limits: Limits,
    pub sources: &'c dyn Sources,
}

/// Says when a step has run for long enough. Engine implements it, since this room does not ask for the time.
pub trait Slice {
    fn is_over(&self) -> bool;
}

/// Never over: for tests, and for work that is short by its nature.
pub struct Endless;

/// What a pipeline may take up.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that one blocking stage may hold.
    pub memory: usize,
    /// The command's `allowDiskUse`. Nothing is ever written to disk here: it only changes what an error says.
    pub allow_disk_use: bool,
}

/// No rows at all: the input of a stage that is its own source.
pub struct Empty;

// === impl Cx ===

impl Cx<'_> {
    #[inline]
    pub fn out_of_time(&self) -> bool {
        self.slice.is_over()
    }

    /// The same with other variables, for a pipeline inside a stage.
    pub fn with_vars<'a>(&'a self, vars: &'a Vars) -> Cx<'a> {
        Cx {
            vars,
            slice: self.slice,
            limits: self.limits,
            sources: self.sources,
        }
    }
}

// === impl Slice ===

impl Slice for Endless {
    fn is_over(&self) -> bool {
        false
    }
}

// === impl Limits ===

impl Default for Limits {
    /// MongoDB's 100 MB.
    fn default() -> Self {
        Self {
            memory: 100 * 1024 * 1024,
            allow_disk_use: true,
        }
    }
}

// === impl Rows ===

impl Rows for Empty {
    fn fill(&mut self, _: &mut Cx<'_>, _: &mut Batch) -> Result<Flow> {
        Ok(Flow::End)
    }

    fn at_rest(&mut self) -> usize {
        0
    }
}

impl<R: Rows + ?Sized> Rows for Box<R> {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        (**self).fill(cx, out)
    }

    fn at_rest(&mut self) -> usize {
        (**self).at_rest()
    }
}
