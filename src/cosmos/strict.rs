//! `--strict cosmos`: what the service refuses, with its codes and, where they are known, its words.
//!
//! One table of [rules](RULES), so that a team sees on its own machine what would break in Azure. Each check is a function over
//! documents; the commands ask it before they begin.

use crate::error::{Code, Error, Result};
use crate::value::Doc;

/// One thing that the service refuses.
#[derive(Debug)]
pub struct Rule {
    /// For a person.
    pub what: &'static str,
    pub code: Code,
    pub words: &'static str,
}

const COMMAND: Rule = Rule {
    what: "collMod, renameCollection and other commands that it has not",
    code: Code::CommandNotSupported,
    words: "not supported.",
};
const RETRYABLE: Rule = Rule {
    what: "retryable writes",
    code: Code::BadValue,
    words: "Retryable writes are not supported. Please disable retryable writes by specifying \"retrywrites=false\" in the \
            connection string or an equivalent driver specific config.",
};
const SIZE: Rule = Rule {
    what: "documents over 2 MB",
    code: Code::InvalidLength,
    words: "Error=16, Details='Response status code does not indicate success: RequestEntityTooLarge (413); Substatus: 0; \
            ActivityId: 00000000-0000-0000-0000-000000000000; Reason: ({\r\n  \"Errors\": [\r\n    \"Request size is too \
            large\"\r\n  ]\r\n});",
};
const TTL: Rule = Rule {
    what: "TTL indexes on other fields than _ts",
    code: Code::BadValue,
    words: "The 'expireAfterSeconds' option is supported on '_ts' field only.",
};
const SPARSE: Rule = Rule {
    what: "sparse indexes",
    code: Code::CannotCreateIndex,
    words: "The 'sparse' option is not supported.",
};
const KIND: Rule = Rule {
    what: "text, hashed and 2d indexes",
    code: Code::CannotCreateIndex,
    words: "index type is not supported:",
};
const UNIQUE: Rule = Rule {
    what: "a unique index on a collection with documents in it",
    code: Code::Unauthorized,
    words: "Error=13, Details='Response status code does not indicate success: Forbidden (403); Substatus: 0; ActivityId: \
            00000000-0000-0000-0000-000000000000; Reason: ({\r\n  \"Errors\": [\r\n    \"The unique index cannot be modified. To \
            change the unique index, remove the collection and re-create a new one.\"\r\n  ]\r\n});",
};
const ORDER_BY: Rule = Rule {
    what: "a sort by a field without an index",
    code: Code::BadValue,
    words: "Error=2, Details='Response status code does not indicate success: BadRequest (400); Substatus: 0; ActivityId: \
            00000000-0000-0000-0000-000000000000; Reason: ({\r\n  \"Errors\": [\r\n    \"The index path corresponding to the \
            specified order-by item is excluded.\"\r\n  ]\r\n});",
};
const COMPOSITE: Rule = Rule {
    what: "a sort by several fields without their compound index",
    code: Code::BadValue,
    words: "Error=2, Details='Response status code does not indicate success: BadRequest (400); Substatus: 0; ActivityId: \
            00000000-0000-0000-0000-000000000000; Reason: ({\r\n  \"Errors\": [\r\n    \"The order by query does not have a \
            corresponding composite index that it can be served from.\"\r\n  ]\r\n});",
};
const LOOKUP: Rule = Rule {
    what: "$lookup with let or pipeline",
    code: Code::BadValue,
    words: "let is not supported",
};

/// Every rule.
pub static RULES: &[Rule] = &[
    COMMAND, RETRYABLE, SIZE, TTL, SPARSE, KIND, UNIQUE, ORDER_BY, COMPOSITE, LOOKUP,
];

/// Commands that the service has not, by their names.
const COMMANDS: &[&str] = &[
    "collMod",
    "convertToCapped",
    "dataSize",
    "dbHash",
    "killOp",
    "mapReduce",
    "profile",
    "renameCollection",
];

/// The largest document that it stores.
const MAX_DOCUMENT: usize = 2 * 1024 * 1024;

// === impl Rule ===

impl Rule {
    fn error(&self) -> Error {
        Error::new(self.code, self.words)
    }
}

pub fn check_command(name: &str) -> Result<()> {
    if COMMANDS.contains(&name) {
        return Err(Error::new(
            COMMAND.code,
            format!("Command {name} {}", COMMAND.words),
        ));
    }
    Ok(())
}

/// A write that could be repeated is refused, whether it is or not.
pub fn refuse_retryable() -> Error {
    RETRYABLE.error()
}

pub fn check_size(bytes: usize) -> Result<()> {
    if bytes > MAX_DOCUMENT {
        return Err(SIZE.error());
    }
    Ok(())
}

/// One entry of createIndexes.
pub fn check_index(spec: Doc<'_>, has_documents: bool) -> Result<()> {
    let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
    for elem in key {
        if let Some(kind) = elem.value.as_str()
            && kind != "2dsphere"
        {
            return Err(Error::new(KIND.code, format!("{} {kind}", KIND.words)));
        }
    }
    let says = |option: &str| spec.get(option).as_bool() == Some(true);
    if says("sparse") {
        return Err(SPARSE.error());
    }
    let on_ts = key.first().is_some_and(|elem| elem.name() == "_ts");
    if spec.has("expireAfterSeconds") && !on_ts {
        return Err(TTL.error());
    }
    if says("unique") && has_documents {
        return Err(UNIQUE.error());
    }
    Ok(())
}

