//! All users of a server, and whether clients must log in.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;

use super::action::{Action, Actions};
use super::credential::{Credential, Mechanism};
use super::privilege::{AuthTarget, Privileges, Resource};
use super::throttle::Throttle;
use super::user::{User, UserName};

/// All users of a server.
pub struct Users {
    all: RwLock<BTreeMap<UserName, Arc<User>>>,
    /// Clients must log in. Set at the start if the settings say so, or later by the first user that can create other users.
    /// Never cleared. A user that can only read does not set it, because then no user could administer the server.
    on: AtomicBool,
    /// Incremented by every change, under the lock of `all`. Connections then look up the privileges of their user again.
    generation: AtomicU64,
    /// The users of `admin` may log in from any database.
    everywhere: bool,
    /// The key for the fake credentials of users that do not exist.
    secret: [u8; 32],
    pub throttle: Throttle,
    /// What a client on the same machine may do while there is no user: create the first one.
    bootstrap: Privileges,
}

/// A user with this name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserExists;

// === impl Users ===

impl Users {
    /// Creates the users of a server. Clients must log in if there is any user, or if `required` is set.
    pub fn new(users: &[User], required: bool) -> Self {
        let mut bootstrap = Privileges::default();
        let actions = Actions::of(&[Action::CreateUser, Action::GrantRole]);
        bootstrap.add(Resource::Database("admin".to_owned()), actions);
        let mut secret = [0; 32];
        secret.copy_from_slice(&super::random_bytes(32));
        Self {
            on: AtomicBool::new(required || !users.is_empty()),
            all: RwLock::new(
                users
                    .iter()
                    .map(|user| (user.name.clone(), Arc::new(user.clone())))
                    .collect(),
            ),
            generation: AtomicU64::new(0),
            everywhere: false,
            secret,
            throttle: Throttle::default(),
            bootstrap,
        }
    }

    /// Sets whether the users of `admin` may log in from any database. An account of Cosmos DB belongs to no database, so a
    /// connection string may name any database, which then is the `authSource`. Microsoft's own tutorials have such
    /// strings.
    pub fn known_everywhere(self, everywhere: bool) -> Self {
        Self { everywhere, ..self }
    }

    /// Returns the user that a client means by this name.
    pub fn resolve(&self, name: UserName) -> UserName {
        if self.everywhere && !self.all.read().contains_key(&name) {
            return UserName::new(name.user, "admin");
        }
        name
    }

