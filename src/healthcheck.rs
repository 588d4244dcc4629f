//! Pings a server, as `sundown healthcheck` does for docker: one connection, one message, one answer.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{AlertDescription, ClientConnection, Error, StreamOwned};

use crate::trust::{Trust, client_config};
use crate::value::{Doc, DocBuf};
use crate::wire::{Request, put_request, take_reply};

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
    let mut message = Vec::new();
    put_request(&Request::new(command.into_bytes()), 1, None, &mut message);
    stream.write_all(&message)?;

    let mut bytes = BytesMut::new();
    let mut chunk = [0; 1024];
    loop {
        match take_reply(&mut bytes).map_err(io::Error::other)? {
            Some(reply) if Doc::new(&reply.document).get("ok").as_f64() == Some(1.0) => {
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

/// The identity of a server says nothing about its health, so any certificate will do.
fn session(address: IpAddr) -> Result<ClientConnection, String> {
    let config = client_config(Trust::Anyone, None)?;
    ClientConnection::new(Arc::new(config), ServerName::from(address))
        .map_err(|problem| problem.to_string())
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
