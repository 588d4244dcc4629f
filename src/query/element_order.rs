//! The order of an array's elements, for `$push` with `$sort` and for `$sortArray`.

use std::cmp::Ordering;

use super::direction::SortDirection;
use crate::value::{Path, ValueRef, compare};

#[derive(Debug)]
pub enum ElementOrder {
    /// Compares whole elements.
    Whole(SortDirection),
    /// Compares fields of the elements.
    Fields(Vec<(Path, SortDirection)>),
}

// === impl ElementOrder ===

impl ElementOrder {
    pub fn compare(&self, left: ValueRef<'_>, right: ValueRef<'_>) -> Ordering {
        match self {
            Self::Whole(direction) => direction.apply(compare(left, right)),
            Self::Fields(fields) => fields
                .iter()
                .map(|(path, direction)| {
                    let (left, right) = (path.element_key(left), path.element_key(right));
                    direction.apply(compare(left, right))
                })
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}
