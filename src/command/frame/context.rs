//! What all commands share.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use dashmap::DashMap;

use super::announced::AnnouncedCluster;
use super::client::{Client, ConnectionCounts};
use super::cluster_time;
use super::counters::Counters;
use super::operations::Operations;
use super::parameters::Parameters;
use super::system;
use super::system_collections::announce;
use super::usage::Usage;
use crate::auth::Users;
use crate::clock::{Clock, monotonic};
use crate::command::FailPoints;
use crate::command::hello::Monitors;
use crate::command::profile::Profiling;
use crate::config::{Config, ExpiryEventTime, OplogConfig, Topology};
use crate::cosmos::{Cosmos, strict};
use crate::engine::{Catalog, LogLimits, ObjectIds, Oplog, Reaper, SizeLimit};
use crate::query::Vars;
use crate::session::{Cursors, Idle, Sessions};
use crate::value::{Millis, Value};
use crate::wait::Permits;

/// Earlier versions of documents may take this many bytes before the oldest snapshots are closed.
const MAX_VERSIONS: usize = 1 << 30;

/// How many commands may write their rows at once, each on a thread of its own, where it may wait for a transaction. A transaction
/// may need such a thread itself (for a large statement), and the runtime has 512.
const WRITING_THREADS: usize = 128;

/// The state of one server. Commands get it by reference; work that continues a command holds a clone of the `Arc`.
pub struct Context {
    pub config: Config,
    pub clock: Clock,
    pub catalog: Arc<Catalog>,
    pub reaper: Arc<Reaper>,
    /// The oplog, if the server is a member of a replica set.
    pub oplog: Option<Arc<Oplog>>,
    /// Something has to be done before a command runs: see `attend` in [`super::dispatch`].
    pub(super) is_attentive: bool,
    /// Generates the `_id` of documents that come without one.
    pub ids: Arc<ObjectIds>,
    pub sessions: Sessions,
    pub cursors: Cursors,
    pub operations: Arc<Operations>,
    pub counters: Counters,
    /// How the collections are used. Read it with [`Context::usage`].
    pub(super) usage: Usage,
    pub parameters: Parameters,
    /// The bytes that one stage of a query may hold.
    pub query_memory: usize,
    pub profiling: Profiling,
    /// The users, and whether clients must log in.
    pub users: Users,
    /// The start of the server, for uptimes.
    pub started: Instant,
    /// Identifies this process in `topologyVersion`.
    pub process: [u8; 12],
    /// The connected clients, by connection number. Connections insert and remove themselves.
    pub clients: DashMap<u64, Arc<Client>, ahash::RandomState>,
    pub connections: ConnectionCounts,
    pub monitors: Monitors,
    /// The state of the features that Azure Cosmos DB adds to MongoDB.
    pub cosmos: Cosmos,
    /// The fail points that are set.
    pub fail_points: FailPoints,
    /// The cluster that holds the documents, if it is not this server.
    pub upstream: Option<Arc<dyn AnnouncedCluster>>,
    /// The threads on which rows are written.
    pub(super) writing_threads: Permits,
    /// Whether replies have a logical time.
    pub(super) tells_time: bool,
    idle: Idle,
}

// === impl Context ===

impl Context {
    pub fn new(config: Config, clock: Clock) -> Arc<Self> {
        Self::build(config, clock, None)
    }

    /// Creates the state of a server whose documents are in a cluster.
    pub fn in_front_of(
        upstream: Arc<dyn AnnouncedCluster>,
        config: Config,
        clock: Clock,
    ) -> Arc<Self> {
        Self::build(config, clock, Some(upstream))
    }

    fn build(
        config: Config,
        clock: Clock,
        upstream: Option<Arc<dyn AnnouncedCluster>>,
    ) -> Arc<Self> {
        let idle = Idle::default();
        let limit = config.cosmos.strict.then_some(SizeLimit {
            bytes: strict::MAX_DOCUMENT,
            refusal: strict::too_large,
        });
        let catalog = Arc::new(Catalog::with_clock(clock.clone()).with_limit(limit));
        keep_changes(&catalog, &config.oplog, clock.now());
        let oplog = matches!(config.topology, Topology::ReplicaSet { .. })
            .then(|| Oplog::create(&catalog, config.oplog.bytes, clock.now()));
        let reaper = Reaper::new(Arc::clone(&catalog), clock.clone());
        let parameters = Parameters::default();
        parameters.fix(
            "enableTestCommands",
            Value::boolean(config.enable_test_commands),
        );
        // The first reply has a logical time, too.
        catalog.time().tick(clock.now());
        if !config.snapshot_window.is_zero() {
            catalog.keep_past(config.snapshot_window, clock.now());
        }
        let context = Self {
            tells_time: cluster_time::is_told(&config.topology, upstream.is_some()),
            catalog,
            reaper,
            is_attentive: oplog.is_some() || config.oplog.expiry_events == ExpiryEventTime::Instant,
            oplog,
            ids: Arc::new(ObjectIds::new()),
            sessions: Sessions::new(idle.clone()),
            cursors: Cursors::new(idle.clone()),
            operations: Arc::default(),
            counters: Counters::default(),
            usage: Usage::default(),
            parameters,
            query_memory: config.max_query_memory.bytes(),
            profiling: Profiling::default(),
            users: Users::new(&config.accounts.list, config.accounts.required)
                .known_everywhere(config.cosmos.profile),
            started: monotonic(),
            process: bson::oid::ObjectId::new().bytes(),
            clients: DashMap::default(),
            connections: ConnectionCounts::default(),
            monitors: Monitors::default(),
            cosmos: Cosmos::new(
                config.cosmos.profile,
                config.cosmos.strict,
                config.cosmos.request_units.clone(),
            ),
            fail_points: FailPoints::default(),
            upstream,
            writing_threads: Permits::new(WRITING_THREADS),
            idle,
            config,
            clock,
        };
        announce(&context);
        Arc::new(context)
    }

