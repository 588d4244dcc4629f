//! One connection of a client: it builds messages, sends them, and reads the replies, without the cost of a driver.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bson::{Document, doc};
use sundown::value::Doc;

pub struct Connection {
    socket: TcpStream,
    /// The session that every command names, as drivers do.
    pub lsid: Document,
    buffer: Vec<u8>,
}

/// The header of a message, its flags, and the kind of its first section.
const BODY: usize = 21;

/// Builds a document of 1 KB.
pub fn document(id: i64) -> Document {
    doc! {"_id": id, "name": format!("customer {id:08}"), "count": 0, "pad": "x".repeat(940)}
}

/// Builds an OP_MSG, with a document outside the command if there is one.
pub fn message(command: &Document, outside: Option<(&str, Document)>) -> Vec<u8> {
    let mut bytes = vec![0; BODY];
    bytes[12..16].copy_from_slice(&2013_i32.to_le_bytes());
    bytes.extend(command.to_vec().expect("encodes"));
    if let Some((name, document)) = outside {
        let document = document.to_vec().expect("encodes");
        let size = (4 + name.len() + 1 + document.len()) as i32;
        bytes.push(1);
        bytes.extend(size.to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.extend(document);
    }
    let length = (bytes.len() as i32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    bytes
}

// === impl Connection ===

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("a connection");
        socket.set_nodelay(true).expect("a TCP socket");
        let patience = Some(Duration::from_secs(60));
        socket.set_read_timeout(patience).expect("a TCP socket");
        Self {
            socket,
            lsid: doc! {"id": bson::Uuid::new()},
            buffer: vec![0; 64 * 1024],
        }
    }

    /// Sends a message and waits until its reply is there.
    pub fn exchange(&mut self, message: &[u8]) {
        self.socket.write_all(message).expect("it is sent");
        let (mut filled, mut length) = (0, 4);
        while filled < length {
            let read = self
                .socket
                .read(&mut self.buffer[filled..])
                .expect("a reply");
            assert!(read > 0, "the server has closed the connection");
            filled += read;
            if let Some(word) = self.buffer[..filled].first_chunk() {
                length = i32::from_le_bytes(*word) as usize;
                if self.buffer.len() < length {
                    self.buffer.resize(length, 0);
                }
            }
        }
    }

    /// Returns the latest reply.
    pub fn reply(&self) -> Doc<'_> {
        let length = i32::from_le_bytes(*self.buffer.first_chunk().expect("a header"));
        Doc::new(&self.buffer[BODY..length as usize])
    }
}
