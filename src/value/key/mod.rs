//! Encodes values as bytes that compare like the values. Indexes and sorts compare these keys.
//!
//! ```text
//! key       = kind byte · body            (self-delimiting, so keys can follow each other in a compound key)
//! number    = the nearest double to the magnitude towards zero, 8 bytes big-endian · 00          if it is exact
//!                                                                                  · 01 · rest   if it is not
//! rest      = decimal exponent, 2 bytes · digits, each plus one · 00      (longs beyond 2^53, decimals)
//! text      = bytes · 00                  with 00 as 01 01 and 01 as 01 02
//! document  = (rank · name · 00 · key)* · 00
//! array     = key* · 00
//! ```
//!
//! The body of a negative number is complemented, and so is a whole descending key. Values that compare equal have the same
//! bytes.

mod length;

use std::cell::Cell;

use super::{Decimal, Doc, Num, Type, ValueRef};
pub use length::length;

const MIN_KEY: u8 = 0x08;
const UNDEFINED: u8 = 0x10;
const NULL: u8 = 0x18;
const NAN: u8 = 0x20;
const NEGATIVE: u8 = 0x21;
const POSITIVE: u8 = 0x22;
const TEXT: u8 = 0x28;
const DOCUMENT: u8 = 0x30;
const ARRAY: u8 = 0x38;
const BINARY: u8 = 0x40;
const OBJECT_ID: u8 = 0x48;
const FALSE: u8 = 0x50;
const TRUE: u8 = 0x51;
const DATE: u8 = 0x58;
const TIMESTAMP: u8 = 0x60;
const REGEX: u8 = 0x68;
const DB_POINTER: u8 = 0x70;
const CODE: u8 = 0x78;
const CODE_WITH_SCOPE: u8 = 0x80;
const MAX_KEY: u8 = 0xf0;

/// Appends the key of `value`. Bytes that follow a key never change how two different values compare.
#[inline]
pub fn encode(value: ValueRef<'_>, descending: bool, out: &mut Vec<u8>) {
    let start = out.len();
    ascending(value, out);
    if descending {
        complement(out, start);
    }
}

thread_local! {
    /// The buffer of the last key of this thread, unless it grew large.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer with a larger capacity is not kept.
const KEPT: usize = 1024;

/// Calls `look` with the ascending key of `value`, in a buffer that is reused.
#[inline]
pub fn with<T>(value: ValueRef<'_>, look: impl FnOnce(&[u8]) -> T) -> T {
    let mut key = BUFFER.take();
    key.clear();
    ascending(value, &mut key);
    let seen = look(&key);
    if key.capacity() <= KEPT {
        BUFFER.set(key);
    }
    seen
}

fn ascending(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let data = value.data();
    match value.ty() {
        Type::Int32 => {
            let number = data.first_chunk().map_or(0, |b| i32::from_le_bytes(*b));
            exact(number.into(), out);
        }
        Type::Int64 | Type::Double | Type::Decimal => {
            number(value.as_num().unwrap_or(Num::Int32(0)), out);
        }
        Type::String | Type::Symbol => {
            out.push(TEXT);
            text(value.text_bytes().unwrap_or_default(), out);
        }
        Type::ObjectId => {
            out.push(OBJECT_ID);
            out.extend_from_slice(data);
        }
        Type::Date => {
            out.push(DATE);
            let millis = value.as_date().unwrap_or_default();
            out.extend_from_slice(&(millis as u64 ^ 1 << 63).to_be_bytes());
        }
        Type::Timestamp => {
            out.push(TIMESTAMP);
            let (seconds, increment) = value.as_timestamp().unwrap_or_default();
            out.extend_from_slice(&seconds.to_be_bytes());
            out.extend_from_slice(&increment.to_be_bytes());
        }
        Type::Bool => out.push(if value.as_bool() == Some(true) {
            TRUE
        } else {
            FALSE
        }),
        Type::Document => {
            out.push(DOCUMENT);
            document(Doc::new(data), out);
        }
        Type::Array => {
            out.push(ARRAY);
            for elem in Doc::new(data) {
                ascending(elem.value, out);
            }
            out.push(0);
        }
        Type::Binary => {
            out.push(BINARY);
            let (subtype, bytes) = value.as_binary().unwrap_or_default();
            out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            out.push(subtype);
            out.extend_from_slice(bytes);
        }
        Type::Regex => {
            // Pattern, zero, options, zero: the bytes as they are.
            out.push(REGEX);
            out.extend_from_slice(data);
        }
        Type::DbPointer => {
            out.push(DB_POINTER);
            out.extend_from_slice(&(data.len() as u32).to_be_bytes());
            out.extend_from_slice(data);
        }
        Type::Code => {
            out.push(CODE);
            text(value.text_bytes().unwrap_or_default(), out);
        }
        Type::CodeWithScope => {
            out.push(CODE_WITH_SCOPE);
            let (code, scope) = value.as_code_with_scope().unwrap_or(("", Doc::EMPTY));
            text(code.as_bytes(), out);
            document(scope, out);
        }
        Type::MinKey => out.push(MIN_KEY),
        Type::Missing | Type::Undefined => out.push(UNDEFINED),
        Type::Null => out.push(NULL),
        Type::MaxKey => out.push(MAX_KEY),
    }
}

/// Encodes the fields of a document. They compare by rank of type, then name, then value. The rank is needed before the
/// name because the kind byte of a number also contains its sign.
fn document(doc: Doc<'_>, out: &mut Vec<u8>) {
    for elem in doc {
        out.push(elem.value.ty().rank());
        out.extend_from_slice(elem.name_bytes());
        out.push(0);
        ascending(elem.value, out);
    }
    out.push(0);
}

#[inline]
fn text(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 1);
    // One pass that the compiler vectorizes. Text with such bytes is rare.
    if bytes.iter().fold(true, |plain, &b| plain & (b > 1)) {
        out.extend_from_slice(bytes);
    } else {
        for &byte in bytes {
            match byte {
                0 => out.extend_from_slice(&[1, 1]),
                1 => out.extend_from_slice(&[1, 2]),
                byte => out.push(byte),
            }
        }
    }
    out.push(0);
}

