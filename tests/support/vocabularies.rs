//! The six vocabularies as one list, for the rules that apply to all of them and for the tables that are generated from
//! them.

use bson::{Bson, Document, doc};
use sundown::command::COMMANDS;
use sundown::query::accumulator::ACCUMULATORS;
use sundown::query::expr::EXPRESSIONS;
use sundown::query::filter::{FILTERS, Level};
use sundown::query::stage::STAGES;
use sundown::query::update::UPDATES;
use sundown::vocabulary::{Entry, Vocabulary};

pub struct VocabularyList {
    /// For example `commands`.
    pub name: &'static str,
    /// The name of the static in `table.rs`.
    pub table: &'static str,
    /// The folder of the table and the parsers.
    pub folder: &'static str,
    pub cases: Cases,
    pub words: Vec<Word>,
}

/// The scripts, below `tests/cases`, that must use a word.
pub enum Cases {
    /// Any script. A command must succeed in one script and fail in one.
    Anywhere,
    /// A script in this folder, where the words of a family share a script.
    In(&'static str),
    /// The script in this folder that has the name of the word.
    OfItsOwn(&'static str),
}

/// An entry of any vocabulary.
pub struct Word {
    pub name: &'static str,
    /// Other names of a command.
    pub aliases: &'static [&'static str],
    pub ready: bool,
    /// The help text of a command.
    pub help: &'static str,
    /// Requests that use the word: the database and the command. A stage may have one for each kind of source that it can
    /// run on.
    pub uses: Vec<(&'static str, Document)>,
}

/// Returns every vocabulary, in the order in which the README shows them.
pub fn vocabularies() -> Vec<VocabularyList> {
    let mut commands = VocabularyList {
        name: "commands",
        table: "COMMANDS",
        folder: "src/command",
        cases: Cases::Anywhere,
        words: words(&COMMANDS, |row| {
            row.names().map(|name| ("admin", doc! {name: 1})).collect()
        }),
    };
    for (word, row) in commands.words.iter_mut().zip(COMMANDS.entries()) {
        word.aliases = row.facts.aliases;
        word.help = row.facts.help;
    }
    vec![
        commands,
        VocabularyList {
            name: "filters",
            table: "FILTERS",
            folder: "src/query/filter",
            cases: Cases::OfItsOwn("filter"),
            words: words(&FILTERS, |row| {
                let filter = match row.facts {
                    Level::Top => doc! {row.name: {}},
                    Level::Field => doc! {"a": {row.name: {}}},
                };
                vec![("test", doc! {"find": "t", "filter": filter})]
            }),
        },
        VocabularyList {
            name: "updates",
            table: "UPDATES",
            folder: "src/query/update",
            cases: Cases::OfItsOwn("update"),
            words: words(&UPDATES, |row| {
                let update = doc! {"q": {}, "u": {row.name: {"a": 1}}};
                vec![("test", doc! {"update": "t", "updates": [update]})]
            }),
        },
        VocabularyList {
            name: "stages",
            table: "STAGES",
            folder: "src/query/stage",
            cases: Cases::OfItsOwn("stage"),
            words: words(&STAGES, |row| {
                let on = |database, on: Bson| (database, aggregate(on, doc! {row.name: {}}));
                vec![
                    on("test", "t".into()),
                    on("admin", 1.into()),
                    on("config", "system.sessions".into()),
                ]
            }),
        },
        VocabularyList {
            name: "accumulators",
            table: "ACCUMULATORS",
            folder: "src/query/accumulator",
            cases: Cases::OfItsOwn("accumulator"),
            words: words(&ACCUMULATORS, |row| {
                let stage = doc! {"$group": {"_id": 1, "v": {row.name: {}}}};
                vec![("test", aggregate("t".into(), stage))]
            }),
        },
        VocabularyList {
            name: "expressions",
            table: "EXPRESSIONS",
            folder: "src/query/expr",
            cases: Cases::In("expression"),
            words: words(&EXPRESSIONS, |row| {
                let stage = doc! {"$project": {"v": {row.name: {}}}};
                vec![("test", aggregate("t".into(), stage))]
            }),
        },
    ]
}

/// Returns the vocabulary with this name.
pub fn vocabulary(name: &str) -> VocabularyList {
    let mut all = vocabularies().into_iter();
    all.find(|listed| listed.name == name)
        .unwrap_or_else(|| panic!("no vocabulary is called {name}"))
}

fn words<T, F>(
    vocabulary: &'static Vocabulary<T, F>,
    uses: impl Fn(&Entry<T, F>) -> Vec<(&'static str, Document)>,
) -> Vec<Word> {
    let word = |row: &Entry<T, F>| Word {
        name: row.name,
        aliases: &[],
        ready: row.is_ready(),
        help: "",
        uses: uses(row),
    };
    vocabulary.entries().iter().map(word).collect()
}

fn aggregate(on: Bson, stage: Document) -> Document {
    doc! {"aggregate": on, "pipeline": [stage], "cursor": {}}
}

impl VocabularyList {
    /// Returns the names that are built.
    pub fn ready(&self) -> impl Iterator<Item = &'static str> {
        let ready = self.words.iter().filter(|word| word.ready);
        ready.map(|word| word.name)
    }

    /// Returns the names that are known and refused.
    pub fn planned(&self) -> impl Iterator<Item = &'static str> {
        let planned = self.words.iter().filter(|word| !word.ready);
        planned.map(|word| word.name)
    }
}

impl Word {
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}
