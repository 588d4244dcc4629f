//! A borrowed value: its type and its bytes.

use super::{Doc, Type, Value};

/// A borrowed value. `data` is the bytes that follow the name in BSON, of exactly the width of the type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ValueRef<'a> {
    ty: Type,
    data: &'a [u8],
}

// === impl ValueRef ===

impl<'a> ValueRef<'a> {
    pub const MISSING: ValueRef<'static> = ValueRef {
        ty: Type::Missing,
        data: &[],
    };
    pub const NULL: ValueRef<'static> = ValueRef {
        ty: Type::Null,
        data: &[],
    };
    pub const UNDEFINED: ValueRef<'static> = ValueRef {
        ty: Type::Undefined,
        data: &[],
    };

    #[inline]
    pub fn new(ty: Type, data: &'a [u8]) -> Self {
        Self { ty, data }
    }

    pub fn document(doc: Doc<'a>) -> Self {
        Self {
            ty: Type::Document,
            data: doc.bytes(),
        }
    }

    pub fn array(doc: Doc<'a>) -> Self {
        Self {
            ty: Type::Array,
            data: doc.bytes(),
        }
    }

    #[inline]
    pub fn ty(self) -> Type {
        self.ty
    }

    #[inline]
    pub fn data(self) -> &'a [u8] {
        self.data
    }

    #[inline]
    pub fn is_missing(self) -> bool {
        self.ty == Type::Missing
    }

    /// Returns the value, or null if it is missing.
    #[inline]
    pub fn or_null(self) -> Self {
        if self.is_missing() { Self::NULL } else { self }
    }

    /// Returns whether the value is null, undefined or missing, as `{a: null}` matches.
    #[inline]
    pub fn is_nullish(self) -> bool {
        matches!(self.ty, Type::Missing | Type::Null | Type::Undefined)
    }

    #[inline]
    fn fixed<const N: usize>(self) -> Option<[u8; N]> {
        self.data.get(..N)?.try_into().ok()
    }

    pub fn as_i32(self) -> Option<i32> {
        (self.ty == Type::Int32).then(|| self.fixed().map(i32::from_le_bytes))?
    }

    pub fn as_i64(self) -> Option<i64> {
        (self.ty == Type::Int64).then(|| self.fixed().map(i64::from_le_bytes))?
    }

    pub fn as_f64(self) -> Option<f64> {
        (self.ty == Type::Double).then(|| self.fixed().map(f64::from_le_bytes))?
    }

    pub fn as_bool(self) -> Option<bool> {
        (self.ty == Type::Bool).then(|| self.data.first().is_some_and(|&b| b != 0))
    }

    /// Returns a date in milliseconds since 1970.
    pub fn as_date(self) -> Option<i64> {
        (self.ty == Type::Date).then(|| self.fixed().map(i64::from_le_bytes))?
    }

    /// Returns (seconds, increment) of a timestamp.
    pub fn as_timestamp(self) -> Option<(u32, u32)> {
        let bits = (self.ty == Type::Timestamp).then(|| self.fixed().map(u64::from_le_bytes))??;
        Some(((bits >> 32) as u32, bits as u32))
    }

    pub fn as_oid(self) -> Option<[u8; 12]> {
        (self.ty == Type::ObjectId).then(|| self.fixed())?
    }

    /// Returns the 16 bytes of an IEEE decimal128 in BSON's (little-endian BID) form.
    pub fn as_decimal_bytes(self) -> Option<[u8; 16]> {
        (self.ty == Type::Decimal).then(|| self.fixed())?
    }

    /// Returns the bytes of a string, symbol or code, without the length prefix and the terminating zero.
    #[inline]
    pub fn text_bytes(self) -> Option<&'a [u8]> {
        match self.ty {
            Type::String | Type::Symbol | Type::Code => {
                let end = self.data.len().checked_sub(1)?;
                self.data.get(4..end)
            }
            _ => None,
        }
    }

    /// Returns a symbol as a string, and any other value as it is.
    pub fn symbol_as_string(self) -> Self {
        match self.ty {
            Type::Symbol => Self {
                ty: Type::String,
                ..self
            },
            _ => self,
        }
    }

    /// Returns the text of a string (not of a symbol or code).
    pub fn as_str(self) -> Option<&'a str> {
        if self.ty != Type::String {
            return None;
        }
        std::str::from_utf8(self.text_bytes()?).ok()
    }

    pub fn as_doc(self) -> Option<Doc<'a>> {
        (self.ty == Type::Document).then(|| Doc::new(self.data))
    }

    /// Returns the elements of an array, as a document with the names "0", "1", ...
    pub fn as_array(self) -> Option<Doc<'a>> {
        (self.ty == Type::Array).then(|| Doc::new(self.data))
    }

    /// Returns (subtype, bytes) of a binary.
    pub fn as_binary(self) -> Option<(u8, &'a [u8])> {
        if self.ty != Type::Binary {
            return None;
        }
        Some((*self.data.get(4)?, self.data.get(5..)?))
    }

    /// Returns (pattern, options) of a regular expression.
    pub fn as_regex(self) -> Option<(&'a str, &'a str)> {
        if self.ty != Type::Regex {
            return None;
        }
        let mut parts = self.data.split(|&b| b == 0);
        let pattern = std::str::from_utf8(parts.next()?).ok()?;
        let options = std::str::from_utf8(parts.next()?).ok()?;
        Some((pattern, options))
    }

    /// Returns (code, scope) of code with scope.
    pub fn as_code_with_scope(self) -> Option<(&'a str, Doc<'a>)> {
        if self.ty != Type::CodeWithScope {
            return None;
        }
        // int32 of the whole, int32 of the code and its zero, code, zero, scope.
        let length: [u8; 4] = self.data.get(4..8)?.try_into().ok()?;
        let end = usize::try_from(i32::from_le_bytes(length))
            .ok()?
            .checked_add(8)?;
        let code = self.data.get(8..end.checked_sub(1)?)?;
        Some((
            std::str::from_utf8(code).ok()?,
            Doc::new(self.data.get(end..)?),
        ))
    }

    /// Returns (namespace, ObjectId) of the deprecated pointer type.
    pub fn as_db_pointer(self) -> Option<(&'a str, [u8; 12])> {
        if self.ty != Type::DbPointer {
            return None;
        }
        let (namespace, oid) = self.data.split_last_chunk::<12>()?;
        let namespace = namespace.get(4..namespace.len().checked_sub(1)?)?;
        Some((std::str::from_utf8(namespace).ok()?, *oid))
    }

    pub fn to_value(self) -> Value {
        Value::new(self.ty, self.data)
    }
}

impl std::fmt::Debug for ValueRef<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ty {
            Type::Document => self.as_doc().fmt(f),
            Type::Array => f
                .debug_list()
                .entries(self.as_array().into_iter().flatten().map(|elem| elem.value))
                .finish(),
            Type::String => self.as_str().fmt(f),
            Type::Int32 => self.as_i32().fmt(f),
            Type::Int64 => self.as_i64().fmt(f),
            Type::Double => self.as_f64().fmt(f),
            Type::Bool => self.as_bool().fmt(f),
            ty => write!(f, "{}({:02x?})", ty.alias(), self.data),
        }
    }
}
