//! `$listLocalSessions` and `$listSessions`: one row for each session that the server knows. The command passes the list in.
//! A genuine server writes its sessions into a collection every few minutes, and `$listSessions` reads that one; this server
//! needs no such collection.

use std::sync::Arc;

use super::coll_stats::ReportStage;
use super::{CollectionName, Report, Stage, StageContext};
use crate::args::{fields, required};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, ValueRef};

/// The options of the stage: whose sessions it lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListSessions {
    Everybody,
    /// Those of the caller.
    Own,
    /// Those of these users, each `(name, database)`.
    Of(Vec<(String, String)>),
}

pub(super) fn parse_local(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let stage = "$listLocalSessions";
    if context.coll.is_some() {
        let what = "must be run against the database with {aggregate: 1}, not a collection";
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("{stage} {what}"),
        ));
    }
    parse(stage, value, context, push)
}

pub(super) fn parse_all(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    parse("$listSessions", value, context, push)
}

fn parse(
    stage: &str,
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let wanted = ListSessions::parse(stage, value)?;
    push(Stage::StageOp(Arc::new(ReportStage {
        on: CollectionName::new(context.db, ""),
        what: Report::Sessions(wanted),
    })));
    Ok(())
}

// === impl ListSessions ===

impl ListSessions {
    /// Parses the argument of the stage with this name.
    pub fn parse(stage: &str, value: ValueRef<'_>) -> Result<Self> {
        let spec = value.as_doc().ok_or_else(|| {
            Error::type_mismatch(format!(
                "{stage} options must be specified in an object, but found: {}",
                value.ty().alias()
            ))
        })?;
        let (mut everybody, mut users) = (false, Vec::new());
        for option in fields(stage, spec) {
            match option.name() {
                "allUsers" if option.is_null() => {}
                "allUsers" => everybody = option.exactly(Type::Bool, ValueRef::as_bool)?,
                "users" => {
                    let docs = option.docs()?.unwrap_or_default();
                    let path = format!("{stage}.users");
                    let parsed = docs.into_iter().map(|user| parse_user(&path, user));
                    users = parsed.collect::<Result<_>>()?;
                }
                _ => return Err(option.unknown()),
            }
        }
        match (everybody, users.is_empty()) {
            (true, false) => Err(Error::new(
                Code::UnsupportedFormat,
                format!(
                    "{stage} may not specify {{allUsers:true}} and {{users:[...]}} at the same time"
                ),
            )),
            (true, true) => Ok(Self::Everybody),
            (false, true) => Ok(Self::Own),
            (false, false) => Ok(Self::Of(users)),
        }
    }
}

/// Parses `{user, db}`.
fn parse_user(path: &str, spec: Doc<'_>) -> Result<(String, String)> {
    let (mut user, mut db) = (None, None);
    for field in fields(path, spec) {
        match field.name() {
            "user" => user = field.str()?,
            "db" => db = field.str()?,
            _ => return Err(field.unknown()),
        }
    }
    let user = required(user, path, "user")?;
    let db = required(db, path, "db")?;
    Ok((user.to_owned(), db.to_owned()))
}
