//! From when on something may have ended.

use crate::value::Millis;

use super::{DefaultTtl, End, OwnTtl};

/// Lower bounds over a set of documents, kept apart by what decides their end, so that they hold whatever the
/// collection's default becomes. A write only lowers them; a visit to all the documents makes them exact again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The oldest `_ts` among documents that inherit the default.
    inheriting: i64,
    /// The earliest end among documents with a ttl of their own.
    own: i64,
    /// The earliest end that a TTL index on dates gives.
    dates: i64,
}

// === impl Bounds ===

impl Bounds {
    /// Of no document at all.
    pub const NONE: Self = Self {
        inheriting: i64::MAX,
        own: i64::MAX,
        dates: i64::MAX,
    };

    #[inline]
    pub fn include(&mut self, own: OwnTtl, ts: Millis, dates: End) {
        if own.inherits() {
            self.inheriting = self.inheriting.min(ts.0);
        } else {
            // The end that it has while the default is on; while it is off, `earliest` leaves this bound out.
            self.own = self.own.min(DefaultTtl::Never.end(own, ts).millis());
        }
        self.dates = self.dates.min(dates.millis());
    }

    pub fn merge(&mut self, other: Self) {
        self.inheriting = self.inheriting.min(other.inheriting);
        self.own = self.own.min(other.own);
        self.dates = self.dates.min(other.dates);
    }

    /// No document ends before this instant under that default.
    #[inline]
    pub fn earliest(&self, default: DefaultTtl) -> End {
        let inherited = match default {
            DefaultTtl::Seconds(n) if self.inheriting != i64::MAX => {
                End::after(Millis(self.inheriting), n).millis()
            }
            _ => i64::MAX,
        };
        let own = if default == DefaultTtl::Off {
            i64::MAX
        } else {
            self.own
        };
        End::at(Millis(inherited.min(own).min(self.dates)))
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
}
