//! The sum of many numbers, digit for digit as in MongoDB: two doubles carry what is no decimal, and decimals are added
//! apart.

use crate::value::{Decimal, Num};

#[derive(Debug, Clone, Copy)]
pub struct Total {
    /// The widest type so far: 0 int, 1 long, 2 double, 3 decimal.
    widest: u8,
    /// The sum of integers and doubles, rounded. Together with `addend` it has about 107 bits. Only `sum` counts for a
    /// result that is a double.
    sum: f64,
    addend: f64,
    /// The plain sum. It is the result after an infinity, which makes `sum` a NaN.
    special: f64,
    decimal: Decimal,
}

// === impl Total ===

impl Default for Total {
    fn default() -> Self {
        Self {
            widest: 0,
            sum: 0.0,
            addend: 0.0,
            special: 0.0,
            decimal: Decimal::ZERO,
        }
    }
}

impl Total {
    #[inline]
    pub fn add(&mut self, num: Num) {
        match num {
            Num::Int32(value) => self.add_f64(f64::from(value)),
            Num::Int64(value) => {
                self.widest = self.widest.max(1);
                // In two parts, each of which a double holds exactly.
                let high = value / (1 << 32) * (1 << 32);
                self.add_f64((value - high) as f64);
                self.add_f64(high as f64);
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

    /// Adds with compensation. The order of the steps decides the last bits, so it is MongoDB's (`summation.h`).
    fn add_f64(&mut self, value: f64) {
        self.special += value;
        // The addend is expected to be smaller than the value.
        let value_and_rest = value + self.addend;
        let rest = self.addend - (value_and_rest - value);
        // Either of these may be the larger one.
        let sum = self.sum + value_and_rest;
        let before = sum - value_and_rest;
        let added = sum - before;
        let error = (self.sum - before) + (value_and_rest - added);
        self.sum = sum;
        self.addend = rest + error;
    }

    fn double(self) -> f64 {
        if self.sum.is_nan() {
            self.special
        } else {
            self.sum
        }
    }

    fn decimal(self) -> Decimal {
        let rest = match self.sum.is_finite() {
            true => Decimal::from_f64_exact(self.sum).add(Decimal::from_f64_exact(self.addend)),
            false => Decimal::from_f64_exact(self.special),
        };
        self.decimal.add(rest)
    }

    /// Returns the sum as a long, rounded to the nearest one. `None` means that it does not fit.
    fn long(self) -> Option<i64> {
        const END: f64 = 9_223_372_036_854_775_808.0;
        if self.sum == END {
            // The addend takes the sum below its rounded value.
            return (self.addend < -0.5)
                .then(|| (self.addend.round() as i64).wrapping_sub(i64::MIN));
        }
        let fits = (self.sum > -END && self.sum < END) || (self.sum == -END && self.addend >= -0.5);
        fits.then(|| {
            let whole = self.sum.round();
            (whole as i64).wrapping_add((self.sum - whole + self.addend).round() as i64)
        })
    }

    /// Returns the sum in the widest type so far. An integer sum grows from int to long to double.
    pub fn to_num(self) -> Num {
        match (self.widest, self.long()) {
            (3, _) => Num::Decimal(self.decimal()),
            (0, Some(long)) => i32::try_from(long).map_or(Num::Int64(long), Num::Int32),
            (1, Some(long)) => Num::Int64(long),
            _ => Num::Double(self.double()),
        }
    }

    /// Returns the sum divided by a count: a double, or a decimal if a decimal was added.
    pub fn average(self, count: u64) -> Num {
        if self.widest == 3 {
            let count = Decimal::from_i64(i64::try_from(count).unwrap_or(i64::MAX));
            return Num::Decimal(self.decimal().div(count));
        }
        Num::Double(self.double() / count as f64)
    }

    /// Returns the average as `$group` does. MongoDB 8.2 ends a sum of integers as an integer there, before it divides: the
    /// greatest and the least long have an average of -0.5, where the expression `$avg` gives 0.
    pub fn average_of_group(self, count: u64) -> Num {
        match self.to_num() {
            Num::Decimal(_) => self.average(count),
            sum => Num::Double(sum.to_f64() / count as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(nums: &[Num]) -> String {
        let mut total = Total::default();
        nums.iter().for_each(|&num| total.add(num));
        match total.to_num() {
            Num::Decimal(decimal) => decimal.to_string(),
            other => format!("{other:?}"),
        }
    }

    /// The answers of mongod 6.0.5.
    #[test]
    fn sums() {
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
            (&[Int64(i64::MIN)], "Int64(-9223372036854775808)"),
            (&[Double(1e16), Double(1.0), Double(-1e16)], "Double(0.0)"),
            (&[Double(1e16), Double(3.0), Double(-1e16)], "Double(4.0)"),
            (&[Double(f64::INFINITY), Double(1.0)], "Double(inf)"),
            (
                &[Double(1e308), Double(1e308), Double(-1e308)],
                "Double(inf)",
            ),
            (&[Double(1.5), Int32(2)], "Double(3.5)"),
        ] {
            assert_eq!(total(nums), expected, "{nums:?}");
        }
    }

    /// The answers of MongoDB 8.2, from the conformance suite.
    #[test]
    fn averages_of_the_greatest_and_the_least_long() {
        let mut total = Total::default();
        total.add(Num::Int64(i64::MAX));
        total.add(Num::Int64(i64::MIN));
        assert_eq!(format!("{:?}", total.average(2)), "Double(0.0)");
        assert_eq!(format!("{:?}", total.average_of_group(2)), "Double(-0.5)");
    }

    /// The answers of mongod 6.0.5.
    #[test]
    fn sums_with_decimals() {
        for (decimal, doubles, expected) in [
            ("0", &[0.1, 2.5][..], "2.600000000000000005551115123125782"),
            ("1E+3", &[100.0], "1100"),
            ("1E+3", &[1e20], "100000000000000001000"),
            ("1E+40", &[1e30], "1.000000000100000000000000001988462E+40"),
            ("0", &[1e40], "1.000000000000000030378602842700367E+40"),
            ("0E-10", &[0.5, 1.0], "1.5000000000"),
            ("1", &[f64::INFINITY], "Infinity"),
        ] {
            let decimal = Num::Decimal(Decimal::parse(decimal).unwrap());
            let nums: Vec<Num> = std::iter::once(decimal)
                .chain(doubles.iter().map(|&double| Num::Double(double)))
                .collect();
            assert_eq!(total(&nums), expected, "{nums:?}");
        }
    }
}
