//! The BSON types: tag, alias, rank in the order of types, width.

use super::doc::zero_at;

/// A BSON type tag. `Missing` (BSON's end-of-object, 0) means that there is no such field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Type {
    Missing = 0,
    Double = 1,
    String = 2,
    Document = 3,
    Array = 4,
    Binary = 5,
    Undefined = 6,
    ObjectId = 7,
    Bool = 8,
    Date = 9,
    Null = 10,
    Regex = 11,
    DbPointer = 12,
    Code = 13,
    Symbol = 14,
    CodeWithScope = 15,
    Int32 = 16,
    Timestamp = 17,
    Int64 = 18,
    Decimal = 19,
    MaxKey = 127,
    MinKey = 255,
}

/// The subtype of binary data that is a UUID.
pub const UUID_SUBTYPE: u8 = 4;

/// All types that a document can contain, with the alias that `$type` and error messages use.
pub const TYPES: &[(Type, &str)] = &[
    (Type::Double, "double"),
    (Type::String, "string"),
    (Type::Document, "object"),
    (Type::Array, "array"),
    (Type::Binary, "binData"),
    (Type::Undefined, "undefined"),
    (Type::ObjectId, "objectId"),
    (Type::Bool, "bool"),
    (Type::Date, "date"),
    (Type::Null, "null"),
    (Type::Regex, "regex"),
    (Type::DbPointer, "dbPointer"),
    (Type::Code, "javascript"),
    (Type::Symbol, "symbol"),
    (Type::CodeWithScope, "javascriptWithScope"),
    (Type::Int32, "int"),
    (Type::Timestamp, "timestamp"),
    (Type::Int64, "long"),
    (Type::Decimal, "decimal"),
    (Type::MaxKey, "maxKey"),
    (Type::MinKey, "minKey"),
];

// === impl Type ===

impl Type {
    /// Returns the type with this tag byte, or `None` for an unknown byte. 0 is unknown, too: it ends a document.
    #[inline]
    pub fn from_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            1 => Self::Double,
            2 => Self::String,
            3 => Self::Document,
            4 => Self::Array,
            5 => Self::Binary,
            6 => Self::Undefined,
            7 => Self::ObjectId,
            8 => Self::Bool,
            9 => Self::Date,
            10 => Self::Null,
            11 => Self::Regex,
            12 => Self::DbPointer,
            13 => Self::Code,
            14 => Self::Symbol,
            15 => Self::CodeWithScope,
            16 => Self::Int32,
            17 => Self::Timestamp,
            18 => Self::Int64,
            19 => Self::Decimal,
            127 => Self::MaxKey,
            255 => Self::MinKey,
            _ => return None,
        })
    }

    #[inline]
    pub fn tag(self) -> u8 {
        self as u8
    }

    /// Returns the alias that `$type` accepts and error messages print.
    pub fn alias(self) -> &'static str {
        TYPES
            .iter()
            .find(|(ty, _)| *ty == self)
            .map_or("missing", |(_, alias)| alias)
    }

    pub fn from_alias(alias: &str) -> Option<Self> {
        TYPES
            .iter()
            .find(|(_, name)| *name == alias)
            .map(|(ty, _)| *ty)
    }

    #[inline]
    pub fn is_number(self) -> bool {
        matches!(
            self,
            Self::Double | Self::Int32 | Self::Int64 | Self::Decimal
        )
    }

    /// Returns the rank of this type in the order of all values. Types with the same rank compare by value.
    #[inline]
    pub fn rank(self) -> u8 {
        match self {
            Self::MinKey => 1,
            Self::Missing | Self::Undefined => 2,
            Self::Null => 3,
            Self::Double | Self::Int32 | Self::Int64 | Self::Decimal => 4,
            Self::String | Self::Symbol => 5,
            Self::Document => 6,
            Self::Array => 7,
            Self::Binary => 8,
            Self::ObjectId => 9,
            Self::Bool => 10,
            Self::Date => 11,
            Self::Timestamp => 12,
            Self::Regex => 13,
            Self::DbPointer => 14,
            Self::Code => 15,
            Self::CodeWithScope => 16,
            Self::MaxKey => 17,
        }
    }
}

/// Returns the type of the value at the start of `rest`, and how many bytes it takes. The width may exceed `rest`, which
/// the caller detects when it slices.
///
/// This uses branches instead of a table of widths. The processor predicts them when documents have the same shape, which
/// makes a walk a quarter faster.
#[inline]
pub(super) fn type_and_width(tag: u8, rest: &[u8]) -> Option<(Type, usize)> {
    // A negative length reads as one that exceeds every slice.
    let prefixed = |more: usize| {
        let length = u32::from_le_bytes(*rest.first_chunk()?);
        (length as usize).checked_add(more)
    };
    Some(match tag {
        1 => (Type::Double, 8),
        2 => (Type::String, prefixed(4)?),
        3 => (Type::Document, prefixed(0)?),
        4 => (Type::Array, prefixed(0)?),
        5 => (Type::Binary, prefixed(5)?),
        6 => (Type::Undefined, 0),
        7 => (Type::ObjectId, 12),
        8 => (Type::Bool, 1),
        9 => (Type::Date, 8),
        10 => (Type::Null, 0),
        11 => (Type::Regex, regex_width(rest)?),
        12 => (Type::DbPointer, prefixed(16)?),
        13 => (Type::Code, prefixed(4)?),
        14 => (Type::Symbol, prefixed(4)?),
        15 => (Type::CodeWithScope, prefixed(0)?),
        16 => (Type::Int32, 4),
        17 => (Type::Timestamp, 8),
        18 => (Type::Int64, 8),
        19 => (Type::Decimal, 16),
        127 => (Type::MaxKey, 0),
        255 => (Type::MinKey, 0),
        _ => return None,
    })
}

/// Returns the width of a regular expression. A separate function keeps the loop of the iterator small.
#[cold]
#[inline(never)]
fn regex_width(rest: &[u8]) -> Option<usize> {
    let pattern = zero_at(rest)? + 1;
    Some(pattern + zero_at(rest.get(pattern..)?)? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_aliases_round_trip() {
        for &(ty, alias) in TYPES {
            assert_eq!(Type::from_tag(ty.tag()), Some(ty));
            assert_eq!(Type::from_alias(alias), Some(ty));
            assert_eq!(ty.alias(), alias);
        }
        assert_eq!(Type::from_tag(0), None);
        assert_eq!(Type::from_tag(20), None);
    }
}
