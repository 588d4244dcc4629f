//! Commands that take longer.

use std::sync::atomic::Ordering;

use bson::doc;

use crate::raw::{CHECKSUM, MORE_TO_COME, body, checked, eventually, msg, ping};
use crate::scripted::Running;

#[tokio::test]
async fn long_work_does_not_block_others_and_replies_in_order() {
    let server = Running::start().await;
    let mut slow = server.connect().await;
    let mut quick = server.connect().await;
    // The first ping is answered during the work, the second one after it.
    let bytes = [
        msg(1, 0, &[&ping()]),
        checked(2, &[&body(doc! {"work": 20i64, "pause": 10i64})]),
        msg(3, 0, &[&ping()]),
    ]
    .concat();
    slow.send(&bytes).await;
    assert_eq!(slow.receive().await.unwrap().response_to, 1);
    quick.assert_alive().await;
    let reply = slow.receive().await.unwrap();
    assert_eq!((reply.response_to, reply.flags), (2, CHECKSUM));
    assert_eq!(reply.document, doc! {"worked": true, "ok": 1.0});
    assert_eq!(slow.receive().await.unwrap().response_to, 3);
}

#[tokio::test]
async fn messages_that_arrive_during_work_are_not_lost() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    client
        .send(&msg(1, 0, &[&body(doc! {"work": 10i64, "pause": 10i64})]))
        .await;
    for id in 2..40 {
        client.send(&msg(id, 0, &[&ping()])).await;
        tokio::task::yield_now().await;
    }
    for id in 1..40 {
        assert_eq!(client.receive().await.unwrap().response_to, id);
    }
}

#[tokio::test]
async fn work_is_abandoned_when_its_client_disconnects() {
    let server = Running::start().await;
    // Alone, and with more messages after it than the server reads before it has replied.
    for following in [0, 1_000] {
        for command in [
            doc! {"work": i64::MAX},
            doc! {"work": i64::MAX, "pause": 3_600_000i64},
            doc! {"wait": 1},
            doc! {"await": 1},
            doc! {"block": 1},
        ] {
            let before = server.handler.abandoned.load(Ordering::SeqCst);
            let calls = server.handler.calls.load(Ordering::SeqCst);
            let mut client = server.connect().await;
            let pings = (0..following).flat_map(|n| msg(2 + n, 0, &[&ping()]));
            let bytes: Vec<u8> = msg(1, 0, &[&body(command.clone())])
                .into_iter()
                .chain(pings)
                .collect();
            client.send(&bytes).await;
            eventually("its call has begun", || {
                server.handler.calls.load(Ordering::SeqCst) > calls
            })
            .await;
            drop(client);
            eventually(
                &format!("{command} before {following} is abandoned"),
                || server.handler.abandoned.load(Ordering::SeqCst) > before,
            )
            .await;
        }
    }
}

#[tokio::test]
async fn unacknowledged_work_goes_on_without_its_client() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    let work = body(doc! {"work": 20i64, "pause": 1i64});
    let bytes = [
        msg(1, MORE_TO_COME, &[&work]),
        msg(2, MORE_TO_COME, &[&work]),
    ]
    .concat();
    client.send(&bytes).await;
    drop(client);
    eventually("both run", || {
        server.handler.calls.load(Ordering::SeqCst) >= 2
    })
    .await;
    assert_eq!(server.handler.abandoned.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn awaited_replies_are_sent_in_order() {
    for command in ["wait", "await", "block"] {
        let server = Running::start().await;
        let mut slow = server.connect().await;
        let bytes = [
            msg(1, 0, &[&ping()]),
            checked(2, &[&body(doc! {command: 1})]),
            msg(3, MORE_TO_COME, &[&body(doc! {command: 1})]),
            msg(4, 0, &[&ping()]),
        ]
        .concat();
        slow.send(&bytes).await;
        assert_eq!(slow.receive().await.unwrap().response_to, 1);
        server.connect().await.assert_alive().await;
        server.handler.release.set();
        let reply = slow.receive().await.unwrap();
        assert_eq!((reply.response_to, reply.flags), (2, CHECKSUM));
        assert_eq!(reply.document, doc! {"released": true, "ok": 1.0});
        assert_eq!(slow.receive().await.unwrap().response_to, 4);
    }
}
