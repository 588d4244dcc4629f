//! Hints. Clients see the default as an index on `_ts`, which the cluster does not have.

use crate::ttl::is_ts_key;
use crate::upstream::CollectionRules;
use crate::value::{Doc, Type, ValueRef};

/// Returns the hint of a command or statement as it is sent: nothing for the index that only shows the default. It holds
/// every document, so the cluster may choose its own way to the same documents.
pub fn sent<'a>(command: Doc<'a>, rules: &CollectionRules) -> (&'static str, ValueRef<'a>) {
    let hint = command.get("hint");
    let shown = rules.ts_index.as_deref().is_some_and(|name| {
        match hint.ty() {
            Type::String => hint.as_str() == Some(name),
            // The only direction that such an index can have.
            Type::Document => {
                let key = Doc::new(hint.data());
                let ascending = key.first().and_then(|elem| elem.value.as_num());
                is_ts_key(key) && ascending.is_some_and(|n| n.to_i64_saturating() == 1)
            }
            _ => false,
        }
    });
    ("hint", if shown { ValueRef::MISSING } else { hint })
}
