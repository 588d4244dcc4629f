//! Servers with different certificates, and the test's own authority.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sundown::Sundown;
use sundown::clock::Clock;
use sundown::config::{Config, Identity, Tls, TlsMode};

use crate::raw::PATIENCE;

pub struct Authority(pub CertifiedIssuer<'static, KeyPair>);

/// Returns an empty folder for one test.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("tls")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

pub fn kept_in(folder: &Path, mode: TlsMode) -> Tls {
    Tls {
        mode,
        identity: Identity::Made {
            names: vec!["sundown".into(), "10.1.2.3".into()],
            directory: Some(folder.into()),
        },
        ..Tls::default()
    }
}

pub fn given(certificate: &Path, key: &Path) -> Tls {
    Tls {
        mode: TlsMode::Required,
        identity: Identity::Given {
            certificate: certificate.into(),
            key: key.into(),
        },
        ..Tls::default()
    }
}

pub fn with(tls: Tls) -> Config {
    Config {
        port: 0,
        tls,
        shutdown_timeout: PATIENCE,
        ..Config::default()
    }
}

pub async fn start(tls: Tls) -> Sundown {
    Sundown::start(with(tls), Clock::system()).await.unwrap()
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub fn write(&self, file: PathBuf) -> PathBuf {
        fs::write(&file, self.0.pem()).unwrap();
        file
    }

    /// Returns a certificate and its key, as PEM.
    pub fn certify(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}
