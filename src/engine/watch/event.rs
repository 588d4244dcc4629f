//! The event of a change, as clients see it.

use std::borrow::Cow;

use crate::engine::describe::{put_id_index, put_options};
use crate::engine::point::show_by_id;
use crate::error::{Code, Error};
use crate::query::stage::{BeforeChange, ChangeStream, FullDocument, ResumeToken};
use crate::storage::{Catalog, Images, LogEntry, LogOp, Namespace, ReadPoint};
use crate::value::{Doc, DocBuf, DocBuilder, Value};

use super::description;

/// A document that a client requires and that was not kept.
pub struct MissingImage {
    /// The field of the event.
    pub field: &'static str,
    pub error: Error,
}

/// The bytes of an event besides those of its change.
const USUAL_SIZE: usize = 320;

/// Returns the event of a change, and which required document it lacks. `at` is the moment at which a client sees the document that an update has changed.
pub(super) fn of(
    entry: &LogEntry,
    token: &ResumeToken,
    stream: &ChangeStream,
    catalog: &Catalog,
    at: ReadPoint,
) -> (DocBuf, Option<MissingImage>) {
    let images = match &entry.op {
        LogOp::Update { images, .. }
        | LogOp::Replace { images, .. }
        | LogOp::Delete { images, .. } => Some(images),
        _ => None,
    };
    let full_document = full_document(entry, stream, catalog, at);
    let before = images.and_then(|images| before(images, stream.before_change));
    let event = DocBuf::build_sized(USUAL_SIZE + entry.op.weight(), |event| {
        if let Some(transaction) = &entry.transaction {
            event
                .put_i64("txnNumber", transaction.number)
                .put_doc("lsid", transaction.lsid.as_doc());
        }
        if let LogOp::Rename { to, .. } = &entry.op {
            put_namespace("to", to, event);
        }
        head(entry, token, operation_type(&entry.op), event);
        if stream.expanded
            && let Some(uuid) = entry.subject.uuid
        {
            event.put("collectionUUID", Value::binary(4, uuid.as_bytes()).as_ref());
        }
        event.put_date("wallTime", entry.wall.0);
        if let Some(document) = &full_document {
            put_image("fullDocument", document, event);
        }
        put_namespace("ns", &entry.subject.namespace, event);
        tail(entry, stream.expanded, event);
        if let Some(before) = &before {
            put_image("fullDocumentBeforeChange", before, event);
        }
    });
    let is_missing = |image: &Option<Image<'_>>| matches!(image, Some(Image::Missing));
    let missing = if stream.full_document == FullDocument::Required && is_missing(&full_document) {
        let which = "post-image for all update events";
        Some(("fullDocument", which, "post-image"))
    } else if stream.before_change == BeforeChange::Required && is_missing(&before) {
        let which = "pre-image for all update, delete and replace events";
        Some(("fullDocumentBeforeChange", which, "pre-image"))
    } else {
        None
    };
    let missing = missing.map(|(field, which, image)| MissingImage {
        field,
        error: no_image(which, image, &event),
    });
    (event, missing)
}

/// Returns the event that a stream ends with this change.
pub(super) fn invalidated(entry: &LogEntry, token: &ResumeToken) -> DocBuf {
    DocBuf::build(|event| {
        head(entry, token, "invalidate", event);
        event.put_date("wallTime", entry.wall.0);
    })
}

/// A document that an event shows.
enum Image<'e> {
    Document(Cow<'e, DocBuf>),
    /// The event shows null instead.
    Missing,
}

/// Returns the document after the change, if the event shows it.
fn full_document<'e>(
    entry: &'e LogEntry,
    stream: &ChangeStream,
    catalog: &Catalog,
    at: ReadPoint,
) -> Option<Image<'e>> {
    let (key, images) = match &entry.op {
        LogOp::Insert { document } | LogOp::Replace { document, .. } => {
            return Some(Image::Document(Cow::Borrowed(document)));
        }
        LogOp::Update { key, images, .. } => (key, images),
        _ => return None,
    };
    match stream.full_document {
        FullDocument::Default => None,
        FullDocument::UpdateLookup => {
            let found = look_up(entry, key.as_doc(), stream, catalog, at);
            Some(found.map_or(Image::Missing, |found| Image::Document(Cow::Owned(found))))
        }
        FullDocument::WhenAvailable | FullDocument::Required => {
            Some(Image::kept(images.after.as_ref()))
        }
    }
}

/// Returns the document as it is now: not if it has ended. As in 8.2, it is that of the collection that has the name now.
fn look_up(
    entry: &LogEntry,
    key: Doc<'_>,
    stream: &ChangeStream,
    catalog: &Catalog,
    at: ReadPoint,
) -> Option<DocBuf> {
    let name = &entry.subject.namespace;
    let collection = catalog.get(name.database(), name.collection()).ok()??;
    let mut found = None;
    if !stream.same_collection || Some(collection.uuid()) == entry.subject.uuid {
        show_by_id(&collection, at, key.get("_id"), |doc| {
            found = Some(doc.into())
        });
    }
    found
}

