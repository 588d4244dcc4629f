//! The login state of a connection: the user who has logged in on it, and a login in progress.

use std::sync::Arc;

use parking_lot::Mutex;

use super::credential::Mechanism;
use super::scram::{Exchange, Hello, LoginFailed};
use super::user::{User, UserName};
use super::users::Users;

/// The login state of one connection. A connection runs one command at a time, so these locks are uncontended.
#[derive(Default)]
pub struct LoginState {
    login: Mutex<Option<Login>>,
    conversation: Mutex<Option<Conversation>>,
}

/// The user who has logged in, as of a generation of the users.
struct Login {
    user: Arc<User>,
    generation: u64,
}

/// A login in progress: MongoDB's commands around a SCRAM exchange.
pub struct Conversation {
    pub mechanism: Mechanism,
    pub user: UserName,
    /// The database in which it began. It must continue there.
    pub db: String,
    /// The client sent text (base64) instead of binary, and gets text back.
    pub in_text: bool,
    /// The exchange ends with the server's signature, without the additional empty messages.
    pub skip_empty: bool,
    /// It began inside a hello.
    pub speculative: bool,
    exchange: Exchange,
    /// The proof was right, and only the empty messages remain.
    proved: bool,
}

/// Another user has logged in on the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlreadyLoggedIn(pub UserName);

// === impl LoginState ===

impl LoginState {
    /// Returns the user who has logged in, with its current privileges. A user that was dropped meanwhile is logged out.
    pub fn user(&self, users: &Users) -> Option<Arc<User>> {
        let mut login = self.login.lock();
        let known = login.as_mut()?;
        let generation = users.generation();
        if known.generation != generation {
            let fresh = users
                .get(&known.user.name)
                .filter(|user| user.id == known.user.id);
            let Some(fresh) = fresh else {
                *login = None;
                return None;
            };
            known.user = fresh;
            known.generation = generation;
        }
        Some(Arc::clone(&known.user))
    }

    /// Logs a user in. A connection belongs to one user: another user needs another connection.
    pub fn log_in(&self, users: &Users, user: Arc<User>) -> Result<(), AlreadyLoggedIn> {
        if let Some(other) = self.user(users)
            && other.name != user.name
        {
            return Err(AlreadyLoggedIn(other.name.clone()));
        }
        // An outdated generation: the user may have changed since the lookup, so the next command must look it up again.
        let generation = users.generation().wrapping_sub(1);
        *self.login.lock() = Some(Login { user, generation });
        Ok(())
    }

    pub fn log_out(&self) {
        *self.login.lock() = None;
        *self.conversation.lock() = None;
    }

    /// Takes the login in progress. To continue it, put it back with [`LoginState::keep_conversation`].
    pub fn take_conversation(&self) -> Option<Conversation> {
        self.conversation.lock().take()
    }

    pub fn keep_conversation(&self, conversation: Conversation) {
        *self.conversation.lock() = Some(conversation);
    }
}

// === impl Conversation ===

impl Conversation {
    /// Answers the client's first message, whether the user exists or not.
    pub fn begin(
        users: &Users,
        mechanism: Mechanism,
        db: &str,
        payload: &[u8],
    ) -> Result<(Self, String), LoginFailed> {
        let hello = Hello::parse(payload)?;
        let user = users.resolve(UserName::new(hello.user.as_str(), db));
        let (credential, known) = users.credential(mechanism, &user);
        let nonce = super::random_text();
        let (exchange, reply) = Exchange::begin(mechanism, &hello, credential, known, &nonce);
        let conversation = Self {
            mechanism,
            user,
            db: db.to_owned(),
            in_text: false,
            skip_empty: false,
            speculative: false,
            exchange,
            proved: false,
        };
        Ok((conversation, reply))
    }

    /// Checks the client's proof, once.
    pub fn prove(&mut self, payload: &[u8]) -> Result<String, LoginFailed> {
        let reply = self.exchange.prove(payload)?;
        self.proved = true;
        Ok(reply)
    }

    pub fn is_proved(&self) -> bool {
        self.proved
    }

    /// Returns the user whose password was proved, or `None` if the user or the password has changed since then.
    pub fn proved_user(&self, users: &Users) -> Option<Arc<User>> {
        users.get(&self.user).filter(|user| {
            self.proved && user.credentials.get(self.mechanism) == Some(self.exchange.credential())
        })
    }
}
