//! Latencies: how long commands and transactions take, counted in MongoDB's buckets.

use std::time::{Duration, Instant};

use crate::clock::monotonic;
use crate::value::DocBuilder;

/// The number of buckets. The last one has no upper end.
const BUCKETS: usize = 51;

/// From 2^11 to 2^21 microseconds there are two buckets for each power of two.
const FIRST_HALVED: usize = 11;
const LAST_HALVED: usize = 20;

/// How often something was done, and how long that took.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// By bucket. Buckets behind the end were never met, which keeps the histogram of a collection small.
    counts: Vec<u64>,
    micros: u64,
}

/// Measures a command, without the times in which it waits for something to happen.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    began: Instant,
    waits_since: Option<Instant>,
    waited: Duration,
}

// === impl Histogram ===

impl Histogram {
    /// Counts operations that took so long together.
    pub fn add(&mut self, micros: u64, operations: u64) {
        let bucket = bucket(micros / operations.max(1));
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += operations;
        self.micros += micros;
    }

    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (sum, more) in self.counts.iter_mut().zip(&other.counts) {
            *sum += more;
        }
        self.micros += other.micros;
    }

    pub fn operations(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn micros(&self) -> u64 {
        self.micros
    }

    /// Writes the field as `$collStats` and `serverStatus` show it.
    pub fn put(&self, name: &str, with_buckets: bool, out: &mut DocBuilder<'_>) {
        let mut shown = out.doc(name);
        if with_buckets {
            let mut buckets = shown.array("histogram");
            for (at, count) in self.counts.iter().enumerate().filter(|(_, n)| **n > 0) {
                let mut bucket = buckets.doc();
                bucket
                    .put_i64("micros", lower_end(at).cast_signed())
                    .put_i64("count", count.cast_signed());
                bucket.end();
            }
            buckets.end();
        }
        shown
            .put_i64("latency", self.micros.cast_signed())
            .put_i64("ops", self.operations().cast_signed())
            .put_i64("queryableEncryptionLatencyMicros", 0);
        shown.end();
    }
}

fn bucket(micros: u64) -> usize {
    let log = micros.max(1).ilog2() as usize;
    match log {
        0..FIRST_HALVED => log,
        FIRST_HALVED..=LAST_HALVED => {
            let is_upper_half = micros >= 3 << (log - 1);
            2 * log - FIRST_HALVED + usize::from(is_upper_half)
        }
        _ => (log + LAST_HALVED + 1 - FIRST_HALVED).min(BUCKETS - 1),
    }
}

/// Returns the least number of microseconds that belongs to a bucket.
fn lower_end(bucket: usize) -> u64 {
    let halved = 2 * (LAST_HALVED + 1 - FIRST_HALVED);
    match bucket {
        0 => 0,
        _ if bucket < FIRST_HALVED => 1 << bucket,
        _ if bucket < FIRST_HALVED + halved => {
            let at = bucket - FIRST_HALVED;
            let log = FIRST_HALVED + at / 2;
            (1 << log) + (at as u64 % 2) * (1 << (log - 1))
        }
        _ => 1 << (bucket - halved / 2),
    }
}

// === impl Stopwatch ===

impl Stopwatch {
    /// Starts it.
    #[inline]
    pub fn start() -> Self {
        Self::since(monotonic())
    }

    /// Returns one that was started at this time.
    pub fn since(began: Instant) -> Self {
        Self {
            began,
            waits_since: None,
            waited: Duration::ZERO,
        }
    }

    /// Stops it until [`Stopwatch::go_on`].
    pub fn pause(&mut self) {
        self.waits_since = Some(monotonic());
    }

    pub fn go_on(&mut self) {
        if let Some(since) = self.waits_since.take() {
            self.waited += monotonic().saturating_duration_since(since);
        }
    }

    /// Returns the time since the start in microseconds, at least one.
    #[inline]
    pub fn micros(&self) -> u64 {
        let whole = monotonic().saturating_duration_since(self.began);
        micros(whole.saturating_sub(self.waited))
    }
}

/// Returns a duration in microseconds. What is shorter than one counts as one.
#[inline]
pub fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX >> 16)
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_the_lower_ends_that_mongodb_has() {
        for (at, end) in [
            (0, 0),
            (1, 2),
            (10, 1024),
            (11, 2048),
            (12, 3072),
            (13, 4096),
            (30, 1_572_864),
            (31, 2_097_152),
            (32, 4_194_304),
            (50, 1_099_511_627_776),
        ] {
            assert_eq!(lower_end(at), end, "{at}");
            assert_eq!(bucket(end), at, "{end}");
        }
        for at in 1..BUCKETS {
            assert_eq!(bucket(lower_end(at)), at);
            assert_eq!(bucket(lower_end(at) - 1), at - 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn operations_that_were_measured_together_share_their_time() {
        let mut histogram = Histogram::default();
        histogram.add(30, 3);
        histogram.add(5, 1);
        let mut sum = Histogram::default();
        sum.merge(&histogram);
        assert_eq!((sum.operations(), sum.micros()), (4, 35));
        assert_eq!((sum.counts[bucket(10)], sum.counts[bucket(5)]), (3, 1));
    }
}
