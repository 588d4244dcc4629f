//! Validates bytes that arrive from outside. Afterwards every reader in this crate may use a document's bytes as they are.
//!
//! The check is iterative, because a client chooses the depth. It takes one pass, because all incoming bytes go through it.

use std::fmt;

use smallvec::SmallVec;

use super::{
    Type,
    doc::{Word, zero_at},
};
use crate::error::{Code, Error};

/// The limits of a document.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How deep documents and arrays may be nested, including the outermost document.
    pub depth: usize,
    /// The total number of bytes.
    pub size: usize,
}

/// The error that bytes are not a valid document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid {
    pub fault: ValidationError,
    /// The offset of the byte at which the fault was found.
    pub at: usize,
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationError {
    /// The bytes end before the document does, or a length exceeds its document.
    Truncated,
    /// Bytes follow the end, or a length does not match the contents.
    Length,
    /// A type byte that BSON does not define.
    Type,
    /// A name or text is not UTF-8.
    Utf8,
    /// A text does not end with a zero.
    Terminator,
    /// A boolean that is neither 0 nor 1.
    Bool,
    TooDeep,
    TooLarge,
}

// === impl Limits ===

impl Limits {
    /// MongoDB's 200 levels, and at most as many bytes as the longest message.
    pub const DEFAULT: Self = Self {
        depth: 200,
        size: 48_000_000,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

// === impl Invalid ===

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.fault {
            ValidationError::Truncated => "incomplete BSON",
            ValidationError::Length => "length does not match the contents",
            ValidationError::Type => "unrecognized BSON type",
            ValidationError::Utf8 => "text is not valid UTF-8",
            ValidationError::Terminator => "text is not null terminated",
            ValidationError::Bool => "boolean is neither 0 nor 1",
            ValidationError::TooDeep => "exceeded maximum nesting depth",
            ValidationError::TooLarge => "document is too large",
        };
        write!(f, "invalid BSON: {what} at offset {}", self.at)
    }
}

impl std::error::Error for Invalid {}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        let code = match invalid.fault {
            ValidationError::TooDeep => Code::Overflow,
            ValidationError::TooLarge => Code::BSONObjectTooLarge,
            _ => Code::InvalidBSON,
        };
        Self::new(code, invalid.to_string())
    }
}

/// Checks that `bytes` are exactly one complete document.
pub fn validate(bytes: &[u8], limits: Limits) -> Result<(), Invalid> {
    let fail = |fault, at| Err(Invalid { fault, at });
    if bytes.len() > limits.size {
        return fail(ValidationError::TooLarge, 0);
    }
    let Some(length) = length_at(bytes, 0) else {
        return fail(ValidationError::Truncated, 0);
    };
    if length > bytes.len() {
        return fail(ValidationError::Truncated, 0);
    }
    if length < 5 || length != bytes.len() {
        return fail(ValidationError::Length, 0);
    }
    // The positions of the terminating zeros of the enclosing documents; `end` is that of the innermost one.
    let mut outer: SmallVec<[usize; 16]> = SmallVec::new();
    let mut end = length - 1;
    let mut at = 4;
    loop {
        let Some(&tag) = bytes.get(at) else {
            return fail(ValidationError::Truncated, at);
        };
        if at == end {
            if tag != 0 {
                return fail(ValidationError::Length, at);
            }
            at += 1;
            match outer.pop() {
                Some(outer_end) => {
                    end = outer_end;
                    continue;
                }
                None => return Ok(()),
            }
        }
        let Some(ty) = Type::from_tag(tag) else {
            let early = tag == 0;
            return fail(
                if early {
                    ValidationError::Length
                } else {
                    ValidationError::Type
                },
                at,
            );
        };
        // From here on nothing may exceed `end`, the terminating zero of the enclosing document.
        let within = bytes.get(..end).unwrap_or_default();
        at += 1;
        at = cstring(within, at)?;
        let width = match ty {
            Type::Missing | Type::Undefined | Type::Null | Type::MinKey | Type::MaxKey => 0,
            Type::Int32 => 4,
            Type::Double | Type::Date | Type::Timestamp | Type::Int64 => 8,
            Type::ObjectId => 12,
            Type::Decimal => 16,
            Type::Bool => {
                if within.get(at).is_some_and(|&b| b > 1) {
                    return fail(ValidationError::Bool, at);
                }
                1
            }
            Type::String | Type::Code | Type::Symbol => {
                at = string(within, at)?;
                0
            }
            Type::Document | Type::Array => {
                at = nested(within, at, &mut outer, &mut end, limits)?;
                0
            }
            Type::Binary => {
                let Some(length) = length_at(within, at) else {
                    return fail(ValidationError::Truncated, at);
                };
                // Subtype 2 repeats the length inside.
                if within.get(at + 4) == Some(&2)
                    && length_at(within, at + 5).and_then(|inner| inner.checked_add(4))
                        != Some(length)
                {
                    return fail(ValidationError::Length, at);
                }
                length.saturating_add(5)
            }
            Type::DbPointer => {
                at = string(within, at)?;
                12
            }
            Type::Regex => {
                at = cstring(within, at)?;
                at = cstring(within, at)?;
                0
            }
            Type::CodeWithScope => {
                let start = at;
                let Some(length) = length_at(within, at) else {
                    return fail(ValidationError::Truncated, at);
                };
                at = string(within, at + 4)?;
                at = nested(within, at, &mut outer, &mut end, limits)?;
                // The scope must end where the whole value ends.
                if start.checked_add(length) != Some(end + 1) {
                    return fail(ValidationError::Length, start);
                }
                0
            }
        };
        if width > 0 {
            at = match at.checked_add(width) {
                Some(next) if next <= within.len() => next,
                _ => return fail(ValidationError::Truncated, at),
            };
        }
    }
}

