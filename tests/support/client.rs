//! A client that speaks only OP_MSG: one command, one reply, no driver in between.

use std::io::{Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bson::Document;

pub struct Client {
    socket: TcpStream,
    next: i32,
}

// === impl Client ===

impl Client {
    pub fn connect(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        // If the server hangs, the test fails instead of waiting forever.
        socket.set_read_timeout(Some(Duration::from_secs(180)))?;
        Ok(Self { socket, next: 1 })
    }

    /// Sends a command and waits for its reply, which may be an error.
    pub fn command(&mut self, database: &str, command: Document) -> Result<Document> {
        self.send(database, command)?;
        self.receive()
    }

    pub fn send(&mut self, database: &str, mut command: Document) -> Result<()> {
        command.insert("$db", database);
        let body = command.to_vec().map_err(Error::other)?;
        let length = 16 + 4 + 1 + body.len();
        let mut message = Vec::with_capacity(length);
        for word in [length as i32, self.next, 0, 2013, 0] {
            message.extend_from_slice(&word.to_le_bytes());
        }
        message.push(0);
        message.extend_from_slice(&body);
        self.next += 1;
        self.socket.write_all(&message)
    }

    pub fn receive(&mut self) -> Result<Document> {
        let mut head = [0; 21];
        self.socket.read_exact(&mut head)?;
        let length = i32::from_le_bytes(*head.first_chunk().expect("four bytes"));
        let mut body = vec![0; (length as usize).saturating_sub(head.len())];
        self.socket.read_exact(&mut body)?;
        Document::from_reader(&body[..]).map_err(Error::other)
    }
}
