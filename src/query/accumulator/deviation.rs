//! `$stdDevPop` and `$stdDevSamp`: the standard deviation, computed in one pass (Welford).

use super::state::{AccumulatorState, Input};
use crate::error::Result;
use crate::value::Value;

/// The running mean and squared distances of numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deviation {
    count: u64,
    mean: f64,
    /// The sum of squared distances from the mean.
    squares: f64,
}

/// The state of both operators. `SAMPLE` chooses the deviation of a sample over that of the whole population.
#[derive(Default)]
struct StdDev<const SAMPLE: bool>(Deviation);

pub fn std_dev_pop() -> Box<dyn AccumulatorState> {
    Box::new(StdDev::<false>::default())
}

pub fn std_dev_samp() -> Box<dyn AccumulatorState> {
    Box::new(StdDev::<true>::default())
}

// === impl StdDev ===

impl<const SAMPLE: bool> AccumulatorState for StdDev<SAMPLE> {
    fn add(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(num) = input.value.as_num() {
            self.0.add(num.to_f64());
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(self.0.finish(SAMPLE))
    }

    fn size(&self) -> usize {
        0
    }
}

// === impl Deviation ===

impl Deviation {
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        let delta = value - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (value - self.mean);
    }

    /// Returns the deviation, or null if there are too few numbers: none, or one for a sample.
    pub fn finish(&self, sample: bool) -> Value {
        let divisor = self.count.saturating_sub(u64::from(sample));
        if divisor == 0 {
            return Value::null();
        }
        Value::double((self.squares / divisor as f64).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations() {
        for (numbers, pop, samp) in [
            (&[][..], Value::null(), Value::null()),
            (&[3.0], Value::double(0.0), Value::null()),
            (&[1.0, 3.0], Value::double(1.0), Value::double(2f64.sqrt())),
        ] {
            let mut deviation = Deviation::default();
            numbers.iter().for_each(|&number| deviation.add(number));
            assert_eq!(deviation.finish(false), pop, "{numbers:?}");
            assert_eq!(deviation.finish(true), samp, "{numbers:?}");
        }
    }
}
