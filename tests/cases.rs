//! The golden scripts under `tests/cases`. Each runs over TCP against its own server, whose clock is frozen until the
//! script moves it.
//!
//! `CASE=text` runs only the scripts whose path contains the text. `UPDATE=1` writes the actual answers into the files; a
//! person then reads the diff. `MONGODB_URI=mongodb://host:port` runs the scripts against that server, an empty mongod
//! 6.0.5, except for the blocks that are marked as skipped. See `tests/README.md`.

mod support;
#[path = "cases/vocabulary.rs"]
mod vocabulary;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use bson::doc;
use sundown::Sundown;
use sundown::clock::{Clock, Millis};
use sundown::config::Config;
use support::client::Client;
use support::difference::Difference;
use support::mongod;
use support::runner::Runner;
use support::script::{Script, Statement};
use tokio::runtime::Runtime;

/// 2030-01-01T00:00:00Z: the time at which every script starts.
const START: Millis = Millis(1_893_456_000_000);

#[test]
fn golden() {
    let wanted = std::env::var("CASE").unwrap_or_default();
    let mut files = scripts();
    files.retain(|(name, _)| name.contains(&wanted));
    assert!(!files.is_empty(), "no case contains {wanted:?}");
    if let Ok(uri) = std::env::var("MONGODB_URI") {
        let mut client = mongod::connect(&uri);
        let there = databases(&mut client);
        assert!(there.is_empty(), "scripts drop what they find: {there:?}");
    }
    let runtime = Runtime::new().expect("a runtime");
    let mut failures = Vec::new();
    for (name, file) in &files {
        failures.extend(case(&runtime, file, name));
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases fail:\n{}",
        failures.len(),
        files.len(),
        failures.join("\n")
    );
}

/// A script must say where its expectations come from, and must be well-formed.
#[test]
fn scripts_are_checked() {
    let rows = [
        ("# from: mongod 6.0.5\n> find t\n(nothing)\n", ""),
        ("# from: here\n# skip: clock\nclock> advance 1s\n", ""),
        (
            "# from: mongod 6.0.5\n> find t\n1\n# 6.0: version: why\n# 6.0| 2\n",
            "",
        ),
        ("# No source.\n> find t\n", "a source is one of"),
        ("# from: hearsay\n> find t\n", "a source is one of"),
        ("# from: here\n> find t\n", "or it has `# skip: reason`"),
        (
            "# from: mongod 6.0.5\n# skip: clock\n> find t\n",
            "or it has `# skip: reason`",
        ),
        ("# from: here\n# skip:\n> find t\n", "gives no reason"),
        (
            "# from: mongod 6.0.5\nclock> advance 1s\n",
            "cannot be moved",
        ),
        (
            "# from: mongod 6.0.5\n> find t\n1\n# 6.0: ?\n# 6.0| 2\n",
            "kind: reason",
        ),
        (
            "# from: mongod 6.0.5\n> find t\n1\n# 6.0: vague: x\n# 6.0| 2\n",
            "kind: reason",
        ),
        // The marks of a block apply to that block only. The marks of the opening comment apply to all blocks.
        (
            "# from: mongod 6.0.5\n\n# from: here\n# skip: clock\n> find a\n\n> find b\n",
            "",
        ),
        (
            "# A title.\n\n# from: mongod 6.0.5\n> find a\n\n> find b\n",
            "line 6: ",
        ),
    ];
    for (text, problem) in rows {
        let mut script = Script::parse(text).expect(text);
        assert_eq!(script.render(), text);
        let problems = script.problems().join("\n");
        match problem {
            "" => assert_eq!(problems, "", "{text}"),
            problem => assert!(problems.contains(problem), "{text}\n{problems}"),
        }
    }
    for text in ["{_id: 1}\n", "> find t\n1\n\n---\n"] {
        assert!(Script::parse(text).is_err(), "{text}");
    }
}

/// A run against a real server fails for a difference that is not listed, and for a listed difference that no longer
/// exists.
#[test]
fn lists_of_differences_are_checked() {
    const OPENING: &str = "# from: mongod 6.0.5\n";
    let plain = "> find t\n1\n";
    let listed = "> find t\n1\n# 6.0: version: why\n# 6.0| 2\n";
    // The statement, the server's answer, whether that is a problem, and the statement with its updated list.
    let rows = [
        (plain, "1", false, plain),
        (plain, "2", true, "> find t\n1\n# 6.0: ?\n# 6.0| 2\n"),
        (listed, "2", false, listed),
        (listed, "1", true, plain),
        (
            listed,
            "3",
            true,
            "> find t\n1\n# 6.0: version: why\n# 6.0| 3\n",
        ),
        (
            "> find t\nerror 2 BadValue: a\n",
            "error 2 BadValue: b",
            true,
            "> find t\nerror 2 BadValue: a\n# 6.0: wording: not pursued\n# 6.0| error 2 BadValue: b\n",
        ),
        (
            "> find t\nerror 2: Plan executor error during update :: caused by :: a\n",
            "error 2: a",
            true,
            "> find t\nerror 2: Plan executor error during update :: caused by :: a\n# 6.0: wording: 8.2 says which command failed\n# 6.0| error 2: a\n",
        ),
    ];
    for (text, answer, wrong, then) in rows {
        let mut script = Script::parse(&format!("{OPENING}{text}")).expect(text);
        let statements = script.blocks().flat_map(|block| &mut block.statements);
        for statement in statements {
            let problem = relist(statement, vec![answer.to_owned()]);
            assert_eq!(problem.is_some(), wrong, "{text}: {problem:?}");
        }
        assert_eq!(script.render(), format!("{OPENING}{then}"));
    }
}

