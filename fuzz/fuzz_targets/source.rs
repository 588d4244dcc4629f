//! The source of a fuzz target's choices: the bytes of its input, followed by zeros.

pub struct Source<'a>(pub &'a [u8]);

impl Source<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// Picks an item with one byte, or with two if there are more than 256 items.
    pub fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        let mut at = usize::from(self.byte());
        if from.len() > 256 {
            at = at * 256 + usize::from(self.byte());
        }
        &from[at % from.len()]
    }
}
