//! Rules for the names of databases and collections. They are the same for all commands and for all ways to create a
//! collection.
//!
//! As in MongoDB, reading under a strange name is mostly harmless and finds nothing, but no client may create such a
//! collection or write to it.

use crate::error::{Code, Error, Result};

/// The longest namespace: database, dot and collection together.
const MAX_NAMESPACE: usize = 255;
/// The same in the server's own databases.
const MAX_INTERNAL_NAMESPACE: usize = 512;

/// The server's own databases, sorted. Every server has them.
pub const INTERNAL_DATABASES: &[&str] = &["admin", "config", "local"];

/// Collections that the server or its tools keep in any database.
const SYSTEM: &[&str] = &[
    "system.js",
    "system.profile",
    "system.users",
    "system.views",
];

/// Collections that the server or its tools keep in one database only.
const SYSTEM_OF: &[(&str, &[&str])] = &[
    (
        "admin",
        &[
            "system.backup_users",
            "system.keys",
            "system.roles",
            "system.version",
        ],
    ),
    (
        "config",
        &["system.indexBuilds", "system.preimages", "system.sessions"],
    ),
    ("local", &["system.healthlog", "system.replset"]),
];

/// Collections that only the server itself writes to.
const NEVER_WRITTEN: &[&str] = &["system.profile", "system.views"];

/// Returns whether a database is one of the server's own.
pub fn is_internal(database: &str) -> bool {
    INTERNAL_DATABASES.contains(&database)
}

/// Returns whether a collection belongs to the server or its tools, by its name.
#[inline]
pub fn is_system(collection: &str) -> bool {
    collection.starts_with("system.")
}

/// Checks that this can be a collection's name at all, in any command.
#[inline]
pub fn check_collection(database: &str, name: &str) -> Result<()> {
    if name.is_empty() {
        return invalid(format!("Invalid namespace specified '{database}.'"));
    }
    check_characters(name)
}

/// Refuses a name that no collection can have, whatever is done with it.
pub fn check_characters(name: &str) -> Result<()> {
    if name.starts_with('.') {
        return invalid(format!("Collection names cannot start with '.': {name}"));
    }
    if name.as_bytes().contains(&0) {
        return invalid("namespaces cannot have embedded null characters".to_owned());
    }
    Ok(())
}

/// Returns whether this can be the name of a database that holds collections.
pub fn is_database(name: &str) -> bool {
    let forbidden = |b| matches!(b, 0 | b'/' | b'\\' | b'.' | b' ' | b'"' | b'$');
    !name.is_empty() && name.len() <= 63 && !name.bytes().any(forbidden)
}

/// Checks that a command can name this database. A name with `$` such as `$external`, the database of users from other systems, is
/// allowed, but no collection can be there.
pub fn check_database(name: &str) -> Result<()> {
    if !is_database(name) && !is_database(&name.replace('$', "_")) {
        return invalid(format!("Invalid database name: '{name}'"));
    }
    Ok(())
}

/// Checks that a collection of this name may be created.
#[inline]
pub fn check_created(database: &str, name: &str) -> Result<()> {
    // Nearly every name is plain, and every write asks.
    let is_plain = !name.as_bytes().contains(&b'$')
        && !database.as_bytes().contains(&b'$')
        && !is_system(name)
        && database.len() + 1 + name.len() <= MAX_NAMESPACE;
    match is_plain {
        true => Ok(()),
        false => check_special(database, name),
    }
}

#[cold]
fn check_special(database: &str, name: &str) -> Result<()> {
    if database.contains('$') {
        return invalid(format!("Invalid namespace: {database}.{name}"));
    }
    if name.contains('$') {
        return invalid(format!("Invalid collection name: {name}"));
    }
    let buckets = name.strip_prefix("system.buckets.");
    if buckets.is_some_and(|of| !of.is_empty()) {
        return Err(Error::new(
            Code::IllegalOperation,
            "Creation of a timeseries bucket collection without timeseries options is not allowed",
        ));
    }
    if is_system(name) && !is_known(database, name) {
        return invalid(format!("Invalid system namespace: {database}.{name}"));
    }
    let most = match is_internal(database) {
        true => MAX_INTERNAL_NAMESPACE,
        false => MAX_NAMESPACE,
    };
    if database.len() + 1 + name.len() > most {
        return invalid(format!(
            "Fully qualified namespace is too long. Namespace: {database}.{name} Max: {most}"
        ));
    }
    Ok(())
}

/// Checks that a client may write to a collection of this name, or create indexes on it.
#[inline]
pub fn check_written(database: &str, name: &str) -> Result<()> {
    if is_system(name) && NEVER_WRITTEN.contains(&name) {
        return invalid(format!("cannot write to {database}.{name}"));
    }
    check_created(database, name)
}

/// Checks that find, count and distinct accept the name.
#[inline]
pub fn check_read(database: &str, name: &str) -> Result<()> {
    let is_plain = !name.contains('$') && !database.contains('$');
    if !is_plain && (database, name) != ("local", "oplog.$main") {
        return invalid(format!(
            "Invalid collection name specified '{database}.{name}'"
        ));
    }
    Ok(())
}

fn is_known(database: &str, name: &str) -> bool {
    let own = SYSTEM_OF.iter().find(|(owner, _)| *owner == database);
    SYSTEM.contains(&name) || own.is_some_and(|(_, names)| names.contains(&name))
}

fn invalid(why: String) -> Result<()> {
    Err(Error::new(Code::InvalidNamespace, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected answers are those of mongod 6.0.5 to create, insert and find.
    #[test]
    fn invalid_names_have_the_errors_of_mongod() {
        let long = "x".repeat(MAX_NAMESPACE - 1);
        let fits = &long[..MAX_NAMESPACE - 2];
        for (database, name, created, written, read) in [
            ("d", "a", true, true, true),
            ("d", "a..b", true, true, true),
            ("d", "system", true, true, true),
            ("d", "a$b", false, false, false),
            ("d", "$a", false, false, false),
            ("d", "a.$cmd", false, false, false),
            ("local", "oplog.$main", false, false, true),
            ("$external", "a", false, false, false),
            ("d", fits, true, true, true),
            ("d", long.as_str(), false, false, true),
            ("d", "system.x", false, false, true),
            ("d", "system.", false, false, true),
            ("d", "system.buckets.a", false, false, true),
            ("d", "system.js", true, true, true),
            ("d", "system.users", true, true, true),
            ("d", "system.profile", true, false, true),
            ("d", "system.views", true, false, true),
            ("d", "system.roles", false, false, true),
            ("admin", "system.roles", true, true, true),
            ("admin", "system.sessions", false, false, true),
            ("config", "system.sessions", true, true, true),
            ("local", "system.replset", true, true, true),
        ] {
            let answers = [check_created, check_written, check_read]
                .map(|check| check(database, name).is_ok());
            assert_eq!(answers, [created, written, read], "{database}.{name}");
        }
    }
}
