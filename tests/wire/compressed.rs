//! Messages inside OP_COMPRESSED.

use bson::doc;
use sundown::config::Config;

use crate::raw::{
    CHECKSUM, MORE_TO_COME, OP_MSG, body, checked, compressed, deflate, frame, msg, ping, query,
    sequence,
};
use crate::scripted::Running;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressed_request_gets_a_reply_with_the_same_compressor() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for compressor in 1..=3 {
        for size in [10_000, 200_000, 3_000_000] {
            let large = body(doc! {"large": size, "padding": "x".repeat(1000)});
            client
                .send(&compressed(compressor, &msg(5, 0, &[&large])))
                .await;
            let reply = client.receive().await.unwrap();
            assert_eq!((reply.response_to, reply.compressor), (5, compressor));
            assert_eq!(
                reply.document.get_str("filler").unwrap().len(),
                size as usize
            );

            let documents = vec![doc! {"text": "y".repeat(1000)}; size as usize / 1000];
            let insert = body(doc! {"insert": "c", "$db": "d"});
            let message = msg(6, 0, &[&insert, &sequence("documents", &documents)]);
            client.send(&compressed(compressor, &message)).await;
            let reply = client.receive().await.unwrap();
            assert_eq!(reply.document, doc! {"n": size / 1000, "ok": 1.0});
        }
        // The checksum is that of the inner message.
        let large = body(doc! {"large": 1000});
        client
            .send(&compressed(compressor, &checked(7, &[&large])))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.flags, reply.compressor), (CHECKSUM, compressor));
        // A reply that would not become smaller is not compressed.
        client
            .send(&compressed(compressor, &msg(8, 0, &[&ping()])))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.response_to, reply.compressor), (8, 0));
        // Long work, streams and errors.
        let work = body(doc! {"work": 3i64, "pause": 1i64});
        client
            .send(&compressed(compressor, &msg(9, 0, &[&work])))
            .await;
        assert_eq!(client.receive().await.unwrap().response_to, 9);
        client
            .send(&compressed(compressor, &msg(10, 0, &[&ping(), &ping()])))
            .await;
        let reply = client.receive().await.unwrap();
        assert_eq!(reply.document.get_i32("code").unwrap(), 40430);
        client
            .send(&compressed(compressor, &msg(11, MORE_TO_COME, &[&large])))
            .await;
        // A client that does not compress gets uncompressed replies.
        client.send(&msg(12, 0, &[&large])).await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.response_to, reply.compressor), (12, 0));
    }
}

#[tokio::test]
async fn replies_to_handshakes_are_never_compressed() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for name in [
        "hello",
        "isMaster",
        "saslStart",
        "saslContinue",
        "createUser",
    ] {
        let long = body(doc! {name: 1, "padding": "x".repeat(1000)});
        for compressor in 1..=3 {
            client
                .send(&compressed(compressor, &msg(1, 0, &[&long])))
                .await;
            assert_eq!(client.receive().await.unwrap().compressor, 0, "{name}");
        }
    }
    let old = query("admin.$cmd", doc! {"hello": 1, "padding": "x".repeat(1000)});
    client.send(&compressed(1, &old)).await;
    let reply = client.receive().await.unwrap();
    assert_eq!((reply.opcode, reply.compressor), (1, 0));
}

#[tokio::test]
async fn compressed_messages_with_wrong_headers() {
    let server = Running::start().await;
    let mut good = server.connect().await;
    let inside = msg(1, 0, &[&body(doc! {"ping": "x".repeat(5000)})]);
    let announcing = |compressor: u8, opcode: i32, size: i32, bytes: &[u8]| {
        let mut message = opcode.to_le_bytes().to_vec();
        message.extend(size.to_le_bytes());
        message.push(compressor);
        message.extend_from_slice(bytes);
        frame(1, 2012, &message)
    };
    let size = inside.len() as i32 - 16;
    let mut rows = vec![
        ("nothing inside".to_owned(), frame(1, 2012, &[])),
        (
            "half a head".to_owned(),
            frame(1, 2012, &[0xDD, 7, 0, 0, 9]),
        ),
        (
            "not compressed at all".to_owned(),
            announcing(0, OP_MSG, size, &inside[16..]),
        ),
        (
            "unknown compressor".to_owned(),
            announcing(4, OP_MSG, size, &inside[16..]),
        ),
    ];
    for compressor in 1..=3 {
        let bytes = deflate(compressor, &inside[16..]);
        let twice = compressed(compressor, &compressed(compressor, &inside));
        let mut damaged = bytes.clone();
        damaged[0] ^= 0x55;
        for (what, message) in [
            ("inside itself", twice),
            ("as a reply", announcing(compressor, 1, size, &bytes)),
            (
                "of an unknown opcode",
                announcing(compressor, 2002, size, &bytes),
            ),
            (
                "one byte too few",
                announcing(compressor, OP_MSG, size - 1, &bytes),
            ),
            (
                "one byte too many",
                announcing(compressor, OP_MSG, size + 1, &bytes),
            ),
            (
                "nothing announced",
                announcing(compressor, OP_MSG, 0, &bytes),
            ),
            ("negative", announcing(compressor, OP_MSG, -1, &bytes)),
            (
                "beyond the limit",
                announcing(compressor, OP_MSG, 48_000_001, &bytes),
            ),
            (
                "beyond everything",
                announcing(compressor, OP_MSG, i32::MAX, &bytes),
            ),
            (
                "cut short",
                announcing(compressor, OP_MSG, size, &bytes[..bytes.len() - 1]),
            ),
            ("damaged", announcing(compressor, OP_MSG, size, &damaged)),
            ("empty", announcing(compressor, OP_MSG, size, &[])),
            (
                "a bad message",
                compressed(compressor, &msg(1, 4, &[&ping()])),
            ),
            // Inflates to slightly more than 48 million bytes, which is too much together with the header.
            (
                "a bomb",
                announcing(
                    compressor,
                    OP_MSG,
                    48_000_000,
                    &deflate(compressor, &vec![0; 48_000_000]),
                ),
            ),
        ] {
            rows.push((format!("{what}, compressor {compressor}"), message));
        }
    }
    for (what, bytes) in rows {
        let mut bad = server.connect().await;
        bad.send(&bytes).await;
        bad.assert_hung_up(&what).await;
        good.assert_alive().await;
    }
}

#[tokio::test]
async fn only_enabled_compressors_are_accepted() {
    let server = Running::with(Config {
        compressors: "zlib".parse().unwrap(),
        ..Config::default()
    })
    .await;
    for compressor in 1..=3 {
        let mut client = server.connect().await;
        client
            .send(&compressed(compressor, &msg(1, 0, &[&ping()])))
            .await;
        if compressor == 2 {
            assert_eq!(client.receive().await.unwrap().response_to, 1);
        } else {
            client.assert_hung_up("not offered").await;
        }
    }
}
