//! SCRAM credentials: what the server stores instead of a password. The password cannot be read back from them.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::digest::FixedOutput;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The two SCRAM mechanisms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Sha1,
    Sha256,
}

/// The keys that the server needs to check a client's proof and to prove itself. They do not contain the password, and
/// without the password they are not enough to log in.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    pub iterations: u32,
    pub salt: Vec<u8>,
    pub stored_key: Vec<u8>,
    pub server_key: Vec<u8>,
}

/// The credentials of a user, one for each mechanism that the user may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    pub sha1: Option<Credential>,
    pub sha256: Option<Credential>,
}

/// The reason why a password cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnusablePassword {
    Empty,
    /// The password has characters that SASLprep prohibits. SCRAM-SHA-256 prepares passwords with SASLprep.
    Prohibited,
    /// A password that the client has digested works for SCRAM-SHA-1 only.
    Digested,
}

/// A password as `createUser` gets it.
#[derive(Clone, Copy)]
pub enum Password<'a> {
    Plain(&'a str),
    /// Already the md5 of `user:mongo:password`, as very old clients send it.
    Digested(&'a str),
}

// === impl Mechanism ===

impl Mechanism {
    pub const ALL: &[Self] = &[Self::Sha1, Self::Sha256];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "SCRAM-SHA-1",
            Self::Sha256 => "SCRAM-SHA-256",
        }
    }

    pub fn find(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|mechanism| mechanism.name() == name)
    }

    /// Returns MongoDB's number of rounds.
    pub fn iterations(self) -> u32 {
        match self {
            Self::Sha1 => 10_000,
            Self::Sha256 => 15_000,
        }
    }

    /// Returns MongoDB's length of a salt: together with the counter, a salt fills one block.
    pub fn salt_length(self) -> usize {
        self.key_length() - 4
    }

    pub fn key_length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }

    pub(super) fn hmac(self, key: &[u8], message: &[u8]) -> Vec<u8> {
        fn with<M: Mac + KeyInit>(key: &[u8], message: &[u8]) -> Vec<u8> {
            let mut mac =
                <M as KeyInit>::new_from_slice(key).expect("HMAC takes keys of any length");
            mac.update(message);
            mac.finalize().into_bytes().to_vec()
        }
        match self {
            Self::Sha1 => with::<Hmac<Sha1>>(key, message),
            Self::Sha256 => with::<Hmac<Sha256>>(key, message),
        }
    }

    pub(super) fn hash(self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha1 => Sha1::digest(bytes).to_vec(),
            Self::Sha256 => Sha256::digest(bytes).to_vec(),
        }
    }

    /// Returns the text that this mechanism salts.
    pub(super) fn prepare(
        self,
        user: &str,
        password: Password<'_>,
    ) -> Result<String, UnusablePassword> {
        match (self, password) {
            (_, Password::Plain("") | Password::Digested("")) => Err(UnusablePassword::Empty),
            (Self::Sha1, Password::Plain(plain)) => Ok(digest(user, plain)),
            (Self::Sha1, Password::Digested(digest)) => Ok(digest.to_owned()),
            (Self::Sha256, Password::Plain(plain)) => stringprep::saslprep(plain)
                .map(Into::into)
                .map_err(|_| UnusablePassword::Prohibited),
            (Self::Sha256, Password::Digested(_)) => Err(UnusablePassword::Digested),
        }
    }
}

/// Returns what MongoDB salts for SCRAM-SHA-1 instead of the password.
fn digest(user: &str, password: &str) -> String {
    let bytes = Md5::digest(format!("{user}:mongo:{password}"));
    bytes.iter().fold(String::new(), |mut text, byte| {
        use fmt::Write;
        let _ = write!(text, "{byte:02x}");
        text
    })
}

// === impl Credential ===

impl Credential {
    /// Derives the credential from a prepared password.
    pub fn derive(mechanism: Mechanism, prepared: &str, salt: &[u8], iterations: u32) -> Self {
        Self::derive_with_key(mechanism, prepared, salt, iterations).1
    }

    /// Derives the credential, and the key by which a client proves that it knows the password.
    pub(super) fn derive_with_key(
        mechanism: Mechanism,
        prepared: &str,
        salt: &[u8],
        iterations: u32,
    ) -> (Vec<u8>, Self) {
        fn with<M: Mac + KeyInit + FixedOutput + Clone + Sync>(
            text: &str,
            salt: &[u8],
            rounds: u32,
            out: &mut [u8],
        ) {
            pbkdf2::pbkdf2::<M>(text.as_bytes(), salt, rounds, out)
                .expect("HMAC takes keys of any length");
        }
        let mut salted = vec![0; mechanism.key_length()];
        match mechanism {
            Mechanism::Sha1 => with::<Hmac<Sha1>>(prepared, salt, iterations, &mut salted),
            Mechanism::Sha256 => with::<Hmac<Sha256>>(prepared, salt, iterations, &mut salted),
        }
        let client_key = mechanism.hmac(&salted, b"Client Key");
        let credential = Self {
            iterations,
            salt: salt.to_vec(),
            stored_key: mechanism.hash(&client_key),
            server_key: mechanism.hmac(&salted, b"Server Key"),
        };
        (client_key, credential)
    }

