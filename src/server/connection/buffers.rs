//! The buffers of a connection. They grow as needed, and memory that one large message needed is freed afterwards.

use std::io;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncReadExt;

use crate::handler::Handler;

use super::{Connection, FLUSH_AT};
use crate::server::stream::Stream;

/// The initial sizes of the buffers. They are enough for ordinary messages.
pub(super) const READ_BUFFER: usize = 16 * 1024;
pub(super) const WRITE_BUFFER: usize = 4 * 1024;

/// Buffers larger than this are freed after they have not been needed for a while.
pub(super) const LARGE_BUFFER: usize = 64 * 1024;
const SMALL_ROUNDS: u32 = 64;
pub(super) const QUIET: Duration = Duration::from_secs(1);

// === impl Connection ===

impl<H: Handler, S: Stream> Connection<H, S> {
    /// Waits for bytes. If the buffers are large and no bytes arrive within `quiet`, it frees them and waits on.
    pub(super) async fn read(&mut self, quiet: Duration) -> io::Result<usize> {
        if self.has_large_buffers() {
            match tokio::time::timeout(quiet, self.stream.read_buf(&mut self.input)).await {
                Ok(read) => return read,
                Err(_) => self.shrink(),
            }
        }
        self.stream.read_buf(&mut self.input).await
    }

    /// Makes room for the next read, and frees memory that one large message needed and the following messages do not.
    pub(super) fn prepare_buffers(&mut self) {
        if self.input.is_empty() || self.input.len() == self.input.capacity() {
            // As a rule the last request has been dropped by now. This then only reuses the buffer from its beginning.
            self.input.reserve(READ_BUFFER);
        }
        if self.input.len() > READ_BUFFER {
            // A large message is still arriving.
            self.small_rounds = 0;
        } else if self.has_large_buffers() {
            self.small_rounds += 1;
            if self.small_rounds >= SMALL_ROUNDS || self.unread_replies.is_above_limit() {
                self.shrink();
            }
        }
    }

    pub(super) fn has_large_buffers(&self) -> bool {
        self.input.capacity() > LARGE_BUFFER || self.output.capacity() > FLUSH_AT + LARGE_BUFFER
    }

    /// Frees large buffers. The input buffer stays if a large message is still arriving.
    pub(in crate::server) fn shrink(&mut self) {
        self.small_rounds = 0;
        if self.input.len() <= READ_BUFFER {
            self.input = copy_to_ordinary_buffer(&self.input);
        }
        if self.output.is_empty() {
            self.output = Vec::with_capacity(WRITE_BUFFER);
            self.unread_share = None;
        }
    }
}

/// Copies the bytes into a buffer of the ordinary size.
pub(super) fn copy_to_ordinary_buffer(input: &[u8]) -> BytesMut {
    let mut buffer = BytesMut::with_capacity(READ_BUFFER + input.len());
    buffer.extend_from_slice(input);
    buffer
}
