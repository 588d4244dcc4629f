//! The cost of a request, in request units (RU).
//!
//! The service does not publish its model; its documentation gives examples. The model here agrees with them in the order
//! of magnitude, and is simple enough for mental arithmetic:
//!
//! | what | RU |
//! |---|---|
//! | a request | at least 1 |
//! | returning documents | 1 for each KB |
//! | examining a document, other than by its `_id` | 0.1 |
//! | inserting a document | 5 for each KB, at least 5 |
//! | changing a document | 10 for each KB that it has then, at least 10 |
//! | deleting a document | 5 |
//! | expiry | nothing |
//!
//! So a point read of 1 KB costs 1, an insert of 1 KB costs 5, and a filter without an index pays for every document that
//! it examines. A write also pays for its search, and a failed request pays for what it did before the error. Handshakes,
//! logins and the like cost nothing. Costs add up: a batch costs as much as its statements.

use crate::effort::Effort;

/// The work of a request, or of a part of one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub effort: Effort,
    /// Bytes of documents in the reply.
    pub returned: u64,
}

const LOOK: f64 = 0.1;
const INSERT_KB: f64 = 5.0;
const CHANGE_KB: f64 = 10.0;
const REMOVE: f64 = 5.0;
const RETURN_KB: f64 = 1.0;
/// The smallest size that a written document is charged for.
const LEAST: u64 = 1024;

/// Returns the size that an inserted or changed document of this many bytes is charged for.
pub fn weigh(bytes: usize) -> u64 {
    (bytes as u64).max(LEAST)
}

// === impl Usage ===

impl Usage {
    /// Returns the cost of a part of a request.
    pub fn cost(&self) -> f64 {
        let effort = &self.effort;
        LOOK * (effort.documents - effort.by_id) as f64
            + INSERT_KB * kilobytes(effort.inserted)
            + CHANGE_KB * kilobytes(effort.changed)
            + REMOVE * effort.removed as f64
            + RETURN_KB * kilobytes(self.returned)
    }

    /// Returns the charge for a whole request.
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
        let none = Effort::default();
        let looked_at = |documents: u64| Effort { documents, ..none };
        let inserted = |sizes: &[usize]| Effort {
            inserted: sizes.iter().map(|&bytes| weigh(bytes)).sum(),
            ..none
        };
        let changed = |bytes: usize| Effort {
            changed: weigh(bytes),
            ..none
        };
        let by_id = |documents: u64| Effort {
            documents,
            by_id: documents,
            ..none
        };
        let removed = Effort {
            removed: 2,
            ..looked_at(11)
        };
        // (what, the effort, bytes in the reply, the charge)
        let rows = [
            ("nothing found", none, 0, 1.0),
            ("a point read of 1 KB", by_id(1), 1024, 1.0),
            ("of 100 KB", by_id(1), 102_400, 100.0),
            (
                "a scan of 1000 that finds 1 KB",
                looked_at(1000),
                1024,
                101.0,
            ),
            ("an insert of 1 KB", inserted(&[1024]), 0, 5.0),
            ("ten small inserts", inserted(&[20; 10]), 0, 50.0),
            (
                "a small insert and a large one",
                inserted(&[20, 3072]),
                0,
                20.0,
            ),
            (
                "an update by _id of a document of 3 KB",
                changed(3 * 1024),
                0,
                30.0,
            ),
            ("of a small one", changed(100), 0, 10.0),
            (
                "a delete that looks at eleven and removes two",
                removed,
                0,
                11.1,
            ),
        ];
        for (what, effort, returned, expected) in rows {
            let usage = Usage { effort, returned };
            assert_eq!(usage.charge(), expected, "{what}");
        }
        assert_eq!(Usage::default().cost(), 0.0);
    }
}
