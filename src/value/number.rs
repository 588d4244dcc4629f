//! A number of any of the four types, and arithmetic across them.
//!
//! The wider type wins: int, long, double, decimal. An int that overflows becomes a long. The caller decides what happens
//! when a long overflows, because `$inc` fails then while `$add` continues with a double.

// Plain methods instead of operators, so that arithmetic on MongoDB's numbers is visibly a call.
#![allow(clippy::should_implement_trait)]

use std::cmp::Ordering;

use super::{Decimal, Type, Value, ValueRef};

/// A number of any of BSON's four numeric types.
#[derive(Clone, Copy, Debug)]
pub enum Num {
    Int32(i32),
    Int64(i64),
    Double(f64),
    Decimal(Decimal),
}

// === impl Num ===

impl Num {
    pub fn ty(self) -> Type {
        match self {
            Self::Int32(_) => Type::Int32,
            Self::Int64(_) => Type::Int64,
            Self::Double(_) => Type::Double,
            Self::Decimal(_) => Type::Decimal,
        }
    }

    pub fn to_value(self) -> Value {
        match self {
            Self::Int32(value) => Value::int32(value),
            Self::Int64(value) => Value::int64(value),
            Self::Double(value) => Value::double(value),
            Self::Decimal(value) => Value::decimal(value.to_bytes()),
        }
    }

