//! The cluster that answers instead of the engine in memory.

use std::fmt;
use std::time::Duration;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

/// Where the documents are, if they are not in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    pub uri: ClusterUri,
    pub login: UpstreamLogin,
    /// Do not start without the cluster.
    pub required: bool,
    /// How long the start waits for the cluster. No option sets this; tests do.
    pub start_timeout: Duration,
    /// How often the TTL settings are renewed, at the least. No option sets this; tests do.
    pub renewal: Duration,
}

/// A connection string. It may contain a password, so it is never printed whole.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterUri(String);

/// Whose rights the commands of clients have in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum UpstreamLogin {
    /// Those of the user in the connection string. Sundown's own users and roles hold towards clients.
    #[default]
    Own,
    /// Those of the client: its login is passed on to the cluster.
    Clients,
}

#[derive(Debug, Clone, Args)]
#[group(id = "upstream-arguments")]
pub(super) struct UpstreamArguments {
    /// Keep the documents in this MongoDB cluster, and not in memory
    #[arg(
        long,
        env = "SUNDOWN_UPSTREAM",
        value_name = "URI",
        hide_env_values = true
    )]
    upstream: Option<String>,

    /// Whose rights commands have in the cluster: own (those of the URI's user) or clients (each client logs in to the cluster)
    #[arg(long, env = "SUNDOWN_UPSTREAM_LOGIN", value_name = "WHOSE", value_enum, default_value_t = UpstreamLogin::Own)]
    upstream_login: UpstreamLogin,

    /// Exit if the cluster cannot be reached at the start, instead of answering with errors until it can
    #[arg(long, env = "SUNDOWN_UPSTREAM_REQUIRED", value_parser = BoolishValueParser::new())]
    upstream_required: bool,
}

/// How long the start waits for the cluster.
const START_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the TTL settings are renewed, if their lease allows that.
const RENEWAL: Duration = Duration::from_secs(5);

// === impl UpstreamArguments ===

impl UpstreamArguments {
    /// Converts the arguments. The error is a message for the user.
    pub(super) fn resolve(self) -> Result<Option<UpstreamConfig>, String> {
        // Compose files pass unset variables as empty ones.
        let Some(uri) = self.upstream.filter(|uri| !uri.is_empty()) else {
            return match (self.upstream_required, self.upstream_login) {
                (true, _) => Err("--upstream-required needs --upstream URI".into()),
                (_, UpstreamLogin::Clients) => Err("--upstream-login needs --upstream URI".into()),
                _ => Ok(None),
            };
        };
        Ok(Some(UpstreamConfig {
            login: self.upstream_login,
            required: self.upstream_required,
            ..UpstreamConfig::at(ClusterUri::new(uri))
        }))
    }
}

// === impl UpstreamConfig ===

impl UpstreamConfig {
    pub fn at(uri: ClusterUri) -> Self {
        Self {
            uri,
            login: UpstreamLogin::Own,
            required: false,
            start_timeout: START_TIMEOUT,
            renewal: RENEWAL,
        }
    }
}

// === impl ClusterUri ===

impl ClusterUri {
    /// Takes a connection string. It is checked when the cluster is looked for, so that every wrong one is told alike.
    pub fn new(uri: impl Into<String>) -> Self {
        Self(uri.into())
    }

    /// Checks what the hosts are found by. The driver checks the rest.
    pub fn check(&self) -> Result<(), String> {
        let schemes = ["mongodb://", "mongodb+srv://"];
        match schemes.iter().any(|scheme| self.0.starts_with(scheme)) {
            true => Ok(()),
            // What was typed is not shown: it may be a password in the wrong place.
            false => {
                Err("--upstream takes a URI that begins with mongodb:// or mongodb+srv://".into())
            }
        }
    }

    /// Returns the connection string with everything in it.
    pub fn with_secrets(&self) -> &str {
        &self.0
    }
}

/// Shows the hosts, and nothing that could be secret.
impl fmt::Display for ClusterUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, rest) = self.0.split_once("://").unwrap_or_default();
        let hosts = rest.split(['/', '?']).next().unwrap_or_default();
        let hosts = hosts.rsplit('@').next().unwrap_or_default();
        write!(f, "{scheme}://{hosts}")
    }
}

impl fmt::Debug for ClusterUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_refused, config};
    use super::*;

    #[test]
    fn a_uri_is_shown_without_its_secrets() {
        for (uri, shown) in [
            ("mongodb://a:1,b:2/?replicaSet=rs0", "mongodb://a:1,b:2"),
            ("mongodb://ann:p%40ss@a:1/db", "mongodb://a:1"),
            (
                "mongodb+srv://ann:x@c.example.net",
                "mongodb+srv://c.example.net",
            ),
            ("mongodb://ann:p@ss@a:1?tls=true", "mongodb://a:1"),
        ] {
            let uri = ClusterUri::new(uri);
            assert_eq!(uri.to_string(), shown);
            assert_eq!(format!("{uri:?}"), shown);
        }
    }

    #[test]
    fn a_uri_without_a_scheme_is_told_and_not_shown() {
        for wrong in ["h:1", "mongo://h:1", "secret@h"] {
            let uri = ClusterUri::new(wrong);
            let problem = uri.check().unwrap_err();
            assert!(problem.contains("mongodb://"), "{problem}");
            assert!(!problem.contains(wrong) && !uri.to_string().contains("secret"));
        }
        assert_eq!(ClusterUri::new("mongodb+srv://h").check(), Ok(()));
    }

    #[test]
    fn arguments_of_upstream_mode() {
        let config = config(&[
            "--upstream",
            "mongodb://h:1/",
            "--upstream-login",
            "clients",
        ]);
        let upstream = config.unwrap().upstream.unwrap();
        assert_eq!(upstream.login, UpstreamLogin::Clients);
        assert!(!upstream.required);
        assert_refused(&[
            (&["--upstream-required"], "--upstream URI"),
            (&["--upstream-login", "clients"], "--upstream URI"),
            (
                &["--upstream", "mongodb://h", "--replica-set", "rs0"],
                "--upstream",
            ),
            (&["--upstream", "mongodb://h", "--standalone"], "--upstream"),
            (&["--upstream", "mongodb://h", "--cosmos"], "--upstream"),
            (
                &["--upstream", "mongodb://h", "--request-units", "400"],
                "--upstream",
            ),
        ]);
    }
}
