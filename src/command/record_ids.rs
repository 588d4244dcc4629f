//! `showRecordId`: rows with the number under which their documents stand.

use crate::error::Result;
use crate::query::stage::{Batch, Cx, Flow, Rows};
use crate::value::{Doc, DocBuilder};

pub(super) struct RecordIds {
    rows: Box<dyn Rows>,
    batch: Batch,
    buffer: Vec<u8>,
}

// === impl RecordIds ===

impl RecordIds {
    pub fn new(rows: Box<dyn Rows>) -> Self {
        Self {
            rows,
            batch: Batch::new(),
            buffer: Vec::new(),
        }
    }
}

impl Rows for RecordIds {
    fn fill(&mut self, cx: &mut Cx<'_>, out: &mut Batch) -> Result<Flow> {
        self.batch.restart(out.room());
        let flow = self.rows.fill(cx, &mut self.batch)?;
        for row in self.batch.iter() {
            self.buffer.clear();
            let mut shown = DocBuilder::begin(&mut self.buffer);
            shown.put_body(row.doc.body());
            if let Some(origin) = row.origin {
                shown.put_i64("$recordId", origin.record.cast_signed());
            }
            shown.end();
            out.push(Doc::new(&self.buffer), row.origin);
        }
        Ok(flow)
    }
}
