//! `$addToSet`, with `$each`: adds the elements that an array does not contain yet.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::value::{Doc, Val, Value, ValueRef, compare, equal};

use super::UpdateArgument;
use super::check::depth;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};
use super::push::append;

/// The distinct candidates, in the client's order.
struct AddToSet {
    values: Vec<Value>,
    /// The positions of the candidates in value order. One walk over a large array then finds many candidates.
    sorted: Vec<usize>,
}

pub fn parse(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    let candidates: Vec<Value> = match each(argument.value)? {
        Some(array) => array.iter().map(|elem| elem.value.to_value()).collect(),
        None => vec![argument.value.to_value()],
    };
    let mut sorted: Vec<usize> = (0..candidates.len()).collect();
    // The sort is stable, so the first of several equal candidates stays.
    sorted.sort_by(|a, b| compare(candidates[*a].as_ref(), candidates[*b].as_ref()));
    sorted.dedup_by(|b, a| equal(candidates[*a].as_ref(), candidates[*b].as_ref()));
    let mut kept = sorted.clone();
    kept.sort_unstable();
    let place = |candidate: &usize| kept.binary_search(candidate).unwrap_or_default();
    let sorted = sorted.iter().map(place).collect();
    let values = kept.iter().map(|at| candidates[*at].clone()).collect();
    Ok(Arc::new(AddToSet { values, sorted }))
}

/// Returns the array of `{$each: [...]}`, or `None` if the argument itself is the element.
fn each(value: ValueRef<'_>) -> Result<Option<Doc<'_>>> {
    let Some(doc) = value.as_doc() else {
        return Ok(None);
    };
    let Some(first) = doc.first().filter(|elem| elem.name() == "$each") else {
        return Ok(None);
    };
    let Some(array) = first.value.as_array() else {
        return Err(Error::type_mismatch(format!(
            "The argument to $each in $addToSet must be an array but it was of type {}",
            first.value.ty().alias()
        )));
    };
    if doc.count() > 1 {
        return Err(Error::bad_value(format!(
            "Found unexpected fields after $each in $addToSet: {doc}"
        )));
    }
    Ok(Some(array))
}

// === impl AddToSet ===

impl Modify for AddToSet {
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        let Some(array) = old.as_array() else {
            return Err(Error::bad_value(format!(
                "Cannot apply $addToSet to non-array field. Field named '{}' has non-array type {}",
                at.trail.name,
                old.ty().alias()
            )));
        };
        let mut new = vec![true; self.values.len()];
        let mut left = new.len();
        for elem in array {
            interrupt::tick(1)?;
            let found = self
                .sorted
                .binary_search_by(|at| compare(self.values[*at].as_ref(), elem.value));
            if let Ok(found) = found
                && std::mem::replace(&mut new[self.sorted[found]], false)
            {
                left -= 1;
            }
            if left == 0 {
                return Ok(ValueChange::Same);
            }
        }
        if left == 0 {
            return Ok(ValueChange::Same);
        }
        let values = self.values.iter().zip(&new).filter(|(_, new)| **new);
        Ok(ValueChange::Put(Val::Own(append(
            array,
            values.map(|(value, _)| value.as_ref()),
        ))))
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        let values = self.values.iter().map(Value::as_ref);
        Ok(OnMissing::Create(Val::Own(append(Doc::EMPTY, values))))
    }

    fn builds_an_array(&self) -> bool {
        true
    }

    fn depth(&self) -> Option<usize> {
        let deepest = self.values.iter().map(|value| depth(value.as_ref())).max();
        Some(1 + deepest.unwrap_or(0))
    }
}
