//! Parses values as people write them in a shell: `{a: 1, "b.c": NumberLong(2), d: ISODate("2030-01-01T00:00:00Z"), e: /x/i}`.
//!
//! A whole number is an int, or a long if it does not fit. A number with a point or an exponent is a double.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{Binary, Bson, DateTime, Document, JavaScriptCodeWithScope, Regex, Timestamp};

/// A parser that reads values from the start of a text.
pub struct Reader<'a> {
    rest: &'a str,
}

pub type Read<T> = Result<T, String>;

/// Parses a text that contains exactly one value.
pub fn value(text: &str) -> Read<Bson> {
    let mut reader = Reader::new(text);
    let value = reader.value()?;
    match reader.at_end() {
        true => Ok(value),
        false => Err(format!("left over: {}", reader.rest)),
    }
}

// === impl Reader ===

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { rest: text }
    }

    pub fn at_end(&mut self) -> bool {
        self.space();
        self.rest.is_empty()
    }

    pub fn rest(&self) -> &'a str {
        self.rest
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    pub fn peek(&mut self) -> Option<char> {
        self.space();
        self.rest.chars().next()
    }

    /// Consumes `sign` if it comes next.
    pub fn take(&mut self, sign: char) -> bool {
        self.space();
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, sign: char) -> Read<()> {
        match self.take(sign) {
            true => Ok(()),
            false => Err(format!("expected {sign} before: {}", self.rest)),
        }
    }

    /// Reads a bare word: letters, digits, `_`, `$` and `.`.
    pub fn word(&mut self) -> &'a str {
        self.space();
        let end = self
            .rest
            .find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$' | '.')))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    pub fn value(&mut self) -> Read<Bson> {
        match self.peek() {
            Some('{') => self.document().map(Bson::Document),
            Some('[') => self.array().map(Bson::Array),
            Some('"' | '\'') => self.string().map(Bson::String),
            Some('/') => self.regex(),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            Some(_) => self.named(),
            None => Err("a value is missing".to_owned()),
        }
    }

    pub fn document(&mut self) -> Read<Document> {
        let mut document = Document::new();
        self.expect('{')?;
        while !self.take('}') {
            let name = match self.peek() {
                Some('"' | '\'') => self.string()?,
                _ => self.word().to_owned(),
            };
            self.expect(':')?;
            document.insert(name, self.value()?);
            if !self.take(',') {
                self.expect('}')?;
                break;
            }
        }
        Ok(document)
    }

    fn array(&mut self) -> Read<Vec<Bson>> {
        let mut array = Vec::new();
        self.expect('[')?;
        while !self.take(']') {
            array.push(self.value()?);
            if !self.take(',') {
                self.expect(']')?;
                break;
            }
        }
        Ok(array)
    }

    fn string(&mut self) -> Read<String> {
        self.space();
        let mut text = String::new();
        let mut letters = self.rest.char_indices();
        let quote = letters.next().map(|(_, c)| c).unwrap_or('"');
        while let Some((at, c)) = letters.next() {
            match c {
                '\\' => match letters.next().map(|(_, c)| c) {
                    Some('n') => text.push('\n'),
                    Some('t') => text.push('\t'),
                    Some('r') => text.push('\r'),
                    Some('0') => text.push('\0'),
                    Some('u') => {
                        let hex: String = letters.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&hex, 16).map_err(|e| e.to_string())?;
                        text.push(char::from_u32(code).ok_or("no such character")?);
                    }
                    Some(c) => text.push(c),
                    None => break,
                },
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Ok(text);
                }
                c => text.push(c),
            }
        }
        Err(format!("no end of string: {}", self.rest))
    }

    fn regex(&mut self) -> Read<Bson> {
        self.expect('/')?;
        let mut end = None;
        let mut escaped = false;
        for (at, c) in self.rest.char_indices() {
            if c == '/' && !escaped {
                end = Some(at);
                break;
            }
            escaped = c == '\\' && !escaped;
        }
        let end = end.ok_or("no end of regex")?;
        let (pattern, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        let options = if self.rest.starts_with(|c: char| c.is_alphabetic()) {
            self.word()
        } else {
            ""
        };
        Ok(Bson::RegularExpression(Regex {
            pattern: pattern.try_into().map_err(|_| "a zero in a regex")?,
            options: options.try_into().map_err(|_| "a zero in a regex")?,
        }))
    }

    fn number(&mut self) -> Read<Bson> {
        self.space();
        let mut before = ' ';
        let end = self
            .rest
            .find(|c: char| {
                let part = c.is_ascii_digit()
                    || matches!(c, '.' | 'e' | 'E')
                    || (matches!(c, '-' | '+') && matches!(before, ' ' | 'e' | 'E'));
                before = c;
                !part
            })
            .unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        if text == "-" && rest.starts_with("Infinity") {
            self.rest = &rest["Infinity".len()..];
            return Ok(Bson::Double(f64::NEG_INFINITY));
        }
        self.rest = rest;
        if let Ok(int) = text.parse::<i32>() {
            return Ok(Bson::Int32(int));
        }
        if let Ok(long) = text.parse::<i64>() {
            return Ok(Bson::Int64(long));
        }
        match text.parse::<f64>() {
            Ok(double) if text.contains(['.', 'e', 'E']) => Ok(Bson::Double(double)),
            _ => Err(format!("not a number: {text}")),
        }
    }

    /// Reads a word, or a word with arguments: `true`, `ObjectId("...")`.
    fn named(&mut self) -> Read<Bson> {
        let word = match self.word() {
            "new" => self.word(),
            word => word,
        };
        let arguments = if self.take('(') {
            let mut arguments = Vec::new();
            while !self.take(')') {
                arguments.push(self.value()?);
                if !self.take(',') {
                    self.expect(')')?;
                    break;
                }
            }
            arguments
        } else {
            Vec::new()
        };
        construct(word, &arguments).ok_or_else(|| format!("not a value: {word} {arguments:?}"))
    }
}

