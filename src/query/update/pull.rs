//! `$pull` and `$pullAll`: remove the matching elements of an array.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::interrupt;
use crate::query::Vars;
use crate::query::filter::{FILTERS, Filter, Level};
use crate::value::{ArrayBuilder, Doc, DocBuilder, Type, Val, Value, ValueRef, compare, equal};

use super::UpdateArgument;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

enum Pull {
    /// Removes elements equal to this value.
    Equal(Value),
    /// Removes elements equal to one of these values, which are sorted.
    OneOf(Vec<Value>),
    /// Removes documents that match this filter.
    Document(Filter),
    /// Removes values that meet a condition such as `{$gt: 5}` or a regex. The filter is on a field [`WRAP`].
    Value(Filter),
}

/// The field name under which an element is wrapped in a document. Filters match documents only.
const WRAP: &str = "e";

pub fn parse_pull(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    let value = argument.value;
    let wrapped = match value.ty() {
        Type::Document => begins_with_condition(Doc::new(value.data())),
        Type::Regex => true,
        _ => return Ok(Arc::new(Pull::Equal(value.to_value()))),
    };
    if !wrapped {
        let filter = Filter::parse_plain(Doc::new(value.data()), argument.scope)?;
        return Ok(Arc::new(Pull::Document(filter)));
    }
    let mut bytes = Vec::new();
    let filter = Filter::parse_plain(wrap(value, &mut bytes), argument.scope)?;
    Ok(Arc::new(Pull::Value(filter)))
}

pub fn parse_pull_all(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    let Some(array) = argument.value.as_array() else {
        return Err(Error::bad_value(format!(
            "$pullAll requires an array argument but was given a {}",
            argument.value.ty().alias()
        )));
    };
    let mut values: Vec<Value> = array.iter().map(|elem| elem.value.to_value()).collect();
    values.sort_by(|a, b| compare(a.as_ref(), b.as_ref()));
    Ok(Arc::new(Pull::OneOf(values)))
}

/// Returns whether the document is a condition on a value, such as `{$gt: 5}`. `{$or: [...]}` and `{x: 1}` are filters on
/// a document. So is `{$not: ...}` to MongoDB, which refuses it there.
fn begins_with_condition(doc: Doc<'_>) -> bool {
    let name = doc.first().map_or("", |elem| elem.name());
    let operator = FILTERS.find(name.as_bytes());
    name != "$not" && operator.is_some_and(|row| row.facts == Level::Field)
}

/// Returns `{e: value}`, written into a reused buffer.
fn wrap<'b>(value: ValueRef<'_>, buffer: &'b mut Vec<u8>) -> Doc<'b> {
    buffer.clear();
    let mut doc = DocBuilder::begin(buffer);
    doc.put(WRAP, value);
    doc.end();
    Doc::new(buffer)
}

// === impl Pull ===

impl Pull {
    fn takes(&self, value: ValueRef<'_>, vars: &Vars, buffer: &mut Vec<u8>) -> Result<bool> {
        match self {
            Self::Equal(wanted) => Ok(equal(wanted.as_ref(), value)),
            Self::OneOf(wanted) => Ok(wanted
                .binary_search_by(|wanted| compare(wanted.as_ref(), value))
                .is_ok()),
            Self::Document(filter) => match value.as_doc() {
                Some(doc) => filter.matches(doc, vars),
                None => Ok(false),
            },
            Self::Value(filter) => filter.matches(wrap(value, buffer), vars),
        }
    }
}

impl Modify for Pull {
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        let Some(array) = old.as_array() else {
            return Err(Error::bad_value("Cannot apply $pull to a non-array value"));
        };
        let mut buffer = Vec::new();
        let mut bytes = Vec::with_capacity(old.data().len());
        let mut kept = ArrayBuilder::begin(&mut bytes);
        let mut removed = false;
        for elem in array {
            interrupt::tick(1)?;
            if self.takes(elem.value, at.apply.vars, &mut buffer)? {
                removed = true;
            } else {
                kept.push(elem.value);
            }
        }
        kept.end();
        Ok(if removed {
            ValueChange::Put(Val::Own(Value::array(bytes)))
        } else {
            ValueChange::Same
        })
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Viable)
    }

    fn is_slow(&self) -> bool {
        match self {
            Self::Equal(_) | Self::OneOf(_) => false,
            Self::Document(filter) | Self::Value(filter) => filter.is_slow(),
        }
    }
}
