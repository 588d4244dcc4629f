//! IEEE 754 decimal128: BSON's 16 bytes. Intel's library computes with them in the same (BID) form.

// Plain methods instead of operators, so that arithmetic on MongoDB's numbers is visibly a call.
#![allow(clippy::should_implement_trait)]

use std::{cmp::Ordering, fmt};

use dfp_number_sys::{
    BID128, EXE_CLEAR, EXE_INEXACT, EXE_INVALID, EXE_OVERFLOW, EXE_UNDERFLOW, RND_DOWNWARD,
    RND_NEAREST_AWAY, RND_NEAREST_EVEN, RND_TOWARD_ZERO, RND_UPWARD, bid128_000 as bid,
};

/// A decimal128. `==` compares by value (`1.0 == 1.00`, `NaN != NaN`); [`Decimal::compare`] is the total order.
#[derive(Clone, Copy)]
pub struct Decimal {
    lo: u64,
    hi: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    HalfEven,
    HalfAway,
    Down,
    Up,
    Zero,
}

/// Why a text is not a valid decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecimalError {
    NoNumber,
    TooLarge,
    TooSmall,
}

/// The bias of the stored exponent: a stored 0 means the exponent -6176.
const BIAS: i32 = 6176;
/// The largest coefficient: 34 nines.
const MAX_COEFFICIENT: u128 = 9_999_999_999_999_999_999_999_999_999_999_999;

// === impl Decimal ===

impl Decimal {
    pub const ZERO: Self = Self::small(0);
    pub const ONE: Self = Self::small(1);
    pub const NAN: Self = Self {
        lo: 0,
        hi: 0x7c00_0000_0000_0000,
    };
    pub const INFINITY: Self = Self {
        lo: 0,
        hi: 0x7800_0000_0000_0000,
    };
    pub const NEG_INFINITY: Self = Self {
        lo: 0,
        hi: 0xf800_0000_0000_0000,
    };

