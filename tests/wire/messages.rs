//! Messages as a client may send them, and the replies that it may expect.

use bson::doc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::raw::{
    CHECKSUM, Client, MORE_TO_COME, PATIENCE, body, checked, msg, ping, query, sequence,
};
use crate::scripted::Running;

#[tokio::test]
async fn a_message_may_arrive_byte_by_byte() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client.0.set_nodelay(true).unwrap();
    for byte in msg(3, 0, &[&ping()]) {
        client.send(&[byte]).await;
        tokio::task::yield_now().await;
    }
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.flags), (3, 0));
    assert_eq!(reply.document, doc! {"ok": 1.0});
}

#[tokio::test]
async fn many_messages_in_one_write_are_answered_in_order() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let many: Vec<u8> = (0..5000).flat_map(|id| msg(id, 0, &[&ping()])).collect();
    let (mut reading, mut writing) = client.0.into_split();
    let sender = tokio::spawn(async move {
        writing.write_all(&many).await.unwrap();
        writing
    });
    let mut bytes = vec![0; 5000 * 38];
    tokio::time::timeout(PATIENCE, reading.read_exact(&mut bytes))
        .await
        .expect("all replies")
        .unwrap();
    for (id, reply) in bytes.chunks(38).enumerate() {
        assert_eq!(reply[8..12], (id as i32).to_le_bytes());
    }
    client = Client(reading.reunite(sender.await.unwrap()).unwrap());
    client.assert_alive().await;
}

#[tokio::test]
async fn a_checksum_is_answered_with_a_checksum() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client.send(&checked(4, &[&ping()])).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.flags), (4, CHECKSUM));
    client.assert_alive().await;

    let mut wrong = checked(4, &[&ping()]);
    *wrong.last_mut().unwrap() ^= 1;
    client.send(&wrong).await;
    client.assert_hung_up("wrong checksum").await;
}

#[tokio::test]
async fn messages_with_more_to_come_get_no_reply() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let mut bytes = msg(
        1,
        MORE_TO_COME,
        &[
            &body(doc! {"insert": "c"}),
            &sequence("documents", &[doc! {}]),
        ],
    );
    bytes.extend(msg(2, MORE_TO_COME, &[&body(doc! {"nonsense": 1})]));
    bytes.extend(msg(3, MORE_TO_COME, &[&ping(), &ping()]));
    bytes.extend(msg(4, MORE_TO_COME, &[&body(doc! {"work": 3i64})]));
    bytes.extend(msg(5, 0, &[&body(doc! {"calls": 1})]));
    client.send(&bytes).await;
    let reply = client.receive().await.unwrap();
    // The message with two bodies was refused before the handler was called.
    assert_eq!((reply.response_to, reply.document), (5, doc! {"calls": 4}));
}

#[tokio::test]
async fn document_sequences_arrive_completely() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let documents = vec![doc! {"text": "y".repeat(1000)}; 3000];
    let insert = body(doc! {"insert": "c", "$db": "d"});
    // Three megabytes: more than the buffer of any idle connection, and enough to be checked on a blocking thread.
    client
        .send(&msg(1, 0, &[&insert, &sequence("documents", &documents)]))
        .await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.document, doc! {"n": 3000, "ok": 1.0});
    client.assert_alive().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_messages_and_replies_on_a_runtime_with_workers() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for _ in 0..3 {
        let documents = vec![doc! {"text": "y".repeat(1_000_000)}; 20];
        let insert = body(doc! {"insert": "c", "$db": "d"});
        client
            .send(&msg(1, 0, &[&insert, &sequence("documents", &documents)]))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!(reply.document, doc! {"n": 20, "ok": 1.0});
        let reply = client.ask(doc! {"large": 15_000_000}).await;
        assert_eq!(reply.get_str("filler").unwrap().len(), 15_000_000);
        // Enough small messages to make the buffers small again.
        for _ in 0..100 {
            client.assert_alive().await;
        }
    }
}

#[tokio::test]
async fn an_old_hello_gets_an_old_reply() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client.send(&query("admin.$cmd", doc! {"hello": 1})).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.opcode, reply.response_to), (1, 5));
    assert_eq!(reply.document, doc! {"db": "admin", "ok": 1.0});

    client.send(&query("admin.$cmd", doc! {"find": 1})).await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.opcode, 1);
    assert_eq!(reply.document.get_i32("code").unwrap(), 352);
    client.assert_alive().await;

    client.send(&query("test.things", doc! {})).await;
    client.assert_hung_up("a find by OP_QUERY").await;
}
