//! Every setting: name, default, unit, environment variable.

use std::net::{IpAddr, Ipv4Addr};

/// How the server is set up. `main.rs` fills it from arguments and environment; a test writes it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The address to listen on (`--bind`, `SUNDOWN_BIND`).
    pub bind: IpAddr,
    /// The port to listen on; 0 picks a free one (`--port`, `SUNDOWN_PORT`).
    pub port: u16,
    /// How many connections may be open at once (`--max-connections`, `SUNDOWN_MAX_CONNECTIONS`).
    pub max_connections: usize,
    /// Threads that serve; 0 means one per core (`--workers`, `SUNDOWN_WORKERS`).
    pub workers: usize,
    /// What the server announces itself as (`--replica-set`, `--standalone`).
    pub topology: Topology,
    /// `_ts` stands in every document that is read (`--expose-ts`, `SUNDOWN_EXPOSE_TS`).
    pub expose_ts: bool,
    /// `timeTravel` and other commands for tests are allowed (`--enable-test-commands`, `SUNDOWN_ENABLE_TEST_COMMANDS`).
    pub enable_test_commands: bool,
    /// Which events are logged, as a `tracing` filter (`--log`, `SUNDOWN_LOG`).
    pub log: String,
    /// How they are written (`--log-format`, `SUNDOWN_LOG_FORMAT`).
    pub log_format: LogFormat,
}

/// What a driver takes the server for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Topology {
    /// A router: drivers use sessions and retryable writes and never dial an advertised name.
    #[default]
    Router,
    /// The only member of a replica set.
    ReplicaSet {
        name: String,
        /// `HOST:PORT` that drivers dial; localhost and the port where it is left out.
        advertise: Option<String>,
    },
    Standalone,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 27017,
            max_connections: 10_000,
            workers: 0,
            topology: Topology::Router,
            expose_ts: false,
            enable_test_commands: false,
            log: "info".into(),
            log_format: LogFormat::Text,
        }
    }
}
