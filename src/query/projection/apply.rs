//! Applies a projection: one walk over the document along the tree.

use smallvec::SmallVec;

use super::tree::{Projection, ProjectionMode, ProjectionNode, ProjectionTree};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::query::{Expr, Filter, Vars};
use crate::value::{ArrayBuilder, Doc, DocBuilder, Type, ValueRef, check_computed};

/// The context that all levels share.
#[derive(Clone, Copy)]
struct ProjectionWalk<'r> {
    mode: ProjectionMode,
    root: Doc<'r>,
    vars: &'r Vars,
    position: Option<usize>,
    /// The offset of the new document in its buffer.
    start: usize,
    /// False inside an array that is an element of an array. `$slice` does not go there.
    slices: bool,
    /// False inside the array whose element the positional `$` has selected: it selects in the first array on its path.
    selects: bool,
}

/// Appends the projected document. On failure it appends nothing.
pub(super) fn apply(
    projection: &Projection,
    doc: Doc<'_>,
    vars: &Vars,
    position: Option<usize>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let start = out.len();
    let walk = ProjectionWalk {
        mode: projection.mode,
        root: doc,
        vars,
        position,
        start,
        slices: true,
        selects: true,
    };
    let mut builder = DocBuilder::begin(out);
    let result = walk.document(&projection.root, doc, &mut builder);
    builder.end();
    result.map_err(|error| {
        out.truncate(start);
        // The walk computes in the order of the document, MongoDB in that of the specification.
        walk.first_failure(&projection.root).unwrap_or(error)
    })
}

// === impl ProjectionWalk ===

