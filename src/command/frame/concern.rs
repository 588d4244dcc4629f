//! `readConcern`: checked as in MongoDB, then accepted. A single node satisfies all levels but `snapshot`, which is not
//! built. [`write_concern`](super::write_concern) is the other one.

use super::{Command, Flags};
use crate::args::fields;
use crate::config::Topology;
use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, ValueRef};

const LEVELS: &[&str] = &["available", "linearizable", "local", "majority", "snapshot"];
pub(super) const PROVENANCES: &[&str] = &[
    "clientSupplied",
    "customDefault",
    "getLastErrorDefaults",
    "implicitDefault",
    "internalWriteDefault",
];
/// Returns the concern as a document, or `None` if the client gave none.
pub(super) fn concern<'a>(
    command: &Command,
    field: &str,
    value: ValueRef<'a>,
) -> Result<Option<Doc<'a>>> {
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
    let flags = command.facts.flags;
    let why = match concern.level {
        None | Some("local") => return Ok(()),
        // It would read what is there now.
        Some("snapshot") if flags.has(Flags::SNAPSHOT) => {
            return Err(Error::not_implemented("readConcern level snapshot"));
        }
        Some("snapshot") if flags.has(Flags::READ_CONCERN) => "read concern snapshot not supported",
        Some(_) if flags.has(Flags::READ_CONCERN) => return Ok(()),
        Some(_) => "read concern not supported",
    };
    Err(Error::new(
        Code::InvalidOptions,
        format!(
            "Command {} does not support {{ readConcern: {{ level: \"{}\", provenance: \"clientSupplied\" }} }} \
             :: caused by :: {why}",
            command.name,
            concern.level.unwrap_or_default()
        ),
    ))
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