    const fn small(value: u64) -> Self {
        Self {
            lo: value,
            hi: (BIAS as u64) << 49,
        }
    }

    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        Self {
            lo: bits as u64,
            hi: (bits >> 64) as u64,
        }
    }

    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.hi) << 64 | u128::from(self.lo)).to_le_bytes()
    }

    fn bid(self) -> BID128 {
        BID128::new(self.lo, self.hi)
    }

    #[allow(unsafe_code)]
    fn from_bid(value: BID128) -> Self {
        // SAFETY: BID128 is `repr(C)` over exactly one `[u64; 2]` (low word first), all bit patterns are valid in both, and
        // the crate offers no other way to read them.
        let [lo, hi] = unsafe { std::mem::transmute::<BID128, [u64; 2]>(value) };
        Self { lo, hi }
    }

    pub fn from_i32(value: i32) -> Self {
        Self::from_bid(bid::bid128_from_int32(value))
    }

    pub fn from_i64(value: i64) -> Self {
        Self::from_bid(bid::bid128_from_int64(value))
    }

    /// Converts a double as mongod does for decimal arithmetic: to 15 significant digits, always all of them (`1.0` becomes
    /// `1.00000000000000`).
    pub fn from_f64(value: f64) -> Self {
        Self::from_f64_digits(value, 15)
    }

    /// Converts a double with as many digits as a decimal can have.
    pub fn from_f64_full(value: f64) -> Self {
        Self::from_f64_digits(value, 34)
    }

    /// Converts a double without loss where 34 digits are enough, with no more digits behind the point than it needs.
    pub fn from_f64_exact(value: f64) -> Self {
        const END: u128 = 10u128.pow(34);
        let bits = value.to_bits();
        let exponent = ((bits >> 52) & 0x7ff) as i32;
        if value == 0.0 || exponent == 0 || exponent == 0x7ff {
            return Self::from_f64_full(value);
        }
        let mantissa = (bits & ((1 << 52) - 1)) | (1 << 52);
        let odd = u128::from(mantissa >> mantissa.trailing_zeros());
        // The value is `odd` times a power of two.
        let power = exponent - 1075 + mantissa.trailing_zeros() as i32;
        let exact = match u32::try_from(power) {
            Ok(power) => 2u128
                .checked_pow(power)
                .and_then(|factor| odd.checked_mul(factor)),
            Err(_) => 5u128
                .checked_pow(power.unsigned_abs())
                .and_then(|factor| odd.checked_mul(factor)),
        };
        exact
            .filter(|coefficient| *coefficient < END)
            .and_then(|coefficient| {
                Self::from_parts(value.is_sign_negative(), coefficient, power.min(0))
            })
            .unwrap_or_else(|| Self::from_f64_full(value))
    }

    fn from_f64_digits(value: f64, digits: usize) -> Self {
        if value.is_nan() {
            return Self::NAN;
        }
        if value.is_infinite() {
            return if value > 0.0 {
                Self::INFINITY
            } else {
                Self::NEG_INFINITY
            };
        }
        if value == 0.0 {
            return if value.is_sign_negative() {
                Self::ZERO.neg()
            } else {
                Self::ZERO
            };
        }
        let text = format!("{value:.*e}", digits - 1);
        Self::from_bid(bid::bid128_from_string(
            &text,
            RND_NEAREST_EVEN,
            &mut EXE_CLEAR.clone(),
        ))
    }

    /// Parses a text as mongod does: excess digits are cut off.
    pub fn parse(text: &str) -> Result<Self, DecimalError> {
        let (negative, rest) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let signed = |value: Self| if negative { value.neg() } else { value };
        if rest.eq_ignore_ascii_case("nan") {
            return Ok(signed(Self::NAN));
        }
        if rest.eq_ignore_ascii_case("inf") || rest.eq_ignore_ascii_case("infinity") {
            return Ok(signed(Self::INFINITY));
        }
        if !is_number(rest.as_bytes()) {
            return Err(DecimalError::NoNumber);
        }
        let mut flags = EXE_CLEAR;
        let value = bid::bid128_from_string(text, RND_TOWARD_ZERO, &mut flags);
        match flags {
            flags if flags & EXE_OVERFLOW != 0 => Err(DecimalError::TooLarge),
            flags if flags & EXE_UNDERFLOW != 0 => Err(DecimalError::TooSmall),
            _ => Ok(Self::from_bid(value)),
        }
    }

    /// Returns ±coefficient × 10^exponent, or `None` if it does not fit without rounding.
    pub fn from_parts(negative: bool, coefficient: u128, exponent: i32) -> Option<Self> {
        let biased = u64::try_from(exponent.checked_add(BIAS)?).ok()?;
        if coefficient > MAX_COEFFICIENT || biased > 12_287 {
            return None;
        }
        Some(Self {
            lo: coefficient as u64,
            hi: u64::from(negative) << 63 | biased << 49 | (coefficient >> 64) as u64,
        })
    }

    /// Returns (negative, coefficient, exponent) of a finite number, or `None` for NaN and infinities.
    pub fn parts(self) -> Option<(bool, u128, i32)> {
        let negative = self.hi >> 63 == 1;
        if self.hi >> 61 & 3 == 3 {
            if self.hi >> 59 & 3 == 3 {
                return None;
            }
            // In the long form the coefficient always exceeds 34 digits. Such numbers count as zero.
            return Some((negative, 0, (self.hi >> 47 & 0x3fff) as i32 - BIAS));
        }
        let coefficient = u128::from(self.hi & 0x1_ffff_ffff_ffff) << 64 | u128::from(self.lo);
        let exponent = (self.hi >> 49 & 0x3fff) as i32 - BIAS;
        let canonical = coefficient <= MAX_COEFFICIENT;
        Some((negative, if canonical { coefficient } else { 0 }, exponent))
    }

    pub fn is_nan(self) -> bool {
        self.hi & 0x7c00_0000_0000_0000 == 0x7c00_0000_0000_0000
    }

    pub fn is_infinite(self) -> bool {
        self.hi & 0x7c00_0000_0000_0000 == 0x7800_0000_0000_0000
    }

    pub fn is_finite(self) -> bool {
        self.hi & 0x7800_0000_0000_0000 != 0x7800_0000_0000_0000
    }

    pub fn is_zero(self) -> bool {
        matches!(self.parts(), Some((_, 0, _)))
    }

    /// Returns the sign bit, also for zeros.
    pub fn is_negative(self) -> bool {
        self.hi >> 63 == 1
    }

    #[must_use]
    pub fn neg(self) -> Self {
        Self {
            lo: self.lo,
            hi: self.hi ^ 1 << 63,
        }
    }

    #[must_use]
    pub fn abs(self) -> Self {
        Self {
            lo: self.lo,
            hi: self.hi & !(1 << 63),
        }
    }

    /// Compares two decimals in the total order: NaN is below all others and equal to itself, and -0 is equal to 0.
    pub fn compare(self, other: Self) -> Ordering {
        match (self.is_nan(), other.is_nan()) {
            (true, true) => return Ordering::Equal,
            (true, false) => return Ordering::Less,
            (false, true) => return Ordering::Greater,
            (false, false) => {}
        }
        let (a, b) = (self.bid(), other.bid());
        let flags = &mut EXE_CLEAR.clone();
        if bid::bid128_quiet_less(a, b, flags) {
            Ordering::Less
        } else if bid::bid128_quiet_equal(a, b, flags) {
            Ordering::Equal
        } else {
            Ordering::Greater
        }
    }

    pub fn to_f64(self) -> f64 {
        bid::bid128_to_binary64(self.bid(), RND_NEAREST_EVEN, &mut EXE_CLEAR.clone())
    }

    /// Returns the nearest double towards zero, and whether it is exactly the same number.
    pub fn to_f64_toward_zero(self) -> (f64, bool) {
        let mut flags = EXE_CLEAR;
        let value = bid::bid128_to_binary64(self.bid(), RND_TOWARD_ZERO, &mut flags);
        let lossy = EXE_INEXACT | EXE_OVERFLOW | EXE_UNDERFLOW;
        (value, flags & lossy == 0)
    }

    /// Returns the number as an integer, or `None` if it has a fraction or does not fit.
    pub fn to_i64_exact(self) -> Option<i64> {
        let mut flags = EXE_CLEAR;
        let value = bid::bid128_to_int64_xint(self.bid(), &mut flags);
        (flags & (EXE_INVALID | EXE_INEXACT) == 0).then_some(value)
    }

    /// Returns the integer part, or `None` if it does not fit.
    pub fn to_i64_trunc(self) -> Option<i64> {
        let mut flags = EXE_CLEAR;
        let value = bid::bid128_to_int64_int(self.bid(), &mut flags);
        (flags & EXE_INVALID == 0).then_some(value)
    }

    /// Returns the nearest integer, ties to even, or `None` if it does not fit.
    pub fn to_i64_round(self) -> Option<i64> {
        let mut flags = EXE_CLEAR;
        let value = bid::bid128_to_int64_rnint(self.bid(), &mut flags);
        (flags & EXE_INVALID == 0).then_some(value)
    }

    /// Returns the remainder of a truncated division, with the sign of the dividend.
    #[must_use]
    pub fn rem(self, other: Self) -> Self {
        Self::from_bid(bid::bid128_fmod(
            self.bid(),
            other.bid(),
            &mut EXE_CLEAR.clone(),
        ))
    }

    #[must_use]
    pub fn round_integral(self, rounding: Rounding) -> Self {
        let flags = &mut EXE_CLEAR.clone();
        Self::from_bid(match rounding {
            Rounding::HalfEven => bid::bid128_round_integral_nearest_even(self.bid(), flags),
            Rounding::HalfAway => bid::bid128_round_integral_nearest_away(self.bid(), flags),
            Rounding::Down => bid::bid128_round_integral_negative(self.bid(), flags),
            Rounding::Up => bid::bid128_round_integral_positive(self.bid(), flags),
            Rounding::Zero => bid::bid128_round_integral_zero(self.bid(), flags),
        })
    }

    /// Returns the number rounded to exactly this exponent (`-2`: two digits after the point), or NaN if it does not fit.
    #[must_use]
    pub fn quantize(self, exponent: i32, rounding: Rounding) -> Self {
        let Some(quantum) = Self::from_parts(false, 1, exponent) else {
            return Self::NAN;
        };
        Self::from_bid(bid::bid128_quantize(
            self.bid(),
            quantum.bid(),
            rounding.mode(),
            &mut EXE_CLEAR.clone(),
        ))
    }

    /// Returns the longest form of the same number, with as many digits as a decimal holds.
    #[must_use]
    pub fn lengthened(self) -> Self {
        const FULL: u128 = 10_u128.pow(33);
        let Some((negative, mut coefficient, mut exponent)) = self.parts() else {
            return self;
        };
        while coefficient != 0 && coefficient < FULL && exponent > -6176 {
            coefficient *= 10;
            exponent -= 1;
        }
        Self::from_parts(negative, coefficient, exponent).unwrap_or(self)
    }

    /// Returns the shortest form of the same number, without trailing zeros in the coefficient.
    #[must_use]
    pub fn normalize(self) -> Self {
        let Some((negative, mut coefficient, mut exponent)) = self.parts() else {
            return self;
        };
        if coefficient == 0 {
            return Self::from_parts(negative, 0, 0).unwrap_or(self);
        }
        while coefficient % 10 == 0 && exponent < 6111 {
            coefficient /= 10;
            exponent += 1;
        }
        Self::from_parts(negative, coefficient, exponent).unwrap_or(self)
    }
}

