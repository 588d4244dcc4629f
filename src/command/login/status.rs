//! `connectionStatus` and `logout`.

use crate::auth::{Actions, Resource};
use crate::command::reply::put_uuid;
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
    Command::ready("logout", Access::None, "Ends a log-in.", |call, _| {
        call.only(&[])?;
        call.client.standing.log_out();
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
    // Who has logged in where nobody has to is shown as well.
    let user = call.client.standing.user(&call.context.users);
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
    let mut roles = info.array("authenticatedUserRoles");
    for role in user.iter().flat_map(|user| user.roles()) {
        let mut entry = roles.doc();
        entry.put_str("role", &role.role).put_str("db", &role.db);
        entry.end();
    }
    roles.end();
    if privileges {
        let mut list = info.array("authenticatedUserPrivileges");
        for (resource, actions) in user.iter().flat_map(|user| user.privileges().iter()) {
            let mut entry = list.doc();
            put_resource_and_actions(&mut entry, resource, actions);
            entry.end();
        }
        list.end();
    }
    info.end();
    // Any stable name for the connection will do: its number, in the place of a random one.
    let mut uuid = [0u8; 16];
    uuid[..8].copy_from_slice(&call.client.id.to_be_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = 0x80;
    put_uuid(reply, "uuid", &uuid);
    Ok(Outcome::Reply)
}

/// `{resource: {...}, actions: [...]}`
pub(in crate::command) fn put_resource_and_actions(
    entry: &mut DocBuilder<'_>,
    resource: &Resource,
    actions: Actions,
) {
    let mut doc = entry.doc("resource");
    match resource {
        Resource::Cluster => doc.put_bool("cluster", true),
        Resource::Anything => doc.put_bool("anyResource", true),
        Resource::Database(db) => doc.put_str("db", db).put_str("collection", ""),
        Resource::Every => doc.put_str("db", "").put_str("collection", ""),
        Resource::Collection(db, name) => doc.put_str("db", db).put_str("collection", name),
        Resource::EveryCollection(name) => doc.put_str("db", "").put_str("collection", name),
    };
    doc.end();
    let mut list = entry.array("actions");
    for action in actions.iter() {
        list.push_str(action.name());
    }
    list.end();
}
