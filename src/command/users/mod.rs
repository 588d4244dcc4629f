//! The commands that manage users and show roles.
//!
//! Each file parses its commands, checks that the sender may manage the users or roles that they name, and changes or lists
//! the users in `auth`. What a role allows, and how passwords are stored, is known only there.

mod create;
mod describe;
mod drop;
mod grant;
mod info;
mod roles;
#[cfg(test)]
mod tests;

pub(super) use create::{CREATE, UPDATE};
pub(super) use describe::{put_privileges, put_roles};
pub(super) use drop::{DROP, DROP_ALL};
pub(super) use grant::{GRANT, REVOKE};
pub(super) use info::INFO as USERS_INFO;
pub(super) use roles::{DROP_ALL as DROP_ALL_ROLES, INFO as ROLES_INFO, INVALIDATE};

use std::fmt::Display;

use super::Call;
use crate::args::Arg;
use crate::auth::{Action, AuthTarget, NoSuchRole, RoleName, UserName};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, Type, ValueRef};

/// Returns the user that the command's first field names, in the database that the command runs in.
fn named(call: &Call<'_>) -> Result<UserName> {
    let target = call.target();
    let name = target.as_str().ok_or_else(|| {
        Error::wrong_type(
            call.command.name,
            call.command.name,
            target.ty(),
            &[Type::String],
        )
    })?;
    if name.is_empty() || name.contains('\0') {
        return Err(Error::bad_value(
            "User document needs 'user' field to be non-empty",
        ));
    }
    Ok(UserName::new(name, call.database()))
}

/// Reads `roles: ["read", {role: "read", db: "shop"}]`. A plain name is a role of the command's own database.
fn roles(call: &Call<'_>) -> Result<Option<Vec<RoleName>>> {
    let Some(arg) = call.arg("roles") else {
        return Ok(None);
    };
    let Some(array) = arg.array()? else {
        return Ok(None);
    };
    array
        .iter()
        .map(|elem| role(elem.value, call.database()))
        .collect::<Result<_>>()
        .map(Some)
}

fn role(value: ValueRef<'_>, db: &str) -> Result<RoleName> {
    let invalid = || Error::bad_value("Role names must be either strings or objects");
    if let Some(name) = value.as_str() {
        return Ok(RoleName::new(name, db));
    }
    let doc = value.as_doc().ok_or_else(invalid)?;
    let (name, database) = name_and_database("RoleName", "role", doc, false)?;
    Ok(RoleName::new(name, database))
}

/// Reads the name of a user or a role in the form `{user: "ann", db: "shop"}`. As in MongoDB, only that of a user is strict.
fn name_and_database<'a>(
    kind: &str,
    field: &str,
    doc: Doc<'a>,
    is_strict: bool,
) -> Result<(&'a str, &'a str)> {
    let (mut name, mut database) = (None, None);
    for elem in doc {
        let slot = match elem.name() {
            given if given == field => &mut name,
            "db" => &mut database,
            other if is_strict => {
                return Err(Error::bad_value(format!(
                    "{kind} contains an unknown field named: '{other}"
                )));
            }
            _ => continue,
        };
        let given = elem.name();
        let text = elem.value.as_str().ok_or_else(|| {
            Error::bad_value(format!(
                "{kind} must contain a string field named: {given}. But, has type {}",
                elem.value.ty().alias()
            ))
        })?;
        if slot.replace(text).is_some() {
            return Err(Error::bad_value(format!(
                "{kind} has more than one field named: {given}"
            )));
        }
    }
    let missing =
        |field: &str| Error::bad_value(format!("{kind} must contain a field named: {field}"));
    Ok((
        name.ok_or_else(|| missing(field))?,
        database.ok_or_else(|| missing("db"))?,
    ))
}

/// Whether the sender may do this in the database of each role.
fn may_with_roles(call: &Call<'_>, roles: &[RoleName], action: Action) -> bool {
    roles
        .iter()
        .all(|role| call.may(AuthTarget::Database(&role.db), action))
}

fn no_such_role(problem: NoSuchRole) -> Error {
    Error::new(Code::RoleNotFound, problem.to_string())
}

/// A user is unknown. When a user is dropped, mongod puts the name in quotes.
fn no_such_user(name: impl Display) -> Error {
    Error::new(Code::UserNotFound, format!("User {name} not found"))
}

/// Refuses authentication restrictions. They would keep clients out, so ignoring them would let those clients in.
fn refuse_restrictions(arg: &Arg<'_>) -> Result<()> {
    match arg.array()? {
        Some(list) if !list.is_empty() => Err(Error::not_implemented("authenticationRestrictions")),
        _ => Ok(()),
    }
}
