//! `$redact`: keeps or removes parts of a document, as an expression decides from the content of each part.

use std::sync::Arc;

use super::document_map::{DocumentMap, Mapped};
use super::{Stage, StageContext};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::query::{Expr, Survey, Vars};
use crate::value::{ArrayBuilder, Doc, DocBuilder, Type, Value, ValueRef};

/// The values of the three variables.
const DESCEND: &str = "descend";
const PRUNE: &str = "prune";
const KEEP: &str = "keep";

struct Redact {
    expr: Expr,
    /// The slot of `$$ROOT`, which remains the whole document.
    root: Option<usize>,
}

enum Verdict {
    Descend,
    Prune,
    Keep,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let scope = context.scope.with(["ROOT", "DESCEND", "PRUNE", "KEEP"]);
    let expr = Expr::parse(value, &scope)?;
    let root = scope.slot("ROOT");
    push(Stage::StageOp(Arc::new(Mapped(Arc::new(Redact {
        expr,
        root,
    })))));
    Ok(())
}

// === impl Redact ===

impl DocumentMap for Redact {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        // Field paths refer to the part that is being judged. `$$ROOT` remains the whole document.
        let root = std::iter::once(Value::document(doc.bytes().to_vec()));
        let vars = vars.with(root.chain([DESCEND, PRUNE, KEEP].map(Value::string)));
        match self.judge(doc, &vars)? {
            Verdict::Keep => out.extend_from_slice(doc.bytes()),
            Verdict::Prune => return Ok(false),
            Verdict::Descend => {
                let mut builder = DocBuilder::begin(out);
                self.fields(doc, &vars, &mut builder)?;
                builder.end();
            }
        }
        Ok(true)
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        if uses(&self.expr, self.root) {
            survey.carry();
        }
        survey.expr(&self.expr);
    }
}

/// Returns whether the expression reads the variable in a slot.
fn uses(expr: &Expr, of: Option<usize>) -> bool {
    let mut found = matches!(expr, Expr::Var { slot, .. } if Some(*slot) == of);
    expr.each(&mut |within| found |= uses(within, of));
    found
}

impl Redact {
    /// Evaluates the expression on a document, which it sees as the whole.
    fn judge(&self, doc: Doc<'_>, vars: &Vars) -> Result<Verdict> {
        interrupt::tick(1)?;
        let value = self.expr.eval(doc, vars)?;
        match value.as_ref().as_str() {
            Some(DESCEND) => Ok(Verdict::Descend),
            Some(PRUNE) => Ok(Verdict::Prune),
            Some(KEEP) => Ok(Verdict::Keep),
            _ => Err(Error::location(
                17053,
                format!(
                    "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and $$PRUNE, but returned {}",
                    value.as_ref()
                ),
            )),
        }
    }

    fn fields(&self, doc: Doc<'_>, vars: &Vars, out: &mut DocBuilder<'_>) -> Result<()> {
        for elem in doc {
            match elem.value.ty() {
                Type::Document => {
                    let nested = Doc::new(elem.value.data());
                    match self.judge(nested, vars)? {
                        Verdict::Keep => {
                            out.put(elem.name(), elem.value);
                        }
                        Verdict::Prune => {}
                        Verdict::Descend => {
                            let mut builder = out.doc(elem.name());
                            self.fields(nested, vars, &mut builder)?;
                            builder.end();
                        }
                    }
                }
                Type::Array => {
                    let mut builder = out.array(elem.name());
                    self.elements(Doc::new(elem.value.data()), vars, &mut builder)?;
                    builder.end();
                }
                _ => {
                    out.put(elem.name(), elem.value);
                }
            }
        }
        Ok(())
    }

    fn elements(&self, array: Doc<'_>, vars: &Vars, out: &mut ArrayBuilder<'_>) -> Result<()> {
        for elem in array {
            match elem.value.ty() {
                Type::Document => {
                    let nested = Doc::new(elem.value.data());
                    match self.judge(nested, vars)? {
                        Verdict::Keep => {
                            out.push(elem.value);
                        }
                        Verdict::Prune => {}
                        Verdict::Descend => {
                            let mut builder = out.doc();
                            self.fields(nested, vars, &mut builder)?;
                            builder.end();
                        }
                    }
                }
                Type::Array => {
                    let mut builder = out.array();
                    self.elements(Doc::new(elem.value.data()), vars, &mut builder)?;
                    builder.end();
                }
                _ => {
                    out.push(elem.value);
                }
            }
        }
        Ok(())
    }
}