    /// Returns the value of an int or a long, or `None` for other types.
    #[inline]
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Int32(value) => Some(value.into()),
            Self::Int64(value) => Some(value),
            Self::Double(_) | Self::Decimal(_) => None,
        }
    }

    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int32(value) => value.into(),
            Self::Int64(value) => value as f64,
            Self::Double(value) => value,
            Self::Decimal(value) => value.to_f64(),
        }
    }

    pub fn to_decimal(self) -> Decimal {
        match self {
            Self::Int32(value) => Decimal::from_i32(value),
            Self::Int64(value) => Decimal::from_i64(value),
            Self::Double(value) => Decimal::from_f64(value),
            Self::Decimal(value) => value,
        }
    }

    /// Returns the number as an integer, or `None` if it has a fraction or does not fit.
    pub fn to_i64_exact(self) -> Option<i64> {
        match self {
            Self::Int32(value) => Some(value.into()),
            Self::Int64(value) => Some(value),
            Self::Double(value) => {
                let integer = f64_to_i64(value)?;
                (integer as f64 == value).then_some(integer)
            }
            Self::Decimal(value) => value.to_i64_exact(),
        }
    }

    /// Returns the integer part, or `None` for NaN and if it does not fit.
    pub fn to_i64_trunc(self) -> Option<i64> {
        match self {
            Self::Int32(value) => Some(value.into()),
            Self::Int64(value) => Some(value),
            Self::Double(value) => f64_to_i64(value),
            Self::Decimal(value) => value.to_i64_trunc(),
        }
    }

    /// Returns the integer part, clamped to the range; NaN becomes 0. This is mongod's `safeNumberLong`: it truncates a
    /// double and rounds a decimal.
    pub fn to_i64_saturating(self) -> i64 {
        match self {
            Self::Int32(value) => value.into(),
            Self::Int64(value) => value,
            Self::Double(value) => value as i64,
            Self::Decimal(value) => match value.to_i64_round() {
                Some(integer) => integer,
                None if value.is_nan() => 0,
                None if value.is_negative() => i64::MIN,
                None => i64::MAX,
            },
        }
    }

    pub fn is_nan(self) -> bool {
        match self {
            Self::Double(value) => value.is_nan(),
            Self::Decimal(value) => value.is_nan(),
            Self::Int32(_) | Self::Int64(_) => false,
        }
    }

    pub fn is_infinite(self) -> bool {
        match self {
            Self::Double(value) => value.is_infinite(),
            Self::Decimal(value) => value.is_infinite(),
            Self::Int32(_) | Self::Int64(_) => false,
        }
    }

    pub fn is_finite(self) -> bool {
        !self.is_nan() && !self.is_infinite()
    }

    pub fn is_zero(self) -> bool {
        match self {
            Self::Int32(value) => value == 0,
            Self::Int64(value) => value == 0,
            Self::Double(value) => value == 0.0,
            Self::Decimal(value) => value.is_zero(),
        }
    }

    /// Returns whether the number is below zero. -0 and NaN are not.
    pub fn is_negative(self) -> bool {
        match self {
            Self::Int32(value) => value < 0,
            Self::Int64(value) => value < 0,
            Self::Double(value) => value < 0.0,
            Self::Decimal(value) => value.is_negative() && !value.is_nan() && !value.is_zero(),
        }
    }

    /// Compares two numbers in the total order: exactly by value, across types. NaN is below all others and equal to
    /// itself.
    #[inline]
    pub fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Int32(a), Self::Int32(b)) => a.cmp(&b),
            (Self::Double(a), Self::Double(b)) => compare_f64(a, b),
            (Self::Decimal(a), Self::Decimal(b)) => a.compare(b),
            (Self::Double(a), Self::Decimal(b)) => compare_f64_decimal(a, b),
            (Self::Decimal(a), Self::Double(b)) => compare_f64_decimal(b, a).reverse(),
            (Self::Double(a), Self::Int32(b)) => compare_f64(a, b.into()),
            (Self::Int32(a), Self::Double(b)) => compare_f64(a.into(), b),
            (Self::Double(a), Self::Int64(b)) => compare_i64_f64(b, a).reverse(),
            (Self::Int64(a), Self::Double(b)) => compare_i64_f64(a, b),
            (Self::Decimal(a), b) => a.compare(b.to_decimal()),
            (a, Self::Decimal(b)) => a.to_decimal().compare(b),
            (Self::Int32(a), Self::Int64(b)) => i64::from(a).cmp(&b),
            (Self::Int64(a), Self::Int32(b)) => a.cmp(&i64::from(b)),
            (Self::Int64(a), Self::Int64(b)) => a.cmp(&b),
        }
    }

    /// Returns the sum, or `None` if it overflows a long.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.combine(other, i64::checked_add, |a, b| a + b, Decimal::add)
    }

    /// Returns the difference, or `None` if it overflows a long.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.combine(other, i64::checked_sub, |a, b| a - b, Decimal::sub)
    }

    /// Returns the product, or `None` if it overflows a long.
    pub fn checked_mul(self, other: Self) -> Option<Self> {
        self.combine(other, i64::checked_mul, |a, b| a * b, Decimal::mul)
    }

    /// Returns the sum, as a double if it overflows a long.
    #[must_use]
    pub fn add(self, other: Self) -> Self {
        self.checked_add(other)
            .unwrap_or_else(|| Self::Double(self.to_f64() + other.to_f64()))
    }

    /// Returns the difference, as a double if it overflows a long.
    #[must_use]
    pub fn sub(self, other: Self) -> Self {
        self.checked_sub(other)
            .unwrap_or_else(|| Self::Double(self.to_f64() - other.to_f64()))
    }

    /// Returns the product, as a double if it overflows a long.
    #[must_use]
    pub fn mul(self, other: Self) -> Self {
        self.checked_mul(other)
            .unwrap_or_else(|| Self::Double(self.to_f64() * other.to_f64()))
    }

    #[inline]
    fn combine(
        self,
        other: Self,
        integer: impl Fn(i64, i64) -> Option<i64>,
        double: impl Fn(f64, f64) -> f64,
        decimal: impl Fn(Decimal, Decimal) -> Decimal,
    ) -> Option<Self> {
        Some(match (self, other) {
            (Self::Decimal(_), _) | (_, Self::Decimal(_)) => {
                Self::Decimal(decimal(self.to_decimal(), other.to_decimal()))
            }
            (Self::Double(_), _) | (_, Self::Double(_)) => {
                Self::Double(double(self.to_f64(), other.to_f64()))
            }
            (Self::Int32(a), Self::Int32(b)) => {
                // One operation on two ints cannot overflow a long.
                let wide = integer(a.into(), b.into())?;
                i32::try_from(wide).map_or(Self::Int64(wide), Self::Int32)
            }
            (a, b) => Self::Int64(integer(a.as_int()?, b.as_int()?)?),
        })
    }
}

impl<'a> ValueRef<'a> {
    #[inline]
    pub fn as_num(self) -> Option<Num> {
        let data = self.data();
        Some(match self.ty() {
            Type::Int32 => Num::Int32(i32::from_le_bytes(*data.first_chunk()?)),
            Type::Int64 => Num::Int64(i64::from_le_bytes(*data.first_chunk()?)),
            Type::Double => Num::Double(f64::from_le_bytes(*data.first_chunk()?)),
            Type::Decimal => Num::Decimal(Decimal::from_bytes(*data.first_chunk()?)),
            _ => return None,
        })
    }

    pub fn as_decimal(self) -> Option<Decimal> {
        self.as_decimal_bytes().map(Decimal::from_bytes)
    }
}

/// Returns the integer part, or `None` for NaN and if it does not fit.
fn f64_to_i64(value: f64) -> Option<i64> {
    // 2^63 is the first double that does not fit; -2^63 fits.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0)
        .contains(&value)
        .then_some(value as i64)
}

