//! The typed tree that a projection becomes.

use super::{Kind, Slice, apply, parse};
use crate::error::Result;
use crate::query::named::Named;
use crate::query::{Expr, Filter, Naming, Scope, Vars};
use crate::value::Doc;

/// A parsed projection.
#[derive(Debug)]
pub struct Projection {
    pub(super) mode: Mode,
    pub(super) root: Tree,
}

/// What happens to a field that the projection does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is left out.
    Include,
    /// It stays.
    Exclude,
}

/// The names at one level.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) children: Named<Node>,
    /// Something below is computed, so that it appears even where the document has nothing.
    pub(super) computed: bool,
    /// The positional `$` ends this path or one below: the first array on the way is cut down to one element.
    pub(super) positional: bool,
}

#[derive(Debug)]
pub(super) enum Node {
    Keep,
    Drop,
    Within(Tree),
    Compute(Expr),
    /// `$meta` of a kind that a document here never carries: the field is not there.
    Absent,
    Slice(Slice),
    /// The filter asks for `{name: {$elemMatch: ...}}`; the first element that makes a document pass is shown.
    ElemMatch(Filter),
    Positional,
}

// === impl Projection ===

impl Projection {
    pub fn parse(spec: Doc<'_>, scope: &Scope, kind: Kind) -> Result<Self> {
        parse::parse(spec, scope, kind)
    }

    /// Shows the fields that it names.
    pub fn names(&self, naming: &mut Naming<'_>) {
        self.root.names(naming, true);
    }

    /// Whether the positional `$` is used: [`Projection::apply`] then wants the filter's position.
    pub fn is_positional(&self) -> bool {
        self.root.positional
    }

    /// Appends the projected document. `position` is the array index that the positional `$` stands for
    /// ([`Filter::position`]).
    pub fn apply(
        &self,
        doc: Doc<'_>,
        vars: &Vars,
        position: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        apply::apply(self, doc, vars, position, out)
    }
}

// === impl Tree ===

impl Tree {
    pub(super) fn child(&mut self, name: &str) -> Option<&mut Node> {
        let at = self.children.find(name.as_bytes())?;
        self.children.at_mut(at)
    }

    fn names(&self, naming: &mut Naming<'_>, at_root: bool) {
        for (name, node) in self.children.iter() {
            naming.name(name, at_root);
            match node {
                Node::Within(tree) => tree.names(naming, false),
                Node::Compute(expr) => naming.expr(expr),
                Node::ElemMatch(filter) => filter.names_below(naming),
                Node::Keep | Node::Drop | Node::Absent | Node::Slice(_) | Node::Positional => {}
            }
        }
    }

    /// Passes up what the leaves are, once the tree is complete.
    pub(super) fn finish(&mut self) {
        for node in self.children.iter_mut() {
            match node {
                Node::Within(tree) => {
                    tree.finish();
                    self.computed |= tree.computed;
                    self.positional |= tree.positional;
                }
                Node::Compute(_) | Node::ElemMatch(_) => self.computed = true,
                Node::Positional => self.positional = true,
                Node::Keep | Node::Drop | Node::Absent | Node::Slice(_) => {}
            }
        }
    }
}
