//! One connection, from its first byte to its last: it reads messages, runs them, and writes the replies.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::AsyncWriteExt;
use tokio_util::codec::Decoder;

use crate::error::Hangup;
use crate::handler::{Answer, Handler, Outcome, Peer, Traffic, Work};
use crate::interrupt::run_blocking;
use crate::wire::{Codec, Frame, Incoming, Request};

use super::buffers::{KEEP, QUIET, READ_BUFFER, WRITE_BUFFER, copied};
use super::drain::ConnectionPhase;
use super::inflate_budget::{self, InflateBudget};
use super::stream::Stream;
use super::unread_replies::{self, UnreadReplies, UnreadShare};

pub(super) struct Connection<H: Handler, S> {
    pub(super) handler: Arc<H>,
    /// The handler's state for this connection.
    state: H::Connection,
    pub(super) stream: S,
    codec: Codec,
    /// Bytes that have arrived and were not run yet. Requests are split off without copying.
    pub(super) input: BytesMut,
    /// Replies that were not written yet. All are complete, except possibly the last one.
    pub(super) output: Vec<u8>,
    /// Bytes that were not reported to the handler yet.
    pub(super) traffic: Traffic,
    /// The id of the next reply.
    next_id: i32,
    pub(super) phase: Arc<ConnectionPhase>,
    unpacking: InflateBudget,
    pub(super) unread: UnreadReplies,
    /// The share of `unread` that this connection's output buffer takes while it is large.
    pub(super) part: Option<UnreadShare>,
    /// The number of consecutive rounds that would have fitted into small buffers.
    pub(super) small_rounds: u32,
}

/// Everything that a connection needs besides its socket.
pub(super) struct Opening<H> {
    pub(super) handler: Arc<H>,
    pub(super) peer: Peer,
    pub(super) codec: Codec,
    pub(super) phase: Arc<ConnectionPhase>,
    pub(super) unpacking: InflateBudget,
    pub(super) unread: UnreadReplies,
}

/// The reason why a connection ended.
#[derive(Debug)]
pub(super) enum End {
    /// The client closed the connection, or the server is shutting down.
    Closed,
    Lost(io::Error),
    Hangup(Hangup),
}

/// The work that remains after a request was run.
pub(super) enum Rest {
    Nothing,
    Finish(Pending),
    /// Run the request again for the next reply of a stream.
    Again(Box<Request>),
}

/// A command that is still running, and the reply that it will complete.
pub(super) struct Pending {
    pub(super) maker: Maker,
    pub(super) frame: Frame,
    /// The client waits for the reply.
    pub(super) wanted: bool,
    /// The request to run for the next reply, if the command streams replies.
    pub(super) again: Option<Box<Request>>,
}

/// The source of the reply of a command that is still running.
pub(super) enum Maker {
    Work(Box<dyn Work>),
    Awaited(Pin<Box<dyn Future<Output = Result<Answer, Hangup>> + Send>>),
}

/// Replies are written when they reach this many bytes, even if more requests wait.
pub(super) const FLUSH_AT: usize = 256 * 1024;

/// Checking a message of this size takes about a millisecond or more. From this size on, other tasks move to another thread
/// meanwhile.
const LARGE: usize = 2 * 1024 * 1024;

/// Compressing a message of this size takes about as long.
const LARGE_TO_COMPRESS: usize = 128 * 1024;

/// The time for writing earlier replies to a client after a hangup.
const LAST_WRITE: Duration = Duration::from_secs(2);

// === impl Connection ===

impl<H: Handler, S: Stream> Connection<H, S> {
    pub(super) fn new(opening: Opening<H>, stream: S) -> Self {
        let Opening {
            handler,
            peer,
            codec,
            phase,
            unpacking,
            unread,
        } = opening;
        Self {
            state: handler.open(peer),
            handler,
            stream,
            codec,
            input: BytesMut::with_capacity(READ_BUFFER),
            output: Vec::with_capacity(WRITE_BUFFER),
            traffic: Traffic::default(),
            next_id: 1,
            phase,
            unpacking,
            unread,
            part: None,
            small_rounds: 0,
        }
    }

