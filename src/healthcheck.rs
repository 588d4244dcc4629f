//! Asks a server for a ping, as `sundown healthcheck` does for docker: one connection, one message, one answer.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use bytes::BytesMut;
use tokio_util::codec::{Decoder, Encoder};

use crate::value::DocBuf;
use crate::wire::{Codec, Form, Incoming, Outgoing};

/// Fails unless a server at `host:port` answers `{ok: 1}`, each step within `patience`.
pub fn ping(host: &str, port: u16, patience: Duration) -> io::Result<()> {
    let address = (host, port)
        .to_socket_addrs()?
        .next()
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the host has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;

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
        // A reply is laid out as a request is.
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
