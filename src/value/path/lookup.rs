//! The walk of `$lookup` along the path of its `localField`.

use smallvec::SmallVec;

use super::Path;
use super::dotted::PathRest;
use crate::value::{Doc, Type, ValueRef};

impl Path {
    /// Returns the values by which a document is joined: array elements one by one, both on the way and at the end, and
    /// also the element that a number in the path names. Returns no values if the path does not exist.
    pub fn join_values<'d>(&self, doc: Doc<'d>) -> SmallVec<[ValueRef<'d>; 8]> {
        let mut found = SmallVec::new();
        walk(self.rest(), ValueRef::document(doc), &mut found);
        found
    }
}

fn walk<'d>(rest: PathRest<'_>, value: ValueRef<'d>, found: &mut SmallVec<[ValueRef<'d>; 8]>) {
    let Some((name, _, next)) = rest.split() else {
        match value.as_array() {
            Some(array) => found.extend(array.iter().map(|elem| elem.value)),
            None if value.is_missing() => {}
            None => found.push(value),
        }
        return;
    };
    match value.ty() {
        Type::Document => walk(next, Doc::new(value.data()).get(name), found),
        Type::Array => {
            let array = Doc::new(value.data());
            for elem in array {
                if elem.value.ty() == Type::Document {
                    walk(rest, elem.value, found);
                }
            }
            if rest.is_number() {
                walk(next, array.get(name), found);
            }
        }
        _ => {}
    }
}
