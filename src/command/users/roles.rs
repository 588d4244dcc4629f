//! `rolesInfo`: lists roles. All roles are built in, so there are none to drop and nothing is cached.

use super::{put_privileges, role};
use crate::auth::{Action, AuthTarget, Privileges, ROLES, Role, RoleName};
use crate::command::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::{Error, Result};
use crate::value::{ArrayBuilder, DocBuilder, Type};

pub(in crate::command) const INFO: Command =
    Command::ready("rolesInfo", Access::Read, "Lists roles.", run)
        .with(Flags::SECONDARY)
        .needs(Needs::Asked(may));

pub(in crate::command) const DROP_ALL: Command = Command::ready(
    "dropAllRolesFromDatabase",
    Access::Admin,
    "Drops the custom roles of a database (there are none).",
    |call, reply| {
        call.only(&[])?;
        reply.put_i32("n", 0);
        Ok(Outcome::Reply)
    },
)
.with(Flags::WRITE_CONCERN)
.needs(Needs::Database(Action::DropRole));

pub(in crate::command) const INVALIDATE: Command = Command::ready(
    "invalidateUserCache",
    Access::Admin,
    "Clears the user cache (there is none).",
    |call, _| {
        call.only(&[])?;
        Ok(Outcome::Reply)
    },
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::InvalidateUserCache));

/// Returns the roles that the command names, or `None` if it asks for all roles of the database.
fn wanted(call: &Call<'_>) -> Result<Option<Vec<RoleName>>> {
    let target = call.target();
    if let Some(list) = target.as_array() {
        let roles = list.iter().map(|elem| role(elem.value, call.database()));
        return roles.collect::<Result<_>>().map(Some);
    }
    match target.as_num() {
        Some(number) if number.to_i64_saturating() == 1 => Ok(None),
        _ => Ok(Some(vec![role(target, call.database())?])),
    }
}

/// Whether the sender may see these roles. Every user may see their own roles.
fn may(call: &Call<'_>) -> Result<bool> {
    let sees = |db: &str| call.may(AuthTarget::Database(db), Action::ViewRole);
    Ok(match wanted(call)? {
        None => sees(call.database()),
        Some(roles) => roles.iter().all(|role| {
            sees(&role.db) || call.user().is_some_and(|own| own.roles().contains(role))
        }),
    })
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let (mut privileges, mut built_in) = (false, false);
    for arg in call.args().skip(1) {
        match arg.name() {
            "showBuiltinRoles" => built_in = arg.bool()?.unwrap_or(false),
            "showPrivileges" if arg.value().ty() == Type::String => {
                return Err(Error::not_implemented(
                    "rolesInfo.showPrivileges as a string",
                ));
            }
            "showPrivileges" => privileges = arg.bool()?.unwrap_or(false),
            "showAuthenticationRestrictions" => {
                arg.bool()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    let mut list = reply.array("roles");
    match wanted(call)? {
        Some(names) => {
            for name in names {
                if let Some(role) = Role::find(&name) {
                    put(role, &name.db, privileges, &mut list);
                }
            }
        }
        // Lists only user-defined roles (there are none), unless the client also asks for the built-in ones.
        None if built_in => {
            for role in ROLES.iter().filter(|role| role.exists_in(call.database())) {
                put(role, call.database(), privileges, &mut list);
            }
        }
        None => {}
    }
    list.end();
    Ok(Outcome::Reply)
}

fn put(role: &Role, db: &str, privileges: bool, list: &mut ArrayBuilder<'_>) {
    let mut entry = list.doc();
    entry
        .put_str("_id", &format!("{db}.{}", role.name))
        .put_str("role", role.name)
        .put_str("db", db);
    if privileges {
        let mut all = Privileges::default();
        role.grant(db, &mut all);
        for name in ["privileges", "inheritedPrivileges"] {
            put_privileges(&mut entry, name, all.iter());
        }
    }
    entry.array("roles").end();
    entry.array("inheritedRoles").end();
    entry.put_bool("isBuiltin", true);
    entry.end();
}
