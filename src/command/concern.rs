//! `readConcern` and `writeConcern`: checked as MongoDB does, then accepted. One node without disk satisfies them all.

use super::args::{fields, to_f64, to_i64};
use super::{Command, Flags};
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
/// The largest `w`: a replica set has at most that many members.
const MAX_MEMBERS: i64 = 50;

/// `None` where there is none.
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

pub fn check_read(command: &Command, topology: &Topology, value: ValueRef<'_>) -> Result<()> {
    let Some(concern) = concern(command, "readConcern", value)? else {
        return Ok(());
    };
    let mut level = None;
    let (mut after, mut at, mut null) = (false, false, false);
    for arg in fields("readConcern", concern) {
        match arg.name() {
            "level" => {
                level = arg.one_of(LEVELS)?;
            }
            "afterClusterTime" | "atClusterTime" => {
                if arg.value().ty() != Type::Timestamp {
                    return Err(arg.wrong_type(&[Type::Timestamp]));
                }
                let time = arg.value().as_timestamp();
                match arg.name() {
                    "atClusterTime" => (at, null) = (true, null || time.is_some_and(|t| t.0 == 0)),
                    _ => (after, null) = (true, null || time == Some((0, 0))),
                }
            }
            "afterOpTime" => {
                arg.doc()?;
            }
            "provenance" => drop(arg.one_of(PROVENANCES)?),
            "waitLastStableRecoveryTimestamp" | "allowTransactionTableSnapshot" => {
                arg.bool()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    if *topology == Topology::Standalone {
        if matches!(level, Some("linearizable" | "snapshot")) {
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
    if after && at {
        return Err(Error::new(
            Code::InvalidOptions,
            "Can not specify both afterClusterTime and atClusterTime",
        ));
    }
    if at && level != Some("snapshot") {
        return Err(Error::new(
            Code::InvalidOptions,
            "atClusterTime field can be set only if level is equal to snapshot",
        ));
    }
    if after && !matches!(level, None | Some("local" | "majority" | "snapshot")) {
        return Err(Error::new(
            Code::InvalidOptions,
            "afterClusterTime field can be set only if level is equal to majority, local, or snapshot",
        ));
    }
    if null {
        let name = if at {
            "atClusterTime"
        } else {
            "afterClusterTime"
        };
        return Err(Error::new(
            Code::InvalidOptions,
            format!("{name} cannot be a null timestamp"),
        ));
    }
    match level {
        None | Some("local") => Ok(()),
        Some("snapshot") if command.flags.has(Flags::SNAPSHOT) => Ok(()),
        Some(level) if level != "snapshot" && command.flags.has(Flags::READ_CONCERN) => Ok(()),
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

/// Whether the writes go unacknowledged (`w: 0`).
pub fn check_write(command: &Command, topology: &Topology, value: ValueRef<'_>) -> Result<bool> {
    let Some(concern) = concern(command, "writeConcern", value)? else {
        return Ok(false);
    };
    let mut unacknowledged = false;
    let mut journaled = false;
    let mut synced = false;
    for arg in fields("writeConcern", concern) {
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
    if !command.flags.has(Flags::WRITE_CONCERN) {
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
