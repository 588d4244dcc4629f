//! The server side of the SCRAM exchange (RFC 5802, RFC 7677): messages in, messages out, no I/O.
//!
//! ```text
//! client  n,,n=ann,r=NONCE            gs2 header, name, nonce           Hello::parse
//! server  r=NONCE+OURS,s=SALT,i=15000                                   Exchange::begin
//! client  c=biws,r=NONCE+OURS,p=PROOF                                   Exchange::prove
//! server  v=SIGNATURE
//! ```
//!
//! Messages of clients are parsed strictly and have a maximum size. Every error is the same [`LoginFailed`].

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use subtle::{Choice, ConstantTimeEq};

use super::credential::{Credential, Mechanism};

/// Longer payloads are refused.
const LONGEST: usize = 16 * 1024;

/// The exchange failed. The reason is not revealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginFailed;

/// The client's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello<'a> {
    /// Everything up to and including the second comma. The client's last message repeats it.
    header: &'a str,
    /// Everything after the header. It is part of the signed text.
    bare: &'a str,
    pub user: String,
    nonce: &'a str,
}

/// An exchange that waits for the client's proof.
pub struct Exchange {
    mechanism: Mechanism,
    credential: Credential,
    /// Whether the user exists. It is checked only together with the proof.
    known: bool,
    /// The client's last message must repeat this, in base64.
    header: String,
    nonce: String,
    /// The text that both sides sign, up to the client's last message.
    signed: String,
}

// === impl Hello ===

impl<'a> Hello<'a> {
    pub fn parse(payload: &'a [u8]) -> Result<Self, LoginFailed> {
        let text = read(payload)?;
        // No channel binding: "n" (the client has none) or "y" (the client believes that the server has none).
        let rest = text
            .strip_prefix("n,")
            .or_else(|| text.strip_prefix("y,"))
            .ok_or(LoginFailed)?;
        let (acting_for, bare) = rest.split_once(',').ok_or(LoginFailed)?;
        let header = text.get(..text.len() - bare.len()).ok_or(LoginFailed)?;
        let mut fields = bare.split(',');
        let user = unescape(field(fields.next(), 'n')?)?;
        let nonce = field(fields.next(), 'r')?;
        if user.is_empty() || !is_nonce(nonce) {
            return Err(LoginFailed);
        }
        // A user cannot act for another user. Unknown extensions may be ignored, but not a mandatory one ("m=").
        let acts = match acting_for {
            "" => user.clone(),
            named => unescape(field(Some(named), 'a')?)?,
        };
        if acts != user || fields.any(|extension| extension.starts_with("m=")) {
            return Err(LoginFailed);
        }
        Ok(Self {
            header,
            bare,
            user,
            nonce,
        })
    }
}

fn read(payload: &[u8]) -> Result<&str, LoginFailed> {
    if payload.len() > LONGEST {
        return Err(LoginFailed);
    }
    let text = std::str::from_utf8(payload).map_err(|_| LoginFailed)?;
    if text.contains('\0') {
        return Err(LoginFailed);
    }
    Ok(text)
}

/// Returns the value of `letter=value`.
fn field(text: Option<&str>, letter: char) -> Result<&str, LoginFailed> {
    text.and_then(|text| text.strip_prefix(letter)?.strip_prefix('='))
        .ok_or(LoginFailed)
}