/// Defines the operations that have the same shape in Intel's library, rounded half to even.
macro_rules! operations {
    (unary: $($name:ident $function:ident,)* ; binary: $($name2:ident $function2:ident,)*) => {
        impl Decimal {
            $(#[must_use]
            pub fn $name(self) -> Self {
                Self::from_bid(bid::$function(self.bid(), RND_NEAREST_EVEN, &mut EXE_CLEAR.clone()))
            })*
            $(#[must_use]
            pub fn $name2(self, other: Self) -> Self {
                Self::from_bid(bid::$function2(self.bid(), other.bid(), RND_NEAREST_EVEN, &mut EXE_CLEAR.clone()))
            })*
        }
    };
}

operations! {
    unary:
    acos bid128_acos, acosh bid128_acosh, asin bid128_asin, asinh bid128_asinh, atan bid128_atan, atanh bid128_atanh,
    cos bid128_cos, cosh bid128_cosh, exp bid128_exp, ln bid128_log, log10 bid128_log10, sin bid128_sin,
    sinh bid128_sinh, sqrt bid128_sqrt, tan bid128_tan, tanh bid128_tanh, ;
    binary:
    add bid128_add, atan2 bid128_atan2, div bid128_div, mul bid128_mul, pow bid128_pow, sub bid128_sub,
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Self) -> bool {
        !self.is_nan() && self.compare(*other).is_eq()
    }
}

