//! The settings for TLS: the mode, the certificate, and whether clients need one.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};

/// How connections are encrypted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tls {
    pub mode: TlsMode,
    pub identity: Identity,
    /// A PEM file with the authority that must have signed the clients' certificates. Without it the server asks for no
    /// certificate.
    pub client_authority: Option<PathBuf>,
    /// Accept clients without a certificate. A certificate that a client shows is still checked.
    pub clients_without_certificate: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum TlsMode {
    /// Plain connections only.
    #[default]
    Disabled,
    /// Both kinds on one port; what a client sends first says which.
    Optional,
    /// Encrypted connections only.
    Required,
}

/// The certificate that the server shows to its clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity {
    /// PEM files; certificate and key may be in the same file.
    Given { certificate: PathBuf, key: PathBuf },
    /// Generated at the start, for localhost, the machine and these names.
    Made {
        names: Vec<String>,
        /// The directory that keeps its authority, for the next start and for clients.
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Clone, Args)]
#[group(id = "tls-arguments")]
pub(super) struct TlsArguments {
    /// Encrypted connections: disabled, optional (plain connections work too, on the same port) or required
    #[arg(long, env = "SUNDOWN_TLS", value_name = "MODE", value_enum)]
    tls: Option<TlsMode>,

    /// The server's certificate chain, as PEM; the same file holds the private key, unless --tls-key names another
    #[arg(
        long,
        env = "SUNDOWN_TLS_CERT",
        value_name = "FILE",
        alias = "tls-certificate-key-file"
    )]
    tls_cert: Option<String>,

    /// The private key of the certificate, as PEM
    #[arg(long, env = "SUNDOWN_TLS_KEY", value_name = "FILE")]
    tls_key: Option<String>,

    /// Without --tls-cert the server makes a certificate at start, for localhost, the machine's name and --advertise; this adds a name or address (repeat it, or use commas)
    #[arg(
        long,
        env = "SUNDOWN_TLS_NAME",
        value_name = "NAME",
        value_delimiter = ','
    )]
    tls_name: Vec<String>,

    /// Where the server keeps the authority that signs such a certificate: ca.pem, which clients need, and ca.key, which must stay secret
    #[arg(long, env = "SUNDOWN_TLS_DIR", value_name = "DIRECTORY")]
    tls_dir: Option<String>,

    /// Ask clients for a certificate that is signed by the authority in this PEM file
    #[arg(long, env = "SUNDOWN_TLS_CA_FILE", value_name = "FILE")]
    tls_ca_file: Option<String>,

    /// Accept clients that have no certificate; a certificate that a client shows is still checked
    #[arg(long, env = "SUNDOWN_TLS_ALLOW_CONNECTIONS_WITHOUT_CERTIFICATES", value_parser = BoolishValueParser::new())]
    tls_allow_connections_without_certificates: bool,
}

// === impl Identity ===

impl Default for Identity {
    fn default() -> Self {
        Self::Made {
            names: Vec::new(),
            directory: None,
        }
    }
}

// === impl TlsArguments ===