#[inline]
fn compare_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_i64_f64(a: i64, b: f64) -> Ordering {
    if b.is_nan() {
        return Ordering::Greater;
    }
    match f64_to_i64(b) {
        Some(integer) => a
            .cmp(&integer)
            .then_with(|| compare_f64(0.0, b - integer as f64)),
        None if b > 0.0 => Ordering::Less,
        None => Ordering::Greater,
    }
}

fn compare_f64_decimal(a: f64, b: Decimal) -> Ordering {
    if a.is_nan() || b.is_nan() {
        return b.is_nan().cmp(&a.is_nan());
    }
    let (near, exact) = b.to_f64_toward_zero();
    if exact {
        return compare_f64(a, near);
    }
    // `b` lies strictly between `near` and the next double away from zero.
    if b.is_negative() {
        if a >= near {
            Ordering::Greater
        } else {
            Ordering::Less
        }
    } else if a <= near {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Num {
        Num::Decimal(Decimal::parse(text).unwrap())
    }

    #[test]
    fn the_wider_type_wins_and_ints_grow() {
        use Num::{Double, Int32, Int64};
        for (sum, expected) in [
            (Int32(1).add(Int32(2)), "Int32(3)"),
            (Int32(i32::MAX).add(Int32(1)), "Int64(2147483648)"),
            (Int32(1).add(Int64(2)), "Int64(3)"),
            (
                Int64(i64::MAX).add(Int32(1)),
                "Double(9.223372036854776e18)",
            ),
            (Int32(1).add(Double(0.5)), "Double(1.5)"),
            (Int32(1).add(d("0.5")), "Decimal(Decimal(1.5))"),
            (
                Double(0.5).mul(d("2")),
                "Decimal(Decimal(1.000000000000000))",
            ),
            (Int32(i32::MIN).mul(Int32(-1)), "Int64(2147483648)"),
            (Int32(i32::MIN).sub(Int32(1)), "Int64(-2147483649)"),
        ] {
            assert_eq!(format!("{sum:?}"), expected);
        }
        assert!(Int64(i64::MAX).checked_add(Int32(1)).is_none());
        assert!(Int64(i64::MIN).checked_mul(Int32(-1)).is_none());
    }

    #[test]
    fn order_is_exact_across_types() {
        use Num::{Double, Int32, Int64};
        // Ascending; entries of one row are equal.
        let rows: &[&[Num]] = &[
            &[Double(f64::NAN), Double(-f64::NAN), d("NaN")],
            &[Double(f64::NEG_INFINITY), d("-Infinity")],
            &[d("-1E400")],
            &[Double(f64::MIN)],
            &[Int64(i64::MIN), Double(-9_223_372_036_854_775_808.0)],
            &[Int64(i64::MIN + 1)],
            &[Int32(-1), d("-1.0")],
            &[d("-1E-6000")],
            &[Int32(0), Double(-0.0), Double(0.0), d("-0"), d("0E+10")],
            &[d("1E-6000")],
            &[Double(5e-324)],
            &[d("0.1")],
            &[Double(0.1)],
            &[d("0.10000000000000001")],
            &[Double(0.5), d("0.50")],
            &[Int32(1), Int64(1), Double(1.0), d("1.00")],
            &[Int64(1 << 53), Double(9_007_199_254_740_992.0)],
            &[Int64((1 << 53) + 1), d("9007199254740993")],
            &[Double(9_007_199_254_740_994.0)],
            &[Int64(i64::MAX), d("9223372036854775807")],
            &[d("9223372036854775807.5")],
            &[Double(9_223_372_036_854_775_808.0)],
            &[Double(f64::MAX)],
            &[d("1E400")],
            &[Double(f64::INFINITY), d("Infinity")],
        ];
        for (i, row) in rows.iter().enumerate() {
            for (j, other) in rows.iter().enumerate() {
                for a in *row {
                    for b in *other {
                        assert_eq!(a.compare(*b), i.cmp(&j), "{a:?} {b:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn whole_numbers_are_recognised() {
        assert_eq!(Num::Double(3.0).to_i64_exact(), Some(3));
        assert_eq!(Num::Double(3.5).to_i64_exact(), None);
        assert_eq!(Num::Double(9.3e18).to_i64_exact(), None);
        assert_eq!(Num::Double(1e300).to_i64_saturating(), i64::MAX);
        assert_eq!(d("-1E30").to_i64_saturating(), i64::MIN);
        assert_eq!(d("3.00").to_i64_exact(), Some(3));
        assert_eq!(d("3.01").to_i64_exact(), None);
    }
}
