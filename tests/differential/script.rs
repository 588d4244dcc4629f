//! Scripts as text. `> run {...}` is also a statement of the golden scripts.

use std::fmt::Write;

use bson::Bson;

use crate::difference::{Difference, What, error_message};
use crate::generate::Step;
use crate::reply;
use crate::support::literal::Reader;
use crate::support::print::Printer;

/// Returns the difference as lines that show it and that can be played again.
pub fn print(difference: &Difference) -> String {
    let mut out = String::new();
    for step in &difference.steps {
        let mut printer = Printer::default();
        printer.learn(&Bson::Document(step.command.clone()));
        let _ = write!(out, "> run {}", printer.document(&step.command));
        let _ = match step.more {
            Some(0) => writeln!(out),
            Some(size) => writeln!(out, " batchSize={size}"),
            None => writeln!(out, " unread"),
        };
    }
    let what = match difference.what {
        What::Reply => "",
        What::State => " (what the collections hold)",
    };
    let text = |replies| reply::text(&difference.steps, difference.what, replies);
    let (theirs, ours) = (text(&difference.theirs), text(&difference.ours));
    let sides = [
        ("mongod", &difference.theirs, &theirs, &ours),
        ("Sundown", &difference.ours, &ours, &theirs),
    ];
    for (who, replies, said, other) in sides {
        let _ = writeln!(out, "{who}{what}:");
        // Lines that both replies have are left out.
        let differing = said
            .lines()
            .filter(|line| other.lines().all(|other| other != *line));
        for line in differing {
            let _ = writeln!(out, "    {line}");
        }
        let messages = replies.iter().filter_map(error_message);
        for message in messages.filter(|_| difference.what == What::Reply) {
            let _ = writeln!(out, "    # {message}");
        }
    }
    out
}

/// Parses the statements of a script. Other lines are ignored.
pub fn parse(text: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for line in text.lines() {
        let Some(said) = line.trim().strip_prefix("> run ") else {
            continue;
        };
        let mut reader = Reader::new(said);
        let command = reader
            .document()
            .unwrap_or_else(|problem| panic!("{line}: {problem}"));
        let more = match reader.word() {
            "unread" => None,
            "batchSize" => {
                assert!(reader.take('='), "{line}");
                let size = reader.value().ok().and_then(|size| size.as_i32());
                Some(size.unwrap_or_else(|| panic!("{line}: no batch size")))
            }
            _ => Some(0),
        };
        steps.push(Step { command, more });
    }
    steps
}
