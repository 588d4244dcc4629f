//! Who may do what. Knows no command and no socket.
//!
//! [`scram`] is the exchange by which a client proves that it knows a password, as a pure state machine; [`Credential`]
//! is all that is kept of one. [`Users`] holds the [`User`]s with their [roles](ROLES), which come to [`Privileges`]:
//! actions on resources. A connection's [`Standing`] says who has logged in on it. Whether a command needs a privilege,
//! and which, stands in the table of commands.

mod action;
mod credential;
mod privilege;
mod role;
pub mod scram;
mod standing;
mod throttle;
mod user;
mod users;

pub use action::{Action, Actions};
pub use credential::{Credential, Credentials, Mechanism, Password, Unusable};
pub use privilege::{Privileges, Resource, Target};
pub use role::{ROLES, Role, RoleName};
pub use standing::{Conversation, Standing, Taken};
pub use throttle::{Guess, Throttle};
pub use user::{NoSuchRole, User, UserName};
pub use users::{Exists, Users};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// From the operating system: for salts, nonces and secrets.
fn random_bytes(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    getrandom::fill(&mut bytes).expect("a system without randomness cannot keep a secret");
    bytes
}

/// Printable and without commas.
fn random_text() -> String {
    STANDARD.encode(random_bytes(24))
}
