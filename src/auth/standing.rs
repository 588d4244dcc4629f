//! How a connection stands: who has logged in on it, and the log-in that is under way.

use std::sync::Arc;

use parking_lot::Mutex;

use super::credential::Mechanism;
use super::scram::{Exchange, Failed, Hello};
use super::user::{User, UserName};
use super::users::Users;

/// The state of one connection. A connection runs one command at a time, so nobody waits for these locks.
#[derive(Default)]
pub struct Standing {
    login: Mutex<Option<Login>>,
    conversation: Mutex<Option<Conversation>>,
}

/// Who has logged in, as of a generation of the users.
struct Login {
    user: Arc<User>,
    generation: u64,
}

/// A log-in under way: MongoDB's dress around a SCRAM exchange.
pub struct Conversation {
    pub mechanism: Mechanism,
    pub user: UserName,
    /// Where it began, and goes on.
    pub db: String,
    /// The client sent text (base64) instead of binary, and gets the same.
    pub in_text: bool,
    /// The exchange ends with our signature, not with an empty message each behind it.
    pub skip_empty: bool,
    /// Begun within a hello.
    pub speculative: bool,
    exchange: Exchange,
    /// The proof was right: what remains is the empty exchange.
    proved: bool,
}

/// A connection on which somebody else has logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken(pub UserName);

// === impl Standing ===

impl Standing {
    /// Who has logged in, with what they may do now. Whoever was dropped meanwhile is logged out.
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

    /// A connection belongs to one user: a second one needs another connection.
    pub fn log_in(&self, users: &Users, user: Arc<User>) -> Result<(), Taken> {
        if let Some(other) = self.user(users)
            && other.name != user.name
        {
            return Err(Taken(other.name.clone()));
        }
        // Older than any change that was made since the user was looked up: the next command looks again.
        let generation = users.generation().wrapping_sub(1);
        *self.login.lock() = Some(Login { user, generation });
        Ok(())
    }

    pub fn log_out(&self) {
        *self.login.lock() = None;
        *self.conversation.lock() = None;
    }

    /// The log-in under way; it goes on by being put back.
    pub fn take_conversation(&self) -> Option<Conversation> {
        self.conversation.lock().take()
    }

    pub fn keep_conversation(&self, conversation: Conversation) {
        *self.conversation.lock() = Some(conversation);
    }
}

// === impl Conversation ===

impl Conversation {
    /// Answers the client's first message, whether there is such a user or not.
    pub fn begin(
        users: &Users,
        mechanism: Mechanism,
        db: &str,
        payload: &[u8],
    ) -> Result<(Self, String), Failed> {
        let hello = Hello::parse(payload)?;
        let user = users.meant(UserName::new(hello.user.as_str(), db));
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
    pub fn prove(&mut self, payload: &[u8]) -> Result<String, Failed> {
        let reply = self.exchange.prove(payload)?;
        self.proved = true;
        Ok(reply)
    }

    pub fn is_proved(&self) -> bool {
        self.proved
    }

    /// The user whose password was proved; nobody, if the user or the password has changed since.
    pub fn proved_user(&self, users: &Users) -> Option<Arc<User>> {
        users.get(&self.user).filter(|user| {
            self.proved && user.credentials.get(self.mechanism) == Some(self.exchange.credential())
        })
    }
}
