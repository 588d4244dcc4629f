//! Certificates that Sundown generates. An authority is a key that signs a new server certificate at every start. Clients
//! know it by its own certificate, `ca.pem`.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tracing::{info, warn};

use super::identity::CertifiedKey;
use crate::clock::Millis;

const CERTIFICATE: &str = "ca.pem";
const KEY: &str = "ca.key";

const DAY: u64 = 24 * 60 * 60;
/// The clocks of clients may be behind the server's clock.
const BEFORE: u64 = DAY;
/// Some clients reject certificates that are valid for much longer than a year.
const YEAR: u64 = 397 * DAY;
const DECADE: u64 = 3650 * DAY;

struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate in `ca.pem`.
    certificate: CertificateDer<'static>,
}

/// Issues a new certificate for these names. The authority is kept in the directory; without a directory it is temporary.
pub(super) fn issue(
    directory: Option<&Path>,
    names: &[String],
    now: Millis,
) -> Result<CertifiedKey, String> {
    let authority = match directory {
        Some(directory) => {
            let file = directory.join(CERTIFICATE);
            let authority = Authority::load_or_create(directory, now)
                .map_err(|problem| format!("{}: {problem}", directory.display()))?;
            info!(names = names.join(","), authority = %file.display(), "TLS with a certificate made for these names");
            authority
        }
        None => {
            warn!(
                names = names.join(","),
                "TLS with a certificate that no client can check: its authority is not kept (--tls-dir keeps it)"
            );
            let made = KeyPair::generate().and_then(|key| Authority::of(key, now));
            made.map_err(|problem| problem.to_string())?.0
        }
    };
    authority
        .certify(names, now)
        .map_err(|problem| format!("no certificate for {}: {problem}", names.join(",")))
}

// === impl Authority ===

impl Authority {
    /// Creates the authority for this key with a new certificate, and returns that certificate as PEM, too.
    fn of(key: KeyPair, now: Millis) -> Result<(Self, String), rcgen::Error> {
        let params = authority_params(&key, now);
        let made = params.self_signed(&key)?;
        let authority = Self {
            issuer: Issuer::new(params, key),
            certificate: made.der().clone(),
        };
        Ok((authority, made.pem()))
    }

    /// Returns the authority in the directory. Creates one if there is none.
    fn load_or_create(directory: &Path, now: Millis) -> Result<Self, String> {
        let text = |problem: io::Error| problem.to_string();
        fs::create_dir_all(directory).map_err(text)?;
        let key_file = directory.join(KEY);
        if !key_file.exists() {
            let key = KeyPair::generate().map_err(|problem| problem.to_string())?;
            match write_atomically(&key_file, &key.serialize_pem(), 0o600, false) {
                // Another server was faster: its key is as good.
                Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {}
                result => result.map_err(text)?,
            }
        }
        let mode = fs::metadata(&key_file).map_err(text)?.permissions().mode();
        if mode & 0o077 != 0 {
            warn!(file = %key_file.display(), "others can read the authority's key");
        }
        let key = fs::read_to_string(&key_file).map_err(|problem| format!("{KEY}: {problem}"))?;
        let key = KeyPair::from_pem(&key).map_err(|problem| format!("{KEY}: {problem}"))?;
        let public = key.public_key_raw().to_vec();
        let (mut authority, pem) = Self::of(key, now).map_err(|problem| problem.to_string())?;

        let file = directory.join(CERTIFICATE);
        let known = CertificateDer::from_pem_file(&file)
            .ok()
            .filter(|known| known.windows(public.len()).any(|bytes| bytes == public));
        match known {
            // Clients may already trust this certificate, so it stays.
            Some(known) => authority.certificate = known,
            None => write_atomically(&file, &pem, 0o644, true).map_err(text)?,
        }
        Ok(authority)
    }

    fn certify(&self, names: &[String], now: Millis) -> Result<CertifiedKey, rcgen::Error> {
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = common_name("sundown");
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        limit(&mut params, now, YEAR);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        let chain = vec![certificate.der().clone(), self.certificate.clone()];
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        Ok((chain, key))
    }
}

/// Returns the parameters of an authority. Everything that clients compare is derived from the key, so that the authority
/// stays the same at every start. The name contains a part of the key's hash, for clients that trust several authorities.
fn authority_params(key: &KeyPair, now: Millis) -> CertificateParams {
    let mut params = CertificateParams::default();
    let mark: String = params
        .key_identifier(key)
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    params.distinguished_name = common_name(&format!("Sundown authority {mark}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    limit(&mut params, now, DECADE);
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished_name = DistinguishedName::new();
    distinguished_name.push(DnType::CommonName, name);
    distinguished_name
}

/// Sets the period for which the certificate is valid.
fn limit(params: &mut CertificateParams, now: Millis, seconds: u64) {
    let now = u64::try_from(now.0).unwrap_or(0) / 1000;
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(now.saturating_sub(BEFORE));
    params.not_after = epoch + Duration::from_secs(now + seconds);
}

/// Writes a file atomically.
fn write_atomically(file: &Path, text: &str, mode: u32, replace: bool) -> io::Result<()> {
    let temporary = file.with_extension(format!("{}.new", std::process::id()));
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&temporary)
        .and_then(|mut out| out.write_all(text.as_bytes()).and_then(|()| out.sync_all()));
    let result = written.and_then(|()| {
        if replace {
            return fs::rename(&temporary, file);
        }
        match fs::hard_link(&temporary, file) {
            // Not every file system supports hard links.
            Err(problem) if problem.kind() != io::ErrorKind::AlreadyExists => {
                fs::rename(&temporary, file)
            }
            linked => linked,
        }
    });
    let _ = fs::remove_file(&temporary);
    result
}
