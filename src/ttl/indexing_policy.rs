//! The indexing policy, as clients write it in create and collMod.

use super::IndexingMode;
use crate::args::{Arg, fields};
use crate::error::Result;

/// Parses `indexingPolicy: {indexingMode: ...}`.
pub fn parse_indexing_policy(arg: Arg<'_>) -> Result<Option<IndexingMode>> {
    let Some(policy) = arg.doc()? else {
        return Ok(None);
    };
    let mut mode = None;
    for field in fields("indexingPolicy", policy) {
        match field.name() {
            "indexingMode" => {
                mode = match field.str()? {
                    Some(text) => {
                        Some(IndexingMode::parse(text).ok_or_else(|| field.not_a_value(text))?)
                    }
                    None => None,
                }
            }
            _ => return Err(field.unknown()),
        }
    }
    Ok(mode)
}
