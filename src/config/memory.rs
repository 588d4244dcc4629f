//! How much memory a query may use.

use std::fs;
use std::str::FromStr;

/// The most memory that one stage of a query may hold: a sort, the groups of `$group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueryMemory {
    #[default]
    QuarterOfMachine,
    Bytes(u64),
}

/// Used if the machine does not tell its memory.
const UNKNOWN_MACHINE: u64 = 1 << 30;

// === impl QueryMemory ===

impl QueryMemory {
    pub fn bytes(self) -> usize {
        let bytes = match self {
            Self::Bytes(bytes) => bytes,
            Self::QuarterOfMachine => machine().unwrap_or(UNKNOWN_MACHINE) / 4,
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl FromStr for QueryMemory {
    type Err = String;

    /// Parses `1073741824`, `1024M` or `1G`.
    fn from_str(text: &str) -> Result<Self, String> {
        match parse_size(text)? {
            0 => Ok(Self::QuarterOfMachine),
            bytes => Ok(Self::Bytes(bytes)),
        }
    }
}

/// Parses a number of bytes: `1073741824`, `1024M` or `1G`.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "it is a number of bytes, or with K, M or G at its end".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "it is larger than any memory".to_owned())
}

/// Returns the memory of the machine, or of the container if that is less.
fn machine() -> Option<u64> {
    let info = fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    let container = fs::read_to_string("/sys/fs/cgroup/memory.max")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    Some((kilobytes * 1024).min(container.unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_refused, config};
    use super::*;

    #[test]
    fn sizes() {
        for (text, expected) in [
            ("0", QueryMemory::QuarterOfMachine),
            ("1000", QueryMemory::Bytes(1000)),
            ("2K", QueryMemory::Bytes(2048)),
            ("3m", QueryMemory::Bytes(3 << 20)),
            ("1G", QueryMemory::Bytes(1 << 30)),
        ] {
            let found = config(&["--max-query-memory", text]).expect(text);
            assert_eq!(found.max_query_memory, expected, "{text}");
        }
        assert_refused(&[
            (&["--max-query-memory", "much"], "number of bytes"),
            (&["--max-query-memory", ""], "number of bytes"),
            (&["--max-query-memory", "1é"], "number of bytes"),
            (&["--max-query-memory", "99999999999999G"], "larger"),
        ]);
    }

    #[test]
    fn a_quarter_of_the_machine_is_some_memory() {
        assert!(QueryMemory::default().bytes() > 1 << 20);
    }
}
