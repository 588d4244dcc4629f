//! The indexes that strict mode refuses.

use super::is_on;
use super::rules::{KIND, SPARSE, TTL, UNIQUE};
use crate::error::Result;
use crate::value::{Doc, TS_FIELD};

/// Checks one entry of createIndexes. `frozen` means that the collection has documents and does not have this index yet.
pub fn check_index(spec: Doc<'_>, frozen: bool) -> Result<()> {
    let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
    for elem in key {
        if let Some(kind) = elem.value.as_str()
            && kind != "2dsphere"
        {
            return Err(KIND.about(kind));
        }
    }
    if is_on(spec.get("sparse")) {
        return Err(SPARSE.error());
    }
    let on_ts = key.first().is_some_and(|elem| elem.name() == TS_FIELD);
    if spec.has("expireAfterSeconds") && !on_ts {
        return Err(TTL.error());
    }
    if is_on(spec.get("unique")) && frozen {
        return Err(UNIQUE.error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::value::DocBuf;

    #[test]
    fn indexes_that_strict_mode_refuses() {
        let rows = [
            (doc! {"key": {"a": 1}}, false, None),
            (doc! {"key": {"a": 1}, "unique": true}, false, None),
            (doc! {"key": {"a": 1}, "unique": true}, true, Some(13)),
            (doc! {"key": {"a": 1}, "unique": 1}, true, Some(13)),
            (doc! {"key": {"a": 1}, "unique": false}, true, None),
            (doc! {"key": {"a": 1}, "sparse": true}, false, Some(2)),
            (doc! {"key": {"a": 1}, "sparse": 1.0}, false, Some(2)),
            (doc! {"key": {"a": 1}, "sparse": 0}, false, None),
            (doc! {"key": {"a": "text"}}, false, Some(115)),
            (doc! {"key": {"b": 1, "a": "hashed"}}, false, Some(115)),
            (doc! {"key": {"a": "2d"}}, false, Some(115)),
            (doc! {"key": {"a": "2dsphere"}}, false, None),
            (
                doc! {"key": {"a": 1}, "expireAfterSeconds": 5},
                false,
                Some(2),
            ),
            (
                doc! {"key": {"_ts": 1}, "expireAfterSeconds": 5},
                true,
                None,
            ),
        ];
        for (spec, frozen, code) in rows {
            let spec = DocBuf::from(spec);
            let got = check_index(spec.as_doc(), frozen).err();
            assert_eq!(got.map(|error| error.code().number()), code, "{spec}");
        }
    }
}
