//! `DefaultTTL` and the indexing policy, as clients write them in create, collMod and createIndexes.

use super::args::{Arg, fields};
use crate::engine::TS_FIELD;
use crate::engine::ddl::{DefaultTtl, IndexingMode, out_of_range, parse_seconds};
use crate::error::{Code, Error, Result};
use crate::value::Doc;

/// `defaultTtl` of create and collMod. Null switches it off.
pub fn parse_option(arg: Arg<'_>) -> Result<DefaultTtl> {
    if arg.is_null() {
        return Ok(DefaultTtl::Off);
    }
    parse_seconds(arg.value()).ok_or_else(|| {
        let code = if arg.value().ty().is_number() {
            Code::InvalidOptions
        } else {
            Code::TypeMismatch
        };
        Error::new(code, out_of_range("defaultTtl", arg.value()))
    })
}

/// Whether an index key names `_ts` at all.
pub fn names_ts(key: Doc<'_>) -> bool {
    key.iter().any(|elem| {
        let mut parts = elem.name().split('.');
        parts.next() == Some(TS_FIELD)
    })
}

/// `indexingPolicy: {indexingMode: ...}`
pub fn parse_policy(arg: Arg<'_>) -> Result<Option<IndexingMode>> {
    let Some(policy) = arg.doc()? else {
        return Ok(None);
    };
    let mut mode = None;
    for field in fields("indexingPolicy", policy) {
        match field.name() {
            "indexingMode" => {
                mode = match field.str()? {
                    Some(text) => Some(
                        IndexingMode::NAMES
                            .iter()
                            .find(|(name, _)| *name == text)
                            .map(|(_, mode)| *mode)
                            .ok_or_else(|| field.not_a_value(text))?,
                    ),
                    None => None,
                }
            }
            _ => return Err(field.unknown()),
        }
    }
    Ok(mode)
}
