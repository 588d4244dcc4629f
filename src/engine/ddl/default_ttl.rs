//! `DefaultTTL` as a setting that also shows among the indexes, and the indexing mode that it needs.

use crate::error::{Code, Error, Result};
use crate::storage::index::{IndexSpec, TS_FIELD};
use crate::storage::ttl::DefaultTtl;
use crate::storage::{IndexingMode, TsIndex, View, Writer};
use crate::value::{Doc, DocBuf, ValueRef};

/// The name that the index on `_ts` has where the client gave none.
const TS_INDEX: &str = "_ts_1";

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

/// The index that shows a default: the client's name and key, or the usual ones.
pub fn ts_index(name: Option<&str>, key: Option<Doc<'_>>) -> TsIndex {
    TsIndex {
        name: name.unwrap_or(TS_INDEX).to_owned(),
        key: key.map_or_else(
            || {
                DocBuf::build(|doc| {
                    doc.put_i32(TS_FIELD, 1);
                })
            },
            DocBuf::from,
        ),
    }
}

/// Whether an index is on `_ts` and nothing else says what it holds: one that can show the default as well.
pub(super) fn is_plain(spec: &IndexSpec) -> bool {
    let is_more = spec.unique || spec.prepare_unique || spec.sparse || spec.partial.is_some();
    is_ts_key(spec.key.as_doc()) && !is_more
}

/// Sets the default. The index that shows it keeps its name unless a new one is wanted.
pub(super) fn set(writer: &mut Writer<'_>, default: DefaultTtl, wanted: Option<TsIndex>) {
    let shown = match default {
        DefaultTtl::Off => None,
        _ => Some(shown_as(&writer.view(), wanted)),
    };
    writer.set_default_ttl(default, shown);
}

/// Where there are plain indexes on `_ts`, one of them becomes the one that shows the default: that of the wanted name, or the first.
fn shown_as(view: &View<'_>, wanted: Option<TsIndex>) -> TsIndex {
    let plain = |name: Option<&str>| {
        let specs = view.indexes().map(|index| &index.spec);
        specs
            .filter(|spec| is_plain(spec) && name.is_none_or(|name| name == spec.name))
            .map(|spec| ts_index(Some(&spec.name), Some(spec.key.as_doc())))
            .next()
    };
    match (wanted, view.ts_index()) {
        (Some(wanted), _) => plain(Some(&wanted.name))
            .or_else(|| plain(None))
            .unwrap_or(wanted),
        (None, Some(there)) => there.clone(),
        (None, None) => plain(None).unwrap_or_else(|| {
            let mut name = TS_INDEX.to_owned();
            while view.index(&name).is_some() {
                // Somebody has given it to another index.
                name.push_str("_1");
            }
            ts_index(Some(&name), None)
        }),
    }
}

/// A default needs an indexing mode that can find what is due.
pub(super) fn check_mode(
    mode: Option<IndexingMode>,
    default: DefaultTtl,
    code: Code,
) -> Result<()> {
    if mode == Some(IndexingMode::None) && default != DefaultTtl::Off {
        return Err(Error::new(
            code,
            "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection",
        ));
    }
    Ok(())
}
