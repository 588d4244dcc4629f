//! Resume tokens: the place of an event in a change stream, as clients keep it.
//!
//! A token is `{_data: "hex"}`. The bytes are those of MongoDB's tokens of version 1, so tools can read the time from them:
//! values in an encoding that compares bytewise. Clients rely only on the order.

use uuid::Uuid;

use crate::error::{Code, Error, Result};
use crate::query::expr::convert::binary::{unhex, upper_hex};
use crate::value::{ClusterTime, Doc, DocBuf, ValueRef};

/// The place behind an event, or before all events of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumeToken {
    pub time: ClusterTime,
    /// `None` for a place before all events of the time (a high-water mark).
    pub event: Option<EventPlace>,
}

/// An event among those of the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventPlace {
    pub index: u32,
    /// The event is the `invalidate` that follows the change of that index.
    pub is_invalidate: bool,
    /// The collection, if the event is about one.
    pub uuid: Option<Uuid>,
    /// The number of the piece, if a large event was split.
    pub fragment: Option<u32>,
}

/// The type bytes of the encoding.
mod tag {
    pub const END: u8 = 0x04;
    pub const NULL: u8 = 0x14;
    pub const ZERO: u8 = 0x29;
    /// Followed by one byte more than the tag is larger than this.
    pub const POSITIVE: u8 = 0x2A;
    pub const MOST_BYTES: u8 = 0x32;
    pub const OBJECT: u8 = 0x46;
    pub const BINARY: u8 = 0x5A;
    pub const FALSE: u8 = 0x6E;
    pub const TRUE: u8 = 0x6F;
    pub const TIMESTAMP: u8 = 0x82;
}

const VERSION: u64 = 1;
const EVENT: u64 = 128;
/// The versions that MongoDB's tokens have.
const KNOWN_VERSIONS: std::ops::RangeInclusive<u64> = 0..=2;

/// A token as a client sends it. What is in it is looked at later than the other options of a stream.
#[derive(Debug, Clone, Copy)]
pub struct EncodedToken<'a>(&'a str);

/// A decoder of the bytes.
struct TokenBytes<'b>(&'b [u8]);

// === impl EncodedToken ===

impl<'a> EncodedToken<'a> {
    pub fn read(token: Doc<'a>) -> Result<Self> {
        let Some(data) = token.get("_data").as_str() else {
            return Err(Error::location(
                40647,
                format!(
                    "Bad resume token: _data of missing or of wrong type. Expected string, got {token}"
                ),
            ));
        };
        let bits = token.get("_typeBits");
        if !bits.is_missing() && !matches!(bits.as_binary(), Some((0, _))) {
            return Err(Error::location(
                40648,
                format!("Bad resume token: _typeBits of wrong type {token}"),
            ));
        }
        Ok(Self(data))
    }

    pub fn decode(self) -> Result<ResumeToken> {
        let bytes = unhex(self.0).ok_or_else(|| {
            Error::failed_to_parse("resume token string was not a valid hex string")
        })?;
        ResumeToken::decode(&bytes)
    }
}

// === impl ResumeToken ===

impl ResumeToken {
    pub fn before(time: ClusterTime) -> Self {
        Self { time, event: None }
    }

    /// Returns the token of a fragment of the event.
    pub fn of_fragment(self, number: u32) -> Self {
        Self {
            event: self.event.map(|event| EventPlace {
                fragment: Some(number),
                ..event
            }),
            ..self
        }
    }

    /// Returns the token as clients see it.
    pub fn encode(&self) -> DocBuf {
        let mut bytes = Vec::with_capacity(48);
        bytes.push(tag::TIMESTAMP);
        bytes.extend_from_slice(&self.time.0.to_be_bytes());
        put_number(&mut bytes, VERSION);
        let kind = if self.event.is_some() { EVENT } else { 0 };
        put_number(&mut bytes, kind);
        let place = self.event.unwrap_or(EventPlace {
            index: 0,
            is_invalidate: false,
            uuid: None,
            fragment: None,
        });
        put_number(&mut bytes, place.index.into());
        bytes.push(if place.is_invalidate {
            tag::TRUE
        } else {
            tag::FALSE
        });
        if let Some(uuid) = place.uuid {
            bytes.extend_from_slice(&[tag::BINARY, 16, 4]);
            bytes.extend_from_slice(uuid.as_bytes());
        }
        if let Some(fragment) = place.fragment {
            put_number(&mut bytes, fragment.into());
        }
        bytes.push(tag::END);
        DocBuf::build(|token| {
            token.put_str("_data", &upper_hex(&bytes));
        })
    }

