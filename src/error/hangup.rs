//! The end of a connection that sent something the server cannot answer.

use std::fmt;

/// The reason why a connection is closed without a reply. The text goes to the log, never to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hangup(pub String);

// === impl Hangup ===

impl Hangup {
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Hangup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Hangup {}

impl From<std::io::Error> for Hangup {
    fn from(problem: std::io::Error) -> Self {
        Self(problem.to_string())
    }
}
