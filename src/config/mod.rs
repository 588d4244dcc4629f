//! All settings: name, default, unit, environment variable.
//!
//! [`Settings`] is what a user writes, as arguments or in the environment. [`Config`] is what the other modules read. The
//! two are separate because some settings depend on each other: the conversion checks them. The table of settings
//! ([`table`]) is shown in the README, and a test keeps the two in step. Settings that belong together have a file of their
//! own, with the group of arguments and its result. This module only reads settings; it starts nothing.

mod cosmos;
mod memory;
mod oplog;
mod tls;
mod topology;
mod upstream;
mod users;

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, CommandFactory, ValueEnum};

use crate::wire::Compressors;

pub use cosmos::CosmosConfig;
pub use memory::QueryMemory;
pub use oplog::{ExpiryEventTime, OplogConfig};
pub use tls::{Identity, Tls, TlsMode};
pub use topology::Topology;
pub use upstream::{ClusterUri, UpstreamConfig, UpstreamLogin};
pub use users::Accounts;

/// The configuration of a server. `main.rs` fills it from arguments and environment; a test writes it directly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The address to listen on.
    pub bind: IpAddr,
    /// The port to listen on; 0 picks a free one.
    pub port: u16,
    /// The maximum number of open connections.
    pub max_connections: usize,
    /// The number of runtime threads; 0 means one per core.
    pub workers: usize,
    /// How long running commands may take to finish at shutdown. No option sets this; tests raise it.
    pub shutdown_timeout: Duration,
    /// The most memory that one stage of a query may hold.
    pub max_query_memory: QueryMemory,
    /// The changes that are kept for change streams.
    pub oplog: OplogConfig,
    /// How long earlier versions of documents are kept for reads of the past.
    pub snapshot_window: Duration,
    /// The compressors that clients may use.
    pub compressors: Compressors,
    /// How connections are encrypted.
    pub tls: Tls,
    /// What the server announces itself as.
    pub topology: Topology,
    /// The users that may log in.
    pub accounts: Accounts,
    /// The features of Azure Cosmos DB.
    pub cosmos: CosmosConfig,
    /// The cluster that holds the documents; `None` if they are in memory.
    pub upstream: Option<UpstreamConfig>,
    /// Show `_ts` in every document that is read.
    pub expose_ts: bool,
    /// Allow `timeTravel` and other commands for tests.
    pub enable_test_commands: bool,
    /// Never look up or compute a write while its collection is locked exclusively. Only tests set this, to compare both
    /// ways.
    pub writes_outside_lock: bool,
    /// The events that are logged, as a `tracing` filter.
    pub log: String,
    /// The format of log lines.
    pub log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The settings as they are written: each one as an option or as an environment variable, the option first.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// The address to listen on
    #[arg(long, env = "SUNDOWN_BIND", value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,

    /// The port to listen on; 0 picks a free one [default: 27017, with --cosmos 10255]
    #[arg(long, env = "SUNDOWN_PORT")]
    port: Option<u16>,

    /// Maximum number of open connections; more are refused
    #[arg(long, env = "SUNDOWN_MAX_CONNECTIONS", value_name = "COUNT", default_value_t = 10_000,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    max_connections: usize,

    /// Threads that serve requests; 0 means one per core
    #[arg(long, env = "SUNDOWN_WORKERS", value_name = "COUNT", default_value_t = 0,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(..=1024))]
    workers: usize,

    /// Memory that a sort, a $group or another stage of a query may use, in bytes or as in 512M and 2G; 0 means a quarter of
    /// the machine's memory
    #[arg(
        long,
        env = "SUNDOWN_MAX_QUERY_MEMORY",
        value_name = "SIZE",
        default_value = "0"
    )]
    max_query_memory: QueryMemory,

    #[command(flatten)]
    oplog: oplog::OplogArguments,

    /// Keep earlier versions of documents for this many seconds, for reads with atClusterTime; without it they are kept while a
    /// snapshot needs them
    #[arg(
        long,
        env = "SUNDOWN_SNAPSHOT_WINDOW",
        value_name = "SECONDS",
        default_value_t = 0
    )]
    snapshot_window: u32,

    /// Compressors that clients may use: snappy, zstd and zlib, separated by commas, or disabled
    #[arg(long, env = "SUNDOWN_COMPRESSORS", value_name = "NAMES", default_value_t = Compressors::ALL)]
    compressors: Compressors,

    #[command(flatten)]
    tls: tls::TlsArguments,

    #[command(flatten)]
    topology: topology::TopologyArguments,

    #[command(flatten)]
    users: users::UserArguments,

    #[command(flatten)]
    cosmos: cosmos::CosmosArguments,

    #[command(flatten)]
    upstream: upstream::UpstreamArguments,

    /// Show the field _ts, the second of the last write, in every document that is read
    #[arg(long, env = "SUNDOWN_EXPOSE_TS", value_parser = BoolishValueParser::new())]
    expose_ts: bool,

    /// Allow timeTravel and other commands for tests
    #[arg(long, env = "SUNDOWN_ENABLE_TEST_COMMANDS", value_parser = BoolishValueParser::new())]
    enable_test_commands: bool,

    /// What to log to standard error: error, warn, info, debug, trace or off, also per module (info,sundown::server=debug)
    #[arg(
        long,
        env = "SUNDOWN_LOG",
        value_name = "FILTER",
        default_value = "info",
        value_parser = log_filter
    )]
    log: String,

    /// The format of log lines: text or json
    #[arg(long, env = "SUNDOWN_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// One row of the table of settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The option as on the command line: `--port`.
    pub name: String,
    pub env: String,
    /// Empty if there is no default.
    pub default: String,
    pub help: String,
}

