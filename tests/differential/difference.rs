//! A difference between the two servers, and questions about it.

use bson::{Bson, Document};

use crate::generate::Step;

/// A difference between the two servers.
#[derive(Debug, Clone)]
pub struct Difference {
    /// The steps, up to the one that shows the difference.
    pub steps: Vec<Step>,
    pub what: What,
    pub theirs: Vec<Document>,
    pub ours: Vec<Document>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Reply,
    /// The contents of the collections afterwards.
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

    /// Returns true if the last command has a field or operator of this name at any depth.
    pub fn says(&self, name: &str) -> bool {
        mentions(&Bson::Document(self.command().clone()), name)
    }

    /// Returns true if the predicate is true for a value of the last command.
    pub fn has_value(&self, wanted: impl Fn(&Bson) -> bool) -> bool {
        contains(&Bson::Document(self.command().clone()), &wanted)
    }

    /// Returns true if the predicate is true for a value of any command of the script.
    pub fn script_has(&self, wanted: impl Fn(&Bson) -> bool) -> bool {
        let mut commands = self.steps.iter().map(|step| step.command.clone());
        commands.any(|command| contains(&command.into(), &wanted))
    }

    /// Returns true if the last command has, at any depth, a field of this name whose value passes the predicate.
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

    /// Returns true if the last command or an earlier one has a field or operator of this name at any depth.
    pub fn script_says(&self, name: &str) -> bool {
        let mut commands = self.steps.iter().map(|step| step.command.clone());
        commands.any(|command| mentions(&command.into(), name))
    }

    /// Returns true if the pipeline begins with a `$group`, or with stages that 8.2 hands to its slot-based engine together
    /// with the `$group` behind them (sbe_pushdown.cpp).
    pub fn groups_first(&self) -> bool {
        let stages = self.command().get_array("pipeline").into_iter().flatten();
        let mut stages = stages.filter_map(|stage| stage.as_document()?.iter().next());
        let later = stages.find(|(name, argument)| match name.as_str() {
            "$match" | "$sort" | "$limit" | "$skip" => false,
            "$lookup" => mentions(argument, "pipeline"),
            _ => true,
        });
        later
            .is_some_and(|(name, _)| ["$group", "$bucket", "$sortByCount"].contains(&name.as_str()))
    }

    /// Returns true if neither server failed. (If their collections differ, both have continued.)
    pub fn both_answer(&self) -> bool {
        self.what == What::State || self.codes() == (0, 0)
    }

    /// Returns true if the last command computes or removes fields of documents.
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

    /// Returns the fields that `$group` or a similar stage fills with one of these accumulators.
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

    /// Returns true if an update has a positional `$`.
    pub fn has_positional_path(&self) -> bool {
        self.has_value(|value| {
            let mut names = value.as_document().into_iter().flat_map(Document::keys);
            names.any(|name| name.split('.').skip(1).any(|part| part == "$"))
        })
    }

    /// Returns the number of paths in the operators of an update.
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

    pub fn command(&self) -> &Document {
        &self.steps[self.steps.len() - 1].command
    }

    /// Returns true if mongod's first reply is a failure, even one without a code.
    pub fn they_fail(&self) -> bool {
        let first = self.theirs.first();
        first.is_some_and(|reply| reply.get_f64("ok").ok() == Some(0.0))
    }

    /// Returns true if Sundown's first error message has this text.
    pub fn we_say(&self, text: &str) -> bool {
        message(&self.ours).is_some_and(|message| message.contains(text))
    }

    /// Returns true if mongod's first error message has this text.
    pub fn they_say(&self, text: &str) -> bool {
        message(&self.theirs).is_some_and(|message| message.contains(text))
    }

    /// Returns the code of each server's error or first write error, 0 for none.
    pub fn codes(&self) -> (i32, i32) {
        (code(&self.theirs), code(&self.ours))
    }
}

pub fn contains(value: &Bson, wanted: &dyn Fn(&Bson) -> bool) -> bool {
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

/// Returns the message of the first error or write error.
fn message(replies: &[Document]) -> Option<&str> {
    replies.iter().find_map(error_message)
}

/// Returns the message of a reply, or of its first write error.
pub fn error_message(reply: &Document) -> Option<&str> {
    let inner = reply.get_array("writeErrors").ok();
    let inner = inner.and_then(|errors| errors.first()?.as_document());
    inner.unwrap_or(reply).get_str("errmsg").ok()
}

/// Returns the code of the first reply that has one.
pub fn code(replies: &[Document]) -> i32 {
    let of = |reply: &Document| {
        let inner = reply.get_array("writeErrors").ok();
        let inner = inner.and_then(|errors| errors.first()?.as_document());
        inner.unwrap_or(reply).get_i32("code").ok()
    };
    replies.iter().find_map(of).unwrap_or(0)
}
