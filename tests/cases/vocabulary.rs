//! The words of every vocabulary: a statement of a script names each that is built, and each that is planned is refused with
//! code 238.

use std::collections::BTreeSet;
use std::fs;

use bson::{Bson, Document, doc};
use sundown::command::{self, COMMANDS};
use sundown::query::accumulator::{self, ACCUMULATORS};
use sundown::query::expr::{self, EXPRESSIONS};
use sundown::query::filter::{self, FILTERS};
use sundown::query::stage::{self, STAGES};
use sundown::query::update::UPDATES;

use super::scripts;
use super::support::difference;
use super::support::script::Script;
use super::support::statement;
use super::support::world::{Reaper, World, failure};

/// A statement of a script, as the command that it sends.
struct Asked {
    /// The script, below `tests/cases`.
    script: String,
    command: Document,
    failed: bool,
}

fn asked() -> Vec<Asked> {
    let mut asked = Vec::new();
    for (script, file) in scripts() {
        let text = fs::read_to_string(&file).expect("it was just listed");
        let mut parsed = Script::parse(&text).expect(&script);
        let statements = parsed.blocks().flat_map(|block| &block.statements);
        for statement in statements.filter(|statement| statement.speaker != "clock") {
            // Which cursor `more` goes on with does not matter here.
            let said = statement::read(&statement.text, Some((1, "t".to_owned())));
            asked.push(Asked {
                script: script.clone(),
                command: said.expect(&statement.text).command,
                failed: statement
                    .answer
                    .iter()
                    .any(|line| difference::error(line).is_some()),
            });
        }
    }
    asked
}

/// Every name of a field, at any depth.
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

/// The names in the statements that succeed, of the scripts whose path begins so.
fn named_in(asked: &[Asked], path: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let succeed = asked.iter().filter(|asked| !asked.failed);
    for asked in succeed.filter(|asked| asked.script.starts_with(path)) {
        names(&Bson::Document(asked.command.clone()), &mut found);
    }
    found
}

/// Adding an operator means adding its case, a script of its own.
#[test]
fn every_operator_is_named_by_its_script() {
    let updates = UPDATES.iter().map(|row| ("update", row.name));
    let filters = FILTERS
        .iter()
        .filter(|row| {
            matches!(
                row.status,
                filter::Status::Top(_) | filter::Status::Field(_)
            )
        })
        .map(|row| ("filter", row.name));
    let accumulators = ACCUMULATORS
        .iter()
        .filter(|row| matches!(row.status, accumulator::Status::Ready(_)))
        .map(|row| ("accumulator", row.name));
    let stages = STAGES
        .iter()
        .filter(|row| matches!(row.status, stage::Status::Ready(_)))
        .map(|row| ("stage", row.name));
    let asked = asked();
    let mut missing = Vec::new();
    for (area, name) in updates.chain(filters).chain(accumulators).chain(stages) {
        let script = match (area, name) {
            // Other names for the same, and parts of another.
            ("filter", "$options") => "regex".to_owned(),
            ("filter", "$db" | "$id") => "ref".to_owned(),
            ("stage", "$set") => "add_fields".to_owned(),
            ("stage", "$replaceWith") => "replace_root".to_owned(),
            (_, name) => snake(name),
        };
        let path = format!("{area}/{script}.case");
        if !named_in(&asked, &path).contains(name) {
            missing.push(format!("no statement of {path} has {name}"));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Expressions stand together by family.
#[test]
fn every_expression_is_named_by_a_script() {
    let named = named_in(&asked(), "expression/");
    let missing: Vec<_> = EXPRESSIONS
        .iter()
        .filter(|row| matches!(row.status, expr::Status::Ready(_)))
        .map(|row| row.name)
        .filter(|name| !named.contains(*name))
        .collect();
    assert!(missing.is_empty(), "no statement has {missing:?}");
}

/// Commands that never succeed in a script.
const NEVER_SUCCEED: &[&str] = &[
    // There are no transactions to end.
    "abortTransaction",
    "commitTransaction",
    // The proof of a login depends on what the server has chosen at random: see tests/auth.rs.
    "authenticate",
    "saslContinue",
    // Sundown presents itself as a mongos, which refuses these.
    "replSetGetConfig",
    "replSetGetStatus",
    "replSetInitiate",
];

/// Commands that take anything.
const NEVER_FAIL: &[&str] = &["connPoolStats", "isdbgrid", "serverStatus", "whatsmyuri"];

/// A script runs each command so that it succeeds, and so that it fails.
#[test]
fn every_command_is_run_by_a_script() {
    let asked = asked();
    let runs = |names: &[&str], failed: bool| {
        asked.iter().any(|asked| {
            let verb = asked.command.keys().next();
            asked.failed == failed && verb.is_some_and(|verb| names.contains(&verb.as_str()))
        })
    };
    let mut missing = Vec::new();
    for row in COMMANDS
        .iter()
        .filter(|row| matches!(row.status, command::Status::Ready(_)))
    {
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
    let mut refused = |database: &str, command: Document| {
        let reply = world.client.command(database, command).expect("a reply");
        failure(&reply)
    };
    let mut check = |name: &str, refused: Option<(i64, String)>| {
        if !matches!(&refused, Some((238, message)) if message.contains(name)) {
            wrong.push(format!("{name}: {refused:?}"));
        }
    };
    for row in COMMANDS
        .iter()
        .filter(|row| matches!(row.status, command::Status::Planned))
    {
        for name in row.names() {
            check(row.name, refused("admin", doc! {name: 1}));
        }
    }
    for row in STAGES
        .iter()
        .filter(|row| matches!(row.status, stage::Status::Planned))
    {
        // Where it may run is looked at first.
        let places: [(&str, Bson); 3] = [
            ("test", "t".into()),
            ("admin", 1.into()),
            ("config", "system.sessions".into()),
        ];
        let answers = places.into_iter().map(|(database, on)| {
            let pipeline = [doc! {row.name: {}}];
            let command = doc! {"aggregate": on, "pipeline": &pipeline, "cursor": {}};
            refused(database, command)
        });
        let elsewhere = |answer: &Option<_>| matches!(answer, Some((73, _)));
        let answers: Vec<_> = answers.filter(|answer| !elsewhere(answer)).collect();
        assert!(!answers.is_empty(), "{} may run nowhere", row.name);
        for answer in answers {
            check(row.name, answer);
        }
    }
    for row in FILTERS {
        let filter = match row.status {
            filter::Status::PlannedTop => doc! {row.name: {}},
            filter::Status::PlannedField => doc! {"a": {row.name: {}}},
            filter::Status::Top(_) | filter::Status::Field(_) => continue,
        };
        check(
            row.name,
            refused("test", doc! {"find": "t", "filter": filter}),
        );
    }
    let expressions = EXPRESSIONS
        .iter()
        .filter(|row| matches!(row.status, expr::Status::Planned))
        .map(|row| (row.name, doc! {"$project": {"v": {row.name: {}}}}));
    let accumulators = ACCUMULATORS
        .iter()
        .filter(|row| matches!(row.status, accumulator::Status::Planned))
        .map(|row| (row.name, doc! {"$group": {"_id": 1, "v": {row.name: {}}}}));
    for (name, stage) in expressions.chain(accumulators) {
        let command = doc! {"aggregate": "t", "pipeline": [stage], "cursor": {}};
        check(name, refused("test", command));
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
