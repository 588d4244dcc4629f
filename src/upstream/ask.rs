//! The seam between the rules and the connection to the cluster.

use std::future::Future;

use bytes::Bytes;

use crate::error::Error;
use crate::wire::Request;

/// A connection to the cluster that belongs to one client.
pub trait Ask: Send {
    /// Sends a command and returns the reply document. It may be the cluster's error.
    fn ask(&mut self, request: Request) -> impl Future<Output = Result<Bytes, Lost>> + Send;
}

/// The cluster did not answer: it cannot be reached, or it left in the middle of a command. The client gets this error.
#[derive(Debug)]
pub struct Lost(pub Error);
