//! Hints. Clients see the default as an index on `_ts`, which the cluster does not have.

use crate::ttl::is_ts_key;
use crate::upstream::CollectionRules;
use crate::upstream::settings::is_physical_name;
use crate::value::{Doc, Type, ValueRef};

/// The name of an index that does not exist, as a value.
const NO_INDEX: &[u8] = b"\x0e\0\0\0_sundown_none\0";

/// Returns the hint of a command or statement as it is sent: nothing for the index that only shows the default. It holds
/// every document, so the cluster may choose its own way to the same documents.
pub fn sent<'a>(command: Doc<'a>, rules: &CollectionRules) -> (&'static str, ValueRef<'a>) {
    let hint = command.get("hint");
    if rules.stamped && hint.as_str().is_some_and(is_physical_name) {
        // For clients it does not exist, and the cluster says so.
        return ("hint", ValueRef::new(Type::String, NO_INDEX));
    }
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
