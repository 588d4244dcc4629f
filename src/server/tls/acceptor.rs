//! Detects TLS from the first bytes of a connection, and performs the handshake.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::{ProtocolVersion, ServerConfig};
use tokio_rustls::server::TlsStream;
use tracing::{error, info};

use crate::clock::Clock;
use crate::config::{Config, Tls, TlsMode};
use crate::error::Hangup;
use crate::handler::TlsVersion;

use super::super::connection::ConnectionEnd;
use super::identity::{self, names};

/// The acceptor of connections that may be encrypted. The server has none if TLS is disabled.
#[derive(Debug)]
pub struct Acceptor {
    tls: Tls,
    /// The host names for a generated certificate.
    names: Vec<String>,
    /// The TLS settings for the next connection. [`Acceptor::reload`] replaces them as a whole.
    current: RwLock<Arc<ServerConfig>>,
}

/// The protocol that a client starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Greeting {
    Plain,
    Tls,
    /// Too few bytes to tell.
    Unclear,
}

/// An accepted connection, ready to be served.
pub(in crate::server) enum Accepted {
    /// A plain connection, and the bytes that were read to find that out: less than a message.
    Plain(TcpStream, Vec<u8>),
    Tls(TlsVersion, Box<TlsStream<TcpStream>>),
}

/// The time limit for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

// === impl Greeting ===

impl Greeting {
    /// The number of bytes that are always enough to tell.
    pub const ENOUGH: usize = 11;

    /// Tells the protocol from the first bytes.
    ///
    /// The first byte of a TLS handshake is 0x16. It can also be the lowest byte of the length of a plain message (one of
    /// 278 bytes, say). Then further bytes decide: TLS has its version a second time where a plain message has zeros.
    ///
    /// ```text
    /// TLS    16 · 03 xx version · length (2) · 01 client hello · length (3) · 03 xx version · random ...
    /// plain  length (4) ·               request id (4)        · response to (4): 0 in a first message
    /// ```
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [] | [0x16] => Self::Unclear,
            [0x16, 0x03, ..] => match bytes.get(9) {
                Some(0x03) if bytes.len() >= Self::ENOUGH => Self::Tls,
                Some(_) if bytes.len() >= Self::ENOUGH => Self::Plain,
                _ => Self::Unclear,
            },
            _ => Self::Plain,
        }
    }
}

// === impl Acceptor ===

impl Acceptor {
    /// Reads or generates the certificate. Returns `None` if TLS is disabled.
    pub(in crate::server) fn open(config: &Config) -> Result<Option<Arc<Self>>, String> {
        let tls = config.tls.clone();
        if tls.mode == TlsMode::Disabled {
            return Ok(None);
        }
        let names = names(&tls.identity, &config.topology);
        let current = identity::load(&tls, &names, Clock::system().now())?;
        Ok(Some(Arc::new(Self {
            current: RwLock::new(current),
            tls,
            names,
        })))
    }

    /// Reads the files again. Open connections keep the old certificate. If a new file is invalid, new connections keep it,
    /// too.
    pub fn reload(&self) {
        match identity::load(&self.tls, &self.names, Clock::system().now()) {
            Ok(new) => {
                *self.current.write() = new;
                info!("TLS: the certificate was read again; new connections get it");
            }
            Err(problem) => error!(%problem, "TLS: the old certificate stays in use"),
        }
    }

