//! `usersInfo`: lists users.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{name_and_database, put_privileges, put_roles};
use crate::auth::{Action, AuthTarget, User, UserName};
use crate::command::reply::put_uuid;
use crate::command::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::{Code, Error, Result};
use crate::query::filter::Filter;
use crate::query::{Scope, Vars};
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef, is_true};

pub(in crate::command) const INFO: Command =
    Command::ready("usersInfo", Access::Read, "Lists users.", run)
        .with(Flags::SECONDARY)
        .needs(Needs::Asked(may));

/// The users that the command asks for.
enum UserSelection {
    All,
    OfDatabase,
    Named(Vec<UserName>),
}

/// Whether the sender may see these users. Every user may see their own entry.
fn may(call: &Call<'_>) -> Result<bool> {
    let sees = |db: &str| call.may(AuthTarget::Database(db), Action::ViewUser);
    Ok(match UserSelection::read(call)? {
        // No database has an empty name, so only a privilege on all databases counts.
        UserSelection::All => sees(""),
        UserSelection::OfDatabase => sees(call.database()),
        UserSelection::Named(names) => names
            .iter()
            .all(|name| call.user().is_some_and(|own| own.name == *name) || sees(&name.db)),
    })
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut show = Show::default();
    let mut filter = Doc::EMPTY;
    for arg in call.args().skip(1) {
        match arg.name() {
            "showCredentials" => show.credentials = arg.bool()?.unwrap_or(false),
            "showCustomData" => show.custom_data = arg.bool()?.unwrap_or(true),
            "showPrivileges" => show.privileges = arg.bool()?.unwrap_or(false),
            "showAuthenticationRestrictions" => {
                show.restrictions = arg.bool()?.unwrap_or(false);
            }
            "filter" => filter = arg.doc()?.unwrap_or(Doc::EMPTY),
            _ => return Err(arg.unknown()),
        }
    }
    let wanted = UserSelection::read(call)?;
    if !matches!(wanted, UserSelection::Named(_)) && (show.privileges || show.restrictions) {
        return Err(Error::new(
            Code::IllegalOperation,
            "Privilege or restriction details require exact-match usersInfo queries.",
        ));
    }
    let users = &call.context.users;
    let found: Vec<_> = match wanted {
        UserSelection::All => users.list(),
        UserSelection::OfDatabase => {
            let mut list = users.list();
            list.retain(|user| user.name.db == call.database());
            list
        }
        UserSelection::Named(names) => names.iter().filter_map(|name| users.get(name)).collect(),
    };
    let filter = Filter::parse(filter, &Scope::new())?;
    let vars = Vars::at(call.now);
    let mut list = reply.array("users");
    for user in found {
        let doc = DocBuf::build(|doc| show.put(&user, doc));
        if filter.matches(doc.as_doc(), &vars)? {
            list.push_doc(doc.as_doc());
        }
    }
    list.end();
    Ok(Outcome::Reply)
}

/// The details to show of each user.
struct Show {
    credentials: bool,
    custom_data: bool,
    privileges: bool,
    restrictions: bool,
}

// === impl UserSelection ===

impl UserSelection {
    fn read(call: &Call<'_>) -> Result<Self> {
        let target = call.target();
        if let Some(doc) = target.as_doc()
            && let Some(all) = doc.first().filter(|first| first.name() == "forAllDBs")
        {
            return Ok(if is_true(all.value) {
                Self::All
            } else {
                Self::OfDatabase
            });
        }
        if let Some(list) = target.as_array() {
            let names = list
                .iter()
                .map(|elem| name(elem.value, call.database()))
                .collect::<Result<_>>()?;
            return Ok(Self::Named(names));
        }
        match target.as_num() {
            Some(number) if number.to_i64_saturating() == 1 => Ok(Self::OfDatabase),
            _ => Ok(Self::Named(vec![name(target, call.database())?])),
        }
    }
}

/// Reads `"ann"` or `{user: "ann", db: "shop"}`.
fn name(value: ValueRef<'_>, db: &str) -> Result<UserName> {
    if let Some(user) = value.as_str() {
        return Ok(UserName::new(user, db));
    }
    let doc = value.as_doc().ok_or_else(|| {
        Error::bad_value(format!(
            "User and role names must be either strings or objects, not {}",
            value.ty().alias()
        ))
    })?;
    let (user, database) = name_and_database("UserName", "user", doc, true)?;
    Ok(UserName::new(user, database))
}

// === impl Show ===

impl Default for Show {
    fn default() -> Self {
        Self {
            credentials: false,
            custom_data: true,
            privileges: false,
            restrictions: false,
        }
    }
}

impl Show {
    fn put(&self, user: &User, doc: &mut DocBuilder<'_>) {
        let name = &user.name;
        doc.put_str("_id", &format!("{}.{}", name.db, name.user));
        put_uuid(doc, "userId", &user.id);
        doc.put_str("user", &name.user).put_str("db", &name.db);
        if let Some(data) = user.custom_data.as_ref().filter(|_| self.custom_data) {
            doc.put_doc("customData", data.as_doc());
        }
        put_roles(doc, "roles", user.roles());
        let mut list = doc.array("mechanisms");
        for mechanism in user.credentials.mechanisms() {
            list.push_str(mechanism.name());
        }
        list.end();
        if self.credentials {
            let mut credentials = doc.doc("credentials");
            for mechanism in user.credentials.mechanisms() {
                let Some(kept) = user.credentials.get(mechanism) else {
                    continue;
                };
                let mut entry = credentials.doc(mechanism.name());
                entry
                    .put_i32("iterationCount", kept.iterations.cast_signed())
                    .put_str("salt", &STANDARD.encode(&kept.salt))
                    .put_str("storedKey", &STANDARD.encode(&kept.stored_key))
                    .put_str("serverKey", &STANDARD.encode(&kept.server_key));
                entry.end();
            }
            credentials.end();
        }
        if self.restrictions {
            doc.array("authenticationRestrictions").end();
        }
        if self.privileges {
            put_roles(doc, "inheritedRoles", user.roles());
            put_privileges(doc, "inheritedPrivileges", user.privileges().iter());
            doc.array("inheritedAuthenticationRestrictions").end();
        }
    }
}
