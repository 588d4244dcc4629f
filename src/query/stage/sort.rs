//! `$sort`: all rows in order or, with a bound, only the first ones.

use std::sync::Arc;

use super::run_sorter::RunSorter;
use super::{Empty, Flow, RowBatch, RowContext, Rows, Stage, StageContext};
use crate::error::{Code, Error, Result};
use crate::query::sort::Sort;
use crate::value::{Doc, ValueRef};

/// Larger bounds are ignored, because they save nothing. The caller limits the rows anyway.
const MAX_BOUND: usize = 50_000;

/// The sort order of rows.
pub(super) enum RowOrder {
    Sort(Arc<Sort>),
    /// A random key, drawn from the state of a generator (`$sample`).
    Chance(u64),
}

/// The running form of `$sort` and `$sample`.
pub(super) struct Sorted {
    input: Box<dyn Rows>,
    by: RowOrder,
    bound: Option<usize>,
    held: RunSorter,
    batch: RowBatch,
    key: Vec<u8>,
    complete: bool,
}

/// Returns the rows of `input` in order. With a bound, rows beyond it may be left out.
pub fn rows(input: Box<dyn Rows>, by: Arc<Sort>, bound: Option<u64>) -> Box<dyn Rows> {
    Box::new(Sorted::new(input, RowOrder::Sort(by), bound))
}

pub(super) fn parse(
    value: ValueRef<'_>,
    _: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let spec = value
        .as_doc()
        .ok_or_else(|| Error::location(15973, "the $sort key specification must be an object"))?;
    if spec.is_empty() {
        return Err(Error::location(
            15976,
            "$sort stage must have at least one sort key",
        ));
    }
    push(Stage::Sort(Arc::new(Sort::parse(spec)?), None));
    Ok(())
}

// === impl RowOrder ===

impl RowOrder {
    fn key(&mut self, doc: Doc<'_>, out: &mut Vec<u8>) -> Result<()> {
        match self {
            Self::Sort(sort) => sort.key(doc, out)?,
            Self::Chance(state) => out.extend_from_slice(&super::sample::draw(state).to_be_bytes()),
        }
        Ok(())
    }
}

// === impl Sorted ===

impl Sorted {
    pub fn new(input: Box<dyn Rows>, by: RowOrder, bound: Option<u64>) -> Self {
        Self {
            input,
            by,
            bound: bound
                .and_then(|bound| usize::try_from(bound).ok())
                .filter(|&bound| bound <= MAX_BOUND),
            held: RunSorter::default(),
            batch: RowBatch::new(),
            key: Vec::new(),
            complete: false,
        }
    }

    fn take(&mut self, cx: &RowContext<'_>) -> Result<()> {
        for row in self.batch.iter() {
            self.key.clear();
            self.by.key(row.doc, &mut self.key)?;
            match self.bound {
                None => self.held.push(&self.key, row),
                Some(bound) => self.held.push_bounded(&self.key, row, bound),
            }
        }
        if self.held.size() > cx.limits.memory {
            return Err(too_much("Sort", cx));
        }
        Ok(())
    }
}

impl Rows for Sorted {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        while !self.complete {
            self.batch.restart(usize::MAX);
            let flow = self.input.fill(cx, &mut self.batch)?;
            self.take(cx)?;
            match flow {
                Flow::End => {
                    self.held.finish(self.bound);
                    self.complete = true;
                    // This frees the memory of the stages before this one, which are no longer needed.
                    self.input = Box::new(Empty);
                }
                Flow::More if !cx.out_of_time() => {}
                _ => return Ok(Flow::Pause),
            }
        }
        Ok(if self.held.drain_into(out) {
            Flow::More
        } else {
            self.held = RunSorter::default();
            Flow::End
        })
    }

    fn suspend(&mut self) -> usize {
        self.batch.clear();
        self.batch.suspend() + self.held.memory() + self.input.suspend()
    }
}

/// Creates the error for too much memory. MongoDB would spill to disk if it may; Sundown never does.
pub(super) fn too_much(what: &str, cx: &RowContext<'_>) -> Error {
    let limit = cx.limits.memory;
    Error::new(
        Code::QueryExceededMemoryLimitNoDiskUseAllowed,
        if cx.limits.allow_disk_use {
            format!(
                "{what} exceeded memory limit of {limit} bytes, and Sundown does not spill to disk."
            )
        } else {
            format!(
                "{what} exceeded memory limit of {limit} bytes, but did not opt in to external sorting."
            )
        },
    )
}