fn before(images: &Images, wanted: BeforeChange) -> Option<Image<'_>> {
    match wanted {
        BeforeChange::Off => None,
        BeforeChange::WhenAvailable | BeforeChange::Required => {
            Some(Image::kept(images.before.as_ref()))
        }
    }
}

// === impl Image ===

impl<'e> Image<'e> {
    /// Returns a document that the log has, or has not kept.
    fn kept(document: Option<&'e DocBuf>) -> Self {
        document.map_or(Self::Missing, |kept| Self::Document(Cow::Borrowed(kept)))
    }
}

fn put_image(name: &str, image: &Image<'_>, event: &mut DocBuilder<'_>) {
    match image {
        Image::Document(document) => event.put_doc(name, document.as_doc()),
        Image::Missing => event.put_null(name),
    };
}

fn no_image(which: &str, image: &str, event: &DocBuf) -> Error {
    Error::new(
        Code::NoMatchingDocument,
        format!(
            "Change stream was configured to require a {which}, but the {image} was not found for event: {event}"
        ),
    )
}

fn operation_type(op: &LogOp) -> &'static str {
    match op {
        LogOp::Insert { .. } => "insert",
        LogOp::Update { .. } => "update",
        LogOp::Replace { .. } => "replace",
        LogOp::Delete { .. } => "delete",
        LogOp::Create { .. } => "create",
        LogOp::Drop { .. } => "drop",
        LogOp::Rename { .. } => "rename",
        LogOp::DropDatabase => "dropDatabase",
        LogOp::CreateIndexes { .. } => "createIndexes",
        LogOp::DropIndexes { .. } => "dropIndexes",
        LogOp::Modify { .. } => "modify",
    }
}

fn head(entry: &LogEntry, token: &ResumeToken, operation_type: &str, event: &mut DocBuilder<'_>) {
    let (seconds, increment) = entry.time.parts();
    event
        .put_doc("_id", token.encode().as_doc())
        .put_str("operationType", operation_type)
        .put("clusterTime", Value::timestamp(seconds, increment).as_ref());
}

/// Writes what follows the namespace.
fn tail(entry: &LogEntry, expanded: bool, event: &mut DocBuilder<'_>) {
    match &entry.op {
        LogOp::Insert { document } | LogOp::Replace { document, .. } => {
            let mut key = event.doc("documentKey");
            key.put("_id", document.as_doc().get("_id"));
            key.end();
        }
        LogOp::Update { key, delta, .. } => {
            event.put_doc("documentKey", key.as_doc());
            let mut update = event.doc("updateDescription");
            description::write(delta.as_doc(), expanded, &mut update);
            update.end();
        }
        LogOp::Delete { key, .. } => {
            event.put_doc("documentKey", key.as_doc());
        }
        _ if expanded => describe_operation(&entry.op, event),
        _ => {}
    }
}

/// Writes what a change of the schema has changed. Only expanded events show it.
fn describe_operation(op: &LogOp, event: &mut DocBuilder<'_>) {
    match op {
        LogOp::Create { options, default } => {
            let mut description = event.doc("operationDescription");
            put_options(options, *default, &mut description);
            let mut index = description.doc("idIndex");
            put_id_index(&mut index);
            index.end();
            description.end();
            event.put_str("nsType", "collection");
        }
        LogOp::Rename { to, replaced } => {
            let mut description = event.doc("operationDescription");
            put_namespace("to", to, &mut description);
            if let Some(uuid) = replaced {
                description.put("dropTarget", Value::binary(4, uuid.as_bytes()).as_ref());
            }
            description.end();
        }
        LogOp::CreateIndexes { indexes } => put_indexes(indexes, event),
        LogOp::DropIndexes { index } => put_indexes(std::slice::from_ref(index), event),
        LogOp::Modify { change, before } => {
            event
                .put_doc("operationDescription", change.as_doc())
                .put_doc("stateBeforeChange", before.as_doc());
        }
        LogOp::Drop { .. }
        | LogOp::DropDatabase
        | LogOp::Insert { .. }
        | LogOp::Update { .. }
        | LogOp::Replace { .. }
        | LogOp::Delete { .. } => {}
    }
}

fn put_indexes(indexes: &[DocBuf], event: &mut DocBuilder<'_>) {
    let mut description = event.doc("operationDescription");
    let mut array = description.array("indexes");
    for index in indexes {
        array.push_doc(index.as_doc());
    }
    array.end();
    description.end();
}

fn put_namespace(field: &str, namespace: &Namespace, event: &mut DocBuilder<'_>) {
    let mut names = event.doc(field);
    names.put_str("db", namespace.database());
    if !namespace.collection().is_empty() {
        names.put_str("coll", namespace.collection());
    }
    names.end();
}