    /// Returns the fake credential of a user that does not exist. It looks real and is always the same for a name. No proof
    /// fits it.
    pub(super) fn pretended(mechanism: Mechanism, secret: &[u8], user: &str, db: &str) -> Self {
        let part = |what: &str| {
            let name = format!("{what}\0{}\0{db}\0{user}", mechanism.name());
            Mechanism::Sha256.hmac(secret, name.as_bytes())
        };
        let cut = |mut bytes: Vec<u8>, length| {
            bytes.truncate(length);
            bytes
        };
        Self {
            iterations: mechanism.iterations(),
            salt: cut(part("salt"), mechanism.salt_length()),
            stored_key: cut(part("stored"), mechanism.key_length()),
            server_key: cut(part("server"), mechanism.key_length()),
        }
    }

    /// Decodes a credential from what `usersInfo` with `showCredentials` shows.
    pub fn decode(
        mechanism: Mechanism,
        iterations: u32,
        salt: &str,
        stored_key: &str,
        server_key: &str,
    ) -> Option<Self> {
        let key = |text: &str| {
            STANDARD
                .decode(text)
                .ok()
                .filter(|bytes| bytes.len() == mechanism.key_length())
        };
        Some(Self {
            iterations: Some(iterations).filter(|n| (4096..=10_000_000).contains(n))?,
            salt: STANDARD
                .decode(salt)
                .ok()
                .filter(|salt| (8..=64).contains(&salt.len()))?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }
}

/// Hides the keys, so that printing settings does not reveal them.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}

// === impl Credentials ===

impl Credentials {
    /// Creates credentials for these mechanisms, each with a fresh salt. Takes some milliseconds, which makes guessing
    /// expensive.
    pub fn new(
        user: &str,
        password: Password<'_>,
        mechanisms: &[Mechanism],
    ) -> Result<Self, UnusablePassword> {
        let mut credentials = Self::default();
        for &mechanism in mechanisms {
            if credentials.get(mechanism).is_some() {
                // A list may name a mechanism thousands of times.
                continue;
            }
            let prepared = mechanism.prepare(user, password)?;
            let salt = super::random_bytes(mechanism.salt_length());
            let credential =
                Credential::derive(mechanism, &prepared, &salt, mechanism.iterations());
            credentials.set(mechanism, credential);
        }
        Ok(credentials)
    }

    pub fn get(&self, mechanism: Mechanism) -> Option<&Credential> {
        match mechanism {
            Mechanism::Sha1 => self.sha1.as_ref(),
            Mechanism::Sha256 => self.sha256.as_ref(),
        }
    }

    pub fn set(&mut self, mechanism: Mechanism, credential: Credential) {
        match mechanism {
            Mechanism::Sha1 => self.sha1 = Some(credential),
            Mechanism::Sha256 => self.sha256 = Some(credential),
        }
    }

    pub fn mechanisms(&self) -> impl Iterator<Item = Mechanism> {
        Mechanism::ALL
            .iter()
            .copied()
            .filter(|mechanism| self.get(*mechanism).is_some())
    }
}

// === impl UnusablePassword ===

impl fmt::Display for UnusablePassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "Password cannot be empty",
            Self::Prohibited => "Password contains characters that SASLprep prohibits",
            Self::Digested => "Use of SCRAM-SHA-256 requires undigested passwords",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_prepared_as_mongodb_does() {
        let plain = Password::Plain;
        let rows = [
            // The digest in MongoDB's documentation of the old protocol.
            (
                Mechanism::Sha1,
                plain("pencil"),
                Ok("1c33006ec1ffd90f9cadcbcc0e118200"),
            ),
            (Mechanism::Sha1, Password::Digested("abc"), Ok("abc")),
            (Mechanism::Sha256, plain("pencil"), Ok("pencil")),
            // SASLprep: a soft hyphen is removed, a compatibility character is decomposed.
            (Mechanism::Sha256, plain("I\u{ad}X"), Ok("IX")),
            (Mechanism::Sha256, plain("\u{2168}"), Ok("IX")),
            (
                Mechanism::Sha256,
                plain("a\u{7}"),
                Err(UnusablePassword::Prohibited),
            ),
            (
                Mechanism::Sha256,
                Password::Digested("abc"),
                Err(UnusablePassword::Digested),
            ),
            (Mechanism::Sha256, plain(""), Err(UnusablePassword::Empty)),
        ];
        for (mechanism, password, expected) in rows {
            let prepared = mechanism.prepare("user", password);
            assert_eq!(
                prepared.as_deref().map_err(|problem| *problem),
                expected,
                "{mechanism:?}"
            );
        }
    }

    #[test]
    fn the_credential_of_an_unknown_user_is_stable_and_looks_real() {
        for &mechanism in Mechanism::ALL {
            let one = Credential::pretended(mechanism, b"secret", "ann", "shop");
            let real = Credential::derive(
                mechanism,
                "x",
                &super::super::random_bytes(mechanism.salt_length()),
                1,
            );
            assert_eq!(
                one,
                Credential::pretended(mechanism, b"secret", "ann", "shop")
            );
            assert_ne!(
                one.salt,
                Credential::pretended(mechanism, b"secret", "ann", "x").salt
            );
            assert_ne!(
                one.salt,
                Credential::pretended(mechanism, b"other", "ann", "shop").salt
            );
            assert_eq!(one.salt.len(), real.salt.len());
            assert_eq!(one.stored_key.len(), real.stored_key.len());
            assert_eq!(one.iterations, mechanism.iterations());
        }
    }

    #[test]
    fn debug_output_contains_no_secret() {
        let credentials = Credentials {
            sha256: Some(Credential::derive(Mechanism::Sha256, "x", b"salt", 1)),
            sha1: None,
        };
        let shown = format!("{credentials:?}");
        assert!(!shown.contains("key") && !shown.contains("salt"), "{shown}");
    }
}
