//! The stages that make one row of one row: each only says how a document becomes another one.

use std::sync::Arc;

use super::{Batch, Cx, Flow, Op, Rows};
use crate::error::Result;
use crate::query::Vars;
use crate::value::Doc;

/// Turns a document into another one.
pub trait Each: Send + Sync {
    /// Appends the new document to `out`; `false` where the row goes away (what was appended is then dropped).
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool>;
}

/// The stage of an [`Each`].
pub(super) struct Mapped<E>(pub E);

struct Running<E> {
    input: Box<dyn Rows>,
    each: Arc<Mapped<E>>,
    batch: Batch,
}

// === impl Mapped ===

impl<E: Each + 'static> Op for Mapped<E> {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(Running {
            input,
            each: self,
            batch: Batch::new(),
        })
    }
}

// === impl Running ===

impl<E: Each> Rows for Running<E> {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        self.batch.restart(out.room());
        let flow = self.input.fill(cx, &mut self.batch)?;
        for row in self.batch.iter() {
            out.push_with(row.origin, |bytes| {
                self.each.0.apply(row.doc, cx.vars, bytes)
            })?;
        }
        Ok(flow)
    }
}
