//! The users that a server starts with, and whether clients must log in.
//!
//! Users come from options, from the environment and from a file; `createUser` adds further ones. Passwords from the
//! settings are read only here: the result holds credentials derived from them, and no message contains a password.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;
use serde_json::Value;

use crate::auth::{Credential, Credentials, Mechanism, RoleName, User, UserName};
use crate::cosmos::{EMULATOR_ACCOUNT, EMULATOR_KEY};

/// The users that a server starts with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accounts {
    pub list: Vec<User>,
    /// Clients must log in even if there is no user yet.
    pub required: bool,
}

#[derive(Debug, Clone, Args)]
#[group(id = "users")]
pub(super) struct UserArguments {
    /// Require a login even if no user is defined; the first user is then created from this machine
    #[arg(long, env = "SUNDOWN_AUTH", value_parser = BoolishValueParser::new())]
    auth: bool,

    /// A user, as NAME:PASSWORD@DATABASE:ROLE,ROLE@DATABASE [default: database admin, role root]; encode name and password as in a connection string; repeat it, or separate users by spaces
    #[arg(long, env = "SUNDOWN_USER", value_name = "USER", value_delimiter = ' ', hide_env_values = true,
          value_parser = |text: &str| Ok::<_, String>(Secret(text.to_owned())))]
    user: Vec<Secret>,

    /// A JSON file with a list of users, each in the form of createUser: {"user", "pwd", "db", "roles"}
    #[arg(long, env = "SUNDOWN_USERS_FILE", value_name = "FILE")]
    users_file: Option<PathBuf>,
}

/// A text with a password in it, which is never printed.
#[derive(Clone)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

// === impl Accounts ===

impl Accounts {
    /// Returns whether clients can use the server without a password.
    pub fn is_open(&self) -> bool {
        self.list.is_empty() && !self.required
    }

    fn add(&mut self, user: User) -> Result<(), String> {
        if self.list.iter().any(|known| known.name == user.name) {
            return Err(format!("the user {} is defined twice", user.name));
        }
        self.list.push(user);
        Ok(())
    }
}

// === impl UserArguments ===

impl UserArguments {
    /// Returns the users. If there are none, `emulator` adds the emulator's well-known account. The error is a message for
    /// the user.
    pub(super) fn resolve(self, emulator: bool) -> Result<Accounts, String> {
        let arguments = self;
        let mut accounts = Accounts {
            list: Vec::new(),
            required: arguments.auth,
        };
        // Compose files pass unset variables as empty ones.
        let given = arguments.user.iter().filter(|user| !user.0.is_empty());
        for (nth, Secret(text)) in given.enumerate() {
            let user = written(text).map_err(|problem| format!("--user {}: {problem}", nth + 1))?;
            accounts.add(user)?;
        }
        let file = arguments
            .users_file
            .filter(|path| !path.as_os_str().is_empty());
        if let Some(path) = file {
            for user in listed(&path)
                .map_err(|problem| format!("--users-file {}: {problem}", path.display()))?
            {
                accounts.add(user)?;
            }
        }
        if emulator && accounts.list.is_empty() {
            let root = vec![RoleName::new("root", "admin")];
            let (account, key) = (EMULATOR_ACCOUNT.to_owned(), EMULATOR_KEY);
            accounts.add(make(account, "admin".to_owned(), key, root)?)?;
        }
        Ok(accounts)
    }
}

/// Parses `NAME:PASSWORD@DATABASE:ROLE,ROLE@DATABASE`.
fn written(text: &str) -> Result<User, String> {
    let form = || "a user is written NAME:PASSWORD@DATABASE:ROLE,ROLE@DATABASE".to_owned();
    let (login, place) = match text.split_once('@') {
        Some((login, place)) => (login, Some(place)),
        None => (text, None),
    };
    let (name, password) = login.split_once(':').ok_or_else(form)?;
    if password.contains(':') {
        return Err("a colon in a password is written %3A, as in a connection string".to_owned());
    }
    let (name, password) = (decode(name)?, decode(password)?);
    if name.is_empty() {
        return Err(form());
    }
    let (db, roles) = match place.map(|place| place.split_once(':').unwrap_or((place, ""))) {
        None => ("admin", ""),
        Some((db, roles)) => (db, roles),
    };
    if db.is_empty() {
        return Err(form());
    }
    let roles = match roles {
        "" => vec![RoleName::new("root", "admin")],
        some => some
            .split(',')
            .map(|role| match role.split_once('@') {
                Some((role, db)) => RoleName::new(role, db),
                None => RoleName::new(role, db),
            })
            .collect(),
    };
    make(name, db.to_owned(), &password, roles)
}

