//! The seam between the rules and the connection to the cluster.

use std::future::Future;

use bytes::Bytes;

use crate::error::{Error, Hangup};
use crate::wire::Request;

/// A connection to the cluster that belongs to one client.
pub trait Ask: Send {
    /// Sends a command and returns the reply document. It may be the cluster's error.
    fn ask(&mut self, request: Request) -> impl Future<Output = Result<Bytes, Lost>> + Send;

    /// Returns whether commands are sent with the rights of a client, which are other than Sundown's own.
    fn is_bound(&self) -> bool {
        false
    }

    /// Returns the term of the node that takes commands now.
    fn term(&self) -> Term {
        Term::default()
    }

    /// Sends a command only if this term lasts. Returns `None` if it is over, or if it ended while the command was under way
    /// and the command may be sent again.
    fn ask_within(
        &mut self,
        _term: Term,
        request: Request,
    ) -> impl Future<Output = Result<Option<Bytes>, Lost>> + Send {
        async { self.ask(request).await.map(Some) }
    }

    /// Sends a command with Sundown's own rights. It has no session.
    fn ask_as_sundown(
        &mut self,
        request: Request,
    ) -> impl Future<Output = Result<Bytes, Lost>> + Send {
        self.ask(request)
    }
}

/// The time in which one node takes commands without a break, as far as Sundown knows. What was seen within it is not lost: a
/// write that was acknowledged is rolled back only if its node stops being the primary or crashes, and then its connections
/// break, or it refuses commands, or the driver finds another primary, or a new connection finds another process. Each of these
/// ends the term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Term(pub u64);

/// The cluster did not answer: it cannot be reached, or it left in the middle of a command.
#[derive(Debug)]
pub enum Lost {
    /// The client gets this error.
    Error(Error),
    /// The connection of the client must be closed.
    Hangup(Hangup),
}

// === impl Lost ===

impl Lost {
    /// The client's own login was lost with its connection to the cluster.
    pub fn hangup() -> Self {
        Self::Hangup(Hangup::new(
            "the client's connection to the upstream cluster broke",
        ))
    }
}

impl From<Error> for Lost {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}
