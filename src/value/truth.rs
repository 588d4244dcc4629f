//! Which values count as true: in conditions and expressions, and in options for which MongoDB accepts any value as a flag.

use super::{Type, ValueRef};

/// Returns whether a value counts as true. False, null, undefined, missing and every zero are false; all other values are
/// true, even NaN and "".
#[inline]
pub fn is_true(value: ValueRef<'_>) -> bool {
    match value.ty() {
        Type::Missing | Type::Null | Type::Undefined => false,
        Type::Bool => value.as_bool() == Some(true),
        Type::Int32 => value.as_i32() != Some(0),
        Type::Int64 => value.as_i64() != Some(0),
        Type::Double => value.as_f64() != Some(0.0),
        Type::Decimal => value.as_num().is_some_and(|number| !number.is_zero()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn truth() {
        let decimal =
            |text: &str| Value::decimal(text.parse::<bson::Decimal128>().unwrap().bytes());
        for (value, expected) in [
            (Value::missing(), false),
            (Value::null(), false),
            (Value::boolean(false), false),
            (Value::int32(0), false),
            (Value::double(-0.0), false),
            (decimal("0E+3"), false),
            (decimal("-0"), false),
            (decimal("NaN"), true),
            (decimal("Infinity"), true),
            (decimal("0.1"), true),
            (Value::double(f64::NAN), true),
            (Value::string(""), true),
            (Value::int64(2), true),
        ] {
            assert_eq!(is_true(value.as_ref()), expected, "{value:?}");
        }
    }
}
