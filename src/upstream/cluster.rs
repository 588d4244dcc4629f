//! The cluster as the driver sees it: which node takes commands now, and what kind of cluster it is.
//!
//! The driver discovers and monitors the cluster. Its events end up in one [`ClusterState`], which everything else reads.
//! All data connections go to one node: the primary, the standalone, or one of the routers. Drivers use several pooled
//! connections for one session or cursor, so these must meet again on one node.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bson::{Bson, Document, doc};
use bytes::Bytes;
use mongodb::error::ErrorKind;
use mongodb::event::EventHandler;
use mongodb::event::sdam::{SdamEvent, TopologyDescription, TopologyType};
use mongodb::options::{ClientOptions, ServerAddress};
use mongodb::{Client, ServerType};
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{info, warn};

use super::Term;
use super::dial::Dialer;
use super::link::Link;
use crate::clock::monotonic;
use crate::config::{Topology, UpstreamConfig, UpstreamLogin};
use crate::error::{Code, Error};
use crate::value::{Doc, DocBuf};
use crate::wire::Request;

pub struct Cluster {
    client: Client,
    dialer: Dialer,
    state: Arc<watch::Sender<ClusterState>>,
    /// The generation of the node that takes commands now, or 0: part of `state`, for every command to compare.
    current: Arc<AtomicU64>,
    /// Counts the [`Term`]s.
    terms: Arc<AtomicU64>,
    greeted: Mutex<Greeted>,
    /// Whether the connection string names a user.
    has_user: bool,
    /// How long a command waits for a node that can take it.
    pub selection_timeout: Duration,
}

/// What is known of the cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterState {
    /// The node that takes commands now.
    pub node: Option<Arc<ClusterNode>>,
    /// What the cluster was when a node could last take commands.
    pub kind: Option<ClusterKind>,
    /// Changes are logged. At the start they are not: if the cluster refuses the login, that is all there is to tell.
    is_logged: bool,
    /// How often the node has changed. The first node has number 1.
    generation: u64,
}

/// A node that takes commands. A new primary, and a primary that comes back, is a new node.
#[derive(Debug, PartialEq, Eq)]
pub struct ClusterNode {
    pub address: ServerAddress,
    pub kind: ServerType,
    pub generation: u64,
}

/// What clients are told about the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterKind {
    /// A standalone is announced as a standalone. Everything else is announced as a router, so that drivers never connect to
    /// the members themselves.
    pub topology: Topology,
    pub min_wire_version: i32,
    pub max_wire_version: i32,
}

/// What the node said of itself when a data connection was last opened.
#[derive(Default)]
struct Greeted {
    generation: u64,
    /// Its `topologyVersion`: another process has another one, and so has a node that was no primary meanwhile.
    version: DocBuf,
}

/// The driver's default.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(30);

// === impl Cluster ===

impl Cluster {
    /// Looks for the cluster and logs in. If the cluster is not there yet, it is looked for in the background. The error is a
    /// message for the operator.
    pub async fn open(upstream: &UpstreamConfig) -> Result<Self, String> {
        let cluster = Self::new(upstream).await?;
        let status = doc! {"connectionStatus": 1};
        let admin = cluster.client.database("admin");
        let asked = tokio::time::timeout(upstream.start_timeout, admin.run_command(status)).await;
        let problem = match asked {
            Ok(Ok(_)) => {
                cluster.check_rights(upstream).await?;
                cluster.begin_log();
                return Ok(cluster);
            }
            Ok(Err(problem)) if is_refused(&problem) => {
                return Err(format!(
                    "--upstream {}: the login is refused: {}",
                    upstream.uri, problem.kind
                ));
            }
            Ok(Err(problem)) => problem.kind.to_string(),
            Err(_) => "no node takes commands".to_owned(),
        };
        if upstream.required {
            return Err(format!("--upstream {}: {problem}", upstream.uri));
        }
        warn!(cluster = %upstream.uri, problem, "upstream: the cluster cannot be reached yet");
        cluster.begin_log();
        Ok(cluster)
    }

    /// Logs which node takes commands, and every change from now on.
    fn begin_log(&self) {
        self.state.send_modify(|state| {
            state.is_logged = true;
            if state.node.is_some() {
                state.log();
            }
        });
    }

    /// Refuses to pass the clients' logins on if Sundown itself may not do anything: it keeps settings in the cluster.
    async fn check_rights(&self, upstream: &UpstreamConfig) -> Result<(), String> {
        if upstream.login == UpstreamLogin::Own || self.has_user {
            return Ok(());
        }
        match self.client.list_database_names().await {
            Err(problem) if is_refused(&problem) => Err(format!(
                "--upstream {}: the cluster asks for a login. Sundown needs a user of its own in the URI, also with \
                 --upstream-login clients",
                upstream.uri
            )),
            _ => Ok(()),
        }
    }

