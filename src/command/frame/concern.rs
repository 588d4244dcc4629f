//! `readConcern` and `writeConcern`: checked as in MongoDB, then accepted. A single node without a disk satisfies all of
//! them.

use super::{Command, Flags};
use crate::args::{fields, to_f64, to_i64};
use crate::config::Topology;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, ValueRef};

const LEVELS: &[&str] = &["available", "linearizable", "local", "majority", "snapshot"];
const PROVENANCES: &[&str] = &[
    "clientSupplied",
    "customDefault",
    "getLastErrorDefaults",
    "implicitDefault",
    "internalWriteDefault",
];
/// The largest `w`: the most members that a replica set can have.
const MAX_MEMBERS: i64 = 50;

/// Returns the concern as a document, or `None` if the client gave none.
fn concern<'a>(command: &Command, field: &str, value: ValueRef<'a>) -> Result<Option<Doc<'a>>> {
    match value.as_doc() {
        None if !value.is_nullish() => Err(Error::wrong_type(
            command.name,
            field,
            value.ty(),
            &[Type::Document],
        )),
        concern => Ok(concern),
    }
}

/// The parts of a read concern that can be wrong.
#[derive(Default)]
struct ReadConcern<'a> {
    level: Option<&'a str>,
    after_cluster_time: bool,
    at_cluster_time: bool,
    /// A cluster time was given, and it is null.
    null_time: bool,
}

pub fn check_read(command: &Command, topology: &Topology, value: ValueRef<'_>) -> Result<()> {
    let Some(concern) = concern(command, "readConcern", value)? else {
        return Ok(());
    };
    let concern = ReadConcern::read(concern)?;
    concern.check(topology)?;
    match concern.level {
        None | Some("local") => Ok(()),
        Some("snapshot") if command.facts.flags.has(Flags::SNAPSHOT) => Ok(()),
        Some(level) if level != "snapshot" && command.facts.flags.has(Flags::READ_CONCERN) => {
            Ok(())
        }
        Some(level) => Err(Error::new(
            Code::InvalidOptions,
            format!(
                "Command {} does not support {{ readConcern: {{ level: \"{level}\", provenance: \"clientSupplied\" }} }} \
                 :: caused by :: read concern not supported",
                command.name
            ),
        )),
    }
}

// === impl ReadConcern ===

impl<'a> ReadConcern<'a> {
    fn read(concern: Doc<'a>) -> Result<Self> {
        let mut read = Self::default();
        for arg in fields("readConcern", concern) {
            match arg.name() {
                "level" => read.level = arg.one_of(LEVELS)?,
                name @ ("afterClusterTime" | "atClusterTime") => {
                    let Some(time) = arg.value().as_timestamp() else {
                        return Err(arg.wrong_type(&[Type::Timestamp]));
                    };
                    if name == "atClusterTime" {
                        read.at_cluster_time = true;
                        read.null_time |= time.0 == 0;
                    } else {
                        read.after_cluster_time = true;
                        read.null_time |= time == (0, 0);
                    }
                }
                "afterOpTime" => drop(arg.doc()?),
                "provenance" => drop(arg.one_of(PROVENANCES)?),
                "waitLastStableRecoveryTimestamp" | "allowTransactionTableSnapshot" => {
                    arg.bool()?;
                }
                _ => return Err(arg.unknown()),
            }
        }
        Ok(read)
    }

    /// Checks that the parts fit together. This does not depend on the command.
    fn check(&self, topology: &Topology) -> Result<()> {
        let (after, at) = (self.after_cluster_time, self.at_cluster_time);
        if *topology == Topology::Standalone {
            if matches!(self.level, Some("linearizable" | "snapshot")) {
                return Err(Error::new(
                    Code::NotAReplicaSet,
                    "node needs to be a replica set member to use read concern",
                ));
            }
            if after || at {
                return Err(Error::new(
                    Code::IllegalOperation,
                    "Cannot specify afterClusterTime readConcern without replication enabled",
                ));
            }
        }
        let invalid = |why: &str| Err(Error::new(Code::InvalidOptions, why));
        match self.level {
            _ if after && at => invalid(
                "Specifying a timestamp for readConcern snapshot in a causally consistent session is not allowed. See \
                 https://docs.mongodb.com/manual/core/read-isolation-consistency-recency/#causal-consistency",
            ),
            level if at && level != Some("snapshot") => {
                invalid("atClusterTime field can be set only if level is equal to snapshot")
            }
            Some("available" | "linearizable") if after => invalid(
                "afterClusterTime field can be set only if level is equal to majority, local, or snapshot",
            ),
            _ if self.null_time && at => invalid("atClusterTime cannot be a null timestamp"),
            _ if self.null_time => invalid("afterClusterTime cannot be a null timestamp"),
            _ => Ok(()),
        }
    }
}

/// Checks a write concern. Returns whether the write is unacknowledged (`w: 0`).
pub fn check_write(command: &Command, topology: &Topology, value: ValueRef<'_>) -> Result<bool> {
    let Some(concern) = concern(command, "writeConcern", value)? else {
        return Ok(false);
    };
    let mut unacknowledged = false;
    let mut journaled = false;
    let mut synced = false;
    for arg in fields("WriteConcernOptions", concern) {
        match arg.name() {
            "w" => unacknowledged = check_w(arg.value(), topology)?,
            "j" => journaled = arg.bool()?.unwrap_or(false),
            "fsync" => synced = arg.bool()?.unwrap_or(false),
            "wtimeout" => {
                if to_f64(arg.value()).is_some_and(|n| n > f64::from(i32::MAX)) {
                    return Err(Error::failed_to_parse("wtimeout must be a 32-bit integer"));
                }
            }
            "provenance" => drop(arg.one_of(PROVENANCES)?),
            "getLastError" | "wElectionId" | "wOpTime" => {}
            _ => return Err(arg.unknown()),
        }
    }
    if journaled && synced {
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
    Ok(unacknowledged)
}

fn check_w(w: ValueRef<'_>, topology: &Topology) -> Result<bool> {
    let standalone = *topology == Topology::Standalone;
    match w.ty() {
        ty if ty.is_number() => {
            let finite = to_f64(w).is_some_and(f64::is_finite);
            let n = to_i64(w).unwrap_or(-1);
            if !finite || !(0..=MAX_MEMBERS).contains(&n) {
                return Err(Error::failed_to_parse(format!(
                    "w has to be a non-negative number and not greater than {MAX_MEMBERS}; found: {w}"
                )));
            }
            if standalone && n > 1 {
                return Err(Error::bad_value(
                    "cannot use 'w' > 1 when a host is not replicated",
                ));
            }
            Ok(n == 0)
        }
        Type::String | Type::Null => {
            let mode = w.as_str().unwrap_or_default();
            if standalone && mode != "majority" {
                return Err(Error::bad_value(format!(
                    "cannot use non-majority 'w' mode {mode} when a host is not a member of a replica set"
                )));
            }
            Ok(false)
        }
        Type::Document => {
            let tags = w.as_doc().unwrap_or(crate::value::Doc::EMPTY);
            if tags.is_empty() {
                return Err(Error::failed_to_parse("tagged write concern requires tags"));
            }
            match tags.iter().find(|tag| !tag.value.ty().is_number()) {
                Some(tag) => Err(Error::failed_to_parse(format!(
                    "tags must be a single level document with only number values; found: {}",
                    tag.value.ty().alias()
                ))),
                None => Ok(false),
            }
        }
        ty => Err(Error::failed_to_parse(format!(
            "w has to be a number, string, or object; found: {}",
            ty.alias()
        ))),
    }
}
