//! `$sample`: a number of randomly chosen rows.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use super::sort::{RowOrder, Sorted};
use super::{Rows, Stage, StageContext, StageOp, limit};
use crate::args::{fields, object};
use crate::error::{Error, Result};
use crate::query::Survey;
use crate::value::ValueRef;

struct Sample {
    size: u64,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    _: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let words = "the $sample stage specification must be an object";
    let mut size = None;
    for option in fields("$sample", object(value, 28745, words)?) {
        match option.name() {
            "size" => {
                let words = "size argument to $sample must be a number";
                let number = option.expect(ValueRef::as_num, 28746, words)?;
                size = Some(number.to_i64_saturating());
            }
            _ => return Err(option.refuse(28748, "unrecognized option to $sample: {}")),
        }
    }
    let size = size.ok_or_else(|| Error::location(28749, "$sample stage must specify a size"))?;
    let size = u64::try_from(size)
        .ok()
        .filter(|&size| size > 0)
        .ok_or_else(|| {
            Error::location(28747, "size argument to $sample must be a positive integer")
        })?;
    push(Stage::StageOp(Arc::new(Sample { size })));
    Ok(())
}

// === impl Sample ===

impl StageOp for Sample {
    /// Sorts the rows by a random key and keeps the first ones. So no row is drawn twice, and the order is random.
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        let seed = RandomState::new().hash_one(self.size);
        let drawn = Sorted::new(input, RowOrder::Chance(seed), Some(self.size));
        limit::rows(Box::new(drawn), self.size)
    }

    fn is_deterministic(&self) -> bool {
        false
    }

    fn limits_rows(&self) -> bool {
        true
    }

    fn survey(&self, _: &mut Survey<'_>) {}
}

/// Returns the next number of a splitmix64 generator.
pub(super) fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
