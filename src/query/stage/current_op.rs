//! `$currentOp`: what runs now, one row each. The server knows that, not a collection; the command hands the list in.

use std::sync::Arc;

use super::coll_stats::Reports;
use super::{Place, Report, Stage, Target};
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
    for elem in spec {
        let name = elem.name();
        let target = match name {
            "allUsers" => Some(&mut wanted.all_users),
            "idleConnections" => Some(&mut wanted.idle_connections),
            "idleCursors" => Some(&mut wanted.idle_cursors),
            "truncateOps" => Some(&mut wanted.truncate),
            "idleSessions" | "localOps" | "targetAllNodes" => None,
            _ => return Err(Error::unknown_field("$currentOp", name)),
        };
        let flag = elem
            .value
            .as_bool()
            .ok_or_else(|| Error::wrong_type("$currentOp", name, elem.value.ty(), &[Type::Bool]))?;
        if name == "targetAllNodes" && flag {
            return Err(Error::failed_to_parse(
                "$currentOp supports targetAllNodes parameter only for sharded clusters",
            ));
        }
        if let Some(target) = target {
            *target = flag;
        }
    }
    if place.db != "admin" {
        return Err(Error::new(
            Code::InvalidNamespace,
            "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        ));
    }
    push(Stage::Op(Arc::new(Reports {
        on: Target::new(place.db, ""),
        what: Report::CurrentOp(wanted),
    })));
    Ok(())
}
