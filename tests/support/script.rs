//! Golden scripts: statements, each followed by its answer. `tests/README.md` explains how to write one.
//!
//! ```text
//! # $gt stays within one type bracket.
//! # from: mongod 6.0.5
//! > find t {a: {$gt: 4}}
//! {_id: 1, a: 5}
//! > find t {a: {$gt: NaN}}
//! (nothing)
//! # 6.0: version: why 8.2 answers otherwise
//! # 6.0| {_id: 7, a: NaN}
//! ```
//!
//! A line with `>` is a statement. A name before it is the speaker (`c1>`, `clock>`), and indented lines below it continue
//! it. The lines that follow are its answer. Statements with only answers between them form a block; an empty line or a
//! comment ends the block. A comment directly above a block may contain marks for it (`# from:`, `# skip:`). The marks in
//! the opening comment of the script apply to every block without its own.

use std::fmt::Write;

use super::difference::{Difference, KINDS};

/// The answer of a statement that prints no line.
pub const NOTHING: &str = "(nothing)";

/// The possible sources of an expectation.
const SOURCES: &[&str] = &[
    "mongod 6.0.5",
    "manual 8.2",
    "suite",
    "TTL.md",
    "COSMOS.md",
    "here",
];

pub struct Script {
    parts: Vec<Part>,
}

enum Part {
    /// A comment or an empty line, kept unchanged.
    Text(String),
    Block(Block),
}

#[derive(Default)]
pub struct Block {
    marks: Marks,
    pub statements: Vec<Statement>,
}

#[derive(Default, Clone)]
struct Marks {
    /// The sources of the expectations.
    from: Option<String>,
    /// The reason why a real server cannot run the block.
    skip: Option<String>,
}

pub struct Statement {
    pub line: usize,
    /// The original lines of the statement.
    raw: String,
    /// The speaker, or empty if none is named.
    pub speaker: String,
    pub text: String,
    pub answer: Vec<String>,
    /// The answer of mongod 6.0.5, if it differs.
    pub differs: Option<Difference>,
}

// === impl Script ===

impl Script {
    /// Parses a script. Fails on a line that is no statement, no answer, no comment and not empty.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let opening: Vec<&str> = text
            .lines()
            .take_while(|line| line.starts_with('#'))
            .collect();
        let opening = Marks::default().with(&opening);
        // The comment directly above the current line.
        let mut comment = Vec::new();
        let mut block: Option<Block> = None;
        for (nth, line) in text.lines().enumerate() {
            let number = nth + 1;
            if let Some((speaker, said)) = split(line) {
                let block = block.get_or_insert_with(|| Block {
                    marks: opening.clone().with(&comment),
                    ..Block::default()
                });
                block.statements.push(Statement {
                    line: number,
                    raw: line.to_owned(),
                    speaker: speaker.to_owned(),
                    text: said.to_owned(),
                    answer: Vec::new(),
                    differs: None,
                });
                continue;
            }
            let last = block.as_mut().and_then(|block| block.statements.last_mut());
            if last.is_some_and(|statement| statement.takes(line)) {
                continue;
            }
            if !line.is_empty() && !line.starts_with('#') {
                return Err(format!("line {number} answers no statement: {line}"));
            }
            if let Some(block) = block.take() {
                parts.push(Part::Block(block));
                comment.clear();
            }
            match line.is_empty() {
                true => comment.clear(),
                false => comment.push(line),
            }
            parts.push(Part::Text(line.to_owned()));
        }
        parts.extend(block.map(Part::Block));
        Ok(Self { parts })
    }

    pub fn blocks(&mut self) -> impl Iterator<Item = &mut Block> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Block(block) => Some(block),
            Part::Text(_) => None,
        })
    }

    /// Returns the marks that are missing or wrong.
    pub fn problems(&mut self) -> Vec<String> {
        self.blocks().flat_map(|block| block.problems()).collect()
    }

    /// Returns the script as text, with its current answers.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(line) => {
                    let _ = writeln!(out, "{line}");
                }
                Part::Block(block) => {
                    for statement in &block.statements {
                        statement.render(&mut out);
                    }
                }
            }
        }
        out
    }
}