    /// Reads a token that a client sends.
    pub fn parse(token: Doc<'_>) -> Result<Self> {
        EncodedToken::read(token)?.decode()
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let mut bytes = TokenBytes(bytes);
        if bytes.at_end() {
            return Err(Error::location(40649, "invalid empty resume token"));
        }
        let time = bytes.time()?;
        let version = bytes.number(50796, "Resume Token does not contain version")?;
        if !KNOWN_VERSIONS.contains(&version) {
            return Err(Error::location(
                50795,
                "Invalid Resume Token: only supports version 0, 1 and 2",
            ));
        }
        let kind = match version {
            0 => EVENT,
            _ => bytes.number(51055, "Resume Token does not contain tokenType")?,
        };
        if kind != EVENT && kind != 0 {
            return Err(Error::location(
                51057,
                format!("Token type {kind} not recognized"),
            ));
        }
        let index = bytes.number(50793, "Resume Token does not contain txnOpIndex")?;
        let is_invalidate = match version {
            0 => false,
            _ => bytes.boolean()?,
        };
        let uuid = bytes.uuid()?;
        // The tokens of other servers go on with a description of the event. It is not needed to find one.
        let fragment = bytes.fragment()?;
        Ok(Self {
            time,
            event: (kind == EVENT).then(|| EventPlace {
                index: u32::try_from(index).unwrap_or(u32::MAX),
                is_invalidate,
                uuid,
                fragment,
            }),
        })
    }
}

fn put_number(bytes: &mut Vec<u8>, number: u64) {
    if number == 0 {
        bytes.push(tag::ZERO);
        return;
    }
    let shifted = (number << 1).to_be_bytes();
    let leading = shifted.iter().take_while(|byte| **byte == 0).count();
    let used = &shifted[leading..];
    bytes.push(tag::POSITIVE + used.len() as u8);
    bytes.extend_from_slice(used);
}

// === impl TokenBytes ===

