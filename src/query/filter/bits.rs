//! `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.
//!
//! The mask is a number, binary data, or a list of positions. The field is a number (sign-extended without limit) or binary
//! data (least significant byte first, zero beyond its last byte).

use super::{
    FilterNode, Test, integer,
    parse::{OperatorSite, ParseContext},
};
use crate::{
    error::{Error, Result},
    interrupt,
    value::{Elem, Type, ValueRef},
};

#[derive(Debug, Clone)]
pub struct Bits {
    test: BitTest,
    /// The mask for a number: positions 0 to 62, and bit 63 for every position from 63 on, because all of those show the
    /// sign.
    mask: u64,
    bits: BitMask,
}

/// The mask for binary data, kept in the client's form: a position can be two billion, and binary data can hold a hundred
/// million bits.
#[derive(Debug, Clone)]
enum BitMask {
    /// Sorted, without duplicates.
    Positions(Vec<u32>),
    /// Without the zeros at the end, so data shorter than this lacks a bit.
    Bytes(Box<[u8]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BitTest {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

// === impl Bits ===

impl Bits {
    fn new(test: BitTest, bits: BitMask) -> Self {
        let mask = bits.mask();
        Self { test, mask, bits }
    }

    fn parse(test: BitTest, site: &OperatorSite<'_>, arg: ValueRef<'_>) -> Result<Self> {
        if let Some(array) = arg.as_array() {
            let mut positions = Vec::new();
            for elem in array {
                interrupt::tick(1)?;
                positions.push(position(elem)?);
            }
            // Positions nearly always come in order, and this check is then a single pass.
            if !positions.is_sorted() {
                positions.sort_unstable();
            }
            positions.dedup();
            return Ok(Self::new(test, BitMask::Positions(positions)));
        }
        if let Some((_, bytes)) = arg.as_binary() {
            interrupt::tick_read(bytes.len())?;
            return Ok(Self::new(test, BitMask::bytes(bytes)));
        }
        if arg.ty().is_number() {
            let mask = integer::non_negative_long(site.name, arg)?;
            return Ok(Self::new(test, BitMask::bytes(&mask.to_le_bytes())));
        }
        Err(Error::bad_value(format!(
            "{} takes an Array, a number, or a BinData but received: {}: {}",
            site.path,
            site.name,
            integer::show(arg)
        )))
    }

    pub fn name(&self) -> &'static str {
        match self.test {
            BitTest::AllSet => "$bitsAllSet",
            BitTest::AllClear => "$bitsAllClear",
            BitTest::AnySet => "$bitsAnySet",
            BitTest::AnyClear => "$bitsAnyClear",
        }
    }

    /// Returns the positions of the mask in ascending order.
    pub fn positions(&self) -> impl Iterator<Item = u32> {
        self.bits.positions()
    }

    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        if let Some((_, bytes)) = value.as_binary() {
            // The error is ignored: a caller that tests many values checks whether the command must end.
            let _ = interrupt::tick_read(bytes.len());
            return match self.test {
                BitTest::AllSet => self.bits.are_all_in(bytes),
                BitTest::AllClear => !self.bits.is_any_in(bytes),
                BitTest::AnySet => self.bits.is_any_in(bytes),
                BitTest::AnyClear => !self.bits.are_all_in(bytes),
            };
        }
        if !value.ty().is_number() {
            return false;
        }
        let Some(number) = integer::exact(value) else {
            return false;
        };
        let set = number as u64 & self.mask;
        match self.test {
            BitTest::AllSet => set == self.mask,
            BitTest::AllClear => set == 0,
            BitTest::AnySet => set != 0,
            BitTest::AnyClear => set != self.mask,
        }
    }
}

// === impl BitMask ===

impl BitMask {
    fn bytes(bytes: &[u8]) -> Self {
        let end = bytes.iter().rposition(|&byte| byte != 0);
        Self::Bytes(bytes[..end.map_or(0, |last| last + 1)].into())
    }

    /// Returns the mask for numbers ([`Bits::mask`]).
    fn mask(&self) -> u64 {
        match self {
            Self::Positions(positions) => {
                // Positions are sorted, so the ones after the first that is 63 or more add nothing.
                let seen = positions.partition_point(|&position| position < 63) + 1;
                let reported = positions.iter().take(seen);
                reported.fold(0, |mask, &position| mask | 1 << position.min(63))
            }
            Self::Bytes(bytes) => {
                let mut low = [0; 8];
                for (to, from) in low.iter_mut().zip(bytes) {
                    *to = *from;
                }
                u64::from_le_bytes(low) | u64::from(bytes.len() > 8) << 63
            }
        }
    }

