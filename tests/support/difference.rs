//! A statement that mongod 6.0.5 answers differently from Sundown, and the reason.
//!
//! Sundown follows 8.2, so most differences come from the version. Each is listed under its statement:
//!
//! ```text
//! # 6.0: kind: reason
//! # 6.0| what 6.0.5 answers
//! ```

/// The kinds of reasons:
///
/// - `version`: 8.2 answers as Sundown does.
/// - `wording`: the same code with a different message.
/// - `order`: the same fields in another order. What 8.2 does is not known.
/// - `server`: it depends on the machine, the storage engine, or on being a standalone server.
/// - `own`: a deliberate difference.
/// - `unbuilt`: Sundown refuses a feature that is not built.
/// - `fault`: Sundown is wrong, and must be fixed.
/// - `unknown`: 8.2 may answer either way.
pub const KINDS: &[&str] = &[
    "version", "wording", "order", "server", "own", "unbuilt", "fault", "unknown",
];

#[derive(Default)]
pub struct Difference {
    /// `kind: reason`, or a single `?` if no reason is given yet.
    pub reason: String,
    pub answer: Vec<String>,
}

/// Prefixes that 8.2 adds to the message of an error that a document caused: (beginning, end).
const LEADS: &[(&str, &str)] = &[
    // This prefix must come before the next one, because it contains that one.
    ("PlanExecutor error during ", " :: caused by :: "),
    ("Executor error during ", " :: caused by :: "),
    ("Plan executor error during ", " :: caused by :: "),
];

/// Texts that only the answers of a standalone server contain.
const STANDALONE: &[&str] = &[
    "NotAReplicaSet",
    "Standalones can't",
    "on standalone nodes",
    "without replication enabled",
    "only supported on replica sets",
    "only allowed on a replica set member or mongos",
];

/// The reason for a difference in wording only. Clients do not depend on it: code and meaning are the same.
const WORDS: &str = "wording: not pursued";

/// The answers of 6.0.5 to an unknown operator.
const UNKNOWN_OPERATOR: &[&str] = &[
    "Unknown expression $",
    "Unrecognized expression '$",
    "unknown group operator '$",
    "Unrecognized pipeline stage name: '$",
    "CommandNotFound: no such command",
];

// === impl Difference ===

impl Difference {
    /// Creates a difference with the reason that is already given, or else with one that the two answers show.
    pub fn new(ours: &[String], answer: Vec<String>, given: Option<String>) -> Self {
        let given = given.filter(|reason| reason != "?");
        let reason = given.unwrap_or_else(|| evident(&ours.join("\n"), &answer.join("\n")).into());
        Self { reason, answer }
    }

    /// Returns whether a kind and a reason are given.
    pub fn is_explained(&self) -> bool {
        let (kind, reason) = self.reason.split_once(": ").unwrap_or_default();
        KINDS.contains(&kind) && !reason.is_empty()
    }
}

/// Returns the reason that the two answers show.
fn evident(ours: &str, theirs: &str) -> &'static str {
    let (plain, theirs_plain) = (without_lead(ours), without_lead(theirs));
    let named = plain
        .replace("IDLUnknownField", "Location40415")
        .replace("IDLFailedToParse", "Location40414");
    let has = |signs: &[&str]| signs.iter().any(|sign| theirs.contains(sign));
    if plain == theirs_plain {
        "wording: 8.2 says which command failed"
    } else if named == theirs_plain {
        "version: 8.2 names the codes 40414 and 40415"
    } else if named == theirs_plain.replace("']", "]'") {
        "version: 8.2 closes the list of types"
    } else if theirs.contains("Tree: ") && theirs.contains("error processing query") {
        "wording: Sundown does not print the query"
    } else if !fails(ours) && letters(&plain) == letters(&theirs_plain) {
        "order: the same fields"
    } else if ours.contains("error 238 NotImplemented") {
        "unbuilt: Sundown refuses it by name"
    } else if has(STANDALONE) {
        "server: mongod runs as a standalone here"
    } else if has(UNKNOWN_OPERATOR) {
        "version: newer than 6.0"
    } else if theirs.starts_with("error 51024 ") && ours.starts_with("error 2 BadValue") {
        "version: 8.2 has BadValue for a number out of range"
    } else if theirs.starts_with("error 0: ") {
        "version: 6.0 gives no code"
    } else if fails(ours) && without_words(ours) == without_words(theirs) {
        WORDS
    } else {
        "?"
    }
}

/// Returns the error in a line, of a statement or of one of its writes: `error 14 TypeMismatch: ...`, `[0] error 11000:
/// ...`.
pub fn error(line: &str) -> Option<&str> {
    let error = match line.strip_prefix('[') {
        Some(write) => write.split_once("] ")?.1,
        None => line,
    };
    error.starts_with("error ").then_some(error)
}

fn fails(answer: &str) -> bool {
    answer.lines().any(|line| error(line).is_some())
}

/// Reduces the errors of an answer to their codes: `error 14 TypeMismatch: ...` becomes `error 14`.
fn without_words(answer: &str) -> String {
    let lines = answer.lines().map(|line| match error(line) {
        Some(error) => error.split([' ', ':']).take(2).collect(),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Removes every prefix of [`LEADS`] from a text.
fn without_lead(text: &str) -> String {
    let mut text = text.to_owned();
    for (start, end) in LEADS {
        while let Some(at) = text.find(start) {
            let Some(length) = text[at..].find(end) else {
                break;
            };
            text.replace_range(at..at + length + end.len(), "");
        }
    }
    text
}

/// Returns the letters of a text, sorted. They are equal for two texts with the same fields in a different order.
fn letters(text: &str) -> Vec<char> {
    let mut letters: Vec<char> = text.chars().collect();
    letters.sort_unstable();
    letters
}