impl TlsArguments {
    /// Converts the arguments. `unless_said` is the mode if none was given. The error is a message for the user.
    pub(super) fn resolve(self, unless_said: TlsMode) -> Result<Tls, String> {
        let file = |name: Option<String>| name.filter(|name| !name.is_empty()).map(PathBuf::from);
        let certificate = file(self.tls_cert);
        let key = file(self.tls_key);
        let directory = file(self.tls_dir);
        let client_authority = file(self.tls_ca_file);
        let names: Vec<_> = self
            .tls_name
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect();
        let mode = self.tls.unwrap_or(unless_said);

        let set = [
            ("--tls-cert", certificate.is_some()),
            ("--tls-key", key.is_some()),
            ("--tls-name", !names.is_empty()),
            ("--tls-dir", directory.is_some()),
            ("--tls-ca-file", client_authority.is_some()),
        ];
        if let Some((option, _)) = set.iter().find(|(_, set)| *set)
            && self.tls.is_none()
            && mode == TlsMode::Disabled
        {
            return Err(format!(
                "{option} has no effect unless --tls optional or --tls required switches TLS on"
            ));
        }
        if self.tls_allow_connections_without_certificates && client_authority.is_none() {
            return Err(
                "--tls-allow-connections-without-certificates needs --tls-ca-file: without it nobody is asked for one"
                    .into(),
            );
        }
        let identity = match (certificate, key) {
            (None, Some(_)) => return Err("--tls-key needs --tls-cert".into()),
            (Some(_), _) if !names.is_empty() || directory.is_some() => {
                return Err(
                    "--tls-cert gives a certificate; --tls-name and --tls-dir are for one that is made".into(),
                );
            }
            (Some(certificate), key) => Identity::Given {
                key: key.unwrap_or_else(|| certificate.clone()),
                certificate,
            },
            (None, None) => Identity::Made { names, directory },
        };
        Ok(Tls {
            mode,
            identity,
            client_authority,
            clients_without_certificate: self.tls_allow_connections_without_certificates,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_refused, config};
    use super::*;

    #[test]
    fn arguments_that_make_sense_together() {
        let made = |names: &[&str], directory: Option<&str>| Identity::Made {
            names: names.iter().map(ToString::to_string).collect(),
            directory: directory.map(Into::into),
        };
        let given = |certificate: &str, key: &str| Identity::Given {
            certificate: certificate.into(),
            key: key.into(),
        };
        let table: &[(&[&str], TlsMode, Identity)] = &[
            (
                &["--tls", "optional"],
                TlsMode::Optional,
                Identity::default(),
            ),
            (
                &["--tls", "disabled"],
                TlsMode::Disabled,
                Identity::default(),
            ),
            (
                &["--tls", "required", "--tls-cert", "both.pem"],
                TlsMode::Required,
                given("both.pem", "both.pem"),
            ),
            (
                &[
                    "--tls",
                    "required",
                    "--tls-certificate-key-file",
                    "both.pem",
                ],
                TlsMode::Required,
                given("both.pem", "both.pem"),
            ),
            (
                &[
                    "--tls",
                    "optional",
                    "--tls-cert",
                    "c.pem",
                    "--tls-key",
                    "k.pem",
                ],
                TlsMode::Optional,
                given("c.pem", "k.pem"),
            ),
            (
                &[
                    "--tls",
                    "optional",
                    "--tls-name",
                    "a,b",
                    "--tls-name",
                    "10.0.0.1",
                    "--tls-dir",
                    "d",
                ],
                TlsMode::Optional,
                made(&["a", "b", "10.0.0.1"], Some("d")),
            ),
            // Compose files pass unset variables as empty ones.
            (
                &["--tls", "optional", "--tls-dir", "", "--tls-name", ""],
                TlsMode::Optional,
                made(&[], None),
            ),
            // Temporarily disabled.
            (
                &["--tls", "disabled", "--tls-dir", "d"],
                TlsMode::Disabled,
                made(&[], Some("d")),
            ),
        ];
        for (arguments, mode, identity) in table {
            let tls = config(arguments).expect("they make sense").tls;
            assert_eq!(
                (tls.mode, &tls.identity),
                (*mode, identity),
                "{arguments:?}"
            );
        }
        let strict = ["--tls", "required", "--tls-ca-file", "ca.pem"];
        let tls = config(&strict).expect("they make sense").tls;
        assert_eq!(tls.client_authority, Some("ca.pem".into()));
        assert!(!tls.clients_without_certificate);
    }

    #[test]
    fn arguments_that_contradict_each_other() {
        assert_refused(&[
            (&["--tls-dir", "d"], "--tls optional"),
            (&["--tls-ca-file", "d"], "--tls optional"),
            (&["--tls", "maybe"], "optional"),
            (&["--tls", "required", "--tls-key", "k"], "--tls-cert"),
            (
                &["--tls", "required", "--tls-cert", "c", "--tls-name", "n"],
                "--tls-name",
            ),
            (
                &[
                    "--tls",
                    "required",
                    "--tls-allow-connections-without-certificates",
                ],
                "--tls-ca-file",
            ),
        ]);
    }
}