impl<'b> TokenBytes<'b> {
    fn at_end(&self) -> bool {
        matches!(self.0, [] | [tag::END, ..])
    }

    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn take(&mut self, count: usize) -> Result<&'b [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(count) else {
            return Err(Error::new(
                Code::Overflow,
                format!(
                    "Invalid advance ({count}) past end of buffer[{}] at offset: 0",
                    self.0.len()
                ),
            ));
        };
        self.0 = rest;
        Ok(taken)
    }

    fn time(&mut self) -> Result<ClusterTime> {
        match self.next() {
            Some(tag::TIMESTAMP) => {}
            Some(unknown) => return Err(unknown_type(unknown)),
            None => return Err(Error::location(40649, "invalid empty resume token")),
        }
        let bytes = self.take(8)?.try_into().unwrap_or_default();
        Ok(ClusterTime(u64::from_be_bytes(bytes)))
    }

    fn number(&mut self, code: i32, missing: &str) -> Result<u64> {
        if self.at_end() {
            return Err(Error::location(code, missing));
        }
        match self.next() {
            Some(tag::ZERO) => Ok(0),
            Some(wide) if (tag::POSITIVE + 1..=tag::MOST_BYTES).contains(&wide) => {
                let bytes = self.take((wide - tag::POSITIVE).into())?;
                let number = bytes
                    .iter()
                    .fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
                Ok(number >> 1)
            }
            other => Err(unknown_type(other.unwrap_or_default())),
        }
    }

    fn boolean(&mut self) -> Result<bool> {
        if self.at_end() {
            return Err(Error::location(
                50872,
                "Resume Token does not contain fromInvalidate",
            ));
        }
        match self.next() {
            Some(tag::FALSE) => Ok(false),
            Some(tag::TRUE) => Ok(true),
            _ => Err(Error::location(
                50870,
                "Resume Token fromInvalidate is not a boolean.",
            )),
        }
    }

    fn uuid(&mut self) -> Result<Option<Uuid>> {
        match self.0.first() {
            Some(&tag::BINARY) => {
                self.take(3)?;
                Ok(Uuid::from_slice(self.take(16)?).ok())
            }
            Some(&tag::NULL) => {
                self.next();
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    fn fragment(&mut self) -> Result<Option<u32>> {
        match self.0.first() {
            None | Some(&tag::END | &tag::OBJECT) => Ok(None),
            Some(_) => {
                let fragment = self.number(7182501, "")?;
                Ok(u32::try_from(fragment).ok())
            }
        }
    }
}

fn unknown_type(tag: u8) -> Error {
    Error::location(50811, format!("Unknown type: {tag}"))
}

/// Returns the time of a `startAtOperationTime`, if the value is one.
pub(super) fn cluster_time(value: ValueRef<'_>) -> Option<ClusterTime> {
    let (seconds, increment) = value.as_timestamp()?;
    Some(ClusterTime::from_parts(seconds, increment))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn data(token: &ResumeToken) -> String {
        let encoded = token.encode();
        encoded.as_doc().get("_data").as_str().unwrap().to_owned()
    }

    #[test]
    fn tokens_are_those_of_mongod() {
        let time = ClusterTime::from_parts(0x6AFD_7B77, 15);
        assert_eq!(
            data(&ResumeToken::before(ClusterTime::from_parts(
                0x6AFD_7B71,
                2
            ))),
            "826AFD7B71000000022B0229296E04"
        );
        let uuid = Uuid::parse_str("5cc78218-286d-458d-8830-ee6cf2914f18").unwrap();
        let invalidated = ResumeToken {
            time,
            event: Some(EventPlace {
                index: 0,
                is_invalidate: true,
                uuid: Some(uuid),
                fragment: None,
            }),
        };
        assert_eq!(
            data(&invalidated),
            "826AFD7B770000000F2B022C0100296F5A10045CC78218286D458D8830EE6CF2914F1804"
        );
    }

    #[test]
    fn tokens_are_read_back_and_ordered() {
        let at = |time: u64, index: u32, is_invalidate: bool, fragment: Option<u32>| ResumeToken {
            time: ClusterTime(time),
            event: Some(EventPlace {
                index,
                is_invalidate,
                uuid: None,
                fragment,
            }),
        };
        let ordered = [
            ResumeToken::before(ClusterTime(7)),
            at(7, 0, false, None),
            at(7, 0, false, Some(1)),
            at(7, 0, false, Some(200)),
            at(7, 0, true, None),
            at(7, 1, false, None),
            at(7, 127, false, None),
            at(7, 128, false, None),
            at(7, 70_000, false, None),
            ResumeToken::before(ClusterTime(8)),
            at(9, 0, false, None),
        ];
        for token in &ordered {
            assert_eq!(ResumeToken::parse(token.encode().as_doc()), Ok(*token));
        }
        assert!(ordered.iter().map(data).is_sorted());
    }

    #[test]
    fn bad_tokens_are_refused() {
        let rows = [
            (doc! {}, 40647),
            (doc! {"_data": 1}, 40647),
            (doc! {"_data": ""}, 40649),
            (doc! {"_data": "04"}, 40649),
            (doc! {"_data": "xyz"}, 9),
            (doc! {"_data": "abc"}, 9),
            (doc! {"_data": "00"}, 50811),
            (doc! {"_data": "8200"}, 15),
            (doc! {"_data": "8200000000000000002B0A"}, 50795),
            (doc! {"_data": "00", "_typeBits": "x"}, 40648),
        ];
        for (token, code) in rows {
            let refused = ResumeToken::parse(DocBuf::from(&token).as_doc()).unwrap_err();
            assert_eq!(refused.code().number(), code, "{token}");
        }
        // A token of mongod 6.0.5 for an insert, with its document key.
        let other = "826AFD7B77000000022B022C0100296E5A10045CC78218286D458D8830EE6CF2914F18461E5F6964002B020004";
        let token = ResumeToken::parse(DocBuf::from(doc! {"_data": other}).as_doc()).unwrap();
        assert_eq!(token.time.parts(), (0x6AFD_7B77, 2));
    }
}
