//! `grantRolesToUser` and `revokeRolesFromUser`.

use super::{may_with_roles, named, no_such_role, roles};
use crate::args::required;
use crate::auth::{Action, RoleName};
use crate::command::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::{Code, Error, Result};
use crate::value::DocBuilder;

pub(in crate::command) const GRANT: Command = Command::ready(
    "grantRolesToUser",
    Access::Admin,
    "Grants roles to a user.",
    |call, _| change(call, |had, given| had.extend(given)),
)
.with(Flags::WRITE_CONCERN)
.needs(Needs::Asked(|call| may(call, Action::GrantRole)));

pub(in crate::command) const REVOKE: Command = Command::ready(
    "revokeRolesFromUser",
    Access::Admin,
    "Revokes roles from a user.",
    |call, _: &mut DocBuilder<'_>| {
        change(call, |had, taken| had.retain(|role| !taken.contains(role)))
    },
)
.with(Flags::WRITE_CONCERN)
.needs(Needs::Asked(|call| may(call, Action::RevokeRole)));

/// Refuses an empty list of roles. Otherwise a sender without rights could use it to find out which users exist.
fn may(call: &Call<'_>, action: Action) -> Result<bool> {
    let roles = roles(call)?.unwrap_or_default();
    Ok(!roles.is_empty() && may_with_roles(call, &roles, action))
}

fn change(
    call: &mut Call<'_>,
    change: impl FnOnce(&mut Vec<RoleName>, Vec<RoleName>),
) -> Result<Outcome> {
    call.only(&["roles"])?;
    let name = named(call)?;
    let roles = required(roles(call)?, call.command.name, "roles")?;
    if roles.is_empty() {
        return Err(Error::bad_value(format!(
            "{} command requires a non-empty \"roles\" array",
            call.command.name
        )));
    }
    // A role must exist even if it is only revoked.
    if let Some(unknown) = roles
        .iter()
        .find(|role| crate::auth::Role::find(role).is_none())
    {
        return Err(no_such_role(crate::auth::NoSuchRole(unknown.clone())));
    }
    let changed = call.context.users.change(&name, |user| {
        let mut has = user.roles().to_vec();
        change(&mut has, roles);
        user.set_roles(has).map_err(no_such_role)
    });
    changed.ok_or_else(|| {
        Error::new(
            Code::UserNotFound,
            format!(
                "Could not find user \"{}\" for db \"{}\"",
                name.user, name.db
            ),
        )
    })??;
    Ok(Outcome::Reply)
}
