//! The values that a document offers at a path: what `$lookup` joins by and what `distinct` collects.

use smallvec::SmallVec;

use crate::value::{Doc, Type, ValueRef};

/// Every value at a path: array elements one by one, both on the way and at the end, and also the element that a number in
/// the path points at. What is missing offers nothing.
pub fn values_at<'d>(value: ValueRef<'d>, names: &[Box<str>]) -> SmallVec<[ValueRef<'d>; 8]> {
    let mut found = SmallVec::new();
    walk(value, names, &mut found);
    found
}

fn walk<'d>(value: ValueRef<'d>, names: &[Box<str>], found: &mut SmallVec<[ValueRef<'d>; 8]>) {
    let Some((name, deeper)) = names.split_first() else {
        match value.as_array() {
            Some(array) => found.extend(array.iter().map(|elem| elem.value)),
            None if value.is_missing() => {}
            None => found.push(value),
        }
        return;
    };
    match value.ty() {
        Type::Document => walk(Doc::new(value.data()).get(name.as_bytes()), deeper, found),
        Type::Array => {
            for elem in Doc::new(value.data()) {
                if elem.value.ty() == Type::Document {
                    walk(elem.value, names, found);
                }
            }
            if name.bytes().all(|b| b.is_ascii_digit()) {
                walk(Doc::new(value.data()).get(name.as_bytes()), deeper, found);
            }
        }
        _ => {}
    }
}
