//! The limits of a capped collection, as create and collMod take them.

use crate::args::Arg;
use crate::error::{Error, Result};

/// One petabyte.
const MAX_BYTES: i64 = 1 << 50;

/// Reads `size` or `cappedSize`, in bytes.
pub(in crate::command) fn bytes(arg: &Arg<'_>) -> Result<Option<u64>> {
    match arg.int_at_least(1)? {
        Some(n) if n > MAX_BYTES => Err(Error::bad_value(format!(
            "BSON field '{}' value must be <= {MAX_BYTES}, actual value '{n}'",
            arg.name()
        ))),
        size => Ok(size.map(i64::unsigned_abs)),
    }
}

/// Reads `max` or `cappedMax`, a number of documents. The outer option says whether the field was given, the inner one
/// whether it is a limit.
pub(in crate::command) fn documents(arg: &Arg<'_>) -> Result<Option<Option<u64>>> {
    match arg.int()? {
        Some(n) if n > i64::from(i32::MAX) => Err(Error::bad_value(
            "max in a capped collection has to be < 2^31 or not set",
        )),
        max => Ok(max.map(|n| {
            (1..i64::from(i32::MAX))
                .contains(&n)
                .then_some(n.unsigned_abs())
        })),
    }
}
