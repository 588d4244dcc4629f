//! The generated sections of our README files: tables of vocabularies and settings, the list of differences, and code from
//! the examples.
//!
//! A generated section is between `<!-- its name -->` and `<!-- end -->`. `<!-- file:examples/x.py -->` shows a file.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use bson::{Document, doc};
use sundown::config;
use sundown::cosmos::strict::RULES;
use sundown::query::projection::ProjectionKind;
use sundown::query::{Projection, Scope};
use sundown::value::DocBuf;

use super::vocabularies::{VocabularyList, vocabularies, vocabulary};

pub struct Section {
    pub name: &'static str,
    render: fn() -> String,
}

pub const SECTIONS: &[Section] = &[
    Section {
        name: "table:glance",
        render: glance,
    },
    Section {
        name: "table:settings",
        render: settings,
    },
    Section {
        name: "table:strict",
        render: strict,
    },
    Section {
        name: "table:commands",
        render: commands,
    },
    Section {
        name: "table:filters",
        render: || names("filters"),
    },
    Section {
        name: "table:updates",
        render: || names("updates"),
    },
    Section {
        name: "table:projections",
        render: projections,
    },
    Section {
        name: "table:stages",
        render: || names("stages"),
    },
    Section {
        name: "table:accumulators",
        render: || names("accumulators"),
    },
    Section {
        name: "table:expressions",
        render: || names("expressions"),
    },
    Section {
        name: "list:differs",
        render: differs,
    },
];

/// Returns the text with every generated section replaced by its current content, and the names of the sections.
pub fn renew(file: &str, text: &str) -> (String, Vec<String>) {
    let (mut fresh, mut rest, mut known) = (String::new(), text, Vec::new());
    while let Some((before, name, after)) = next_section(rest) {
        let (Some(section), Some(end)) = (render(name), after.find("<!-- end -->")) else {
            panic!("{file}: <!-- {name} --> is not known, or has no <!-- end -->");
        };
        let _ = writeln!(fresh, "{before}<!-- {name} -->\n{}", section.trim_end());
        known.push(name.to_owned());
        rest = &after[end..];
    }
    fresh.push_str(rest);
    (fresh, known)
}

fn render(name: &str) -> Option<String> {
    match name.strip_prefix("file:") {
        Some(path) => Some(code(path)),
        None => SECTIONS
            .iter()
            .find(|section| section.name == name)
            .map(|section| (section.render)()),
    }
}

/// Returns the text before the next section, its name, and the text after its opening mark.
fn next_section(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let start = from + text[from..].find("<!-- ")?;
        let name_at = start + "<!-- ".len();
        let end = name_at + text[name_at..].find(" -->")?;
        let name = &text[name_at..end];
        if ["table:", "list:", "file:"]
            .iter()
            .any(|kind| name.starts_with(kind))
        {
            let after = text[end + " -->".len()..].trim_start_matches('\n');
            return Some((&text[..start], name, after));
        }
        from = end;
    }
}

fn listed(names: impl Iterator<Item = &'static str>) -> (usize, String) {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    (names.len(), names.join(" "))
}

fn names(table: &str) -> String {
    let table = vocabulary(table);
    let (count, ready) = listed(table.ready());
    format!("{count} built: {ready}\n{}", refused(&table))
}

fn refused(table: &VocabularyList) -> String {
    match listed(table.planned()) {
        (0, _) => String::new(),
        (count, names) => format!("\n{count} refused by name: {names}\n"),
    }
}

fn commands() -> String {
    let table = vocabulary("commands");
    let mut text = "| command | what it does |\n|---|---|\n".to_owned();
    for word in table.words.iter().filter(|word| word.ready) {
        let _ = writeln!(text, "| `{}` | {} |", word.name, word.help);
    }
    text.push_str(&refused(&table));
    text
}

fn settings() -> String {
    let mut text = "| option | variable | default | meaning |\n|---|---|---|---|\n".to_owned();
    for setting in config::table() {
        let default = if setting.default.is_empty() {
            String::new()
        } else {
            format!("`{}`", setting.default)
        };
        let _ = writeln!(
            text,
            "| `{}` | `{}` | {default} | {} |",
            setting.name, setting.env, setting.help
        );
    }
    text
}

