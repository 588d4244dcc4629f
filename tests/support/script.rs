//! Golden scripts: what is said, and what is answered.
//!
//! ```text
//! # A comment.
//! > find t {a: {$gt: 4}}
//! ---
//! {_id: 1, a: 5}
//! ```
//!
//! A line with `>` is a statement; a name before it tells who speaks (`c1>`, `clock>`); lines that are indented belong to the
//! one before. Behind `---` stands what the statements above it answer, up to an empty line, a comment or the next
//! statement.

use std::fmt::Write;

pub struct Script {
    parts: Vec<Part>,
}

enum Part {
    /// A comment or an empty line, kept as it stands.
    Text(String),
    Block(Block),
}

/// Statements and what they answer together.
#[derive(Default)]
pub struct Block {
    /// The first line of it, for messages.
    pub line: usize,
    pub statements: Vec<Statement>,
    pub output: Vec<String>,
}

pub struct Statement {
    /// The lines as they stand.
    raw: String,
    /// Who speaks; empty where nobody is named.
    pub speaker: String,
    pub text: String,
}

// === impl Script ===

impl Script {
    pub fn parse(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut block = Block::default();
        let mut answering = false;
        for (nth, line) in text.lines().enumerate() {
            let indented = line.starts_with([' ', '\t']) && !line.trim().is_empty();
            if let Some((speaker, said)) = split(line) {
                if answering {
                    parts.push(Part::Block(std::mem::take(&mut block)));
                    answering = false;
                }
                if block.statements.is_empty() {
                    block.line = nth + 1;
                }
                block.statements.push(Statement {
                    raw: line.to_owned(),
                    speaker: speaker.to_owned(),
                    text: said.to_owned(),
                });
            } else if indented && !answering && !block.statements.is_empty() {
                if let Some(statement) = block.statements.last_mut() {
                    let _ = write!(statement.raw, "\n{line}");
                    let _ = write!(statement.text, " {}", line.trim());
                }
            } else if line == "---" && !block.statements.is_empty() && !answering {
                answering = true;
            } else if answering && !line.is_empty() && !line.starts_with('#') {
                block.output.push(line.to_owned());
            } else {
                if !block.statements.is_empty() {
                    parts.push(Part::Block(std::mem::take(&mut block)));
                }
                answering = false;
                parts.push(Part::Text(line.to_owned()));
            }
        }
        if !block.statements.is_empty() {
            parts.push(Part::Block(block));
        }
        Self { parts }
    }

    pub fn blocks(&mut self) -> impl Iterator<Item = &mut Block> {
        self.parts.iter_mut().filter_map(|part| match part {
            Part::Block(block) => Some(block),
            Part::Text(_) => None,
        })
    }

    /// The script as text, with the outputs as they are now.
    pub fn render(&self) -> String {
        let mut out = String::new();
        for part in &self.parts {
            match part {
                Part::Text(line) => {
                    let _ = writeln!(out, "{line}");
                }
                Part::Block(block) => {
                    for statement in &block.statements {
                        let _ = writeln!(out, "{}", statement.raw);
                    }
                    let _ = writeln!(out, "---");
                    for line in &block.output {
                        let _ = writeln!(out, "{line}");
                    }
                }
            }
        }
        out
    }
}

/// `name> text`: (name, text). The name may be missing.
fn split(line: &str) -> Option<(&str, &str)> {
    let (speaker, said) = line.split_once('>')?;
    let named = speaker.chars().all(|c| c.is_ascii_alphanumeric());
    (named && (said.is_empty() || said.starts_with(' '))).then(|| (speaker, said.trim()))
}
