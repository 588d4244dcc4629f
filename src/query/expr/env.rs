//! The environment of an evaluation: the document, the variables, and the frames that `$let` and `$map` add.

use crate::query::Vars;
use crate::value::{Doc, Val, ValueRef};

/// The environment in which an expression is evaluated. It owns nothing and is cheap to copy.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub root: Doc<'a>,
    pub vars: &'a Vars,
    frame: Option<&'a VariableFrame<'a>>,
    /// Whether this is an accumulator in MongoDB's newer engine, which uses other codes for some errors.
    pub in_group: bool,
}

/// Variables that an operator defines for a part of its expression. The frame lives on the stack of that operator.
pub struct VariableFrame<'a> {
    /// The slot of the first value.
    first: usize,
    values: &'a [Val<'a>],
    below: Option<&'a VariableFrame<'a>>,
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

    /// Returns a frame with `values` in the slots from `first` on.
    pub fn frame(self, first: usize, values: &'a [Val<'a>]) -> VariableFrame<'a> {
        VariableFrame {
            first,
            values,
            below: self.frame,
        }
    }

    #[must_use]
    pub fn within(self, frame: &'a VariableFrame<'a>) -> Self {
        Self {
            frame: Some(frame),
            ..self
        }
    }

    /// Returns the value in a slot. Frames are ordered by slot, so the first frame that starts at or below the slot has the
    /// value.
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