/// A sort, and the keys of the indexes that could serve it.
pub fn check_sort<'k>(sort: Doc<'_>, mut keys: impl Iterator<Item = Doc<'k>>) -> Result<()> {
    let Some(first) = sort.first() else {
        return Ok(());
    };
    if sort.count() == 1 {
        let free = first.name() == "_id" || first.name().starts_with('$');
        let serves = |key: Doc<'_>| {
            key.first()
                .is_some_and(|elem| elem.name() == first.name() || elem.name() == "$**")
        };
        return match free || keys.any(serves) {
            true => Ok(()),
            false => Err(ORDER_BY.error()),
        };
    }
    match keys.any(|key| leads(key, sort)) {
        true => Ok(()),
        false => Err(COMPOSITE.error()),
    }
}

/// Whether a key begins with these fields, all in these directions or all in the opposite ones.
fn leads(key: Doc<'_>, sort: Doc<'_>) -> bool {
    let falls =
        |elem: &crate::value::Elem<'_>| elem.value.as_num().is_some_and(|way| way.to_f64() < 0.0);
    let pairs: Vec<_> = key.iter().zip(sort.iter()).collect();
    pairs.len() == sort.count() && pairs.iter().all(|(key, sort)| key.name() == sort.name()) && {
        let turned = pairs.iter().filter(|(key, sort)| falls(key) != falls(sort));
        let turned = turned.count();
        turned == 0 || turned == pairs.len()
    }
}

/// The stages of a pipeline.
pub fn check_pipeline(stages: Doc<'_>) -> Result<()> {
    for stage in stages {
        let lookup = stage
            .value
            .as_doc()
            .and_then(|stage| stage.get("$lookup").as_doc());
        if lookup.is_some_and(|lookup| lookup.has("let") || lookup.has("pipeline")) {
            return Err(LOOKUP.error());
        }
    }
    Ok(())
}

/// The sort that a pipeline's source has to serve: one that nothing but filters stands before.
pub fn leading_sort(stages: Doc<'_>) -> Option<Doc<'_>> {
    for stage in stages {
        let stage = stage.value.as_doc()?.first()?;
        match stage.name() {
            "$match" => {}
            "$sort" => return stage.value.as_doc(),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;
    use crate::value::DocBuf;

    #[test]
    fn which_indexes_are_refused() {
        let rows = [
            (doc! {"key": {"a": 1}}, false, None),
            (doc! {"key": {"a": 1}, "unique": true}, false, None),
            (doc! {"key": {"a": 1}, "unique": true}, true, Some(13)),
            (doc! {"key": {"a": 1}, "sparse": true}, false, Some(67)),
            (doc! {"key": {"a": "text"}}, false, Some(67)),
            (doc! {"key": {"a": "hashed"}}, false, Some(67)),
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
        for (spec, filled, code) in rows {
            let spec = DocBuf::from(spec);
            let got = check_index(spec.as_doc(), filled).err();
            assert_eq!(got.map(|error| error.code().number()), code, "{spec}");
        }
    }

    #[test]
    fn which_sorts_have_their_index() {
        let rows: &[(Document, Document, bool)] = &[
            (doc! {"a": 1}, doc! {"a": -1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": 1}, true),
            (doc! {"b": 1, "a": 1}, doc! {"a": 1}, false),
            (doc! {"$**": 1}, doc! {"a": 1}, true),
            (doc! {"x": 1}, doc! {"_id": -1}, true),
            (doc! {"x": 1}, doc! {}, true),
            (doc! {"x": 1}, doc! {"$natural": 1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": 1, "b": 1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": -1, "b": -1}, true),
            (doc! {"a": 1, "b": 1}, doc! {"a": 1, "b": -1}, false),
            (doc! {"a": 1, "b": -1}, doc! {"a": -1, "b": 1}, true),
            (doc! {"a": 1}, doc! {"a": 1, "b": 1}, false),
        ];
        for (key, sort, served) in rows {
            let (key, sort) = (DocBuf::from(key.clone()), DocBuf::from(sort.clone()));
            let got = check_sort(sort.as_doc(), std::iter::once(key.as_doc()));
            assert_eq!(got.is_ok(), *served, "{key} {sort}");
        }
    }

    #[test]
    fn which_pipelines_are_refused() {
        let stages = |stages: Vec<Document>| DocBuf::from(doc! {"p": stages});
        let plain = stages(vec![
            doc! {"$match": {}},
            doc! {"$sort": {"a": 1}},
            doc! {"$lookup": {"from": "x", "localField": "a", "foreignField": "b", "as": "c"}},
        ]);
        let plain = plain.as_doc().get("p").as_array().unwrap();
        assert!(check_pipeline(plain).is_ok());
        assert_eq!(leading_sort(plain).map(|sort| sort.count()), Some(1));
        let rich = stages(vec![
            doc! {"$lookup": {"from": "x", "pipeline": [], "as": "c"}},
        ]);
        let rich = rich.as_doc().get("p").as_array().unwrap();
        assert!(check_pipeline(rich).is_err());
        assert_eq!(leading_sort(rich).map(|sort| sort.count()), None);
        assert!(RULES.iter().all(|rule| !rule.what.is_empty()));
        assert_eq!(
            check_command("collMod").unwrap_err().message(),
            "Command collMod not supported."
        );
        assert!(check_command("find").is_ok());
    }
}
