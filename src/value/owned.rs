//! An owned value, and a value that is either owned or borrowed.

use smallvec::SmallVec;

use super::{Doc, Type, ValueRef};

/// An owned value, in the same form as a borrowed one: its type and its BSON bytes. Scalars need no allocation.
#[derive(Clone, PartialEq, Eq)]
pub struct Value {
    ty: Type,
    data: SmallVec<[u8; 16]>,
}

/// The result of an evaluation: a value inside its input, or a new one.
#[derive(Clone)]
pub enum Val<'a> {
    Ref(ValueRef<'a>),
    Own(Value),
}

// === impl Value ===

impl Value {
    #[inline]
    pub fn new(ty: Type, data: &[u8]) -> Self {
        Self {
            ty,
            data: SmallVec::from_slice(data),
        }
    }

    pub fn missing() -> Self {
        Self::new(Type::Missing, &[])
    }

    pub fn null() -> Self {
        Self::new(Type::Null, &[])
    }

    /// Creates a document from its complete bytes (a builder's result).
    pub fn document(bytes: Vec<u8>) -> Self {
        Self {
            ty: Type::Document,
            data: SmallVec::from_vec(bytes),
        }
    }

    /// Creates an array from the complete bytes of the document that contains its elements.
    pub fn array(bytes: Vec<u8>) -> Self {
        Self {
            ty: Type::Array,
            data: SmallVec::from_vec(bytes),
        }
    }

    pub fn string(text: &str) -> Self {
        let mut data = SmallVec::with_capacity(text.len() + 5);
        data.extend_from_slice(&(text.len() as i32 + 1).to_le_bytes());
        data.extend_from_slice(text.as_bytes());
        data.push(0);
        Self {
            ty: Type::String,
            data,
        }
    }

    pub fn binary(subtype: u8, bytes: &[u8]) -> Self {
        let mut data = SmallVec::with_capacity(bytes.len() + 5);
        data.extend_from_slice(&(bytes.len() as i32).to_le_bytes());
        data.push(subtype);
        data.extend_from_slice(bytes);
        Self {
            ty: Type::Binary,
            data,
        }
    }

    pub fn regex(pattern: &str, options: &str) -> Self {
        let mut data = SmallVec::with_capacity(pattern.len() + options.len() + 2);
        data.extend_from_slice(pattern.as_bytes());
        data.push(0);
        data.extend_from_slice(options.as_bytes());
        data.push(0);
        Self {
            ty: Type::Regex,
            data,
        }
    }

    pub fn int32(value: i32) -> Self {
        Self::new(Type::Int32, &value.to_le_bytes())
    }

    pub fn int64(value: i64) -> Self {
        Self::new(Type::Int64, &value.to_le_bytes())
    }

    pub fn double(value: f64) -> Self {
        Self::new(Type::Double, &value.to_le_bytes())
    }

    pub fn boolean(value: bool) -> Self {
        Self::new(Type::Bool, &[u8::from(value)])
    }

    /// Creates a date from milliseconds since 1970.
    pub fn date(millis: i64) -> Self {
        Self::new(Type::Date, &millis.to_le_bytes())
    }

    pub fn timestamp(seconds: u32, increment: u32) -> Self {
        Self::new(
            Type::Timestamp,
            &(u64::from(seconds) << 32 | u64::from(increment)).to_le_bytes(),
        )
    }

    pub fn oid(bytes: [u8; 12]) -> Self {
        Self::new(Type::ObjectId, &bytes)
    }

    /// Creates an IEEE decimal128 from BSON's (little-endian BID) bytes.
    pub fn decimal(bytes: [u8; 16]) -> Self {
        Self::new(Type::Decimal, &bytes)
    }

    #[inline]
    pub fn as_ref(&self) -> ValueRef<'_> {
        ValueRef::new(self.ty, &self.data)
    }

    pub fn ty(&self) -> Type {
        self.ty
    }

    pub fn is_missing(&self) -> bool {
        self.ty == Type::Missing
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_ref().fmt(f)
    }
}

// === impl Val ===

impl Val<'_> {
    pub const MISSING: Val<'static> = Val::Ref(ValueRef::MISSING);
    pub const NULL: Val<'static> = Val::Ref(ValueRef::NULL);

    #[inline]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Ref(value) => *value,
            Self::Own(value) => value.as_ref(),
        }
    }

    pub fn into_value(self) -> Value {
        match self {
            Self::Ref(value) => value.to_value(),
            Self::Own(value) => value,
        }
    }

    pub fn ty(&self) -> Type {
        self.as_ref().ty()
    }
}

impl<'a> From<ValueRef<'a>> for Val<'a> {
    fn from(value: ValueRef<'a>) -> Self {
        Self::Ref(value)
    }
}

impl From<Value> for Val<'_> {
    fn from(value: Value) -> Self {
        Self::Own(value)
    }
}

impl<'a> From<Doc<'a>> for Val<'a> {
    fn from(doc: Doc<'a>) -> Self {
        Self::Ref(ValueRef::document(doc))
    }
}

impl std::fmt::Debug for Val<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_ref().fmt(f)
    }
}
