//! The client's side of the SCRAM exchange (RFC 5802, RFC 7677): messages in, messages out, no I/O.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::ConstantTimeEq;

use super::credential::{Credential, Mechanism, Password, UnusablePassword};
use super::random_text;
use super::scram::LoginFailed;

/// A login that has sent its first message.
pub struct ClientExchange {
    mechanism: Mechanism,
    /// The text that the mechanism salts.
    prepared: String,
    /// The first message without its header.
    bare: String,
    nonce: String,
}

/// A login that has sent its proof, and the signature by which the server proves itself.
pub struct ClientProof {
    signature: String,
}

/// No channel binding, no other identity.
const HEADER: &str = "n,,";

/// A server may not make a client compute for longer, nor use so few rounds that the password could be guessed.
const ROUNDS: std::ops::RangeInclusive<u32> = 4096..=10_000_000;

// === impl ClientExchange ===

impl ClientExchange {
    /// Returns the exchange and the payload of `saslStart`.
    pub fn begin(
        mechanism: Mechanism,
        user: &str,
        password: &str,
    ) -> Result<(Self, String), UnusablePassword> {
        Self::begin_with(mechanism, user, password, random_text())
    }

    fn begin_with(
        mechanism: Mechanism,
        user: &str,
        password: &str,
        nonce: String,
    ) -> Result<(Self, String), UnusablePassword> {
        let prepared = mechanism.prepare(user, Password::Plain(password))?;
        let escaped = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={escaped},r={nonce}");
        let payload = format!("{HEADER}{bare}");
        let exchange = Self {
            mechanism,
            prepared,
            bare,
            nonce,
        };
        Ok((exchange, payload))
    }

    /// Answers the server's first message: returns the payload of `saslContinue`.
    pub fn prove(self, payload: &[u8]) -> Result<(ClientProof, String), LoginFailed> {
        let text = std::str::from_utf8(payload).map_err(|_| LoginFailed)?;
        let mut fields = text.split(',');
        let mut field = |letter: &str| {
            let field = fields.next().and_then(|field| field.strip_prefix(letter));
            field.ok_or(LoginFailed)
        };
        let (nonce, salt, rounds) = (field("r=")?, field("s=")?, field("i=")?);
        let salt = STANDARD.decode(salt).map_err(|_| LoginFailed)?;
        let rounds = rounds.parse::<u32>().map_err(|_| LoginFailed)?;
        if !nonce.starts_with(&self.nonce) || nonce == self.nonce || !ROUNDS.contains(&rounds) {
            return Err(LoginFailed);
        }
        let (client_key, keys) =
            Credential::derive_with_key(self.mechanism, &self.prepared, &salt, rounds);
        let unproved = format!("c={},r={nonce}", STANDARD.encode(HEADER));
        let signed = format!("{},{text},{unproved}", self.bare);
        let signature = self.mechanism.hmac(&keys.stored_key, signed.as_bytes());
        let proof: Vec<u8> = client_key
            .iter()
            .zip(&signature)
            .map(|(a, b)| a ^ b)
            .collect();
        let server = self.mechanism.hmac(&keys.server_key, signed.as_bytes());
        let proof = format!("{unproved},p={}", STANDARD.encode(proof));
        let signature = format!("v={}", STANDARD.encode(server));
        Ok((ClientProof { signature }, proof))
    }
}

// === impl ClientProof ===

impl ClientProof {
    /// Checks the server's last message: it must know the password as well.
    pub fn check(&self, payload: &[u8]) -> Result<(), LoginFailed> {
        match payload.ct_eq(self.signature.as_bytes()).into() {
            true => Ok(()),
            false => Err(LoginFailed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::scram::{Exchange, Hello};

    /// The example of RFC 7677.
    #[test]
    fn the_example_of_the_rfc() {
        let nonce = "rOprNGfwEbeRWgbNEkqO".to_owned();
        let (exchange, hello) =
            ClientExchange::begin_with(Mechanism::Sha256, "user", "pencil", nonce).unwrap();
        assert_eq!(hello, "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let (proof, last) = exchange.prove(first.as_bytes()).unwrap();
        assert_eq!(
            last,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        let signature = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";
        assert_eq!(proof.check(signature), Ok(()));
        assert_eq!(proof.check(b"v=6rriTRBi23"), Err(LoginFailed));
    }

    #[test]
    fn client_and_server_agree_on_every_name_and_password() {
        for mechanism in Mechanism::ALL.iter().copied() {
            for (user, password) in [("ann", "x"), ("a,b=c", "p,=\u{e9}"), ("\u{e9}", " ")] {
                let (exchange, hello) = ClientExchange::begin(mechanism, user, password).unwrap();
                let hello = Hello::parse(hello.as_bytes()).unwrap();
                assert_eq!(hello.user, user);
                let prepared = mechanism.prepare(user, Password::Plain(password)).unwrap();
                let keys = Credential::derive(mechanism, &prepared, b"salt", 4096);
                let (server, first) = Exchange::begin(mechanism, &hello, keys, true, "nonce");
                let (client, proof) = exchange.prove(first.as_bytes()).unwrap();
                let last = server.prove(proof.as_bytes()).unwrap();
                assert_eq!(client.check(last.as_bytes()), Ok(()));
            }
        }
    }

    #[test]
    fn a_server_that_does_not_keep_to_the_exchange_gets_no_proof() {
        for first in [
            "",
            "r=other,s=c2FsdA==,i=4096",
            "r=mine,s=c2FsdA==,i=4096",
            "r=mine+,s=c2FsdA==,i=1",
            "r=mine+,s=c2FsdA==,i=4000000000",
            "r=mine+,s=***,i=4096",
            "s=c2FsdA==,r=mine+,i=4096",
        ] {
            let begun = ClientExchange::begin_with(Mechanism::Sha1, "a", "b", "mine".into());
            let (exchange, _) = begun.unwrap();
            assert!(exchange.prove(first.as_bytes()).is_err(), "{first}");
        }
    }
}