    async fn new(upstream: &UpstreamConfig) -> Result<Self, String> {
        upstream.uri.check()?;
        let mut options = ClientOptions::parse(upstream.uri.with_secrets())
            .await
            .map_err(|problem| format!("--upstream {}: {}", upstream.uri, problem.kind))?;
        let dialer = Dialer::new(&options, upstream.login)
            .map_err(|problem| format!("--upstream {}: {problem}", upstream.uri))?;
        let state = Arc::new(watch::Sender::new(ClusterState::default()));
        let followed = Arc::clone(&state);
        options.app_name.get_or_insert_with(|| "sundown".into());
        let current = Arc::new(AtomicU64::new(0));
        let follower = Arc::clone(&current);
        let terms = Arc::new(AtomicU64::new(0));
        let ended = Arc::clone(&terms);
        options.sdam_event_handler = Some(EventHandler::callback(move |event| {
            if let SdamEvent::TopologyDescriptionChanged(event) = event {
                let roles = roles_of(&event.new_description);
                let same_roles = roles == roles_of(&event.previous_description);
                followed.send_if_modified(|state| {
                    let changed = state.follow(&event.new_description);
                    if changed {
                        state.log();
                    }
                    if changed || !same_roles {
                        // Before anyone can reach the new node.
                        ended.fetch_add(1, Ordering::AcqRel);
                    }
                    let node = state.node.as_ref();
                    follower.store(node.map_or(0, |node| node.generation), Ordering::Release);
                    changed
                });
            }
        }));
        let selection_timeout = options
            .server_selection_timeout
            .unwrap_or(SELECTION_TIMEOUT);
        let has_user = options.credential.is_some();
        let client = Client::with_options(options)
            .map_err(|problem| format!("--upstream {}: {}", upstream.uri, problem.kind))?;
        Ok(Self {
            client,
            dialer,
            state,
            current,
            terms,
            greeted: Mutex::default(),
            has_user,
            selection_timeout,
        })
    }

    /// The driver, logged in as the user of the connection string.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs a command with the rights of the user in the connection string.
    pub async fn run(&self, request: &Request) -> Result<Bytes, Error> {
        let told = |problem: &dyn std::fmt::Display| {
            Error::new(
                Code::HostUnreachable,
                format!("the cluster cannot be asked: {problem}"),
            )
        };
        let command = Document::from_reader(request.body().bytes());
        let mut command = command.map_err(|problem| told(&problem))?;
        let database = match command.remove("$db") {
            Some(Bson::String(name)) => name,
            _ => return Err(Error::missing_field("", "$db")),
        };
        let ran = self.client.database(&database).run_command(command).await;
        let reply = ran.map_err(|problem| match &*problem.kind {
            ErrorKind::Command(refused) => {
                Error::new(Code::numbered(refused.code), refused.message.clone())
            }
            kind => told(kind),
        })?;
        Ok(DocBuf::from(&reply).into_bytes().into())
    }

    pub fn state(&self) -> ClusterState {
        self.state.borrow().clone()
    }

    /// Returns whether the node takes commands now.
    #[inline]
    pub fn is_current(&self, node: &ClusterNode) -> bool {
        self.current.load(Ordering::Acquire) == node.generation
    }

    /// Returns the current term.
    #[inline]
    pub fn term(&self) -> Term {
        Term(self.terms.load(Ordering::Acquire))
    }

    /// Ends the current term: the node has refused a command, or a connection to it broke.
    pub fn end_term(&self) {
        self.terms.fetch_add(1, Ordering::AcqRel);
    }

    /// Waits for a node that takes commands.
    pub async fn node(&self, deadline: Instant) -> Result<Arc<ClusterNode>, Error> {
        let mut state = self.state.subscribe();
        let found = async {
            let found = state.wait_for(|state| state.node.is_some()).await;
            found.ok().and_then(|state| state.node.clone())
        };
        match tokio::time::timeout_at(deadline.into(), found).await {
            Ok(Some(node)) => Ok(node),
            _ => Err(no_node()),
        }
    }

    /// Waits until another node takes commands, or for this long.
    pub async fn node_changes(&self, from: &ClusterNode, at_most: Duration) {
        let mut state = self.state.subscribe();
        let other = state.wait_for(|state| {
            let node = state.node.as_deref();
            node.is_some_and(|node| node.generation != from.generation)
        });
        let _ = tokio::time::timeout(at_most, other).await;
    }

