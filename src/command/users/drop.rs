//! `dropUser` and `dropAllUsersFromDatabase`.

use super::{named, no_such_user};
use crate::auth::Action;
use crate::command::{Access, Call, Command, Flags, Needs, Outcome, reply};
use crate::error::Result;
use crate::value::DocBuilder;

pub(in crate::command) const DROP: Command =
    Command::ready("dropUser", Access::Admin, "Drops a user.", drop)
        .with(Flags::WRITE_CONCERN)
        .needs(Needs::Database(Action::DropUser));

pub(in crate::command) const DROP_ALL: Command = Command::ready(
    "dropAllUsersFromDatabase",
    Access::Admin,
    "Drops all users of a database.",
    drop_all,
)
.with(Flags::WRITE_CONCERN)
.needs(Needs::Database(Action::DropUser));

fn drop(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    let name = named(call)?;
    if call.context.users.remove(&name) {
        Ok(Outcome::Reply)
    } else {
        Err(no_such_user(format_args!("'{name}'")))
    }
}

fn drop_all(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    let dropped = call.context.users.remove_all(call.database());
    reply::put_count(reply, "n", dropped as u64);
    Ok(Outcome::Reply)
}
