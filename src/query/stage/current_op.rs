//! `$currentOp`: what runs now, one row each. The server knows that, not a collection; the command hands the list in.

use std::sync::Arc;

use super::coll_stats::Reports;
use super::{Place, Report, Stage, Target};
use crate::args::fields;
use crate::error::{Code, Error, Result};
use crate::value::{Type, ValueRef};

/// What is asked for besides the commands that run. `localOps` and `idleSessions` change nothing: there is one node, and no
/// session holds a lock.
#[derive(Debug, Clone, Copy, Default)]
pub struct CurrentOps {
    /// Not only what whoever asks does, where somebody has to log in.
    pub all_users: bool,
    pub idle_connections: bool,
    pub idle_cursors: bool,
    /// Long commands are shown as text that is cut.
    pub truncate: bool,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    place: &Place<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let spec = value.as_doc().ok_or_else(|| {
        Error::type_mismatch(format!(
            "$currentOp options must be specified in an object, but found: {}",
            value.ty().alias()
        ))
    })?;
    let mut wanted = CurrentOps::default();
    for option in fields("$currentOp", spec) {
        let flag = || option.exactly(Type::Bool, ValueRef::as_bool);
        match option.name() {
            "allUsers" => wanted.all_users = flag()?,
            "idleConnections" => wanted.idle_connections = flag()?,
            "idleCursors" => wanted.idle_cursors = flag()?,
            "truncateOps" => wanted.truncate = flag()?,
            "targetAllNodes" if flag()? => {
                return Err(Error::failed_to_parse(
                    "$currentOp supports targetAllNodes parameter only for sharded clusters",
                ));
            }
            "idleSessions" | "localOps" | "targetAllNodes" => {
                flag()?;
            }
            _ => return Err(option.unknown()),
        }
    }
    if place.db != "admin" {
        return Err(Error::new(
            Code::InvalidNamespace,
            "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        ));
    }
    push(Stage::StageOp(Arc::new(Reports {
        on: Target::new(place.db, ""),
        what: Report::CurrentOp(wanted),
    })));
    Ok(())
}
