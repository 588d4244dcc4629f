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

    /// True if an undefined is among the documents of the script.
    pub fn holds_undefined(&self) -> bool {
        let commands = self
            .steps
            .iter()
            .map(|step| Bson::Document(step.command.clone()));
        commands
            .into_iter()
            .any(|command| contains(&command, &|value| *value == Bson::Undefined))
    }

    /// True if mongod's replies have a MinKey or MaxKey.
    pub fn holds_extremes(&self) -> bool {
        let extreme = |value: &Bson| matches!(value, Bson::MinKey | Bson::MaxKey);
        let replies = self
            .theirs
            .iter()
            .map(|reply| Bson::Document(reply.clone()));
        replies.into_iter().any(|reply| contains(&reply, &extreme))
    }

    /// True if the last command asks for one of no values, or says so itself.
    pub fn matches_nothing(&self) -> bool {
        let empty = |value: &Bson| value.as_array().is_some_and(Vec::is_empty);
        self.says("$alwaysFalse") || contains(&self.command().clone().into(), &empty)
    }

    pub fn is_indexed(&self) -> bool {
        let mut steps = self.steps.iter();
        steps.any(|step| step.command.contains_key("createIndexes"))
    }

    /// True if a `$group` of the last command has an object as its `_id`.
    pub fn groups_by_object(&self) -> bool {
        let stages = self.command().get_array("pipeline").ok();
        let mut stages = stages.into_iter().flatten().filter_map(Bson::as_document);
        stages.any(|stage| {
            let group = stage.get_document("$group");
            group.is_ok_and(|group| group.get_document("_id").is_ok())
        })
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
