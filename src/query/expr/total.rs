//! The sum of many numbers, as exact as in MongoDB: integers exactly, doubles with their rounding errors carried along,
//! decimals as decimals.

use crate::value::{Decimal, Num};

#[derive(Debug, Clone, Copy)]
pub struct Total {
    /// The widest type so far: 0 int, 1 long, 2 double, 3 decimal.
    widest: u8,
    /// The sum of the integers. A trillion longs do not overflow it.
    integers: i128,
    /// The sum of the doubles and its error (Neumaier).
    sum: f64,
    error: f64,
    /// The sum of the doubles without correction. It is the result after an infinity or NaN was added.
    plain: f64,
    decimal: Decimal,
}

// === impl Total ===

impl Default for Total {
    fn default() -> Self {
        Self {
            widest: 0,
            integers: 0,
            sum: 0.0,
            error: 0.0,
            plain: 0.0,
            decimal: Decimal::ZERO,
        }
    }
}

impl Total {
    #[inline]
    pub fn add(&mut self, num: Num) {
        match num {
            Num::Int32(value) => self.integers += i128::from(value),
            Num::Int64(value) => {
                self.widest = self.widest.max(1);
                self.integers += i128::from(value);
            }
            Num::Double(value) => {
                self.widest = self.widest.max(2);
                self.add_f64(value);
            }
            Num::Decimal(value) => {
                self.widest = 3;
                self.decimal = self.decimal.add(value);
            }
        }
    }

    /// Adds a number for `$avg` as an expression, where integers count as doubles, as in MongoDB. (In `$group` they do not.)
    #[inline]
    pub fn add_for_average(&mut self, num: Num) {
        match num {
            Num::Decimal(_) => self.add(num),
            other => self.add(Num::Double(other.to_f64())),
        }
    }

    /// Adds an integer that does not affect the type of the sum, such as a date.
    pub fn add_whole(&mut self, value: i64) {
        self.integers += i128::from(value);
    }

    fn add_f64(&mut self, value: f64) {
        let sum = self.sum + value;
        self.error += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
        self.plain += value;
    }

    /// Returns the whole sum as a double.
    pub fn to_f64(self) -> f64 {
        if self.widest == 3 {
            return self.to_decimal().to_f64();
        }
        self.double()
    }

    fn double(mut self) -> f64 {
        if self.integers != 0 {
            // A large integer sum is added in two steps, so that no digits are lost.
            let high = self.integers as f64;
            self.add_f64(high);
            self.add_f64((self.integers - high as i128) as f64);
        }
        let exact = self.sum + self.error;
        if exact.is_finite() { exact } else { self.plain }
    }

    pub fn to_decimal(self) -> Decimal {
        let integers = match i64::try_from(self.integers) {
            Ok(integers) => Decimal::from_i64(integers),
            Err(_) => Decimal::parse(&self.integers.to_string()).unwrap_or(Decimal::ZERO),
        };
        let mut rest = integers;
        if self.sum != 0.0 || !self.plain.is_finite() {
            let doubles = Self {
                integers: 0,
                ..self
            };
            // Takes all digits of the double, without trailing zeros.
            rest = rest.add(Decimal::from_f64_full(doubles.double()).normalize());
        }
        self.decimal.add(rest)
    }

    /// Returns the sum in the widest type so far. An integer sum grows from int to long to double.
    pub fn to_num(self) -> Num {
        match self.widest {
            3 => Num::Decimal(self.to_decimal()),
            2 => Num::Double(self.double()),
            widest => match (i32::try_from(self.integers), i64::try_from(self.integers)) {
                (Ok(small), _) if widest == 0 => Num::Int32(small),
                (_, Ok(large)) => Num::Int64(large),
                _ => Num::Double(self.double()),
            },
        }
    }

    /// Returns the sum for a date. The part that is not an integer is rounded before it is added. `None` means that the sum
    /// does not fit.
    pub fn to_millis(self) -> Option<i64> {
        let rest = Self {
            integers: 0,
            ..self
        };
        let rest = match self.widest {
            3 => rest.to_decimal().to_i64_round()?,
            2 => Num::Double(rest.double().round()).to_i64_exact()?,
            _ => 0,
        };
        i64::try_from(self.integers + i128::from(rest)).ok()
    }

    pub fn is_decimal(self) -> bool {
        self.widest == 3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let total = |nums: &[Num]| {
            let mut total = Total::default();
            nums.iter().for_each(|&num| total.add(num));
            format!("{:?}", total.to_num())
        };
        use Num::{Double, Int32, Int64};
        for (nums, expected) in [
            (&[][..], "Int32(0)"),
            (&[Int32(i32::MAX), Int32(1)], "Int64(2147483648)"),
            (&[Int32(i32::MAX), Int32(1), Int32(-1)], "Int32(2147483647)"),
            (&[Int64(1)], "Int64(1)"),
            (&[Int64(i64::MAX), Int64(1)], "Double(9.223372036854776e18)"),
            (
                &[Int64(i64::MAX), Int64(1), Int64(-1)],
                "Int64(9223372036854775807)",
            ),
            (&[Double(1e100), Double(1.0), Double(-1e100)], "Double(1.0)"),
            (&[Double(f64::INFINITY), Double(1.0)], "Double(inf)"),
            (&[Double(1.5), Int32(2)], "Double(3.5)"),
        ] {
            assert_eq!(total(nums), expected, "{nums:?}");
        }
    }
}
