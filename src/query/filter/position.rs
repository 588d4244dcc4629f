//! Which array element made a document pass: what the positional `$` of an update or a projection stands for.

use std::ops::ControlFlow;

use super::{Field, Node, Test};
use crate::{query::Vars, value::Doc};

impl Node {
    /// The index, if the document passes. Of several conditions the last one that passed by way of an array decides,
    /// of alternatives the first that passes; a negation names no element.
    pub(super) fn position(&self, doc: Doc<'_>, vars: &Vars) -> Option<usize> {
        match self {
            Self::Field(field) => field.position(doc),
            Self::And(nodes) => {
                if !self.matches(doc, vars).unwrap_or(false) {
                    return None;
                }
                nodes.iter().rev().find_map(|node| node.position(doc, vars))
            }
            Self::Or(nodes) => nodes
                .iter()
                .find(|node| node.matches(doc, vars).unwrap_or(false))?
                .position(doc, vars),
            _ => None,
        }
    }
}

impl Field {
    fn position(&self, doc: Doc<'_>) -> Option<usize> {
        if let Test::All(members) = &self.test {
            if !self.matches(doc) {
                return None;
            }
            let found =
                self.path
                    .hits(doc, self.test.leaf(), |hit| match members.find(hit.value) {
                        Some(_) => ControlFlow::Break(hit.index.map(|index| index as usize)),
                        None => ControlFlow::Continue(()),
                    });
            return found.break_value().flatten();
        }
        let found = self.path.hits(doc, self.test.leaf(), |hit| {
            if !self.test.passes(hit.value) {
                return ControlFlow::Continue(());
            }
            // The outermost array wins over the one that $elemMatch looks through.
            ControlFlow::Break(
                hit.index
                    .map(|index| index as usize)
                    .or_else(|| self.test.element(hit.value)),
            )
        });
        found.break_value().flatten()
    }
}
