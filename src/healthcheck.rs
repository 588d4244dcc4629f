//! Pings a server, as `sundown healthcheck` does for docker: one connection, one message, one answer.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, ring};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error,
    SignatureScheme, StreamOwned,
};
use tokio_util::codec::{Decoder, Encoder};

use crate::value::DocBuf;
use crate::wire::{Codec, Form, Incoming, Outgoing};

/// A verifier that accepts any certificate: the identity of a server says nothing about its health.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

/// Fails unless a server at `host:port` answers `{ok: 1}`. Each step must end within `timeout`.
pub fn ping(host: &str, port: u16, timeout: Duration, encrypted: bool) -> io::Result<()> {
    let address = (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))?;
    let stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    if !encrypted {
        return ask(stream);
    }
    let session = session(address.ip()).map_err(io::Error::other)?;
    match ask(StreamOwned::new(session, stream)) {
        // The server requires a client certificate, so it is up.
        Err(problem) if asks_for_certificate(&problem) => Ok(()),
        other => other,
    }
}

fn ask(mut stream: impl Read + Write) -> io::Result<()> {
    let command = DocBuf::build(|command| {
        command.put_i32("ping", 1).put_str("$db", "admin");
    });
    let mut bytes = BytesMut::new();
    let message = Outgoing {
        request_id: 1,
        response_to: 0,
        form: Form::Msg,
        document: command.bytes(),
    };
    let mut codec = Codec::default();
    codec
        .encode(message, &mut bytes)
        .map_err(io::Error::other)?;
    stream.write_all(&bytes)?;

    bytes.clear();
    let mut chunk = [0; 1024];
    loop {
        // A reply has the same layout as a request.
        match codec.decode(&mut bytes).map_err(io::Error::other)? {
            Some(Incoming::Request(reply)) if reply.body().get("ok").as_f64() == Some(1.0) => {
                return Ok(());
            }
            Some(_) => return Err(io::Error::other("the server's answer is not ok")),
            None => {}
        }
        match stream.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => bytes.extend_from_slice(chunk.get(..read).unwrap_or_default()),
        }
    }
}

fn session(address: IpAddr) -> Result<ClientConnection, Error> {
    let provider = ring::default_provider();
    let anyone = AnyCertificate(provider.signature_verification_algorithms);
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(anyone))
        .with_no_client_auth();
    ClientConnection::new(Arc::new(config), ServerName::from(address))
}

fn asks_for_certificate(problem: &io::Error) -> bool {
    let inner = problem.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(
        inner,
        Some(Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure
        ))
    )
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
