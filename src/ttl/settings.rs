//! The TTL settings as clients write and read them: `DefaultTTL`, the indexing mode that it needs, and TTL indexes on
//! dates.

use super::DefaultTtl;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, TS_FIELD, ValueRef};

/// The name of the index on `_ts` if the client gave none.
pub const TS_INDEX: &str = "_ts_1";

/// The index that shows `DefaultTTL` to clients.
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

/// The command that sets `expireAfterSeconds` of an index. MongoDB has a different code and message for each.
#[derive(Clone, Copy)]
pub enum Expiry<'a> {
    /// createIndexes, with the whole specification.
    Create(Doc<'a>),
    /// collMod, which reduces a number that is too large to the largest one.
    Change,
}

/// Parses `defaultTtl` of create and collMod.
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

/// Parses whole seconds in the range of a default. (A decimal is accepted if it is a whole number.)
fn parse_seconds(value: ValueRef<'_>) -> Option<DefaultTtl> {
    DefaultTtl::from_seconds(value.as_num()?.to_i64_exact()?)
}

fn out_of_range(option: &str, value: ValueRef<'_>) -> String {
    format!("'{option}' must be -1 or a whole number from 1 to 2147483647, but found: {value}")
}

/// Returns whether `_ts` is the only field of an index key.
pub fn is_ts_key(key: Doc<'_>) -> bool {
    let mut fields = key.iter();
    fields.next().is_some_and(|elem| elem.name() == TS_FIELD) && fields.next().is_none()
}

/// Returns whether an index key names `_ts` at all.
pub fn names_ts(key: Doc<'_>) -> bool {
    key.iter().any(|elem| {
        let mut parts = elem.name().split('.');
        parts.next() == Some(TS_FIELD)
    })
}

/// Checks that the indexing mode allows a default: without an index, expired documents could not be found.
pub fn check_mode(mode: Option<IndexingMode>, default: DefaultTtl, code: Code) -> Result<()> {
    if mode == Some(IndexingMode::None) && default != DefaultTtl::Off {
        return Err(Error::new(
            code,
            "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection",
        ));
    }
    Ok(())
}

// === impl Expiry ===

impl Expiry<'_> {
    /// Parses `expireAfterSeconds` of the index on `_ts`, which is the default.
    pub fn parse_default(self, value: ValueRef<'_>) -> Result<DefaultTtl> {
        parse_seconds(value)
            .ok_or_else(|| Error::new(self.code(), out_of_range("expireAfterSeconds", value)))
    }

    /// Parses `expireAfterSeconds` of a new index whose key names `_ts`. Only a plain one can be the default: `restricted`
    /// says that it is unique, sparse, hidden or partial.
    pub fn parse_ts_index(
        self,
        value: ValueRef<'_>,
        key: Doc<'_>,
        restricted: bool,
    ) -> Result<DefaultTtl> {
        if !is_ts_key(key) {
            return Err(self.refused(
                "TTL indexes are single-field indexes, compound indexes do not support TTL",
            ));
        }
        let plain = key.iter().all(|elem| elem.value.ty().is_number());
        if !plain || restricted {
            return Err(self.refused(
                "The TTL index on _ts sets the collection's default: it cannot be hashed, text, unique, sparse, hidden or partial",
            ));
        }
        self.parse_default(value)
    }

    /// Parses `expireAfterSeconds` of an index on dates: 0 … 2147483647. Fractions are cut off.
    pub fn parse(self, value: ValueRef<'_>, key: Doc<'_>) -> Result<i32> {
        let of_id = key.count() == 1 && !key.get("_id").is_missing();
        match self {
            // createIndexes does not check here whether `_id` may have a TTL, and it checks the number first.
            Self::Create(_) => {
                let seconds = self.seconds(value)?;
                self.check_single(key).map(|()| seconds)
            }
            Self::Change if of_id => {
                Err(self.refused("the _id field does not support TTL indexes"))
            }
            Self::Change => self.check_single(key).and_then(|()| self.seconds(value)),
        }
    }

    pub fn seconds(self, value: ValueRef<'_>) -> Result<i32> {
        let out_of_range = || {
            self.refused(format!(
                "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number than {value}"
            ))
        };
        let number = match (self, value.as_num()) {
            (_, Some(number)) => number,
            (Self::Change, None) => return Err(out_of_range()),
            (Self::Create(_), None) => {
                return Err(self.refused(format!(
                    "TTL index 'expireAfterSeconds' option must be numeric, but received a type of '{}'",
                    value.ty().alias()
                )));
            }
        };
        let seconds = match self {
            Self::Create(_) if number.is_nan() => return Err(out_of_range()),
            Self::Create(_) => number.to_i64_saturating(),
            Self::Change => number.to_i64_saturating().min(i32::MAX.into()),
        };
        let seconds = i32::try_from(seconds).ok().filter(|&n| n >= 0);
        seconds.ok_or_else(out_of_range)
    }

    fn check_single(self, key: Doc<'_>) -> Result<()> {
        match key.count() {
            1 => Ok(()),
            _ => Err(self.refused(
                "TTL indexes are single-field indexes, compound indexes do not support TTL",
            )),
        }
    }

    fn code(self) -> Code {
        match self {
            Self::Create(_) => Code::CannotCreateIndex,
            Self::Change => Code::InvalidOptions,
        }
    }

    fn refused(self, why: impl std::fmt::Display) -> Error {
        let message = match self {
            Self::Create(spec) => format!("{why}. Index spec: {spec}"),
            Self::Change => why.to_string(),
        };
        Error::new(self.code(), message)
    }
}

