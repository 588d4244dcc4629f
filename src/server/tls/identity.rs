//! Builds the TLS configuration of the server from the settings.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tracing::info;

use crate::clock::Millis;
use crate::config::{Identity, Tls, Topology};

use super::authority;

/// A certificate chain and the key of its first certificate.
pub(super) type CertifiedKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads all files and builds the configuration. The error is a message for the operator.
pub(super) fn load(tls: &Tls, names: &[String], now: Millis) -> Result<Arc<ServerConfig>, String> {
    let (chain, key) = match &tls.identity {
        Identity::Given { certificate, key } => {
            info!(certificate = %certificate.display(), "TLS with the given certificate");
            (certificates(certificate)?, private_key(key)?)
        }
        Identity::Made { directory, .. } => authority::issue(directory.as_deref(), names, now)?,
    };
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|problem| problem.to_string())?;
    let builder = match &tls.client_authority {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let unusable =
                |problem: &dyn std::fmt::Display| format!("{}: {problem}", file.display());
            let mut roots = RootCertStore::empty();
            for certificate in certificates(file)? {
                roots
                    .add(certificate)
                    .map_err(|problem| unusable(&problem))?;
            }
            let mut verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            if tls.clients_without_certificate {
                verifier = verifier.allow_unauthenticated();
            }
            let verifier = verifier.build().map_err(|problem| unusable(&problem))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    builder
        .with_single_cert(chain, key)
        .map(Arc::new)
        .map_err(|problem| format!("certificate and key do not fit: {problem}"))
}

/// Returns the host names for a generated certificate: all names of this server that it can know.
pub(super) fn names(identity: &Identity, topology: &Topology) -> Vec<String> {
    let Identity::Made { names: more, .. } = identity else {
        return Vec::new();
    };
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(Into::into).into();
    names.extend(machine());
    if let Topology::ReplicaSet {
        advertise: Some(address),
        ..
    } = topology
        && let Some((host, _)) = address.rsplit_once(':')
    {
        names.push(host.trim_matches(['[', ']']).to_owned());
    }
    names.extend(more.iter().cloned());
    let mut known = std::collections::HashSet::new();
    names.retain(|name| known.insert(name.clone()));
    names
}

/// Returns the name of the machine, if a certificate can contain it.
fn machine() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    let name = name.trim();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    (!name.is_empty() && name.bytes().all(plain)).then(|| name.to_owned())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|problem| format!("{}: {problem}", file.display()))?;
    if certificates.is_empty() {
        return Err(format!("{} has no certificate in it", file.display()));
    }
    Ok(certificates)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(file).map_err(|problem| {
        format!(
            "{}: no private key can be read from it: {problem}",
            file.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_a_generated_certificate() {
        let identity = |names: &[&str]| Identity::Made {
            names: names.iter().map(ToString::to_string).collect(),
            directory: None,
        };
        let set = |address: &str| Topology::ReplicaSet {
            name: "rs".into(),
            advertise: Some(address.into()),
        };
        for (identity, topology, last) in [
            (identity(&["sundown"]), Topology::Router, "sundown"),
            (identity(&["localhost", "a"]), Topology::Standalone, "a"),
            (identity(&[]), set("db:27017"), "db"),
            (identity(&[]), set("[fe80::1]:27017"), "fe80::1"),
        ] {
            let names = names(&identity, &topology);
            assert_eq!(names[..3], ["localhost", "127.0.0.1", "::1"]);
            assert_eq!(names.last().map(String::as_str), Some(last));
            let times = names.iter().filter(|name| *name == "localhost").count();
            assert_eq!(times, 1);
        }
    }
}
