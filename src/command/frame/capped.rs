//! The limits of a capped collection, as create and collMod take them.

use crate::args::Arg;
use crate::error::{Error, Result};

/// One petabyte.
const MAX_BYTES: i64 = 1 << 50;

const MAX_DOCUMENTS: u64 = i32::MAX.unsigned_abs() as u64;

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

/// Reads `max` or `cappedMax`, a number of documents. What is no limit becomes the highest one, which clients then see.
pub(in crate::command) fn documents(arg: &Arg<'_>) -> Result<Option<u64>> {
    match arg.int()? {
        Some(n) if n > i64::from(i32::MAX) => Err(Error::bad_value(
            "max in a capped collection has to be < 2^31 or not set",
        )),
        Some(n) if n < 1 => Ok(Some(MAX_DOCUMENTS)),
        max => Ok(max.map(i64::unsigned_abs)),
    }
}
