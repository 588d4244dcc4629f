//! `$unset`.

use std::sync::Arc;

use crate::error::Result;
use crate::value::ValueRef;

use super::UpdateArgument;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

struct Unset;

/// Accepts any argument and ignores it.
pub fn parse(_: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    Ok(Arc::new(Unset))
}

// === impl Unset ===

impl Modify for Unset {
    fn existing<'v>(&'v self, _: ValueRef<'v>, _: &LeafContext<'_, 'v>) -> Result<ValueChange<'v>> {
        Ok(ValueChange::Remove)
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Nothing)
    }

    fn is_quick(&self) -> bool {
        true
    }
}