    fn positions(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Self::Positions(positions) => Box::new(positions.iter().copied()),
            Self::Bytes(bytes) => Box::new((0u32..).zip(bytes).flat_map(|(at, &byte)| {
                (0..8).filter_map(move |bit| (byte >> bit & 1 == 1).then_some(at * 8 + bit))
            })),
        }
    }

    /// Returns how many bytes data must have to contain all positions.
    fn reach(&self) -> usize {
        match self {
            Self::Positions(positions) => positions.last().map_or(0, |&last| last as usize / 8 + 1),
            Self::Bytes(mask) => mask.len(),
        }
    }

    fn are_all_in(&self, data: &[u8]) -> bool {
        // This check comes first. The time then depends on the length of the data and not on the length of the mask.
        if self.reach() > data.len() {
            return false;
        }
        match self {
            Self::Positions(positions) => positions.iter().all(|&position| is_set(data, position)),
            Self::Bytes(mask) => mask.iter().zip(data).all(|(mask, byte)| mask & !byte == 0),
        }
    }

    fn is_any_in(&self, data: &[u8]) -> bool {
        match self {
            Self::Positions(positions) => positions
                .iter()
                .take_while(|&&position| position as usize / 8 < data.len())
                .any(|&position| is_set(data, position)),
            Self::Bytes(mask) => mask.iter().zip(data).any(|(mask, byte)| mask & byte != 0),
        }
    }
}

fn is_set(data: &[u8], position: u32) -> bool {
    data.get(position as usize / 8)
        .is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}

