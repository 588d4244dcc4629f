//! `$min` and `$max`: the new value replaces the old one if it is less, or greater, in BSON's order.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::Result;
use crate::value::{Val, Value, ValueRef, compare};

use super::Argument;
use super::check::depth;
use super::modify::{At, Change, Leaf, Missing, Modify};

struct Compare {
    value: Value,
    /// How the new value must compare with the old one to replace it.
    wins: Ordering,
}

pub fn parse_min(argument: &Argument<'_>) -> Result<Leaf> {
    Ok(Arc::new(Compare {
        value: argument.value.to_value(),
        wins: Ordering::Less,
    }))
}

pub fn parse_max(argument: &Argument<'_>) -> Result<Leaf> {
    Ok(Arc::new(Compare {
        value: argument.value.to_value(),
        wins: Ordering::Greater,
    }))
}

// === impl Compare ===

impl Modify for Compare {
    fn existing<'v>(&'v self, old: ValueRef<'v>, _: &At<'_, 'v>) -> Result<Change<'v>> {
        if compare(self.value.as_ref(), old) != self.wins {
            return Ok(Change::Same);
        }
        Ok(Change::Put(Val::Ref(self.value.as_ref())))
    }

    fn missing<'v>(&'v self, _: &At<'_, 'v>) -> Result<Missing<'v>> {
        Ok(Missing::Create(Val::Ref(self.value.as_ref())))
    }

    fn depth(&self) -> Option<usize> {
        Some(depth(self.value.as_ref()))
    }

    fn is_quick(&self) -> bool {
        true
    }
}