impl fmt::Display for Decimal {
    /// Prints the number as mongod and the drivers do: plain while the exponent is small, else with `E`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_nan() {
            return f.write_str("NaN");
        }
        if self.is_negative() {
            f.write_str("-")?;
        }
        let Some((_, coefficient, exponent)) = self.parts() else {
            return f.write_str("Infinity");
        };
        let digits = coefficient.to_string();
        let adjusted = exponent + digits.len() as i32 - 1;
        if exponent > 0 || adjusted < -6 {
            let (first, rest) = digits.split_at(1);
            f.write_str(first)?;
            if !rest.is_empty() {
                write!(f, ".{rest}")?;
            }
            return write!(f, "E{adjusted:+}");
        }
        let point = digits.len() as i32 + exponent;
        if exponent == 0 {
            f.write_str(&digits)
        } else if point > 0 {
            let (whole, fraction) = digits.split_at(point as usize);
            write!(f, "{whole}.{fraction}")
        } else {
            write!(f, "0.{:0>1$}", digits, exponent.unsigned_abs() as usize)
        }
    }
}

impl fmt::Debug for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decimal({self})")
    }
}

// === impl Rounding ===

impl Rounding {
    fn mode(self) -> u32 {
        match self {
            Self::HalfEven => RND_NEAREST_EVEN,
            Self::HalfAway => RND_NEAREST_AWAY,
            Self::Down => RND_DOWNWARD,
            Self::Up => RND_UPWARD,
            Self::Zero => RND_TOWARD_ZERO,
        }
    }
}

