//! `$currentDate`.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::value::{Millis, Type, Val, Value, ValueRef};

use super::UpdateArgument;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

enum CurrentDate {
    Date,
    Timestamp,
}

pub fn parse(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    let value = argument.value;
    let kind = match value.ty() {
        // For `true` and for `false`.
        Type::Bool => CurrentDate::Date,
        Type::Document => {
            let mut kind = None;
            for elem in value.as_doc().into_iter().flatten() {
                if elem.name() != "$type" {
                    return Err(Error::bad_value(format!(
                        "Unrecognized $currentDate option: {}",
                        elem.name()
                    )));
                }
                kind = match elem.value.as_str() {
                    Some("date") => Some(CurrentDate::Date),
                    Some("timestamp") => Some(CurrentDate::Timestamp),
                    _ => kind,
                };
            }
            kind.ok_or_else(|| {
                Error::bad_value(
                    "The '$type' string field is required to be 'date' or 'timestamp': {$currentDate: {field : {$type: 'date'}}}",
                )
            })?
        }
        other => {
            return Err(Error::bad_value(format!(
                "{} is not valid type for $currentDate. Please use a boolean ('true') or a $type expression ({{$type: 'timestamp/date'}}).",
                other.alias()
            )));
        }
    };
    Ok(Arc::new(kind))
}

/// Returns the server's time as a timestamp. The increment must only be above 0, because a timestamp of zeros means "now".
pub fn timestamp(now: Millis) -> Value {
    Value::timestamp(u32::try_from(now.seconds()).unwrap_or(0), 1)
}

// === impl CurrentDate ===

impl CurrentDate {
    fn value(&self, now: Millis) -> Val<'static> {
        Val::Own(match self {
            Self::Date => Value::date(now.0),
            Self::Timestamp => timestamp(now),
        })
    }
}

impl Modify for CurrentDate {
    fn existing<'v>(
        &'v self,
        _: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        Ok(ValueChange::Put(self.value(at.apply.now)))
    }

    fn missing<'v>(&'v self, at: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Create(self.value(at.apply.now)))
    }
    fn is_quick(&self) -> bool {
        true
    }
}