    /// Adds bytes that were already read from the stream. They are part of the first message.
    #[must_use]
    pub(super) fn begun_with(mut self, bytes: &[u8]) -> Self {
        self.input.extend_from_slice(bytes);
        self.traffic.read += bytes.len() as u64;
        self
    }

    pub(super) async fn run(mut self) -> End {
        let end = self.serve().await;
        if matches!(end, End::Hangup(_)) {
            // Replies to the messages before the bad one are still sent, but the server does not wait for a client that
            // does not read.
            let _ = tokio::time::timeout(LAST_WRITE, self.flush()).await;
        }
        if !matches!(end, End::Lost(_)) {
            self.stream.close().await;
        }
        end
    }

    async fn serve(&mut self) -> End {
        loop {
            self.tidy();
            if !self.phase.wait() {
                return End::Closed;
            }
            match self.read(QUIET).await {
                Ok(0) => return End::Closed,
                Ok(read) => self.traffic.read += read as u64,
                Err(problem) => return End::Lost(problem),
            }
            if !self.phase.work() {
                return End::Closed;
            }
            if let Err(end) = self.run_all().await {
                return end;
            }
        }
    }

    /// Runs every complete message that has arrived, in order, and writes all replies.
    async fn run_all(&mut self) -> Result<(), End> {
        let mut budgeted = false;
        loop {
            let decoded = if self.input.len() < LARGE && !Codec::is_compressed(&self.input) {
                self.codec.decode(&mut self.input)?
            } else {
                self.decode_heavy().await?
            };
            let Some(incoming) = decoded else {
                break;
            };
            // The read has paid for the first message. A client that sends thousands of messages at once yields to others
            // now and then.
            if budgeted {
                tokio::task::consume_budget().await;
            }
            budgeted = true;
            if self.unread.is_far_too_much() {
                Box::pin(self.hold_back(&incoming)).await;
            }
            match self.answer(incoming)? {
                Rest::Nothing => {}
                rest => self.go_on(rest).await?,
            }
            if self.output.len() >= FLUSH_AT {
                self.flush().await?;
            }
        }
        self.flush().await
    }

    /// Decodes a message that takes long to check, or that is compressed.
    async fn decode_heavy(&mut self) -> Result<Option<Incoming>, Hangup> {
        let weight = Codec::weight(&self.input)?;
        let compressed_message = Codec::peek_compressed(&self.input);
        let place = match compressed_message {
            Some(message) if message.large > inflate_budget::SMALL => {
                // Boxed, so that the future of a connection does not grow.
                Some(Box::pin(self.unpacking.place(message.large)).await?)
            }
            _ => None,
        };
        let decode = || self.codec.decode_keeping(&mut self.input, place);
        let decoded = if weight >= LARGE {
            run_blocking(decode)
        } else {
            decode()
        };
        if let (Ok(Some(_)), Some(message)) = (&decoded, compressed_message) {
            self.handler.message_compressed(message, true);
        }
        if weight >= LARGE && !self.input.is_empty() && self.input.len() <= READ_BUFFER {
            // A few bytes of the next message must not keep this message's large buffer alive.
            self.input = copied(&self.input);
        }
        decoded
    }

    /// Completes a reply.
    #[inline]
    pub(super) fn seal(&mut self, frame: Frame) -> Result<(), Hangup> {
        if frame.is_compressed() {
            return self.seal_compressed(frame);
        }
        frame.finish(&mut self.output)
    }

    fn seal_compressed(&mut self, frame: Frame) -> Result<(), Hangup> {
        let start = frame.start();
        if self.output.len() - start >= LARGE_TO_COMPRESS {
            run_blocking(|| frame.finish(&mut self.output))?;
        } else {
            frame.finish(&mut self.output)?;
        }
        // A reply that would not become smaller was left uncompressed.
        if let Some(message) = Codec::peek_compressed(self.output.get(start..).unwrap_or_default())
        {
            self.handler.message_compressed(message, false);
        }
        Ok(())
    }

