//! `$sample`: so many rows, drawn by chance.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::sort::{By, Sorted};
use super::{Op, Place, Rows, Stage, limit};
use crate::error::{Error, Result};
use crate::query::Naming;
use crate::value::ValueRef;

struct Sample {
    size: u64,
}

pub(super) fn parse(value: ValueRef<'_>, _: &Place<'_>, push: &mut dyn FnMut(Stage)) -> Result<()> {
    let spec = value.as_doc().ok_or_else(|| {
        Error::location(28745, "the $sample stage specification must be an object")
    })?;
    let mut size = None;
    for elem in spec {
        if elem.name() != "size" {
            return Err(Error::location(
                28748,
                format!("unrecognized option to $sample: {}", elem.name()),
            ));
        }
        let number = elem
            .value
            .as_num()
            .ok_or_else(|| Error::location(28746, "size argument to $sample must be a number"))?;
        size = Some(number.to_i64_saturating());
    }
    let size = size.ok_or_else(|| Error::location(28749, "$sample stage must specify a size"))?;
    let size = u64::try_from(size)
        .ok()
        .filter(|&size| size > 0)
        .ok_or_else(|| {
            Error::location(28747, "size argument to $sample must be a positive integer")
        })?;
    push(Stage::Op(Arc::new(Sample { size })));
    Ok(())
}

// === impl Sample ===

impl Op for Sample {
    /// Orders the rows by a random key and keeps the first ones: drawn without repeats, and in random order.
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        let seed = RandomState::new().hash_one(self.size);
        let drawn = Sorted::new(input, By::Chance(seed), Some(self.size));
        limit::rows(Box::new(drawn), self.size)
    }

    fn is_deterministic(&self) -> bool {
        false
    }

    fn names(&self, _: &mut Naming<'_>) {}
}

/// The next number of a splitmix64 generator.
pub(super) fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
