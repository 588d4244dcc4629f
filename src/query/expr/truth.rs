//! What counts as true.

use crate::value::{Type, ValueRef};

/// False are false, null, undefined, missing and every zero; all else is true (NaN and "" too).
#[inline]
pub fn is_true(value: ValueRef<'_>) -> bool {
    match value.ty() {
        Type::Missing | Type::Null | Type::Undefined => false,
        Type::Bool => value.as_bool() == Some(true),
        Type::Int32 => value.as_i32() != Some(0),
        Type::Int64 => value.as_i64() != Some(0),
        Type::Double => value.as_f64() != Some(0.0),
        Type::Decimal => !decimal_is_zero(value),
        _ => true,
    }
}

/// A decimal is zero when its coefficient is; sign and exponent do not matter.
fn decimal_is_zero(value: ValueRef<'_>) -> bool {
    const MAX_COEFFICIENT: u128 = 10u128.pow(34) - 1;
    let Some(bytes) = value.as_decimal_bytes() else {
        return false;
    };
    let bits = u128::from_le_bytes(bytes);
    let high = (bits >> 120) as u8;
    match high & 0x78 {
        // Infinity and NaN.
        0x78 => false,
        // The long form holds coefficients beyond 34 digits only; these read as zero.
        _ if high & 0x60 == 0x60 => true,
        _ => {
            let coefficient = bits & ((1u128 << 113) - 1);
            coefficient == 0 || coefficient > MAX_COEFFICIENT
        }
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