    /// Opens a data connection to the node that takes commands.
    pub async fn dial(&self, deadline: Instant) -> Result<Link, Error> {
        loop {
            let node = self.node(deadline).await?;
            let patience = deadline.saturating_duration_since(monotonic());
            match self.dialer.dial(&node, patience).await {
                Ok(link) => {
                    if self.greeted.lock().is_another(&node, link.version()) {
                        self.end_term();
                    }
                    return Ok(link);
                }
                Err(refused) if refused.is_final => return Err(refused.error),
                Err(refused) => {
                    if monotonic() >= deadline {
                        return Err(refused.error);
                    }
                    // The driver notices soon that the node has gone. Until then, do not spin.
                    self.node_changes(&node, RETRY_DIAL).await;
                }
            }
        }
    }
}

/// Returns what each node is. A node that stops being the primary for a moment may have lost writes, also if it is the only one
/// that the connection string names.
fn roles_of(topology: &TopologyDescription) -> Vec<(String, ServerType)> {
    let servers = topology.servers().into_values();
    let mut roles: Vec<_> = servers
        .map(|server| (server.address().to_string(), server.server_type()))
        .collect();
    roles.sort_by(|a, b| a.0.cmp(&b.0));
    roles
}

/// Returns whether the cluster has refused a login or a command for lack of rights.
fn is_refused(problem: &mongodb::error::Error) -> bool {
    match &*problem.kind {
        ErrorKind::Authentication { .. } => true,
        ErrorKind::Command(error) => [13, 18].contains(&error.code),
        _ => false,
    }
}

/// A node that refuses connections is dialed again after this time.
const RETRY_DIAL: Duration = Duration::from_millis(50);

/// The error of a router that finds no primary.
fn no_node() -> Error {
    Error::new(
        Code::FailedToSatisfyReadPreference,
        "Could not find host matching read preference { mode: \"primary\" } in the upstream cluster",
    )
}

// === impl Greeted ===

impl Greeted {
    /// Returns whether the node has been started again, or has stopped being the primary, since it was last greeted.
    ///
    /// The connections from before would show it, too, and so would the driver's, but not if the machine has gone without
    /// closing them: then they show it only when somebody uses them.
    fn is_another(&mut self, node: &ClusterNode, version: Doc<'_>) -> bool {
        if self.generation == node.generation && self.version.as_doc() == version {
            return false;
        }
        let is_another = self.generation == node.generation;
        *self = Self {
            generation: node.generation,
            version: DocBuf::from(version),
        };
        is_another
    }
}

// === impl ClusterState ===

impl ClusterState {
    /// Takes over what the driver has found out. Returns whether the node has changed.
    fn follow(&mut self, topology: &TopologyDescription) -> bool {
        let servers = topology.servers();
        let takes_commands = |kind: ServerType| match topology.topology_type() {
            TopologyType::ReplicaSetWithPrimary => kind == ServerType::RsPrimary,
            TopologyType::Sharded => kind == ServerType::Mongos,
            TopologyType::Single => kind != ServerType::Unknown,
            _ => false,
        };
        let mut candidates: Vec<_> = servers
            .values()
            .filter(|server| takes_commands(server.server_type()))
            .collect();
        candidates.sort_by_key(|server| server.address().to_string());
        // A router stays chosen as long as it is there.
        let before = self.node.as_ref().map(|node| node.address.clone());
        let chosen = candidates
            .iter()
            .find(|server| Some(server.address()) == before.as_ref())
            .or(candidates.first());
        let Some(server) = chosen else {
            self.node = None;
            return before.is_some();
        };
        self.kind = Some(ClusterKind {
            topology: match server.server_type() {
                ServerType::Standalone => Topology::Standalone,
                _ => Topology::Router,
            },
            min_wire_version: server.min_wire_version().unwrap_or_default(),
            max_wire_version: server.max_wire_version().unwrap_or_default(),
        });
        if before.as_ref() == Some(server.address()) {
            return false;
        }
        self.generation += 1;
        self.node = Some(Arc::new(ClusterNode {
            address: server.address().clone(),
            kind: server.server_type(),
            generation: self.generation,
        }));
        true
    }

    fn log(&self) {
        match &self.node {
            _ if !self.is_logged => {}
            Some(node) => {
                info!(node = %node.address, kind = ?node.kind, "upstream: this node takes commands");
            }
            None => warn!("upstream: no node takes commands"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_started_again_is_another() {
        let mut greeted = Greeted::default();
        let mut is_another = |generation, process: i32| {
            let address = ServerAddress::Tcp {
                host: "a".into(),
                port: None,
            };
            let version = DocBuf::from(doc! {"processId": process, "counter": 6_i64});
            let node = ClusterNode {
                address,
                kind: ServerType::RsPrimary,
                generation,
            };
            greeted.is_another(&node, version.as_doc())
        };
        assert!(!is_another(1, 1), "nothing was seen of it before");
        assert!(!is_another(1, 1));
        assert!(is_another(1, 2));
        assert!(!is_another(1, 2));
        // The term of the node before is over already.
        assert!(!is_another(2, 3));
        assert!(is_another(2, 4));
    }
}