fn make(name: String, db: String, password: &str, roles: Vec<RoleName>) -> Result<User, String> {
    let name = UserName::new(name, db);
    User::with_password(name.clone(), password, roles)
        .map_err(|problem| format!("user {name}: {problem}"))
}

/// Decodes the percent encoding of connection strings, such as `%40`.
fn decode(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<&u8>| char::from(*byte?).to_digit(16);
        let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
            return Err("a percent sign is written %25, as in a connection string".to_owned());
        };
        bytes.push((high * 16 + low) as u8);
    }
    String::from_utf8(bytes).map_err(|_| "name and password have to be UTF-8".to_owned())
}

fn listed(path: &Path) -> Result<Vec<User>, String> {
    let text = fs::read_to_string(path).map_err(|problem| problem.to_string())?;
    let list: Value = serde_json::from_str(&text).map_err(|problem| problem.to_string())?;
    let list = list.as_array().ok_or("it has to hold a list of users")?;
    list.iter()
        .enumerate()
        .map(|(nth, entry)| {
            user(entry).map_err(|problem| format!("user {} of the list: {problem}", nth + 1))
        })
        .collect()
}

/// Parses one entry of the file. Instead of a password it may have the credentials that usersInfo shows.
fn user(entry: &Value) -> Result<User, String> {
    let fields = entry.as_object().ok_or("it is not an object")?;
    const KNOWN: &[&str] = &["user", "pwd", "db", "roles", "credentials"];
    if let Some(unknown) = fields.keys().find(|name| !KNOWN.contains(&name.as_str())) {
        return Err(format!("{unknown:?} is not one of {}", KNOWN.join(", ")));
    }
    let text = |name: &str| match entry.get(name) {
        None => Ok(None),
        Some(value) => value
            .as_str()
            .map(|text| Some(text.to_owned()))
            .ok_or_else(|| format!("{name:?} has to be a string")),
    };
    let name = text("user")?
        .filter(|name| !name.is_empty())
        .ok_or("\"user\" is missing")?;
    let db = text("db")?.unwrap_or_else(|| "admin".to_owned());
    let roles = match entry.get("roles") {
        None => return Err("\"roles\" is missing".to_owned()),
        Some(roles) => roles
            .as_array()
            .ok_or("\"roles\" has to be a list")?
            .iter()
            .map(|value| role(value, &db).ok_or("a role is a name or {\"role\", \"db\"}"))
            .collect::<Result<_, _>>()?,
    };
    match (text("pwd")?, entry.get("credentials")) {
        (Some(password), None) => make(name, db, &password, roles),
        (None, Some(kept)) => {
            let credentials =
                credentials(kept).ok_or("\"credentials\" are not as usersInfo shows them")?;
            User::new(UserName::new(name, db), credentials, roles)
                .map_err(|problem| problem.to_string())
        }
        _ => Err("it needs \"pwd\" or \"credentials\"".to_owned()),
    }
}

fn role(value: &Value, db: &str) -> Option<RoleName> {
    match value.as_str() {
        Some(name) => Some(RoleName::new(name, db)),
        None => Some(RoleName::new(
            value.get("role")?.as_str()?,
            value.get("db")?.as_str()?,
        )),
    }
}