    /// Runs one command and frames its reply, unless the command takes longer.
    pub(super) fn answer(&mut self, incoming: Incoming) -> Result<Rest, Hangup> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let (to, frame, again, outcome) = match incoming {
            Incoming::Request(request) => {
                let to = request.reply_to();
                let again = request.exhaust_allowed.then(|| next_of(&request, id));
                let frame = to.begin(id, &mut self.output);
                let outcome = self
                    .handler
                    .call(&mut self.state, request, &mut self.output);
                (to, frame, again, outcome)
            }
            Incoming::Refused(to, error) => {
                let frame = to.begin(id, &mut self.output);
                error.write_reply(&mut self.output);
                (to, frame, None, Ok(Outcome::Replied))
            }
        };
        let maker = match outcome {
            Ok(Outcome::Replied) if to.wanted => {
                self.seal(frame)?;
                return Ok(Rest::Nothing);
            }
            Ok(Outcome::Streaming) if to.wanted => {
                if again.is_some() {
                    frame.announce_next(&mut self.output);
                }
                self.seal(frame)?;
                return Ok(again.map_or(Rest::Nothing, Rest::Again));
            }
            Ok(Outcome::Replied | Outcome::Streaming) => {
                frame.discard(&mut self.output);
                return Ok(Rest::Nothing);
            }
            Ok(Outcome::Work(work)) => Maker::Work(work),
            Ok(Outcome::Awaited(answer)) => Maker::Awaited(answer),
            Err(hangup) => {
                frame.discard(&mut self.output);
                return Err(hangup);
            }
        };
        Ok(Rest::Finish(Pending {
            maker,
            frame,
            wanted: to.wanted,
            again,
        }))
    }

    pub(super) async fn flush(&mut self) -> Result<(), End> {
        self.traffic.written += self.output.len() as u64;
        let traffic = std::mem::take(&mut self.traffic);
        self.handler.moved(&self.state, traffic);
        if !self.output.is_empty() {
            if self.output.len() > KEEP {
                self.small_rounds = 0;
            }
            if self.output.capacity() > unread_replies::SMALL {
                return Box::pin(self.write_counted()).await;
            }
            self.stream.write_all(&self.output).await?;
            self.stream.flush().await?;
            self.output.clear();
        }
        Ok(())
    }
}

/// Returns the request for the next reply of a stream: the same request, as if the client answered the previous reply.
fn next_of(request: &Request, reply: i32) -> Box<Request> {
    Box::new(Request {
        request_id: reply,
        ..request.clone()
    })
}

// === impl End ===

impl From<Hangup> for End {
    fn from(hangup: Hangup) -> Self {
        Self::Hangup(hangup)
    }
}

