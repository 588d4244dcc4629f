//! `startSession`, `refreshSessions`, `endSessions` and the commands that kill sessions.

use super::guard::foreign_session;
use super::{Access, Call, Command, Context, Flags, Needs, Outcome};
use crate::auth::{Action, UserName};
use crate::error::{Code, Error, Result};
use crate::session::{SESSION_MINUTES, SessionId};
use crate::value::{DocBuilder, Type, ValueRef};

pub(super) const START: Command = Command::ready(
    "startSession",
    Access::None,
    "Starts a session and returns its id.",
    start,
)
.with(Flags::SECONDARY)
.needs(Needs::Nothing);

pub(super) const REFRESH: Command = Command::ready(
    "refreshSessions",
    Access::None,
    "Keeps sessions from timing out.",
    refresh,
)
.with(Flags::STABLE.and(Flags::SECONDARY))
.needs(Needs::Nothing);

pub(super) const END: Command = Command::ready(
    "endSessions",
    Access::None,
    "Ends sessions and frees what they hold.",
    end,
)
.with(Flags::STABLE.and(Flags::SECONDARY))
.needs(Needs::Nothing);

pub(super) const KILL: Command = Command::ready(
    "killSessions",
    Access::None,
    "Kills the running commands, cursors and transactions of sessions.",
    kill,
)
.with(Flags::SECONDARY)
.needs(Needs::Nothing);

pub(super) const KILL_ALL: Command = Command::ready(
    "killAllSessions",
    Access::None,
    "Kills the running commands, cursors and transactions of all sessions.",
    kill_all,
)
.with(Flags::SECONDARY)
.needs(Needs::Server(Action::KillAnySession));

pub(super) const KILL_BY_PATTERN: Command = Command::ready(
    "killAllSessionsByPattern",
    Access::None,
    "Kills the running commands, cursors and transactions of the sessions that match a pattern.",
    kill_by_pattern,
)
.with(Flags::SECONDARY)
.needs(Needs::Server(Action::KillAnySession));

fn start(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut id = SessionId::new(*uuid::Uuid::new_v4().as_bytes());
    if let Some(owner) = call.owner() {
        id = id.of(&owner).ok_or_else(foreign_session)?;
    }
    call.context.sessions.get(&id, &mut None)?;
    id.put(reply, "id");
    reply.put_i32("timeoutMinutes", SESSION_MINUTES as i32);
    Ok(Outcome::Reply)
}

fn refresh(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    for id in ids(call)? {
        call.context.sessions.refresh(&id);
    }
    Ok(Outcome::Reply)
}

/// Ends sessions. Their cursors stay open until they time out, because drivers end sessions while they still read cursors.
fn end(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    for id in ids(call)? {
        call.context.sessions.end(&id);
    }
    Ok(Outcome::Reply)
}

fn kill(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let ids = ids(call)?;
    if ids.is_empty() {
        let owner = call.owner();
        kill_where(call.context, |id| {
            owner.is_none_or(|owner| id.is_of(&owner))
        });
    }
    for id in ids {
        kill_where(call.context, |other| *other == id);
    }
    Ok(Outcome::Reply)
}

fn kill_all(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let patterns = patterns(call)?;
    let mut owners = Vec::new();
    for pattern in &patterns {
        for elem in *pattern {
            if !matches!(elem.name(), "user" | "db") {
                return Err(Error::unknown_field(
                    "KillAllSessionsCmd.killAllSessions",
                    elem.name(),
                ));
            }
        }
        let named = |part| {
            let value = pattern.get(part);
            if value.is_nullish() {
                return Err(Error::missing_field(
                    "KillAllSessionsCmd.killAllSessions",
                    part,
                ));
            }
            value.as_str().ok_or_else(|| {
                Error::wrong_type(
                    "KillAllSessionsCmd.killAllSessions",
                    part,
                    value.ty(),
                    &[Type::String],
                )
            })
        };
        owners.push(UserName::new(named("user")?, named("db")?).digest());
    }
    kill_where(call.context, |id| {
        owners.is_empty() || owners.iter().any(|owner| id.is_of(owner))
    });
    Ok(Outcome::Reply)
}

fn kill_by_pattern(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    const PATH: &str = "KillAllSessionsByPatternCmd.killAllSessionsByPattern";
    enum SessionPattern {
        All,
        One(SessionId),
        Of([u8; 32]),
    }
    let mut meant = Vec::new();
    for pattern in patterns(call)? {
        for elem in pattern {
            match elem.name() {
                "lsid" | "uid" => {}
                name @ ("users" | "roles") => {
                    return Err(Error::not_implemented(format_args!("{PATH}.{name}")));
                }
                name => return Err(Error::unknown_field(PATH, name)),
            }
        }
        let (lsid, uid) = (pattern.get("lsid"), pattern.get("uid"));
        meant.push(if !lsid.is_nullish() {
            SessionPattern::One(SessionId::parse(lsid, &format!("{PATH}.lsid"))?)
        } else if !uid.is_nullish() {
            SessionPattern::Of(SessionId::parse_user(uid, PATH)?)
        } else {
            SessionPattern::All
        });
    }
    kill_where(call.context, |id| {
        meant.is_empty()
            || meant.iter().any(|meant| match meant {
                SessionPattern::All => true,
                SessionPattern::One(one) => id == one,
                SessionPattern::Of(user) => id.is_of(user),
            })
    });
    Ok(Outcome::Reply)
}

/// Kills the operations, cursors and transactions of sessions.
fn kill_where(context: &Context, meant: impl Fn(&SessionId) -> bool) {
    context
        .operations
        .kill_where(|op| op.session.as_ref().is_some_and(&meant));
    context
        .cursors
        .kill_where(|cursor| cursor.session.as_ref().is_some_and(&meant));
    context.sessions.kill_where(&meant);
}

fn array<'a>(call: &Call<'a>) -> Result<crate::value::Doc<'a>> {
    let value = call.target();
    if value.is_nullish() {
        return Err(Error::missing_field(call.command.name, call.command.name));
    }
    value.as_array().ok_or_else(|| {
        Error::wrong_type(
            call.command.name,
            call.command.name,
            value.ty(),
            &[Type::Array],
        )
    })
}

/// Returns the sessions that the command lists. Nulls are ignored.
fn ids(call: &Call<'_>) -> Result<Vec<SessionId>> {
    const MOST: usize = 10_000;
    let path = format!("{}.{}", call.command.name, call.command.name);
    let ids = array(call)?
        .iter()
        .filter(|elem| !elem.value.is_nullish())
        .map(|elem| {
            let id = SessionId::parse(elem.value, &path)?;
            // A user may only name their own sessions.
            match call.owner() {
                Some(owner) => id.of(&owner).ok_or_else(foreign_session),
                None => Ok(id),
            }
        })
        .collect::<Result<Vec<_>>>()?;
    if ids.len() > MOST && call.command.name != "killSessions" {
        return Err(Error::new(
            Code::BadValue,
            format!("Too many sessions: {}, at most {MOST}", ids.len()),
        ));
    }
    Ok(ids)
}

fn patterns<'a>(call: &Call<'a>) -> Result<Vec<crate::value::Doc<'a>>> {
    let name = call.command.name;
    array(call)?
        .iter()
        .map(|elem| elem.value)
        .filter(|value| !value.is_nullish())
        .map(|value: ValueRef<'a>| {
            value
                .as_doc()
                .ok_or_else(|| Error::wrong_type(name, name, value.ty(), &[Type::Document]))
        })
        .collect()
}
