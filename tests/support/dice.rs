//! Numbers that need not be good, only different: the same ones from the same seed.

/// The seed is anything but zero.
pub struct Dice(pub u64);

// === impl Dice ===

impl Dice {
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
