//! A client's connection to the cluster. It is opened when the client's first command needs it, and opened again, to the
//! new primary, when it breaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use super::ask::{Ask, Lost};
use super::cluster::Cluster;
use super::link::Link;
use super::retry::{Refusal, RetryRule};
use crate::clock::monotonic;
use crate::value::Doc;
use crate::wire::Request;

/// The place where a connection keeps its link between two commands.
#[derive(Default)]
pub struct LinkSlot(Mutex<Option<OpenLink>>);

/// A link that is counted as long as it is open.
struct OpenLink {
    link: Link,
    counters: Arc<RelayCounters>,
}

/// What one command needs to reach the cluster.
pub struct Relay {
    pub cluster: Arc<Cluster>,
    pub slot: Arc<LinkSlot>,
    pub counters: Arc<RelayCounters>,
    /// The client has logged in to the cluster over its link. If the link breaks, so does the client's connection, because
    /// the login cannot be repeated.
    pub bound: bool,
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
    /// Returns whether there is an open link.
    pub fn is_open(&self) -> bool {
        self.0.lock().is_some()
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
    /// Takes the link out of its slot if it can still be used. While a command runs the slot is empty, so that a command
    /// that is abandoned takes its link along.
    fn take(&self) -> Option<OpenLink> {
        let mut open = self.slot.0.lock().take()?;
        let usable = self.cluster.is_current(open.link.node()) && !open.link.is_closed();
        usable.then_some(open)
    }

    async fn send(&mut self, request: &Request, retry: RetryRule) -> Result<Bytes, Lost> {
        let deadline = monotonic() + self.cluster.selection_timeout;
        self.counters.forwarded.fetch_add(1, Ordering::Relaxed);
        let mut first = true;
        loop {
            if !std::mem::take(&mut first) {
                self.counters.repeated.fetch_add(1, Ordering::Relaxed);
            }
            let mut open = match self.take() {
                Some(open) => open,
                None if self.bound => return Err(Lost::hangup()),
                None => match self.cluster.dial(deadline).await {
                    Ok(link) => OpenLink::new(link, &self.counters),
                    Err(error) => return Err(Lost::Error(retry.label(error))),
                },
            };
            let in_time = || monotonic() < deadline;
            match open.link.exchange(request).await {
                Ok(reply) => {
                    let refusal = Refusal::of(Doc::new(&reply));
                    match refusal {
                        Some(refusal) if retry.after(refusal) && !self.bound && in_time() => {
                            let node = Arc::clone(open.link.node());
                            drop(open);
                            self.cluster.node_changes(&node, NEXT_ASK).await;
                        }
                        _ => {
                            *self.slot.0.lock() = Some(open);
                            return Ok(reply);
                        }
                    }
                }
                Err(_) if self.bound => return Err(Lost::hangup()),
                Err(_) if retry.after_loss() && in_time() => drop(open),
                Err(problem) => return Err(Lost::Error(retry.lost(problem))),
            }
        }
    }
}

impl Ask for Relay {
    async fn ask(&mut self, request: Request) -> Result<Bytes, Lost> {
        let retry = RetryRule::of(&request);
        self.send(&request, retry).await
    }
}
