//! `validate`: looks whether documents and indexes agree.

use super::args::truthy;
use super::drained::{self, Done};
use super::reply::put_uuid;
use super::{Access, Call, Command, Flags, Needs, Outcome, list_indexes};
use crate::auth::Action;
use crate::error::{Code, Error, Result};
use crate::storage::{View, Writer};
use crate::value::{DocBuf, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "validate",
    Access::Read,
    "Looks whether documents and indexes agree, once what has ended is freed.",
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

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let mut set = Vec::new();
    for arg in call.args().skip(1) {
        // Any value counts as a flag here, and unknown fields are passed over, as in MongoDB.
        if FLAGS.contains(&arg.name()) && truthy(arg.value()) {
            set.push(arg.name());
        }
    }
    let on = |name: &str| set.contains(&name);
    if on("background") && (on("full") || on("repair")) {
        return Err(Error::new(
            Code::InvalidOptions,
            "Running the validate command with both { background: true } and { full: true } or { repair: true } is not supported.",
        ));
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
    let Some(collection) = call.context.catalog.get(call.database(), name) else {
        return Err(Error::new(
            Code::NamespaceNotFound,
            format!(
                "Collection '{}.{name}' does not exist to validate.",
                call.database()
            ),
        ));
    };
    let (namespace, uuid) = (call.namespace(name), collection.uuid());
    let look = move |writer: &mut Writer<'_>| {
        let reply = DocBuf::build(|reply| {
            reply.put_str("ns", &namespace);
            put_uuid(reply, "uuid", uuid.as_bytes());
            put_findings(&writer.view(), reply, metadata);
        });
        Ok(Done {
            reply,
            ..Done::default()
        })
    };
    // Entries of ended documents wait for the reaper and are no part of what there is. To tell them apart means to follow every
    // entry of every index; to free them first, in steps, leaves numbers that are there to be read.
    drained::drain_then(call, reply, collection, None, Box::new(look))
}

fn put_findings(view: &View<'_>, reply: &mut DocBuilder<'_>, metadata: bool) {
    let count = view.totals().count;
    let mut keys = vec![("_id_".to_owned(), count)];
    for index in view.indexes().filter(|index| index.ready) {
        keys.push((index.spec.name.clone(), index.len() as u64));
    }
    if let Some(ts) = view.ts_index()
        && view.index(&ts.name).is_none()
    {
        keys.push((ts.name.clone(), count));
    }
    if !metadata {
        super::reply::put_count(reply, "nInvalidDocuments", 0);
        super::reply::put_count(reply, "nNonCompliantDocuments", 0);
        super::reply::put_count(reply, "nrecords", count);
    }
    reply.put_i32("nIndexes", list_indexes::count(view));
    let mut per_index = reply.doc("keysPerIndex");
    for (name, n) in &keys {
        super::reply::put_count(&mut per_index, name, *n);
    }
    per_index.end();
    let mut details = reply.doc("indexDetails");
    for ((name, _), spec) in keys.iter().zip(list_indexes::describe(view)) {
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
