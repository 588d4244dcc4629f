//! Decides which conversion applies to a value and a target type.

use super::super::args::integral_i64;
use super::super::date::{civil, text};
use super::{binary, number};
use crate::error::{Code, Error, Result};
use crate::value::{Num, Type, Value, ValueRef, is_true};

/// Options that say how binary data is read and written.
#[derive(Debug, Clone, Copy, Default)]
pub struct ConvertOptions {
    pub subtype: u8,
    pub format: Option<Format>,
    pub big_endian: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Auto,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
}

/// Returns the error of a failed conversion, which `onError` can replace.
pub fn fail(message: impl std::fmt::Display) -> Error {
    Error::new(Code::ConversionFailure, message.to_string())
}

pub fn convert(value: ValueRef<'_>, target: Type, options: ConvertOptions) -> Result<Value> {
    if value.ty() == target && target != Type::Binary {
        return Ok(value.to_value());
    }
    let unsupported = || {
        fail(format_args!(
            "Unsupported conversion from {} to {} in $convert with no onError value",
            value.ty().alias(),
            target.alias()
        ))
    };
    match target {
        Type::Bool => Ok(Value::boolean(is_true(value))),
        Type::Double | Type::Int32 | Type::Int64 | Type::Decimal => {
            to_number(value, target, options).ok_or_else(unsupported)?
        }
        Type::String => to_string(value, options).ok_or_else(unsupported)?,
        Type::Date => to_date(value).ok_or_else(unsupported)?,
        Type::ObjectId => match value.as_str() {
            Some(text) => to_object_id(text),
            None => Err(unsupported()),
        },
        Type::Binary => to_binary(value, options).ok_or_else(unsupported)?,
        _ => Err(unsupported()),
    }
}

fn to_number(value: ValueRef<'_>, target: Type, options: ConvertOptions) -> Option<Result<Value>> {
    let num = match value.ty() {
        Type::Bool => Num::Int32(i32::from(value.as_bool()?)),
        Type::Date if target != Type::Int32 => Num::Int64(value.as_date()?),
        Type::String => return Some(number::read(value.as_str()?, target)),
        Type::Binary if target != Type::Decimal => {
            let (_, bytes) = value.as_binary()?;
            return Some(binary::to_number(bytes, target, options.big_endian));
        }
        _ => value.as_num()?,
    };
    Some(number::cast(num, target))
}

fn to_string(value: ValueRef<'_>, options: ConvertOptions) -> Option<Result<Value>> {
    Some(Ok(Value::string(&match value.ty() {
        Type::Double => number::shortest(value.as_f64()?),
        Type::Int32 => value.as_i32()?.to_string(),
        Type::Int64 => value.as_i64()?.to_string(),
        Type::Decimal => value.as_decimal()?.to_string(),
        Type::Bool => value.as_bool()?.to_string(),
        Type::ObjectId => binary::hex(&value.as_oid()?),
        Type::Date => {
            let text = civil::checked_iso_string(value.as_date()?);
            return Some(text.map(|text| Value::string(&text)));
        }
        Type::Binary => {
            let (subtype, bytes) = value.as_binary()?;
            return Some(binary::write(bytes, subtype, options.format));
        }
        _ => return None,
    })))
}

fn to_date(value: ValueRef<'_>) -> Option<Result<Value>> {
    let millis = match value.ty() {
        Type::Double => match number::cast(Num::Double(value.as_f64()?), Type::Int64) {
            Ok(integer) => integer.as_ref().as_i64()?,
            Err(error) => return Some(Err(error)),
        },
        Type::Decimal => match number::cast(Num::Decimal(value.as_decimal()?), Type::Int64) {
            Ok(integer) => integer.as_ref().as_i64()?,
            Err(error) => return Some(Err(error)),
        },
        Type::Int64 => value.as_i64()?,
        Type::ObjectId => {
            let seconds = u32::from_be_bytes(*value.as_oid()?.first_chunk()?);
            // The seconds of an ObjectId are a signed number since 1970.
            i64::from(seconds as i32) * 1000
        }
        Type::Timestamp => i64::from(value.as_timestamp()?.0) * 1000,
        Type::String => {
            return Some(text::date(value.as_str()?).map(Value::date));
        }
        _ => return None,
    };
    Some(Ok(Value::date(millis)))
}