fn number(number: Num, out: &mut Vec<u8>) {
    match number {
        Num::Int32(value) => exact(value.into(), out),
        Num::Double(value) => exact(value, out),
        Num::Int64(value) => {
            let magnitude = value.unsigned_abs();
            let spare = 11u32.saturating_sub(magnitude.leading_zeros());
            let near = magnitude >> spare << spare;
            if near == magnitude {
                exact(value as f64, out);
            } else {
                // Trailing zeros do not distinguish numbers: a long and a decimal of the same value have the same digits.
                between(value < 0, near as f64, magnitude.into(), 0, out);
            }
        }
        Num::Decimal(value) => decimal(value, out),
    }
}

fn decimal(value: Decimal, out: &mut Vec<u8>) {
    let (near, is_exact) = value.to_f64_toward_zero();
    match value.parts() {
        Some((negative, coefficient, exponent)) if !is_exact => {
            between(negative, near.abs(), coefficient, exponent, out);
        }
        Some((_, 0, _)) => exact(0.0, out),
        _ => exact(near, out),
    }
}

/// Encodes a number that a double represents exactly.
#[inline]
fn exact(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.push(NAN);
        return;
    }
    let mut key = [0; 10];
    let bits = value.abs().to_bits();
    // -0 is 0.
    if value < 0.0 {
        key[0] = NEGATIVE;
        key[1..9].copy_from_slice(&(!bits).to_be_bytes());
        key[9] = 0xff;
    } else {
        key[0] = POSITIVE;
        key[1..9].copy_from_slice(&bits.to_be_bytes());
    }
    out.extend_from_slice(&key);
}

/// Encodes a number strictly between `near` and the next double away from zero. Its digits decide the order.
fn between(negative: bool, near: f64, mut coefficient: u128, exponent: i32, out: &mut Vec<u8>) {
    out.push(if negative { NEGATIVE } else { POSITIVE });
    let start = out.len();
    out.extend_from_slice(&near.to_bits().to_be_bytes());
    out.push(1);
    let mut exponent = exponent;
    while coefficient != 0 && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    let digits = coefficient.to_string();
    // The decimal place of the first digit: numbers with the same first place compare by their digits.
    let first_place = exponent + digits.len() as i32;
    out.extend_from_slice(&((first_place + 0x4000) as u16).to_be_bytes());
    out.extend(digits.bytes().map(|digit| digit - b'0' + 1));
    out.push(0);
    if negative {
        complement(out, start);
    }
}

