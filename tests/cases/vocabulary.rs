//! The names in every vocabulary: a statement of a script uses each name that is built, and each planned name is refused
//! with code 238.

use std::collections::BTreeSet;
use std::fs;

use bson::{Bson, Document};

use super::scripts;
use super::support::difference;
use super::support::script::Script;
use super::support::statement;
use super::support::vocabularies::{Cases, vocabularies, vocabulary};
use super::support::world::{Reaper, World, failure};

/// A statement of a script, as the command that it sends.
struct SentStatement {
    /// The script, below `tests/cases`.
    script: String,
    command: Document,
    failed: bool,
}

fn sent() -> Vec<SentStatement> {
    let mut sent = Vec::new();
    for (script, file) in scripts() {
        let text = fs::read_to_string(&file).expect("it was just listed");
        let mut parsed = Script::parse(&text).expect(&script);
        let statements = parsed.blocks().flat_map(|block| &block.statements);
        for statement in statements.filter(|statement| statement.speaker != "clock") {
            // It does not matter here which cursor `more` continues.
            let said = statement::read(&statement.text, Some((1, "t".to_owned())));
            sent.push(SentStatement {
                script: script.clone(),
                command: said.expect(&statement.text).command,
                failed: statement
                    .answer
                    .iter()
                    .any(|line| difference::error(line).is_some()),
            });
        }
    }
    sent
}

/// Returns every field name, at any depth.
fn names(value: &Bson, found: &mut BTreeSet<String>) {
    match value {
        Bson::Document(document) => {
            for (name, value) in document {
                found.insert(name.clone());
                names(value, found);
            }
        }
        Bson::Array(array) => array.iter().for_each(|value| names(value, found)),
        _ => {}
    }
}

/// Returns the names in the successful statements of the scripts whose path has this prefix.
fn named_in(sent: &[SentStatement], path: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let succeed = sent.iter().filter(|sent| !sent.failed);
    for sent in succeed.filter(|sent| sent.script.starts_with(path)) {
        names(&Bson::Document(sent.command.clone()), &mut found);
    }
    found
}

/// Adding an operator means adding its case.
#[test]
fn every_operator_is_named_by_a_script() {
    let sent = sent();
    let mut missing = Vec::new();
    for listed in vocabularies() {
        for name in listed.ready() {
            let path = match listed.cases {
                // The test below requires more of commands.
                Cases::Anywhere => continue,
                Cases::In(folder) => format!("{folder}/"),
                Cases::OfItsOwn(folder) => format!("{folder}/{}.case", script(folder, name)),
            };
            if !named_in(&sent, &path).contains(name) {
                missing.push(format!("no statement of {path} has {name}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the script of an operator.
fn script(folder: &str, name: &str) -> String {
    match (folder, name) {
        // Aliases, and operators that are part of another one.
        ("filter", "$options") => "regex".to_owned(),
        ("filter", "$db" | "$id") => "ref".to_owned(),
        ("stage", "$set") => "add_fields".to_owned(),
        ("stage", "$replaceWith") => "replace_root".to_owned(),
        (_, name) => snake(name),
    }
}

/// Commands that never succeed in a script.
const NEVER_SUCCEED: &[&str] = &[
    // The proof of a login depends on random numbers of the server: see tests/auth.rs.
    "authenticate",
    "saslContinue",
    // Sundown presents itself as a mongos, which refuses these.
    "replSetGetConfig",
    "replSetGetStatus",
    "replSetInitiate",
];

/// Commands that accept any argument.
const NEVER_FAIL: &[&str] = &["connPoolStats", "isdbgrid", "serverStatus", "whatsmyuri"];

/// Scripts run each command at least once with success and once with an error.
#[test]
fn every_command_is_run_by_a_script() {
    let sent = sent();
    let runs = |names: &[&str], failed: bool| {
        sent.iter().any(|sent| {
            let verb = sent.command.keys().next();
            sent.failed == failed && verb.is_some_and(|verb| names.contains(&verb.as_str()))
        })
    };
    let mut missing = Vec::new();
    for row in vocabulary("commands").words.iter().filter(|row| row.ready) {
        let names: Vec<&str> = row.names().collect();
        for (failed, never) in [(false, NEVER_SUCCEED), (true, NEVER_FAIL)] {
            let verb = if failed { "fails" } else { "succeeds" };
            match (runs(&names, failed), never.contains(&row.name)) {
                (false, false) => missing.push(format!("{}: no statement {verb}", row.name)),
                (true, true) => missing.push(format!("{}: a statement {verb}", row.name)),
                _ => {}
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn planned_names_are_refused_by_name() {
    let mut world = World::new(Reaper::Off);
    let mut wrong = Vec::new();
    for listed in vocabularies() {
        for word in listed.words.into_iter().filter(|word| !word.ready) {
            let mut answers = Vec::new();
            for (database, command) in word.uses {
                let reply = world.client.command(database, command).expect("a reply");
                answers.push(failure(&reply));
            }
            // The server first checks what a stage may run on.
            answers.retain(|answer| !matches!(answer, Some((73, _))));
            let name = word.name;
            let by_name = |answer: &Option<(i64, String)>| matches!(answer, Some((238, message)) if message.contains(name));
            if answers.is_empty() || !answers.iter().all(by_name) {
                wrong.push(format!("{name}: {answers:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `$addToSet` -> `add_to_set`
fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.trim_start_matches('$').chars() {
        if c.is_uppercase() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
