//! How much of the past change streams can see.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::memory::parse_size;

/// The log of changes that change streams read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OplogConfig {
    /// Changes are kept from the start of the server on, and not only from the first change stream on.
    pub from_start: bool,
    pub bytes: u64,
    pub window: Duration,
    pub expiry_events: ExpiryEventTime,
}

/// When change streams are told that a document has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ExpiryEventTime {
    /// When the document is removed from memory.
    #[default]
    Removal,
    /// At the instant of its end.
    Instant,
}

#[derive(Debug, Clone, Args)]
pub(super) struct OplogArguments {
    /// Keep this much of the latest changes from the start on, in bytes or as in 512M and 2G, for change streams that begin in
    /// the past; without it changes are kept from the first change stream on, up to 64M
    #[arg(long, env = "SUNDOWN_OPLOG_SIZE", value_name = "SIZE", value_parser = parse_size)]
    oplog_size: Option<u64>,

    /// Keep changes for change streams for at most this many seconds
    #[arg(long, env = "SUNDOWN_OPLOG_WINDOW", value_name = "SECONDS", default_value_t = OplogConfig::default().window.as_secs())]
    oplog_window: u64,

    /// When change streams tell that a document has expired: when it is removed from memory, usually within a quarter of a
    /// second, or at the instant of its end and before everything that is written later
    #[arg(long, env = "SUNDOWN_EXPIRY_EVENTS", value_name = "WHEN", value_enum, default_value_t = ExpiryEventTime::Removal)]
    expiry_events: ExpiryEventTime,
}

// === impl OplogConfig ===

impl Default for OplogConfig {
    fn default() -> Self {
        Self {
            from_start: false,
            bytes: 64 << 20,
            window: Duration::from_secs(3600),
            expiry_events: ExpiryEventTime::Removal,
        }
    }
}

impl From<OplogArguments> for OplogConfig {
    fn from(arguments: OplogArguments) -> Self {
        Self {
            from_start: arguments.oplog_size.is_some(),
            bytes: arguments.oplog_size.unwrap_or(Self::default().bytes),
            window: Duration::from_secs(arguments.oplog_window),
            expiry_events: arguments.expiry_events,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;

    #[test]
    fn a_size_keeps_changes_from_the_start() {
        let oplog = |arguments: &[&str]| config(arguments).map(|config| config.oplog);
        assert_eq!(oplog(&[]), Ok(OplogConfig::default()));
        let long = OplogConfig {
            from_start: true,
            bytes: 2 << 30,
            window: Duration::from_secs(60),
            expiry_events: ExpiryEventTime::Instant,
        };
        let arguments = "--oplog-size 2G --oplog-window 60 --expiry-events instant";
        let arguments: Vec<&str> = arguments.split(' ').collect();
        assert_eq!(oplog(&arguments), Ok(long));
    }
}
