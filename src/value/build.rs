//! Writes documents straight into a buffer: nested parts in place, and each length when its part is closed.

use super::doc::{EMPTY, Word};
use super::{Doc, Type, Value, ValueRef};

/// A writer of one document at the end of a buffer. Close it with [`DocBuilder::end`]. A builder that is dropped without it
/// closes itself, so that the buffer never contains half a document.
pub struct DocBuilder<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    closed: bool,
}

/// A writer of one array at the end of a buffer. It writes the names "0", "1", ... itself.
pub struct ArrayBuilder<'b> {
    doc: DocBuilder<'b>,
    next: u32,
}

/// An owned document: its bytes, always complete.
#[derive(Clone, PartialEq, Eq)]
pub struct DocBuf(Vec<u8>);

// === impl DocBuilder ===

impl<'b> DocBuilder<'b> {
    #[inline]
    pub fn begin(out: &'b mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        Self {
            out,
            start,
            closed: false,
        }
    }

    #[inline]
    fn head(&mut self, ty: Type, name: &str) {
        // A zero inside a name would end it early, and the rest would be read as something else.
        let text = match has_zero(name.as_bytes()) {
            false => name.as_bytes(),
            true => before_zero(name.as_bytes()),
        };
        self.out.reserve(text.len() + 2);
        self.out.push(ty.tag());
        self.out.extend_from_slice(text);
        self.out.push(0);
    }

    /// Appends a field. A missing value is a no-op.
    #[inline]
    pub fn put(&mut self, name: &str, value: ValueRef<'_>) -> &mut Self {
        if !value.is_missing() {
            self.head(value.ty(), name);
            self.out.extend_from_slice(value.data());
        }
        self
    }

    #[inline]
    pub fn put_i32(&mut self, name: &str, value: i32) -> &mut Self {
        self.put(name, ValueRef::new(Type::Int32, &value.to_le_bytes()))
    }

    #[inline]
    pub fn put_i64(&mut self, name: &str, value: i64) -> &mut Self {
        self.put(name, ValueRef::new(Type::Int64, &value.to_le_bytes()))
    }

    #[inline]
    pub fn put_f64(&mut self, name: &str, value: f64) -> &mut Self {
        self.put(name, ValueRef::new(Type::Double, &value.to_le_bytes()))
    }

    #[inline]
    pub fn put_bool(&mut self, name: &str, value: bool) -> &mut Self {
        self.put(name, ValueRef::new(Type::Bool, &[u8::from(value)]))
    }

    pub fn put_date(&mut self, name: &str, millis: i64) -> &mut Self {
        self.put(name, ValueRef::new(Type::Date, &millis.to_le_bytes()))
    }

    pub fn put_null(&mut self, name: &str) -> &mut Self {
        self.put(name, ValueRef::NULL)
    }

    pub fn put_str(&mut self, name: &str, text: &str) -> &mut Self {
        self.head(Type::String, name);
        self.out
            .extend_from_slice(&(text.len() as i32 + 1).to_le_bytes());
        self.out.extend_from_slice(text.as_bytes());
        self.out.push(0);
        self
    }

    /// Appends the text `first.second`, as in a namespace, without building it first.
    pub fn put_joined(&mut self, name: &str, first: &str, second: &str) -> &mut Self {
        self.head(Type::String, name);
        let length = first.len() + second.len() + 2;
        self.out.extend_from_slice(&(length as i32).to_le_bytes());
        self.out.extend_from_slice(first.as_bytes());
        self.out.push(b'.');
        self.out.extend_from_slice(second.as_bytes());
        self.out.push(0);
        self
    }

    pub fn put_doc(&mut self, name: &str, doc: Doc<'_>) -> &mut Self {
        self.put(name, ValueRef::document(doc))
    }

    /// Appends whole elements as they are in another document ([`Doc::body`]).
    pub fn put_body(&mut self, elements: &[u8]) -> &mut Self {
        self.out.extend_from_slice(elements);
        self
    }

    /// Opens a nested document. End it before writing to this builder again.
    #[inline]
    pub fn doc(&mut self, name: &str) -> DocBuilder<'_> {
        self.head(Type::Document, name);
        DocBuilder::begin(self.out)
    }

    /// Opens a nested array. End it before writing to this builder again.
    #[inline]
    pub fn array(&mut self, name: &str) -> ArrayBuilder<'_> {
        self.head(Type::Array, name);
        ArrayBuilder::begin(self.out)
    }

    /// Writes a nested array. `write` appends its elements to the buffer ([`ArrayBuilder::element`]).
    pub fn array_with<T>(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        self.head(Type::Array, name);
        let nested = DocBuilder::begin(self.out);
        let result = write(nested.out);
        nested.end();
        result
    }

    /// Returns how many bytes are written so far, including the length prefix.
    pub fn len(&self) -> usize {
        self.out.len() - self.start
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 4
    }

    /// Returns the length of the whole buffer, including what the enclosing builders have written.
    pub fn reached(&self) -> usize {
        self.out.len()
    }

    #[inline]
    pub fn end(mut self) {
        self.close();
    }

    #[inline]
    fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.out.push(0);
            let length = (self.out.len() - self.start) as i32;
            self.out[self.start..self.start + 4].copy_from_slice(&length.to_le_bytes());
        }
    }
}

