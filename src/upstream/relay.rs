//! A client's connection to the cluster. It is opened when the client's first command needs it, and opened again, to the
//! new primary, when it breaks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;

use super::ask::{Ask, Lost, Term};
use super::cluster::Cluster;
use super::link::Link;
use super::retry::{Refusal, RetryRule};
use crate::clock::monotonic;
use crate::error::Error;
use crate::value::Doc;
use crate::wire::Request;

/// The place where a connection keeps its link between two commands, and what it needs to open another one.
pub struct LinkSlot {
    pub cluster: Arc<Cluster>,
    pub counters: Arc<RelayCounters>,
    /// Boxed, so that taking it out and putting it back moves no more than a pointer.
    open: Mutex<Option<Box<OpenLink>>>,
}

/// A link that is counted as long as it is open.
struct OpenLink {
    link: Link,
    counters: Arc<RelayCounters>,
}

/// What one command needs to reach the cluster.
pub struct Relay {
    pub slot: Arc<LinkSlot>,
    /// The client has logged in to the cluster over its link. If the link breaks, so does the client's connection, because
    /// the login cannot be repeated.
    pub bound: bool,
}

/// Why a command that was sent has no reply for its client yet.
enum Failure {
    /// The node has refused it, with this reply.
    Refused(Refusal, Bytes, Box<OpenLink>),
    /// The link broke.
    Broken(io::Error),
}

/// Figures for serverStatus.
#[derive(Debug, Default)]
pub struct RelayCounters {
    /// Data connections that are open now.
    pub open: AtomicUsize,
    /// Data connections that were opened since the start.
    pub opened: AtomicU64,
    /// Commands that were sent to the cluster, and how often one was sent again.
    pub forwarded: AtomicU64,
    pub repeated: AtomicU64,
    /// Commands that a rule has changed.
    pub rewritten: AtomicU64,
}

/// A node that has just refused a command as it is no primary is asked again after this time, if no other node is known
/// until then.
const NEXT_ASK: Duration = Duration::from_millis(100);

// === impl LinkSlot ===

impl LinkSlot {
    pub fn new(cluster: &Arc<Cluster>, counters: &Arc<RelayCounters>) -> Self {
        Self {
            cluster: Arc::clone(cluster),
            counters: Arc::clone(counters),
            open: Mutex::default(),
        }
    }

    /// Returns whether there is an open link.
    pub fn is_open(&self) -> bool {
        self.open.lock().is_some()
    }

    /// Takes the link out if it can still be used. While a command runs the slot is empty, so that a command that is
    /// abandoned takes its link along.
    fn take(&self) -> Option<Box<OpenLink>> {
        let mut open = self.open.lock().take()?;
        if open.link.is_closed() {
            self.cluster.end_term();
            return None;
        }
        self.cluster.is_current(open.link.node()).then_some(open)
    }

    fn put_back(&self, open: Box<OpenLink>) {
        *self.open.lock() = Some(open);
    }

    /// Opens a link to the node that takes commands.
    async fn dial(&self, deadline: Instant) -> Result<Box<OpenLink>, Error> {
        let link = self.cluster.dial(deadline).await?;
        Ok(Box::new(OpenLink::new(link, &self.counters)))
    }
}

// === impl OpenLink ===

impl OpenLink {
    fn new(link: Link, counters: &Arc<RelayCounters>) -> Self {
        counters.open.fetch_add(1, Ordering::Relaxed);
        counters.opened.fetch_add(1, Ordering::Relaxed);
        Self {
            link,
            counters: Arc::clone(counters),
        }
    }
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        self.counters.open.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Relay ===

impl Relay {
    /// Notes that a rule changes the command.
    pub fn count_rewritten(&self) {
        let rewritten = &self.slot.counters.rewritten;
        rewritten.fetch_add(1, Ordering::Relaxed);
    }

    /// Sends a command over a link, which is kept if the command gets its reply.
    async fn send(&self, mut open: Box<OpenLink>, request: &Request) -> Result<Bytes, Failure> {
        let failure = match open.link.exchange(request).await {
            Ok(reply) => match Refusal::of(Doc::new(&reply)) {
                None => {
                    self.slot.put_back(open);
                    return Ok(reply);
                }
                Some(refusal) => Failure::Refused(refusal, reply, open),
            },
            Err(problem) => Failure::Broken(problem),
        };
        self.slot.cluster.end_term();
        Err(failure)
    }

