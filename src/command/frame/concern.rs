//! `readConcern`: checked as in MongoDB. A single node satisfies all levels at once; only `snapshot` changes what a command
//! reads. [`write_concern`](super::write_concern) is the other one.

use std::sync::Arc;

use super::{Command, Flags};
use crate::args::fields;
use crate::config::Topology;
use crate::engine::{Catalog, Snapshot};
use crate::error::{Code, Error, Result};
use crate::session::too_old;
use crate::value::{ClusterTime, Doc, Type, ValueRef};

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

/// What a client asks of its reads.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::command) struct ReadConcern<'a> {
    pub level: Option<&'a str>,
    /// The earliest logical time that the command may read.
    pub after: Option<ClusterTime>,
    /// The logical time that a snapshot shows.
    pub at: Option<ClusterTime>,
    /// A time of the replication log was given. All of the log can be read at once.
    after_op: bool,
    /// A cluster time was given, and it is null.
    null_time: bool,
}

/// Reads the read concern. Which levels a command takes does not matter in a transaction, which has its own rules.
pub(super) fn read<'a>(
    command: &Command,
    topology: &Topology,
    value: ValueRef<'a>,
    in_transaction: bool,
) -> Result<Option<Box<ReadConcern<'a>>>> {
    let Some(concern) = concern(command, "readConcern", value)? else {
        return Ok(None);
    };
    let concern = Box::new(ReadConcern::read(concern)?);
    concern.check(topology)?;
    let flags = command.facts.flags;
    let why = match concern.level {
        _ if in_transaction => return Ok(Some(concern)),
        None | Some("local") => return Ok(Some(concern)),
        Some("snapshot") if flags.has(Flags::SNAPSHOT) => return Ok(Some(concern)),
        Some("snapshot") if flags.has(Flags::READ_CONCERN) => "read concern snapshot not supported",
        Some(_) if flags.has(Flags::READ_CONCERN) => return Ok(Some(concern)),
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
                    let moment = ClusterTime::from_parts(time.0, time.1);
                    if name == "atClusterTime" {
                        read.at = Some(moment);
                        read.null_time |= time.0 == 0;
                    } else {
                        read.after = Some(moment);
                        read.null_time |= time == (0, 0);
                    }
                }
                "afterOpTime" => read.after_op = arg.doc()?.is_some(),
                "provenance" => drop(arg.one_of(PROVENANCES)?),
                "waitLastStableRecoveryTimestamp" | "allowTransactionTableSnapshot" => {
                    arg.bool()?;
                }
                _ => return Err(arg.unknown()),
            }
        }
        Ok(read)
    }

    /// Returns whether the client asks for nothing. An empty read concern is like none.
    pub fn is_empty(&self) -> bool {
        self.level.is_none() && self.after.is_none() && self.at.is_none() && !self.after_op
    }

    /// Returns the level as a name that outlives the command.
    pub fn known_level(&self) -> Option<&'static str> {
        let level = self.level?;
        LEVELS.iter().find(|known| **known == level).copied()
    }

    /// Checks that the times are not in the future. Everything up to the latest time can be read at once.
    pub fn check_times(&self, latest: ClusterTime) -> Result<()> {
        let times = [("afterClusterTime", self.after), ("atClusterTime", self.at)];
        for (name, time) in times {
            let Some(time) = time.filter(|time| *time > latest) else {
                continue;
            };
            let ((seconds, n), (latest, latest_n)) = (time.parts(), latest.parts());
            return Err(Error::new(
                Code::InvalidOptions,
                format!(
                    "readConcern {name} value must not be greater than the current clusterTime. Requested clusterTime: \
                     {{ ts: Timestamp({seconds}, {n}) }}; current clusterTime: {{ ts: Timestamp({latest}, {latest_n}) }}"
                ),
            ));
        }
        Ok(())
    }

    /// Opens the snapshot that a command outside a transaction asks for.
    pub fn open_snapshot(&self, catalog: &Catalog) -> Result<Option<Arc<Snapshot>>> {
        if self.level != Some("snapshot") {
            return Ok(None);
        }
        let snapshot = match self.at {
            None => Some(catalog.snapshot()),
            Some(time) => catalog.snapshot_at(time),
        };
        match (snapshot, self.at) {
            (Some(snapshot), _) => Ok(Some(Arc::new(snapshot))),
            (None, time) => Err(too_old(time.unwrap_or_default())),
        }
    }

    /// Checks that the parts fit together. This does not depend on the command.
    fn check(&self, topology: &Topology) -> Result<()> {
        let (after, at) = (self.after.is_some(), self.at.is_some());
        if *topology == Topology::Standalone {
            if self.after_op || matches!(self.level, Some("linearizable" | "snapshot")) {
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
            _ if after && self.after_op => {
                invalid("Can not specify both afterClusterTime and afterOpTime")
            }
            Some("snapshot") if self.after_op => {
                invalid("afterOpTime field cannot be set if level is equal to snapshot")
            }
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
