//! A simple generator of pseudo-random numbers. The same seed gives the same numbers.

/// The generator, made from a seed that must not be zero.
pub struct Dice(pub u64);

// === impl Dice ===

impl Dice {
    #[allow(clippy::should_implement_trait)] // it has no end, and nobody iterates over it
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}
