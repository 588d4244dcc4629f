//! Random choices. The same seed gives the same choices.

use crate::support::dice::Dice;

pub struct Random(Dice);

// === impl Random ===

impl Random {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds must give different sequences, and the state must not be zero.
        let mixed = (seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut dice = Dice(mixed | 1);
        for _ in 0..8 {
            dice.next();
        }
        Self(dice)
    }

    pub fn below(&mut self, n: usize) -> usize {
        // The high bits are more random.
        ((self.0.next() >> 16) % n as u64) as usize
    }

    /// Returns true with this probability in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}
