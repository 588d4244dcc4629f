//! Sends parts of a command to the servers to prove a reason. If one server stops before it reaches the other server's
//! error, it must return that error for the part alone.

use bson::{Bson, Document, doc};

use crate::difference::{Difference, code};
use crate::known;
use crate::pair::Server;
use crate::reply;

/// The two servers, in the state in which the difference occurred.
pub struct Witness<'a> {
    pub theirs: &'a mut Server,
    pub ours: &'a mut Server,
}

// === impl Witness ===

impl Witness<'_> {
    /// Returns true if each server fails with the error of the other for a part of the command. If only one failed, the
    /// other needs no proof.
    pub fn part_fails(&mut self, found: &Difference) -> bool {
        let (theirs, ours) = found.codes();
        theirs != ours
            && (ours == 0 || self.they_fail_as_we_do(found))
            && (theirs == 0 || self.we_fail_as_they_do(found))
    }

    /// Returns true if mongod fails for a part of the command with Sundown's error for the whole.
    pub fn they_fail_as_we_do(&mut self, found: &Difference) -> bool {
        let ours = found.codes().1;
        let mut parts = parts(found.command()).into_iter();
        parts.any(|part| {
            let told = code(&[self.theirs.ask(part)]);
            told != 0 && known::same_code(told, ours)
        })
    }

    /// Returns true if Sundown fails for a part of the command with mongod's error for the whole.
    pub fn we_fail_as_they_do(&mut self, found: &Difference) -> bool {
        let theirs = found.codes().0;
        let mut parts = parts(found.command()).into_iter();
        parts.any(|part| {
            let told = code(&[self.ours.ask(part)]);
            told != 0 && known::same_code(theirs, told)
        })
    }

    /// Returns true if the servers differ about an expression with this operator alone.
    pub fn parts_differ(&mut self, found: &Difference, operator: &str) -> bool {
        let mut expressions = Vec::new();
        collect_expressions(&found.command().clone().into(), &mut expressions);
        let named = |expression: &Bson| {
            let expression = expression.as_document();
            expression.is_some_and(|expression| expression.contains_key(operator))
        };
        let mut parts = Vec::new();
        for expression in expressions.into_iter().filter(named) {
            run(&[doc! {"$project": {"x": expression}}], &mut parts);
        }
        let mut rows = |part: &Document| {
            let replies = [self.theirs.ask(part.clone()), self.ours.ask(part.clone())];
            replies.map(|reply| reply::batch(&reply).cloned())
        };
        parts.iter().any(|part| {
            let [theirs, ours] = rows(part);
            theirs != ours
        })
    }
}

/// Returns commands that run parts of a command: its stages one by one and from the first on, its filters, its projections
/// and each expression at any depth, on the documents of the collection and on an empty document.
fn parts(command: &Document) -> Vec<Document> {
    let mut parts = Vec::new();
    let mut pipelines = Vec::new();
    collect_pipelines(&command.clone().into(), &mut pipelines);
    for stages in pipelines {
        for from in 0..stages.len() {
            for to in from..stages.len() {
                if from == 0 || from == to {
                    run(&stages[from..=to], &mut parts);
                }
            }
        }
        for group in stages.iter().filter_map(|stage| stage.get("$group")) {
            pushed(group, &mut parts);
        }
    }
    for name in ["projection", "fields"] {
        if let Ok(fields) = command.get_document(name) {
            parts.push(doc! {"find": "t", "projection": fields.clone()});
            run(&[doc! {"$project": fields.clone()}], &mut parts);
        }
    }
    let mut expressions = Vec::new();
    collect_expressions(&command.clone().into(), &mut expressions);
    for expression in expressions {
        run(&[doc! {"$project": {"x": expression}}], &mut parts);
    }
    parts
}

/// Returns a pipeline on the existing documents, and one on an empty document.
fn run(stages: &[Document], parts: &mut Vec<Document>) {
    let merges = stages.iter().filter(|stage| stage.contains_key("$merge"));
    let writes = |stage: &Document| stage.contains_key("$out") || stage.contains_key("$merge");
    let stages: Vec<Document> = stages
        .iter()
        .filter(|stage| !writes(stage))
        .cloned()
        .collect();
    let has_documents = stages
        .first()
        .is_some_and(|stage| stage.contains_key("$documents"));
    let mut on_empty = vec![doc! {"$documents": [{}]}];
    on_empty.extend_from_slice(&stages[usize::from(has_documents)..]);
    parts.push(doc! {"aggregate": 1, "pipeline": on_empty, "cursor": {}});
    // The stage has nothing to write here.
    parts.extend(
        merges.map(|merge| doc! {"aggregate": "nosuch", "pipeline": [merge.clone()], "cursor": {}}),
    );
    if has_documents {
        parts.push(doc! {"aggregate": 1, "pipeline": stages, "cursor": {}});
    } else {
        parts.push(doc! {"aggregate": "t", "pipeline": stages, "cursor": {}});
    }
}

/// Returns the arguments of the accumulators for every document, because some accumulators read only one.
fn pushed(group: &Bson, parts: &mut Vec<Document>) {
    for accumulator in group.as_document().into_iter().flat_map(Document::values) {
        let argument = accumulator
            .as_document()
            .and_then(|one| one.values().next());
        let Some(argument) = argument else { continue };
        let named = argument.as_document();
        let named = named.and_then(|named| named.get("input").or_else(|| named.get("output")));
        let value = named.unwrap_or(argument).clone();
        run(
            &[doc! {"$group": {"_id": null, "x": {"$push": value}}}],
            parts,
        );
    }
}

/// Returns every list of stages, at any depth.
fn collect_pipelines(value: &Bson, found: &mut Vec<Vec<Document>>) {
    match value {
        Bson::Document(document) => document
            .values()
            .for_each(|value| collect_pipelines(value, found)),
        Bson::Array(list) => {
            let stages = list.iter().map(|stage| stage.as_document().cloned());
            if let Some(stages) = stages.collect::<Option<Vec<_>>>()
                && stages.iter().all(is_operator)
                && !stages.is_empty()
            {
                found.push(stages);
            }
            list.iter()
                .for_each(|value| collect_pipelines(value, found));
        }
        _ => {}
    }
}

/// Returns every document that can be an expression, at any depth.
fn collect_expressions(value: &Bson, found: &mut Vec<Bson>) {
    match value {
        Bson::Document(document) => {
            if is_operator(document) {
                found.push(value.clone());
            }
            if let Some(expression) = document.get("$expr") {
                found.push(expression.clone());
            }
            document
                .values()
                .for_each(|value| collect_expressions(value, found));
        }
        Bson::Array(list) => list
            .iter()
            .for_each(|value| collect_expressions(value, found)),
        _ => {}
    }
}

fn is_operator(document: &Document) -> bool {
    document.len() == 1 && document.keys().all(|name| name.starts_with('$'))
}
