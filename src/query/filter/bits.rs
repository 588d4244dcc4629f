//! `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.
//!
//! The mask is a number, binary data, or a list of positions; the field is a number (sign-extended without end) or binary data
//! (zero beyond its last byte, least significant byte first).

use super::{
    Node, Test, integer,
    parse::{Cx, Site},
};
use crate::{
    error::{Error, Result},
    value::{Num, Type, ValueRef},
};

#[derive(Debug)]
pub struct Bits {
    want: Want,
    /// The mask for a number: positions 0 to 62, and in bit 63 every position from 63 on, all of which show the sign.
    mask: u64,
    wanted: Wanted,
}

/// The mask for binary data, kept as it came: a position can be two billion, and binary data can hold a hundred million.
#[derive(Debug)]
enum Wanted {
    /// In order, each once.
    Positions(Vec<u32>),
    Bytes(Box<[u8]>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

// === impl Bits ===

impl Bits {
    fn new(want: Want, wanted: Wanted) -> Self {
        let mask = wanted
            .positions()
            .fold(0, |mask, position| mask | 1u64 << position.min(63));
        Self { want, mask, wanted }
    }

    fn parse(want: Want, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Self> {
        if let Some(array) = arg.as_array() {
            let mut positions: Vec<u32> = array
                .iter()
                .map(|elem| position(elem.name(), elem.value))
                .collect::<Result<_>>()?;
            positions.sort_unstable();
            positions.dedup();
            return Ok(Self::new(want, Wanted::Positions(positions)));
        }
        if let Some((_, bytes)) = arg.as_binary() {
            return Ok(Self::new(want, Wanted::Bytes(bytes.into())));
        }
        if arg.ty().is_number() {
            let mask = integer::non_negative_long(site.name, arg)?;
            return Ok(Self::new(want, Wanted::Bytes(mask.to_le_bytes().into())));
        }
        Err(Error::bad_value(format!(
            "{} takes an Array, a number, or a BinData but received: {}: {}",
            site.path,
            site.name,
            integer::show(arg)
        )))
    }

    pub fn name(&self) -> &'static str {
        match self.want {
            Want::AllSet => "$bitsAllSet",
            Want::AllClear => "$bitsAllClear",
            Want::AnySet => "$bitsAnySet",
            Want::AnyClear => "$bitsAnyClear",
        }
    }

    /// The bits that are asked for, in order.
    pub fn positions(&self) -> impl Iterator<Item = u32> {
        self.wanted.positions()
    }

    pub fn passes(&self, value: ValueRef<'_>) -> bool {
        if let Some((_, bytes)) = value.as_binary() {
            return match self.want {
                Want::AllSet => self.wanted.are_all_in(bytes),
                Want::AllClear => !self.wanted.is_any_in(bytes),
                Want::AnySet => self.wanted.is_any_in(bytes),
                Want::AnyClear => !self.wanted.are_all_in(bytes),
            };
        }
        if !value.ty().is_number() {
            return false;
        }
        let Some(number) = integer::exact(value) else {
            return false;
        };
        let set = number as u64 & self.mask;
        match self.want {
            Want::AllSet => set == self.mask,
            Want::AllClear => set == 0,
            Want::AnySet => set != 0,
            Want::AnyClear => set != self.mask,
        }
    }
}

// === impl Wanted ===

impl Wanted {
    fn positions(&self) -> Box<dyn Iterator<Item = u32> + '_> {
        match self {
            Self::Positions(positions) => Box::new(positions.iter().copied()),
            Self::Bytes(bytes) => Box::new((0u32..).zip(bytes).flat_map(|(at, &byte)| {
                (0..8).filter_map(move |bit| (byte >> bit & 1 == 1).then_some(at * 8 + bit))
            })),
        }
    }

    fn are_all_in(&self, data: &[u8]) -> bool {
        match self {
            Self::Positions(positions) => positions.iter().all(|&position| is_set(data, position)),
            Self::Bytes(mask) => mask
                .iter()
                .enumerate()
                .all(|(at, byte)| byte & !data.get(at).unwrap_or(&0) == 0),
        }
    }

    fn is_any_in(&self, data: &[u8]) -> bool {
        match self {
            Self::Positions(positions) => positions.iter().any(|&position| is_set(data, position)),
            Self::Bytes(mask) => mask.iter().zip(data).any(|(mask, byte)| mask & byte != 0),
        }
    }
}

fn is_set(data: &[u8], position: u32) -> bool {
    data.get(position as usize / 8)
        .is_some_and(|byte| byte >> (position % 8) & 1 == 1)
}

/// One entry of a list of positions.
fn position(name: &str, value: ValueRef<'_>) -> Result<u32> {
    let refuse = |why: &str| {
        Error::bad_value(format!(
            "bit positions {why}: {name}: {}",
            integer::show(value)
        ))
    };
    let number = match value.as_num() {
        None => return Err(refuse("must be an integer but got")),
        Some(Num::Double(x)) if x.is_nan() => return Err(refuse("cannot take a NaN")),
        Some(Num::Double(x)) if x.abs() > f64::from(i32::MAX) => {
            return Err(refuse("cannot be represented as a 32-bit signed integer"));
        }
        Some(num) => num
            .to_i64_exact()
            .ok_or_else(|| refuse("must be an integer but got"))?,
    };
    let number = i32::try_from(number)
        .map_err(|_| refuse("cannot be represented as a 32-bit signed integer"))?;
    u32::try_from(number).map_err(|_| refuse("must be >= 0 but got"))
}

fn node(want: Want, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    debug_assert!(arg.ty() != Type::Missing);
    let bits = Bits::parse(want, site, arg)?;
    Ok(Some(Node::field(site.path, Test::Bits(bits))))
}

pub(super) fn all_set(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(Want::AllSet, site, arg)
}

pub(super) fn all_clear(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(Want::AllClear, site, arg)
}

pub(super) fn any_set(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(Want::AnySet, site, arg)
}

pub(super) fn any_clear(_: &Cx<'_>, site: &Site<'_>, arg: ValueRef<'_>) -> Result<Option<Node>> {
    node(Want::AnyClear, site, arg)
}

#[cfg(test)]
mod tests {
    use crate::query::filter::check;
    use bson::{Bson, doc};

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
                vec![
                    doc! {"a": Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![0, 1] })},
                ],
                vec![
                    doc! {"a": Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1] })},
                ],
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
                "bit positions must be >= 0 but got: 0: -1",
            ),
        ]);
    }
}
