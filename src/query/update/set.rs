//! `$set` and `$setOnInsert`.

use std::sync::Arc;

use crate::error::Result;
use crate::value::{Val, Value, ValueRef};

use super::UpdateArgument;
use super::check::depth;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

pub struct Set {
    pub value: Value,
    pub only_on_insert: bool,
}

pub fn parse_set(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    Ok(Arc::new(Set {
        value: argument.value.to_value(),
        only_on_insert: false,
    }))
}

pub fn parse_set_on_insert(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    Ok(Arc::new(Set {
        value: argument.value.to_value(),
        only_on_insert: true,
    }))
}

// === impl Set ===

impl Modify for Set {
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        // Identical bytes are no change. 1 and 1.0 differ here.
        if (self.only_on_insert && !at.apply.inserting) || old == self.value.as_ref() {
            return Ok(ValueChange::Same);
        }
        Ok(ValueChange::Put(Val::Ref(self.value.as_ref())))
    }

    fn missing<'v>(&'v self, at: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        if self.only_on_insert && !at.apply.inserting {
            return Ok(OnMissing::Nothing);
        }
        Ok(OnMissing::Create(Val::Ref(self.value.as_ref())))
    }

    fn depth(&self) -> Option<usize> {
        Some(depth(self.value.as_ref()))
    }

    fn is_quick(&self) -> bool {
        true
    }
}