    /// Waits for the first byte without a time limit, then for enough bytes to tell the protocol. Performs the handshake if
    /// the client starts one.
    pub(in crate::server) async fn accept(
        &self,
        mut stream: TcpStream,
    ) -> Result<Accepted, ConnectionEnd> {
        let mut first = Vec::with_capacity(Greeting::ENOUGH);
        if stream.read_buf(&mut first).await? == 0 {
            return Err(ConnectionEnd::Closed);
        }
        let greeting = tokio::time::timeout(HANDSHAKE, greeting(&mut stream, &mut first)).await;
        match greeting {
            Ok(greeting) => match greeting? {
                Greeting::Tls => {}
                Greeting::Plain if self.tls.mode == TlsMode::Required => {
                    return Err(
                        Hangup::new("the client does not use TLS, which is required").into(),
                    );
                }
                Greeting::Plain => return Ok(Accepted::Plain(stream, first)),
                Greeting::Unclear => return Err(ConnectionEnd::Closed),
            },
            Err(_) => return Err(Hangup::new("the client has not said what it wants").into()),
        }
        let acceptor = TlsAcceptor::from(Arc::clone(&self.current.read()));
        let accepting = acceptor.accept_with(stream, |tls| {
            // A new TLS session has room for these bytes.
            let _ = tls.read_tls(&mut first.as_slice());
        });
        match tokio::time::timeout(HANDSHAKE, accepting).await {
            Ok(Ok(stream)) => {
                let version = match stream.get_ref().1.protocol_version() {
                    Some(ProtocolVersion::TLSv1_2) => TlsVersion::V12,
                    _ => TlsVersion::V13,
                };
                Ok(Accepted::Tls(version, Box::new(stream)))
            }
            Ok(Err(problem)) if problem.kind() == io::ErrorKind::InvalidData => {
                Err(Hangup::new(format!("TLS handshake failed: {problem}")).into())
            }
            Ok(Err(problem)) => Err(problem.into()),
            Err(_) => Err(Hangup::new("TLS handshake took too long").into()),
        }
    }
}

/// Reads until the first bytes tell the protocol. Returns `Unclear` if the client disconnects before that.
async fn greeting(stream: &mut TcpStream, first: &mut Vec<u8>) -> io::Result<Greeting> {
    loop {
        let greeting = Greeting::of(first);
        if greeting != Greeting::Unclear || stream.read_buf(first).await? == 0 {
            return Ok(greeting);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[test]
    fn greetings() {
        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3, 0x55];
        // 278 bytes, request id 1, response to 0, OP_MSG.
        let message = [0x16, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xDD, 7, 0, 0];
        // 66,326 bytes, which start like TLS.
        let large = [0x16, 3, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xDD, 7, 0, 0];
        for (bytes, expected) in [
            (&hello[..], Greeting::Tls),
            (&hello[..11], Greeting::Tls),
            (&hello[..10], Greeting::Unclear),
            (&hello[..1], Greeting::Unclear),
            (&[], Greeting::Unclear),
            (&message, Greeting::Plain),
            (&message[..2], Greeting::Plain),
            (&large, Greeting::Plain),
            (&large[..10], Greeting::Unclear),
            (b"GET / HTTP/1.1\r\n", Greeting::Plain),
            (&[0x80], Greeting::Plain),
        ] {
            assert_eq!(Greeting::of(bytes), expected, "{bytes:x?}");
        }
    }

    /// Earlier versions waited for such a client until the handshake timed out, and then hung up.
    #[tokio::test]
    async fn a_client_that_disconnects_in_the_handshake_ends_it() {
        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xFC, 3, 3, 0x55];
        for mode in [TlsMode::Optional, TlsMode::Required] {
            let mut config = Config::default();
            config.tls.mode = mode;
            let tls = Acceptor::open(&config).unwrap().unwrap();
            for sent in 0..=hello.len() {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let mut client = TcpStream::connect(listener.local_addr().unwrap())
                    .await
                    .unwrap();
                client.write_all(&hello[..sent]).await.unwrap();
                client.shutdown().await.unwrap();
                let (stream, _) = listener.accept().await.unwrap();
                let end = tls.accept(stream).await.err();
                let gone = matches!(end, Some(ConnectionEnd::Closed | ConnectionEnd::Lost(_)));
                assert!(gone, "{mode:?} {sent}: {end:?}");
            }
        }
    }
}
