//! A complete server inside another program: a test, an example, `main.rs`.
//!
//! This is the only file that connects all modules: it takes settings and a clock, and returns a server that answers.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::command::{Commands, Context};
use crate::config::Config;
use crate::server::Server;
use crate::storage::expiry::Reaper;
use crate::upstream::{Cluster, Proxy};

/// A running server. Dropping it starts the shutdown; [`Sundown::stop`] also waits until the shutdown is complete.
#[derive(Debug)]
pub struct Sundown {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<usize>,
}

/// What answers the requests of a server: the engine in memory, or a cluster.
pub enum Backend {
    Memory(Arc<Commands>),
    Cluster(Arc<Proxy>),
}

/// Creates the handler that answers requests from memory.
fn in_memory(config: &Config, clock: Clock) -> Arc<Commands> {
    let context = Context::new(config.clone(), clock);
    tokio::spawn(sweep_idle_every_minute(Arc::downgrade(&context)));
    tokio::spawn(forget_every_second(Arc::downgrade(&context)));
    tokio::spawn(Reaper::run(Arc::downgrade(&context.reaper)));
    Arc::new(Commands::new(context))
}

/// Removes unused sessions and cursors once a minute, as long as the server lives.
async fn sweep_idle_every_minute(context: Weak<Context>) {
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.tick().await;
    loop {
        minutes.tick().await;
        match context.upgrade() {
            Some(context) => context.sweep_idle(),
            None => return,
        }
    }
}

/// Aborts transactions that have lasted too long, and lets versions go that are too old, as long as the server lives.
async fn forget_every_second(context: Weak<Context>) {
    let mut seconds = tokio::time::interval(Duration::from_secs(1));
    loop {
        seconds.tick().await;
        match context.upgrade() {
            Some(context) => context.forget_what_is_over(),
            None => return,
        }
    }
}

// === impl Backend ===

impl Backend {
    /// Opens what the settings ask for. They must contain the real port. Call it on the runtime that will
    /// serve. The error is a message for the operator.
    pub async fn open(config: &Config, clock: Clock) -> Result<Self, String> {
        let Some(upstream) = &config.upstream else {
            return Ok(Self::Memory(in_memory(config, clock)));
        };
        let cluster = Cluster::open(upstream).await?;
        let proxy = Proxy::new(Arc::new(cluster), config, clock);
        tokio::spawn(sweep_idle_every_minute(Arc::downgrade(proxy.context())));
        Ok(Self::Cluster(Arc::new(proxy)))
    }

    /// Serves until `stopped`. Returns the number of connections that it abandoned because their commands ran too long.
    pub async fn serve(self, server: Server, stopped: impl Future<Output = ()>) -> usize {
        match self {
            Self::Memory(handler) => server.run(handler, stopped).await,
            Self::Cluster(handler) => server.run(handler, stopped).await,
        }
    }
}

// === impl Sundown ===

