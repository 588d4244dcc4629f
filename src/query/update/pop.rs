//! `$pop`: removes the first or the last element of an array.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::value::{ArrayBuilder, Val, Value, ValueRef};

use super::UpdateArgument;
use super::check::element;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

struct Pop {
    first: bool,
}

pub fn parse(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    match integer(argument)? {
        1 => Ok(Arc::new(Pop { first: false })),
        -1 => Ok(Arc::new(Pop { first: true })),
        other => Err(Error::failed_to_parse(format!(
            "$pop expects 1 or -1, found: {other}"
        ))),
    }
}

/// Parses a whole number, with mongod's error messages.
fn integer(argument: &UpdateArgument<'_>) -> Result<i64> {
    let name = || element(argument.field, argument.value);
    let Some(number) = argument.value.as_num() else {
        return Err(Error::failed_to_parse(format!(
            "Expected a number in: {}",
            name()
        )));
    };
    number
        .to_i64_exact()
        .ok_or_else(|| Error::failed_to_parse(format!("Expected an integer: {}", name())))
}

// === impl Pop ===

impl Modify for Pop {
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        let Some(array) = old.as_array() else {
            return Err(Error::type_mismatch(format!(
                "Path '{}' contains an element of non-array type '{}'",
                at.trail.dotted(),
                old.ty().alias()
            )));
        };
        let count = array.count();
        if count == 0 {
            return Ok(ValueChange::Same);
        }
        let mut bytes = Vec::with_capacity(old.data().len());
        let mut kept = ArrayBuilder::begin(&mut bytes);
        for elem in array.iter().skip(usize::from(self.first)).take(count - 1) {
            kept.push(elem.value);
        }
        kept.end();
        Ok(ValueChange::Put(Val::Own(Value::array(bytes))))
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Viable)
    }
}