    /// Aborts transactions that have lasted too long, and lets versions go that nobody may read any more. The server calls
    /// it every second.
    pub fn forget_what_is_over(&self) {
        let (now, window) = (self.clock.now(), self.config.snapshot_window);
        let aborted = self.sessions.abort_where(|info| info.expires <= now);
        // Those that a command uses end with it.
        let killed = self.operations.kill_where(|operation| {
            let transaction = operation.transaction;
            transaction.is_some_and(|info| info.expires <= now)
        });
        let counts = self.sessions.transactions();
        counts.passes.fetch_add(1, Ordering::Relaxed);
        counts
            .expired
            .fetch_add(aborted + killed, Ordering::Relaxed);
        self.limit_versions(MAX_VERSIONS);
        if self.sessions.transactions().has_some_ended() {
            // One that was aborted without a command of its own has left its cursors behind.
            let mut ended = self.cursors.transactions();
            ended.retain(|(session, number)| !self.sessions.has_transaction(session, *number));
            self.cursors.kill_where(|cursor| {
                let transaction = cursor.session.zip(cursor.transaction);
                transaction.is_some_and(|transaction| ended.contains(&transaction))
            });
        }
        if !window.is_zero() {
            self.catalog.keep_past(window, now);
        }
    }

    /// Closes the oldest snapshot if earlier versions take more than this. Its transactions are aborted, its commands and cursors
    /// are killed, and clients can no longer read as much of the past.
    fn limit_versions(&self, bytes: usize) {
        if self.catalog.earlier_bytes() <= bytes {
            return;
        }
        self.catalog.free_versions();
        let Some(oldest) = self.catalog.oldest_snapshot() else {
            return;
        };
        if self.catalog.earlier_bytes() <= bytes {
            return;
        }
        tracing::warn!(
            "earlier versions take more than {bytes} bytes: the oldest snapshot is closed"
        );
        if !self.config.snapshot_window.is_zero() {
            self.catalog.forget_past();
        }
        self.sessions.abort_where(|info| info.read_time == oldest);
        self.operations
            .kill_where(|operation| operation.read_time == Some(oldest));
        self.cursors.kill_where(|cursor| {
            let snapshot = cursor.snapshot.as_ref();
            snapshot.is_some_and(|snapshot| snapshot.time() == oldest)
        });
    }

    /// Removes sessions and cursors that are no longer used. The server calls it after each idle minute.
    pub fn sweep_idle(&self) {
        self.idle.tick();
        self.sessions.sweep();
        self.cursors.sweep();
        self.users.throttle.sweep(monotonic());
        self.cosmos.sweep(self.clock.now());
    }

    /// Returns what the expressions of a command that begins at `now` can read. A standalone has no cluster time.
    pub fn vars(&self, now: Millis) -> Vars {
        match self.config.topology {
            Topology::Standalone => Vars::at(now),
            _ => Vars::at(now).with_cluster_time(self.catalog.time().latest()),
        }
    }

    /// Returns the name of the machine, with the port. Reports say where they come from with it, as in mongod.
    pub fn machine(&self) -> String {
        format!("{}:{}", system::host_name(), self.config.port)
    }

    /// Returns the `HOST:PORT` under which others know the server.
    pub fn host(&self) -> String {
        match &self.config.topology {
            Topology::ReplicaSet {
                advertise: Some(host),
                ..
            } => host.clone(),
            _ => format!("localhost:{}", self.config.port),
        }
    }
}

