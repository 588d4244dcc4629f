//! `$push` with `$each`, `$position`, `$sort` and `$slice`.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::query::direction::SortDirection;
use crate::query::element_order::ElementOrder;
use crate::value::{ArrayBuilder, Doc, Path, Val, Value, ValueRef, put_index};

use super::UpdateArgument;
use super::check::depth;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

struct Push {
    values: Vec<Value>,
    /// Where the values are inserted: at the end (`None`), at an index, or counted from the end (negative).
    position: Option<i64>,
    sort: Option<ElementOrder>,
    /// How many elements stay: the first n, or the last n if negative.
    slice: Option<i64>,
}

pub fn parse(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    let mut push = Push {
        values: Vec::new(),
        position: None,
        sort: None,
        slice: None,
    };
    let clauses = argument.value.as_doc().filter(|doc| doc.has("$each"));
    let Some(clauses) = clauses else {
        push.values.push(argument.value.to_value());
        return Ok(Arc::new(push));
    };
    let mut seen: Vec<&str> = Vec::new();
    for elem in clauses {
        let name = elem.name();
        if !matches!(name, "$each" | "$position" | "$slice" | "$sort") {
            return Err(Error::bad_value(format!(
                "Unrecognized clause in $push: {name}"
            )));
        }
        if seen.contains(&name) {
            return Err(Error::bad_value(format!("Only one {name} is supported.")));
        }
        seen.push(name);
    }
    let each = clauses.get("$each");
    let Some(values) = each.as_array() else {
        return Err(Error::bad_value(format!(
            "The argument to $each in $push must be an array but it was of type: {}",
            each.ty().alias()
        )));
    };
    push.values = values.iter().map(|elem| elem.value.to_value()).collect();
    push.slice = integer(
        clauses.get("$slice"),
        "The value for $slice must be an integer value but was given type: ",
    )?;
    push.sort = sort(clauses.get("$sort"))?;
    push.position = integer(
        clauses.get("$position"),
        "The value for $position must be an integer value, not of type: ",
    )?;
    Ok(Arc::new(push))
}

fn integer(value: ValueRef<'_>, complaint: &str) -> Result<Option<i64>> {
    if value.is_missing() {
        return Ok(None);
    }
    match value.as_num().and_then(|number| number.to_i64_exact()) {
        Some(number) => Ok(Some(number)),
        None => Err(Error::bad_value(format!(
            "{complaint}{}",
            value.ty().alias()
        ))),
    }
}

fn sort(value: ValueRef<'_>) -> Result<Option<ElementOrder>> {
    let direction = |value: ValueRef<'_>| {
        let direction = value.as_num().and_then(SortDirection::of_elements);
        direction.ok_or_else(|| Error::bad_value("The $sort element value must be either 1 or -1"))
    };
    if value.is_missing() {
        return Ok(None);
    }
    if let Some(pattern) = value.as_doc() {
        if pattern.is_empty() {
            return Err(Error::bad_value(
                "The sort pattern is empty when it should be a set of fields.",
            ));
        }
        let mut fields = Vec::new();
        for elem in pattern {
            let direction = direction(elem.value)?;
            let name = elem.name();
            if name.is_empty() {
                return Err(Error::bad_value("The $sort field cannot be empty"));
            }
            if name.split('.').any(str::is_empty) {
                return Err(Error::bad_value(format!(
                    "The $sort field is a dotted field but has an empty part: {name}"
                )));
            }
            fields.push((Path::parse(name), direction));
        }
        return Ok(Some(ElementOrder::Fields(fields)));
    }
    if value.ty().is_number() {
        return Ok(Some(ElementOrder::Whole(direction(value)?)));
    }
    Err(Error::bad_value(
        "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to sort embedded fields",
    ))
}

// === impl Push ===

impl Push {
    /// Returns the new array.
    fn run(&self, old: Doc<'_>) -> Value {
        if self.position.is_none() && self.sort.is_none() && self.slice.is_none() {
            return self.append(old);
        }
        let mut elements: Vec<ValueRef<'_>> = old.iter().map(|elem| elem.value).collect();
        let count = elements.len();
        let at = match self.position {
            None => count,
            Some(from_end) if from_end < 0 => {
                count.saturating_sub(usize::try_from(from_end.unsigned_abs()).unwrap_or(usize::MAX))
            }
            Some(index) => usize::try_from(index).unwrap_or(usize::MAX).min(count),
        };
        elements.splice(at..at, self.values.iter().map(Value::as_ref));
        if let Some(order) = &self.sort {
            elements.sort_by(|left, right| order.compare(*left, *right));
        }
        let kept = match self.slice {
            None => &elements[..],
            Some(slice) => {
                let keep = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
                let keep = keep.min(elements.len());
                if slice < 0 {
                    &elements[elements.len() - keep..]
                } else {
                    &elements[..keep]
                }
            }
        };
        let mut bytes = Vec::with_capacity(old.bytes().len() + 64);
        let mut array = ArrayBuilder::begin(&mut bytes);
        for value in kept {
            array.push(*value);
        }
        array.end();
        Value::array(bytes)
    }

    /// Handles the common case: the old bytes, then the new elements.
    fn append(&self, old: Doc<'_>) -> Value {
        let values = self.values.iter().map(Value::as_ref);
        append(old, values)
    }
}

/// Returns an array with further elements appended.
pub fn append<'v>(old: Doc<'_>, values: impl Iterator<Item = ValueRef<'v>>) -> Value {
    let mut bytes = Vec::with_capacity(old.bytes().len() + 64);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(old.body());
    for (nth, value) in (old.count() as u32..).zip(values) {
        bytes.push(value.ty().tag());
        put_index(&mut bytes, nth);
        bytes.extend_from_slice(value.data());
    }
    bytes.push(0);
    let length = bytes.len() as i32;
    if let Some(head) = bytes.first_chunk_mut::<4>() {
        *head = length.to_le_bytes();
    }
    Value::array(bytes)
}

impl Modify for Push {
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        let Some(array) = old.as_array() else {
            return Err(Error::bad_value(format!(
                "The field '{}' must be an array but is of type {} in document {{{}}}",
                at.trail.dotted(),
                old.ty().alias(),
                at.id()
            )));
        };
        let new = self.run(array);
        // A sort counts as a change even if the order was right before, unless there is nothing to sort.
        let is_sorted = self.sort.is_some() && !array.is_empty();
        if self.values.is_empty() && !is_sorted && new.as_ref() == old {
            return Ok(ValueChange::Same);
        }
        Ok(ValueChange::Put(Val::Own(new)))
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Create(Val::Own(self.run(Doc::EMPTY))))
    }

    fn appends(&self, count: usize) -> bool {
        let behind = |at: i64| usize::try_from(at).is_ok_and(|at| at > count);
        // As mongod tells it: an array that was empty is told as a whole.
        count > 0 && self.sort.is_none() && self.position.is_none_or(behind)
    }

    fn builds_an_array(&self) -> bool {
        true
    }

    fn depth(&self) -> Option<usize> {
        let deepest = self.values.iter().map(|value| depth(value.as_ref())).max();
        Some(1 + deepest.unwrap_or(0))
    }
}
