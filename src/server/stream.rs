//! The two kinds of sockets: plain and TLS. A connection is generic over them, so that TLS costs a plain connection
//! nothing.

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

/// A socket that a connection runs over.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Waits until bytes may have arrived.
    fn readable(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits until the client has closed the connection, even if bytes that came before are still unread.
    fn closed(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Reads what has arrived, without waiting: `WouldBlock` if nothing has.
    fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize>;

    /// Tells the client that the connection ends, if the protocol has a message for that.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// The longest wait for a client that does not read the last few bytes.
const GOODBYE: Duration = Duration::from_millis(500);

/// Waits for the end of the connection, not for bytes. On Linux the runtime reports the end as this kind of readiness.
/// Other systems show the end only after all bytes are read.
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

    /// Polls once without a waker. A caller that then waits for more polls again with its own waker.
    fn try_read(&mut self, buffer: &mut BytesMut) -> io::Result<usize> {
        let mut context = Context::from_waker(Waker::noop());
        match pin!(self.read_buf(buffer)).poll(&mut context) {
            Poll::Ready(read) => read,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Sends the closing alert. Without it a client cannot tell a regular end from an attack.
    async fn close(&mut self) {
        let _ = tokio::time::timeout(GOODBYE, self.shutdown()).await;
    }
}