impl From<io::Error> for End {
    fn from(problem: io::Error) -> Self {
        Self::Lost(problem)
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::pin::pin;

    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::*;

    /// A handler whose reply is the request.
    struct Echo;

    impl Handler for Echo {
        type Connection = ();

        fn open(&self, _: Peer) {}

        fn call(&self, (): &mut (), told: Request, reply: &mut Vec<u8>) -> Result<Outcome, Hangup> {
            reply.extend_from_slice(told.body().bytes());
            Ok(Outcome::Replied)
        }
    }

    type Connected = (Connection<Echo, TcpStream>, TcpStream);

    async fn connected() -> Connected {
        connected_to(InflateBudget::default(), UnreadReplies::default()).await
    }

    /// Connects a client whose receive buffer is small.
    async fn connected_to(unpacking: InflateBudget, unread: UnreadReplies) -> Connected {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        let client = socket.connect(address).await.unwrap();
        let (stream, address) = listener.accept().await.unwrap();
        let opening = Opening {
            handler: Arc::new(Echo),
            peer: Peer::plain(1, address),
            codec: Codec {
                compressors: crate::wire::Compressors::ALL,
            },
            phase: Arc::new(ConnectionPhase::new()),
            unpacking,
            unread,
        };
        (Connection::new(opening, stream), client)
    }

    fn message(size: usize) -> Vec<u8> {
        let body = bson::doc! {"text": "x".repeat(size)}.to_vec().unwrap();
        let mut message = Vec::new();
        for word in [21 + body.len() as i32, 7, 0, 2013, 0] {
            message.extend_from_slice(&word.to_le_bytes());
        }
        message.push(0);
        message.extend(body);
        message
    }

    fn compressed(message: &[u8]) -> Vec<u8> {
        let inside = zstd::bulk::compress(&message[16..], 1).unwrap();
        let mut outside = Vec::new();
        let size = message.len() as i32 - 16;
        for word in [25 + inside.len() as i32, 7, 0, 2012, 2013, size] {
            outside.extend_from_slice(&word.to_le_bytes());
        }
        outside.push(3);
        outside.extend(inside);
        outside
    }

    /// Serves forever.
    async fn serve(connection: &mut Connection<Echo, TcpStream>) {
        loop {
            connection.tidy();
            connection.read(QUIET).await.unwrap();
            connection.run_all().await.unwrap();
        }
    }

    /// Sends a message and receives as many bytes.
    async fn exchange(
        connection: &mut Connection<Echo, TcpStream>,
        client: &mut TcpStream,
        message: &[u8],
    ) {
        let asking = async {
            client.write_all(message).await.unwrap();
            let mut reply = vec![0; message.len()];
            client.read_exact(&mut reply).await.unwrap();
            assert_eq!(reply[20..], message[20..]);
        };
        tokio::select! {
            () = asking => {}
            () = serve(connection) => {}
        }
    }

    /// Sends a message and waits until the connection has it in its buffer, and nothing else.
    async fn delivered(
        connection: &mut Connection<Echo, TcpStream>,
        client: &mut TcpStream,
        message: &[u8],
    ) {
        let reading = async {
            while connection.input.len() < message.len() {
                connection.input.reserve(READ_BUFFER);
                connection.read(QUIET).await.unwrap();
            }
        };
        let (sent, ()) = tokio::join!(client.write_all(message), reading);
        sent.unwrap();
    }

    #[tokio::test]
    async fn large_buffers_are_given_back_in_a_quiet_moment() {
        // Also if a few bytes of the next message have come, and no more of them follow.
        for next in [0, 5] {
            let (mut connection, mut client) = connected().await;
            let message = message(1 << 20);
            exchange(&mut connection, &mut client, &message).await;
            assert!(connection.is_swollen());
            delivered(&mut connection, &mut client, &message[..next]).await;
            {
                let mut reading = pin!(connection.read(Duration::from_millis(1)));
                // This timer is set before the second one, which therefore ends later on any machine.
                tokio::select! {
                    biased;
                    _ = &mut reading => panic!("nothing was sent"),
                    () = ready(()) => {}
                }
                let waited = tokio::time::timeout(Duration::from_millis(20), reading).await;
                assert!(waited.is_err(), "nothing was sent");
            }
            assert!(!connection.is_swollen());
            assert!(connection.part.is_none());
            assert_eq!(connection.input, message[..next]);
            client.write_all(&message[next..]).await.unwrap();
            let mut reply = vec![0; message.len()];
            tokio::select! {
                read = client.read_exact(&mut reply) => drop(read.unwrap()),
                () = serve(&mut connection) => {}
            }
        }
    }

    #[tokio::test]
    async fn what_becomes_large_waits_for_its_place_and_others_do_not() {
        const ROOM: usize = 8 << 20;
        let unpacking = InflateBudget::of(ROOM);
        let (mut connection, mut client) =
            connected_to(unpacking.clone(), UnreadReplies::default()).await;
        let others = unpacking.place(7 << 20).await.unwrap();

        let large = message(2 << 20);
        exchange(&mut connection, &mut client, &large).await;
        exchange(&mut connection, &mut client, &message(10)).await;
        let small = compressed(&message(500_000));
        delivered(&mut connection, &mut client, &small).await;
        connection.run_all().await.unwrap();

        delivered(&mut connection, &mut client, &compressed(&large)).await;
        {
            let mut running = pin!(connection.run_all());
            tokio::select! {
                biased;
                _ = &mut running => panic!("it was unpacked without a place"),
                () = ready(()) => {}
            }
            drop(others);
            running.await.unwrap();
        }
        assert_eq!(unpacking.free(), ROOM, "the place goes with the message");
        let mut replies = 0;
        for _ in 0..2 {
            let length = client.read_i32_le().await.unwrap();
            let mut rest = vec![0; length as usize - 4];
            client.read_exact(&mut rest).await.unwrap();
            replies += 1;
        }
        assert_eq!(replies, 2);
    }

    #[tokio::test]
    async fn who_holds_the_bytes_holds_the_place() {
        let unpacking = InflateBudget::of(8 << 20);
        let mut codec = Codec {
            compressors: crate::wire::Compressors::ALL,
        };
        let mut input = BytesMut::from(compressed(&message(2 << 20)).as_slice());
        let place = unpacking.place(2 << 20).await.unwrap();
        let decoded = codec.decode_keeping(&mut input, Some(place)).unwrap();
        let Some(Incoming::Request(request)) = decoded else {
            panic!("a whole message");
        };
        let slice = request.body.slice(..10);
        drop(request);
        assert_eq!(unpacking.free(), 6 << 20);
        drop(slice);
        assert_eq!(unpacking.free(), 8 << 20);
    }

    #[tokio::test]
    async fn who_does_not_read_is_let_go_only_when_too_much_waits() {
        let large = message(15_000_000);
        // Connections may hold nothing at all.
        let (mut connection, mut client) =
            connected_to(InflateBudget::default(), UnreadReplies::of(0)).await;
        delivered(&mut connection, &mut client, &large).await;
        let end = tokio::time::timeout(Duration::from_secs(120), connection.run_all()).await;
        let end = end.expect("an end").unwrap_err();
        assert!(matches!(end, End::Hangup(_)), "{end:?}");
        assert!(connection.output.is_empty() && connection.part.is_none());

        // There is room, so the server waits for the client.
        let unread = UnreadReplies::default();
        let (mut connection, mut client) =
            connected_to(InflateBudget::default(), unread.clone()).await;
        delivered(&mut connection, &mut client, &large).await;
        let running = async {
            connection.run_all().await.unwrap();
            connection.shrink();
        };
        let mut running = pin!(running);
        let mut first = [0; 1000];
        tokio::select! {
            biased;
            () = &mut running => panic!("all of it was taken"),
            read = client.read_exact(&mut first) => drop(read.unwrap()),
        }
        assert!(unread.waiting() >= large.len());
        let mut rest = vec![0; large.len() - first.len()];
        let ((), read) = tokio::join!(running, client.read_exact(&mut rest));
        read.unwrap();
        assert_eq!(unread.waiting(), 0);
    }

    #[tokio::test]
    async fn what_may_be_large_is_held_back_when_far_too_much_waits() {
        const MB: usize = 1 << 20;
        let unread = UnreadReplies::of(10 * MB);
        let (mut connection, mut client) =
            connected_to(InflateBudget::default(), unread.clone()).await;
        let too_much = unread.add(20 * MB);
        exchange(&mut connection, &mut client, &message(10)).await;
        let far_too_much = unread.add(2 * MB);
        delivered(&mut connection, &mut client, &message(10)).await;
        let mut running = pin!(connection.run_all());
        tokio::select! {
            biased;
            _ = &mut running => panic!("it was run at once"),
            () = ready(()) => {}
        }
        drop(far_too_much);
        running.await.unwrap();
        drop(too_much);
    }
}
