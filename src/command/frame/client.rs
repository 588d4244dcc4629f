//! What the server knows about a connection.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::Context;
use super::repeats::Repeats;
use crate::auth::LoginState;
use crate::cosmos::LastRequest;
use crate::handler::{Peer, TlsVersion};
use crate::session::Session;
use crate::value::{Doc, DocBuf};

/// The handler's side of a connection.
pub struct Connection {
    pub(in crate::command) client: Arc<Client>,
    /// The session of the last retryable write. The next one usually has the same session.
    pub(in crate::command) session: Option<Arc<Session>>,
    context: Arc<Context>,
}

/// The client of a connection. Work that runs for the client shares it.
pub struct Client {
    pub id: u64,
    pub address: SocketAddr,
    /// The `client` document of the first hello. Written once.
    metadata: OnceLock<DocBuf>,
    /// The user who has logged in.
    pub login: LoginState,
    /// Its latest commands, which are counted together.
    pub(super) repeats: Repeats,
    /// The last request that touched data, and its cost.
    last_request: Mutex<Option<LastRequest>>,
}

/// The number of connections since the start.
#[derive(Default)]
pub struct ConnectionCounts {
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
            login: LoginState::default(),
            repeats: Repeats::default(),
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
        self.context.count_waiting(&self.client);
    }
}

// === impl ConnectionCounts ===

impl ConnectionCounts {
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

    /// Stores the client's description of itself. Returns `false` if there is one already.
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
