//! A client that sends and receives raw bytes, and functions that build messages.

// Each test binary uses only a part of this.
#![allow(dead_code)]

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;

use bson::{Document, doc};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

pub const OP_MSG: i32 = 2013;
pub const OP_QUERY: i32 = 2004;
pub const OP_COMPRESSED: i32 = 2012;
pub const CHECKSUM: u32 = 1;
pub const MORE_TO_COME: u32 = 2;
pub const EXHAUST_ALLOWED: u32 = 1 << 16;

/// Far longer than any step takes. Only a server that hangs reaches it.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Waits for something that happens on the other side of a socket without any notification.
pub async fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let waiting = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

pub struct Client<S = TcpStream>(pub S);

#[derive(Debug, PartialEq)]
pub struct Reply {
    pub request_id: i32,
    pub response_to: i32,
    pub opcode: i32,
    pub flags: u32,
    /// The id of the compressor of the message, or 0 if it was not compressed.
    pub compressor: u8,
    pub document: Document,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        Self(TcpStream::connect(address).await.unwrap())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub async fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Returns the next message, or `None` if the server has closed the connection.
    pub async fn receive(&mut self) -> Option<Reply> {
        tokio::time::timeout(PATIENCE, self.read_message())
            .await
            .expect("an answer or an end")
    }

    async fn read_message(&mut self) -> Option<Reply> {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length).await {
            Ok(_) => {}
            Err(end) => {
                let ends = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset];
                assert!(ends.contains(&end.kind()), "{end}");
                return None;
            }
        }
        let mut message = vec![0; i32::from_le_bytes(length) as usize];
        message[..4].copy_from_slice(&length);
        self.0.read_exact(&mut message[4..]).await.unwrap();
        let mut compressor = 0;
        if message[12..16] == OP_COMPRESSED.to_le_bytes() {
            compressor = message[24];
            let size = i32::from_le_bytes(message[20..24].try_into().unwrap());
            let inside = inflate(compressor, &message[25..], size as usize);
            message.copy_within(16..20, 12);
            message.truncate(16);
            message.extend(inside);
            let length = message.len() as i32;
            message[..4].copy_from_slice(&length.to_le_bytes());
        }
        let word = |at: usize| i32::from_le_bytes(message[at..at + 4].try_into().unwrap());
        let opcode = word(12);
        let flags = word(16) as u32;
        let mut end = message.len();
        let start = match opcode {
            OP_MSG => {
                assert_eq!(message[20], 0, "section kind");
                if flags & CHECKSUM != 0 {
                    end -= 4;
                    assert_eq!(crc32c::crc32c(&message[..end]), word(end) as u32);
                }
                21
            }
            1 => {
                assert_eq!(word(32), 1, "documents");
                36
            }
            other => panic!("opcode {other}"),
        };
        Some(Reply {
            request_id: word(4),
            response_to: word(8),
            opcode,
            flags,
            compressor,
            document: Document::from_reader(&message[start..end]).unwrap(),
        })
    }

    pub async fn ask(&mut self, command: Document) -> Document {
        self.send(&msg(77, 0, &[&body(command)])).await;
        let reply = self.receive().await.expect("a reply");
        assert_eq!(reply.response_to, 77);
        reply.document
    }

    pub async fn assert_alive(&mut self) {
        assert_eq!(self.ask(doc! {"ping": 1}).await, doc! {"ok": 1.0});
    }

    pub async fn assert_hung_up(&mut self, why: &str) {
        assert_eq!(self.receive().await, None, "{why}");
    }
}

pub fn frame(request_id: i32, opcode: i32, inside: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [16 + inside.len() as i32, request_id, 0, opcode] {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.extend_from_slice(inside);
    bytes
}

pub fn msg(request_id: i32, flags: u32, sections: &[&[u8]]) -> Vec<u8> {
    let inside = [&flags.to_le_bytes()[..], &sections.concat()].concat();
    frame(request_id, OP_MSG, &inside)
}

pub fn checked(request_id: i32, sections: &[&[u8]]) -> Vec<u8> {
    let mut bytes = msg(
        request_id,
        CHECKSUM,
        &[sections.concat().as_slice(), &[0; 4]],
    );
    let end = bytes.len() - 4;
    let sum = crc32c::crc32c(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&sum);
    bytes
}

pub fn body(document: Document) -> Vec<u8> {
    [&[0][..], &document.to_vec().unwrap()].concat()
}

pub fn sequence(name: &str, documents: &[Document]) -> Vec<u8> {
    let mut inside = name.as_bytes().to_vec();
    inside.push(0);
    for document in documents {
        inside.extend(document.to_vec().unwrap());
    }
    let size = (inside.len() as i32 + 4).to_le_bytes();
    [&[1][..], &size, &inside].concat()
}

pub fn query(namespace: &str, command: Document) -> Vec<u8> {
    let mut inside = vec![0; 4];
    inside.extend_from_slice(namespace.as_bytes());
    inside.extend_from_slice(&[0; 5]);
    inside.extend_from_slice(&(-1i32).to_le_bytes());
    inside.extend(command.to_vec().unwrap());
    frame(5, OP_QUERY, &inside)
}

pub fn ping() -> Vec<u8> {
    body(doc! {"ping": 1, "$db": "admin"})
}

/// Wraps a whole message in an OP_COMPRESSED, with the compressor that has this id.
pub fn compressed(compressor: u8, message: &[u8]) -> Vec<u8> {
    let mut inside = message[12..16].to_vec();
    inside.extend((message.len() as i32 - 16).to_le_bytes());
    inside.push(compressor);
    inside.extend(deflate(compressor, &message[16..]));
    let id = i32::from_le_bytes(message[4..8].try_into().unwrap());
    frame(id, OP_COMPRESSED, &inside)
}

pub fn deflate(compressor: u8, bytes: &[u8]) -> Vec<u8> {
    match compressor {
        1 => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
        2 => {
            let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut zlib, bytes).unwrap();
            zlib.finish().unwrap()
        }
        3 => zstd::bulk::compress(bytes, 1).unwrap(),
        other => panic!("compressor {other}"),
    }
}

fn inflate(compressor: u8, bytes: &[u8], size: usize) -> Vec<u8> {
    let inflated = match compressor {
        1 => snap::raw::Decoder::new().decompress_vec(bytes).unwrap(),
        2 => {
            let mut inflated = Vec::new();
            let mut zlib = flate2::read::ZlibDecoder::new(bytes);
            std::io::Read::read_to_end(&mut zlib, &mut inflated).unwrap();
            inflated
        }
        3 => zstd::bulk::decompress(bytes, size).unwrap(),
        other => panic!("compressor {other}"),
    };
    assert_eq!(inflated.len(), size);
    inflated
}
