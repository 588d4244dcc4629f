//! The segments of a collection, by number.
//!
//! Numbers only grow and most of them exist, so the position of a segment usually follows from its number. A lookup is then
//! one comparison, which matters to a reader that follows an index to a hundred scattered documents. If segments in between
//! are gone (because all their documents were removed), it is a binary search over a few numbers.

use super::segment::Segment;

/// The segments of a collection, sorted by number.
#[derive(Default)]
pub(super) struct Segments {
    /// Sorted. Separate from the segments, so that a search stays within a few cache lines.
    numbers: Vec<u64>,
    /// Boxed, so that removing a segment moves only pointers.
    #[allow(clippy::vec_box)]
    segments: Vec<Box<Segment>>,
}

// === impl Segments ===

impl Segments {
    /// Returns the position of a segment.
    #[inline]
    fn place(&self, number: u64) -> Option<usize> {
        let first = *self.numbers.first()?;
        let guess = usize::try_from(number.checked_sub(first)?).ok()?;
        if self.numbers.get(guess) == Some(&number) {
            return Some(guess);
        }
        self.numbers.binary_search(&number).ok()
    }

    #[inline]
    pub fn get(&self, number: u64) -> Option<&Segment> {
        Some(&self.segments[self.place(number)?])
    }

    pub fn get_mut(&mut self, number: u64) -> Option<&mut Segment> {
        let at = self.place(number)?;
        Some(&mut self.segments[at])
    }

    /// Adds a segment after the others.
    pub fn push(&mut self, number: u64, segment: Segment) {
        debug_assert!(self.numbers.last().is_none_or(|&last| last < number));
        self.numbers.push(number);
        self.segments.push(Box::new(segment));
    }

    pub fn remove(&mut self, number: u64) {
        if let Some(at) = self.place(number) {
            self.numbers.remove(at);
            self.segments.remove(at);
            if self.numbers.len() < self.numbers.capacity() / 4 {
                self.numbers.shrink_to(self.numbers.len() * 2);
                self.segments.shrink_to(self.segments.len() * 2);
            }
        }
    }

    pub fn last(&self) -> Option<(u64, &Segment)> {
        Some((*self.numbers.last()?, self.segments.last()?))
    }

    pub fn last_mut(&mut self) -> Option<(u64, &mut Segment)> {
        Some((*self.numbers.last()?, self.segments.last_mut()?))
    }

    /// Returns the segments from that number on, in order.
    pub fn from(&self, number: u64) -> impl DoubleEndedIterator<Item = (u64, &Segment)> {
        self.among(self.numbers.partition_point(|&n| n < number)..self.numbers.len())
    }

    pub fn rest_mut(&mut self, number: u64) -> impl Iterator<Item = (u64, &mut Segment)> {
        let at = self.numbers.partition_point(|&n| n < number);
        let numbers = self.numbers[at..].iter().copied();
        numbers.zip(self.segments[at..].iter_mut().map(AsMut::as_mut))
    }

    /// Returns the segments up to that number, in order.
    pub fn up_to(&self, number: u64) -> impl DoubleEndedIterator<Item = (u64, &Segment)> {
        self.among(0..self.numbers.partition_point(|&n| n <= number))
    }

    fn among(
        &self,
        places: std::ops::Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (u64, &Segment)> {
        let numbers = self.numbers[places.clone()].iter().copied();
        numbers.zip(self.segments[places].iter().map(AsRef::as_ref))
    }

    pub fn all(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter().map(AsRef::as_ref)
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Segment> {
        self.segments.iter_mut().map(AsMut::as_mut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_found_by_number_whatever_is_gone_before_them() {
        let mut segments = Segments::default();
        for number in 0..100 {
            segments.push(number, Segment::new(None));
        }
        let gone = |n: u64| n < 7 || n % 3 == 1 || n == 99;
        for number in (0..100).filter(|&n| gone(n)) {
            segments.remove(number);
        }
        for number in 0..120 {
            let there = number < 100 && !gone(number);
            assert_eq!(segments.get(number).is_some(), there, "{number}");
            assert_eq!(segments.get_mut(number).is_some(), there, "{number}");
        }
        let numbers: Vec<u64> = segments.from(90).map(|(n, _)| n).collect();
        assert_eq!(numbers, [90, 92, 93, 95, 96, 98]);
        let numbers: Vec<u64> = segments.up_to(12).rev().map(|(n, _)| n).collect();
        assert_eq!(numbers, [12, 11, 9, 8]);
        assert_eq!(segments.last().map(|(n, _)| n), Some(98));
    }
}
