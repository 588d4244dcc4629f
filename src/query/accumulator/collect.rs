//! `$push`, `$addToSet`, `$concatArrays`, `$setUnion`, `$mergeObjects`.

use ahash::AHashSet;

use super::state::{AccumulatorState, Input};
use crate::error::{Error, Result};
use crate::query::expr::object;
use crate::value::{ArrayBuilder, DocBuf, Type, Value, ValueRef, check_computed, key};

/// The state of `$push` and `$concatArrays`.
#[derive(Default)]
struct ListState {
    list: ValueList,
    /// The operator's name if its input is an array, whose elements are collected one by one.
    each_of: Option<&'static str>,
}

/// The state of `$addToSet` and `$setUnion`.
#[derive(Default)]
struct SetState {
    set: ValueSet,
    each_of: Option<&'static str>,
}

/// The state of `$mergeObjects`.
#[derive(Default)]
struct MergeObjects(DocBuf);

/// Values stored one after another in one buffer: tag, length, bytes. The names of the array elements are written at the
/// end.
#[derive(Debug, Default)]
struct ValueList {
    bytes: Vec<u8>,
}

/// Distinct values, in insertion order.
#[derive(Debug, Default)]
struct ValueSet {
    seen: AHashSet<Box<[u8]>>,
    keys: usize,
    list: ValueList,
    /// A buffer that is reused for the key of each value.
    key: Vec<u8>,
}

pub fn push() -> Box<dyn AccumulatorState> {
    Box::new(ListState::default())
}

pub fn concat_arrays() -> Box<dyn AccumulatorState> {
    Box::new(ListState {
        each_of: Some("$concatArrays"),
        ..ListState::default()
    })
}

pub fn add_to_set() -> Box<dyn AccumulatorState> {
    Box::new(SetState::default())
}

pub fn set_union() -> Box<dyn AccumulatorState> {
    Box::new(SetState {
        each_of: Some("$setUnion"),
        ..SetState::default()
    })
}

pub fn merge_objects() -> Box<dyn AccumulatorState> {
    Box::new(MergeObjects::default())
}

/// Calls `visit` with the value. For an operator that takes arrays, calls it with each element instead, and ignores a
/// missing value.
fn each_value(
    each_of: Option<&'static str>,
    value: ValueRef<'_>,
    mut visit: impl FnMut(ValueRef<'_>),
) -> Result<()> {
    let Some(name) = each_of else {
        visit(value);
        return Ok(());
    };
    if value.is_missing() {
        return Ok(());
    }
    let array = value.as_array().ok_or_else(|| {
        Error::type_mismatch(format!(
            "{name} requires array inputs, but input {value} is of type {}",
            value.ty().alias()
        ))
    })?;
    array.iter().for_each(|elem| visit(elem.value));
    Ok(())
}

// === impl AccumulatorState ===

impl AccumulatorState for ListState {
    fn makes_container(&self) -> bool {
        true
    }

    fn add(&mut self, input: Input<'_>) -> Result<()> {
        each_value(self.each_of, input.value, |value| self.list.push(value))
    }

    fn finish(&mut self) -> Result<Value> {
        self.list.to_array()
    }

    fn size(&self) -> usize {
        self.list.size()
    }
}

impl AccumulatorState for SetState {
    fn makes_container(&self) -> bool {
        true
    }

    fn add(&mut self, input: Input<'_>) -> Result<()> {
        each_value(self.each_of, input.value, |value| self.set.add(value))
    }

    fn finish(&mut self) -> Result<Value> {
        self.set.list.to_array()
    }

    fn size(&self) -> usize {
        self.set.size()
    }
}

impl AccumulatorState for MergeObjects {
    fn makes_container(&self) -> bool {
        true
    }

    fn add(&mut self, input: Input<'_>) -> Result<()> {
        let value = input.value;
        if value.is_nullish() {
            return Ok(());
        }
        let doc = value.as_doc().ok_or_else(|| {
            Error::location(
                5911200,
                format!(
                    "$mergeObjects requires object inputs, but input {value} is of type {}",
                    value.ty().alias()
                ),
            )
        })?;
        self.0 = object::merge(self.0.as_doc(), doc)?;
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(Value::document(self.0.bytes().to_vec()))
    }

    fn size(&self) -> usize {
        self.0.bytes().len()
    }
}

// === impl ValueList ===

impl ValueList {
    fn push(&mut self, value: ValueRef<'_>) {
        if value.is_missing() {
            return;
        }
        let length = u32::try_from(value.data().len()).unwrap_or(u32::MAX);
        self.bytes.push(value.ty().tag());
        self.bytes.extend_from_slice(&length.to_le_bytes());
        self.bytes.extend_from_slice(value.data());
    }

    fn iter(&self) -> impl Iterator<Item = ValueRef<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (&tag, behind) = rest.split_first()?;
            let (length, behind) = behind.split_first_chunk()?;
            let length = u32::from_le_bytes(*length) as usize;
            let (data, behind) = behind.split_at_checked(length)?;
            rest = behind;
            Some(ValueRef::new(Type::from_tag(tag)?, data))
        })
    }

    fn to_array(&self) -> Result<Value> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + self.bytes.len() / 4);
        let mut out = ArrayBuilder::begin(&mut bytes);
        for value in self.iter() {
            out.push(value);
            check_computed(out.len())?;
        }
        out.end();
        Ok(Value::array(bytes))
    }

    fn size(&self) -> usize {
        self.bytes.len()
    }
}

// === impl ValueSet ===

impl ValueSet {
    fn add(&mut self, value: ValueRef<'_>) {
        if value.is_missing() {
            return;
        }
        self.key.clear();
        key::encode(value, false, &mut self.key);
        if !self.seen.contains(self.key.as_slice()) {
            self.keys += self.key.len() + 32;
            self.seen.insert(self.key.as_slice().into());
            self.list.push(value);
        }
    }

    fn size(&self) -> usize {
        self.keys + self.list.size()
    }
}
