//! `$min` and `$max`: the new value replaces the old one if it is less, or greater, in BSON's order.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::error::Result;
use crate::value::{Val, Value, ValueRef, compare};

use super::UpdateArgument;
use super::check::depth;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

struct Compare {
    value: Value,
    /// How the new value must compare with the old one to replace it.
    wins: Ordering,
}

pub fn parse_min(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    Ok(Arc::new(Compare {
        value: argument.value.to_value(),
        wins: Ordering::Less,
    }))
}

pub fn parse_max(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    Ok(Arc::new(Compare {
        value: argument.value.to_value(),
        wins: Ordering::Greater,
    }))
}

// === impl Compare ===

impl Modify for Compare {
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        _: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        if compare(self.value.as_ref(), old) != self.wins {
            return Ok(ValueChange::Same);
        }
        Ok(ValueChange::Put(Val::Ref(self.value.as_ref())))
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Create(Val::Ref(self.value.as_ref())))
    }

    fn depth(&self) -> Option<usize> {
        Some(depth(self.value.as_ref()))
    }

    fn is_quick(&self) -> bool {
        true
    }
}
