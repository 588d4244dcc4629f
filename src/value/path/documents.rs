//! The walk through documents only, up to the first array.

use super::Path;
use crate::value::{Doc, Type, ValueRef};

impl Path {
    /// Returns the value at the end of nested documents. Does not enter arrays.
    pub fn get<'a>(&self, doc: Doc<'a>) -> ValueRef<'a> {
        match self.descend(0, ValueRef::document(doc)) {
            (value, taken) if taken == self.len() => value,
            _ => ValueRef::MISSING,
        }
    }

    /// Returns the value at the end of nested documents, or the first array on the way, or null if there is neither.
    #[inline]
    pub fn get_until_array<'a>(&self, doc: Doc<'a>) -> ValueRef<'a> {
        self.descend(0, ValueRef::document(doc)).0.or_null()
    }

    /// Follows the parts from `at` on, to the end of the path or to the first array. Returns the value and how many parts
    /// were taken. The value is missing if a part does not exist.
    #[inline]
    pub(super) fn descend<'a>(
        &self,
        mut at: usize,
        mut value: ValueRef<'a>,
    ) -> (ValueRef<'a>, usize) {
        while at < self.len() {
            match value.ty() {
                Type::Document => {
                    value = Doc::new(value.data()).get(self.part(at));
                    at += 1;
                }
                Type::Array => break,
                _ => return (ValueRef::MISSING, at),
            }
        }
        (value, at)
    }
}
