//! Rounded bounds for `$bucketAuto`: the preferred numbers of ISO 3 and IEC 60063, and powers of two.

use crate::error::{Error, Result};
use crate::value::{Decimal, Num, Value, ValueRef};

/// A series of round numbers.
pub(super) enum Granularity {
    /// The numbers of one decade.
    Series(&'static [f64]),
    PowersOfTwo,
}

/// Name and numbers of each series, which repeats for every power of ten.
const SERIES: &[(&str, &[f64])] = &[
    ("1-2-5", &[1.0, 2.0, 5.0]),
    (
        "E12",
        &[1.0, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2],
    ),
    (
        "E192",
        &[
            1.00, 1.01, 1.02, 1.04, 1.05, 1.06, 1.07, 1.09, 1.10, 1.11, 1.13, 1.14, 1.15, 1.17,
            1.18, 1.20, 1.21, 1.23, 1.24, 1.26, 1.27, 1.29, 1.30, 1.32, 1.33, 1.35, 1.37, 1.38,
            1.40, 1.42, 1.43, 1.45, 1.47, 1.49, 1.50, 1.52, 1.54, 1.56, 1.58, 1.60, 1.62, 1.64,
            1.65, 1.67, 1.69, 1.72, 1.74, 1.76, 1.78, 1.80, 1.82, 1.84, 1.87, 1.89, 1.91, 1.93,
            1.96, 1.98, 2.00, 2.03, 2.05, 2.08, 2.10, 2.13, 2.15, 2.18, 2.21, 2.23, 2.26, 2.29,
            2.32, 2.34, 2.37, 2.40, 2.43, 2.46, 2.49, 2.52, 2.55, 2.58, 2.61, 2.64, 2.67, 2.71,
            2.74, 2.77, 2.80, 2.84, 2.87, 2.91, 2.94, 2.98, 3.01, 3.05, 3.09, 3.12, 3.16, 3.20,
            3.24, 3.28, 3.32, 3.36, 3.40, 3.44, 3.48, 3.52, 3.57, 3.61, 3.65, 3.70, 3.74, 3.79,
            3.83, 3.88, 3.92, 3.97, 4.02, 4.07, 4.12, 4.17, 4.22, 4.27, 4.32, 4.37, 4.42, 4.48,
            4.53, 4.59, 4.64, 4.70, 4.75, 4.81, 4.87, 4.93, 4.99, 5.05, 5.11, 5.17, 5.23, 5.30,
            5.36, 5.42, 5.49, 5.56, 5.62, 5.69, 5.76, 5.83, 5.90, 5.97, 6.04, 6.12, 6.19, 6.26,
            6.34, 6.42, 6.49, 6.57, 6.65, 6.73, 6.81, 6.90, 6.98, 7.06, 7.15, 7.23, 7.32, 7.41,
            7.50, 7.59, 7.68, 7.77, 7.87, 7.96, 8.06, 8.16, 8.25, 8.35, 8.45, 8.56, 8.66, 8.76,
            8.87, 8.98, 9.09, 9.20, 9.31, 9.42, 9.53, 9.65, 9.76, 9.88,
        ],
    ),
    (
        "E24",
        &[
            1.0, 1.1, 1.2, 1.3, 1.5, 1.6, 1.8, 2.0, 2.2, 2.4, 2.7, 3.0, 3.3, 3.6, 3.9, 4.3, 4.7,
            5.1, 5.6, 6.2, 6.8, 7.5, 8.2, 9.1,
        ],
    ),
    (
        "E48",
        &[
            1.00, 1.05, 1.10, 1.15, 1.21, 1.27, 1.33, 1.40, 1.47, 1.54, 1.62, 1.69, 1.78, 1.87,
            1.96, 2.05, 2.15, 2.26, 2.37, 2.49, 2.61, 2.74, 2.87, 3.01, 3.16, 3.32, 3.48, 3.65,
            3.83, 4.02, 4.22, 4.42, 4.64, 4.87, 5.11, 5.36, 5.62, 5.90, 6.19, 6.49, 6.81, 7.15,
            7.50, 7.87, 8.25, 8.66, 9.09, 9.53,
        ],
    ),
    ("E6", &[1.0, 1.5, 2.2, 3.3, 4.7, 6.8]),
    (
        "E96",
        &[
            1.00, 1.02, 1.05, 1.07, 1.10, 1.13, 1.15, 1.18, 1.21, 1.24, 1.27, 1.30, 1.33, 1.37,
            1.40, 1.43, 1.47, 1.50, 1.54, 1.58, 1.62, 1.65, 1.69, 1.74, 1.78, 1.82, 1.87, 1.91,
            1.96, 2.00, 2.05, 2.10, 2.15, 2.21, 2.26, 2.32, 2.37, 2.43, 2.49, 2.55, 2.61, 2.67,
            2.74, 2.80, 2.87, 2.94, 3.01, 3.09, 3.16, 3.24, 3.32, 3.40, 3.48, 3.57, 3.65, 3.74,
            3.83, 3.92, 4.02, 4.12, 4.22, 4.32, 4.42, 4.53, 4.64, 4.75, 4.87, 4.99, 5.11, 5.23,
            5.36, 5.49, 5.62, 5.76, 5.90, 6.04, 6.19, 6.34, 6.49, 6.65, 6.81, 6.98, 7.15, 7.32,
            7.50, 7.68, 7.87, 8.06, 8.25, 8.45, 8.66, 8.87, 9.09, 9.31, 9.53, 9.76,
        ],
    ),
    (
        "R10",
        &[
            1.000, 1.250, 1.600, 2.000, 2.500, 3.150, 4.000, 5.000, 6.300, 8.000,
        ],
    ),
    (
        "R20",
        &[
            1.000, 1.120, 1.250, 1.400, 1.600, 1.800, 2.000, 2.240, 2.500, 2.800, 3.150, 3.550,
            4.000, 4.500, 5.000, 5.600, 6.300, 7.100, 8.000, 9.000,
        ],
    ),
    (
        "R40",
        &[
            1.000, 1.060, 1.120, 1.180, 1.250, 1.320, 1.400, 1.500, 1.600, 1.700, 1.800, 1.900,
            2.000, 2.120, 2.240, 2.360, 2.500, 2.650, 2.800, 3.000, 3.150, 3.350, 3.550, 3.750,
            4.000, 4.250, 4.500, 4.750, 5.000, 5.300, 5.600, 6.000, 6.300, 6.700, 7.100, 7.500,
            8.000, 8.500, 9.000, 9.500,
        ],
    ),
    ("R5", &[1.0, 1.6, 2.5, 4.0, 6.3]),
    (
        "R80",
        &[
            1.030, 1.060, 1.090, 1.120, 1.150, 1.180, 1.220, 1.250, 1.280, 1.320, 1.360, 1.400,
            1.450, 1.500, 1.550, 1.600, 1.650, 1.700, 1.750, 1.800, 1.850, 1.900, 1.950, 2.000,
            2.060, 2.120, 2.180, 2.240, 2.300, 2.360, 2.430, 2.500, 2.580, 2.650, 2.720, 2.800,
            2.900, 3.000, 3.070, 3.150, 3.250, 3.350, 3.450, 3.550, 3.650, 3.750, 3.870, 4.000,
            4.120, 4.250, 4.370, 4.500, 4.620, 4.750, 4.870, 5.000, 5.150, 5.300, 5.450, 5.600,
            5.800, 6.000, 6.150, 6.300, 6.500, 6.700, 6.900, 7.100, 7.300, 7.500, 7.750, 8.000,
            8.250, 8.500, 8.750, 9.000, 9.250, 9.500, 9.750, 10.000,
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
        let rounded = match self {
            Self::Series(numbers) => series(numbers, plain, up),
            Self::PowersOfTwo => power_of_two(plain, up),
        };
        match number {
            Num::Decimal(_) => Num::Decimal(Decimal::from_f64(rounded)).to_value(),
            // Whole powers of two stay integers.
            Num::Int32(_) | Num::Int64(_)
                if matches!(self, Self::PowersOfTwo) && (1.0..9e18).contains(&rounded) =>
            {
                let integer = rounded as i64;
                i32::try_from(integer).map_or(Value::int64(integer), Value::int32)
            }
            _ => Value::double(rounded),
        }
    }
}

fn series(numbers: &[f64], plain: f64, up: bool) -> f64 {
    let (Some(&first), Some(&last)) = (numbers.first(), numbers.last()) else {
        return plain;
    };
    // Finds the decade of the number.
    let mut power = 0;
    while power < 300 && plain >= at(last, power) {
        power += 1;
    }
    while power > -300 && plain < at(first, power) {
        power -= 1;
    }
    if up {
        let above = numbers.iter().find(|&&round| at(round, power) > plain);
        above.map_or(at(first, power + 1), |&round| at(round, power))
    } else {
        let below = numbers
            .iter()
            .rev()
            .find(|&&round| at(round, power) < plain);
        below.map_or(at(last, power - 1), |&round| at(round, power))
    }
}

/// Returns a number of a series times a power of ten. It computes with integers, so that 6.8 and -1 give exactly 0.68.
fn at(round: f64, power: i32) -> f64 {
    let thousands = (round * 1000.0).round();
    if power >= 3 {
        thousands * 10f64.powi(power - 3)
    } else {
        thousands / 10f64.powi(3 - power)
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
