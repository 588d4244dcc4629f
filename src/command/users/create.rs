//! `createUser` and `updateUser`.

use super::{may_with_roles, named, no_such_role, no_such_user, refuse_restrictions, roles};
use crate::args::{Arg, required};
use crate::auth::{
    Action, AuthTarget, Credentials, Mechanism, Password, RoleName, UnusablePassword, User,
};
use crate::command::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::{Error, Result};
use crate::interrupt::run_blocking;
use crate::value::{Doc, DocBuf, DocBuilder};

pub(in crate::command) const CREATE: Command =
    Command::ready("createUser", Access::Admin, "Creates a user.", create)
        .with(Flags::WRITE_CONCERN.and(Flags::SECRETS))
        .needs(Needs::Asked(may_create));

pub(in crate::command) const UPDATE: Command = Command::ready(
    "updateUser",
    Access::Admin,
    "Changes a user's password, roles or data.",
    update,
)
.with(Flags::WRITE_CONCERN.and(Flags::SECRETS))
.needs(Needs::Asked(may_update));

/// What both commands say about a user.
#[derive(Default)]
struct UserArguments<'a> {
    password: Option<&'a str>,
    digested: bool,
    mechanisms: Option<Vec<Mechanism>>,
    custom_data: Option<Doc<'a>>,
    roles: Option<Vec<RoleName>>,
}

fn may_create(call: &Call<'_>) -> Result<bool> {
    let roles = roles(call)?.unwrap_or_default();
    Ok(
        call.may(AuthTarget::Database(call.database()), Action::CreateUser)
            && may_with_roles(call, &roles, Action::GrantRole),
    )
}

/// The roles are replaced as a whole, so the sender must be allowed to revoke the old ones and to grant the new ones.
fn may_update(call: &Call<'_>) -> Result<bool> {
    let here = AuthTarget::Database(call.database());
    let given = |name| call.arg(name).is_some_and(|arg| !arg.is_null());
    let mut allowed = true;
    if given("pwd") || given("mechanisms") {
        allowed &= call.may(here, Action::ChangePassword);
    }
    if given("customData") {
        allowed &= call.may(here, Action::ChangeCustomData);
    }
    if let Some(roles) = roles(call)? {
        let before = call.context.users.get(&named(call)?);
        let before = before.as_ref().map_or(&[][..], |user| user.roles());
        allowed &= call.may(here, Action::RevokeRole)
            && may_with_roles(call, before, Action::RevokeRole)
            && may_with_roles(call, &roles, Action::GrantRole);
    }
    Ok(allowed)
}

fn create(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = named(call)?;
    match name.db.as_str() {
        "local" => {
            return Err(Error::bad_value(
                "Cannot create users in the local database",
            ));
        }
        "$external" => return Err(Error::not_implemented("a user of $external")),
        _ => {}
    }
    let given = UserArguments::read(call)?;
    let roles = required(given.roles.clone(), "createUser", "roles")?;
    if given.password.is_none() {
        return Err(Error::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
        ));
    }
    let credentials = given.credentials(&name.user)?.unwrap_or_default();
    let mut user = User::new(name, credentials, roles).map_err(no_such_role)?;
    user.custom_data = given.custom_data.map(keep);
    let exists = Error::location(51003, format!("User \"{}\" already exists", user.name));
    call.context.users.add(user).map_err(|_| exists)?;
    Ok(Outcome::Reply)
}

fn update(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = named(call)?;
    let given = UserArguments::read(call)?;
    let nothing = given.password.is_none()
        && given.mechanisms.is_none()
        && given.custom_data.is_none()
        && given.roles.is_none();
    if nothing {
        return Err(Error::bad_value(
            "Must specify at least one field to update in updateUser",
        ));
    }
    let credentials = given.credentials(&name.user)?;
    let changed = call.context.users.change(&name, |user| {
        match (&credentials, &given.mechanisms) {
            (Some(credentials), _) => user.credentials = credentials.clone(),
            // Without a password a mechanism can be removed, but not added.
            (None, Some(mechanisms)) => {
                user.credentials = narrowed(&user.credentials, mechanisms)?;
            }
            (None, None) => {}
        }
        if let Some(data) = given.custom_data {
            user.custom_data = Some(keep(data));
        }
        match &given.roles {
            Some(roles) => user.set_roles(roles.clone()).map_err(no_such_role),
            None => Ok(()),
        }
    });
    changed.ok_or_else(|| no_such_user(&name))??;
    Ok(Outcome::Reply)
}

fn keep(doc: Doc<'_>) -> DocBuf {
    DocBuf::from_bytes(doc.bytes().to_vec())
}

fn narrowed(credentials: &Credentials, mechanisms: &[Mechanism]) -> Result<Credentials> {
    let mut fewer = Credentials::default();
    for &mechanism in mechanisms {
        let credential = credentials.get(mechanism).ok_or_else(|| {
            Error::bad_value("mechanisms field must be a subset of previously set mechanisms")
        })?;
        fewer.set(mechanism, credential.clone());
    }
    Ok(fewer)
}

fn mechanisms(arg: &Arg<'_>) -> Result<Option<Vec<Mechanism>>> {
    let Some(list) = arg.array()? else {
        return Ok(None);
    };
    if list.is_empty() {
        return Err(Error::bad_value("mechanisms field must not be empty"));
    }
    list.iter()
        .map(|elem| {
            let name = elem.value.as_str().unwrap_or_default();
            Mechanism::find(name)
                .ok_or_else(|| Error::bad_value(format!("Unknown auth mechanism '{name}'")))
        })
        .collect::<Result<_>>()
        .map(Some)
}

// === impl UserArguments ===

impl<'a> UserArguments<'a> {
    fn read(call: &Call<'a>) -> Result<Self> {
        let mut given = Self::default();
        for arg in call.args().skip(1) {
            match arg.name() {
                "pwd" => given.password = arg.str()?,
                "digestPassword" => given.digested = arg.bool()? == Some(false),
                "mechanisms" => given.mechanisms = mechanisms(&arg)?,
                "customData" => given.custom_data = arg.doc()?,
                "roles" => given.roles = roles(call)?,
                "authenticationRestrictions" => refuse_restrictions(&arg)?,
                _ => return Err(arg.unknown()),
            }
        }
        Ok(given)
    }

    fn credentials(&self, user: &str) -> Result<Option<Credentials>> {
        let Some(password) = self.password else {
            return Ok(None);
        };
        let password = if self.digested {
            Password::Digested(password)
        } else {
            Password::Plain(password)
        };
        let mechanisms = self.mechanisms.as_deref().unwrap_or(Mechanism::ALL);
        run_blocking(|| Credentials::new(user, password, mechanisms))
            .map(Some)
            .map_err(|problem: UnusablePassword| Error::bad_value(problem.to_string()))
    }
}