#[inline]
fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    let length = bytes.get(at..)?.first_chunk::<4>()?;
    usize::try_from(i32::from_le_bytes(*length)).ok()
}

/// Enters the document that starts at `at` and returns the position of its first element.
fn nested(
    within: &[u8],
    at: usize,
    outer: &mut SmallVec<[usize; 16]>,
    end: &mut usize,
    limits: Limits,
) -> Result<usize, Invalid> {
    let fail = |fault| Err(Invalid { fault, at });
    let Some(length) = length_at(within, at) else {
        return fail(ValidationError::Truncated);
    };
    if length < 5 {
        return fail(ValidationError::Length);
    }
    match at.checked_add(length) {
        Some(after) if after <= within.len() => {
            if outer.len() + 2 > limits.depth {
                return fail(ValidationError::TooDeep);
            }
            outer.push(*end);
            *end = after - 1;
            Ok(at + 4)
        }
        _ => fail(ValidationError::Truncated),
    }
}

/// Checks a zero-terminated text and returns the position after it.
#[inline]
fn cstring(within: &[u8], at: usize) -> Result<usize, Invalid> {
    let rest = within.get(at..).unwrap_or_default();
    // Most names are ASCII and end within eight bytes: one word shows both.
    if let Some(word) = rest.first_chunk().map(Word::new)
        && let Some(end) = word.zero()
        && word.is_ascii(end)
    {
        return Ok(at + end + 1);
    }
    let fail = |fault| Err(Invalid { fault, at });
    match zero_at(rest) {
        None => fail(ValidationError::Truncated),
        Some(end) if std::str::from_utf8(rest.get(..end).unwrap_or_default()).is_err() => {
            fail(ValidationError::Utf8)
        }
        Some(end) => Ok(at + end + 1),
    }
}

