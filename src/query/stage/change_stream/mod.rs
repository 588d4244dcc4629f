//! `$changeStream`: follows the changes of a collection, a database or the whole server.
//!
//! The stage is parsed here. The engine finds the changes and makes events of them, and the command feeds each event to
//! the stages that follow.

mod split;
mod token;

use std::sync::Arc;

use super::{Rows, Stage, StageContext, StageOp};
use crate::args::{Arg, fields, object};
use crate::error::{Code, Error, Result};
use crate::names::{is_internal, is_system};
use crate::query::Survey;
use crate::value::{ClusterTime, Type, ValueRef};

pub(super) use split::parse as parse_split;
use token::EncodedToken;
pub use token::{EventPlace, ResumeToken};

/// What a client wants to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeStream {
    pub scope: StreamScope,
    pub start: StreamStart,
    pub full_document: FullDocument,
    pub before_change: BeforeChange,
    /// Also events that MongoDB 6.0 added, and more fields.
    pub expanded: bool,
    /// `updateLookup` shows only documents of the collection that was changed, and not of another one that has its name now.
    pub same_collection: bool,
}

/// Whose changes a stream follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamScope {
    Collection { db: String, coll: String },
    Database(String),
    Cluster,
}

/// Where a stream begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamStart {
    Now,
    At(ClusterTime),
    After(ResumeToken),
}

/// How an update shows the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullDocument {
    Default,
    /// As it is when the event is read.
    UpdateLookup,
    /// As it was after the update, if that was kept.
    WhenAvailable,
    Required,
}

/// Whether a change shows the document from before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BeforeChange {
    Off,
    WhenAvailable,
    Required,
}

/// What a client writes, before it is checked.
#[derive(Default)]
struct StreamOptions<'a> {
    all_changes: bool,
    expanded: bool,
    same_collection: bool,
    resume_after: Option<EncodedToken<'a>>,
    start_after: Option<EncodedToken<'a>>,
    start_at: Option<ClusterTime>,
}

const FULL_DOCUMENT: &[(&str, FullDocument)] = &[
    ("default", FullDocument::Default),
    ("updateLookup", FullDocument::UpdateLookup),
    ("whenAvailable", FullDocument::WhenAvailable),
    ("required", FullDocument::Required),
];

const BEFORE_CHANGE: &[(&str, BeforeChange)] = &[
    ("off", BeforeChange::Off),
    ("whenAvailable", BeforeChange::WhenAvailable),
    ("required", BeforeChange::Required),
];

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let words = "$changeStream must take a nested object but found: {}";
    let mut options = StreamOptions::default();
    let mut full_document = FullDocument::Default;
    let mut before_change = BeforeChange::Off;
    for option in fields("$changeStream", object(value, 6188500, words)?) {
        match option.name() {
            "resumeAfter" => options.resume_after = resume_token(&option)?,
            "startAfter" => options.start_after = resume_token(&option)?,
            "startAtOperationTime" => {
                if !option.is_null() {
                    options.start_at = Some(option.exactly(Type::Timestamp, token::cluster_time)?);
                }
            }
            "fullDocument" => {
                full_document = one_of(&option, FULL_DOCUMENT)?.unwrap_or(full_document);
            }
            "fullDocumentBeforeChange" => {
                before_change = one_of(&option, BEFORE_CHANGE)?.unwrap_or(before_change);
            }
            "allChangesForCluster" => {
                options.all_changes = option.exactly(Type::Bool, ValueRef::as_bool)?;
            }
            "showExpandedEvents" => {
                options.expanded = option.exactly(Type::Bool, ValueRef::as_bool)?;
            }
            "matchCollectionUUIDForUpdateLookup" => {
                options.same_collection = option.exactly(Type::Bool, ValueRef::as_bool)?;
            }
            "showMigrationEvents"
            | "showSystemEvents"
            | "showRawUpdateDescription"
            | "allowToRunOnConfigDB"
            | "allowToRunOnSystemNS" => {
                if option.exactly(Type::Bool, ValueRef::as_bool)? {
                    return Err(option.not_implemented());
                }
            }
            "supportedEvents" | "version" => {
                if !option.is_null() {
                    return Err(option.not_implemented());
                }
            }
            _ => return Err(option.unknown()),
        }
    }
    let scope = scope(options.all_changes, context)?;
    push(Stage::StageOp(Arc::new(ChangeStream {
        start: options.start(&scope)?,
        scope,
        full_document,
        before_change,
        expanded: options.expanded,
        same_collection: options.same_collection,
    })));
    Ok(())
}

