//! Converts text and numbers to binary data and back.

use super::super::text::check_length;
use super::target::{ConvertOptions, Format, fail};
use crate::error::{Error, Result};
use crate::value::{Type, UUID_SUBTYPE, Value};

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn no_format(from: &str, to: &str) -> Error {
    Error::location(
        4341115,
        format!("Format must be speficied when converting from '{from}' to '{to}'"),
    )
}

/// Writes binary data as text.
pub fn write(bytes: &[u8], subtype: u8, format: Option<Format>) -> Result<Value> {
    let format = match format {
        None => return Err(no_format("binData", "string")),
        Some(Format::Auto) if subtype == UUID_SUBTYPE && bytes.len() == 16 => Format::Uuid,
        Some(Format::Auto) => Format::Base64,
        Some(format) => format,
    };
    let text = match format {
        Format::Auto | Format::Base64 => encode(bytes, STANDARD, true),
        Format::Base64Url => encode(bytes, URL, false),
        Format::Hex => upper_hex(bytes),
        Format::Utf8 => String::from_utf8(bytes.to_vec())
            .map_err(|_| fail("BinData does not represent a valid UTF-8 string"))?,
        Format::Uuid => {
            let bytes: [u8; 16] = (subtype == UUID_SUBTYPE)
                .then_some(bytes)
                .and_then(|bytes| bytes.try_into().ok())
                .ok_or_else(|| {
                    fail("Input is not a valid UUID: only a binData of subtype 4 and 16 bytes is")
                })?;
            uuid::Uuid::from_bytes(bytes).to_string()
        }
    };
    if matches!(format, Format::Utf8) {
        check_length(text.len())?;
    } else if check_length(text.len()).is_err() {
        return Err(fail(
            "The text of the binData would be too long for a string",
        ));
    }
    Ok(Value::string(&text))
}

/// Reads binary data from text.
pub fn read(text: &str, options: ConvertOptions) -> Result<Value> {
    let refuse = |format: &str| {
        fail(format_args!(
            "Input '{text}' is not a valid {format} string in $convert with no onError value"
        ))
    };
    let format = match options.format {
        None => return Err(no_format("string", "binData")),
        Some(Format::Auto) => {
            return Err(fail(
                "The 'auto' format cannot be used when converting from string to binData",
            ));
        }
        Some(format) => format,
    };
    if (format == Format::Uuid) != (options.subtype == UUID_SUBTYPE) {
        return Err(fail(format_args!(
            "Only the UUID format is allowed with the UUID subtype, and with no other (subtype {})",
            options.subtype
        )));
    }
    let bytes = match format {
        Format::Auto | Format::Base64 => {
            decode(text, STANDARD, true).ok_or_else(|| refuse("base64"))?
        }
        Format::Base64Url => decode(text, URL, false).ok_or_else(|| refuse("base64url"))?,
        Format::Hex => unhex(text).ok_or_else(|| refuse("hex"))?,
        Format::Utf8 => text.as_bytes().to_vec(),
        Format::Uuid => {
            // Only the form with hyphens is accepted.
            let uuid = (text.len() == 36)
                .then(|| uuid::Uuid::parse_str(text).ok())
                .flatten()
                .ok_or_else(|| refuse("UUID"))?;
            uuid.as_bytes().to_vec()
        }
    };
    Ok(Value::binary(options.subtype, &bytes))
}

/// Reads a number from its bytes: an integer from 1, 2, 4 or (for a long) 8 bytes, a double from 4 or 8.
pub fn to_number(bytes: &[u8], target: Type, big_endian: bool) -> Result<Value> {
    let mut little = bytes.to_vec();
    if big_endian {
        little.reverse();
    }
    let refuse = || {
        fail(format_args!(
            "Failed to convert '{}' to number in $convert because of the size of the input: {} bytes",
            hex(bytes),
            bytes.len()
        ))
    };
    match (target, little.as_slice()) {
        (Type::Double, &[a, b, c, d]) => Ok(Value::double(f32::from_le_bytes([a, b, c, d]).into())),
        (Type::Double, bytes) => <[u8; 8]>::try_from(bytes)
            .map(|bytes| Value::double(f64::from_le_bytes(bytes)))
            .map_err(|_| refuse()),
        (_, &[a]) => integer(i64::from(a as i8), target),
        (_, &[a, b]) => integer(i16::from_le_bytes([a, b]).into(), target),
        (_, &[a, b, c, d]) => integer(i32::from_le_bytes([a, b, c, d]).into(), target),
        (Type::Int64, bytes) => <[u8; 8]>::try_from(bytes)
            .map(|bytes| Value::int64(i64::from_le_bytes(bytes)))
            .map_err(|_| refuse()),
        _ => Err(refuse()),
    }
}

fn integer(number: i64, target: Type) -> Result<Value> {
    Ok(match (target, i32::try_from(number)) {
        (Type::Int32, Ok(small)) => Value::int32(small),
        _ => Value::int64(number),
    })
}

pub fn hex(bytes: &[u8]) -> String {
    in_digits(bytes, b"0123456789abcdef")
}

pub fn upper_hex(bytes: &[u8]) -> String {
    in_digits(bytes, b"0123456789ABCDEF")
}

fn in_digits(bytes: &[u8], digits: &[u8; 16]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        for half in [byte >> 4, byte & 15] {
            text.push(char::from(digits[usize::from(half)]));
        }
    }
    text
}

pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|&[high, low]| Some((digit(high)? * 16 + digit(low)?) as u8))
        .collect()
}

fn encode(bytes: &[u8], letters: &[u8; 64], padded: bool) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            if at <= chunk.len() {
                let index = (bits >> (18 - 6 * at)) & 63;
                text.push(char::from(letters[index as usize]));
            } else if padded {
                text.push('=');
            }
        }
    }
    text
}

fn decode(text: &str, letters: &[u8; 64], padded: bool) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    let wanted = match body.len() % 4 {
        0 => 0,
        2 => 2,
        3 => 1,
        _ => return None,
    };
    if padding != wanted && (padded || padding != 0) {
        return None;
    }
    let mut bytes = Vec::with_capacity(body.len() / 4 * 3 + 2);
    let mut bits = 0u32;
    let mut count = 0;
    for letter in body.bytes() {
        let index = letters.iter().position(|&known| known == letter)?;
        bits = bits << 6 | index as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    (bits == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (bytes, standard, url) in [
            (&b""[..], "", ""),
            (b"f", "Zg==", "Zg"),
            (b"fo", "Zm8=", "Zm8"),
            (b"foo", "Zm9v", "Zm9v"),
            (&[0xfb, 0xff], "+/8=", "-_8"),
        ] {
            assert_eq!(encode(bytes, STANDARD, true), standard);
            assert_eq!(encode(bytes, URL, false), url);
            assert_eq!(decode(standard, STANDARD, true).as_deref(), Some(bytes));
            assert_eq!(decode(url, URL, false).as_deref(), Some(bytes));
        }
        for bad in ["Zg", "Zg=", "Z===", "Zm9v=", "!m9v"] {
            assert_eq!(decode(bad, STANDARD, true), None, "{bad}");
        }
        assert_eq!(unhex("0aFF"), Some(vec![10, 255]));
        assert_eq!(unhex("0"), None);
    }
}
