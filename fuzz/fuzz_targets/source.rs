//! Where a target takes its choices from: the bytes that it was given, and zeros behind them.

pub struct Source<'a>(pub &'a [u8]);

impl Source<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// By one byte, or by two where one does not reach.
    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        let mut at = usize::from(self.byte());
        if from.len() > 256 {
            at = at * 256 + usize::from(self.byte());
        }
        &from[at % from.len()]
    }
}
