//! The options of `$lookup` that strict mode refuses.

use super::rules::LOOKUP;
use crate::error::Result;
use crate::value::Doc;

pub fn check_lookup(spec: Doc<'_>) -> Result<()> {
    match ["let", "pipeline"].iter().find(|name| spec.has(name)) {
        Some(option) => Err(LOOKUP.about(option)),
        None => Ok(()),
    }
}