impl Drop for DocBuilder<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns whether a name contains a zero. Two words, which may overlap, cover nearly every name.
#[inline]
fn has_zero(name: &[u8]) -> bool {
    let (first, last) = match name.len() {
        8..=16 => (name.first_chunk(), name.last_chunk()),
        _ => (None, None),
    };
    match (first, last) {
        (Some(first), Some(last)) => {
            Word::new(first).zero().is_some() || Word::new(last).zero().is_some()
        }
        _ => name.contains(&0),
    }
}

#[cold]
fn before_zero(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == 0).next().unwrap_or_default()
}

// === impl ArrayBuilder ===

impl<'b> ArrayBuilder<'b> {
    #[inline]
    pub fn begin(out: &'b mut Vec<u8>) -> Self {
        Self {
            doc: DocBuilder::begin(out),
            next: 0,
        }
    }

    /// Appends elements that are already encoded. They must have the names that follow in the array.
    pub fn put_body(&mut self, elements: &[u8]) -> &mut Self {
        self.doc.put_body(elements);
        self
    }

    /// Appends one document with that index to the body of an array. `write` appends the document.
    #[inline]
    pub fn element(out: &mut Vec<u8>, index: u32, write: impl FnOnce(&mut Vec<u8>)) {
        element_head(out, Type::Document, index);
        write(out);
    }

    fn head(&mut self, ty: Type) {
        element_head(self.doc.out, ty, self.next);
        self.next += 1;
    }

    /// Appends an element. A missing value becomes null, since an array has no gaps.
    pub fn push(&mut self, value: ValueRef<'_>) -> &mut Self {
        let value = value.or_null();
        self.head(value.ty());
        self.doc.out.extend_from_slice(value.data());
        self
    }

    pub fn push_str(&mut self, text: &str) -> &mut Self {
        self.push(Value::string(text).as_ref())
    }

    pub fn push_doc(&mut self, doc: Doc<'_>) -> &mut Self {
        self.push(ValueRef::document(doc))
    }

    /// Opens a nested document. End it before writing to this builder again.
    pub fn doc(&mut self) -> DocBuilder<'_> {
        self.head(Type::Document);
        DocBuilder::begin(self.doc.out)
    }

    /// Opens a nested array. End it before writing to this builder again.
    pub fn array(&mut self) -> ArrayBuilder<'_> {
        self.head(Type::Array);
        ArrayBuilder::begin(self.doc.out)
    }

    /// Returns how many elements there are.
    pub fn count(&self) -> usize {
        self.next as usize
    }

    /// Returns how many bytes are written so far, including the length prefix.
    pub fn len(&self) -> usize {
        self.doc.len()
    }

    pub fn is_empty(&self) -> bool {
        self.next == 0
    }

    pub fn end(self) {
        self.doc.end();
    }
}

