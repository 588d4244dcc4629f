//! Reads the fields of a command, a stage or an operator, and reports wrong ones with mongod's messages.
//!
//! A command or a stage reads them one by one:
//!
//! ```ignore
//! for arg in call.args() {
//!     match arg.name() {
//!         "count" => {}                                  // the command's own field: call.collection()
//!         "query" => filter = arg.doc()?.unwrap_or_default(),
//!         "limit" => limit = arg.int()?,
//!         _ => return Err(arg.unknown()),
//!     }
//! }
//! ```
//!
//! A null field counts as left out (`None`), as in MongoDB. Nested documents are read the same way with [`fields`], under a
//! path like `update.updates`. If mongod has a special code and message for a field of the wrong type, use [`Arg::expect`].
//!
//! An operator reads its [`named`] arguments all at once, and then uses them in any order:
//!
//! ```ignore
//! let [input, chars] = named(value, ["input", "chars"], |wrong| match wrong {
//!     Wrong::NotAnObject(ty) => (50696, format!("$trim only supports an object as an argument, found {ty}")),
//!     Wrong::Unknown(field) => (50694, format!("$trim found an unknown argument: {field}")),
//!     Wrong::Missing(field) => (50695, format!("$trim requires an '{field}' field")),
//! })?;
//! let input = input.required()?;
//! ```

use crate::error::{Error, Result};
use crate::value::{Doc, Elem, Num, Type, ValueRef, is_true};

/// A field, and the path of the document that contains it.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    path: &'a str,
    elem: Elem<'a>,
}

/// A named argument of an operator.
#[derive(Clone, Copy)]
pub struct NamedArg<T, W> {
    name: &'static str,
    value: Option<T>,
    words: W,
}

