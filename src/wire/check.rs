//! Validation: every document of a message passes here, so the code behind this module trusts its bytes.

use crate::error::{Code, Error, Result};
use crate::value::{self, Limits, MAX_INTERNAL_DOCUMENT};

use super::header::int32;

const LIMITS: Limits = Limits {
    size: MAX_INTERNAL_DOCUMENT,
    // The outermost document does not count as a level.
    depth: Limits::DEFAULT.depth + 1,
};

/// Returns the document at the front of `bytes`, fully validated.
pub(super) fn document(bytes: &[u8]) -> Result<&[u8]> {
    let declared = int32(bytes, 0).ok_or_else(|| invalid("not enough bytes for a length"))?;
    let length = usize::try_from(declared)
        .ok()
        .filter(|length| *length <= MAX_INTERNAL_DOCUMENT)
        .ok_or_else(|| value::too_large(declared))?;
    let document = bytes.get(..length).ok_or_else(|| {
        invalid(&format!(
            "document of {length} bytes in the {} bytes that are left of its section",
            bytes.len()
        ))
    })?;
    value::validate(document, LIMITS)?;
    Ok(document)
}

pub(super) fn invalid(what: &str) -> Error {
    Error::new(Code::InvalidBSON, format!("invalid BSON: {what}"))
}
