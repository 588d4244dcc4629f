//! The two kinds of sockets that a connection runs over. It is compiled for each of them, so that the plain one costs nothing for
//! there being another.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Waits until bytes may have come.
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Takes what has come, without waiting: `WouldBlock` if there is nothing.
    fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize>;

    /// Says goodbye, where there is a way to say so.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Nobody waits longer for a client that does not take the last few bytes.
const GOODBYE: Duration = Duration::from_millis(500);

impl Stream for TcpStream {
    #[inline]
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        TcpStream::readable(self)
    }

    #[inline]
    fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        self.try_read_buf(buffer)
    }

    #[inline]
    async fn close(&mut self) {}
}

impl Stream for TlsStream<TcpStream> {
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        self.get_ref().0.readable()
    }

    /// Asked once; whoever then waits for more asks again with a waker of its own.
    fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let mut nobody = Context::from_waker(Waker::noop());
        match pin!(self.read_buf(buffer)).poll(&mut nobody) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Without it a client cannot tell an end from an attack.
    async fn close(&mut self) {
        let _ = tokio::time::timeout(GOODBYE, self.shutdown()).await;
    }
}
