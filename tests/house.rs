//! The rules of the code base: which module imports which, what a table looks like, which code may ask for the time, and
//! that the documentation agrees with the code.
//!
//! `UPDATE=1 cargo test --test house` writes the generated sections of the documents; a person then reads the diff.

#![allow(clippy::unwrap_used)] // a panic says where

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

#[path = "support/documents.rs"]
mod documents;
#[path = "support/readme.rs"]
mod readme;
#[path = "support/syntax.rs"]
mod syntax;
#[path = "support/vocabularies.rs"]
#[allow(dead_code)] // other tests take the rest
mod vocabularies;

use vocabularies::{Word, vocabularies, vocabulary};

/// The rooms (modules) that each room may import. Every room may import `error` and `value`, so they are not listed.
///
/// A request travels down and its reply travels back up, so no room imports one above it. Commands reach storage only
/// through engine, which makes their schema changes and describes the collections to them. Commands use wire directly, because
/// a call is built from a request. Engine asks `clock` whether its time slice is over. Only `embed` puts the rooms
/// together. A permission that is not used is an error.
const MAP: &[(&str, &[&str])] = &[
    ("args", &[]),
    ("auth", &["clock", "names"]),
    ("clock", &[]),
    (
        "command",
        &[
            "args",
            "interrupt",
            "auth",
            "clock",
            "config",
            "cosmos",
            "effort",
            "engine",
            "handler",
            "latency",
            "names",
            "query",
            "session",
            "ttl",
            "vocabulary",
            "wait",
            "wire",
        ],
    ),
    ("config", &["auth", "cosmos", "wire"]),
    ("cosmos", &["effort"]),
    ("effort", &[]),
    (
        "embed",
        &[
            "clock", "command", "config", "server", "storage", "upstream",
        ],
    ),
    (
        "engine",
        &[
            "interrupt",
            "clock",
            "effort",
            "names",
            "query",
            "storage",
            "ttl",
            "wait",
        ],
    ),
    ("error", &[]),
    ("handler", &["wait", "wire"]),
    ("healthcheck", &["trust", "wire"]),
    ("interrupt", &["clock", "wait"]),
    ("latency", &["clock"]),
    ("lib", &[]),
    ("main", &["clock", "config", "healthcheck", "server"]),
    ("names", &[]),
    ("query", &["args", "interrupt", "names", "vocabulary"]),
    (
        "server",
        &["interrupt", "clock", "config", "handler", "wait", "wire"],
    ),
    ("session", &["clock", "effort", "engine", "latency", "wait"]),
    ("storage", &["interrupt", "clock", "ttl", "wait"]),
    ("trust", &[]),
    ("ttl", &["args"]),
    (
        "upstream",
        &[
            "args",
            "auth",
            "clock",
            "command",
            "config",
            "handler",
            "interrupt",
            "query",
            "trust",
            "ttl",
            "vocabulary",
            "wire",
        ],
    ),
    ("value", &[]),
    ("vocabulary", &[]),
    ("wait", &[]),
    ("wire", &[]),
];

/// Code that asks the operating system for the time. Creating an ObjectId with the `bson` crate does so, too.
const CLOCK_CALLS: &[&str] = &[
    "SystemTime::now",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "DateTime::now",
    "ObjectId::new()",
    ".elapsed()",
];

/// The exceptions, as `file: text`.
const MAY_ASK: &[&str] = &[
    // Names the process, and is never taken for a time.
    "src/command/frame/context.rs: process: bson::oid::ObjectId::new().bytes(),",
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns every source file: its path from the root and its text.
fn sources() -> Vec<(String, String)> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(&path, files);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    collect(&root().join("src"), &mut files);
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let name = file.strip_prefix(root()).unwrap().display().to_string();
            (name, fs::read_to_string(file).unwrap())
        })
        .collect()
}

/// Returns the lines that are code, with their numbers.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines()
        .enumerate()
        .map(|(nth, line)| (nth + 1, line.trim()))
        .filter(|(_, line)| !line.starts_with("//"))
}

/// Returns the text before the file's own tests.
fn without_tests(text: &str) -> &str {
    let end = text.find("#[cfg(test)]\nmod tests {");
    &text[..end.unwrap_or(text.len())]
}

fn room(file: &str) -> &str {
    let inside = file.strip_prefix("src/").unwrap();
    inside.split(['/', '.']).next().unwrap()
}

/// Returns the rooms that a text names: `crate::room::…` and `crate::{room::…, other::…}`, where `start` is `crate::`.
fn rooms_named(text: &str, start: &str) -> BTreeSet<String> {
    let joined: String = code(text)
        .map(|(_, line)| line.split(" // ").next().unwrap_or(line))
        .collect::<Vec<_>>()
        .join(" ");
    let mut named = BTreeSet::new();
    for (at, start) in joined.match_indices(start) {
        let rest = &joined[at + start.len()..];
        match rest.strip_prefix('{') {
            None => named.extend(word(rest)),
            Some(list) => named.extend(group(list)),
        }
    }
    named
}