// === impl TsIndex ===

impl TsIndex {
    /// Creates the index with the client's name and key, or with the usual ones.
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

#[cfg(test)]
mod tests {
    use super::*;
    use bson::{Bson, doc};

    #[test]
    fn each_command_has_its_own_message_for_a_wrong_expiry() {
        let (one, id, two) = (
            doc! {"at": 1},
            doc! {"_id": "hashed"},
            doc! {"at": 1, "b": 1},
        );
        let acceptable = "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a different number than";
        let numeric = "TTL index 'expireAfterSeconds' option must be numeric, but received a type of 'string'";
        let single = "TTL indexes are single-field indexes, compound indexes do not support TTL";
        let of_id = "the _id field does not support TTL indexes";
        let max = i32::MAX;
        // The results of createIndexes and of collMod.
        type Parsed = Result<i32, &'static str>;
        let rows: &[(&bson::Document, Bson, Parsed, Parsed)] = &[
            (&one, 0.into(), Ok(0), Ok(0)),
            (&one, max.into(), Ok(max), Ok(max)),
            (&one, 1.9.into(), Ok(1), Ok(1)),
            (&one, (-1).into(), Err(acceptable), Err(acceptable)),
            (&one, (1_i64 << 31).into(), Err(acceptable), Ok(max)),
            (&one, f64::INFINITY.into(), Err(acceptable), Ok(max)),
            (&one, f64::NAN.into(), Err(acceptable), Ok(0)),
            (&one, "1".into(), Err(numeric), Err(acceptable)),
            (&id, 1.into(), Ok(1), Err(of_id)),
            (&two, 1.into(), Err(single), Err(single)),
            (&two, "1".into(), Err(numeric), Err(single)),
        ];
        let spec = DocBuf::from(doc! {"name": "n"});
        for (key, value, create, change) in rows {
            let key = DocBuf::from((*key).clone());
            let given = DocBuf::from(doc! {"value": value.clone()});
            let given = given.as_doc().get("value");
            for (setter, code, end, expected) in [
                (
                    Expiry::Create(spec.as_doc()),
                    Code::CannotCreateIndex,
                    ". Index spec: { name: \"n\" }",
                    create,
                ),
                (Expiry::Change, Code::InvalidOptions, "", change),
            ] {
                let parsed = setter.parse(given, key.as_doc()).map_err(|error| {
                    assert_eq!(error.code(), code, "{error}");
                    error.message().to_owned()
                });
                let expected = expected.map_err(|words| match words == acceptable {
                    true => format!("{words} {given}{end}"),
                    false => format!("{words}{end}"),
                });
                assert_eq!(parsed, expected, "{key:?} {value}");
            }
        }
    }
}
