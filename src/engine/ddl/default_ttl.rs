//! Setting `DefaultTTL`, which also appears among the indexes.

use crate::storage::index::IndexSpec;
use crate::storage::{Rules, View};
use crate::ttl::{DefaultTtl, TS_INDEX, TsIndex, is_ts_key};

/// Returns whether this is a plain index on `_ts`: one without options that restrict its contents. Such an index can also
/// show the default.
pub(super) fn is_plain(spec: &IndexSpec) -> bool {
    let is_more = spec.unique || spec.prepare_unique || spec.sparse || spec.partial.is_some();
    is_ts_key(spec.key.as_doc()) && !is_more
}

/// Sets the default. The index that shows it keeps its name unless the caller wants a new one.
pub(super) fn set(rules: &mut Rules<'_>, default: DefaultTtl, wanted: Option<TsIndex>) {
    let ts_index = match default {
        DefaultTtl::Off => None,
        _ => Some(shown_as(&rules.view(), wanted)),
    };
    rules.set_default_ttl(default, ts_index);
}

/// Returns the index that shows the default. If there are plain indexes on `_ts`, it is one of them: the one with the wanted
/// name, or the first.
fn shown_as(view: &View<'_>, wanted: Option<TsIndex>) -> TsIndex {
    let plain = |name: Option<&str>| {
        let specs = view.indexes().map(|index| &index.spec);
        specs
            .filter(|spec| is_plain(spec) && name.is_none_or(|name| name == spec.name))
            .map(|spec| TsIndex::new(Some(&spec.name), Some(spec.key.as_doc())))
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
                // Another index already has this name.
                name.push_str("_1");
            }
            TsIndex::new(Some(&name), None)
        }),
    }
}
