//! What a request costs, in request units (RU).
//!
//! The service does not tell how it counts; its documentation gives examples. The model here agrees with those to the order of
//! magnitude, and is simple enough to be reckoned in one's head:
//!
//! | what | RU |
//! |---|---|
//! | a request | at least 1 |
//! | returning documents | 1 for each KB |
//! | looking at a document, other than by its `_id` | 0.1 |
//! | inserting a document | 5 for each KB, at least 5 |
//! | changing a document | 10 for each KB that it has then, at least 10 |
//! | deleting a document | 5 |
//! | expiry | nothing |
//!
//! So a point read of 1 KB costs 1, an insert of 1 KB 5, and a filter without an index pays for every document that it meets. A
//! write pays for its search, too, and what was done before a request failed is paid for. Handshakes, log-ins and the like
//! cost nothing. Costs add up: a batch costs what its statements cost.

/// What a request, or a part of one, has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Documents looked at, but for those found by their `_id`.
    pub looked_at: u64,
    /// Bytes of documents added and changed, each counted as a KB at least.
    pub inserted: u64,
    pub changed: u64,
    /// Documents removed.
    pub removed: u64,
    /// Bytes of documents in the reply.
    pub returned: u64,
}

const LOOK: f64 = 0.1;
const INSERT_KB: f64 = 5.0;
const CHANGE_KB: f64 = 10.0;
const REMOVE: f64 = 5.0;
const RETURN_KB: f64 = 1.0;

// === impl Usage ===

impl Usage {
    /// What a part of a request costs.
    pub fn cost(&self) -> f64 {
        LOOK * self.looked_at as f64
            + INSERT_KB * kilobytes(self.inserted)
            + CHANGE_KB * kilobytes(self.changed)
            + REMOVE * self.removed as f64
            + RETURN_KB * kilobytes(self.returned)
    }

    /// What a whole request is charged.
    pub fn charge(&self) -> f64 {
        (self.cost().max(1.0) * 100.0).round() / 100.0
    }
}

fn kilobytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
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
                    ..none
                },
                1.0,
            ),
            (
                "of 100 KB",
                Usage {
                    returned: 102_400,
                    ..none
                },
                100.0,
            ),
            (
                "a scan of 1000 that finds 1 KB",
                Usage {
                    returned: 1024,
                    looked_at: 1000,
                    ..none
                },
                101.0,
            ),
            (
                "an insert of 1 KB",
                Usage {
                    inserted: 1024,
                    ..none
                },
                5.0,
            ),
            (
                "ten small inserts",
                Usage {
                    inserted: 10 * 1024,
                    ..none
                },
                50.0,
            ),
            (
                "an update by _id of a document of 3 KB",
                Usage {
                    changed: 3 * 1024,
                    ..none
                },
                30.0,
            ),
            (
                "a delete that looks at eleven and removes two",
                Usage {
                    removed: 2,
                    looked_at: 11,
                    ..none
                },
                11.1,
            ),
        ];
        for (what, usage, expected) in rows {
            assert_eq!(usage.charge(), expected, "{what}");
        }
        assert_eq!(none.cost(), 0.0);
    }
}
