//! The listening socket: accepts connections up to the limit, spawns a task for each, and drains them at shutdown.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tracing::{debug, error, info, warn};

use crate::config::Config;
use crate::handler::{Handler, Peer};
use crate::wire::Codec;

use super::connection::{Connection, ConnectionEnd, ConnectionSetup};
use super::drain::ConnectionPhase;
use super::inflate_budget::InflateBudget;
use super::tls::{Accepted, Acceptor};
use super::unread_replies::UnreadReplies;

/// A bound socket that is ready to serve.
#[derive(Debug)]
pub struct Server {
    config: Config,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Acceptor>>,
}

/// The tasks that serve connections. The accept loop owns them, so they need no lock.
#[derive(Default)]
struct ConnectionTasks {
    tasks: JoinSet<()>,
    open: HashMap<Id, (Arc<ConnectionPhase>, AbortHandle)>,
    /// The number of connections so far. The next connection gets the next number.
    opened: u64,
    /// The last connection was refused. The log reports this once, not for each connection.
    refusing: bool,
}

/// The shortest and the longest pause after a failed accept (no file descriptors left, say). The pause doubles in between.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

// === impl Server ===

impl Server {
    /// Reads the certificate, if one is configured, and binds the configured address. Port 0 picks a free port, which
    /// [`Server::config`] then shows.
    pub async fn bind(mut config: Config) -> io::Result<Self> {
        let tls = Acceptor::open(&config)
            .map_err(|problem| io::Error::other(format!("TLS: {problem}")))?;
        let listener = TcpListener::bind((config.bind, config.port))
            .await
            .map_err(|problem| {
                let address = SocketAddr::from((config.bind, config.port));
                io::Error::new(
                    problem.kind(),
                    format!("cannot listen on {address}: {problem}"),
                )
            })?;
        let address = listener.local_addr()?;
        config.port = address.port();
        Ok(Self {
            config,
            listener,
            address,
            tls,
        })
    }

    /// Returns the TLS acceptor, unless TLS is disabled.
    pub fn tls_acceptor(&self) -> Option<Arc<Acceptor>> {
        self.tls.clone()
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the settings, with the port that was actually bound.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Serves until `shutdown` completes, then stops accepting, lets running commands finish (for at most
    /// [`Config::shutdown_timeout`]) and closes everything. Returns the number of connections it abandoned because their
    /// commands were still running.
    pub async fn run<H: Handler>(
        self,
        handler: Arc<H>,
        shutdown: impl Future<Output = ()>,
    ) -> usize {
        if !self.address.ip().is_loopback() && self.config.accounts.is_open() {
            warn!(
                address = %self.address,
                "listening beyond this machine without any user: whoever reaches the port can read and change everything \
                 (--user NAME:PASSWORD or --auth keep them out)"
            );
        }
        let Self {
            config,
            listener,
            tls,
            ..
        } = self;
        let codec = Codec {
            compressors: config.compressors,
        };
        let (inflate_budget, unread_replies) = (InflateBudget::default(), UnreadReplies::default());
        let mut connections = ConnectionTasks::default();
        let mut pause = FIRST_PAUSE;
        tokio::pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = connections.tasks.join_next_with_id() => connections.ended(ended),
                (stream, address) = accept(&listener, &mut pause) => {
                    if connections.tasks.len() >= config.max_connections {
                        connections.refuse(address, config.max_connections);
                        handler.rejected();
                    } else {
                        connections.open((stream, address), tls.clone(), |peer, phase| ConnectionSetup {
                            handler: Arc::clone(&handler),
                            peer,
                            codec,
                            phase,
                            inflate_budget: inflate_budget.clone(),
                            unread_replies: unread_replies.clone(),
                        });
                    }
                }
            }
        }
        drop(listener);
        connections.drain(config.shutdown_timeout).await
    }
}

