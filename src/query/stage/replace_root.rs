//! `$replaceRoot` and `$replaceWith`: replace the row by another document.

use std::sync::Arc;

use super::StageContext;
use super::document_map::DocumentMap;
use crate::args::{fields, object, required};
use crate::error::{Error, Result};
use crate::query::{Expr, Survey, Vars};
use crate::value::{Doc, ValueRef};

struct ReplaceRoot {
    root: Expr,
    /// The name of the expression in error messages.
    argument: &'static str,
}

pub(super) fn parse_replace_root(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
) -> Result<Arc<dyn DocumentMap>> {
    let words = "expected an object as specification for $replaceRoot stage, got {}";
    let mut root = None;
    for option in fields("$replaceRoot", object(value, 40229, words)?) {
        match option.name() {
            "newRoot" => root = Some(Expr::parse(option.value(), context.scope)?),
            _ => return Err(option.unknown()),
        }
    }
    let root = required(root, "$replaceRoot", "newRoot")?;
    Ok(Arc::new(ReplaceRoot {
        root,
        // mongod's message has a second space here too.
        argument: "'newRoot' expression ",
    }))
}

pub(super) fn parse_replace_with(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
) -> Result<Arc<dyn DocumentMap>> {
    Ok(Arc::new(ReplaceRoot {
        root: Expr::parse(value, context.scope)?,
        argument: "'replacement document' ",
    }))
}

// === impl ReplaceRoot ===

impl DocumentMap for ReplaceRoot {
    fn apply(&self, doc: Doc<'_>, vars: &Vars, out: &mut Vec<u8>) -> Result<bool> {
        let value = self.root.eval(doc, vars)?;
        let value = value.as_ref();
        let Some(root) = value.as_doc() else {
            return Err(Error::location(
                40228,
                format!(
                    "{} must evaluate to an object, but resulting value was: {}. Type of resulting value: '{}'. Input document: {}",
                    self.argument,
                    if value.is_missing() {
                        "MISSING".into()
                    } else {
                        value.to_string()
                    },
                    value.ty().alias(),
                    ValueRef::document(doc),
                ),
            ));
        };
        out.extend_from_slice(root.bytes());
        Ok(true)
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.expr(&self.root);
    }
}