fn construct(word: &str, arguments: &[Bson]) -> Option<Bson> {
    let integer = |value: &Bson| match value {
        Bson::Int32(int) => Some(i64::from(*int)),
        Bson::Int64(long) => Some(*long),
        Bson::String(text) => text.parse().ok(),
        _ => None,
    };
    Some(match (word, arguments) {
        ("true", []) => Bson::Boolean(true),
        ("false", []) => Bson::Boolean(false),
        ("null", []) => Bson::Null,
        ("undefined", []) => Bson::Undefined,
        ("NaN", []) => Bson::Double(f64::NAN),
        ("Infinity", []) => Bson::Double(f64::INFINITY),
        ("MinKey", []) => Bson::MinKey,
        ("MaxKey", []) => Bson::MaxKey,
        ("NumberInt", [value]) => Bson::Int32(integer(value)?.try_into().ok()?),
        ("NumberLong", [value]) => Bson::Int64(integer(value)?),
        ("NumberDecimal", [Bson::String(text)]) => Bson::Decimal128(text.parse().ok()?),
        ("ObjectId", [Bson::String(hex)]) => Bson::ObjectId(ObjectId::parse_str(hex).ok()?),
        ("ISODate", [Bson::String(text)]) => {
            Bson::DateTime(DateTime::parse_rfc3339_str(text).ok()?)
        }
        ("Date", [value]) => Bson::DateTime(DateTime::from_millis(integer(value)?)),
        ("Timestamp", [time, increment]) => Bson::Timestamp(Timestamp {
            time: integer(time)?.try_into().ok()?,
            increment: integer(increment)?.try_into().ok()?,
        }),
        ("UUID", [Bson::String(text)]) => {
            let bytes = hex(&text.replace('-', ""))?;
            Bson::Binary(Binary {
                subtype: BinarySubtype::Uuid,
                bytes,
            })
        }
        ("BinData", [subtype, Bson::String(text)]) => Bson::Binary(Binary {
            subtype: u8::try_from(integer(subtype)?).ok()?.into(),
            bytes: hex(text)?,
        }),
        ("Code", [Bson::String(code)]) => Bson::JavaScriptCode(code.clone()),
        ("Code", [Bson::String(code), Bson::Document(scope)]) => {
            Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope {
                code: code.clone(),
                scope: scope.clone(),
            })
        }
        ("Symbol", [Bson::String(text)]) => Bson::Symbol(text.clone()),
        ("DBPointer", []) => db_pointer(),
        _ => return None,
    })
}

/// Returns the one value of the deprecated type DBPointer that tests use. It can only be read from bytes.
pub fn db_pointer() -> Bson {
    let mut bytes = vec![26, 0, 0, 0, 0x0c, b'p', 0, 2, 0, 0, 0, b't', 0];
    bytes.extend([7; 12]);
    bytes.push(0);
    let document = bson::Document::from_reader(bytes.as_slice()).expect("a document");
    document.get("p").cloned().expect("its field")
}

/// Decodes hexadecimal, the form of binaries in scripts and in printed values.
fn hex(text: &str) -> Option<Vec<u8>> {
    let digit = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(digit).collect()
}
