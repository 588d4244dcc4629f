//! The rules for our documents: generated sections agree with the code, links and file names exist, commands and options
//! exist, and the README stays short.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use sundown::config;

use super::{readme, root, syntax};

/// A person reads the README in one sitting. Details are documented next to the code they describe.
const README_LINES: usize = 200;

/// Programs that our shell blocks may start, besides those that are checked here.
const PROGRAMS: &[&str] = &[
    "docker", "export", "go", "mkdir", "mongosh", "node", "npm", "pip", "pytest",
];

/// Options that are not settings of the server: `--help`, those of `sundown healthcheck`, an alias of a setting, and
/// options of cargo and mongod.
const OPTIONS: &[&str] = &[
    "--help",
    "--host",
    "--timeout",
    "--tls-certificate-key-file",
    "--target",
    "--setParameter",
];

/// Folders that exist only after something has run.
const MADE: &[&str] = &["artifacts/", "corpus/"];

/// The endings by which a name counts as the name of one of our files.
const FILES: &[&str] = &[
    ".rs", ".md", ".py", ".mjs", ".js", ".java", ".go", ".sh", ".case", ".yml", ".toml", "/",
];

struct Document {
    /// The path from the root.
    name: String,
    text: String,
}

/// A fenced block.
struct Block<'a> {
    language: &'a str,
    text: String,
}

/// Returns all our Markdown files.
fn documents() -> Vec<Document> {
    fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if path.is_dir() {
                // Build output and fuzzing corpora contain files that are not ours.
                if !name.starts_with('.') && !["target", "corpus", "artifacts"].contains(&&*name) {
                    collect(&path, files);
                }
            } else if name.ends_with(".md") {
                files.push(path);
            }
        }
    }
    let mut files = Vec::new();
    collect(root(), &mut files);
    files.sort();
    files
        .into_iter()
        .map(|file| Document {
            name: file.strip_prefix(root()).unwrap().display().to_string(),
            text: fs::read_to_string(file).unwrap(),
        })
        .collect()
}

// === impl Document ===

impl Document {
    fn folder(&self) -> PathBuf {
        root().join(&self.name).parent().unwrap().to_owned()
    }

    fn blocks(&self) -> Vec<Block<'_>> {
        let (mut blocks, mut open) = (Vec::new(), None);
        for line in self.text.lines() {
            match (line.trim_start().strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(Block {
                        language,
                        text: String::new(),
                    });
                }
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => {
                    block.text.push_str(line);
                    block.text.push('\n');
                }
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "{}: a block has no end", self.name);
        blocks
    }

    /// Returns the text outside fenced blocks.
    fn prose(&self) -> String {
        let mut inside = false;
        self.text
            .lines()
            .filter(|line| {
                let fence = line.trim_start().starts_with("```");
                inside ^= fence;
                !inside && !fence
            })
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Returns the text of all code spans (in backticks) outside fenced blocks.
    fn spans(&self) -> Vec<String> {
        let prose = self.prose();
        prose
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect()
    }

    /// Returns the anchors that GitHub generates for the headings: lower case, with hyphens for spaces.
    fn anchors(&self) -> Vec<String> {
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        self.prose()
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .map(|line| line.trim_start_matches('#').trim().to_lowercase())
            .map(|heading| heading.chars().filter(kept).collect::<String>())
            .map(|heading| heading.replace(' ', "-"))
            .collect()
    }
}

#[test]
fn generated_sections_are_up_to_date() {
    let mut shown = BTreeSet::new();
    for Document { name, text } in documents() {
        let (fresh, sections) = readme::renew(&name, &text);
        shown.extend(sections);
        if fresh == text {
            continue;
        }
        if std::env::var("UPDATE").is_ok_and(|update| update == "1") {
            fs::write(root().join(&name), fresh).unwrap();
            continue;
        }
        let differs = fresh
            .lines()
            .zip(text.lines())
            .find(|(fresh, old)| fresh != old);
        panic!("{name} is out of step (UPDATE=1 cargo test --test house writes it): {differs:#?}");
    }
    for section in readme::SECTIONS {
        assert!(
            shown.contains(section.name),
            "no document has the section <!-- {} -->",
            section.name
        );
    }
}

#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string(root().join("README.md")).unwrap();
    let lines = text.lines().count();
    assert!(lines <= README_LINES, "{lines} lines");
}