/// Sets how many changes are kept for change streams, and from when on.
fn keep_changes(catalog: &Catalog, oplog: &OplogConfig, now: Millis) {
    let shared = catalog.shared();
    shared.log.set_limits(LogLimits {
        bytes: usize::try_from(oplog.bytes).unwrap_or(usize::MAX),
        age: oplog.window,
    });
    if oplog.expiry_events == ExpiryEventTime::Instant {
        shared.expiry_events.set_instant();
    }
    if oplog.from_start {
        catalog.start_recording(now);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::command::tests::server::{ask, server};
    use bson::doc;

    #[test]
    fn the_oldest_snapshot_is_closed_when_earlier_versions_take_too_much() {
        let mut server = server(Config {
            snapshot_window: Duration::from_secs(100),
            ..Config::default()
        });
        let documents: Vec<_> = (0..100).map(|n| doc! {"_id": n}).collect();
        ask(
            &mut server,
            doc! {"insert": "c", "documents": documents, "$db": "d"},
        );
        let read = |server: &mut _, options: bson::Document| {
            let mut find = doc! {"find": "c", "batchSize": 1, "$db": "d"};
            find.extend(options);
            ask(server, find)
        };
        let sessions = [bson::Uuid::new(), bson::Uuid::new()];
        let inside = |session: bson::Uuid| doc! {"lsid": {"id": session}, "txnNumber": 1_i64, "autocommit": false};
        let starts = |session| {
            let mut inside = inside(session);
            inside.insert("startTransaction", true);
            inside
        };
        let touch = |server: &mut _| {
            let update = doc! {"q": {}, "u": {"$inc": {"n": 1}}, "multi": true};
            ask(
                server,
                doc! {"update": "c", "updates": [update], "$db": "d"},
            )
        };
        // The window, a transaction, a cursor and another transaction read one after the other.
        read(&mut server, starts(sessions[0]));
        touch(&mut server);
        let opened = read(&mut server, doc! {"readConcern": {"level": "snapshot"}});
        let cursor = opened
            .get_document("cursor")
            .unwrap()
            .get_i64("id")
            .unwrap();
        touch(&mut server);
        read(&mut server, starts(sessions[1]));
        touch(&mut server);
        let context = Arc::clone(server.0.context());
        let state = |server: &mut _| {
            let more = doc! {"getMore": cursor, "collection": "c", "batchSize": 1, "$db": "d"};
            let replies = [
                read(server, inside(sessions[0])),
                ask(server, more),
                read(server, inside(sessions[1])),
            ];
            let code = |reply: bson::Document| reply.get_i32("code").unwrap_or_default();
            replies.map(code)
        };
        let bytes = context.catalog.earlier_bytes();
        context.limit_versions(bytes);
        assert_eq!(state(&mut server), [0, 0, 0], "there is room");
        let mut left = bytes;
        for expected in [[0, 0, 0], [251, 0, 0], [251, 43, 0], [251, 43, 251]] {
            context.limit_versions(left - 1);
            context.catalog.free_versions();
            left = context.catalog.earlier_bytes();
            assert_eq!(
                state(&mut server),
                expected,
                "{left} of {bytes} bytes are left"
            );
        }
        assert_eq!(left, 0);
    }

    #[test]
    fn a_standalone_has_no_cluster_time() {
        let commands = [
            doc! {"find": "c", "filter": {"$expr": {"$gt": ["$$CLUSTER_TIME", 0]}}, "$db": "d"},
            doc! {"aggregate": "c", "pipeline": [{"$project": {"t": "$$CLUSTER_TIME"}}], "cursor": {}, "$db": "d"},
            doc! {"findAndModify": "c", "query": {}, "update": [{"$set": {"t": "$$CLUSTER_TIME"}}], "$db": "d"},
            doc! {"update": "c", "updates": [{"q": {}, "u": [{"$set": {"t": "$$CLUSTER_TIME"}}]}], "$db": "d"},
        ];
        for (topology, code) in [
            (Topology::Standalone, Some(10_071_200)),
            (Topology::Router, None),
        ] {
            let mut server = server(Config {
                topology,
                ..Config::default()
            });
            ask(
                &mut server,
                doc! {"insert": "c", "documents": [{"_id": 1}], "$db": "d"},
            );
            for command in &commands {
                let reply = ask(&mut server, command.clone());
                let errors = reply.get_array("writeErrors").ok();
                let error = errors
                    .and_then(|errors| errors.first()?.as_document())
                    .unwrap_or(&reply);
                assert_eq!(error.get_i32("code").ok(), code, "{command}: {reply}");
            }
        }
    }

    /// The time moves with every write.
    #[test]
    fn cluster_time_is_that_of_the_latest_write() {
        let mut server = server(Config {
            topology: Topology::Router,
            ..Config::default()
        });
        let mut last = None;
        for id in 0..3 {
            ask(
                &mut server,
                doc! {"insert": "c", "documents": [{"_id": id}], "$db": "d"},
            );
            let read = ask(
                &mut server,
                doc! {"aggregate": 1, "pipeline": [{"$documents": [{"t": "$$CLUSTER_TIME"}]}], "cursor": {}, "$db": "d"},
            );
            let rows = read
                .get_document("cursor")
                .and_then(|cursor| cursor.get_array("firstBatch"));
            let time = rows.unwrap()[0]
                .as_document()
                .unwrap()
                .get_timestamp("t")
                .unwrap();
            assert!(last < Some(time), "{last:?} {time:?}");
            last = Some(time);
        }
    }
}
