//! `$unset`.

use std::sync::Arc;

use crate::error::Result;
use crate::value::ValueRef;

use super::Argument;
use super::modify::{At, Change, Leaf, Missing, Modify};

struct Unset;

/// Accepts any argument and ignores it.
pub fn parse(_: &Argument<'_>) -> Result<Leaf> {
    Ok(Arc::new(Unset))
}

// === impl Unset ===

impl Modify for Unset {
    fn existing<'v>(&'v self, _: ValueRef<'v>, _: &At<'_, 'v>) -> Result<Change<'v>> {
        Ok(Change::Remove)
    }

    fn missing<'v>(&'v self, _: &At<'_, 'v>) -> Result<Missing<'v>> {
        Ok(Missing::Nothing)
    }

    fn is_quick(&self) -> bool {
        true
    }
}
