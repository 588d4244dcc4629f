//! The typed tree that a projection becomes.

use ahash::AHashMap;

use super::{Kind, Slice, apply, parse};
use crate::error::Result;
use crate::query::{Expr, Filter, Scope, Vars};
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
    pub(super) children: Vec<Child>,
    /// By name, where there are too many to look through.
    index: AHashMap<Box<[u8]>, usize>,
    /// Something below is computed, so that it appears even where the document has nothing.
    pub(super) computed: bool,
    /// The positional `$` ends this path or one below: the first array on the way is cut down to one element.
    pub(super) positional: bool,
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) name: Box<str>,
    pub(super) node: Node,
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

/// Up to so many names are looked through one by one.
const FEW: usize = 12;

// === impl Projection ===

impl Projection {
    pub fn parse(spec: Doc<'_>, scope: &Scope, kind: Kind) -> Result<Self> {
        parse::parse(spec, scope, kind)
    }

    /// Whether the positional `$` is used: [`Projection::apply`] then wants the filter's position.
    pub fn is_positional(&self) -> bool {
        self.root.positional
    }

    /// Whether every document stays as it is.
    pub fn is_all(&self) -> bool {
        self.mode == Mode::Exclude && self.root.children.is_empty()
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
    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<usize> {
        if self.index.is_empty() {
            self.children
                .iter()
                .position(|child| child.name.as_bytes() == name)
        } else {
            self.index.get(name).copied()
        }
    }

    pub(super) fn child(&mut self, name: &str) -> Option<&mut Node> {
        let at = self.find(name.as_bytes())?;
        self.children.get_mut(at).map(|child| &mut child.node)
    }

    pub(super) fn push(&mut self, name: &str, node: Node) {
        self.children.push(Child {
            name: name.into(),
            node,
        });
        let count = self.children.len();
        if count > FEW {
            // The first time all of them, from then on the newest.
            let new = if self.index.is_empty() { 0 } else { count - 1 };
            for (at, child) in self.children.iter().enumerate().skip(new) {
                self.index.insert(child.name.as_bytes().into(), at);
            }
        }
    }

    /// Passes up what the leaves are, once the tree is complete.
    pub(super) fn finish(&mut self) {
        for child in &mut self.children {
            match &mut child.node {
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