impl Sundown {
    /// Binds the address and serves on the current tokio runtime.
    pub async fn start(config: Config, clock: Clock) -> io::Result<Self> {
        let server = Server::bind(config).await?;
        let address = server.local_addr();
        let backend = Backend::open(server.config(), clock)
            .await
            .map_err(io::Error::other)?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(backend.serve(server, async {
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

    /// Returns the connection string for drivers.
    pub fn uri(&self) -> String {
        format!("mongodb://{}/", self.address)
    }

    /// Stops accepting, lets running commands finish, and closes everything. Returns the number of connections that it
    /// abandoned because their commands ran too long.
    pub async fn stop(mut self) -> usize {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
        (&mut self.task).await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Millis;
    use bson::{Document, doc};
    use mongodb::Client;
    use mongodb::error::ErrorKind;
    use parking_lot::Mutex;

    /// Everything that is logged.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Starts a server on a socket and connects a driver to it.
    async fn serve() -> (Arc<Context>, Client) {
        let config = Config {
            port: 0,
            ..Config::default()
        };
        let server = Server::bind(config).await.unwrap();
        let uri = format!("mongodb://{}/", server.local_addr());
        let context = Context::new(server.config().clone(), Clock::frozen(Millis(1_000_000)));
        let handler = Arc::new(Commands::new(Arc::clone(&context)));
        tokio::spawn(server.run(handler, std::future::pending()));
        (context, Client::with_uri_str(uri).await.unwrap())
    }

    const CLOSED: &str = "the collection db.c is closed because a write to it failed half-way";

    /// Runs on one thread, so that the log contains this server only.
    #[tokio::test]
    async fn a_write_that_panics_costs_its_connection_and_its_collection_and_nothing_else() {
        let log = Log::default();
        let kept = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || kept.clone());
        let _logging = tracing::subscriber::set_default(subscriber.finish());
        // `tracing` remembers for each event whether a subscriber wants it. With a single subscriber it asks only that of
        // the thread which reaches the event first, and in other tests that thread has none. With two subscribers it asks
        // both.
        let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());

        let (context, client) = serve().await;
        let db = client.database("db");
        let run = |command: Document| db.run_command(command);

        for name in ["c", "other"] {
            let insert = doc! {"insert": name, "documents": [{"_id": 1}, {"_id": 2}]};
            run(insert).await.unwrap();
        }
        let collection = context.catalog.get("db", "c").unwrap().unwrap();
        collection.panic_half_way();
        // The command itself gets no reply, and its connection is closed.
        let update = doc! {"update": "c", "updates": [{"q": {"_id": 1}, "u": {"$set": {"a": 1}}}]};
        let error = run(update).await.unwrap_err();
        assert!(matches!(&*error.kind, ErrorKind::Io(_)), "{error}");
        // Later commands on the collection get an error.
        for command in [
            doc! {"find": "c"},
            doc! {"find": "c", "filter": {"_id": 2}},
            doc! {"count": "c"},
            doc! {"aggregate": "other", "pipeline": [{"$lookup": {
                "from": "c", "localField": "_id", "foreignField": "_id", "as": "found",
            }}], "cursor": {}},
            doc! {"aggregate": "other", "pipeline": [{"$out": "c"}], "cursor": {}},
            doc! {"delete": "c", "deletes": [{"q": {}, "limit": 0}]},
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
            doc! {"collMod": "c", "defaultTtl": 5},
            doc! {"create": "c"},
        ] {
            let said = match run(command.clone()).await {
                Ok(reply) => reply.to_string(),
                Err(error) => error.to_string(),
            };
            assert!(said.contains(CLOSED), "{command}: {said}");
        }
        // Other collections work, and this one works again after a drop.
        let found = run(doc! {"count": "other"}).await.unwrap();
        assert_eq!(found.get_i32("n").unwrap(), 2);
        run(doc! {"drop": "c"}).await.unwrap();
        run(doc! {"insert": "c", "documents": [{"_id": 1}]})
            .await
            .unwrap();
        let log = String::from_utf8(log.0.lock().clone()).unwrap();
        for line in [
            "a write failed half-way: the collection is closed and must be dropped collection=db.c",
            "a command panicked and its connection was closed",
        ] {
            assert!(log.contains(line), "{log}");
        }
    }

    /// A driver retries a write when its connection was closed.
    #[tokio::test]
    async fn a_driver_that_repeats_a_write_that_panicked_is_told_why_it_fails() {
        let (context, client) = serve().await;
        let documents = client.database("db").collection::<Document>("c");
        documents.insert_one(doc! {"_id": 1}).await.unwrap();
        let collection = context.catalog.get("db", "c").unwrap().unwrap();
        collection.panic_half_way();
        let error = documents.insert_one(doc! {"_id": 2}).await.unwrap_err();
        assert!(error.to_string().contains(CLOSED), "{error}");
    }
}
