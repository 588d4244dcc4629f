//! The typed tree that a projection becomes.

use super::{ProjectionKind, SliceField, add_fields, apply, parse};
use crate::error::Result;
use crate::query::named::Named;
use crate::query::{Expr, Filter, Scope, Survey, Vars};
use crate::value::{Doc, Path, Type};

/// A parsed projection.
#[derive(Debug)]
pub struct Projection {
    pub(super) mode: ProjectionMode,
    pub(super) root: ProjectionTree,
}

/// The treatment of the fields that the projection does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProjectionMode {
    /// Drops them. Computed fields come last.
    Include,
    /// Keeps them.
    Exclude,
    /// Keeps them. A computed field replaces the field of the same name, if there is one.
    Add,
}

/// The names at one level.
#[derive(Debug, Default)]
pub(super) struct ProjectionTree {
    pub(super) children: Named<ProjectionNode>,
    /// True if a field below is computed, and so appears even if the document has nothing there.
    pub(super) computed: bool,
    /// True if the positional `$` ends this path or one below. The first array on the path is then reduced to one element.
    pub(super) positional: bool,
}

/// A conflict of two leaves: at the same path, or one above the other.
#[derive(Debug, Clone, Copy)]
pub(super) enum Collision {
    /// The path is already taken.
    Same,
    /// A leaf ends at a prefix of the path with this many names.
    Above(usize),
}

/// The free position of a leaf.
pub(super) struct LeafSlot<'t, 'p> {
    tree: &'t mut ProjectionTree,
    name: &'p str,
}

/// The treatment of one name.
#[derive(Debug)]
pub(super) enum ProjectionNode {
    Keep,
    Drop,
    Within(ProjectionTree),
    Compute(Expr),
    /// A kind of `$meta` that documents here never have. The field is left out.
    Absent,
    Slice(SliceField),
    /// The filter is `{name: {$elemMatch: ...}}`. The first element that makes the document match is shown.
    ElemMatch(Filter),
    Positional,
}

// === impl Projection ===

impl Projection {
    pub fn parse(spec: Doc<'_>, scope: &Scope, kind: ProjectionKind) -> Result<Self> {
        if !scope.reports_at_once() {
            return parse::parse(spec, scope, kind);
        }
        // MongoDB optimises the expressions of a find's projection when all of it is parsed.
        let scope = scope.clone().noting();
        let parsed = parse::parse(spec, &scope, kind)?;
        scope.noted().map_or(Ok(parsed), Err)
    }

    /// Parses what a find shows. Beside the positional `$`, its filter cannot have operators that need the whole document.
    pub fn parse_found(spec: Doc<'_>, filter: Doc<'_>, scope: &Scope) -> Result<Self> {
        let mut fields = spec.iter();
        if fields.any(|elem| elem.name().ends_with(".$") && elem.value.ty() != Type::Document) {
            Filter::parse_plain(filter, scope)?;
        }
        Self::parse(spec, scope, ProjectionKind::Find)
    }

    /// Parses the specification of `$addFields` or `$set`.
    pub fn parse_add_fields(spec: Doc<'_>, scope: &Scope) -> Result<Self> {
        add_fields::parse(spec, scope)
    }

    /// Returns whether it only includes fields and computes none.
    pub fn only_includes(&self) -> bool {
        self.mode == ProjectionMode::Include && !self.root.computed
    }

    /// Reports the fields that this projection names.
    pub fn survey(&self, survey: &mut Survey<'_>) {
        self.root.survey(survey, true);
    }

    /// Returns whether the positional `$` is used. [`Projection::apply`] then needs the filter's position.
    pub fn is_positional(&self) -> bool {
        self.root.positional
    }

    /// Appends the projected document. `position` is the array index that the positional `$` selects
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

// === impl ProjectionTree ===

impl ProjectionTree {
    pub(super) fn child(&mut self, name: &str) -> Option<&mut ProjectionNode> {
        let at = self.children.find(name.as_bytes())?;
        self.children.at_mut(at)
    }

    /// Returns the tree at a path, and creates it if needed.
    pub(super) fn within(&mut self, path: &Path) -> Result<&mut ProjectionTree, Collision> {
        self.descend(path, path.len())
            .map_err(|collision| match collision {
                Collision::Above(depth) if depth == path.len() => Collision::Same,
                other => other,
            })
    }

    /// Returns the free position of a leaf at a path.
    pub(super) fn slot<'p>(&mut self, path: &'p Path) -> Result<LeafSlot<'_, 'p>, Collision> {
        let depth = path.len() - 1;
        let (tree, name) = (self.descend(path, depth)?, path.part(depth));
        match tree.child(name) {
            Some(_) => Err(Collision::Same),
            None => Ok(LeafSlot { tree, name }),
        }
    }

    fn descend(&mut self, path: &Path, depth: usize) -> Result<&mut ProjectionTree, Collision> {
        let mut tree = self;
        for (at, name) in path.parts().take(depth).enumerate() {
            if tree.child(name).is_none() {
                tree.children
                    .push(name, ProjectionNode::Within(Self::default()));
            }
            match tree.child(name) {
                Some(ProjectionNode::Within(inner)) => tree = inner,
                _ => return Err(Collision::Above(at + 1)),
            }
        }
        Ok(tree)
    }

    fn survey(&self, survey: &mut Survey<'_>, at_root: bool) {
        for (name, node) in self.children.iter() {
            survey.name(name, at_root);
            match node {
                ProjectionNode::Within(tree) => tree.survey(survey, false),
                ProjectionNode::Compute(expr) => survey.expr(expr),
                ProjectionNode::ElemMatch(filter) => filter.survey_below(survey),
                ProjectionNode::Keep
                | ProjectionNode::Drop
                | ProjectionNode::Absent
                | ProjectionNode::Slice(_)
                | ProjectionNode::Positional => {}
            }
        }
    }

    /// Computes the flags of each level from its leaves, once the tree is complete.
    pub(super) fn finish(&mut self) {
        for node in self.children.iter_mut() {
            match node {
                ProjectionNode::Within(tree) => {
                    tree.finish();
                    self.computed |= tree.computed;
                    self.positional |= tree.positional;
                }
                ProjectionNode::Compute(_) | ProjectionNode::ElemMatch(_) => self.computed = true,
                ProjectionNode::Positional => self.positional = true,
                ProjectionNode::Keep
                | ProjectionNode::Drop
                | ProjectionNode::Absent
                | ProjectionNode::Slice(_) => {}
            }
        }
    }
}

// === impl LeafSlot ===

impl LeafSlot<'_, '_> {
    pub(super) fn fill(self, node: ProjectionNode) {
        self.tree.children.push(self.name, node);
    }
}

// === impl ProjectionMode ===

impl ProjectionMode {
    /// Returns whether the fields that the projection does not name stay.
    pub(super) fn keeps_others(self) -> bool {
        self != Self::Include
    }
}