fn word(text: &str) -> Option<String> {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let (word, rest) = text.split_at(end.unwrap_or(text.len()));
    // Types and functions at the root of the crate are not rooms.
    MAP.iter()
        .any(|(room, _)| *room == word && !rest.starts_with('('))
        .then(|| word.to_owned())
}

/// Returns the first names in `{a::b, c::{d, e}}`. `list` starts after the first brace.
fn group(list: &str) -> Vec<String> {
    let (mut depth, mut at_name, mut names) = (0, true, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_name = true,
            c if c.is_whitespace() => {}
            _ if at_name && depth == 0 => {
                names.extend(word(&list[at..]));
                at_name = false;
            }
            _ => {}
        }
    }
    names
}

#[test]
fn imports_follow_the_map() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (file, text) in sources() {
        let own = room(&file);
        let Some((_, allowed)) = MAP.iter().find(|(room, _)| *room == own) else {
            wrong.push(format!("{file}: the map does not know the room {own}"));
            continue;
        };
        // The binary refers to the library by its name.
        let start = if own == "main" {
            "sundown::"
        } else {
            "crate::"
        };
        for named in rooms_named(&text, start) {
            let everybodys = named == "error" || named == "value" || named == own;
            if !everybodys && !allowed.contains(&named.as_str()) {
                wrong.push(format!("{file}: {own} must not know {named}"));
            }
            used.insert((own.to_owned(), named));
        }
    }
    // A permission that is not used must be removed from the map.
    for (room, allowed) in MAP {
        let unused = |other: &&&str| !used.contains(&((*room).to_owned(), (**other).to_owned()));
        for other in allowed.iter().filter(unused) {
            wrong.push(format!("{room} may know {other} and does not"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_are_read_in_every_form() {
    let rows: &[(&str, &[&str])] = &[
        ("use crate::value::Doc;", &["value"]),
        (
            "use crate::{\n    error::{Code, Error},\n    query::{filter::Filter, Vars},\n};",
            &["error", "query"],
        ),
        ("let now = crate::clock::monotonic();", &["clock"]),
        ("//! See [x](crate::server::Server).", &[]),
        ("use crate::Sundown;", &[]),
    ];
    for (text, expected) in rows {
        let named = rooms_named(text, "crate::");
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        assert_eq!(named, *expected, "{text}");
    }
}

#[test]
fn only_the_clock_asks_for_the_time() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if file == "src/clock.rs" || file.ends_with("/tests.rs") {
            continue;
        }
        for (nth, line) in code(without_tests(&text)) {
            let asks = CLOCK_CALLS.iter().any(|call| line.contains(call));
            if asks && !MAY_ASK.contains(&format!("{file}: {line}").as_str()) {
                wrong.push(format!("{file}:{nth}: {line}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Words that belong to storage, the other folders and files that may use them, and the reason why no others may.
const KEPT_APART: &[(&[&str], &[&str], &str)] = &[
    (
        &["|view|", "|writer|", "View<'", "Writer<'"],
        &["src/engine/"],
        "only engine looks at a collection under its lock",
    ),
    (
        &[
            "catalog.create(",
            ".drop_collection(",
            ".drop_database(",
            "catalog.rename(",
            "catalog.replace(",
        ],
        &["src/engine/ddl/"],
        "a log of schema changes would miss this one",
    ),
    (
        &["ReadPoint::at("],
        &["src/command/frame/call.rs"],
        "a read point that is made anew from a moment loses what a transaction adds to it",
    ),
];

#[test]
fn only_the_right_modules_read_and_change_collections() {
    let mut wrong = Vec::new();
    for (file, text) in sources() {
        if file.ends_with("/tests.rs") || file.contains("/tests/") {
            continue;
        }
        for (words, rooms, reason) in KEPT_APART {
            let within = |room: &&str| file.starts_with(room);
            if rooms.iter().chain(&["src/storage/"]).any(within) {
                continue;
            }
            for (nth, line) in code(without_tests(&text)) {
                if words.iter().any(|word| line.contains(word)) {
                    wrong.push(format!("{file}:{nth}: {reason}: {line}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// That names are sorted is checked at compile time.
#[test]
fn every_word_of_a_vocabulary_has_its_own_name() {
    for listed in vocabularies() {
        let mut names = BTreeSet::new();
        for name in listed.words.iter().flat_map(Word::names) {
            assert!(names.insert(name), "{}: {name} is there twice", listed.name);
            assert!(!name.is_empty() && name.trim() == name, "{name:?}");
            let operator = listed.name != "commands";
            assert_eq!(name.starts_with('$'), operator, "{name}");
        }
        assert!(!names.is_empty(), "{}", listed.name);
    }
}

#[test]
fn commands_have_help() {
    let commands = vocabulary("commands");
    for word in commands.words.iter().filter(|word| word.ready) {
        assert!(
            word.help.ends_with('.') && !word.help.contains('|'),
            "{}: help is one sentence: {:?}",
            word.name,
            word.help
        );
    }
}

/// To add a word, you write one file, one `mod` line, one row and one case. (`tests/cases/vocabulary.rs` checks the case.)
#[test]
fn a_vocabulary_is_one_table_over_the_files_of_its_folder() {
    let sources = sources();
    let tables: Vec<_> = sources
        .iter()
        .filter(|(_, text)| code(without_tests(text)).any(|(_, line)| is_table(line)))
        .map(|(file, _)| file.as_str())
        .collect();
    let mut expected: Vec<_> = vocabularies()
        .iter()
        .map(|listed| format!("{}/table.rs", listed.folder))
        .collect();
    expected.sort();
    assert_eq!(tables, expected);
    let text_of = |file: String| {
        let found = sources.iter().find(|(name, _)| *name == file);
        found.map(|(_, text)| text.as_str()).unwrap()
    };
    for listed in vocabularies() {
        let folder = listed.folder;
        let mod_file = text_of(format!("{folder}/mod.rs"));
        for (nth, line) in code(without_tests(mod_file)) {
            let words = [
                "const ",
                "enum ",
                "fn ",
                "impl ",
                "macro_rules!",
                "static ",
                "struct ",
            ];
            let defines = words.iter().any(|word| line.contains(word));
            assert!(
                !defines,
                "{folder}/mod.rs:{nth} holds more than declarations"
            );
        }
        let table = text_of(format!("{folder}/table.rs"));
        let declared = format!("pub static {}: ", listed.table);
        assert!(table.contains(&declared), "{folder}");
        let rows = rows_of(table);
        assert_eq!(rows.len(), listed.words.len(), "{folder}");
        for (row, word) in rows.iter().zip(&listed.words) {
            let name = word.name;
            // The name of a command is in the command's file, not in its row.
            let by_name = row.contains(&format!("{name:?}"));
            assert!(by_name || listed.name == "commands", "{name}: {row}");
            let modules = modules_in(row);
            assert!(!modules.is_empty() || !word.ready, "{name}: {row}");
            for module in modules {
                let declared =
                    code(mod_file).any(|(_, line)| line.ends_with(&format!("mod {module};")));
                assert!(declared, "{name}: {module} is not in {folder}");
            }
        }
    }
}

fn is_table(line: &str) -> bool {
    line.starts_with("pub static ") && line.contains(": Vocabulary<")
}

/// Returns the rows of a table, each as its source text.
fn rows_of(table: &str) -> Vec<&str> {
    let (_, rows) = table.split_once("const ROWS: ").unwrap();
    let (_, list) = rows.split_once("= &[").unwrap();
    let (mut depth, mut from, mut rows) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ']' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                rows.push(list[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    rows
}

/// Returns the modules that a piece of code names: `date` in `date::extract(arg, DatePart::Year)`.
fn modules_in(code: &str) -> BTreeSet<&str> {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices("::")
        .filter_map(|(end, _)| {
            let start = code[..end].rfind(|c| !in_name(c)).map_or(0, |at| at + 1);
            let first = !code[..start].ends_with("::");
            Some(&code[start..end]).filter(|name| first && name.starts_with(char::is_lowercase))
        })
        .collect()
}

/// A file without a `mod` line is not compiled, and a file that no other file names is dead code.
#[test]
fn every_file_is_declared_and_every_file_of_a_vocabulary_is_used() {
    let sources = sources();
    let vocabularies = vocabularies();
    let mut folders: Vec<_> = vocabularies.iter().map(|listed| listed.folder).collect();
    // Projections have no table of names.
    folders.push("src/query/projection");
    let mut wrong = Vec::new();
    for (file, text) in &sources {
        let path = Path::new(file);
        let (folder, stem) = (path.parent().unwrap(), path.file_stem().unwrap());
        let stem = stem.to_str().unwrap();
        if matches!(stem, "mod" | "lib" | "main") {
            continue;
        }
        let list = match folder.to_str().unwrap() {
            "src" => "src/lib.rs".to_owned(),
            folder => format!("{folder}/mod.rs"),
        };
        let Some((_, listed)) = sources.iter().find(|(name, _)| *name == list) else {
            wrong.push(format!("{file}: there is no {list}"));
            continue;
        };
        if !code(listed).any(|(_, line)| line.ends_with(&format!("mod {stem};"))) {
            wrong.push(format!("{file}: {list} does not declare it"));
        }
        // Each file of a vocabulary must be named by a row of the table, by a sibling or at least by a re-export.
        let vocabulary = folders.contains(&folder.to_str().unwrap());
        let is_test = listed.contains(&format!("#[cfg(test)]\nmod {stem};"));
        // A file that only adds methods to a type of a sibling is used without being named.
        let only_methods = !text.lines().any(|line| line.starts_with("pub"));
        if !vocabulary || is_test || only_methods {
            continue;
        }
        let uses = |text: &str| {
            code(text).any(|(_, line)| {
                line.match_indices(&format!("{stem}::"))
                    .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
            })
        };
        let inside = folder.to_str().unwrap();
        let used = sources
            .iter()
            .any(|(other, text)| other != file && other.starts_with(inside) && uses(text));
        if !used {
            wrong.push(format!("{file}: nobody in {inside} uses it"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