#[test]
fn links_work() {
    let all = documents();
    let mut wrong = Vec::new();
    for document in &all {
        let prose = document.prose();
        for link in prose.split("](").skip(1) {
            let target = link.split(')').next().unwrap_or_default();
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => root().join(&document.name),
                path => document.folder().join(path),
            };
            let has_anchor = || {
                let named = |other: &&Document| {
                    file.canonicalize().ok() == root().join(&other.name).canonicalize().ok()
                };
                let found = all.iter().find(named);
                found.is_some_and(|other| other.anchors().iter().any(|known| known == anchor))
            };
            let leads = target.starts_with("https://")
                || file.exists() && (anchor.is_empty() || has_anchor());
            if !leads {
                wrong.push(format!("{}: {target}", document.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A path, or the name of a source file, is relative to the folder of its document, to the root or to the golden scripts.
#[test]
fn named_files_exist() {
    let mut wrong = Vec::new();
    for document in documents() {
        let folders = [
            document.folder(),
            root().to_owned(),
            root().join("tests/cases"),
        ];
        for span in document.spans() {
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            let is_file = FILES.iter().any(|end| span.ends_with(end))
                && (span.contains('/') || span.ends_with(".rs"))
                && !span.starts_with(['.', '/'])
                && span.chars().all(is_plain);
            let exists = folders.iter().any(|folder| folder.join(&span).exists());
            if is_file && !exists && !MADE.contains(&span.as_str()) {
                wrong.push(format!("{}: {span}", document.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The list of modules is complete.
#[test]
fn the_tour_names_every_module() {
    let tour = fs::read_to_string(root().join("src/README.md")).unwrap();
    for entry in fs::read_dir(root().join("src")).unwrap().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let named = match entry.path().is_dir() {
            true => format!("[{name}]({name}"),
            false => format!("`{name}`"),
        };
        let mut rows = tour.lines().filter(|line| line.starts_with('|'));
        let is_named = rows.any(|row| row.contains(&named));
        assert!(is_named || name == "README.md", "src/README.md: {name}");
    }
}

/// Every `module::Name` in the tour of the code is defined in that module.
#[test]
fn the_tour_names_what_exists() {
    let all = documents();
    let tour = all.iter().find(|document| document.name == "src/README.md");
    for span in tour.unwrap().spans() {
        let is_name = |part: &str| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let parts: Vec<&str> = span.split("::").collect();
        let [module, .., name] = parts[..] else {
            continue;
        };
        if !parts.iter().all(|part| is_name(part)) {
            continue;
        }
        let defines = |line: &str| {
            ["fn", "struct", "enum", "trait", "static", "const", "mod"]
                .iter()
                .any(|kind| {
                    line.split_once(&format!("{kind} {name}"))
                        .is_some_and(|(_, rest)| !rest.starts_with(|c: char| c.is_alphanumeric()))
                })
        };
        let folder = format!("src/{module}/");
        let found = super::sources()
            .iter()
            .any(|(file, text)| file.starts_with(&folder) && text.lines().any(defines));
        assert!(found, "src/README.md: {span}");
    }
}

#[test]
fn commands_of_shell_blocks_exist() {
    for document in documents() {
        for block in document.blocks() {
            if block.language != "sh" {
                continue;
            }
            for line in block.text.replace("\\\n", " ").lines() {
                let command = line.split(" #").next().unwrap_or(line);
                for part in command.split(" && ") {
                    check_command(&document, part.trim());
                }
            }
        }
    }
}

fn check_command(document: &Document, command: &str) {
    let wrong = |what: &str| panic!("{}: {command:?}: {what}", document.name);
    let words = words(command);
    let assigns = |word: &&String| {
        word.split_once('=')
            .is_some_and(|(name, _)| is_variable(name))
    };
    let mut words = words.iter().skip_while(assigns).map(String::as_str);
    let Some(program) = words.next().filter(|word| !word.starts_with('#')) else {
        return;
    };
    let words: Vec<&str> = words.collect();
    match program {
        "cargo" => check_cargo(document, command, &words),
        "sundown" => check_options(document, &words),
        file if file.contains('/') => {
            if !root().join(file).is_file() {
                wrong("there is no such file");
            }
        }
        other if PROGRAMS.contains(&other) => {}
        _ => wrong("it is not known here"),
    }
}

/// Splits a command into words as a shell does.
fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == ' ' => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

fn is_variable(name: &str) -> bool {
    let letters = |c: char| c.is_ascii_uppercase() || c == '_';
    !name.is_empty() && name.chars().all(letters)
}

/// Checks the targets that a cargo command names, and the server options after `--`.
fn check_cargo(document: &Document, command: &str, words: &[&str]) {
    let target = |option: &str| {
        let at = words.iter().position(|word| *word == option)?;
        words.get(at + 1).copied()
    };
    for (option, folder) in [
        ("--example", "examples"),
        ("--test", "tests"),
        ("--bench", "benches"),
    ] {
        let Some(name) = target(option) else {
            continue;
        };
        let file = root().join(folder).join(format!("{name}.rs"));
        let main = root().join(folder).join(name).join("main.rs");
        assert!(
            file.is_file() || main.is_file(),
            "{}: {command:?}: no {option} {name}",
            document.name
        );
    }
    let runs_server = words.first() == Some(&"run")
        && !words
            .iter()
            .any(|word| ["--example", "--bin"].contains(word));
    if let Some(at) = words.iter().position(|word| *word == "--")
        && runs_server
    {
        check_options(document, &words[at + 1..]);
    }
}

fn check_options(document: &Document, words: &[&str]) {
    for option in words.iter().filter(|word| word.starts_with("--")) {
        assert!(is_option(option), "{}: no option {option}", document.name);
    }
}

fn is_option(option: &str) -> bool {
    OPTIONS.contains(&option) || config::table().iter().any(|row| row.name == option)
}

/// Checks the snippets for mongosh, Node and Python.
#[test]
fn snippets_are_well_formed() {
    for document in documents() {
        for (nth, block) in document.blocks().iter().enumerate() {
            // As a module, JavaScript may use import and await at the top level.
            let ending = match block.language {
                "js" => "mjs",
                "python" => "py",
                _ => continue,
            };
            let name = format!("{}-{nth}.{ending}", document.name.replace(['/', '.'], "-"));
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            fs::write(&file, &block.text).unwrap();
            syntax::check(&file);
        }
    }
}

/// Every `--option` in backticks is one of ours, and so is every variable.
#[test]
fn options_and_variables_exist() {
    for document in documents() {
        for span in document.spans() {
            if span.starts_with("--") {
                let option = span.split([' ', '\n', '=']).next().unwrap_or(&span);
                check_options(&document, &[option]);
            }
        }
        for (at, _) in document.text.match_indices("SUNDOWN_") {
            let rest = &document.text[at..];
            let end = rest.find(|c: char| !c.is_ascii_uppercase() && c != '_');
            let variable = &rest[..end.unwrap_or(rest.len())];
            assert!(
                config::table().iter().any(|row| row.env == variable),
                "{}: no variable {variable}",
                document.name
            );
        }
    }
}
