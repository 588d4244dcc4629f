//! Authentication and authorization: users, roles, SCRAM.
//!
//! [`scram`] is the exchange by which a client proves that it knows a password, as a pure state machine, and
//! [`ClientExchange`] is its other side. [`Credential`] is
//! all that the server stores of a password. [`Users`] holds the [`User`]s with their [roles](ROLES), which are expanded to
//! [`Privileges`]: actions on resources. A connection's [`LoginState`] says which user has logged in on it, and [`Throttle`]
//! slows down guessing. This module knows no command and no socket: the table of commands says which privileges a command
//! needs.

mod action;
mod credential;
mod login_state;
mod privilege;
mod role;
pub mod scram;
mod scram_client;
mod throttle;
mod user;
mod users;

pub use action::{Action, Actions};
pub use credential::{Credential, Credentials, Mechanism, Password, UnusablePassword};
pub use login_state::{AlreadyLoggedIn, Conversation, LoginState};
pub use privilege::{AuthTarget, Privileges, Resource};
pub use role::{ROLES, Role, RoleName};
pub use scram_client::{ClientExchange, ClientProof};
pub use throttle::{LoginAttempt, Throttle};
pub use user::{NoSuchRole, User, UserName};
pub use users::{UserExists, Users};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Returns random bytes from the operating system, for salts, nonces and secrets.
fn random_bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).expect("a system without randomness cannot keep a secret");
    bytes
}

/// Returns random text that is printable and has no commas.
fn random_text() -> String {
    STANDARD.encode(random_bytes(24))
}
