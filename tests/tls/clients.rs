//! Clients with TLS: one that also sends raw bytes, and the official driver.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, TlsOptions};
use sundown::Sundown;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, version};

use crate::raw::{Client, PATIENCE, msg, ping};

pub struct TlsClient<'a> {
    pub authority: &'a Path,
    pub name: &'a str,
    pub versions: Versions,
    /// The certificate and its key in one file.
    pub own: Option<&'a str>,
}

pub type Versions = &'static [&'static SupportedProtocolVersion];
pub const BOTH: Versions = &[&version::TLS12, &version::TLS13];
pub const TLS12: Versions = &[&version::TLS12];
pub const TLS13: Versions = &[&version::TLS13];

pub fn trusting(authority: &Path) -> TlsClient<'_> {
    TlsClient {
        authority,
        name: "localhost",
        versions: BOTH,
        own: None,
    }
}

impl TlsClient<'_> {
    pub async fn dial(&self, address: SocketAddr) -> Result<Client<TlsStream<TcpStream>>, String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.authority).unwrap())
            .unwrap();
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match self.own {
            None => config.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::pem_slice_iter(own.as_bytes())
                    .map(Result::unwrap)
                    .collect();
                let key = PrivateKeyDer::from_pem_slice(own.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(self.name.to_owned()).unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        match tokio::time::timeout(PATIENCE, connecting).await.unwrap() {
            Ok(stream) => Ok(Client(stream)),
            Err(problem) => Err(problem.to_string()),
        }
    }

    /// Connects, sends a command and returns the result. With TLS 1.3 a client learns only then that it was refused.
    pub async fn ask(&self, address: SocketAddr) -> Result<Document, String> {
        let mut client = self.dial(address).await?;
        let asked = client.0.write_all(&msg(1, 0, &[&ping()])).await;
        asked.map_err(|problem| problem.to_string())?;
        let mut first = [0; 21];
        let read = client.0.read_exact(&mut first).await;
        read.map_err(|problem| problem.to_string())?;
        Ok(doc! {"ok": 1.0})
    }
}

/// Connects the driver. If this is expected to fail, the driver does not wait long.
pub async fn driver(server: &Sundown, tls: Option<TlsOptions>, will_work: bool) -> mongodb::Client {
    let mut options = ClientOptions::parse(server.uri()).await.unwrap();
    let timeout = if will_work {
        PATIENCE
    } else {
        Duration::from_secs(2)
    };
    options.server_selection_timeout = Some(timeout);
    options.connect_timeout = Some(timeout);
    options.tls = tls.map(mongodb::options::Tls::Enabled);
    mongodb::Client::with_options(options).unwrap()
}

pub async fn works(client: &mongodb::Client) -> bool {
    let ping = client.database("admin").run_command(doc! {"ping": 1}).await;
    ping.is_ok()
}
