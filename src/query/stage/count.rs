//! `$count`: one row with the number of input rows, or no row if there are none.

use std::sync::Arc;

use super::{Flow, RowBatch, RowContext, Rows, Stage, StageContext, StageOp};
use crate::error::{Error, Result};
use crate::query::Survey;
use crate::value::{DocBuilder, ValueRef};

struct Count {
    field: Box<str>,
}

struct CountRows {
    input: Box<dyn Rows>,
    stage: Arc<Count>,
    batch: RowBatch,
    count: i64,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    _: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let field = value
        .as_str()
        .ok_or_else(|| Error::location(40156, "the count field must be a non-empty string"))?;
    let refuse = |number, why: &str| Err(Error::location(number, why));
    if field.is_empty() {
        return refuse(40157, "the count field must be a non-empty string");
    }
    if field.starts_with('$') {
        return refuse(40158, "the count field cannot be a $-prefixed path");
    }
    if field.contains('\0') {
        return refuse(40159, "the count field cannot contain a null byte");
    }
    if field.contains('.') {
        return refuse(40160, "the count field cannot contain '.'");
    }
    if field == "_id" {
        return refuse(9039800, "the count field cannot be '_id'");
    }
    push(Stage::StageOp(Arc::new(Count {
        field: field.into(),
    })));
    Ok(())
}

// === impl Count ===

impl StageOp for Count {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(CountRows {
            input,
            stage: self,
            batch: RowBatch::new(),
            count: 0,
        })
    }

    fn only_counts(&self) -> bool {
        true
    }

    fn survey(&self, _: &mut Survey<'_>) {}
}

// === impl CountRows ===

impl Rows for CountRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        loop {
            self.batch.restart(usize::MAX);
            let flow = self.input.fill(cx, &mut self.batch)?;
            self.count += self.batch.len() as i64;
            match flow {
                Flow::End => {
                    if self.count > 0 {
                        out.push_doc(None, |d| put_count(d, &self.stage.field, self.count));
                    }
                    return Ok(Flow::End);
                }
                Flow::More if !cx.out_of_time() => {}
                _ => return Ok(Flow::Pause),
            }
        }
    }

    fn suspend(&mut self) -> usize {
        self.batch.suspend() + self.input.suspend()
    }
}

/// Writes a count as an int32 if it fits, like `{$sum: 1}`.
pub(super) fn put_count(doc: &mut DocBuilder<'_>, field: &str, count: i64) {
    match i32::try_from(count) {
        Ok(count) => doc.put_i32(field, count),
        Err(_) => doc.put_i64(field, count),
    };
}