fn credentials(kept: &Value) -> Option<Credentials> {
    let mut credentials = Credentials::default();
    for (name, value) in kept.as_object()? {
        let mechanism = Mechanism::find(name)?;
        let text = |name: &str| value.get(name)?.as_str();
        let iterations = u32::try_from(value.get("iterationCount")?.as_u64()?).ok()?;
        let credential = Credential::decode(
            mechanism,
            iterations,
            text("salt")?,
            text("storedKey")?,
            text("serverKey")?,
        )?;
        credentials.set(mechanism, credential);
    }
    let any = credentials.mechanisms().next().is_some();
    any.then_some(credentials)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::{assert_refused, config};

    fn names(user: &User) -> String {
        let roles: Vec<_> = user.roles().iter().map(ToString::to_string).collect();
        format!("{} {}", user.name, roles.join(","))
    }

    #[test]
    fn users_as_they_are_written() {
        let rows = [
            ("ann:secret", "ann@admin root@admin"),
            ("ann:secret@shop", "ann@shop root@admin"),
            ("ann:secret@shop:readWrite", "ann@shop readWrite@shop"),
            (
                "ann:secret@shop:read,read@other",
                "ann@shop read@other,read@shop",
            ),
            ("a%40b%3a:x%20y%25", "a@b:@admin root@admin"),
            (
                "localhost:C2y6yDjf5%2FR%2Bob0N8A7Cgv30VRDJIWEHLM%3D%3D@admin",
                "localhost@admin root@admin",
            ),
        ];
        for (text, expected) in rows {
            let accounts = config(&["--user", text]).expect(text).accounts;
            assert_eq!(
                accounts.list.iter().map(names).collect::<Vec<_>>(),
                [expected]
            );
            assert!(!accounts.is_open());
        }
        let two = config(&["--user", "a:1 b:2", "--user", "c:3"]).unwrap();
        assert_eq!(two.accounts.list.len(), 3);
        assert!(config(&["--user", ""]).unwrap().accounts.is_open());
        assert!(!config(&["--auth"]).unwrap().accounts.is_open());
    }

    #[test]
    fn users_that_are_refused_without_telling_their_password() {
        let rows: &[(&[&str], &str)] = &[
            (&["--user", "PASSWORD"], "NAME:PASSWORD@DATABASE"),
            (&["--user", ":hunter2"], "NAME:"),
            (&["--user", "ann:hunter2@"], "NAME:"),
            (&["--user", "ann:hunter2:x"], "%3A"),
            (&["--user", "ann:hunter2%"], "%25"),
            (&["--user", "ann:hunter2@shop:nope"], "nope@shop"),
            (&["--user", "ann:hunter2@shop:root"], "root@shop"),
            (&["--user", "ann:"], "empty"),
            (&["--user", "ann:hunter2 ann:hunter2"], "twice"),
            (&["--users-file", "/nowhere"], "/nowhere"),
        ];
        assert_refused(rows);
        for (arguments, _) in rows {
            assert!(
                !config(arguments).unwrap_err().contains("hunter2"),
                "{arguments:?}"
            );
        }
    }

    #[test]
    fn users_from_a_file() {
        let parse = |text: &str| user(&serde_json::from_str(text).unwrap());
        let kept = r#"{"SCRAM-SHA-256": {"iterationCount": 15000, "salt": "c2FsdHNhbHRzYWx0",
            "storedKey": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            "serverKey": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}"#;
        let rows = [
            (r#"{"user": "ann", "pwd": "x", "roles": []}"#.to_owned(), Ok("ann@admin ")),
            (
                r#"{"user": "ann", "pwd": "x", "db": "shop", "roles": ["read", {"role": "readWrite", "db": "b"}]}"#.to_owned(),
                Ok("ann@shop read@shop,readWrite@b"),
            ),
            (format!(r#"{{"user": "ann", "credentials": {kept}, "roles": []}}"#), Ok("ann@admin ")),
            (r#"{"user": "ann", "pwd": "x"}"#.to_owned(), Err("roles")),
            (r#"{"user": "ann", "roles": []}"#.to_owned(), Err("pwd")),
            (r#"{"user": "ann", "pwd": 5, "roles": []}"#.to_owned(), Err("string")),
            (r#"{"user": "ann", "pwd": "x", "roles": [5]}"#.to_owned(), Err("role")),
            (r#"{"user": "ann", "password": "x", "roles": []}"#.to_owned(), Err("password")),
            (r#"{"user": "ann", "credentials": {"SCRAM-SHA-1": {}}, "roles": []}"#.to_owned(), Err("usersInfo")),
            ("5".to_owned(), Err("object")),
        ];
        for (text, expected) in rows {
            match (parse(&text), expected) {
                (Ok(user), Ok(expected)) => assert_eq!(names(&user), expected),
                (Err(problem), Err(word)) => assert!(problem.contains(word), "{problem}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn settings_that_are_printed_have_no_password_in_them() {
        let accounts = config(&["--user", "ann:hunter2"]).unwrap().accounts;
        assert!(!format!("{accounts:?}").contains("hunter2"));
        assert!(!format!("{:?}", Secret("ann:hunter2".into())).contains("hunter2"));
    }
}
