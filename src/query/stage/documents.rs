//! `$documents`: rows that the command itself contains.

use std::sync::Arc;

use super::{Flow, RowBatch, RowContext, Rows, Stage, StageContext, StageOp};
use crate::error::{Error, Result};
use crate::query::{Expr, Survey};
use crate::value::{Doc, Value, ValueRef};

struct Documents {
    expr: Expr,
}

struct DocumentsRows {
    stage: Arc<Documents>,
    /// The array once it is computed, and the offset of the next element.
    array: Option<Value>,
    offset: usize,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let expr = Expr::parse(value, context.scope)?;
    push(Stage::StageOp(Arc::new(Documents { expr })));
    Ok(())
}

// === impl Documents ===

impl StageOp for Documents {
    fn open(self: Arc<Self>, _: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(DocumentsRows {
            stage: self,
            array: None,
            offset: 0,
        })
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.expr(&self.expr);
    }
}

// === impl DocumentsRows ===

impl Rows for DocumentsRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        let array = match &self.array {
            Some(array) => array,
            None => {
                let value = self.stage.expr.eval(Doc::EMPTY, cx.vars)?.into_value();
                if value.as_ref().as_array().is_none() {
                    return Err(Error::location(
                        5858203,
                        format!(
                            "an array is expected in $documents stage, but found: {}",
                            value.ty().alias()
                        ),
                    ));
                }
                self.array.insert(value)
            }
        };
        let array = array.as_ref().as_array().unwrap_or(Doc::EMPTY);
        let mut elements = array.iter_from(self.offset);
        while !out.is_full() {
            let Some(elem) = elements.next() else {
                return Ok(Flow::End);
            };
            let doc = elem.value.as_doc().ok_or_else(|| {
                Error::location(
                    40228,
                    format!(
                        "'newRoot' expression must evaluate to an object, but resulting value was: {}. Type of resulting value: '{}'.",
                        elem.value,
                        elem.value.ty().alias()
                    ),
                )
            })?;
            out.push(doc, None);
        }
        self.offset = array.body().len() - elements.rest().len();
        Ok(Flow::More)
    }

    fn suspend(&mut self) -> usize {
        self.array
            .as_ref()
            .map_or(0, |array| array.as_ref().data().len())
    }
}
