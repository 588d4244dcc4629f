//! The instants at which tests look, and the documents that are visible then. Ends are in milliseconds since the start,
//! `None` for never.

/// Returns the instants just before each end, at it, and just after it.
pub fn around(ends: &[Option<i64>]) -> Vec<i64> {
    let mut all: Vec<i64> = ends
        .iter()
        .flatten()
        .flat_map(|end| [end - 1, *end, end + 1])
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Returns the numbers of the documents that are visible.
pub fn living(ends: &[Option<i64>], instant: i64) -> Vec<i64> {
    (0i64..)
        .zip(ends)
        .filter(|(_, end)| end.is_none_or(|end| instant < end))
        .map(|(id, _)| id)
        .collect()
}
