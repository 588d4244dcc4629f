//! What is known of a connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::Context;
use crate::auth::Standing;
use crate::cosmos::LastRequest;
use crate::handler::{Peer, TlsVersion};
use crate::session::Session;
use crate::value::{Doc, DocBuf};

/// The handler's side of one connection.
pub struct Connection {
    pub(in crate::command) client: Arc<Client>,
    /// The session that the last retryable write used: mostly the next one's, too.
    pub(in crate::command) session: Option<Arc<Session>>,
    context: Arc<Context>,
}

/// Who is at the other end, shared with what goes on for it.
pub struct Client {
    pub id: u64,
    pub address: SocketAddr,
    /// The `client` document of the first hello. Written once.
    metadata: OnceLock<DocBuf>,
    /// Who has logged in.
    pub standing: Standing,
    /// What the last request that touched data was and cost.
    last_request: Mutex<Option<LastRequest>>,
}

/// How many connections there have been.
#[derive(Default)]
pub struct Connections {
    pub opened: AtomicUsize,
    pub rejected: AtomicUsize,
    pub tls_1_2: AtomicUsize,
    pub tls_1_3: AtomicUsize,
}

// === impl Connection ===

impl Connection {
    pub(in crate::command) fn new(context: &Arc<Context>, peer: Peer) -> Self {
        let client = Arc::new(Client {
            id: peer.id,
            address: peer.address,
            metadata: OnceLock::new(),
            standing: Standing::default(),
            last_request: Mutex::new(None),
        });
        context.clients.insert(peer.id, Arc::clone(&client));
        context.connections.opened(peer);
        Self {
            client,
            session: None,
            context: Arc::clone(context),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.context.clients.remove(&self.client.id);
    }
}

// === impl Connections ===

impl Connections {
    fn opened(&self, peer: Peer) {
        self.opened.fetch_add(1, Ordering::Relaxed);
        match peer.tls {
            Some(TlsVersion::V12) => self.tls_1_2.fetch_add(1, Ordering::Relaxed),
            Some(TlsVersion::V13) => self.tls_1_3.fetch_add(1, Ordering::Relaxed),
            None => 0,
        };
    }
}

// === impl Client ===

impl Client {
    pub fn metadata(&self) -> Option<Doc<'_>> {
        self.metadata.get().map(DocBuf::as_doc)
    }

    /// Keeps what the client says of itself; `false` if it said so before.
    pub(in crate::command) fn introduce(&self, metadata: Doc<'_>) -> bool {
        self.metadata.set(DocBuf::from(metadata)).is_ok()
    }

    pub fn last_request(&self) -> Option<LastRequest> {
        *self.last_request.lock()
    }

    pub(in crate::command) fn set_last_request(&self, last: LastRequest) {
        *self.last_request.lock() = Some(last);
    }

    pub fn app_name(&self) -> Option<&str> {
        self.metadata()?
            .get("application")
            .as_doc()?
            .get("name")
            .as_str()
    }
}
