//! A difference, and what can be asked about it.

use bson::{Bson, Document};

use crate::generate::Step;

/// Where the two differ.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The steps up to the one that shows it.
    pub steps: Vec<Step>,
    pub what: What,
    pub theirs: Vec<Document>,
    pub ours: Vec<Document>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Reply,
    /// What the collections hold afterwards.
    State,
}

// === impl Difference ===

impl Difference {
    pub fn new(steps: &[Step], what: What, (theirs, ours): (Vec<Document>, Vec<Document>)) -> Self {
        Self {
            steps: steps.to_vec(),
            what,
            theirs,
            ours,
        }
    }

    /// True if the last command has a field or operator of that name anywhere.
    pub fn says(&self, name: &str) -> bool {
        mentions(&Bson::Document(self.command().clone()), name)
    }

    /// True if the last command has that number at its top.
    pub fn has(&self, name: &str, number: i32) -> bool {
        self.command().get_i32(name).ok() == Some(number)
    }

    /// True if a value of the last command is so.
    pub fn has_value(&self, wanted: impl Fn(&Bson) -> bool) -> bool {
        contains(&Bson::Document(self.command().clone()), &wanted)
    }

    /// True if a value of any command of the script is so.
    pub fn script_has(&self, wanted: impl Fn(&Bson) -> bool) -> bool {
        let mut commands = self.steps.iter().map(|step| step.command.clone());
        commands.any(|command| contains(&command.into(), &wanted))
    }

    /// True if the last command has a field of that name whose value is so, anywhere.
    pub fn names_with(&self, name: &str, wanted: impl Fn(&Bson) -> bool) -> bool {
        self.has_value(|value| {
            let field = value.as_document().and_then(|document| document.get(name));
            field.is_some_and(&wanted)
        })
    }

    pub fn is_indexed(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| step.command.contains_key("createIndexes"))
    }

    /// True if an index of the last command says whether it is hidden, or one of before did.
    pub fn hides_an_index(&self) -> bool {
        let mut commands = self.steps.iter().map(|step| step.command.clone());
        commands.any(|command| mentions(&command.into(), "hidden"))
    }

    /// True if neither server failed; where their collections differ, both went on.
    pub fn both_answer(&self) -> bool {
        self.what == What::State || self.codes() == (0, 0)
    }

    /// True if the last command computes fields of documents or takes some away.
    pub fn computes(&self) -> bool {
        let computing = [
            "projection",
            "fields",
            "$project",
            "$addFields",
            "$set",
            "$unset",
            "$lookup",
            "$unwind",
        ];
        computing.iter().any(|name| self.says(name))
    }

    /// The fields that a `$group` or the like fills with one of those accumulators.
    pub fn fields_made_by(&self, accumulators: &[&str]) -> Vec<String> {
        fn collect(value: &Bson, accumulators: &[&str], found: &mut Vec<String>) {
            match value {
                Bson::Document(document) => {
                    for (name, value) in document {
                        let inner = value.as_document().and_then(|inner| inner.keys().next());
                        if inner.is_some_and(|inner| accumulators.contains(&inner.as_str())) {
                            found.push(name.clone());
                        }
                        collect(value, accumulators, found);
                    }
                }
                Bson::Array(list) => {
                    let list = list.iter();
                    list.for_each(|value| collect(value, accumulators, found));
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        collect(&self.command().clone().into(), accumulators, &mut found);
        found
    }

    /// True if an update names a place by `$`.
    pub fn has_positional_path(&self) -> bool {
        self.has_value(|value| {
            let mut names = value.as_document().into_iter().flat_map(Document::keys);
            names.any(|name| name.split('.').skip(1).any(|part| part == "$"))
        })
    }

    pub fn upserts(&self) -> bool {
        self.names_with("upsert", |value| *value == Bson::Boolean(true))
    }

    /// True if the last command replaces a document as a whole.
    pub fn replaces(&self) -> bool {
        let plain = |value: &Bson| {
            let update = value.as_document();
            update.is_some_and(|update| update.keys().all(|name| !name.starts_with('$')))
        };
        self.names_with("u", plain) || self.names_with("update", plain)
    }

    /// How many paths the operators of an update name.
    pub fn changed_paths(&self) -> usize {
        let command = self.command();
        let in_list = command.get_array("updates").ok();
        let in_list = in_list.and_then(|list| list.first()?.as_document()?.get("u"));
        let update = in_list.or_else(|| command.get("update"));
        let operators = update.and_then(Bson::as_document).into_iter().flatten();
        let fields = operators.filter_map(|(_, fields)| fields.as_document());
        fields.map(Document::len).sum()
    }

    pub fn verb(&self) -> &str {
        self.command().keys().next().map_or("", String::as_str)
    }

    /// True if the last command changes documents by a pipeline.
    pub fn updates_by_pipeline(&self) -> bool {
        let command = self.command();
        let in_list = command.get_array("updates").ok();
        let in_list = in_list.and_then(|list| list.first()?.as_document()?.get("u"));
        let update = in_list.or_else(|| command.get("update"));
        matches!(update, Some(Bson::Array(_)))
    }

    pub fn command(&self) -> &Document {
        &self.steps[self.steps.len() - 1].command
    }

    /// The code that each server failed with, its first write error's included; 0 for none.
    pub fn codes(&self) -> (i32, i32) {
        (code(&self.theirs), code(&self.ours))
    }
}

fn contains(value: &Bson, wanted: &dyn Fn(&Bson) -> bool) -> bool {
    wanted(value)
        || match value {
            Bson::Document(document) => document.values().any(|value| contains(value, wanted)),
            Bson::Array(list) => list.iter().any(|value| contains(value, wanted)),
            _ => false,
        }
}

fn mentions(value: &Bson, name: &str) -> bool {
    match value {
        Bson::Document(document) => {
            let mut fields = document.iter();
            fields.any(|(key, value)| key == name || mentions(value, name))
        }
        Bson::Array(list) => list.iter().any(|value| mentions(value, name)),
        _ => false,
    }
}

/// The code of the first reply that has one.
pub fn code(replies: &[Document]) -> i32 {
    let of = |reply: &Document| {
        let inner = reply.get_array("writeErrors").ok();
        let inner = inner.and_then(|errors| errors.first()?.as_document());
        inner.unwrap_or(reply).get_i32("code").ok()
    };
    replies.iter().find_map(of).unwrap_or(0)
}
