//! `$bit`: and, or, xor on integers, one after another.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::value::{Type, Val, Value, ValueRef};

use super::UpdateArgument;
use super::check::element;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

struct Bit(SmallVec<[(BitOp, Integer); 2]>);

#[derive(Clone, Copy)]
enum BitOp {
    And,
    Or,
    Xor,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Integer {
    Int(i32),
    Long(i64),
}

pub fn parse(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    let Some(doc) = argument.value.as_doc() else {
        return Err(Error::bad_value(format!(
            "The $bit modifier is not compatible with a {}. You must pass in an embedded document: {{$bit: {{field: {{and/or/xor: #}}}}",
            argument.value.ty().alias()
        )));
    };
    let mut ops = SmallVec::new();
    for elem in doc {
        let op = match elem.name() {
            "and" => BitOp::And,
            "or" => BitOp::Or,
            "xor" => BitOp::Xor,
            name => {
                return Err(Error::bad_value(format!(
                    "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an unknown operator: {{{}}}",
                    element(name, elem.value)
                )));
            }
        };
        let operand = Integer::of(elem.value).ok_or_else(|| {
            Error::bad_value(format!(
                "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {{{}}}",
                elem.value.ty().alias(),
                element(elem.name(), elem.value)
            ))
        })?;
        ops.push((op, operand));
    }
    if ops.is_empty() {
        return Err(Error::bad_value(
            "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}",
        ));
    }
    Ok(Arc::new(Bit(ops)))
}

// === impl Integer ===

impl Integer {
    fn of(value: ValueRef<'_>) -> Option<Self> {
        match value.ty() {
            Type::Int32 => value.as_i32().map(Self::Int),
            Type::Int64 => value.as_i64().map(Self::Long),
            _ => None,
        }
    }

    fn long(self) -> i64 {
        match self {
            Self::Int(value) => value.into(),
            Self::Long(value) => value,
        }
    }

    /// Applies one operation. Two ints give an int. If either operand is a long, so is the result.
    fn apply(self, op: BitOp, operand: Self) -> Self {
        let (left, right) = (self.long(), operand.long());
        let result = match op {
            BitOp::And => left & right,
            BitOp::Or => left | right,
            BitOp::Xor => left ^ right,
        };
        match (self, operand) {
            // Sign-extended operands give a sign-extended result, so the cast loses nothing.
            (Self::Int(_), Self::Int(_)) => Self::Int(result as i32),
            _ => Self::Long(result),
        }
    }

    fn value(self) -> Val<'static> {
        Val::Own(match self {
            Self::Int(value) => Value::int32(value),
            Self::Long(value) => Value::int64(value),
        })
    }
}

// === impl Bit ===

impl Bit {
    fn run(&self, start: Integer) -> Integer {
        self.0
            .iter()
            .fold(start, |value, (op, operand)| value.apply(*op, *operand))
    }
}

impl Modify for Bit {
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        let Some(old) = Integer::of(old) else {
            return Err(Error::bad_value(format!(
                "Cannot apply $bit to a value of non-integral type.{} has the field {} of non-integer type {}",
                at.id(),
                at.trail.name,
                old.ty().alias()
            )));
        };
        let new = self.run(old);
        Ok(if new == old {
            ValueChange::Same
        } else {
            ValueChange::Put(new.value())
        })
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        Ok(OnMissing::Create(self.run(Integer::Int(0)).value()))
    }
    fn is_quick(&self) -> bool {
        true
    }
}
