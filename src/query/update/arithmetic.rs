//! `$inc` and `$mul`.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::value::{Num, Val, ValueRef};

use super::UpdateArgument;
use super::check::element;
use super::modify::{LeafContext, Modify, OnMissing, UpdateLeaf, ValueChange};

struct Arithmetic {
    op: ArithmeticOp,
    operand: Num,
}

#[derive(Clone, Copy)]
enum ArithmeticOp {
    Add,
    Multiply,
}

pub fn parse_inc(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    parse(ArithmeticOp::Add, argument)
}

pub fn parse_mul(argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    parse(ArithmeticOp::Multiply, argument)
}

fn parse(op: ArithmeticOp, argument: &UpdateArgument<'_>) -> Result<UpdateLeaf> {
    let operand = argument.value.as_num().ok_or_else(|| {
        Error::type_mismatch(format!(
            "Cannot {} with non-numeric argument: {{{}}}",
            match op {
                ArithmeticOp::Add => "increment",
                ArithmeticOp::Multiply => "multiply",
            },
            element(argument.field, argument.value)
        ))
    })?;
    Ok(Arc::new(Arithmetic { op, operand }))
}

// === impl ArithmeticOp ===

impl ArithmeticOp {
    fn name(self) -> &'static str {
        match self {
            Self::Add => "$inc",
            Self::Multiply => "$mul",
        }
    }
}

// === impl Arithmetic ===

impl Modify for Arithmetic {
    #[inline]
    fn existing<'v>(
        &'v self,
        old: ValueRef<'v>,
        at: &LeafContext<'_, 'v>,
    ) -> Result<ValueChange<'v>> {
        let Some(number) = old.as_num() else {
            return Err(Error::type_mismatch(format!(
                "Cannot apply {} to a value of non-numeric type. {{{}}} has the field '{}' of non-numeric type {}",
                self.op.name(),
                at.id(),
                at.trail.name,
                old.ty().alias()
            )));
        };
        let new = match self.op {
            ArithmeticOp::Add => self.operand.checked_add(number),
            ArithmeticOp::Multiply => self.operand.checked_mul(number),
        };
        // Only longs overflow: ints are promoted to longs, doubles become infinite.
        let Some(new) = new else {
            return Err(Error::bad_value(format!(
                "Failed to apply {} operations to current value (({}){}) for document {{{}}}",
                self.op.name(),
                match number {
                    Num::Int32(_) => "NumberInt",
                    _ => "NumberLong",
                },
                number.as_int().unwrap_or_default(),
                at.id()
            )));
        };
        Ok(if identical(new, number) {
            ValueChange::Same
        } else {
            ValueChange::Put(Val::Own(new.to_value()))
        })
    }

    fn missing<'v>(&'v self, _: &LeafContext<'_, 'v>) -> Result<OnMissing<'v>> {
        let new = match self.op {
            ArithmeticOp::Add => self.operand,
            // A missing field counts as a zero of the operand's type.
            ArithmeticOp::Multiply => self.operand.mul(Num::Int32(0)),
        };
        Ok(OnMissing::Create(Val::Own(new.to_value())))
    }

    fn is_quick(&self) -> bool {
        true
    }
}

/// Returns whether both have the same type and the same number. Zero equals negative zero, so the old one stays. NaN
/// equals nothing.
fn identical(new: Num, old: Num) -> bool {
    match (new, old) {
        (Num::Int32(new), Num::Int32(old)) => new == old,
        (Num::Int64(new), Num::Int64(old)) => new == old,
        (Num::Double(new), Num::Double(old)) => new == old,
        (Num::Decimal(new), Num::Decimal(old)) => {
            !new.is_nan() && new.compare(old) == std::cmp::Ordering::Equal
        }
        _ => false,
    }
}
