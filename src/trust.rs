//! TLS as a client: which servers to trust. For `sundown healthcheck`, and for connections to a cluster.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The servers that a client trusts.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Those with a certificate of a public authority.
    Public,
    /// Those with a certificate of an authority in this file.
    Authority(&'a Path),
    /// All of them. The connection is encrypted, but the server may be anybody.
    Anyone,
}

/// A verifier that accepts any certificate.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

/// Builds the TLS settings of a client. `identity` is a file with the client's own certificate and key. The error is a
/// message for the operator.
pub fn client_config(trust: Trust<'_>, identity: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = ring::default_provider();
    let algorithms = provider.signature_verification_algorithms;
    let builder = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(|problem| problem.to_string())?;
    let builder = match trust {
        Trust::Public => {
            let roots = webpki_roots::TLS_SERVER_ROOTS.to_vec();
            builder.with_root_certificates(RootCertStore { roots })
        }
        Trust::Authority(file) => builder.with_root_certificates(authority(file)?),
        Trust::Anyone => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(algorithms))),
    };
    let Some(file) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_file(file).map_err(|problem| unusable(file, &problem))?;
    builder
        .with_client_auth_cert(certificates(file)?, key)
        .map_err(|problem| unusable(file, &problem))
}

fn authority(file: &Path) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|problem| unusable(file, &problem))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|problem| unusable(file, &problem))
}

fn unusable(file: &Path, problem: &dyn std::fmt::Display) -> String {
    format!("{}: {problem}", file.display())
}

// === impl AnyCertificate ===

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tokio_rustls::rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        tokio_rustls::rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
