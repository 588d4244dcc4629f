//! `$currentOp`: one row for each running operation. The server knows them, and the command passes the list in.

use std::sync::Arc;

use super::coll_stats::ReportStage;
use super::{CollectionName, Report, Stage, StageContext};
use crate::args::fields;
use crate::error::{Code, Error, Result};
use crate::value::{Type, ValueRef};

/// The options of the stage. `localOps` has no effect: there is only one node.
#[derive(Debug, Clone, Copy)]
pub struct CurrentOps {
    /// Lists the operations of all users, not only those of the caller. It matters only if the server requires a login.
    pub all_users: bool,
    pub idle_connections: bool,
    pub idle_cursors: bool,
    /// Lists the transactions between two commands.
    pub idle_sessions: bool,
    /// Shows long commands as truncated text.
    pub truncate: bool,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let spec = value.as_doc().ok_or_else(|| {
        Error::type_mismatch(format!(
            "$currentOp options must be specified in an object, but found: {}",
            value.ty().alias()
        ))
    })?;
    let mut wanted = CurrentOps {
        all_users: false,
        idle_connections: false,
        idle_cursors: false,
        idle_sessions: true,
        truncate: false,
    };
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
            "idleSessions" => wanted.idle_sessions = flag()?,
            "localOps" | "targetAllNodes" => {
                flag()?;
            }
            _ => return Err(option.unknown()),
        }
    }
    if context.db != "admin" || context.coll.is_some() {
        return Err(Error::new(
            Code::InvalidNamespace,
            "$currentOp must be run against the 'admin' database with {aggregate: 1}",
        ));
    }
    push(Stage::StageOp(Arc::new(ReportStage {
        on: CollectionName::new(context.db, ""),
        what: Report::CurrentOp(wanted),
    })));
    Ok(())
}