/// Returns whether the text is digits with at most one point, and optionally an exponent. Intel's parser accepts more, and
/// reads the rest as NaN.
fn is_number(text: &[u8]) -> bool {
    let run = |at: usize| {
        text.get(at..).map_or(0, |rest| {
            rest.iter().take_while(|b| b.is_ascii_digit()).count()
        })
    };
    let mut at = run(0);
    let mut digits = at;
    if text.get(at) == Some(&b'.') {
        let fraction = run(at + 1);
        digits += fraction;
        at += 1 + fraction;
    }
    if digits == 0 {
        return false;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        let exponent = run(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_round_trip() {
        for (text, printed) in [
            ("0", "0"),
            ("-0", "-0"),
            ("1.50", "1.50"),
            ("+7", "7"),
            (".5", "0.5"),
            ("5.", "5"),
            ("1E3", "1E+3"),
            ("1.23E-7", "1.23E-7"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("0E+3", "0E+3"),
            ("0.00", "0.00"),
            ("123e-2", "1.23"),
            ("inf", "Infinity"),
            ("-Infinity", "-Infinity"),
            ("nan", "NaN"),
            (
                "9999999999999999999999999999999999E6111",
                "9.999999999999999999999999999999999E+6144",
            ),
        ] {
            let decimal = Decimal::parse(text).unwrap_or_else(|why| panic!("{text}: {why:?}"));
            assert_eq!(decimal.to_string(), printed, "{text}");
            assert_eq!(
                decimal.to_bytes(),
                Decimal::from_bytes(decimal.to_bytes()).to_bytes()
            );
            if !text.eq_ignore_ascii_case("inf") && text != "5." && text != ".5" {
                let theirs: bson::Decimal128 = text.parse().unwrap();
                assert_eq!(decimal.to_bytes(), theirs.bytes(), "{text}");
            }
        }
        for text in [
            "", "-", ".", "1e", "e5", "1.2.3", "0x10", " 1", "1\0", "--1",
        ] {
            assert!(Decimal::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn doubles_are_converted_with_fifteen_digits() {
        for (double, printed) in [
            (1.0, "1.00000000000000"),
            (0.1, "0.100000000000000"),
            (-2.5, "-2.50000000000000"),
            (0.1 + 0.2, "0.300000000000000"),
            (1e20, "1.00000000000000E+20"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(Decimal::from_f64(double).to_string(), printed);
        }
    }

    #[test]
    fn arithmetic_and_conversions() {
        let d = |text: &str| Decimal::parse(text).unwrap();
        assert_eq!(d("0.1").add(d("0.2")).to_string(), "0.3");
        assert_eq!(
            d("1").div(d("3")).to_string(),
            "0.3333333333333333333333333333333333"
        );
        assert_eq!(d("-7").rem(d("3")).to_string(), "-1");
        assert_eq!(
            d("2.345").quantize(-2, Rounding::HalfEven).to_string(),
            "2.34"
        );
        assert_eq!(d("1.2300").normalize().to_string(), "1.23");
        assert_eq!(d("7.00").to_i64_exact(), Some(7));
        assert_eq!(d("7.5").to_i64_exact(), None);
        assert_eq!(d("7.5").to_i64_trunc(), Some(7));
        assert_eq!(d("1E30").to_i64_trunc(), None);
        assert_eq!(d("0.5").to_f64_toward_zero(), (0.5, true));
        assert!(!d("0.1").to_f64_toward_zero().1);
        assert_eq!(d("1E400").to_f64_toward_zero(), (f64::MAX, false));
        assert_eq!(d("1E-6000").to_f64_toward_zero(), (0.0, false));
        assert_eq!(d("-Infinity").to_f64_toward_zero().0, f64::NEG_INFINITY);
        assert_eq!(d("1.0"), d("1.000"));
        assert_ne!(Decimal::NAN, Decimal::NAN);
        assert_eq!(Decimal::NAN.compare(d("-Infinity")), Ordering::Less);
    }
}