/// The kinds of errors in named arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentError<'a> {
    /// The arguments are not an object but a value of this type.
    NotAnObject(&'a str),
    Unknown(&'a str),
    Missing(&'a str),
}

/// Iterates over the fields of a nested document. Messages name the document by `path`.
pub fn fields<'a>(path: &'a str, doc: Doc<'a>) -> impl Iterator<Item = Arg<'a>> {
    doc.iter().map(move |elem| Arg { path, elem })
}

/// Reads the arguments with these names. If a name occurs twice, the last one counts, as in mongod. `words` returns the
/// number and the message for what is wrong, or an error.
pub fn named<'a, const N: usize, W, E>(
    value: ValueRef<'a>,
    names: [&'static str; N],
    words: W,
) -> Result<[NamedArg<ValueRef<'a>, W>; N]>
where
    W: Fn(ArgumentError<'_>) -> E + Copy,
    E: Into<Error>,
{
    named_as(value, names, words, |_, value| Ok(value))
}

/// Reads the arguments with these names, and parses each where it stands. So what is wrong with one is reported before an
/// unknown name behind it, and before a missing argument.
pub fn named_as<'a, const N: usize, T, W, E>(
    value: ValueRef<'a>,
    names: [&'static str; N],
    words: W,
    mut parse: impl FnMut(&'static str, ValueRef<'a>) -> Result<T>,
) -> Result<[NamedArg<T, W>; N]>
where
    W: Fn(ArgumentError<'_>) -> E + Copy,
    E: Into<Error>,
{
    let mut args = names.map(|name| NamedArg {
        name,
        value: None,
        words,
    });
    let Some(doc) = value.as_doc() else {
        return Err(words(ArgumentError::NotAnObject(value.ty().alias())).into());
    };
    for elem in doc {
        let known = |arg: &&mut NamedArg<T, W>| arg.name.as_bytes() == elem.name_bytes();
        match args.iter_mut().find(known) {
            Some(arg) => arg.value = Some(parse(arg.name, elem.value)?),
            None => return Err(words(ArgumentError::Unknown(elem.name())).into()),
        }
    }
    Ok(args)
}

/// Reads a specification that must be an object. `{}` in `words` is replaced by the type that was found.
pub fn object<'a>(value: ValueRef<'a>, number: i32, words: &str) -> Result<Doc<'a>> {
    let doc = value.as_doc();
    doc.ok_or_else(|| Error::found(number, words, value.ty().alias()))
}

/// Returns the value of a required field.
pub fn required<T>(value: Option<T>, path: &str, name: &str) -> Result<T> {
    value.ok_or_else(|| Error::missing_field(path, name))
}

/// The text is not a value of the enumeration.
pub fn not_a_value(path: &str, text: &str) -> Error {
    Error::bad_value(format!(
        "Enumeration value '{text}' for field '{path}' is not a valid value."
    ))
}

/// Converts a number to an int64 as MongoDB does for options: fractions are cut off, NaN is 0, other values are clamped.
pub fn to_i64(value: ValueRef<'_>) -> Option<i64> {
    value.as_num().map(Num::to_i64_saturating)
}

/// Converts a number to a double.
pub fn to_f64(value: ValueRef<'_>) -> Option<f64> {
    value.as_num().map(Num::to_f64)
}

/// The numeric types, in the order in which messages name them.
pub const NUMBERS: &[Type] = &[Type::Int64, Type::Int32, Type::Decimal, Type::Double];

// === impl Arg ===

impl<'a> Arg<'a> {
    pub fn new(path: &'a str, elem: Elem<'a>) -> Self {
        Self { path, elem }
    }

    #[inline]
    pub fn name(&self) -> &'a str {
        self.elem.name()
    }

    /// Returns the name without a UTF-8 check. Readers on the path of every request compare bytes to avoid that check.
    #[inline]
    pub fn name_bytes(&self) -> &'a [u8] {
        self.elem.name_bytes()
    }

    #[inline]
    pub fn value(&self) -> ValueRef<'a> {
        self.elem.value
    }

    #[inline]
    pub fn is_null(&self) -> bool {
        self.elem.value.is_nullish()
    }

    /// Refuses a field that mongod has and Sundown does not have.
    pub fn not_implemented(&self) -> Error {
        Error::not_implemented(format_args!("{}.{}", self.path, self.name()))
    }

    pub fn unknown(&self) -> Error {
        Error::unknown_field(self.path, self.name())
    }

    /// Refuses an unknown field with a special code and message. `{}` in `words` is replaced by the name.
    pub fn refuse(&self, number: i32, words: &str) -> Error {
        Error::found(number, words, self.name())
    }

    pub fn duplicate(&self) -> Error {
        Error::duplicate_field(self.path, self.name())
    }

    pub fn wrong_type(&self, expected: &[Type]) -> Error {
        Error::wrong_type(self.path, self.name(), self.elem.value.ty(), expected)
    }

    pub fn wrong_subtype(&self, got: u8, expected: u8) -> Error {
        Error::wrong_subtype(self.path, self.name(), got, expected)
    }

    /// The text is not a value of the field's enumeration.
    pub fn not_a_value(&self, text: &str) -> Error {
        not_a_value(&format!("{}.{}", self.path, self.name()), text)
    }

    #[inline]
    fn one<T>(&self, ty: Type, read: impl FnOnce(ValueRef<'a>) -> Option<T>) -> Result<Option<T>> {
        if self.is_null() {
            return Ok(None);
        }
        self.exactly(ty, read).map(Some)
    }

    /// Reads the value, and refuses a value of another type, null included, with this code and message. `{}` in `words` is
    /// replaced by the type that was found.
    pub fn expect<T>(
        &self,
        read: impl FnOnce(ValueRef<'a>) -> Option<T>,
        number: i32,
        words: &str,
    ) -> Result<T> {
        let value = self.elem.value;
        read(value).ok_or_else(|| Error::found(number, words, value.ty().alias()))
    }

    /// Reads the value, and refuses a value of another type, null included, with the message for fields of commands.
    #[inline]
    pub fn exactly<T>(&self, ty: Type, read: impl FnOnce(ValueRef<'a>) -> Option<T>) -> Result<T> {
        read(self.elem.value).ok_or_else(|| self.wrong_type(&[ty]))
    }

    pub fn str(&self) -> Result<Option<&'a str>> {
        self.one(Type::String, ValueRef::as_str)
    }

    /// Reads a string that must be one of `known`.
    pub fn one_of(&self, known: &[&str]) -> Result<Option<&'a str>> {
        match self.str()? {
            Some(text) if !known.contains(&text) => Err(self.not_a_value(text)),
            text => Ok(text),
        }
    }

    #[inline]
    pub fn doc(&self) -> Result<Option<Doc<'a>>> {
        self.one(Type::Document, ValueRef::as_doc)
    }

    pub fn array(&self) -> Result<Option<Doc<'a>>> {
        self.one(Type::Array, ValueRef::as_array)
    }

    /// Reads an array of documents. Null is passed over, as MongoDB's IDL parser does in every array. An error names the
    /// position of another element that is not a document.
    pub fn docs(&self) -> Result<Option<Vec<Doc<'a>>>> {
        let Some(array) = self.array()? else {
            return Ok(None);
        };
        let path = format!("{}.{}", self.path, self.name());
        array
            .iter()
            .filter(|elem| !elem.value.is_nullish())
            .map(|elem| {
                elem.value.as_doc().ok_or_else(|| {
                    Error::wrong_type(&path, elem.name(), elem.value.ty(), &[Type::Document])
                })
            })
            .collect::<Result<_>>()
            .map(Some)
    }

    /// Reads a flag: true, false, or a number that is or is not zero.
    pub fn bool(&self) -> Result<Option<bool>> {
        let value = self.elem.value;
        match value.ty() {
            Type::Bool => Ok(value.as_bool()),
            ty if ty.is_number() => Ok(Some(is_true(value))),
            _ if self.is_null() => Ok(None),
            _ => Err(self.wrong_type(&[
                Type::Bool,
                Type::Int64,
                Type::Int32,
                Type::Decimal,
                Type::Double,
            ])),
        }
    }

    /// Reads a flag that must be a boolean: neither a number nor null.
    pub fn bool_not_null(&self) -> Result<bool> {
        let value = self.elem.value;
        value.as_bool().ok_or_else(|| {
            Error::type_mismatch(format!(
                "Field '{}' should be a boolean value, but found: {}",
                self.name(),
                value.ty().alias()
            ))
        })
    }

    /// Reads a document that must not be null.
    pub fn doc_not_null(&self) -> Result<Doc<'a>> {
        let value = self.elem.value;
        // mongod's message lacks this space, too.
        value.as_doc().ok_or_else(|| {
            Error::type_mismatch(format!(
                "Expected field {}to be of type object",
                self.name()
            ))
        })
    }

    /// Reads a flag that may be null but not a number.
    pub fn strict_bool(&self) -> Result<Option<bool>> {
        self.one(Type::Bool, ValueRef::as_bool)
    }

    /// Reads a number of any numeric type as an integer. Fractions are cut off.
    #[inline]
    pub fn int(&self) -> Result<Option<i64>> {
        if self.is_null() {
            return Ok(None);
        }
        to_i64(self.elem.value)
            .map(Some)
            .ok_or_else(|| self.wrong_type(NUMBERS))
    }

    /// Reads a number of any numeric type as a double.
    pub fn double(&self) -> Result<Option<f64>> {
        if self.is_null() {
            return Ok(None);
        }
        to_f64(self.elem.value)
            .map(Some)
            .ok_or_else(|| self.wrong_type(NUMBERS))
    }

    /// Reads a number like [`Arg::int`] that must be at least `least`.
    pub fn int_at_least(&self, least: i64) -> Result<Option<i64>> {
        let number = self.int()?;
        match number {
            Some(n) if n < least => Err(Error::bad_value(format!(
                "BSON field '{}' value must be >= {least}, actual value '{n}'",
                self.name()
            ))),
            _ => Ok(number),
        }
    }

    /// Reads the size of a batch. A size that does not fit means as many as possible.
    pub fn batch_size(&self) -> Result<Option<u32>> {
        let size = self.int_at_least(0)?;
        Ok(size.map(|size| u32::try_from(size).unwrap_or(u32::MAX)))
    }

    /// Reads a number that must be an int32.
    pub fn i32(&self) -> Result<Option<i32>> {
        self.one(Type::Int32, ValueRef::as_i32)
    }

    /// Reads a number that must be an int64.
    pub fn i64(&self) -> Result<Option<i64>> {
        self.one(Type::Int64, ValueRef::as_i64)
    }

    /// Reads an integer of any numeric type. Fractions are refused.
    pub fn exact_int(&self) -> Result<Option<i64>> {
        let Some(n) = self.int()? else {
            return Ok(None);
        };
        let exact = self
            .elem
            .value
            .as_num()
            .is_some_and(|n| n.to_i64_exact().is_some());
        if exact {
            return Ok(Some(n));
        }
        let value = self.elem.value;
        Err(Error::failed_to_parse(format!(
            "Expected an integer: {}: {value}",
            self.name(),
        )))
    }
}