impl ProjectionWalk<'_> {
    fn document(
        &self,
        tree: &ProjectionTree,
        doc: Doc<'_>,
        out: &mut DocBuilder<'_>,
    ) -> Result<()> {
        // Marks the children that the document has. Computed fields that it lacks are appended at the end.
        let mut placed: SmallVec<[bool; 16]> = SmallVec::from_elem(false, tree.children.len());
        let mut left = tree.children.len();
        let mut iter = doc.iter();
        // Adjacent elements that stay are copied together. The pending run starts here.
        let mut pending = iter.rest();
        // After every name was found, the remaining elements are kept or dropped as a whole.
        while left > 0 {
            let before = iter.rest();
            let Some(elem) = iter.next() else { break };
            let found = tree.children.find(elem.name_bytes());
            let Some((at, (name, node))) = found.and_then(|at| Some((at, tree.children.at(at)?)))
            else {
                continue;
            };
            let Some(placed) = placed.get_mut(at) else {
                continue;
            };
            // A document may have two fields of one name. The first one gets the new value and the other stays.
            if *placed && self.mode == ProjectionMode::Add {
                continue;
            }
            left -= usize::from(!*placed);
            if self.mode.keeps_others() {
                out.put_body(between(pending, before));
                pending = iter.rest();
            }
            let element = between(before, iter.rest());
            *placed = true;
            self.field(name, node, elem.value, element, out)?;
        }
        if self.mode.keeps_others() {
            out.put_body(pending);
        }
        if tree.computed && self.mode != ProjectionMode::Exclude {
            self.computed(tree, &placed, out)?;
        }
        Ok(())
    }

    /// Writes a field that the tree names. `element` holds the bytes of the whole field, with its name.
    fn field(
        &self,
        name: &str,
        node: &ProjectionNode,
        value: ValueRef<'_>,
        element: &[u8],
        out: &mut DocBuilder<'_>,
    ) -> Result<()> {
        match node {
            ProjectionNode::Keep => {
                out.put_body(element);
            }
            ProjectionNode::Drop | ProjectionNode::Absent => {}
            // In an inclusion, computed fields are appended at the end.
            ProjectionNode::Compute(expr) => {
                if self.mode == ProjectionMode::Add {
                    self.compute(name, expr, out)?;
                }
            }
            ProjectionNode::ElemMatch(filter) => {
                if self.mode == ProjectionMode::Exclude {
                    self.elem_match(name, filter, out)?;
                }
            }
            ProjectionNode::Slice(slice) => match value.as_array() {
                Some(array) if self.slices => slice.write(name, array, out),
                _ => {
                    out.put_body(element);
                }
            },
            ProjectionNode::Positional => match value.as_array() {
                Some(array) if self.selects => {
                    out.array(name).push(self.matched(array)?);
                }
                _ => {
                    out.put_body(element);
                }
            },
            ProjectionNode::Within(inner) => match value.ty() {
                Type::Document => {
                    let mut nested = out.doc(name);
                    self.document(inner, Doc::new(value.data()), &mut nested)?;
                }
                Type::Array => {
                    let array = Doc::new(value.data());
                    let mut nested = out.array(name);
                    if inner.positional && self.selects {
                        let inside = Self {
                            selects: false,
                            ..*self
                        };
                        inside.item(inner, self.matched(array)?, &mut nested)?;
                    } else {
                        for elem in array {
                            self.item(inner, elem.value, &mut nested)?;
                        }
                    }
                }
                _ => match self.mode {
                    ProjectionMode::Exclude => {
                        out.put_body(element);
                    }
                    ProjectionMode::Add => self.document(inner, Doc::EMPTY, &mut out.doc(name))?,
                    // A scalar has no fields to include. Computed fields below replace it, in its place.
                    ProjectionMode::Include if inner.computed => {
                        self.document(inner, Doc::EMPTY, &mut out.doc(name))?;
                    }
                    ProjectionMode::Include => {}
                },
            },
        }
        Ok(())
    }

    /// Appends the computed fields that are not yet placed, in the order of the specification.
    fn computed(
        &self,
        tree: &ProjectionTree,
        placed: &[bool],
        out: &mut DocBuilder<'_>,
    ) -> Result<()> {
        for ((name, node), &placed) in tree.children.iter().zip(placed) {
            match node {
                ProjectionNode::Compute(expr)
                    if self.mode == ProjectionMode::Include || !placed =>
                {
                    self.compute(name, expr, out)?;
                }
                ProjectionNode::ElemMatch(filter) => self.elem_match(name, filter, out)?,
                ProjectionNode::Within(inner) if inner.computed && !placed => {
                    self.document(inner, Doc::EMPTY, &mut out.doc(name))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the error of the first expression of the specification that fails with this document.
    fn first_failure(&self, tree: &ProjectionTree) -> Option<Error> {
        tree.children.iter().find_map(|(_, node)| match node {
            ProjectionNode::Compute(expr) => expr.eval(self.root, self.vars).err(),
            ProjectionNode::Within(inner) if inner.computed => self.first_failure(inner),
            _ => None,
        })
    }

    fn compute(&self, name: &str, expr: &Expr, out: &mut DocBuilder<'_>) -> Result<()> {
        out.put(name, expr.eval(self.root, self.vars)?.as_ref());
        // A short specification, or one field in a long array, can produce any amount of data.
        check_computed(out.reached() - self.start)
    }

    /// Writes one element of an array on the path.
    fn item(
        &self,
        tree: &ProjectionTree,
        value: ValueRef<'_>,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<()> {
        // Computing a field for each element takes time, even if the result is empty.
        if tree.computed {
            interrupt::tick(u32::try_from(tree.children.len()).unwrap_or(u32::MAX))?;
        }
        match value.ty() {
            Type::Document => {
                let mut nested = out.doc();
                self.document(tree, Doc::new(value.data()), &mut nested)?;
            }
            Type::Array => {
                let mut nested = out.array();
                let inside = Self {
                    slices: false,
                    ..*self
                };
                for elem in Doc::new(value.data()) {
                    inside.item(tree, elem.value, &mut nested)?;
                }
            }
            _ if self.mode == ProjectionMode::Exclude => {
                out.push(value);
            }
            // A scalar has no field to include, but computed fields turn it into a document.
            _ if tree.computed => {
                let mut nested = out.doc();
                self.document(tree, Doc::EMPTY, &mut nested)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the array element that the positional `$` selects.
    fn matched<'a>(&self, array: Doc<'a>) -> Result<ValueRef<'a>> {
        let Some(position) = self.position else {
            return Err(Error::location(
                51246,
                "positional operator '.$' couldn't find a matching element in the array",
            ));
        };
        match array.iter().nth(position) {
            Some(elem) => Ok(elem.value),
            None => Err(Error::location(
                51247,
                "positional operator '.$' element mismatch",
            )),
        }
    }

    fn elem_match(&self, name: &str, filter: &Filter, out: &mut DocBuilder<'_>) -> Result<()> {
        let position = filter.position(self.root, self.vars)?;
        let array = self.root.get(name).as_array();
        if let (Some(array), Some(position)) = (array, position)
            && let Some(elem) = array.iter().nth(position)
        {
            out.array(name).push(elem.value);
        }
        Ok(())
    }
}

/// Returns the bytes from the beginning of `start` to the beginning of `end`. Both slices end where the document ends.
fn between<'a>(start: &'a [u8], end: &[u8]) -> &'a [u8] {
    let length = start.len().saturating_sub(end.len());
    start.get(..length).unwrap_or_default()
}
