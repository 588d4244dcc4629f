//! What an expression is evaluated in: the document, the variables, and the frames that `$let` and `$map` put on top.

use crate::query::Vars;
use crate::value::{Doc, Val, ValueRef};

/// Cheap to copy; nothing in it is owned.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub root: Doc<'a>,
    pub vars: &'a Vars,
    frame: Option<&'a Frame<'a>>,
    /// For an accumulator. MongoDB runs these in its newer engine, which has codes of its own for some errors.
    pub in_group: bool,
}

/// Variables that an expression defines for a part of itself; lives on the stack of the operator that makes it.
pub struct Frame<'a> {
    /// The slot of the first value.
    first: usize,
    values: &'a [Val<'a>],
    below: Option<&'a Frame<'a>>,
}

// === impl Env ===

impl<'a> Env<'a> {
    pub fn new(root: Doc<'a>, vars: &'a Vars) -> Self {
        Self {
            root,
            vars,
            frame: None,
            in_group: false,
        }
    }

    #[must_use]
    pub fn in_group(self) -> Self {
        Self {
            in_group: true,
            ..self
        }
    }

    /// A frame with `values` in the slots from `first` on.
    pub fn frame(self, first: usize, values: &'a [Val<'a>]) -> Frame<'a> {
        Frame {
            first,
            values,
            below: self.frame,
        }
    }

    #[must_use]
    pub fn within(self, frame: &'a Frame<'a>) -> Self {
        Self {
            frame: Some(frame),
            ..self
        }
    }

    /// The value in a slot. Frames lie in the order of their slots, so the first that reaches down to it has it.
    pub fn var(self, slot: usize) -> ValueRef<'a> {
        let mut frame = self.frame;
        while let Some(top) = frame {
            if slot >= top.first {
                return top
                    .values
                    .get(slot - top.first)
                    .map_or(ValueRef::MISSING, Val::as_ref);
            }
            frame = top.below;
        }
        self.vars.get(slot).unwrap_or(ValueRef::MISSING)
    }
}
