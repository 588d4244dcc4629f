//! What a request costs, in request units (RU).
//!
//! The service does not tell how it counts; its documentation gives examples. The model here agrees with those to the order of
//! magnitude, and is simple enough to be reckoned in one's head:
//!
//! | what | RU |
//! |---|---|
//! | a request | at least 1 |
//! | reading | 1 for each KB that is returned, 0.1 for each document that is looked at beyond the first |
//! | inserting a document | 5 for each KB, at least 5 |
//! | changing a document | 10 for each KB, at least 10 |
//! | deleting a document | 5 |
//! | expiry | nothing |
//!
//! So a point read of 1 KB costs 1, an insert of 1 KB 5, and a filter without an index pays for every document that it meets.
//! A write pays for its search, too. Handshakes, log-ins and the like cost nothing.

/// What one document costs to write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price(f64);

/// What a request has done.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Documents looked at.
    pub examined: u64,
    /// Bytes of documents in the reply.
    pub returned: usize,
    /// Bytes of the request.
    pub sent: usize,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
}

const EXAMINED: f64 = 0.1;

// === impl Price ===

impl Price {
    pub const INSERT: Self = Self(5.0);
    pub const UPDATE: Self = Self(10.0);
    pub const DELETE: Self = Self(5.0);

    /// For a statement of that many bytes.
    pub fn of(self, bytes: usize) -> f64 {
        self.0 * kilobytes(bytes)
    }
}

// === impl Usage ===

impl Usage {
    pub fn charge(&self) -> f64 {
        let written = self.inserted + self.updated + self.deleted;
        let looking = EXAMINED * self.examined.saturating_sub(1) as f64;
        let units = if written == 0 {
            kilobytes(self.returned) + looking
        } else {
            let each = kilobytes(self.sent / usize::try_from(written).unwrap_or(usize::MAX));
            // What a delete sends is a filter.
            each * (Price::INSERT.0 * self.inserted as f64 + Price::UPDATE.0 * self.updated as f64)
                + Price::DELETE.0 * self.deleted as f64
                + looking
        };
        (units * 100.0).round() / 100.0
    }
}

/// Never less than one.
fn kilobytes(bytes: usize) -> f64 {
    (bytes as f64 / 1024.0).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_in_examples() {
        let none = Usage::default();
        let rows = [
            ("nothing found", none, 1.0),
            (
                "a point read of 1 KB",
                Usage {
                    returned: 1024,
                    examined: 1,
                    ..none
                },
                1.0,
            ),
            (
                "of 100 KB",
                Usage {
                    returned: 102_400,
                    examined: 1,
                    ..none
                },
                100.0,
            ),
            (
                "a scan of 1001 that finds little",
                Usage {
                    returned: 300,
                    examined: 1001,
                    ..none
                },
                101.0,
            ),
            (
                "an insert of 1 KB",
                Usage {
                    sent: 1024,
                    inserted: 1,
                    ..none
                },
                5.0,
            ),
            (
                "ten small inserts",
                Usage {
                    sent: 2000,
                    inserted: 10,
                    ..none
                },
                50.0,
            ),
            (
                "an update by _id",
                Usage {
                    sent: 200,
                    updated: 1,
                    examined: 1,
                    ..none
                },
                10.0,
            ),
            (
                "a delete that scans",
                Usage {
                    sent: 80,
                    deleted: 2,
                    examined: 11,
                    ..none
                },
                11.0,
            ),
        ];
        for (what, usage, expected) in rows {
            assert_eq!(usage.charge(), expected, "{what}");
        }
        assert_eq!(Price::INSERT.of(2048), 10.0);
        assert_eq!(Price::DELETE.of(10), 5.0);
    }
}