/// Parses one entry of a list of positions.
fn position(elem: Elem<'_>) -> Result<u32> {
    let number = integer::non_negative_int(elem.name(), elem.value).map_err(|why| {
        Error::bad_value(format!("Failed to parse bit position. {}", why.message()))
    })?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn node(test: BitTest, site: &OperatorSite<'_>, arg: ValueRef<'_>) -> Result<Option<FilterNode>> {
    debug_assert!(arg.ty() != Type::Missing);
    let bits = Bits::parse(test, site, arg)?;
    Ok(Some(FilterNode::field(site.path, Test::Bits(bits))))
}

pub(super) fn all_set(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(BitTest::AllSet, site, arg)
}

pub(super) fn all_clear(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(BitTest::AllClear, site, arg)
}

pub(super) fn any_set(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(BitTest::AnySet, site, arg)
}

pub(super) fn any_clear(
    _: &ParseContext<'_>,
    site: &OperatorSite<'_>,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    node(BitTest::AnyClear, site, arg)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::query::filter::check;
    use crate::value::DocBuf;
    use bson::{Bson, doc};

    fn binary(bytes: Vec<u8>) -> Bson {
        Bson::Binary(bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes,
        })
    }

    /// A long mask is kept in the client's form: bytes without the zeros at the end, positions as a list. Expanded to
    /// bytes, a position of two billion would take 256 MB.
    #[test]
    fn a_long_bit_mask_is_kept_as_given() {
        const LONG: usize = 12 << 20;
        let ends_with = |last: u8| {
            let mut bytes = vec![0; LONG];
            bytes[LONG - 1] = last;
            binary(bytes)
        };
        let far: Vec<i32> = (0..500_000).map(|n| 8 + n).collect();
        let short = DocBuf::from(doc! {"a": binary(vec![0xff]), "b": -1});
        for (mask, expected) in [
            (ends_with(0), [true, true, false, false]),
            (ends_with(1), [false, true, false, true]),
            (binary(vec![0xff; LONG]), [false, false, true, true]),
            (far.into(), [false, true, false, true]),
        ] {
            for (name, expected) in [
                "$bitsAllSet",
                "$bitsAllClear",
                "$bitsAnySet",
                "$bitsAnyClear",
            ]
            .into_iter()
            .zip(expected)
            {
                let filter = check::parse(&doc! {"a": {name: &mask}}).unwrap();
                let passed = filter.matches(short.as_doc(), &check::vars()).unwrap();
                assert_eq!(passed, expected, "{name} {:.40}", mask.to_string());
            }
        }
        assert!(
            matches!(BitMask::bytes(&[1, 0, 0, 2, 0, 0]), BitMask::Bytes(kept) if kept.len() == 4)
        );
        let far = BitMask::Positions(vec![i32::MAX.unsigned_abs()]);
        assert_eq!(far.positions().collect::<Vec<_>>(), [0x7fff_ffff]);
        assert!(!far.are_all_in(&[0xff]) && !far.is_any_in(&[0xff]));
    }

    #[test]
    fn the_sign_bit_of_a_number_extends_without_end() {
        for (mask, expected) in [
            (vec![], 0),
            (vec![5, 0, 0], 5),
            (vec![0, 0, 0, 0, 0, 0, 0, 0x80], 1 << 63),
            (vec![0, 0, 0, 0, 0, 0, 0, 0x40], 1 << 62),
            (vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 4], 1 << 63 | 1),
        ] {
            let bytes = BitMask::bytes(&mask);
            assert_eq!(bytes.mask(), expected, "{mask:?}");
            let positions = BitMask::Positions(bytes.positions().collect());
            assert_eq!(positions.mask(), expected, "{mask:?}");
            for data in [vec![], vec![5], vec![0xff; 9], vec![0xff; 10], vec![0; 10]] {
                assert_eq!(bytes.are_all_in(&data), positions.are_all_in(&data));
                assert_eq!(bytes.is_any_in(&data), positions.is_any_in(&data));
            }
        }
    }

    #[test]
    fn numbers_and_bits() {
        check::passes(&[
            (
                doc! {"a": {"$mod": [4, 1]}},
                vec![doc! {"a": 5}, doc! {"a": 5.9}, doc! {"a": [9]}],
                vec![doc! {"a": 4}, doc! {"a": "5"}, doc! {"a": f64::NAN}],
            ),
            (
                doc! {"a": {"$mod": [4, -1]}},
                vec![doc! {"a": -5}],
                vec![doc! {"a": 5}],
            ),
            (
                doc! {"a": {"$mod": [-1, 0]}},
                vec![doc! {"a": i64::MIN}],
                vec![],
            ),
            (
                doc! {"a": {"$bitsAllSet": 5}},
                vec![doc! {"a": 7}, doc! {"a": -1i64}],
                vec![doc! {"a": 4}, doc! {"a": "7"}, doc! {"a": 5.5}],
            ),
            (
                doc! {"a": {"$bitsAnyClear": [0, 200]}},
                vec![doc! {"a": 1}, doc! {"a": 0}],
                vec![doc! {"a": -1}],
            ),
            (
                doc! {"a": {"$bitsAllClear": [1]}},
                vec![doc! {"a": 5}],
                vec![doc! {"a": 2}],
            ),
            (
                doc! {"a": {"$bitsAnySet": 6}},
                vec![doc! {"a": 2}],
                vec![doc! {"a": 1}],
            ),
            (
                doc! {"a": {"$bitsAllSet": [8]}},
                vec![doc! {"a": binary(vec![0, 1])}],
                vec![doc! {"a": binary(vec![1])}],
            ),
        ]);
        check::refused(&[
            (doc! {"a": {"$mod": [0, 1]}}, 2, "divisor cannot be 0"),
            (
                doc! {"a": {"$mod": [1]}},
                2,
                "malformed mod, not enough elements",
            ),
            (
                doc! {"a": {"$mod": [1, 2, 3]}},
                2,
                "malformed mod, too many elements",
            ),
            (
                doc! {"a": {"$mod": 1}},
                2,
                "malformed mod, needs to be an array",
            ),
            (
                doc! {"a": {"$mod": ["a", 1]}},
                2,
                "malformed mod, divisor not a number",
            ),
            (
                doc! {"a": {"$mod": [f64::NAN, 1]}},
                2,
                "malformed mod, divisor value is invalid",
            ),
            (
                doc! {"a": {"$bitsAllSet": -1}},
                9,
                "Expected a non-negative number in: $bitsAllSet: -1",
            ),
            (
                doc! {"a": {"$bitsAllSet": "x"}},
                2,
                "a takes an Array, a number, or a BinData but received: $bitsAllSet: \"x\"",
            ),
            (
                doc! {"a": {"$bitsAllSet": [-1]}},
                2,
                "Failed to parse bit position. Expected a non-negative number in: 0: -1",
            ),
        ]);
    }
}
