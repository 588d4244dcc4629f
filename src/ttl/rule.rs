//! The rule that says when a document ends. It exists only here.
//!
//! | document `ttl` \ collection default | off   | -1        | n         |
//! |-------------------------------------|-------|-----------|-----------|
//! | missing or not meaningful           | never | never     | `_ts` + n |
//! | -1                                  | never | never     | never     |
//! | m                                   | never | `_ts` + m | `_ts` + m |
//!
//! A document has expired from the instant `now >= end` on. TTL indexes on dates add ends of their own, and the earliest
//! end counts.

use crate::value::{Doc, Millis, Num, ValueRef};

/// A collection's `DefaultTTL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DefaultTtl {
    /// No document expires by it, and `ttl` fields are plain data.
    #[default]
    Off,
    /// -1: only documents with their own `ttl` expire.
    Never,
    /// Whole seconds, at least 1.
    Seconds(i32),
}

/// A document's own `ttl`, if it is meaningful: 0 for none, -1 for never, else seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnTtl(i32);

/// The first instant at which a document has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct End(i64);

// === impl DefaultTtl ===

impl DefaultTtl {
    /// Returns the setting with that number of seconds, if it is valid: -1 or 1 … 2147483647.
    pub fn from_seconds(seconds: i64) -> Option<Self> {
        match i32::try_from(seconds) {
            Ok(-1) => Some(Self::Never),
            Ok(n) if n >= 1 => Some(Self::Seconds(n)),
            _ => None,
        }
    }

    /// Returns the number that clients see, or `None` if it is off.
    pub fn seconds(self) -> Option<i32> {
        match self {
            Self::Off => None,
            Self::Never => Some(-1),
            Self::Seconds(n) => Some(n),
        }
    }

    /// Applies the matrix.
    #[inline]
    pub fn end(self, own: OwnTtl, ts: Millis) -> End {
        match (self, own.0) {
            (Self::Seconds(n), 0) => End::after(ts, n),
            (Self::Never | Self::Seconds(_), m) if m > 0 => End::after(ts, m),
            _ => End::NEVER,
        }
    }
}

// === impl OwnTtl ===

impl OwnTtl {
    pub const NONE: Self = Self(0);
    pub const NEVER: Self = Self(-1);
    /// The root field that contains it.
    pub const FIELD: &str = "ttl";

    /// Reads the root field `ttl`.
    pub fn of(doc: Doc<'_>) -> Self {
        Self::from_value(doc.get(Self::FIELD))
    }

    /// Returns the ttl that the value means: an int32, an int64 that fits an int32, or a double without a fraction that
    /// fits one, and -1 or at least 1. Any other value means none.
    pub fn from_value(value: ValueRef<'_>) -> Self {
        let seconds = match value.as_num() {
            Some(Num::Int32(n)) => n,
            Some(Num::Int64(n)) => i32::try_from(n).unwrap_or(0),
            Some(Num::Double(d)) if d.fract() == 0.0 && d >= -1.0 && d <= f64::from(i32::MAX) => {
                d as i32
            }
            _ => 0,
        };
        Self(if seconds >= -1 { seconds } else { 0 })
    }

    /// Returns whether the collection's default decides.
    pub fn inherits(self) -> bool {
        self.0 == 0
    }
}

// === impl End ===

impl End {
    pub const NEVER: Self = Self(i64::MAX);

    pub fn at(moment: Millis) -> Self {
        Self(moment.0)
    }

    /// Returns the instant `seconds` after `start`. A date can be any number, so the sum may overflow. It saturates then:
    /// the instant never comes, or came long ago.
    #[inline]
    pub fn after(start: Millis, seconds: i32) -> Self {
        Self(start.0.saturating_add(i64::from(seconds) * 1000))
    }

    #[inline]
    pub fn has_come(self, now: Millis) -> bool {
        now.0 >= self.0 && self != Self::NEVER
    }

    pub fn millis(self) -> i64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{DocBuf, Value};
    use bson::{Bson, doc};

    const NEVER: i64 = i64::MAX;

    #[test]
    fn the_matrix() {
        let ts = Millis(10_000);
        let rows = [
            // default, own ttl, end
            (DefaultTtl::Off, 0, NEVER),
            (DefaultTtl::Off, -1, NEVER),
            (DefaultTtl::Off, 5, NEVER),
            (DefaultTtl::Never, 0, NEVER),
            (DefaultTtl::Never, -1, NEVER),
            (DefaultTtl::Never, 5, 15_000),
            (DefaultTtl::Seconds(20), 0, 30_000),
            (DefaultTtl::Seconds(20), -1, NEVER),
            (DefaultTtl::Seconds(20), 5, 15_000),
            (
                DefaultTtl::Seconds(i32::MAX),
                0,
                10_000 + i64::from(i32::MAX) * 1000,
            ),
        ];
        for (default, own, end) in rows {
            assert_eq!(default.end(OwnTtl(own), ts), End(end), "{default:?} {own}");
        }
    }

    #[test]
    fn the_end_is_the_first_instant_without_the_document() {
        let end = End::after(Millis(1_000), 5);
        assert!(!end.has_come(Millis(5_999)));
        assert!(end.has_come(Millis(6_000)));
        assert!(end.has_come(Millis(6_001)));
        assert!(!End::NEVER.has_come(Millis(i64::MAX)));
    }

    #[test]
    fn valid_ttl_fields() {
        let rows: Vec<(Bson, i32)> = vec![
            (20.into(), 20),
            (Bson::Int64(20), 20),
            (20.0.into(), 20),
            ((-1).into(), -1),
            (Bson::Int64(-1), -1),
            ((-1.0).into(), -1),
            (1.into(), 1),
            (i32::MAX.into(), i32::MAX),
            (f64::from(i32::MAX).into(), i32::MAX),
            (20.5.into(), 0),
            ("20".into(), 0),
            (0.into(), 0),
            ((-0.0).into(), 0),
            ((-5).into(), 0),
            ((-2.0).into(), 0),
            (f64::NAN.into(), 0),
            (f64::INFINITY.into(), 0),
            (f64::NEG_INFINITY.into(), 0),
            (Bson::Null, 0),
            (true.into(), 0),
            (Bson::Decimal128("20".parse().unwrap()), 0),
            (Bson::Array(vec![20.into()]), 0),
            (doc! {"a": 20}.into(), 0),
            (Bson::Int64(3_000_000_000), 0),
            (Bson::Int64(i64::MIN), 0),
            (2_147_483_648.0.into(), 0),
        ];
        for (value, seconds) in rows {
            let doc = DocBuf::from(doc! {"a": {"ttl": 7}, "TTL": 8, "ttl": value.clone()});
            assert_eq!(OwnTtl::of(doc.as_doc()), OwnTtl(seconds), "{value:?}");
        }
        assert_eq!(OwnTtl::of(Doc::EMPTY), OwnTtl::NONE);
        assert_eq!(
            OwnTtl::from_value(Value::int32(i32::MIN).as_ref()),
            OwnTtl::NONE
        );
    }

    #[test]
    fn valid_default_ttls() {
        let rows = [
            (-1, Some(DefaultTtl::Never)),
            (1, Some(DefaultTtl::Seconds(1))),
            (2_147_483_647, Some(DefaultTtl::Seconds(i32::MAX))),
            (0, None),
            (-2, None),
            (2_147_483_648, None),
            (i64::MIN, None),
        ];
        for (seconds, expected) in rows {
            assert_eq!(DefaultTtl::from_seconds(seconds), expected, "{seconds}");
        }
    }
}
