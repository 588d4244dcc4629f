//! The rules of strict mode.

use crate::error::{Code, Error};

/// Something that the service refuses.
#[derive(Debug)]
pub struct StrictRule {
    /// A description for the README.
    pub what: &'static str,
    pub code: Code,
    /// The message, with `{}` in place of the name that it is about.
    pub words: &'static str,
    /// The status of the storage behind the service, if the message comes from there and the service passes it on.
    status: Option<&'static str>,
    /// The message was seen on the wire. Other messages are modelled after those.
    pub seen: bool,
}

pub const COMMAND: StrictRule = StrictRule {
    what: "`collMod`, `renameCollection` and other commands that the service does not have",
    code: Code::CommandNotSupported,
    words: "Command {} not supported.",
    status: None,
    seen: true,
};
pub const RETRYABLE: StrictRule = StrictRule {
    what: "retryable writes",
    code: Code::BadValue,
    words: "Retryable writes are not supported. Please disable retryable writes by specifying \"retrywrites=false\" in the \
            connection string or an equivalent driver specific config.",
    status: None,
    seen: true,
};
pub const SIZE: StrictRule = StrictRule {
    what: "documents over 2 MB, also if an update, `$merge` or `$out` makes them that large",
    code: Code::InvalidLength,
    words: "Request size is too large",
    status: Some("RequestEntityTooLarge (413)"),
    seen: true,
};
pub const TTL: StrictRule = StrictRule {
    what: "TTL indexes on fields other than `_ts`",
    code: Code::BadValue,
    words: "The 'expireAfterSeconds' option is supported on '_ts' field only.",
    status: None,
    seen: true,
};
pub const SPARSE: StrictRule = StrictRule {
    what: "sparse indexes",
    code: Code::BadValue,
    words: "The 'sparse' option is currently not supported.",
    status: None,
    seen: false,
};
pub const KIND: StrictRule = StrictRule {
    what: "text, hashed and 2d indexes",
    code: Code::CommandNotSupported,
    words: "'{}' is not supported",
    status: None,
    seen: true,
};
pub const UNIQUE: StrictRule = StrictRule {
    what: "a new unique index on a collection that has documents",
    code: Code::Unauthorized,
    words: "The unique index cannot be modified. To change the unique index, remove the collection and re-create a new one.",
    status: Some("Forbidden (403)"),
    seen: true,
};
pub const ORDER_BY: StrictRule = StrictRule {
    what: "a sort by a field without an index",
    code: Code::BadValue,
    words: "The index path corresponding to the specified order-by item is excluded.",
    status: Some("BadRequest (400)"),
    seen: true,
};
pub const COMPOSITE: StrictRule = StrictRule {
    what: "a sort by several fields without their compound index, and any such sort of `findAndModify`",
    code: Code::BadValue,
    words: "The order by query does not have a corresponding composite index that it can be served from.",
    status: Some("BadRequest (400)"),
    seen: true,
};
pub const LOOKUP: StrictRule = StrictRule {
    what: "`$lookup` with `let` or `pipeline`",
    code: Code::FailedToParse,
    words: "Unrecognized parameter to $lookup: {}",
    status: None,
    seen: true,
};

/// All rules.
pub static RULES: &[StrictRule] = &[
    COMMAND, RETRYABLE, SIZE, TTL, SPARSE, KIND, UNIQUE, ORDER_BY, COMPOSITE, LOOKUP,
];

/// A placeholder: there is no activity to look up.
const ACTIVITY: &str = "00000000-0000-0000-0000-000000000000";

// === impl StrictRule ===

impl StrictRule {
    pub fn error(&self) -> Error {
        Error::new(self.code, self.message(self.words))
    }

    /// Returns the error about something with this name.
    pub fn about(&self, name: &str) -> Error {
        Error::new(self.code, self.message(&self.words.replace("{}", name)))
    }

    fn message(&self, words: &str) -> String {
        let Some(status) = self.status else {
            return words.to_owned();
        };
        format!(
            "Error={}, Details='Response status code does not indicate success: {status}; Substatus: 0; ActivityId: {ACTIVITY}; \
             Reason: (Message: {{\"Errors\":[\"{words}\"]}}\r\nActivityId: {ACTIVITY});",
            self.code.number()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_has_its_error() {
        for rule in RULES {
            assert!(!rule.what.is_empty() && !rule.words.is_empty(), "{rule:?}");
            assert_eq!(rule.error().code(), rule.code, "{rule:?}");
        }
        assert_eq!(KIND.about("text").message(), "'text' is not supported");
        let message = SIZE.error().message().to_owned();
        assert!(
            message.starts_with("Error=16, Details='Response status code does not indicate success: RequestEntityTooLarge (413); "),
            "{message}"
        );
        assert!(
            message.contains("{\"Errors\":[\"Request size is too large\"]}"),
            "{message}"
        );
    }
}
