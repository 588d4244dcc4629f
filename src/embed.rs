//! A whole server inside another program: a test, an example, `main.rs`.
//!
//! This is the one place where the rooms are put together: settings and a clock go in, sockets that answer come out.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::command::{Commands, Context};
use crate::config::Config;
use crate::handler::Handler;
use crate::server::Server;
use crate::storage::expiry::Reaper;

/// A running server. Stops when it is dropped, or in order with [`Sundown::stop`].
#[derive(Debug)]
pub struct Sundown {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<usize>,
}

/// What answers the requests, from settings whose port is the real one. Call it on the runtime that will serve.
pub fn handler(config: &Config, clock: Clock) -> Arc<impl Handler> {
    let context = Context::new(config.clone(), clock);
    tokio::spawn(keep_house(Arc::downgrade(&context)));
    tokio::spawn(Reaper::run(Arc::downgrade(&context.reaper)));
    Arc::new(Commands::new(context))
}

/// Once a minute: forgets the sessions and cursors that nobody uses, as long as the server lives.
async fn keep_house(context: Weak<Context>) {
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.tick().await;
    loop {
        minutes.tick().await;
        match context.upgrade() {
            Some(context) => context.minute(),
            None => return,
        }
    }
}

// === impl Sundown ===

impl Sundown {
    /// Binds the address and serves on the tokio runtime that this is called on.
    pub async fn start(config: Config, clock: Clock) -> io::Result<Self> {
        let server = Server::bind(config).await?;
        let address = server.local_addr();
        let handler = handler(server.config(), clock);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(server.run(handler, async {
            // A dropped sender means stop as well.
            let _ = stopped.await;
        }));
        Ok(Self {
            address,
            stop: Some(stop),
            task,
        })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// What a driver connects to.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.address)
    }

    /// Stops accepting, lets running commands finish, and closes everything. Returns how many connections were abandoned because
    /// their commands went on for too long.
    pub async fn stop(mut self) -> usize {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        (&mut self.task).await.unwrap_or_default()
    }
}
