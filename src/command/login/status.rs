//! `connectionStatus` and `logout`.

use crate::command::reply::put_uuid;
use crate::command::users::{put_privileges, put_roles};
use crate::command::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::Result;
use crate::value::DocBuilder;

const ANYWHERE: Flags = Flags::BEFORE_LOGIN.and(Flags::SECONDARY);

pub(in crate::command) const CONNECTION_STATUS: Command = Command::ready(
    "connectionStatus",
    Access::None,
    "Shows who is logged in on this connection.",
    connection_status,
)
.with(ANYWHERE.and(Flags::STABLE))
.needs(Needs::Nothing);

pub(in crate::command) const LOGOUT: Command =
    Command::ready("logout", Access::None, "Logs out.", |call, _| {
        call.only(&[])?;
        call.client.login.log_out();
        Ok(Outcome::Reply)
    })
    .with(ANYWHERE)
    .needs(Needs::Nothing);

fn connection_status(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut privileges = false;
    for arg in call.args().skip(1) {
        match arg.name() {
            "showPrivileges" => privileges = arg.bool()?.unwrap_or(false),
            _ => return Err(arg.unknown()),
        }
    }
    // A user who has logged in is shown even if clients need not log in.
    let user = call.client.login.user(&call.context.users);
    let mut info = reply.doc("authInfo");
    let mut users = info.array("authenticatedUsers");
    if let Some(user) = &user {
        let mut entry = users.doc();
        entry
            .put_str("user", &user.name.user)
            .put_str("db", &user.name.db);
        entry.end();
    }
    users.end();
    let user = user.as_ref();
    let roles = user.map_or(&[][..], |user| user.roles());
    put_roles(&mut info, "authenticatedUserRoles", roles);
    if privileges {
        let privileges = user.into_iter().flat_map(|user| user.privileges().iter());
        put_privileges(&mut info, "authenticatedUserPrivileges", privileges);
    }
    info.end();
    // Any stable identifier of the connection will do. This one is its number instead of a random UUID.
    let mut uuid = [0u8; 16];
    uuid[..8].copy_from_slice(&call.client.id.to_be_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = 0x80;
    put_uuid(reply, "uuid", &uuid);
    Ok(Outcome::Reply)
}
