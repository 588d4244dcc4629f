//! Prints values as text that [`super::literal`] parses back, with their types: 5 is an int, 5.0 a double, NumberLong(5) a
//! long.

use std::fmt::Write;

use bson::spec::BinarySubtype;
use bson::{Bson, Document};

/// A printer of values. ObjectIds, UUIDs and the resume tokens of change streams differ from run to run, so it replaces
/// them by numbers in order of appearance.
#[derive(Default)]
pub struct Printer {
    /// Ids that the script itself contains. They are printed unchanged.
    known: Vec<Vec<u8>>,
    ids: Vec<Vec<u8>>,
    uuids: Vec<Vec<u8>>,
    tokens: Vec<Vec<u8>>,
}

// === impl Printer ===

impl Printer {
    /// Stores every id in a value that a script sends.
    pub fn learn(&mut self, value: &Bson) {
        match value {
            Bson::ObjectId(id) => self.known.push(id.bytes().to_vec()),
            Bson::Binary(binary) => self.known.push(binary.bytes.clone()),
            Bson::Array(array) => array.iter().for_each(|value| self.learn(value)),
            Bson::Document(document) => document.values().for_each(|value| self.learn(value)),
            _ => {}
        }
    }

    pub fn value(&mut self, value: &Bson) -> String {
        let mut out = String::new();
        self.write(value, &mut out);
        out
    }

    pub fn document(&mut self, document: &Document) -> String {
        let mut out = String::new();
        self.write_document(document, &mut out);
        out
    }

    fn write_document(&mut self, document: &Document, out: &mut String) {
        out.push('{');
        for (nth, (name, value)) in document.iter().enumerate() {
            if nth > 0 {
                out.push_str(", ");
            }
            write_name(name, out);
            out.push_str(": ");
            match value {
                Bson::String(token) if name == "_data" => {
                    let printed = printed(&self.known, &mut self.tokens, token.as_bytes());
                    let _ = write!(out, "Token({printed})");
                }
                _ => self.write(value, out),
            }
        }
        out.push('}');
    }

    fn write(&mut self, value: &Bson, out: &mut String) {
        let _ = match value {
            Bson::Double(double) => write!(out, "{}", number(*double)),
            Bson::String(text) => write!(out, "{}", quoted(text)),
            Bson::Document(document) => {
                self.write_document(document, out);
                Ok(())
            }
            Bson::Array(array) => {
                out.push('[');
                for (nth, value) in array.iter().enumerate() {
                    if nth > 0 {
                        out.push_str(", ");
                    }
                    self.write(value, out);
                }
                out.push(']');
                Ok(())
            }
            Bson::Boolean(value) => write!(out, "{value}"),
            Bson::Null => write!(out, "null"),
            Bson::Undefined => write!(out, "undefined"),
            Bson::MinKey => write!(out, "MinKey"),
            Bson::MaxKey => write!(out, "MaxKey"),
            Bson::Int32(int) => write!(out, "{int}"),
            Bson::Int64(long) => write!(out, "NumberLong({long})"),
            Bson::Decimal128(decimal) => write!(out, "NumberDecimal(\"{decimal}\")"),
            Bson::ObjectId(id) => {
                let printed = printed(&self.known, &mut self.ids, &id.bytes());
                write!(out, "ObjectId({printed})")
            }
            Bson::DateTime(date) => match date.try_to_rfc3339_string() {
                Ok(text) => write!(out, "ISODate(\"{text}\")"),
                Err(_) => write!(out, "Date({})", date.timestamp_millis()),
            },
            Bson::Timestamp(stamp) => {
                write!(out, "Timestamp({}, {})", stamp.time, stamp.increment)
            }
            Bson::RegularExpression(regex) => write!(out, "/{}/{}", regex.pattern, regex.options),
            Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid => {
                let printed = printed(&self.known, &mut self.uuids, &binary.bytes);
                write!(out, "UUID({printed})")
            }
            Bson::Binary(binary) => {
                let subtype = u8::from(binary.subtype);
                write!(out, "BinData({subtype}, \"{}\")", hex(&binary.bytes))
            }
            Bson::JavaScriptCode(code) => write!(out, "Code({})", quoted(code)),
            Bson::JavaScriptCodeWithScope(code) => {
                let _ = write!(out, "Code({}, ", quoted(&code.code));
                self.write_document(&code.scope, out);
                write!(out, ")")
            }
            Bson::Symbol(text) => write!(out, "Symbol({})", quoted(text)),
            Bson::DbPointer(_) => write!(out, "DBPointer()"),
        };
    }
}

/// Prints an id unchanged if the script contains it, and otherwise as its number among the generated ids.
fn printed(known: &[Vec<u8>], made: &mut Vec<Vec<u8>>, id: &[u8]) -> String {
    if known.iter().any(|known| known == id) {
        return format!("\"{}\"", hex(id));
    }
    let nth = made.iter().position(|known| known == id);
    let nth = nth.unwrap_or_else(|| {
        made.push(id.to_vec());
        made.len() - 1
    });
    format!("#{}", nth + 1)
}

fn write_name(name: &str, out: &mut String) {
    let plain = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
    if plain {
        out.push_str(name);
    } else {
        out.push_str(&quoted(name));
    }
}

fn number(double: f64) -> String {
    if double.is_nan() {
        return "NaN".to_owned();
    }
    if double.is_infinite() {
        return if double > 0.0 {
            "Infinity"
        } else {
            "-Infinity"
        }
        .to_owned();
    }
    // Rust prints the shortest text that parses back to the same number, and always with a point or an exponent.
    format!("{double:?}")
}

fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
