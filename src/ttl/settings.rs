//! `DefaultTTL` as clients set it and see it, and the indexing mode that it needs.

use super::DefaultTtl;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, TS_FIELD, ValueRef};

/// The name that the index on `_ts` has where the client gave none.
pub const TS_INDEX: &str = "_ts_1";

/// How `DefaultTTL` shows among the indexes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TsIndex {
    pub name: String,
    pub key: DocBuf,
}

/// `indexingPolicy.indexingMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexingMode {
    Consistent,
    Lazy,
    None,
}

/// `defaultTtl` of create and collMod.
pub fn parse_default(value: ValueRef<'_>) -> Result<DefaultTtl> {
    if value.is_nullish() {
        return Ok(DefaultTtl::Off);
    }
    parse_seconds(value).ok_or_else(|| {
        let code = if value.ty().is_number() {
            Code::InvalidOptions
        } else {
            Code::TypeMismatch
        };
        Error::new(code, out_of_range("defaultTtl", value))
    })
}

/// Whole seconds in the range that a default has. (A decimal counts if it is a whole number.)
pub fn parse_seconds(value: ValueRef<'_>) -> Option<DefaultTtl> {
    DefaultTtl::from_seconds(value.as_num()?.to_i64_exact()?)
}

pub fn out_of_range(option: &str, value: ValueRef<'_>) -> String {
    format!("'{option}' must be -1 or a whole number from 1 to 2147483647, but found: {value}")
}

/// Whether an index key is `{_ts: 1}` or `{_ts: -1}`, and nothing else.
pub fn is_ts_key(key: Doc<'_>) -> bool {
    let mut fields = key.iter();
    fields.next().is_some_and(|elem| elem.name() == TS_FIELD) && fields.next().is_none()
}

/// Whether an index key names `_ts` at all.
pub fn names_ts(key: Doc<'_>) -> bool {
    key.iter().any(|elem| {
        let mut parts = elem.name().split('.');
        parts.next() == Some(TS_FIELD)
    })
}

/// A default needs an indexing mode that can find what is due.
pub fn check_mode(mode: Option<IndexingMode>, default: DefaultTtl, code: Code) -> Result<()> {
    if mode == Some(IndexingMode::None) && default != DefaultTtl::Off {
        return Err(Error::new(
            code,
            "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection",
        ));
    }
    Ok(())
}

// === impl TsIndex ===

impl TsIndex {
    /// The client's name and key, or the usual ones.
    pub fn new(name: Option<&str>, key: Option<Doc<'_>>) -> Self {
        let usual = || {
            DocBuf::build(|doc| {
                doc.put_i32(TS_FIELD, 1);
            })
        };
        Self {
            name: name.unwrap_or(TS_INDEX).to_owned(),
            key: key.map_or_else(usual, DocBuf::from),
        }
    }
}

// === impl IndexingMode ===

impl IndexingMode {
    pub const NAMES: &[(&str, Self)] = &[
        ("consistent", Self::Consistent),
        ("lazy", Self::Lazy),
        ("none", Self::None),
    ];

    pub fn parse(name: &str) -> Option<Self> {
        let named = Self::NAMES.iter().find(|(known, _)| *known == name)?;
        Some(named.1)
    }
}