    /// Returns whether the privileges of commands are checked at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Acquire)
    }

    pub fn is_empty(&self) -> bool {
        self.all.read().is_empty()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    pub fn get(&self, name: &UserName) -> Option<Arc<User>> {
        self.all.read().get(name).cloned()
    }

    /// Returns all users, sorted by database and name.
    pub fn list(&self) -> Vec<Arc<User>> {
        self.all.read().values().cloned().collect()
    }

    pub fn add(&self, user: User) -> Result<(), UserExists> {
        let mut all = self.all.write();
        if all.contains_key(&user.name) {
            return Err(UserExists);
        }
        self.changed(&user);
        all.insert(user.name.clone(), Arc::new(user));
        Ok(())
    }

    /// Changes a user atomically. Returns `None` if the user does not exist. If `change` fails, nothing changes.
    pub fn change<E>(
        &self,
        name: &UserName,
        change: impl FnOnce(&mut User) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let mut all = self.all.write();
        let slot = all.get_mut(name)?;
        let mut user = (**slot).clone();
        let outcome = change(&mut user);
        if outcome.is_ok() {
            self.changed(&user);
            *slot = Arc::new(user);
        }
        Some(outcome)
    }

    pub fn remove(&self, name: &UserName) -> bool {
        let mut all = self.all.write();
        self.generation.fetch_add(1, Ordering::AcqRel);
        all.remove(name).is_some()
    }

    /// Removes all users of a database and returns their number.
    pub fn remove_all(&self, db: &str) -> usize {
        let mut all = self.all.write();
        self.generation.fetch_add(1, Ordering::AcqRel);
        let before = all.len();
        all.retain(|name, _| name.db != db);
        before - all.len()
    }

    /// Prepares a change. Called under the lock, before a new or changed user is in the list.
    fn changed(&self, user: &User) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        let admin = AuthTarget::Database("admin");
        if user.privileges().allow(admin, Action::CreateUser)
            && user.privileges().allow(admin, Action::GrantRole)
        {
            self.on.store(true, Ordering::Release);
        }
    }

    /// Returns the privileges of a client that has not logged in. It has some on the same machine, as long as there is no
    /// user.
    pub fn before_login(&self, address: IpAddr) -> Option<&Privileges> {
        (address.to_canonical().is_loopback() && self.is_empty()).then_some(&self.bootstrap)
    }

    /// Returns the credential for an exchange, and whether it is real. If the user does not exist, or not with this
    /// mechanism, the credential is fake, at the same cost.
    pub fn credential(&self, mechanism: Mechanism, name: &UserName) -> (Credential, bool) {
        let pretended = Credential::pretended(mechanism, &self.secret, &name.user, &name.db);
        let user = self.get(name);
        match user.and_then(|user| user.credentials.get(mechanism).cloned()) {
            Some(real) => (real, true),
            None => (pretended, false),
        }
    }

    /// Returns the mechanisms that the user can log in with. For a user that does not exist it returns both.
    pub fn mechanisms(&self, name: &UserName) -> Vec<Mechanism> {
        match self.get(name) {
            Some(user) => user.credentials.mechanisms().collect(),
            None => Mechanism::ALL.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::{Credentials, RoleName};

    fn user(name: &str, roles: &[(&str, &str)]) -> User {
        let roles = roles
            .iter()
            .map(|(role, db)| RoleName::new(*role, *db))
            .collect();
        User::new(UserName::new(name, "admin"), Credentials::default(), roles).unwrap()
    }

    #[test]
    fn access_control_starts_with_the_first_user_admin() {
        let users = Users::new(&[], false);
        users
            .add(user("a", &[("readWriteAnyDatabase", "admin")]))
            .unwrap();
        users.add(user("b", &[("userAdmin", "shop")])).unwrap();
        assert!(!users.is_on());
        users.add(user("c", &[("userAdmin", "admin")])).unwrap();
        assert!(users.is_on());
        users.remove_all("admin");
        assert!(users.is_on(), "what was closed stays closed");
        assert!(Users::new(&[user("a", &[])], false).is_on());
        assert!(Users::new(&[], true).is_on());
    }

    #[test]
    fn the_first_user_is_created_on_the_machine_itself() {
        let users = Users::new(&[], true);
        let rows = [
            ("127.0.0.1", true),
            ("::1", true),
            ("::ffff:127.0.0.1", true),
            ("192.168.0.1", false),
        ];
        for (address, allowed) in rows {
            let privileges = users.before_login(address.parse().unwrap());
            assert_eq!(privileges.is_some(), allowed, "{address}");
        }
        let privileges = users.before_login("::1".parse().unwrap()).unwrap();
        assert!(privileges.allow(AuthTarget::Database("admin"), Action::CreateUser));
        assert!(!privileges.allow(AuthTarget::Database("shop"), Action::CreateUser));
        assert!(!privileges.allow(AuthTarget::Collection("admin", "c"), Action::Find));
        users.add(user("a", &[])).unwrap();
        assert!(users.before_login("::1".parse().unwrap()).is_none());
    }

    #[test]
    fn accounts_work_in_other_databases_only_if_configured() {
        let shop_name = || UserName::new("ann", "shop");
        let users = Users::new(&[user("ann", &[])], true);
        assert_eq!(users.resolve(shop_name()), shop_name());
        let users = users.known_everywhere(true);
        assert_eq!(users.resolve(shop_name()), UserName::new("ann", "admin"));
        // Guesses at one account from many databases are delayed as guesses at one account.
        let stranger = users.resolve(UserName::new("ben", "shop"));
        assert_eq!(stranger, UserName::new("ben", "admin"));
        let mut shop_user = user("ann", &[]);
        shop_user.name = shop_name();
        users.add(shop_user).unwrap();
        assert_eq!(users.resolve(shop_name()), shop_name());
    }

    #[test]
    fn every_change_is_a_new_generation() {
        let users = Users::new(&[], false);
        let name = UserName::new("a", "admin");
        let mut last = users.generation();
        let mut moved = |what: &str| {
            assert_ne!(users.generation(), last, "{what}");
            last = users.generation();
        };
        users.add(user("a", &[])).unwrap();
        moved("add");
        assert_eq!(users.add(user("a", &[])), Err(UserExists));
        let read = vec![RoleName::new("read", "shop")];
        users
            .change(&name, |user| user.set_roles(read))
            .unwrap()
            .unwrap();
        moved("change");
        let nope = vec![RoleName::new("nope", "shop")];
        assert!(
            users
                .change(&name, |user| user.set_roles(nope))
                .unwrap()
                .is_err()
        );
        assert_eq!(users.get(&name).unwrap().roles().len(), 1);
        assert!(users.remove(&name));
        moved("remove");
        assert!(users.change(&name, |_| Ok::<_, ()>(())).is_none());
    }
}
