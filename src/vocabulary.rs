//! A vocabulary: all names that MongoDB has for its commands, its stages or one kind of operators.
//!
//! There are six. Each is one sorted table (`table.rs`) in the folder whose files implement it. Dispatch, listCommands,
//! metrics and the README are derived from the tables. A name that MongoDB has and Sundown does not have yet is in the
//! table as planned, and is refused by name. A name that is not in the table is unknown, as it is to mongod.

use std::cmp::Ordering;

use crate::error::{Error, Result};

/// A table of names. `T` runs or parses a name that is built, `F` holds the facts about each name.
pub struct Vocabulary<T: 'static, F: 'static = ()> {
    /// The word in front of a planned name in its refusal.
    kind: &'static str,
    entries: &'static [Entry<T, F>],
}

/// One row of the table.
pub struct Entry<T, F = ()> {
    /// The name as clients write it.
    pub name: &'static str,
    pub status: Status<T>,
    /// Facts that hold whether the name is built or planned.
    pub facts: F,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status<T> {
    Ready(T),
    /// MongoDB has it, Sundown does not have it yet.
    Planned,
}

/// Creates the entry of a name that is built, in a vocabulary without facts.
pub const fn ready<T>(name: &'static str, ready: T) -> Entry<T> {
    Entry {
        name,
        status: Status::Ready(ready),
        facts: (),
    }
}

/// Creates the entry of a planned name, in a vocabulary without facts.
pub const fn planned<T>(name: &'static str) -> Entry<T> {
    Entry {
        name,
        status: Status::Planned,
        facts: (),
    }
}

// === impl Vocabulary ===

impl<T, F> Vocabulary<T, F> {
    /// Creates a vocabulary. As the value of a static it compiles only if the entries are sorted by name and no name occurs
    /// twice.
    pub const fn new(kind: &'static str, entries: &'static [Entry<T, F>]) -> Self {
        let mut at = 1;
        while at < entries.len() {
            if !is_before(entries[at - 1].name, entries[at].name) {
                // This entry belongs further up, or occurs twice.
                panic!("{}", entries[at].name);
            }
            at += 1;
        }
        Self { kind, entries }
    }

    /// Returns all entries, sorted by name.
    pub const fn entries(&self) -> &'static [Entry<T, F>] {
        self.entries
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<&'static Entry<T, F>> {
        let at = self
            .entries
            .binary_search_by(|entry| compare(entry.name.as_bytes(), name));
        self.entries.get(at.ok()?)
    }

    /// Returns the function that runs or parses the entry. Refuses a planned name.
    pub fn ready<'e>(&self, entry: &'e Entry<T, F>) -> Result<&'e T> {
        match &entry.status {
            Status::Ready(ready) => Ok(ready),
            Status::Planned => Err(self.refuse(entry)),
        }
    }

    /// The error for a planned name.
    #[cold]
    pub fn refuse(&self, entry: &Entry<T, F>) -> Error {
        let Self { kind, .. } = self;
        let space = if kind.is_empty() { "" } else { " " };
        Error::not_implemented(format_args!("{kind}{space}{}", entry.name))
    }
}

/// Compares two names. Most differ in the first bytes, which need no call to compare.
#[inline]
fn compare(a: &[u8], b: &[u8]) -> Ordering {
    match (a.first_chunk(), b.first_chunk()) {
        (Some(&first), Some(&second)) if first != second => {
            u32::from_be_bytes(first).cmp(&u32::from_be_bytes(second))
        }
        _ => a.cmp(b),
    }
}

/// Returns whether `a < b`: a const fn cannot compare strings with `<`.
const fn is_before(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() {
        if a[at] != b[at] {
            return a[at] < b[at];
        }
        at += 1;
    }
    a.len() < b.len()
}

// === impl Entry ===

impl<T, F> Entry<T, F> {
    pub const fn is_ready(&self) -> bool {
        matches!(self.status, Status::Ready(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_planned_ones_refused() {
        static WORDS: Vocabulary<i32> =
            Vocabulary::new("word", &[ready("$a", 1), planned("$ab"), ready("$b", 3)]);
        let found = |name: &str| WORDS.find(name.as_bytes());
        assert!(found("$").is_none() && found("$c").is_none() && found("").is_none());
        for known in WORDS.entries() {
            let entry = found(known.name).unwrap();
            assert!(std::ptr::eq(entry, known));
            assert_eq!(WORDS.ready(entry).is_ok(), entry.is_ready());
        }
        let refusal = WORDS.refuse(found("$ab").unwrap());
        assert_eq!(refusal.code().number(), 238);
        assert_eq!(refusal.message(), "word $ab is not implemented in Sundown");
    }

    #[test]
    fn entries_are_sorted() {
        for (first, second, sorted) in [
            ("$a", "$b", true),
            ("$a", "$aa", true),
            ("$B", "$a", true),
            ("$a", "$a", false),
            ("$b", "$a", false),
            ("$aa", "$a", false),
            ("$set", "$setOnInsert", true),
            ("$pull", "$push", true),
            ("$push", "$pull", false),
            ("$set", "$inc", false),
        ] {
            assert_eq!(is_before(first, second), sorted, "{first} {second}");
            assert_eq!(first < second, sorted);
            assert_eq!(compare(first.as_bytes(), second.as_bytes()).is_lt(), sorted);
        }
    }
}
