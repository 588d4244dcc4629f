//! `writeConcern`: how many members must hold a write before it counts. Here there is one member, without a disk.
//!
//! As in MongoDB, the write happens although its concern cannot be met, and the reply has a `writeConcernError`. Only a
//! standalone server refuses such a command.

use super::concern::{PROVENANCES, concern};
use super::{Command, Flags};
use crate::args::{fields, to_i64};
use crate::config::Topology;
use crate::effort::Effort;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, Type, ValueRef};

/// The largest `w`: the most members that a replica set can have.
const MAX_MEMBERS: i64 = 50;
/// The shard that a router would name.
const SHARD: &str = "shard0000";

/// What the framework must know about a write concern.
#[derive(Default)]
pub struct WriteConcern {
    /// `w: 0`
    pub unacknowledged: bool,
    pub unmet: Option<Box<UnmetConcern>>,
}

/// A concern that one member cannot satisfy.
pub struct UnmetConcern {
    code: Code,
    message: String,
    /// The concern in mongod's form.
    concern: DocBuf,
    /// A router reports what its shard has reported.
    is_router: bool,
    /// Why a standalone server refuses the command.
    refusal: Option<String>,
}

/// The number of members, or what else a client can put in its place.
enum RequiredMembers<'a> {
    Count(i64),
    Mode(&'a str),
    Tags(Doc<'a>),
}

pub fn check(command: &Command, topology: &Topology, value: ValueRef<'_>) -> Result<WriteConcern> {
    let Some(doc) = concern(command, "writeConcern", value)? else {
        return Ok(WriteConcern::default());
    };
    let (mut members, mut journaled, mut synced) = (None, None, None);
    let (mut timeout, mut provenance) = (0, None);
    for arg in fields("WriteConcernOptions", doc) {
        match arg.name() {
            "w" => members = Some(RequiredMembers::parse(arg.value())?),
            "j" => journaled = arg.bool()?,
            "fsync" => synced = arg.bool()?,
            "wtimeout" => {
                timeout = to_i64(arg.value()).unwrap_or(0);
                if timeout > i64::from(i32::MAX) {
                    return Err(Error::failed_to_parse("wtimeout must be a 32-bit integer"));
                }
            }
            "provenance" => provenance = arg.one_of(PROVENANCES)?,
            "getLastError" | "wElectionId" | "wOpTime" => {}
            _ => return Err(arg.unknown()),
        }
    }
    if journaled == Some(true) && synced == Some(true) {
        return Err(Error::failed_to_parse(
            "fsync and j options cannot be used together",
        ));
    }
    if !command.facts.flags.has(Flags::WRITE_CONCERN) {
        return Err(Error::new(
            Code::InvalidOptions,
            "Command does not support writeConcern",
        ));
    }
    let Some(members) = members else {
        return Ok(WriteConcern::default());
    };
    if let RequiredMembers::Mode(mode) = members
        && mode.contains('\0')
    {
        return Err(Error::location(
            103_742,
            format!("illegal embedded NUL byte in write concern {mode}"),
        ));
    }
    let unmet = members.unmet().map(|(code, message)| {
        Box::new(UnmetConcern {
            code,
            message,
            concern: DocBuf::build(|doc| {
                members.put(doc);
                if let Some(journaled) = journaled.filter(|_| synced != Some(true)) {
                    doc.put_bool("j", journaled);
                }
                // mongod keeps 64 bits and shows 32.
                #[allow(clippy::cast_possible_truncation)]
                doc.put_i32("wtimeout", timeout as i32);
                if synced == Some(true) {
                    doc.put_bool("fsync", true);
                }
                doc.put_str("provenance", provenance.unwrap_or("clientSupplied"));
            }),
            is_router: *topology == Topology::Router,
            refusal: (*topology == Topology::Standalone).then(|| members.refusal()),
        })
    });
    Ok(WriteConcern {
        unacknowledged: matches!(members, RequiredMembers::Count(0)),
        unmet,
    })
}

// === impl RequiredMembers ===

impl<'a> RequiredMembers<'a> {
    fn parse(w: ValueRef<'a>) -> Result<Self> {
        let refuse = |why: String| Err(Error::failed_to_parse(why));
        match w.ty() {
            ty if ty.is_number() => {
                if w.as_num().is_some_and(|w| w.to_f64().is_nan()) {
                    return refuse("w cannot be NaN".to_owned());
                }
                let count = to_i64(w).unwrap_or(0);
                if !(0..=MAX_MEMBERS).contains(&count) {
                    return refuse(format!(
                        "w has to be a non-negative number and not greater than {MAX_MEMBERS}; found: {count}"
                    ));
                }
                Ok(Self::Count(count))
            }
            Type::String => Ok(Self::Mode(w.as_str().unwrap_or_default())),
            Type::Null | Type::Undefined => Ok(Self::Mode("")),
            Type::Document => {
                let tags = w.as_doc().unwrap_or(Doc::EMPTY);
                if tags.is_empty() {
                    return refuse("tagged write concern requires tags".to_owned());
                }
                match tags.iter().find(|tag| !tag.value.ty().is_number()) {
                    Some(tag) => refuse(format!(
                        "tags must be a single level document with only number values; found: {}: {}",
                        tag.name(),
                        tag.value
                    )),
                    None => Ok(Self::Tags(tags)),
                }
            }
            ty => refuse(format!(
                "w has to be a number, string, or object; found: {}",
                ty.alias()
            )),
        }
    }

    /// Returns why a standalone server refuses these members.
    fn refusal(&self) -> String {
        match self {
            Self::Count(_) => "cannot use 'w' > 1 when a host is not replicated".to_owned(),
            Self::Mode(mode) => format!(
                "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica set"
            ),
            // mongod fails here without a code of its own.
            Self::Tags(_) => {
                "cannot use non-majority 'w' mode when a host is not a member of a replica set"
                    .to_owned()
            }
        }
    }

    /// Returns why one member without tags is not enough, if so.
    fn unmet(&self) -> Option<(Code, String)> {
        match self {
            Self::Count(0 | 1) | Self::Mode("majority") => None,
            Self::Count(_) => Some((
                Code::UnsatisfiableWriteConcern,
                "Not enough data-bearing nodes".to_owned(),
            )),
            Self::Mode(mode) => Some((
                Code::UnknownReplWriteConcern,
                format!("No write concern mode named '{mode}' found in replica set configuration"),
            )),
            Self::Tags(tags) => Some((
                Code::NoSuchKey,
                format!(
                    "No replica set tag key {} in config",
                    tags.iter().next().map_or("", |tag| tag.name())
                ),
            )),
        }
    }

    fn put(&self, doc: &mut DocBuilder<'_>) {
        match self {
            Self::Count(count) => doc.put_i32("w", i32::try_from(*count).unwrap_or(i32::MAX)),
            Self::Mode(mode) => doc.put_str("w", mode),
            Self::Tags(tags) => doc.put_doc("w", *tags),
        };
    }
}

// === impl UnmetConcern ===

impl UnmetConcern {
    /// Refuses the command on a standalone server.
    pub fn check_standalone(&self) -> Result<()> {
        match &self.refusal {
            Some(why) => Err(Error::bad_value(why.as_str())),
            None => Ok(()),
        }
    }

    /// Whether a command that did this work must tell. An aggregate waits for its concern only if it has written, and an abort
    /// writes nothing.
    pub fn concerns(&self, command: &Command, request: Doc<'_>, effort: Effort) -> bool {
        let wrote = effort.inserted + effort.changed + effort.removed > 0;
        let database = request.get("$db").as_str();
        // Nothing in `local` is replicated.
        database != Some("local")
            && command.name != "abortTransaction"
            && (command.name != "aggregate" || wrote || ends_with_out(request))
    }

    /// Writes `writeConcernError`.
    pub fn put(&self, command: &Command, reply: &mut DocBuilder<'_>) {
        let name = self.code.name();
        let mut error = reply.doc("writeConcernError");
        error
            .put_i32("code", self.code.number())
            .put_str("codeName", &name);
        // A router joins the errors of a statement's shards and drops their details.
        if self.is_router && command.facts.flags.has(Flags::STATEMENTS) {
            let details = DocBuf::build(|doc| {
                doc.put_doc("writeConcern", self.concern.as_doc());
            });
            let message = format!(
                "{name}: {}; Error details: {} at {SHARD}",
                self.message,
                ValueRef::document(details.as_doc())
            );
            error.put_str("errmsg", &message).doc("errInfo").end();
        } else {
            let message = match self.is_router {
                true => format!("{} at {SHARD}", self.message),
                false => self.message.clone(),
            };
            error.put_str("errmsg", &message);
            let mut info = error.doc("errInfo");
            info.put_doc("writeConcern", self.concern.as_doc());
            info.end();
        }
        error.end();
    }
}

fn ends_with_out(aggregate: Doc<'_>) -> bool {
    let stages = aggregate.get("pipeline").as_array();
    let last = stages.and_then(|stages| stages.iter().last());
    last.and_then(|stage| stage.value.as_doc())
        .is_some_and(|stage| stage.iter().any(|elem| elem.name_bytes() == b"$out"))
}
