//! The direction of a sort: 1 is ascending, -1 is descending. The constructors return `None` for any other number.

use std::cmp::Ordering;

use crate::value::Num;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortDirection {
    Ascending,
    Descending,
}

// === impl SortDirection ===

impl SortDirection {
    /// Reads the direction of a sort of documents: doubles are truncated, decimals are rounded.
    pub fn of_documents(number: Num) -> Option<Self> {
        let integer = match number {
            Num::Decimal(decimal) => decimal.to_i64_round(),
            other => other.to_i64_trunc(),
        };
        match integer {
            Some(1) => Some(Self::Ascending),
            Some(-1) => Some(Self::Descending),
            _ => None,
        }
    }

    /// Reads the direction of a sort of array elements: the number must equal 1 or -1 as a double.
    pub fn of_elements(number: Num) -> Option<Self> {
        match number.to_f64() {
            1.0 => Some(Self::Ascending),
            -1.0 => Some(Self::Descending),
            _ => None,
        }
    }

    pub fn is_descending(self) -> bool {
        self == Self::Descending
    }

    pub fn apply(self, order: Ordering) -> Ordering {
        match self {
            Self::Ascending => order,
            Self::Descending => order.reverse(),
        }
    }
}