/// Returns every script: its path below `tests/cases`, and its full path.
fn scripts() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let named = files.into_iter().map(|file| {
        let name = file.strip_prefix(&root).unwrap_or(&file);
        (name.display().to_string(), file)
    });
    named.collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path
            .extension()
            .is_some_and(|extension| extension == "case")
        {
            files.push(path);
        }
    }
}

/// Runs one file and returns its problems, if there are any.
fn case(runtime: &Runtime, file: &Path, name: &str) -> Option<String> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) => return Some(format!("{name}: {error}")),
    };
    let mut script = match Script::parse(&text) {
        Ok(script) => script,
        Err(problem) => return Some(format!("{name}: {problem}")),
    };
    let update = std::env::var("UPDATE").is_ok_and(|update| update == "1");
    let unmarked = script.problems();
    if !unmarked.is_empty() && !update {
        return Some(format!("{name}: {}", unmarked.join("\n  ")));
    }
    let problems = match std::env::var("MONGODB_URI") {
        Ok(uri) => {
            let server = mongod::address(&uri);
            let mut runner = Runner::new(server, "test", |_| {
                Err("a real server's clock cannot be moved".to_owned())
            });
            let problems = compare(&mut script, &mut runner);
            drop(runner);
            clear(server);
            problems
        }
        Err(_) => {
            let clock = Clock::frozen(START);
            let config = Config {
                bind: Ipv4Addr::LOCALHOST.into(),
                port: 0,
                enable_test_commands: true,
                ..Config::default()
            };
            let server = runtime.block_on(Sundown::start(config, clock.clone()));
            let server = match server {
                Ok(server) => server,
                Err(error) => return Some(format!("{name}: {error}")),
            };
            let mut runner = Runner::new(server.local_addr(), "test", |text| travel(&clock, text));
            let problems = play(&mut script, &mut runner);
            drop(runner);
            runtime.block_on(server.stop());
            problems
        }
    };
    if update {
        let fresh = script.render();
        if fresh == text {
            return None;
        }
        return match fs::write(file, fresh) {
            Ok(()) => None,
            Err(error) => Some(format!("{name}: {error}")),
        };
    }
    if problems.is_empty() {
        return None;
    }
    Some(format!("{name}\n{}", problems.join("\n")))
}

/// Runs a script against Sundown. Returns the unexpected answers and stores them as the expected ones.
fn play(script: &mut Script, runner: &mut Runner<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for statement in script.blocks().flat_map(|block| &mut block.statements) {
        let answer = runner.run(&statement.speaker, &statement.text);
        if answer != statement.answer {
            problems.push(unexpected(statement, &statement.answer, &answer));
            statement.answer = answer;
        }
    }
    problems
}

/// Runs the blocks that a real server can run. Returns the problems and updates the listed differences.
fn compare(script: &mut Script, runner: &mut Runner<'_>) -> Vec<String> {
    let mut problems = Vec::new();
    for block in script.blocks().filter(|block| !block.is_skipped()) {
        for statement in &mut block.statements {
            let answer = runner.run(&statement.speaker, &statement.text);
            problems.extend(relist(statement, answer));
        }
    }
    problems
}

/// Updates the difference of a statement from the real server's answer. Returns a problem if the listed difference was
/// wrong.
fn relist(statement: &mut Statement, answer: Vec<String>) -> Option<String> {
    let listed = statement.differs.take();
    let expected = match &listed {
        Some(listed) => &listed.answer,
        None => &statement.answer,
    };
    let problem = if answer != *expected {
        Some(unexpected(statement, expected, &answer))
    } else if listed.is_some() && answer == statement.answer {
        let line = statement.line;
        Some(format!(
            "  line {line}: the difference that is listed is none"
        ))
    } else {
        None
    };
    if answer != statement.answer {
        let given = listed.map(|listed| listed.reason);
        statement.differs = Some(Difference::new(&statement.answer, answer, given));
    }
    problem
}

fn unexpected(statement: &Statement, expected: &[String], got: &[String]) -> String {
    format!(
        "  line {}: {}\n    expected:\n      {}\n    got:\n      {}",
        statement.line,
        statement.text,
        expected.join("\n      "),
        got.join("\n      "),
    )
}

/// Returns the databases of a real server, without its system databases.
fn databases(client: &mut Client) -> Vec<String> {
    let reply = client
        .command("admin", doc! {"listDatabases": 1, "nameOnly": true})
        .expect("a reply");
    let listed = reply.get_array("databases").expect("databases").iter();
    listed
        .filter_map(|row| Some(row.as_document()?.get_str("name").ok()?.to_owned()))
        .filter(|name| !matches!(name.as_str(), "admin" | "config" | "local"))
        .collect()
}

/// Drops everything that a script left on a real server.
fn clear(server: SocketAddr) {
    let mut client = Client::connect(server).expect("a connection");
    for database in databases(&mut client) {
        let dropped = client.command(&database, doc! {"dropDatabase": 1});
        dropped.expect("a reply");
    }
}

/// Moves the clock: `advance 61s`, `back 5m`. Units: ms, s, m, h, d.
fn travel(clock: &Clock, text: &str) -> Result<String, String> {
    let (verb, amount) = text.split_once(' ').unwrap_or((text, ""));
    let digits = amount.trim_end_matches(char::is_alphabetic);
    let unit = match &amount[digits.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        other => return Err(format!("no such unit: {other:?}")),
    };
    let millis = digits.parse::<i64>().map_err(|error| error.to_string())? * unit;
    match verb {
        "advance" => clock.advance(millis),
        "back" => clock.advance(-millis),
        other => return Err(format!("a clock cannot {other}")),
    }
    bson::DateTime::from_millis(clock.now().0)
        .try_to_rfc3339_string()
        .map_err(|error| error.to_string())
}