/// Checks a text with a length prefix and a terminating zero, and returns the position after it.
#[inline]
fn string(within: &[u8], at: usize) -> Result<usize, Invalid> {
    let fail = |fault| Err(Invalid { fault, at });
    let Some(length) = length_at(within, at) else {
        return fail(ValidationError::Truncated);
    };
    let Some(text) = within.get(at + 4..).and_then(|rest| rest.get(..length)) else {
        return fail(ValidationError::Truncated);
    };
    match text.split_last() {
        None => fail(ValidationError::Length),
        // The check for ASCII is much faster, and it nearly always suffices.
        Some((0, text)) if text.is_ascii() || std::str::from_utf8(text).is_ok() => {
            Ok(at + 4 + length)
        }
        Some((0, _)) => fail(ValidationError::Utf8),
        Some(_) => fail(ValidationError::Terminator),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};
    use proptest::prelude::*;

    use super::*;
    use crate::value::{Doc, DocBuf, Value};

    fn everything() -> Vec<u8> {
        doc! {
            "d": 1.5, "s": "text \u{e9}", "o": {"a": {"b": []}}, "a": [1, "x", {"y": 2}],
            "b": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2, 3] },
            "u": Bson::Undefined, "i": bson::oid::ObjectId::new(), "t": true, "m": bson::DateTime::from_millis(1), "n": null,
            "r": bson::Regex { pattern: "a".try_into().unwrap(), options: "i".try_into().unwrap() },
            "j": Bson::JavaScriptCode("x".into()), "y": Bson::Symbol("s".into()),
            "w": bson::JavaScriptCodeWithScope { code: "c".into(), scope: doc! {"z": 1} },
            "4": 4, "8": 8i64, "ts": bson::Timestamp { time: 1, increment: 2 },
            "dec": "1.5".parse::<bson::Decimal128>().unwrap(), "max": Bson::MaxKey, "min": Bson::MinKey,
        }
        .to_vec()
        .unwrap()
    }

    fn fault(bytes: &[u8]) -> Option<ValidationError> {
        validate(bytes, Limits::DEFAULT)
            .err()
            .map(|invalid| invalid.fault)
    }

    fn field(ty: Type, data: &[u8]) -> Vec<u8> {
        let value = Value::new(ty, data);
        DocBuf::build(|d| {
            d.put("a", value.as_ref());
        })
        .into_bytes()
    }

    #[test]
    fn complete_documents_are_valid_and_truncated_ones_are_not() {
        let complete = everything();
        assert_eq!(fault(&complete), None);
        for cut in 0..complete.len() {
            assert!(fault(&complete[..cut]).is_some(), "{cut}");
            let mut short = complete[..cut].to_vec();
            if cut >= 4 {
                short[..4].copy_from_slice(&(cut as i32).to_le_bytes());
                assert!(fault(&short).is_some(), "{cut} with its length");
            }
        }
        let mut long = complete.clone();
        long.push(0);
        assert_eq!(fault(&long), Some(ValidationError::Length));
    }

    #[test]
    fn each_validation_error_has_a_name() {
        for (bytes, expected) in [
            (vec![], ValidationError::Truncated),
            (vec![4, 0, 0, 0], ValidationError::Length),
            (vec![5, 0, 0, 0, 1], ValidationError::Length),
            (vec![255, 255, 255, 255, 0], ValidationError::Truncated),
            (vec![8, 0, 0, 0, 0x20, b'a', 0, 0], ValidationError::Type),
            (vec![8, 0, 0, 0, 0, b'a', 0, 0], ValidationError::Length),
            (vec![8, 0, 0, 0, 10, 0xff, 0, 0], ValidationError::Utf8),
            (field(Type::Bool, &[2]), ValidationError::Bool),
            (
                field(Type::String, &[2, 0, 0, 0, 0xff, 0]),
                ValidationError::Utf8,
            ),
            (
                field(Type::String, &[2, 0, 0, 0, b'a', b'b']),
                ValidationError::Terminator,
            ),
            (field(Type::String, &[0, 0, 0, 0]), ValidationError::Length),
            (
                field(Type::String, &[9, 0, 0, 0, b'a', 0]),
                ValidationError::Truncated,
            ),
            (
                field(Type::String, &[255, 255, 255, 255, b'a', 0]),
                ValidationError::Truncated,
            ),
            (
                field(Type::Binary, &[255, 255, 255, 127, 0]),
                ValidationError::Truncated,
            ),
            (
                field(Type::Binary, &[5, 0, 0, 0, 2, 9, 0, 0, 0, 1]),
                ValidationError::Length,
            ),
            (
                field(Type::Document, &[4, 0, 0, 0, 0]),
                ValidationError::Length,
            ),
            (
                field(
                    Type::CodeWithScope,
                    &[99, 0, 0, 0, 2, 0, 0, 0, b'c', 0, 5, 0, 0, 0, 0],
                ),
                ValidationError::Length,
            ),
        ] {
            assert_eq!(fault(&bytes), Some(expected), "{bytes:?}");
        }
        assert_eq!(
            fault(&field(
                Type::CodeWithScope,
                &[15, 0, 0, 0, 2, 0, 0, 0, b'c', 0, 5, 0, 0, 0, 0]
            )),
            None
        );
    }

    #[test]
    fn depth_is_bounded() {
        let deep = |levels: usize| {
            let mut bytes = DocBuf::new().into_bytes();
            for _ in 1..levels {
                bytes = field(Type::Document, &bytes);
            }
            bytes
        };
        assert_eq!(fault(&deep(200)), None);
        assert_eq!(fault(&deep(201)), Some(ValidationError::TooDeep));
    }

    proptest! {
        /// Bytes that pass can be read to the last one. Bytes that do not pass cause no panic.
        #[test]
        fn flipped_bytes(at in 0usize..400, byte: u8) {
            let mut bytes = everything();
            let at = at % bytes.len();
            bytes[at] = byte;
            let walked = walk(Doc::new(&bytes));
            if validate(&bytes, Limits::DEFAULT).is_ok() {
                prop_assert!(walked);
            }
        }
    }

    fn walk(doc: Doc<'_>) -> bool {
        let mut iter = doc.iter();
        let mut complete = true;
        for elem in iter.by_ref() {
            complete &= match elem.value.ty() {
                Type::Document | Type::Array => walk(Doc::new(elem.value.data())),
                Type::String => elem.value.as_str().is_some(),
                _ => true,
            };
        }
        complete && iter.rest().is_empty()
    }
}
