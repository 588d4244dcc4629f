//! One data connection to a node of the cluster: sends a request, receives its reply.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::client::TlsStream;

use super::cluster::ClusterNode;
use crate::error::Hangup;
use crate::interrupt::{LARGE_TO_COMPRESS, run_blocking, run_over};
use crate::value::{Doc, DocBuf};
use crate::wire::{Codec, Compressor, Request, ServerReply, put_request, take_reply};

pub struct Link {
    socket: Socket,
    node: Arc<ClusterNode>,
    /// Compresses requests, if the node has agreed to it.
    pub(super) compressor: Option<Compressor>,
    /// The node's `topologyVersion` when it was greeted.
    pub(super) version: DocBuf,
    input: BytesMut,
    output: Vec<u8>,
    next_id: i32,
}

pub(super) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Unix(UnixStream),
}

const READ_BUFFER: usize = 16 * 1024;

/// A buffer that one large message has made grow beyond this is given back.
const KEEP: usize = 256 * 1024;

// === impl Link ===

impl Link {
    pub(super) fn new(socket: Socket, node: Arc<ClusterNode>) -> Self {
        Self {
            socket,
            node,
            compressor: None,
            version: DocBuf::default(),
            input: BytesMut::with_capacity(READ_BUFFER),
            output: Vec::new(),
            next_id: 1,
        }
    }

    pub fn node(&self) -> &Arc<ClusterNode> {
        &self.node
    }

    pub fn version(&self) -> Doc<'_> {
        self.version.as_doc()
    }

    /// Returns whether the node has closed the connection while nobody used it. Costs no system call while nothing has
    /// happened.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        let read = match &self.socket {
            Socket::Plain(socket) => socket.try_read(&mut byte),
            Socket::Tls(socket) => socket.get_ref().0.try_read(&mut byte),
            Socket::Unix(socket) => socket.try_read(&mut byte),
        };
        // Nothing is expected to arrive, so whatever arrives is an end.
        !matches!(read, Err(problem) if problem.kind() == io::ErrorKind::WouldBlock)
    }

    /// Sends a request and returns the reply document. After an error, or if the future is dropped, the link must not be
    /// used again: a late reply would be taken for the next one.
    pub async fn exchange(&mut self, request: &Request) -> io::Result<Bytes> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        self.put(request, id);
        self.socket.write_all(&self.output).await?;
        if self.output.capacity() > KEEP {
            self.output = Vec::new();
        }
        loop {
            match self.take().map_err(io::Error::other)? {
                Some(reply) if reply.response_to == id && !reply.more_to_come => {
                    if self.input.is_empty() && self.input.capacity() > KEEP {
                        self.input = BytesMut::with_capacity(READ_BUFFER);
                    }
                    return Ok(reply.document);
                }
                Some(_) => return Err(io::Error::other("a reply that was not asked for")),
                None => {}
            }
            self.input.reserve(READ_BUFFER / 2);
            if self.socket.read_buf(&mut self.input).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    fn put(&mut self, request: &Request, id: i32) {
        self.output.clear();
        let mut put = || put_request(request, id, self.compressor, &mut self.output);
        match self.compressor.is_some() && request.size() >= LARGE_TO_COMPRESS {
            true => run_blocking(put),
            false => put(),
        }
    }

    fn take(&mut self) -> Result<Option<ServerReply>, Hangup> {
        match self.compressor {
            // A plain reply is not looked at.
            None => take_reply(&mut self.input),
            Some(_) => run_over(Codec::weight(&self.input)?, || take_reply(&mut self.input)),
        }
    }
}

// === impl Socket ===

impl Socket {
    async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes).await,
            Self::Tls(socket) => {
                socket.write_all(bytes).await?;
                socket.flush().await
            }
            Self::Unix(socket) => socket.write_all(bytes).await,
        }
    }

    async fn read_buf(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read_buf(buffer).await,
            Self::Tls(socket) => socket.read_buf(buffer).await,
            Self::Unix(socket) => socket.read_buf(buffer).await,
        }
    }
}
