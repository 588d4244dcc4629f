//! Rounded bounds for `$bucketAuto`: the preferred numbers of ISO 3 and IEC 60063, and powers of two.

use crate::error::{Error, Result};
use crate::value::{Decimal, Num, Value, ValueRef};

/// A series of round numbers.
pub(super) enum Granularity {
    /// The numbers of one decade.
    Series(&'static [u16]),
    PowersOfTwo,
}

/// The first power of two that is too large for an i64.
const I64_END: f64 = 9_223_372_036_854_775_808.0;

/// Name and numbers of each series, which repeats for every power of ten. As in MongoDB, R40 and R80 have gaps.
const SERIES: &[(&str, &[u16])] = &[
    ("1-2-5", &[10, 20, 50]),
    ("E12", &[10, 12, 15, 18, 22, 27, 33, 39, 47, 56, 68, 82]),
    (
        "E192",
        &[
            100, 101, 102, 104, 105, 106, 107, 109, 110, 111, 113, 114, 115, 117, 118, 120, 121,
            123, 124, 126, 127, 129, 130, 132, 133, 135, 137, 138, 140, 142, 143, 145, 147, 149,
            150, 152, 154, 156, 158, 160, 162, 164, 165, 167, 169, 172, 174, 176, 178, 180, 182,
            184, 187, 189, 191, 193, 196, 198, 200, 203, 205, 208, 210, 213, 215, 218, 221, 223,
            226, 229, 232, 234, 237, 240, 243, 246, 249, 252, 255, 258, 261, 264, 267, 271, 274,
            277, 280, 284, 287, 291, 294, 298, 301, 305, 309, 312, 316, 320, 324, 328, 332, 336,
            340, 344, 348, 352, 357, 361, 365, 370, 374, 379, 383, 388, 392, 397, 402, 407, 412,
            417, 422, 427, 432, 437, 442, 448, 453, 459, 464, 470, 475, 481, 487, 493, 499, 505,
            511, 517, 523, 530, 536, 542, 549, 556, 562, 569, 576, 583, 590, 597, 604, 612, 619,
            626, 634, 642, 649, 657, 665, 673, 681, 690, 698, 706, 715, 723, 732, 741, 750, 759,
            768, 777, 787, 796, 806, 816, 825, 835, 845, 856, 866, 876, 887, 898, 909, 920, 931,
            942, 953, 965, 976, 988,
        ],
    ),
    (
        "E24",
        &[
            10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75,
            82, 91,
        ],
    ),
    (
        "E48",
        &[
            100, 105, 110, 115, 121, 127, 133, 140, 147, 154, 162, 169, 178, 187, 196, 205, 215,
            226, 237, 249, 261, 274, 287, 301, 316, 332, 348, 365, 383, 402, 422, 442, 464, 487,
            511, 536, 562, 590, 619, 649, 681, 715, 750, 787, 825, 866, 909, 953,
        ],
    ),
    ("E6", &[10, 15, 22, 33, 47, 68]),
    (
        "E96",
        &[
            100, 102, 105, 107, 110, 113, 115, 118, 121, 124, 127, 130, 133, 137, 140, 143, 147,
            150, 154, 158, 162, 165, 169, 174, 178, 182, 187, 191, 196, 200, 205, 210, 215, 221,
            226, 232, 237, 243, 249, 255, 261, 267, 274, 280, 287, 294, 301, 309, 316, 324, 332,
            340, 348, 357, 365, 374, 383, 392, 402, 412, 422, 432, 442, 453, 464, 475, 487, 499,
            511, 523, 536, 549, 562, 576, 590, 604, 619, 634, 649, 665, 681, 698, 715, 732, 750,
            768, 787, 806, 825, 845, 866, 887, 909, 931, 953, 976,
        ],
    ),
    ("R10", &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800]),
    (
        "R20",
        &[
            100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630,
            710, 800, 900,
        ],
    ),
    (
        "R40",
        &[
            100, 106, 112, 118, 125, 132, 140, 150, 160, 170, 180, 190, 200, 212, 224, 236, 250,
            265, 280, 300, 315, 355, 375, 400, 425, 450, 475, 500, 530, 560, 600, 630, 670, 710,
            750, 800, 850, 900, 950,
        ],
    ),
    ("R5", &[10, 16, 25, 40, 63]),
    (
        "R80",
        &[
            103, 109, 115, 122, 128, 136, 145, 155, 165, 175, 185, 195, 206, 218, 230, 243, 258,
            272, 290, 307, 325, 345, 365, 387, 412, 437, 462, 487, 515, 545, 575, 615, 650, 690,
            730, 775, 825, 875, 925, 975,
        ],
    ),
];

// === impl Granularity ===

