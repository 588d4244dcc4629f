//! A user: a name in a database, roles, and credentials.

use std::fmt;

use sha2::{Digest, Sha256};

use super::credential::{Credentials, Mechanism, Password};
use super::privilege::Privileges;
use super::role::{Role, RoleName};
use crate::value::DocBuf;

/// The name of a user, and the database that it was created in (its `authSource`). The same name in another database is
/// another user.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserName {
    pub db: String,
    pub user: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub name: UserName,
    /// A UUID: a user that is dropped and created again is another user.
    pub id: [u8; 16],
    /// Identifies the user in the ids of its sessions.
    pub digest: [u8; 32],
    pub credentials: Credentials,
    pub custom_data: Option<DocBuf>,
    roles: Vec<RoleName>,
    /// The union of what the roles allow.
    privileges: Privileges,
}

/// The role does not exist, so a user cannot have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchRole(pub RoleName);

// === impl UserName ===

impl UserName {
    pub fn new(user: impl Into<String>, db: impl Into<String>) -> Self {
        Self {
            user: user.into(),
            db: db.into(),
        }
    }
}

/// Formats the name as mongod does: `user@db`.
impl fmt::Display for UserName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.user, self.db)
    }
}

impl UserName {
    /// Returns the digest that identifies the user in the ids of its sessions.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.to_string()).into()
    }
}

// === impl User ===

impl User {
    pub fn new(
        name: UserName,
        credentials: Credentials,
        roles: Vec<RoleName>,
    ) -> Result<Self, NoSuchRole> {
        let mut user = Self {
            digest: name.digest(),
            name,
            id: *uuid::Uuid::new_v4().as_bytes(),
            credentials,
            custom_data: None,
            roles: Vec::new(),
            privileges: Privileges::default(),
        };
        user.set_roles(roles)?;
        Ok(user)
    }

    /// Creates a user that can log in with a password, by either mechanism. The error does not contain the password.
    pub fn with_password(
        name: UserName,
        password: &str,
        roles: Vec<RoleName>,
    ) -> Result<Self, String> {
        let credentials = Credentials::new(&name.user, Password::Plain(password), Mechanism::ALL)
            .map_err(|problem| problem.to_string())?;
        Self::new(name, credentials, roles).map_err(|problem| problem.to_string())
    }

    pub fn roles(&self) -> &[RoleName] {
        &self.roles
    }

    pub fn privileges(&self) -> &Privileges {
        &self.privileges
    }

    pub fn set_roles(&mut self, mut roles: Vec<RoleName>) -> Result<(), NoSuchRole> {
        roles.sort();
        roles.dedup();
        let mut privileges = Privileges::default();
        for name in &roles {
            let role = Role::find(name).ok_or_else(|| NoSuchRole(name.clone()))?;
            role.grant(&name.db, &mut privileges);
        }
        self.roles = roles;
        self.privileges = privileges;
        Ok(())
    }
}

// === impl NoSuchRole ===

impl fmt::Display for NoSuchRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Could not find role: {}", self.0)
    }
}
