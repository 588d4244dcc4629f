//! What an update with operators has written to, path by path.

use super::{ArrayDelta, DocumentDelta, InnerDelta, ValueDelta};
use crate::query::update::Apply;
use crate::query::update::array_filter::ArrayFilters;
use crate::query::update::modify::Trail;
use crate::query::update::parse::Operators;
use crate::query::update::path::index;
use crate::query::update::tree::{Elements, FieldNodes, UpdateNode, merge};
use crate::value::{Doc, ValueRef};

/// A walk along the paths of an update, over the document before and after it.
struct WrittenPaths<'a> {
    filters: Option<&'a ArrayFilters>,
    apply: &'a Apply<'a>,
}

/// Returns the values at the paths of the update that have changed.
pub(super) fn written<'v>(
    update: &Operators,
    before: Doc<'v>,
    after: Doc<'v>,
    apply: &Apply<'_>,
) -> DocumentDelta<'v> {
    let paths = WrittenPaths {
        filters: update.filters(),
        apply,
    };
    paths.document(update.root(), before, after)
}

// === impl WrittenPaths ===

impl WrittenPaths<'_> {
    fn document<'v>(
        &self,
        fields: &FieldNodes,
        before: Doc<'v>,
        after: Doc<'v>,
    ) -> DocumentDelta<'v> {
        let mut delta = DocumentDelta::default();
        // The update was applied, so its positional path is resolved without an error.
        let Ok(fields) = fields.resolved(self.apply.position, None) else {
            return delta;
        };
        for child in &fields.children {
            let name = || child.name.to_string();
            let (old, new) = (before.get(&*child.name), after.get(&*child.name));
            match (old.is_missing(), new.is_missing()) {
                (true, true) => {}
                (true, false) => delta.inserted.push((name(), new)),
                (false, true) => delta.removed.push(name()),
                (false, false) if old == new => {}
                (false, false) => match self.value(&child.node, old, new) {
                    ValueDelta::Whole(value) => delta.updated.push((name(), value)),
                    ValueDelta::Inner(inner) => delta.inner.push((name(), inner)),
                },
            }
        }
        delta
    }

    fn value<'v>(&self, node: &UpdateNode, old: ValueRef<'v>, new: ValueRef<'v>) -> ValueDelta<'v> {
        let documents = || Some((old.as_doc()?, new.as_doc()?));
        let arrays = || Some((old.as_array()?, new.as_array()?));
        let inner = match node {
            UpdateNode::Leaf(leaf) => arrays().and_then(|(old, new)| {
                let count = old.count();
                let appends = leaf.appends(count) && new.body().starts_with(old.body());
                appends.then(|| InnerDelta::Array(appended(count, new)))
            }),
            UpdateNode::Fields(fields) => match (documents(), arrays()) {
                (Some((old, new)), _) => {
                    Some(InnerDelta::Document(self.document(fields, old, new)))
                }
                (None, Some((old, new))) => self.array(fields, old, new).map(InnerDelta::Array),
                (None, None) => None,
            },
            UpdateNode::Elements(elements) => {
                let delta = arrays().and_then(|(old, new)| self.elements(elements, old, new));
                delta.map(InnerDelta::Array)
            }
        };
        inner.map_or(ValueDelta::Whole(new), ValueDelta::Inner)
    }

    /// Tells the elements that paths have entered by index.
    fn array<'v>(
        &self,
        fields: &FieldNodes,
        before: Doc<'v>,
        after: Doc<'v>,
    ) -> Option<ArrayDelta<'v>> {
        let mut delta = ArrayDelta::default();
        let fields = fields.resolved(self.apply.position, None).ok()?;
        for child in &fields.children {
            let Some(at) = index(&child.name) else {
                continue;
            };
            let name = at.to_string();
            let (old, new) = (before.get(&name), after.get(&name));
            if new.is_missing() || old == new {
                continue;
            }
            let element = match old.is_missing() {
                true => ValueDelta::Whole(new),
                false => self.value(&child.node, old, new),
            };
            delta.elements.push((at, element));
        }
        Some(delta)
    }

    /// Tells the elements that `$[]` and `$[identifier]` have selected. If one element was selected, the paths in it are
    /// told; if several were selected and one has changed, that one; otherwise the whole array (`None`).
    fn elements<'v>(
        &self,
        node: &Elements,
        before: Doc<'v>,
        after: Doc<'v>,
    ) -> Option<ArrayDelta<'v>> {
        let mut selected = Vec::new();
        let mut changed = Vec::new();
        for (at, (old, new)) in before.iter().zip(after).enumerate() {
            if let Some(node) = self.selecting(node, old.value) {
                selected.push((at, old.value, new.value, node));
            }
            if old.value != new.value {
                changed.push((at, ValueDelta::Whole(new.value)));
            }
        }
        let elements = match &mut *selected {
            [(at, old, new, node)] => vec![(*at, self.value(node, *old, *new))],
            _ if changed.len() == 1 => changed,
            _ => return None,
        };
        Some(ArrayDelta {
            size: None,
            elements,
        })
    }

    /// Returns the subtree for an element, merged from those whose filters match.
    fn selecting(&self, node: &Elements, element: ValueRef<'_>) -> Option<UpdateNode> {
        let mut scratch = Vec::new();
        let mut all: Option<UpdateNode> = None;
        for child in &node.children {
            let matches = match child.filter.and_then(|filter| self.filters?.at(filter)) {
                None => true,
                Some((_, filter)) => filter
                    .matches(element, self.apply.vars, &mut scratch)
                    .unwrap_or(false),
            };
            if matches {
                all = Some(match all {
                    None => child.node.clone(),
                    Some(known) => {
                        merge(&known, &child.node, &Trail::child(None, "", true)).ok()?
                    }
                });
            }
        }
        all
    }
}

/// Returns the change of an array that grew at its end.
fn appended(count: usize, after: Doc<'_>) -> ArrayDelta<'_> {
    let new = after.iter().enumerate().skip(count);
    ArrayDelta {
        size: None,
        elements: new
            .map(|(at, elem)| (at, ValueDelta::Whole(elem.value)))
            .collect(),
    }
}