// === impl NamedArg ===

impl<T, W> NamedArg<T, W> {
    /// Returns the value, if the argument was given.
    pub fn value(self) -> Option<T> {
        self.value
    }

    /// Returns the value of a required argument.
    pub fn required<E>(self) -> Result<T>
    where
        W: Fn(ArgumentError<'_>) -> E,
        E: Into<Error>,
    {
        self.value
            .ok_or_else(|| (self.words)(ArgumentError::Missing(self.name)).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Code;
    use crate::value::{DocBuf, Value};

    #[test]
    fn wrong_types_have_the_messages_of_mongod() {
        let doc = DocBuf::build(|d| {
            d.put_str("limit", "x")
                .put_i32("filter", 1)
                .put_f64("skip", 2.9);
            d.put_null("sort")
                .put_str("tailable", "")
                .put_i32("nope", 1);
        });
        let arg = |name: &str| {
            fields("find", doc.as_doc())
                .find(|arg| arg.name() == name)
                .unwrap()
        };
        let limit = arg("limit").int().unwrap_err();
        assert_eq!(limit.code(), Code::TypeMismatch);
        assert_eq!(
            limit.message(),
            "BSON field 'find.limit' is the wrong type 'string', expected types '[long, int, decimal, double]'"
        );
        assert_eq!(
            arg("filter").doc().unwrap_err().message(),
            "BSON field 'find.filter' is the wrong type 'int', expected type 'object'"
        );
        assert_eq!(
            arg("tailable").bool().unwrap_err().message(),
            "BSON field 'find.tailable' is the wrong type 'string', expected types '[bool, long, int, decimal, double]'"
        );
        assert_eq!(arg("skip").int().unwrap(), Some(2));
        assert!(arg("skip").exact_int().is_err());
        assert_eq!(arg("sort").doc().unwrap(), None);
        assert_eq!(
            arg("nope").unknown().message(),
            "BSON field 'find.nope' is an unknown field."
        );
        assert_eq!(
            required(None::<i32>, "getMore", "collection")
                .unwrap_err()
                .code()
                .number(),
            40414
        );
        assert_eq!(to_i64(Value::double(f64::NAN).as_ref()), Some(0));
    }

    #[test]
    fn custom_messages_contain_the_given_value() {
        let doc = DocBuf::build(|d| {
            d.put_i32("path", 1).put_null("index");
        });
        let [path, index] = ["path", "index"].map(|name| {
            fields("$unwind", doc.as_doc())
                .find(|arg| arg.name() == name)
                .unwrap()
        });
        let refused = |arg: Arg<'_>| {
            let words = "a string, got {}.";
            arg.expect(ValueRef::as_str, 28808, words).unwrap_err()
        };
        let error = refused(path);
        assert_eq!(error.code().number(), 28808);
        assert_eq!(error.message(), "a string, got int.");
        assert_eq!(refused(index).message(), "a string, got null.");
        assert_eq!(path.refuse(28811, "no {} here").message(), "no path here");
        let error = object(path.value(), 15981, "no {}").unwrap_err();
        assert_eq!(error.message(), "no int");
    }

    #[test]
    fn unknown_and_missing_named_arguments_are_errors() {
        let read = |doc: &DocBuf| {
            let value = ValueRef::document(doc.as_doc());
            let words = |wrong: ArgumentError<'_>| (1, format!("{wrong:?}"));
            let [input, chars] = named(value, ["input", "chars"], words)?;
            let chars = chars.value().and_then(ValueRef::as_i32);
            Ok::<_, Error>((input.required()?.as_i32(), chars))
        };
        let rows: &[(&[&str], Result<_, &str>)] = &[
            (&["input"], Ok((Some(0), None))),
            (&["chars", "input"], Ok((Some(1), Some(0)))),
            // The last one counts.
            (&["input", "chars", "input"], Ok((Some(2), Some(1)))),
            (&["chars"], Err("Missing(\"input\")")),
            (&["x", "input"], Err("Unknown(\"x\")")),
            (&[], Err("Missing(\"input\")")),
        ];
        for (names, expected) in rows {
            let doc = DocBuf::build(|d| {
                for (at, name) in names.iter().enumerate() {
                    d.put_i32(name, at as i32);
                }
            });
            let found = read(&doc);
            let found = found.as_ref().map_err(Error::message);
            assert_eq!(found.copied(), *expected, "{names:?}");
        }
        let number = Value::int32(1);
        let words = |wrong: ArgumentError<'_>| (1, format!("{wrong:?}"));
        let error = named(number.as_ref(), ["input"], words).err().unwrap();
        assert_eq!(error.message(), "NotAnObject(\"int\")");
    }
}