fn complement(out: &mut [u8], start: usize) {
    if let Some(part) = out.get_mut(start..) {
        for byte in part {
            *byte = !*byte;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::value::{ArrayBuilder, DocBuilder, Value, compare};

    fn numbers() -> impl Strategy<Value = Value> {
        let near = |base: i64| (-3i64..=3).prop_map(move |step| base.saturating_add(step));
        let whole = prop_oneof![
            near(0),
            near(i64::MAX),
            near(i64::MIN),
            near(1 << 53),
            near(-(1 << 53)),
            near(1 << 60),
            near(i64::from(i32::MAX)),
            any::<i64>(),
            (0u32..63).prop_map(|n| 1 << n),
        ];
        let double = prop_oneof![
            any::<f64>(),
            whole.clone().prop_map(|n| n as f64),
            prop::sample::select(vec![
                0.0,
                -0.0,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                f64::MAX,
                f64::MIN,
                f64::MIN_POSITIVE,
                5e-324,
                0.1,
                0.5,
                -0.1,
                1e22,
                1e23,
            ]),
        ];
        let decimal = prop_oneof![
            whole.clone().prop_map(Decimal::from_i64),
            double.clone().prop_map(Decimal::from_f64_full),
            double.clone().prop_map(Decimal::from_f64),
            (any::<bool>(), any::<u128>(), -6176i32..=6111).prop_map(|(negative, n, exponent)| {
                Decimal::from_parts(negative, n % 10u128.pow(34), exponent).unwrap()
            }),
            (any::<bool>(), 0u128..200, -3i32..=3).prop_map(|(negative, n, exponent)| {
                Decimal::from_parts(negative, n, exponent).unwrap()
            }),
            // Any bits: non-canonical numbers, signaling NaNs.
            any::<u128>().prop_map(|bits| Decimal::from_bytes(bits.to_le_bytes())),
        ];
        prop_oneof![
            (-3i32..4).prop_map(Value::int32),
            any::<i32>().prop_map(Value::int32),
            whole.prop_map(Value::int64),
            double.prop_map(Value::double),
            decimal.prop_map(|d| Value::decimal(d.to_bytes())),
        ]
    }

    fn texts() -> impl Strategy<Value = String> {
        prop_oneof!["[ab\x00\x01\x02\u{e9}]{0,4}", "\\PC{0,6}"]
    }

    fn values() -> impl Strategy<Value = Value> {
        let cstring = "[ab]{0,3}";
        let leaf = prop_oneof![
            4 => numbers(),
            2 => texts().prop_map(|s| Value::string(&s)),
            1 => texts().prop_map(|s| Value::new(Type::Symbol, Value::string(&s).as_ref().data())),
            1 => texts().prop_map(|s| Value::new(Type::Code, Value::string(&s).as_ref().data())),
            1 => any::<bool>().prop_map(Value::boolean),
            1 => prop::sample::select(vec![Type::Null, Type::Undefined, Type::MinKey, Type::MaxKey, Type::Missing])
                .prop_map(|ty| Value::new(ty, &[])),
            1 => any::<i64>().prop_map(Value::date),
            1 => any::<(u32, u32)>().prop_map(|(a, b)| Value::timestamp(a, b)),
            1 => any::<[u8; 12]>().prop_map(Value::oid),
            1 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..4)).prop_map(|(s, b)| Value::binary(s, &b)),
            1 => (cstring, cstring).prop_map(|(p, o)| Value::regex(&p, &o)),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|values| {
                    let mut out = Vec::new();
                    let mut array = ArrayBuilder::begin(&mut out);
                    for value in &values {
                        array.push(value.as_ref());
                    }
                    array.end();
                    Value::array(out)
                }),
                prop::collection::vec(("[ab]{0,2}", inner), 0..4).prop_map(|fields| {
                    let mut out = Vec::new();
                    let mut doc = DocBuilder::begin(&mut out);
                    for (name, value) in &fields {
                        doc.put(name, value.as_ref());
                    }
                    doc.end();
                    Value::document(out)
                }),
            ]
        })
    }

    fn key(value: &Value, descending: bool) -> Vec<u8> {
        let mut out = Vec::new();
        encode(value.as_ref(), descending, &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

        #[test]
        fn order_of_numbers(a in numbers(), b in numbers()) {
            prop_assert_eq!(key(&a, false).cmp(&key(&b, false)), compare(a.as_ref(), b.as_ref()));
        }

        #[test]
        fn order_of_values(a in values(), b in values()) {
            let order = compare(a.as_ref(), b.as_ref());
            prop_assert_eq!(key(&a, false).cmp(&key(&b, false)), order);
            prop_assert_eq!(key(&a, true).cmp(&key(&b, true)), order.reverse());
        }

        /// The length of a key is known from the key, whatever follows.
        #[test]
        fn lengths_of_keys(a in values(), b in values(), down: bool) {
            let mut bytes = key(&a, down);
            let expected = bytes.len();
            encode(b.as_ref(), !down, &mut bytes);
            prop_assert_eq!(length(&bytes, down), Some(expected));
            prop_assert_eq!(length(&bytes[..expected - 1], down), None);
        }

        /// No key is a prefix of another, so compound keys compare part by part.
        #[test]
        fn no_key_is_a_prefix_of_another(a in values(), b in values(), x in values(), y in values(), down: bool) {
            let join = |first: &Value, second: &Value| {
                let mut out = key(first, down);
                encode(second.as_ref(), !down, &mut out);
                out
            };
            let parts = compare(a.as_ref(), b.as_ref());
            let first = if down { parts.reverse() } else { parts };
            let second = compare(x.as_ref(), y.as_ref());
            let second = if down { second } else { second.reverse() };
            prop_assert_eq!(join(&a, &x).cmp(&join(&b, &y)), first.then(second));
        }
    }

    #[test]
    fn small_numbers_take_ten_bytes() {
        for value in [Value::int32(7), Value::int64(-7), Value::double(0.1)] {
            assert_eq!(key(&value, false).len(), 10);
        }
    }
}
