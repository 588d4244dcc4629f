//! The options of `$lookup` that strict mode refuses.

use super::rules::LOOKUP;
use crate::error::Result;
use crate::value::Doc;

pub fn check_lookup(said: Doc<'_>) -> Result<()> {
    match ["let", "pipeline"].iter().find(|name| said.has(name)) {
        Some(option) => Err(LOOKUP.about(option)),
        None => Ok(()),
    }
}
