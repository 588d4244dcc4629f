//! Prints values as mongod does in messages: `{ a: 1, b: "x", c: 1.0 }`.

use std::fmt::{Display, Formatter, Result, Write};

use super::{Doc, Type, UUID_SUBTYPE, Value, ValueRef};

/// Longer texts and binaries are truncated in messages.
const LONG_TEXT: usize = 160;
const LONG_BINARY: usize = 80;
const CUT: usize = 70;

/// A double printed as `%.16g`, with `.0` appended if it would look like a whole number.
#[derive(Clone, Copy, Debug)]
pub struct PrintedDouble(pub f64);

/// A text printed between double quotes, without escapes.
struct Quoted<'a>(&'a [u8]);

struct Hex<'a>(&'a [u8]);

impl Display for ValueRef<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self.ty() {
            Type::Missing => f.write_str("EOO"),
            Type::Double => PrintedDouble(self.as_f64().unwrap_or_default()).fmt(f),
            Type::String | Type::Symbol => Quoted(self.text_bytes().unwrap_or_default()).fmt(f),
            Type::Document => Doc::new(self.data()).fmt(f),
            Type::Array => list(f, Doc::new(self.data()), ["[", "]"], |f, _, value| {
                value.fmt(f)
            }),
            Type::Binary => {
                let (subtype, bytes) = self.as_binary().unwrap_or_default();
                if let (UUID_SUBTYPE, Ok(bytes)) = (subtype, <[u8; 16]>::try_from(bytes)) {
                    return write!(f, "UUID(\"{}\")", uuid::Uuid::from_bytes(bytes));
                }
                match bytes.get(..CUT) {
                    Some(cut) if bytes.len() > LONG_BINARY => {
                        write!(f, "BinData({subtype}, {}...)", Hex(cut))
                    }
                    _ => write!(f, "BinData({subtype}, {})", Hex(bytes)),
                }
            }
            Type::Undefined => f.write_str("undefined"),
            Type::ObjectId => {
                f.write_str("ObjectId('")?;
                for byte in self.data() {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("')")
            }
            Type::Bool => write!(f, "{}", self.as_bool().unwrap_or_default()),
            Type::Date => write!(f, "new Date({})", self.as_date().unwrap_or_default()),
            Type::Null => f.write_str("null"),
            Type::Regex => {
                let (pattern, options) = self.as_regex().unwrap_or_default();
                write!(f, "/{pattern}/{options}")
            }
            Type::DbPointer => {
                let (namespace, oid) = self.as_db_pointer().unwrap_or_default();
                write!(
                    f,
                    "DBRef('{namespace}',{})",
                    Hex(&oid).to_string().to_lowercase()
                )
            }
            Type::Code => f.write_str(&String::from_utf8_lossy(
                self.text_bytes().unwrap_or_default(),
            )),
            Type::CodeWithScope => {
                let (code, scope) = self.as_code_with_scope().unwrap_or(("", Doc::EMPTY));
                write!(f, "CodeWScope( {code}, {scope})")
            }
            Type::Int32 => self.as_i32().unwrap_or_default().fmt(f),
            Type::Timestamp => {
                let (seconds, increment) = self.as_timestamp().unwrap_or_default();
                write!(f, "Timestamp({seconds}, {increment})")
            }
            Type::Int64 => self.as_i64().unwrap_or_default().fmt(f),
            Type::Decimal => self.as_decimal().map_or(Ok(()), |decimal| decimal.fmt(f)),
            Type::MaxKey => f.write_str("MaxKey"),
            Type::MinKey => f.write_str("MinKey"),
        }
    }
}

impl Display for Doc<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        list(f, *self, ["{", "}"], |f, name, value| {
            write!(f, "{name}: {value}")
        })
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.as_ref().fmt(f)
    }
}

impl Display for super::Val<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.as_ref().fmt(f)
    }
}

impl Display for super::DocBuf {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.as_doc().fmt(f)
    }
}

impl Display for PrintedDouble {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let text = general(self.0);
        f.write_str(&text)?;
        // mongod looks only for '.', 'E' and 'N', hence "nan.0" and "1e+20.0".
        if text.contains('.') {
            Ok(())
        } else {
            f.write_str(".0")
        }
    }
}

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('"')?;
        match self.0.get(..CUT) {
            Some(cut) if self.0.len() > LONG_TEXT => {
                f.write_str(&String::from_utf8_lossy(cut))?;
                f.write_str("...")?;
            }
            _ => f.write_str(&String::from_utf8_lossy(self.0))?,
        }
        f.write_char('"')
    }
}

impl Display for Hex<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

fn list<'a>(
    f: &mut Formatter<'_>,
    doc: Doc<'a>,
    [open, close]: [&str; 2],
    each: impl Fn(&mut Formatter<'_>, &'a str, ValueRef<'a>) -> Result,
) -> Result {
    f.write_str(open)?;
    let mut separator = " ";
    for elem in doc {
        f.write_str(separator)?;
        each(f, elem.name(), elem.value)?;
        separator = ", ";
    }
    if !doc.is_empty() {
        f.write_char(' ')?;
    }
    f.write_str(close)
}

/// Prints a double as C's `%.16g` does.
pub fn general(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    let scientific = format!("{value:.15e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            text.to_string()
        }
    };
    if (-4..16).contains(&exponent) {
        trim(&format!("{value:.*}", (15 - exponent).max(0) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(mantissa), exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::value::DocBuf;

    #[test]
    fn documents_print_as_in_mongod() {
        let document = doc! {
            "a": 1, "b": "x", "c": 1.0, "d": 5i64, "e": [1, [], {}], "f": {"g": null}, "h": true, "i": 0.1, "j": -1.5e300,
            "k": bson::oid::ObjectId::from_bytes([0xab; 12]), "l": bson::DateTime::from_millis(-7),
            "m": bson::Timestamp { time: 1, increment: 2 }, "n": bson::Bson::MinKey,
        };
        assert_eq!(
            DocBuf::from(document).to_string(),
            "{ a: 1, b: \"x\", c: 1.0, d: 5, e: [ 1, [], {} ], f: { g: null }, h: true, i: 0.1, j: -1.5e+300, \
             k: ObjectId('abababababababababababab'), l: new Date(-7), m: Timestamp(1, 2), n: MinKey }"
        );
        assert_eq!(Value::binary(0, &[1, 0xab]).to_string(), "BinData(0, 01AB)");
        assert_eq!(Value::regex("a.b", "i").to_string(), "/a.b/i");
        assert_eq!(DocBuf::new().to_string(), "{}");
    }

    #[test]
    fn doubles_print_with_sixteen_digits() {
        for (value, expected) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (123456.789, "123456.789"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-2.5, "-2.5"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(general(value), expected);
        }
    }
}
