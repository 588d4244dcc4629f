//! Stages that map one row to one row. Such a stage only says how a document becomes another one.

use std::sync::Arc;

use super::{Flow, Row, RowBatch, RowContext, Rows, StageOp};
use crate::error::Result;
use crate::interrupt;
use crate::query::{PathOrigin, Projection, Survey, Vars};
use crate::value::{Doc, Path};

/// Turns a document into another one.
pub trait DocumentMap: Send + Sync {
    /// Appends the new document to `out`. Returns `false` if the row is dropped; appended bytes are then discarded.
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool>;

    /// Reports the fields that the stage names.
    fn survey(&self, survey: &mut Survey<'_>);

    /// Returns where the value at a path of the new document comes from.
    fn origin(&self, _: &Path) -> PathOrigin {
        PathOrigin::Computed
    }

    /// Returns the projection that the stage is, if it is one.
    fn projection(&self) -> Option<&Projection> {
        None
    }
}

/// The stage of a [`DocumentMap`].
pub(super) struct Mapped(pub Arc<dyn DocumentMap>);

struct MappedRows<F> {
    input: Box<dyn Rows>,
    write: F,
    batch: RowBatch,
    /// The next row of the batch, and the input's answer after it filled the batch.
    row: usize,
    flow: Flow,
}

/// Returns the rows of `input`, each rewritten by `write`, or dropped if `write` returns `false`.
pub fn map<F>(input: Box<dyn Rows>, write: F) -> Box<dyn Rows>
where
    F: Fn(Row<'_>, &Vars, &mut Vec<u8>) -> Result<bool> + Send + 'static,
{
    Box::new(MappedRows {
        input,
        write,
        batch: RowBatch::new(),
        row: 0,
        flow: Flow::More,
    })
}

// === impl Mapped ===

impl StageOp for Mapped {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        map(input, move |row, vars, out| {
            self.0.apply(row.doc, vars, out)
        })
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        self.0.survey(survey);
    }

    fn origin(&self, path: &Path) -> PathOrigin {
        self.0.origin(path)
    }

    fn as_map(&self) -> Option<&Arc<dyn DocumentMap>> {
        Some(&self.0)
    }
}

// === impl MappedRows ===

impl<F> Rows for MappedRows<F>
where
    F: Fn(Row<'_>, &Vars, &mut Vec<u8>) -> Result<bool> + Send,
{
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        if self.row >= self.batch.len() {
            self.row = 0;
            self.batch.restart(out.room());
            self.flow = self.input.fill(cx, &mut self.batch)?;
        }
        for row in self.batch.iter_from(self.row) {
            // A small input row can become a large output row.
            if out.is_full() {
                return Ok(Flow::More);
            }
            interrupt::tick_read(row.doc.bytes().len())?;
            out.push_with(row.origin, |bytes| (self.write)(row, cx.vars, bytes))?;
            self.row += 1;
        }
        // A large document stays in one stage at a time, no matter how many stages there are.
        self.batch.clear();
        self.row = 0;
        Ok(self.flow)
    }

    fn suspend(&mut self) -> usize {
        self.batch.suspend() + self.input.suspend()
    }
}
