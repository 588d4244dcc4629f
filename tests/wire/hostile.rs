//! Messages of hostile clients.

use bson::doc;
use sundown::config::Config;
use tokio::io::AsyncWriteExt;

use crate::dice::Dice;
use crate::raw::{OP_MSG, body, checked, frame, msg, ping, sequence};
use crate::scripted::Running;

#[tokio::test]
async fn invalid_contents_get_mongodbs_error_and_keep_the_connection() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let deep = |levels: usize| {
        let mut bytes = vec![5, 0, 0, 0, 0];
        for _ in 1..levels {
            let length = (bytes.len() as i32 + 8).to_le_bytes();
            bytes = [&length[..], &[3, b'a', 0], &bytes, &[0]].concat();
        }
        [&[0][..], &bytes].concat()
    };
    let mut not_text = body(doc! {"ping": "xy"});
    let at = not_text.len() - 4;
    not_text[at] = 0xC0;
    let mut no_end = ping();
    *no_end.last_mut().unwrap() = 1;
    let rows: &[(&str, Vec<u8>, i32)] = &[
        ("two bodies", [ping(), ping()].concat(), 40430),
        ("trailing byte", [ping(), vec![7]].concat(), 40432),
        ("no body", vec![], 40587),
        ("cut short", ping()[..20].to_vec(), 22),
        ("without its last zero", no_end, 22),
        ("not UTF-8", not_text, 22),
        ("202 levels, the command among them", deep(202), 15),
        ("20,000 levels", deep(20_000), 15),
        ("17 MB", body(doc! {"a": "x".repeat(17 << 20)}), 10334),
    ];
    for (what, sections, code) in rows {
        client.send(&msg(9, 0, &[sections])).await;
        let reply = client.receive().await.expect(what);
        assert_eq!(reply.response_to, 9, "{what}");
        assert_eq!(reply.document.get_i32("code").unwrap(), *code, "{what}");
        assert_eq!(reply.document.get_f64("ok").unwrap(), 0.0, "{what}");
    }
    client.assert_alive().await;
}

#[tokio::test]
async fn unanswerable_messages_close_only_their_connection() {
    let server = Running::start().await;
    let mut good = server.connect().await;
    let with_length = |length: i32| {
        let mut bytes = msg(1, 0, &[&ping()]);
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes
    };
    let rows: &[(&str, Vec<u8>)] = &[
        ("length 0", with_length(0)),
        ("length 15", with_length(15)),
        ("negative length", with_length(-1)),
        ("length beyond the limit", with_length(48_000_001)),
        ("length 16 of an OP_MSG", frame(1, OP_MSG, &[])),
        ("required flag bit 2", msg(1, 4, &[&ping()])),
        ("required flag bit 15", msg(1, 1 << 15, &[&ping()])),
        ("unknown opcode", frame(1, 9999, &[0; 10])),
        ("OP_COMPRESSED", frame(1, 2012, &[0; 30])),
        ("OP_INSERT", frame(1, 2002, &[0; 30])),
        (
            "HTTP",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        ),
        (
            "sequence longer than the message",
            msg(1, 0, &[&ping(), &[1, 99, 0, 0, 0, b'a', 0]]),
        ),
        (
            "the handler says so",
            msg(1, 0, &[&body(doc! {"hangup": 1})]),
        ),
        ("the handler panics", msg(1, 0, &[&body(doc! {"panic": 1})])),
    ];
    for (what, bytes) in rows {
        let mut bad = server.connect().await;
        bad.assert_alive().await;
        bad.send(bytes).await;
        bad.assert_hung_up(what).await;
        good.assert_alive().await;
    }
}

#[tokio::test]
async fn requests_before_a_bad_message_are_answered() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let bytes = [msg(1, 0, &[&ping()]), msg(2, 4, &[&ping()])].concat();
    client.send(&bytes).await;
    assert_eq!(client.receive().await.unwrap().response_to, 1);
    client.assert_hung_up("flag bit").await;
}

#[tokio::test]
async fn a_huge_length_with_few_bytes_blocks_nobody() {
    let server = Running::start().await;
    let mut waiting = Vec::new();
    for _ in 0..50 {
        let mut client = server.connect().await;
        let mut bytes = msg(1, 0, &[&ping()]);
        bytes[..4].copy_from_slice(&48_000_000i32.to_le_bytes());
        client.send(&bytes).await;
        waiting.push(client);
    }
    server.connect().await.assert_alive().await;
}

#[tokio::test]
async fn random_bytes_disturb_no_other_connection() {
    let server = Running::start().await;
    let mut good = server.connect().await;
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let whole = checked(
        1,
        &[&ping(), &sequence("documents", &[doc! {"a": [1, {}]}])],
    );
    for _ in 0..300 {
        let mut bytes = whole.clone();
        for _ in 0..1 + dice.below(4) {
            // The lengths stay correct, so that the message is read at all.
            let at = 4 + dice.below(bytes.len() as u64 - 4) as usize;
            bytes[at] = dice.next() as u8;
        }
        let mut bad = server.connect().await;
        bad.send(&bytes).await;
        bad.0.shutdown().await.unwrap();
        while bad.receive().await.is_some() {}
    }
    good.assert_alive().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_refused() {
    let server = Running::with(Config {
        max_connections: 2,
        ..Config::default()
    })
    .await;
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.assert_alive().await;
    second.assert_alive().await;
    server.connect().await.assert_hung_up("the third").await;

    drop(second);
    // The server soon notices that a connection has ended.
    let mut tries = 0;
    loop {
        let mut next = server.connect().await;
        next.send(&msg(1, 0, &[&ping()])).await;
        if next.receive().await.is_some() {
            break;
        }
        tries += 1;
        assert!(tries < 1000, "the connection still counts");
    }
    first.assert_alive().await;
}