const PORT: u16 = 27017;

const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the port of a server without a `--port` option.
pub fn usual_port(cosmos: bool) -> u16 {
    if cosmos { CosmosConfig::PORT } else { PORT }
}

/// Returns all settings, in the order of the help text. They are derived from the definitions above, so they cannot lag
/// behind.
pub fn table() -> Vec<Setting> {
    #[derive(clap::Parser)]
    struct Whole {
        #[command(flatten)]
        _settings: Settings,
    }
    let text = |values: &[clap::builder::OsStr]| {
        let values: Vec<_> = values.iter().map(|value| value.to_string_lossy()).collect();
        values.join(",")
    };
    Whole::command()
        .get_arguments()
        .map(|arg| Setting {
            name: format!("--{}", arg.get_long().unwrap_or_default()),
            env: arg
                .get_env()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            default: if arg.get_action().takes_values() {
                text(arg.get_default_values())
            } else {
                String::new()
            },
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
        })
        .collect()
}

// === impl Config ===

impl Default for Config {
    fn default() -> Self {
        Self {
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: PORT,
            max_connections: 10_000,
            workers: 0,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            max_query_memory: QueryMemory::default(),
            oplog: OplogConfig::default(),
            snapshot_window: Duration::ZERO,
            compressors: Compressors::ALL,
            tls: Tls::default(),
            topology: Topology::Router,
            accounts: Accounts::default(),
            cosmos: CosmosConfig::default(),
            upstream: None,
            expose_ts: false,
            enable_test_commands: false,
            writes_outside_lock: false,
            log: "info".into(),
            log_format: LogFormat::Text,
        }
    }
}

impl TryFrom<Settings> for Config {
    /// A message for the user about a wrong combination of settings.
    type Error = String;