/// Returns the next connection. After an error it pauses and tries again.
async fn accept(listener: &TcpListener, pause: &mut Duration) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => {
                *pause = FIRST_PAUSE;
                return accepted;
            }
            // The client closed the connection before it was accepted: nothing is wrong here.
            Err(problem)
                if matches!(
                    problem.kind(),
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset
                ) => {}
            Err(problem) => {
                warn!(%problem, "cannot accept connections, trying again in {pause:?}");
                tokio::time::sleep(*pause).await;
                *pause = (*pause * 2).min(LONGEST_PAUSE);
            }
        }
    }
}

/// Serves a connection that may be encrypted. A server that shuts down does not wait for an unfinished handshake.
async fn enter<H: Handler>(
    tls: Arc<Acceptor>,
    mut setup: ConnectionSetup<H>,
    stream: TcpStream,
) -> ConnectionEnd {
    if !setup.phase.wait() {
        return ConnectionEnd::Closed;
    }
    let accepted = match tls.accept(stream).await {
        Ok(accepted) => accepted,
        Err(end) => return end,
    };
    if !setup.phase.work() {
        return ConnectionEnd::Closed;
    }
    match accepted {
        Accepted::Plain(stream, first) => {
            let connection = Connection::new(setup, stream);
            connection.with_input(&first).run().await
        }
        Accepted::Tls(version, stream) => {
            setup.peer.tls = Some(version);
            Connection::new(setup, *stream).run().await
        }
    }
}

// === impl ConnectionTasks ===

impl ConnectionTasks {
    fn open<H: Handler>(
        &mut self,
        (stream, address): (TcpStream, SocketAddr),
        tls: Option<Arc<Acceptor>>,
        setup: impl FnOnce(Peer, Arc<ConnectionPhase>) -> ConnectionSetup<H>,
    ) {
        self.refusing = false;
        self.opened += 1;
        let peer = Peer::plain(self.opened, address);
        // Without this, a small reply waits 40 ms for the acknowledgement of the previous one.
        if let Err(problem) = stream.set_nodelay(true) {
            debug!(connection = peer.id, %problem, "connection lost at once");
            return;
        }
        let phase = Arc::new(ConnectionPhase::new());
        let setup = setup(peer, Arc::clone(&phase));
        let task = self.tasks.spawn(async move {
            debug!(connection = peer.id, %address, "connection opened");
            let end = match tls {
                None => Connection::new(setup, stream).run().await,
                // Boxed, so that the task of a plain connection does not grow.
                Some(tls) => Box::pin(enter(tls, setup, stream)).await,
            };
            match end {
                ConnectionEnd::Closed => debug!(connection = peer.id, "connection closed"),
                ConnectionEnd::Lost(problem) => debug!(connection = peer.id, %problem, "connection lost"),
                ConnectionEnd::Hangup(reason) => {
                    info!(connection = peer.id, %address, %reason, "connection ended by the server");
                }
            }
        });
        self.open.insert(task.id(), (phase, task));
    }

    fn refuse(&mut self, address: SocketAddr, limit: usize) {
        if !self.refusing {
            warn!(%address, limit, "connection refused: too many are open");
        }
        self.refusing = true;
    }

    fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match ended {
            Ok((id, ())) => id,
            Err(problem) => {
                if problem.is_panic() {
                    error!(%problem, "a command panicked and its connection was closed; this is a bug");
                }
                problem.id()
            }
        };
        self.open.remove(&id);
    }

    async fn drain(mut self, limit: Duration) -> usize {
        for (phase, task) in self.open.values() {
            if phase.close() {
                task.abort();
            }
        }
        let all_ended = async {
            while let Some(ended) = self.tasks.join_next_with_id().await {
                self.open
                    .remove(&ended.map_or_else(|problem| problem.id(), |(id, ())| id));
            }
        };
        if tokio::time::timeout(limit, all_ended).await.is_ok() {
            return 0;
        }
        let running = self.tasks.len();
        warn!(running, "commands were still running and are abandoned");
        self.tasks.shutdown().await;
        running
    }
}
