use std::future::ready;
use std::pin::pin;

use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::*;
use crate::handler::CallOutcome;
use crate::wire::Request;

/// A handler whose reply is the request.
struct Echo;

impl Handler for Echo {
    type Connection = ();

    fn open(&self, _: Peer) {}

    fn call(
        &self,
        (): &mut (),
        request: Request,
        reply: &mut Vec<u8>,
    ) -> Result<CallOutcome, Hangup> {
        reply.extend_from_slice(request.body().bytes());
        Ok(CallOutcome::Replied)
    }
}

type Connected = (Connection<Echo, TcpStream>, TcpStream);

async fn connect() -> Connected {
    connect_with(InflateBudget::default(), UnreadReplies::default()).await
}

/// Connects a client whose receive buffer is small.
async fn connect_with(inflate_budget: InflateBudget, unread_replies: UnreadReplies) -> Connected {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(64 * 1024).unwrap();
    let client = socket.connect(address).await.unwrap();
    let (stream, address) = listener.accept().await.unwrap();
    let setup = ConnectionSetup {
        handler: Arc::new(Echo),
        peer: Peer::plain(1, address),
        codec: Codec {
            compressors: crate::wire::Compressors::ALL,
        },
        phase: Arc::new(ConnectionPhase::new()),
        inflate_budget,
        unread_replies,
    };
    (Connection::new(setup, stream), client)
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
        connection.prepare_buffers();
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
    let client_side = async {
        client.write_all(message).await.unwrap();
        let mut reply = vec![0; message.len()];
        client.read_exact(&mut reply).await.unwrap();
        assert_eq!(reply[20..], message[20..]);
    };
    tokio::select! {
        () = client_side => {}
        () = serve(connection) => {}
    }
}

/// Sends a message and waits until the connection has it in its buffer, and nothing else.
async fn deliver(
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
async fn large_buffers_are_freed_when_no_bytes_arrive() {
    // Also if a few bytes of the next message have arrived and the rest has not.
    for next in [0, 5] {
        let (mut connection, mut client) = connect().await;
        let message = message(1 << 20);
        exchange(&mut connection, &mut client, &message).await;
        assert!(connection.has_large_buffers());
        deliver(&mut connection, &mut client, &message[..next]).await;
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
        assert!(!connection.has_large_buffers());
        assert!(connection.unread_share.is_none());
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
async fn only_large_compressed_messages_wait_for_the_budget() {
    const BUDGET: usize = 8 << 20;
    let inflate_budget = InflateBudget::of(BUDGET);
    let (mut connection, mut client) =
        connect_with(inflate_budget.clone(), UnreadReplies::default()).await;
    let others = inflate_budget.acquire(7 << 20).await.unwrap();

    let large = message(2 << 20);
    exchange(&mut connection, &mut client, &large).await;
    exchange(&mut connection, &mut client, &message(10)).await;
    let small = compressed(&message(500_000));
    deliver(&mut connection, &mut client, &small).await;
    connection.run_all().await.unwrap();

    deliver(&mut connection, &mut client, &compressed(&large)).await;
    {
        let mut running = pin!(connection.run_all());
        tokio::select! {
            biased;
            _ = &mut running => panic!("it was inflated without a permit"),
            () = ready(()) => {}
        }
        drop(others);
        running.await.unwrap();
    }
    assert_eq!(
        inflate_budget.free(),
        BUDGET,
        "the permit is returned with the message"
    );
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
async fn the_permit_is_kept_as_long_as_the_bytes() {
    let inflate_budget = InflateBudget::of(8 << 20);
    let mut codec = Codec {
        compressors: crate::wire::Compressors::ALL,
    };
    let mut input = BytesMut::from(compressed(&message(2 << 20)).as_slice());
    let permit = inflate_budget.acquire(2 << 20).await.unwrap();
    let decoded = codec.decode_keeping(&mut input, Some(permit)).unwrap();
    let Some(Incoming::Request(request)) = decoded else {
        panic!("a whole message");
    };
    let slice = request.body.slice(..10);
    drop(request);
    assert_eq!(inflate_budget.free(), 6 << 20);
    drop(slice);
    assert_eq!(inflate_budget.free(), 8 << 20);
}

#[tokio::test]
async fn clients_that_do_not_read_are_disconnected_only_above_the_limit() {
    let large = message(15_000_000);
    // Connections may hold nothing at all.
    let (mut connection, mut client) =
        connect_with(InflateBudget::default(), UnreadReplies::with_limit(0)).await;
    deliver(&mut connection, &mut client, &large).await;
    let end = tokio::time::timeout(Duration::from_secs(120), connection.run_all()).await;
    let end = end.expect("an end").unwrap_err();
    assert!(matches!(end, ConnectionEnd::Hangup(_)), "{end:?}");
    assert!(connection.output.is_empty() && connection.unread_share.is_none());

    // There is room, so the server waits for the client.
    let unread_replies = UnreadReplies::default();
    let (mut connection, mut client) =
        connect_with(InflateBudget::default(), unread_replies.clone()).await;
    deliver(&mut connection, &mut client, &large).await;
    let running = async {
        connection.run_all().await.unwrap();
        connection.shrink();
    };
    let mut running = pin!(running);
    let mut first = [0; 1000];
    tokio::select! {
        biased;
        () = &mut running => panic!("everything was written before the client read"),
        read = client.read_exact(&mut first) => drop(read.unwrap()),
    }
    assert!(unread_replies.waiting() >= large.len());
    let mut rest = vec![0; large.len() - first.len()];
    let ((), read) = tokio::join!(running, client.read_exact(&mut rest));
    read.unwrap();
    assert_eq!(unread_replies.waiting(), 0);
}

#[tokio::test]
async fn large_replies_are_held_back_far_above_the_limit() {
    const MB: usize = 1 << 20;
    let unread_replies = UnreadReplies::with_limit(10 * MB);
    let (mut connection, mut client) =
        connect_with(InflateBudget::default(), unread_replies.clone()).await;
    let above_limit = unread_replies.add(20 * MB);
    exchange(&mut connection, &mut client, &message(10)).await;
    let far_above_limit = unread_replies.add(2 * MB);
    deliver(&mut connection, &mut client, &message(10)).await;
    let mut running = pin!(connection.run_all());
    tokio::select! {
        biased;
        _ = &mut running => panic!("the command was not held back"),
        () = ready(()) => {}
    }
    drop(far_above_limit);
    running.await.unwrap();
    drop(above_limit);
}
