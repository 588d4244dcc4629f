//! `validate`: checks that documents and indexes agree.

use std::sync::Arc;

use super::reply::{put_count, put_uuid};
use super::{Access, Call, Command, Context, Flags, Needs, Outcome, Step, Task};
use crate::auth::Action;
use crate::engine::ddl::no_collection;
use crate::engine::{Collection, Findings, validate};
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, is_true};

pub(super) const COMMAND: Command = Command::ready(
    "validate",
    Access::Read,
    "Frees expired documents, then checks that documents and indexes agree.",
    run,
)
.with(Flags::SECONDARY)
.needs(Needs::Collection(Action::Validate));

const FLAGS: &[&str] = &[
    "background",
    "checkBSONConformance",
    "enforceFastCount",
    "fixErrors",
    "full",
    "metadata",
    "repair",
    "scandata",
];

/// A validate that waits until the expired documents are freed.
struct ValidateTask {
    context: Arc<Context>,
    namespace: String,
    collection: Arc<Collection>,
    metadata: bool,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let mut set = Vec::new();
    for arg in call.args().skip(1) {
        // As in MongoDB, a flag may have any value, and unknown fields are ignored.
        if FLAGS.contains(&arg.name()) && is_true(arg.value()) {
            set.push(arg.name());
        }
    }
    let on = |name: &str| set.contains(&name);
    for other in ["full", "repair"] {
        if on("background") && on(other) {
            return Err(Error::new(
                Code::InvalidOptions,
                format!(
                    "Running the validate command with both {{ background: true }} and {{ {other}: true }} is not supported."
                ),
            ));
        }
    }
    if on("metadata") && set.len() > 1 {
        return Err(Error::new(
            Code::InvalidOptions,
            "Running the validate command with { metadata: true } is not supported with any other options",
        ));
    }
    if on("checkBSONConformance") && on("repair") {
        return Err(Error::new(
            Code::InvalidOptions,
            "Running the validate command with both { checkBSONConformance: true } and { repair: true } is not supported.",
        ));
    }
    let metadata = on("metadata");
    let Some(collection) = call.context.catalog.get(call.database(), name)? else {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!(
                "Collection '{}.{name}' does not exist to validate.",
                call.database()
            ),
        ));
    };
    let mut validating = ValidateTask {
        context: Arc::clone(call.context),
        namespace: call.namespace(name),
        collection,
        metadata,
    };
    match validating.step(reply)? {
        Step::Done => Ok(Outcome::Reply),
        _ => Ok(Outcome::Work(Box::new(validating))),
    }
}

// === impl ValidateTask ===

impl Task for ValidateTask {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let now = self.context.clock.now();
        let found = validate(&self.collection, now).map_err(|_dropped| no_collection())?;
        let Some(findings) = found else {
            return Ok(Step::More);
        };
        reply.put_str("ns", &self.namespace);
        put_uuid(reply, "uuid", self.collection.uuid().as_bytes());
        put_findings(&findings, reply, self.metadata);
        Ok(Step::Done)
    }
}

fn put_findings(findings: &Findings, reply: &mut DocBuilder<'_>, metadata: bool) {
    if !metadata {
        put_count(reply, "nInvalidDocuments", 0);
        put_count(reply, "nNonCompliantDocuments", 0);
        put_count(reply, "nrecords", findings.documents);
    }
    reply.put_i32("nIndexes", findings.index_count);
    // mongod keeps them in a map by name.
    let mut by_name: Vec<_> = findings.indexes.iter().collect();
    by_name.sort_by_key(|(name, ..)| name);
    let mut per_index = reply.doc("keysPerIndex");
    for (name, keys, _) in &by_name {
        put_count(&mut per_index, name, *keys);
    }
    per_index.end();
    let mut details = reply.doc("indexDetails");
    for (name, _, spec) in &by_name {
        let mut detail = details.doc(name);
        detail
            .put_bool("valid", true)
            .put_doc("spec", spec.as_doc());
        detail.end();
    }
    details.end();
    reply
        .put_bool("valid", true)
        .put_bool("repaired", false)
        .put_str("repairMode", "None")
        .put_bool("readOnly", false);
    for name in [
        "warnings",
        "errors",
        "extraIndexEntries",
        "missingIndexEntries",
        "corruptRecords",
    ] {
        reply.array(name).end();
    }
}