    fn try_from(settings: Settings) -> Result<Self, String> {
        let cosmos = CosmosConfig::from(settings.cosmos);
        let (tls, set) = match cosmos.profile {
            true => (TlsMode::Optional, Some(CosmosConfig::REPLICA_SET)),
            false => (TlsMode::Disabled, None),
        };
        let topology = settings.topology.resolve(set)?;
        let upstream = settings.upstream.resolve()?;
        if upstream.is_some() {
            check_with_upstream(&topology, &cosmos)?;
        }
        Ok(Self {
            topology,
            accounts: settings.users.resolve(cosmos.profile)?,
            bind: settings.bind,
            port: settings.port.unwrap_or(usual_port(cosmos.profile)),
            max_connections: settings.max_connections,
            workers: settings.workers,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            max_query_memory: settings.max_query_memory,
            oplog: settings.oplog.into(),
            snapshot_window: Duration::from_secs(settings.snapshot_window.into()),
            compressors: settings.compressors,
            tls: settings.tls.resolve(tls)?,
            cosmos,
            upstream,
            expose_ts: settings.expose_ts,
            enable_test_commands: settings.enable_test_commands,
            writes_outside_lock: false,
            log: settings.log,
            log_format: settings.log_format,
        })
    }
}

/// Refuses settings that have no meaning if a cluster answers.
fn check_with_upstream(topology: &Topology, cosmos: &CosmosConfig) -> Result<(), String> {
    if *cosmos != CosmosConfig::default() {
        return Err(
            "--upstream works without the features of Azure Cosmos DB: --cosmos, --strict and --request-units are for \
             documents in memory"
                .into(),
        );
    }
    match topology {
        Topology::Router => Ok(()),
        _ => Err(
            "--upstream announces the kind of its cluster: --replica-set and --standalone are for documents in memory"
                .into(),
        ),
    }
}

/// Checks the log filter. A word without `=` or `[` must be a level or one of Sundown's modules. Otherwise a misspelled level
/// would be taken for an unknown module, and nothing would be logged.
fn log_filter(text: &str) -> Result<String, String> {
    const LEVELS: &[&str] = &["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let known = |word: &str| {
        word.is_empty()
            || word.contains(['=', '['])
            || word.starts_with(env!("CARGO_PKG_NAME"))
            || is_level(word)
    };
    match text.split(',').map(str::trim).find(|word| !known(word)) {
        Some(word) => Err(format!("'{word}' is none of {}", LEVELS.join(", "))),
        None => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    /// Returns the configuration for a command line, or the error message. For the tests of every group.
    pub(super) fn config(arguments: &[&str]) -> Result<Config, String> {
        let line = std::iter::once("sundown").chain(arguments.iter().copied());
        let line = Line::try_parse_from(line).map_err(|problem| problem.to_string())?;
        line.settings.try_into()
    }

    #[test]
    fn without_arguments_it_is_the_default() {
        assert_eq!(config(&[]), Ok(Config::default()));
    }

    /// Asserts that each row is refused with a message that contains the word.
    pub(super) fn assert_refused(table: &[(&[&str], &str)]) {
        for (arguments, word) in table {
            let problem = config(arguments).expect_err(&format!("{arguments:?}"));
            assert!(problem.contains(word), "{arguments:?}: {problem}");
        }
    }

    #[test]
    fn arguments_that_are_refused_and_the_word_that_says_why() {
        assert_refused(&[
            (&["--port", "65536"], "65535"),
            (&["--max-connections", "0"], "--max-connections"),
            (&["--compressors", "snappy,lz4"], "zstd"),
            (&["--log-format", "xml"], "json"),
            (&["--log", "verbose"], "debug"),
            (&["--log", "info,loud"], "'loud'"),
            (&["--bind", "nowhere"], "--bind"),
        ]);
    }

    #[test]
    fn what_is_logged_is_a_level_or_says_where() {
        for filter in [
            "",
            "off",
            "WARN",
            "sundown::server",
            "info,sundown::server=debug,rustls=warn",
        ] {
            let config = config(&["--log", filter]).expect(filter);
            assert_eq!(config.log, filter);
        }
    }

    #[test]
    fn every_setting_has_its_variable_and_its_help() {
        let table = table();
        for row in &table {
            let variable = row.name.trim_start_matches('-').replace('-', "_");
            assert_eq!(row.env, format!("SUNDOWN_{}", variable.to_uppercase()));
            assert!(!row.help.is_empty(), "{row:?}");
        }
        assert_eq!(table[0].default, "127.0.0.1");
    }
}