/// Writes tag and index in place, without a temporary string.
#[inline]
fn element_head(out: &mut Vec<u8>, ty: Type, index: u32) {
    out.push(ty.tag());
    put_index(out, index);
}

/// Writes the name of an array element and its terminating zero.
#[inline]
pub fn put_index(out: &mut Vec<u8>, index: u32) {
    let mut digits = [0u8; 10];
    let mut at = digits.len();
    let mut n = index;
    loop {
        at -= 1;
        digits[at] = b'0' + (n % 10) as u8;
        n /= 10;
        if n == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.push(0);
}

// === impl DocBuf ===

impl DocBuf {
    pub fn new() -> Self {
        Self(EMPTY.to_vec())
    }

    /// Takes the bytes of a complete document.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Writes a document with a closure: `DocBuf::build(|d| { d.put_i32("a", 1); })`.
    pub fn build(write: impl FnOnce(&mut DocBuilder<'_>)) -> Self {
        Self::build_sized(0, write)
    }

    /// Writes a document with a closure, with room for about that many bytes from the start.
    pub fn build_sized(size: usize, write: impl FnOnce(&mut DocBuilder<'_>)) -> Self {
        let mut bytes = Vec::with_capacity(size);
        let mut builder = DocBuilder::begin(&mut bytes);
        write(&mut builder);
        builder.end();
        Self(bytes)
    }

    #[inline]
    pub fn as_doc(&self) -> Doc<'_> {
        Doc::new(&self.0)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Appends a field after the last one.
    pub fn put(&mut self, name: &str, value: ValueRef<'_>) -> &mut Self {
        self.0.pop();
        let mut builder = DocBuilder {
            out: &mut self.0,
            start: 0,
            closed: false,
        };
        builder.put(name, value);
        builder.end();
        self
    }
}

impl Default for DocBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for DocBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_doc().fmt(f)
    }
}

impl From<DocBuf> for bytes::Bytes {
    fn from(doc: DocBuf) -> Self {
        doc.into_bytes().into()
    }
}

impl From<Doc<'_>> for DocBuf {
    fn from(doc: Doc<'_>) -> Self {
        Self::from_bytes(doc.bytes().to_vec())
    }
}

impl From<&bson::Document> for DocBuf {
    /// Encodes a document that was written in code (a reply, a test). Such documents always encode.
    fn from(document: &bson::Document) -> Self {
        Self(document.to_vec().unwrap_or_else(|_| EMPTY.to_vec()))
    }
}

impl From<bson::Document> for DocBuf {
    fn from(document: bson::Document) -> Self {
        Self::from(&document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_documents_read_back_and_agree_with_the_bson_crate() {
        let built = DocBuf::build(|d| {
            d.put_i32("a", 1).put_str("b", "text");
            let mut nested = d.doc("c");
            nested.put_bool("d", true);
            nested.end();
            let mut array = d.array("e");
            for n in 0..12 {
                array.push(Value::int64(n).as_ref());
            }
            array.end();
        });
        let expected =
            bson::doc! {"a": 1, "b": "text", "c": {"d": true}, "e": (0..12i64).collect::<Vec<_>>()};
        assert_eq!(built.bytes(), expected.to_vec().unwrap());
        assert_eq!(built.as_doc().get("b").as_str(), Some("text"));
        assert_eq!(
            built.as_doc().get("c").as_doc().unwrap().get("d").as_bool(),
            Some(true)
        );
        assert_eq!(
            built
                .as_doc()
                .get("e")
                .as_array()
                .unwrap()
                .get("11")
                .as_i64(),
            Some(11)
        );
        assert!(built.as_doc().get("x").is_missing());
    }

    #[test]
    fn a_reader_stops_at_invalid_bytes() {
        let complete = DocBuf::build(|d| {
            d.put_str("a", "b").put_i32("c", 1);
        });
        for cut in 0..complete.bytes().len() {
            let _ = Doc::new(&complete.bytes()[..cut]).iter().count();
        }
    }
}
