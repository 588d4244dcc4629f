//! Roles and privileges, as replies show them.

use crate::auth::{Actions, Resource, RoleName};
use crate::value::DocBuilder;

pub(in crate::command) fn put_roles(doc: &mut DocBuilder<'_>, name: &str, roles: &[RoleName]) {
    let mut list = doc.array(name);
    for role in roles {
        let mut entry = list.doc();
        entry.put_str("role", &role.role).put_str("db", &role.db);
        entry.end();
    }
    list.end();
}

pub(in crate::command) fn put_privileges<'p>(
    doc: &mut DocBuilder<'_>,
    name: &str,
    privileges: impl Iterator<Item = (&'p Resource, Actions)>,
) {
    let mut list = doc.array(name);
    for (resource, actions) in privileges {
        let mut entry = list.doc();
        put_resource_and_actions(&mut entry, resource, actions);
        entry.end();
    }
    list.end();
}

/// Writes `{resource: {...}, actions: [...]}`.
fn put_resource_and_actions(entry: &mut DocBuilder<'_>, resource: &Resource, actions: Actions) {
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