/// Returns whether the text is printable ASCII. It has no comma, because the caller has split it at commas.
fn is_nonce(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Decodes a name, in which `=2C` is a comma and `=3D` an equals sign. No other escape is allowed.
fn unescape(name: &str) -> Result<String, LoginFailed> {
    let mut parts = name.split('=');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(LoginFailed),
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    Ok(plain)
}

// === impl Exchange ===

impl Exchange {
    /// Answers the first message. `nonce` is the server's part of the nonce: fresh, printable, without commas.
    pub fn begin(
        mechanism: Mechanism,
        hello: &Hello<'_>,
        credential: Credential,
        known: bool,
        nonce: &str,
    ) -> (Self, String) {
        let nonce = format!("{}{nonce}", hello.nonce);
        let reply = format!(
            "r={nonce},s={},i={}",
            STANDARD.encode(&credential.salt),
            credential.iterations
        );
        let exchange = Self {
            mechanism,
            credential,
            known,
            header: STANDARD.encode(hello.header),
            signed: format!("{},{reply}", hello.bare),
            nonce,
        };
        (exchange, reply)
    }

    /// Returns the credential that the proof is checked against.
    pub fn credential(&self) -> &Credential {
        &self.credential
    }

    /// Checks the client's proof and returns the server's. Takes equally long if the user does not exist, and for every
    /// wrong proof.
    pub fn prove(&self, payload: &[u8]) -> Result<String, LoginFailed> {
        let text = read(payload)?;
        let (unproved, proof) = text.rsplit_once(",p=").ok_or(LoginFailed)?;
        let mut fields = unproved.split(',');
        let header = field(fields.next(), 'c')?;
        let nonce = field(fields.next(), 'r')?;
        if header != self.header || nonce != self.nonce {
            return Err(LoginFailed);
        }
        let proof = STANDARD.decode(proof).map_err(|_| LoginFailed)?;
        let signed = format!("{},{unproved}", self.signed);
        let signature = self
            .mechanism
            .hmac(&self.credential.stored_key, signed.as_bytes());
        if proof.len() != signature.len() {
            return Err(LoginFailed);
        }
        let client_key: Vec<u8> = proof.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let fits = self
            .mechanism
            .hash(&client_key)
            .ct_eq(&self.credential.stored_key);
        let signature = self
            .mechanism
            .hmac(&self.credential.server_key, signed.as_bytes());
        if (fits & Choice::from(u8::from(self.known))).into() {
            Ok(format!("v={}", STANDARD.encode(signature)))
        } else {
            Err(LoginFailed)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Vector {
        mechanism: Mechanism,
        hello: &'static str,
        nonce: &'static str,
        salt: &'static str,
        first: &'static str,
        proof: &'static str,
        last: &'static str,
    }

    /// The examples of the two RFCs: user "user", password "pencil", 4096 rounds.
    const VECTORS: &[Vector] = &[
        Vector {
            mechanism: Mechanism::Sha1,
            hello: "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
            nonce: "3rfcNHYJY1ZVvWVs7j",
            salt: "QSXCR+Q6sek8bf92",
            first: "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
            proof: "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            last: "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
        },
        Vector {
            mechanism: Mechanism::Sha256,
            hello: "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
            nonce: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            salt: "W22ZaJ0SNY7soEsUEjb6gQ==",
            first: "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
            proof: "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                    p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            last: "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
        },
    ];

    fn begin(vector: &Vector, known: bool) -> (Exchange, String) {
        let salt = STANDARD.decode(vector.salt).unwrap();
        let credential = Credential::derive(vector.mechanism, "pencil", &salt, 4096);
        let hello = Hello::parse(vector.hello.as_bytes()).unwrap();
        assert_eq!(hello.user, "user");
        Exchange::begin(vector.mechanism, &hello, credential, known, vector.nonce)
    }

    #[test]
    fn the_examples_of_rfc_5802_and_rfc_7677() {
        for vector in VECTORS {
            let (exchange, first) = begin(vector, true);
            assert_eq!(first, vector.first);
            let last = exchange.prove(vector.proof.as_bytes());
            assert_eq!(last.as_deref(), Ok(vector.last));
        }
    }

    #[test]
    fn unknown_users_cannot_log_in() {
        for vector in VECTORS {
            let (exchange, _) = begin(vector, false);
            assert_eq!(exchange.prove(vector.proof.as_bytes()), Err(LoginFailed));
        }
    }

    #[test]
    fn a_proof_with_any_byte_changed_fails() {
        for vector in VECTORS {
            let (exchange, _) = begin(vector, true);
            for at in 0..vector.proof.len() {
                let mut bytes = vector.proof.as_bytes().to_vec();
                bytes[at] ^= 1;
                assert_eq!(exchange.prove(&bytes), Err(LoginFailed), "byte {at}");
                let cut = &vector.proof.as_bytes()[..at];
                assert_eq!(exchange.prove(cut), Err(LoginFailed), "cut at {at}");
            }
        }
    }

    #[test]
    fn first_messages() {
        let long = format!("n,,n=a,r={}", "x".repeat(LONGEST));
        let rows: &[(&[u8], Option<&str>)] = &[
            (b"n,,n=ann,r=abc", Some("ann")),
            (b"y,,n=ann,r=abc", Some("ann")),
            (b"n,a=ann,n=ann,r=abc", Some("ann")),
            (b"n,,n=a=2Cb=3Dc,r=abc", Some("a,b=c")),
            (b"n,,n=\xc3\xa9,r=abc", Some("\u{e9}")),
            (b"n,,n=ann,r=abc,x=further", Some("ann")),
            (b"", None),
            (b"n", None),
            (b"n,", None),
            (b"n,,", None),
            (b"n,,n=,r=abc", None),
            (b"n,,n=ann", None),
            (b"n,,n=ann,r=", None),
            (b"n,,n=ann,r=a b", None),
            (b"n,,r=abc,n=ann", None),
            (b"n,,n=a=2c,r=abc", None),
            (b"n,,n=a=,r=abc", None),
            (b"n,,m=x,n=ann,r=abc", None),
            (b"n,,n=ann,r=abc,m=x", None),
            (b"n,a=bob,n=ann,r=abc", None),
            (b"p=tls-unique,,n=ann,r=abc", None),
            (b"n,,n=ann\0,r=abc", None),
            (b"n,,n=\xff,r=abc", None),
            (long.as_bytes(), None),
        ];
        for (payload, user) in rows {
            let parsed = Hello::parse(payload).ok().map(|hello| hello.user);
            let shown = String::from_utf8_lossy(payload);
            assert_eq!(
                parsed.as_deref(),
                *user,
                "{}",
                shown.get(..40).unwrap_or(&shown)
            );
        }
    }
}
