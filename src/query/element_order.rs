//! The order of an array's elements, for `$push` with `$sort` and for `$sortArray`.

use std::cmp::Ordering;

use super::direction::SortDirection;
use crate::value::{Path, Val, ValueRef, compare};

#[derive(Debug)]
pub enum ElementOrder {
    /// Compares whole elements.
    Whole(SortDirection),
    /// Compares fields of the elements.
    Fields(Vec<(Path, SortDirection)>),
}

// === impl ElementOrder ===

impl ElementOrder {
    /// Compares two elements. `key` returns the value at a path of an element.
    pub fn compare<'v>(
        &self,
        left: ValueRef<'v>,
        right: ValueRef<'v>,
        key: impl Fn(&Path, ValueRef<'v>) -> Val<'v>,
    ) -> Ordering {
        match self {
            Self::Whole(direction) => direction.apply(compare(left, right)),
            Self::Fields(fields) => fields
                .iter()
                .map(|(path, direction)| {
                    let order = compare(key(path, left).as_ref(), key(path, right).as_ref());
                    direction.apply(order)
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}
