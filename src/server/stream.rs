//! The two kinds of sockets that a connection runs over. It is compiled for each of them, so that the plain one costs nothing for
//! there being another.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::BytesMut;
#[cfg(target_os = "linux")]
use tokio::io::Interest;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Waits until bytes may have come.
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits until the client has closed the connection, also while bytes that came before are not taken.
    fn closed(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Takes what has come, without waiting: `WouldBlock` if there is nothing.
    fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize>;

    /// Says goodbye, where there is a way to say so.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Nobody waits longer for a client that does not take the last few bytes.
const GOODBYE: Duration = Duration::from_millis(500);

/// Among what the runtime knows of a socket, this is the part that tells of its end and not of bytes. Elsewhere than on Linux the end
/// shows only behind the bytes.
#[cfg(target_os = "linux")]
async fn closed(socket: &TcpStream) -> io::Result<()> {
    socket.ready(Interest::PRIORITY).await.map(drop)
}

#[cfg(not(target_os = "linux"))]
async fn closed(_: &TcpStream) -> io::Result<()> {
    std::future::pending().await
}

impl Stream for TcpStream {
    #[inline]
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send {
        TcpStream::readable(self)
    }

    fn closed(&self) -> impl Future<Output = io::Result<()>> + Send {
        closed(self)
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

    fn closed(&self) -> impl Future<Output = io::Result<()>> + Send {
        closed(self.get_ref().0)
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
