//! Bounds that tell when documents may have expired, and when all have.

use crate::value::Millis;

use crate::ttl::{DefaultTtl, End, OwnTtl};

/// Bounds over a set of documents. They are kept apart by what decides the end, so that they stay valid when the
/// collection's default changes. A write only widens them; a visit to all documents makes them exact again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// `_ts` of documents that inherit the default.
    inheriting: Span,
    /// Ends of documents with their own `ttl`.
    own: Span,
    /// Ends by TTL indexes on dates (`NEVER` for a document to which none of them applies).
    dates: Span,
}

/// The smallest and the largest of some moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: i64,
    last: i64,
}

// === impl Span ===

impl Span {
    const NONE: Self = Self {
        first: i64::MAX,
        last: i64::MIN,
    };

    #[inline]
    fn include(&mut self, moment: i64) {
        self.first = self.first.min(moment);
        self.last = self.last.max(moment);
    }

    fn merge(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
    }

    fn is_none(self) -> bool {
        self.last == i64::MIN
    }
}

// === impl Bounds ===

impl Bounds {
    /// The bounds of an empty set.
    pub const NONE: Self = Self {
        inheriting: Span::NONE,
        own: Span::NONE,
        dates: Span::NONE,
    };

    #[inline]
    pub fn include(&mut self, own: OwnTtl, ts: Millis, dates: End) {
        if own.inherits() {
            self.inheriting.include(ts.0);
        } else {
            // The end while the default is on. While it is off, this span is ignored.
            self.own.include(DefaultTtl::Never.end(own, ts).millis());
        }
        self.include_dates(dates);
    }

    #[inline]
    pub fn include_dates(&mut self, dates: End) {
        self.dates.include(dates.millis());
    }

    /// Takes over the bounds of the ends by dates.
    pub fn set_dates(&mut self, other: &Self) {
        self.dates = other.dates;
    }

    pub fn merge(&mut self, other: Self) {
        self.inheriting.merge(other.inheriting);
        self.own.merge(other.own);
        self.dates.merge(other.dates);
    }

    /// Returns the instant before which no document expires under that default.
    #[inline]
    pub fn earliest(&self, default: DefaultTtl) -> End {
        let inherited = match default {
            DefaultTtl::Seconds(n) if !self.inheriting.is_none() => {
                End::after(Millis(self.inheriting.first), n).millis()
            }
            _ => i64::MAX,
        };
        let own = if default == DefaultTtl::Off {
            i64::MAX
        } else {
            self.own.first
        };
        End::at(Millis(inherited.min(own).min(self.dates.first)))
    }

    /// Returns the instant from which all documents have expired under that default.
    #[inline]
    pub fn latest(&self, default: DefaultTtl) -> End {
        let inherited = match default {
            _ if self.inheriting.is_none() => i64::MIN,
            DefaultTtl::Seconds(n) => End::after(Millis(self.inheriting.last), n).millis(),
            _ => i64::MAX,
        };
        let own = match default {
            DefaultTtl::Off if !self.own.is_none() => i64::MAX,
            _ => self.own.last,
        };
        End::at(Millis(inherited.max(own).min(self.dates.last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Value;

    #[test]
    fn each_default_reads_the_bounds_its_own_way() {
        let mut bounds = Bounds::NONE;
        assert_eq!(bounds.earliest(DefaultTtl::Seconds(1)), End::NEVER);
        bounds.include(OwnTtl::NONE, Millis(1_000), End::NEVER);
        bounds.include(OwnTtl::NONE, Millis(2_000), End::NEVER);
        bounds.include(
            OwnTtl::from_value(Value::int32(3).as_ref()),
            Millis(500),
            End::NEVER,
        );
        bounds.include(OwnTtl::NEVER, Millis(1), End::NEVER);
        assert_eq!(bounds.earliest(DefaultTtl::Off), End::NEVER);
        assert_eq!(bounds.earliest(DefaultTtl::Never), End::at(Millis(3_500)));
        assert_eq!(
            bounds.earliest(DefaultTtl::Seconds(1)),
            End::at(Millis(2_000))
        );
        bounds.include(OwnTtl::NONE, Millis(9_000), End::at(Millis(42)));
        assert_eq!(bounds.earliest(DefaultTtl::Off), End::at(Millis(42)));
    }

    #[test]
    fn a_set_is_over_when_its_last_document_is() {
        let ttl = |n| OwnTtl::from_value(Value::int32(n).as_ref());
        let mut bounds = Bounds::NONE;
        bounds.include(OwnTtl::NONE, Millis(1_000), End::NEVER);
        bounds.include(OwnTtl::NONE, Millis(2_000), End::NEVER);
        assert_eq!(
            bounds.latest(DefaultTtl::Seconds(1)),
            End::at(Millis(3_000))
        );
        assert_eq!(bounds.latest(DefaultTtl::Never), End::NEVER);
        assert_eq!(bounds.latest(DefaultTtl::Off), End::NEVER);
        bounds.include(ttl(9), Millis(500), End::NEVER);
        assert_eq!(
            bounds.latest(DefaultTtl::Seconds(1)),
            End::at(Millis(9_500))
        );
        bounds.include(OwnTtl::NEVER, Millis(500), End::NEVER);
        assert_eq!(bounds.latest(DefaultTtl::Seconds(1)), End::NEVER);
        let mut dated = Bounds::NONE;
        dated.include(OwnTtl::NONE, Millis(1), End::at(Millis(50)));
        dated.include(OwnTtl::NONE, Millis(1), End::at(Millis(70)));
        assert_eq!(dated.latest(DefaultTtl::Off), End::at(Millis(70)));
        dated.include(OwnTtl::NONE, Millis(1), End::NEVER);
        assert_eq!(dated.latest(DefaultTtl::Off), End::NEVER);
    }
}