// === impl Block ===

impl Block {
    /// Returns whether a real server cannot run the block.
    pub fn is_skipped(&self) -> bool {
        self.marks.skip.is_some()
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let from = self.marks.from.as_deref().unwrap_or_default();
        let sources: Vec<&str> = from.split(", ").collect();
        if let Some(unknown) = sources.iter().find(|source| !SOURCES.contains(source)) {
            problems.push(format!(
                "`# from: {unknown}`: a source is one of {SOURCES:?}"
            ));
        }
        let seen = sources.contains(&"mongod 6.0.5");
        if seen == self.is_skipped() {
            problems.push("a block is from mongod 6.0.5, or it has `# skip: reason`".to_owned());
        }
        if self.marks.skip.as_deref() == Some("") {
            problems.push("`# skip:` gives no reason".to_owned());
        }
        let moves_clock = self.statements.iter().any(|said| said.speaker == "clock");
        if moves_clock && !self.is_skipped() {
            problems.push("a real server's clock cannot be moved: `# skip: clock`".to_owned());
        }
        let line = self.statements.first().map_or(0, |first| first.line);
        let mut problems: Vec<String> = problems
            .into_iter()
            .map(|problem| format!("line {line}: {problem}"))
            .collect();
        for statement in &self.statements {
            let line = statement.line;
            let Some(differs) = &statement.differs else {
                continue;
            };
            if !differs.is_explained() {
                problems.push(format!(
                    "line {line}: `# 6.0: kind: reason`, where the kind is one of {KINDS:?}"
                ));
            }
            if self.is_skipped() {
                problems.push(format!("line {line}: `# 6.0:` in a block that is skipped"));
            }
        }
        problems
    }
}

// === impl Marks ===

impl Marks {
    /// Replaces the marks by those that a comment contains.
    fn with(mut self, comment: &[&str]) -> Self {
        for line in comment {
            if let Some(from) = line.strip_prefix("# from:") {
                self.from = Some(from.trim().to_owned());
            } else if let Some(skip) = line.strip_prefix("# skip:") {
                self.skip = Some(skip.trim().to_owned());
            }
        }
        self
    }
}

// === impl Statement ===

impl Statement {
    /// Adds a line that belongs to the statement: a continuation, an answer, or the answer of mongod 6.0.5. Returns false
    /// for any other line.
    fn takes(&mut self, line: &str) -> bool {
        if let Some(reason) = line.strip_prefix("# 6.0: ") {
            self.differs.get_or_insert_default().reason = reason.to_owned();
        } else if let Some(answer) = line.strip_prefix("# 6.0| ") {
            let differs = self.differs.get_or_insert_default();
            differs.answer.push(answer.to_owned());
        } else if line.is_empty() || line.starts_with('#') {
            return false;
        } else if line.starts_with([' ', '\t']) && self.answer.is_empty() {
            let _ = write!(self.raw, "\n{line}");
            let _ = write!(self.text, " {}", line.trim());
        } else {
            self.answer.push(line.to_owned());
        }
        true
    }

    fn render(&self, out: &mut String) {
        let _ = writeln!(out, "{}", self.raw);
        for line in &self.answer {
            let _ = writeln!(out, "{line}");
        }
        if let Some(differs) = &self.differs {
            let _ = writeln!(out, "# 6.0: {}", differs.reason);
            for line in &differs.answer {
                let _ = writeln!(out, "# 6.0| {line}");
            }
        }
    }
}

/// Splits `name> text` into (name, text). The name may be missing.
fn split(line: &str) -> Option<(&str, &str)> {
    let (speaker, said) = line.split_once('>')?;
    let named = speaker.chars().all(|c| c.is_ascii_alphanumeric());
    (named && (said.is_empty() || said.starts_with(' '))).then(|| (speaker, said.trim()))
}
