//! Requests with several replies.

use std::sync::atomic::Ordering;

use bson::doc;

use crate::raw::{EXHAUST_ALLOWED, MORE_TO_COME, body, eventually, msg, ping};
use crate::scripted::Running;

#[tokio::test]
async fn each_streamed_reply_answers_the_previous_one() {
    let server = Running::start().await;
    for (what, replies, command) in [
        ("at once", 4, doc! {"stream": 4i64}),
        ("after work", 4, doc! {"stream": 4i64, "pause": 1i64}),
        // So long that a server that shuts down does not wait for it.
        ("after a pause", 2, doc! {"stream": 2i64, "pause": 500i64}),
    ] {
        server.handler.streamed.store(0, Ordering::SeqCst);
        let mut client = server.connect().await;
        client.assert_alive().await;
        // The ping after it waits for the end of the stream.
        let bytes = [
            msg(70, EXHAUST_ALLOWED, &[&body(command)]),
            msg(71, 0, &[&ping()]),
        ]
        .concat();
        client.send(&bytes).await;
        let mut before = 70;
        for nth in 1..=replies {
            let reply = client.receive().await.unwrap();
            assert_eq!(reply.response_to, before, "{what} {nth}");
            let flags = if nth < replies { MORE_TO_COME } else { 0 };
            assert_eq!(reply.flags, flags, "{what} {nth}");
            assert_eq!(reply.document.get_f64("ok").unwrap(), 1.0);
            before = reply.request_id;
        }
        assert_eq!(client.receive().await.unwrap().response_to, 71, "{what}");
    }
}

#[tokio::test]
async fn replies_are_streamed_only_if_the_client_allows_it() {
    let server = Running::start().await;
    let mut client = server.connect().await;
    for command in [doc! {"stream": 9i64}, doc! {"stream": 9i64, "pause": 1i64}] {
        client.send(&msg(1, 0, &[&body(command.clone())])).await;
        let reply = client.receive().await.unwrap();
        assert_eq!((reply.response_to, reply.flags), (1, 0));
        // A client that wants no reply gets no stream.
        let flags = EXHAUST_ALLOWED | MORE_TO_COME;
        client.send(&msg(2, flags, &[&body(command)])).await;
        client.assert_alive().await;
    }
}

#[tokio::test]
async fn a_stream_ends_with_its_client_and_with_the_server() {
    for pause in [None, Some(1i64), Some(3_600_000)] {
        let mut command = doc! {"stream": i64::MAX};
        if let Some(pause) = pause {
            command.insert("pause", pause);
        }
        let mut server = Running::start().await;
        let stream = msg(1, EXHAUST_ALLOWED, &[&body(command)]);
        let mut leaving = server.connect().await;
        let mut staying = server.connect().await;
        leaving.send(&stream).await;
        staying.send(&stream).await;
        eventually("both stream", || {
            server.handler.streamed.load(Ordering::SeqCst) >= 2
        })
        .await;
        server.connect().await.assert_alive().await;
        drop(leaving);
        server.tell_to_stop();
        let reading = tokio::spawn(async move { while staying.receive().await.is_some() {} });
        assert_eq!(
            server.stopped().await,
            0,
            "{pause:?}: it waits for no stream"
        );
        reading.await.unwrap();
    }
}