impl Granularity {
    pub fn find(name: &str) -> Result<Self> {
        if name == "POWERSOF2" {
            return Ok(Self::PowersOfTwo);
        }
        SERIES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, numbers)| Self::Series(numbers))
            .ok_or_else(|| Error::location(40257, format!("Unknown rounding granularity '{name}'")))
    }

    /// Rejects values that cannot be rounded. Only non-negative numbers can.
    pub fn check(&self, value: ValueRef<'_>) -> Result<()> {
        let Some(number) = value.as_num() else {
            return Err(Error::location(
                40258,
                format!(
                    "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a value with type: {}",
                    value.ty().alias()
                ),
            ));
        };
        let number = number.to_f64();
        if number.is_nan() {
            return Err(Error::location(
                40259,
                "$bucketAuto can specify a 'granularity' with numeric boundaries only, but found a NaN",
            ));
        }
        if number < 0.0 {
            return Err(Error::location(
                40260,
                format!(
                    "$bucketAuto can specify a 'granularity' with non-negative numbers only, but found a negative number: {number}"
                ),
            ));
        }
        Ok(())
    }

    /// Returns the next greater round number, also for a value that is round itself.
    pub fn round_up(&self, value: ValueRef<'_>) -> Value {
        self.round(value, true)
    }

    /// Returns the next smaller round number.
    pub fn round_down(&self, value: ValueRef<'_>) -> Value {
        self.round(value, false)
    }

    fn round(&self, value: ValueRef<'_>, up: bool) -> Value {
        let Some(number) = value.as_num() else {
            return value.to_value();
        };
        let plain = number.to_f64();
        if plain == 0.0 || !plain.is_finite() {
            return value.to_value();
        }
        match (self, number) {
            (Self::Series(numbers), Num::Decimal(plain)) => {
                Num::Decimal(in_series(numbers, plain, up)).to_value()
            }
            (Self::Series(numbers), _) => Value::double(in_series(numbers, plain, up)),
            (Self::PowersOfTwo, Num::Decimal(_)) => {
                Num::Decimal(Decimal::from_f64_full(power_of_two(plain, up))).to_value()
            }
            (Self::PowersOfTwo, _) => match power_of_two(plain, up) {
                // Whole powers of two are integers, whatever the type of the value.
                whole @ 1.0..I64_END => {
                    let integer = whole as i64;
                    i32::try_from(integer).map_or(Value::int64(integer), Value::int32)
                }
                rounded => Value::double(rounded),
            },
        }
    }
}

/// A number that a series can round. The scale of a decade is multiplied step by step, as in MongoDB, so that the results
/// have the same errors: 63 times a tenth is 6.300000000000001.
trait Scaled: Copy {
    fn is_below(self, other: Self) -> bool;
    const ONE: Self;
    fn of(number: u16) -> Self;
    fn times(self, scale: Self) -> Self;
    fn tenfold(self) -> Self;
    fn tenth(self) -> Self;
}

/// Returns the next greater or the next smaller number of the series. `plain` is positive and finite.
fn in_series<N: Scaled>(numbers: &[u16], plain: N, up: bool) -> N {
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        return plain;
    };
    let at = |number: u16, scale: N| N::of(number).times(scale);
    let mut scale = N::ONE;
    if up {
        while !plain.is_below(at(last, scale)) {
            scale = scale.tenfold();
        }
        while plain.is_below(at(first, scale)) {
            let least_above = at(first, scale);
            scale = scale.tenth();
            if !plain.is_below(at(last, scale)) {
                return least_above;
            }
        }
        let above = numbers
            .iter()
            .find(|&&number| plain.is_below(at(number, scale)));
        at(above.copied().unwrap_or(last), scale)
    } else {
        while !at(first, scale).is_below(plain) {
            scale = scale.tenth();
        }
        while at(last, scale).is_below(plain) {
            let greatest_below = at(last, scale);
            scale = scale.tenfold();
            if !at(first, scale).is_below(plain) {
                return greatest_below;
            }
        }
        let below = numbers
            .iter()
            .rev()
            .find(|&&number| at(number, scale).is_below(plain));
        at(below.copied().unwrap_or(first), scale)
    }
}

impl Scaled for f64 {
    const ONE: Self = 1.0;

    fn is_below(self, other: Self) -> bool {
        self < other
    }

    fn of(number: u16) -> Self {
        number.into()
    }

    fn times(self, scale: Self) -> Self {
        self * scale
    }

    fn tenfold(self) -> Self {
        self * 10.0
    }

    fn tenth(self) -> Self {
        self / 10.0
    }
}

impl Scaled for Decimal {
    const ONE: Self = Self::ONE;

    fn is_below(self, other: Self) -> bool {
        self.compare(other).is_lt()
    }

    fn of(number: u16) -> Self {
        Self::from_f64(number.into())
    }

    fn times(self, scale: Self) -> Self {
        self.mul(scale)
    }

    fn tenfold(self) -> Self {
        self.mul(Self::from_i32(10))
    }

    fn tenth(self) -> Self {
        self.div(Self::from_i32(10))
    }
}

fn power_of_two(plain: f64, up: bool) -> f64 {
    let exponent = plain.log2();
    if up {
        2f64.powf(exponent.floor() + 1.0)
    } else {
        2f64.powf(exponent.ceil() - 1.0)
    }
}