    /// Goes on where no link is open, or after a failure: opens a link, and sends the command (again) where that can do no
    /// harm. It waits for a node as long as drivers do, counted from the failure.
    async fn persist(&self, request: &Request, failed: Option<Failure>) -> Result<Bytes, Lost> {
        let LinkSlot {
            cluster, counters, ..
        } = &*self.slot;
        let retry = RetryRule::of(request);
        let deadline = monotonic() + cluster.selection_timeout;
        let mut failed = failed;
        loop {
            match failed {
                None if self.bound => return Err(Lost::hangup()),
                None => {}
                Some(failure) if self.may_repeat(&failure, retry) && monotonic() < deadline => {
                    counters.repeated.fetch_add(1, Ordering::Relaxed);
                    if let Failure::Refused(_, _, open) = failure {
                        let node = Arc::clone(open.link.node());
                        drop(open);
                        cluster.node_changes(&node, NEXT_ASK).await;
                    }
                }
                Some(failure) => return self.give_up(failure, retry),
            }
            let dialed = self.slot.dial(deadline).await;
            let open = dialed.map_err(|error| Lost::Error(retry.label(error)))?;
            match self.send(open, request).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => failed = Some(failure),
            }
        }
    }

    /// Returns what the client gets if its command may not be sent again.
    fn give_up(&self, failure: Failure, retry: RetryRule) -> Result<Bytes, Lost> {
        match failure {
            Failure::Refused(_, reply, open) => {
                self.slot.put_back(open);
                Ok(reply)
            }
            Failure::Broken(_) if self.bound => Err(Lost::hangup()),
            Failure::Broken(problem) => Err(Lost::Error(retry.lost(problem))),
        }
    }

    fn may_repeat(&self, failure: &Failure, retry: RetryRule) -> bool {
        let harmless = match failure {
            Failure::Refused(refusal, ..) => retry.after(*refusal),
            Failure::Broken(_) => retry.after_loss(),
        };
        harmless && !self.bound
    }
}

impl Ask for Relay {
    async fn ask(&mut self, request: Request) -> Result<Bytes, Lost> {
        let forwarded = &self.slot.counters.forwarded;
        forwarded.fetch_add(1, Ordering::Relaxed);
        let failed = match self.slot.take() {
            None => None,
            Some(open) => match self.send(open, &request).await {
                Ok(reply) => return Ok(reply),
                Err(failure) => Some(failure),
            },
        };
        // Rare and large, so it is boxed: the future of an ordinary command stays small.
        Box::pin(self.persist(&request, failed)).await
    }

    fn is_bound(&self) -> bool {
        self.bound
    }

    fn term(&self) -> Term {
        self.slot.cluster.term()
    }

    async fn ask_within(&mut self, term: Term, request: Request) -> Result<Option<Bytes>, Lost> {
        // It is sent over a link that is open already: whoever opens one waits for whatever node there is.
        let Some(open) = self.slot.take() else {
            return Ok(None);
        };
        // The link leads to the node of this term or of an earlier one. If the term ends from here on, the node has either
        // kept its documents, or refuses the command, or is gone.
        if self.term() != term {
            self.slot.put_back(open);
            return Ok(None);
        }
        let LinkSlot { counters, .. } = &*self.slot;
        counters.forwarded.fetch_add(1, Ordering::Relaxed);
        let failure = match self.send(open, &request).await {
            Ok(reply) => return Ok(Some(reply)),
            Err(failure) => failure,
        };
        let retry = RetryRule::of(&request);
        if self.may_repeat(&failure, retry) {
            counters.repeated.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        self.give_up(failure, retry).map(Some)
    }

    async fn ask_as_sundown(&mut self, request: Request) -> Result<Bytes, Lost> {
        match self.bound {
            true => Ok(self.slot.cluster.run(&request).await?),
            false => self.ask(request).await,
        }
    }
}