/// Returns whether the stage is in the stable API: without the options that are not.
pub(super) fn is_stable(spec: ValueRef<'_>) -> bool {
    let mut options = spec.as_doc().into_iter().flatten();
    options.all(|option| option.name() != "showExpandedEvents")
}

fn resume_token<'a>(option: &Arg<'a>) -> Result<Option<EncodedToken<'a>>> {
    option.doc()?.map(EncodedToken::read).transpose()
}

/// Reads one of the values of an enumeration.
fn one_of<T: Copy>(option: &Arg<'_>, known: &[(&str, T)]) -> Result<Option<T>> {
    let Some(text) = option.str()? else {
        return Ok(None);
    };
    let found = known.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, value)| Some(*value))
        .ok_or_else(|| option.not_a_value(text))
}

/// Returns what the stream follows. Databases and collections of the server itself cannot be followed.
fn scope(all_changes: bool, context: &StageContext<'_>) -> Result<StreamScope> {
    let (db, coll) = (context.db, context.coll);
    if all_changes && (db != "admin" || coll.is_some()) {
        return Err(Error::new(
            Code::InvalidOptions,
            format!(
                "A $changeStream with 'allChangesForCluster:true' may only be opened on the 'admin' database, and with \
                 no collection name; found {db}.{}",
                coll.unwrap_or("$cmd.aggregate")
            ),
        ));
    }
    if is_internal(db) && !all_changes {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("$changeStream may not be opened on the internal {db} database"),
        ));
    }
    match coll {
        Some(coll) if is_system(coll) => Err(Error::new(
            Code::InvalidNamespace,
            format!("$changeStream may not be opened on the internal {db}.{coll} collection"),
        )),
        Some(coll) => Ok(StreamScope::Collection {
            db: db.to_owned(),
            coll: coll.to_owned(),
        }),
        None if all_changes => Ok(StreamScope::Cluster),
        None => Ok(StreamScope::Database(db.to_owned())),
    }
}

// === impl StreamOptions ===

impl StreamOptions<'_> {
    fn start(&self, scope: &StreamScope) -> Result<StreamStart> {
        if self.resume_after.is_some() && self.start_after.is_some() {
            return Err(Error::location(
                50865,
                "Do not specify both 'resumeAfter' and 'startAfter' in a $changeStream stage",
            ));
        }
        let decode = |token: Option<EncodedToken<'_>>| token.map(EncodedToken::decode).transpose();
        let resume_after = decode(self.resume_after)?;
        let token = resume_after.or(decode(self.start_after)?);
        if token.is_some() && self.start_at.is_some() {
            return Err(Error::location(
                40674,
                "Only one type of resume option is allowed, but multiple were found",
            ));
        }
        let invalid = |why: &str| Err(Error::new(Code::InvalidResumeToken, why));
        let event = |token: Option<ResumeToken>| token.and_then(|token| token.event);
        if event(resume_after).is_some_and(|event| event.is_invalidate) {
            return invalid(
                "Attempting to resume a change stream using 'resumeAfter' is not allowed from an invalidate notification",
            );
        }
        let single = matches!(scope, StreamScope::Collection { .. });
        if single && event(token).is_some_and(|event| event.uuid.is_none()) {
            return invalid(
                "Attempted to resume a single-collection stream, but the resume token does not include a UUID",
            );
        }
        Ok(match (token, self.start_at) {
            (Some(token), _) => StreamStart::After(token),
            (None, Some(time)) => StreamStart::At(time),
            (None, None) => StreamStart::Now,
        })
    }
}

// === impl StageOp ===

impl StageOp for ChangeStream {
    /// Passes the events on. The command puts them in.
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        input
    }

    fn change_stream(&self) -> Option<&ChangeStream> {
        Some(self)
    }

    fn survey(&self, _: &mut Survey<'_>) {}
}