/// Renders the rules of `--strict cosmos`.
fn strict() -> String {
    let mut text = "| refused | code | message |\n|---|---|---|\n".to_owned();
    for rule in RULES {
        let words = rule.words.replace("{}", "…");
        let whose = if rule.seen { "" } else { " (ours)" };
        let code = rule.code.number();
        let _ = writeln!(text, "| {} | {code} | {words}{whose} |", rule.what);
    }
    text
}

/// Renders the forms of projections. They have no table of names, so each form is tried in a find and in `$project`.
fn projections() -> String {
    let forms: &[(&str, Document)] = &[
        ("`{a: 1}`, `{\"a.b\": 1}`", doc! {"a": 1, "b.c": true}),
        ("`{a: 0}`, `{_id: 0}`", doc! {"a": 0, "_id": 0}),
        (
            "`{a: <expression>}`, `{a: \"$b\"}`",
            doc! {"a": {"$add": [1, "$b"]}, "c": "$b"},
        ),
        (
            "`{a: {b: 1, c: <expression>}}`",
            doc! {"a": {"b": 1, "c": "$d"}},
        ),
        ("`{a: {$slice: n}}`", doc! {"a": {"$slice": 2}}),
        ("`{a: {$slice: [skip, n]}}`", doc! {"a": {"$slice": [1, 2]}}),
        (
            "`{a: {$elemMatch: {...}}}`",
            doc! {"a": {"$elemMatch": {"b": 1}}},
        ),
        ("`{\"a.$\": 1}`", doc! {"a.$": 1}),
        (
            "`{a: {$meta: \"textScore\"}}`",
            doc! {"a": {"$meta": "textScore"}},
        ),
    ];
    let mut text = "| form | find | $project |\n|---|---|---|\n".to_owned();
    for (form, spec) in forms {
        let spec = DocBuf::from(spec.clone());
        let taken = |kind| match Projection::parse(spec.as_doc(), &Scope::new(), kind) {
            Ok(_) => "yes",
            Err(_) => "refused",
        };
        let (find, project) = (
            taken(ProjectionKind::Find),
            taken(ProjectionKind::Aggregate),
        );
        let _ = writeln!(text, "| {form} | {find} | {project} |");
    }
    text
}

/// Renders the first comment of every case under `differs/`, in the order of their numbers.
fn differs() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/differs");
    let mut files: Vec<_> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "case"))
        .collect();
    files.sort();
    let mut text = String::new();
    for file in files {
        let case = fs::read_to_string(&file).expect("it was just listed");
        let said: Vec<&str> = case
            .lines()
            .map_while(|line| line.strip_prefix('#'))
            .map(str::trim)
            .filter(|line| !line.starts_with("from:") && !line.starts_with("skip:"))
            .collect();
        let said = said.join(" ");
        assert!(
            !said.is_empty(),
            "{}: begins with no reason",
            file.display()
        );
        let mut letters = said.chars();
        let first: String = letters
            .next()
            .into_iter()
            .flat_map(char::to_uppercase)
            .collect();
        let name = file
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or("");
        let _ = writeln!(
            text,
            "- {first}{} ([{name}]({name}.case))",
            letters.as_str()
        );
    }
    text
}

/// Renders how many words of each vocabulary are built and refused, with links for the README in the root.
fn glance() -> String {
    let mut text = "| vocabulary | built | known, refused by name |\n|---|---|---|\n".to_owned();
    for table in vocabularies() {
        let page = match table.name {
            "commands" => "src/command/README.md".to_owned(),
            operators => format!("src/query/README.md#{operators}"),
        };
        let (built, refused) = (table.ready().count(), table.planned().count());
        let name = table.name;
        let _ = writeln!(text, "| [{name}]({page}) | {built} | {refused} |");
    }
    text
}

/// Renders a file, or the part of it after the line `--- shown in the README`.
fn code(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let code = fs::read_to_string(file).unwrap_or_else(|problem| panic!("{path}: {problem}"));
    let shown = code
        .split_once("--- shown in the README\n")
        .map_or(code.as_str(), |(_, shown)| shown);
    let language = match path.rsplit_once('.') {
        Some((_, "rs")) => "rust",
        Some((_, "py")) => "python",
        Some((_, "mjs")) => "js",
        other => panic!("{path}: which language is {other:?}?"),
    };
    format!("```{language}\n{}\n```\n", shown.trim_end())
}
