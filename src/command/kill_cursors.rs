//! `killCursors`: closes open cursors.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::required;
use crate::auth::{Action, AuthTarget};
use crate::error::{Error, Result};
use crate::value::{DocBuilder, Type, Value};

pub(super) const COMMAND: Command =
    Command::ready("killCursors", Access::Read, "Closes cursors.", run)
        .with(Flags::STABLE.and(Flags::SECONDARY).and(Flags::TRANSACTION))
        .needs(Needs::Asked(may));

/// Checks the rights: every user may kill their own cursors, and other cursors only with `killAnyCursor`.
fn may(call: &Call<'_>) -> Result<bool> {
    let ids = call.arg("cursors").and_then(|arg| arg.value().as_array());
    let own = ids.into_iter().flatten().all(|elem| {
        let info = elem
            .value
            .as_i64()
            .and_then(|id| call.context.cursors.info(id));
        info.is_none_or(|info| call.owns(info.owner))
    });
    Ok(own || call.may(AuthTarget::Cluster, Action::KillAnyCursor))
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.collection()?;
    let mut cursors = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "cursors" => cursors = arg.array()?,
            _ => return Err(arg.unknown()),
        }
    }
    let mut ids = Vec::new();
    for elem in required(cursors, "killCursors", "cursors")? {
        // All ids are checked before the first cursor is killed. Nulls are ignored.
        match elem.value.as_i64() {
            Some(id) => ids.push(id),
            None if elem.value.is_nullish() => {}
            None => {
                return Err(Error::wrong_type(
                    "killCursors.cursors",
                    elem.name(),
                    elem.value.ty(),
                    &[Type::Int64],
                ));
            }
        }
    }
    // Like MongoDB, the server looks only at the id, not at the collection that the command names.
    let (killed, missing): (Vec<_>, Vec<_>) = ids
        .into_iter()
        .partition(|&id| call.context.cursors.kill(id));
    for (name, ids) in [
        ("cursorsKilled", &killed),
        ("cursorsNotFound", &missing),
        ("cursorsAlive", &Vec::new()),
        ("cursorsUnknown", &Vec::new()),
    ] {
        let mut array = reply.array(name);
        for id in ids {
            array.push(Value::int64(*id).as_ref());
        }
        array.end();
    }
    Ok(Outcome::Reply)
}
