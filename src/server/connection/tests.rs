use std::future::ready;
use std::pin::pin;

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::*;

/// Says what it was told.
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
    connected_to(Unpacking::default(), Unread::default()).await
}

/// A client whose side takes little that it does not read.
async fn connected_to(unpacking: Unpacking, unread: Unread) -> Connected {
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
        duty: Arc::new(Duty::new()),
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

/// Sends a message and receives as much.
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
    let answering = async {
        loop {
            connection.tidy();
            connection.read(QUIET).await.unwrap();
            connection.run_all().await.unwrap();
        }
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

/// Sends a message that the connection has then in its buffer, and nothing else.
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
    // Also when a few bytes of the next message have come, and no more of them come.
    for next in [0, 5] {
        let (mut connection, mut client) = connected().await;
        let message = message(1 << 20);
        exchange(&mut connection, &mut client, &message).await;
        assert!(connection.is_swollen());
        delivered(&mut connection, &mut client, &message[..next]).await;
        let waiting = connection.read(Duration::from_millis(1));
        let waited = tokio::time::timeout(Duration::from_millis(20), waiting).await;
        assert!(waited.is_err(), "nothing was sent");
        assert!(!connection.is_swollen());
        assert!(connection.part.is_none());
        assert_eq!(connection.input, message[..next]);
        client.write_all(&message[next..]).await.unwrap();
        let mut reply = vec![0; message.len()];
        let answering = async {
            loop {
                connection.tidy();
                connection.read(QUIET).await.unwrap();
                connection.run_all().await.unwrap();
            }
        };
        tokio::select! {
            read = client.read_exact(&mut reply) => drop(read.unwrap()),
            () = answering => {}
        }
    }
}

#[tokio::test]
async fn what_becomes_large_waits_for_its_place_and_others_do_not() {
    const ROOM: usize = 8 << 20;
    let unpacking = Unpacking::of(ROOM);
    let (mut connection, mut client) = connected_to(unpacking.clone(), Unread::default()).await;
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
    let unpacking = Unpacking::of(8 << 20);
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
    // Nobody may hold anything.
    let (mut connection, mut client) = connected_to(Unpacking::default(), Unread::of(0)).await;
    delivered(&mut connection, &mut client, &large).await;
    let end = tokio::time::timeout(Duration::from_secs(20), connection.run_all()).await;
    let end = end.expect("an end").unwrap_err();
    assert!(matches!(end, End::Hangup(_)), "{end:?}");
    assert!(connection.output.is_empty() && connection.part.is_none());

    // There is room: it is waited for.
    let unread = Unread::default();
    let (mut connection, mut client) = connected_to(Unpacking::default(), unread.clone()).await;
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