fn to_object_id(text: &str) -> Result<Value> {
    binary::unhex(text)
        .and_then(|bytes| <[u8; 12]>::try_from(bytes).ok())
        .map(Value::oid)
        .ok_or_else(|| {
            fail(format_args!(
                "Failed to parse objectId '{text}' in $convert with no onError value: Invalid string length for parsing to OID, expected 24 but found {}",
                text.len()
            ))
        })
}

fn to_binary(value: ValueRef<'_>, options: ConvertOptions) -> Option<Result<Value>> {
    let bytes = match value.ty() {
        Type::Binary => {
            let (subtype, _) = value.as_binary()?;
            if subtype != options.subtype {
                return Some(Err(fail(
                    "Conversions between different binData subtypes are not supported",
                )));
            }
            return Some(Ok(value.to_value()));
        }
        Type::String => {
            return Some(binary::read(value.as_str()?, options));
        }
        Type::Int32 | Type::Int64 | Type::Double => {
            let mut bytes = value.data().to_vec();
            if options.big_endian {
                bytes.reverse();
            }
            bytes
        }
        _ => return None,
    };
    // Subtype 4 (UUID) is only made from text in UUID form.
    if options.subtype == 4 {
        return None;
    }
    Some(Ok(Value::binary(options.subtype, &bytes)))
}

// === impl ConvertOptions ===

impl ConvertOptions {
    pub fn auto() -> Self {
        Self {
            format: Some(Format::Auto),
            ..Self::default()
        }
    }

    pub fn uuid() -> Self {
        Self {
            subtype: 4,
            format: Some(Format::Uuid),
            big_endian: false,
        }
    }

    pub fn new(
        subtype: ValueRef<'_>,
        format: ValueRef<'_>,
        byte_order: ValueRef<'_>,
    ) -> Result<Self> {
        let mut options = Self::default();
        if !subtype.is_missing() {
            if !subtype.ty().is_number() {
                return Err(Error::location(
                    4341108,
                    format!(
                        "$convert requires that 'subtype' be numeric, found: {} with value {subtype}",
                        subtype.ty().alias()
                    ),
                ));
            }
            let number = integral_i64(subtype).ok_or_else(|| {
                Error::location(
                    4341106,
                    format!("In $convert, numeric 'subtype' argument is not an integer: {subtype}"),
                )
            })?;
            options.subtype = u8::try_from(number)
                .ok()
                .filter(|subtype| matches!(subtype, 0..=9 | 128..))
                .ok_or_else(|| {
                    Error::location(
                        4341107,
                        format!("In $convert, numeric value for 'subtype' does not correspond to a BinData type: {number}"),
                    )
                })?;
        }
        if !format.is_nullish() {
            let text = format.as_str().ok_or_else(|| {
                Error::location(
                    4341114,
                    format!(
                        "$convert requires that 'format' be a string, found: {} with value {format}",
                        format.ty().alias()
                    ),
                )
            })?;
            options.format = Some(match text {
                "auto" => Format::Auto,
                "base64" => Format::Base64,
                "base64url" => Format::Base64Url,
                "hex" => Format::Hex,
                "utf8" => Format::Utf8,
                "uuid" => Format::Uuid,
                _ => {
                    return Err(Error::location(
                        4341125,
                        format!("Invalid 'format' argument for $convert: {text}"),
                    ));
                }
            });
        }
        if !byte_order.is_nullish() {
            let text = byte_order.as_str().ok_or_else(|| {
                Error::location(
                    9130001,
                    format!(
                        "$convert requires that 'byteOrder' be a string, found: {} with value {byte_order}",
                        byte_order.ty().alias()
                    ),
                )
            })?;
            options.big_endian = match text {
                "big" => true,
                "little" => false,
                _ => {
                    return Err(Error::location(
                        9130002,
                        format!("Invalid 'byteOrder' argument for $convert: {text}"),
                    ));
                }
            };
        }
        Ok(options)
    }
}
