//! When to look, and who is there then: ends in milliseconds since the start, `None` for never.

/// Just before each end, at it, and just after.
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

/// The numbers of those that have not ended.
pub fn living(ends: &[Option<i64>], instant: i64) -> Vec<i64> {
    (0i64..)
        .zip(ends)
        .filter(|(_, end)| end.is_none_or(|end| instant < end))
        .map(|(id, _)| id)
        .collect()
}
