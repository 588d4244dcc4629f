//! The end of a server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bson::doc;
use tokio::net::TcpStream;

use crate::raw::{body, eventually, msg, ping};
use crate::scripted::Running;

#[tokio::test]
async fn stopping_closes_idle_connections_and_lets_running_commands_finish() {
    let mut server = Running::start().await;
    let mut idle = server.connect().await;
    idle.assert_alive().await;
    let mut half = server.connect().await;
    half.send(&msg(1, 0, &[&ping()])[..10]).await;
    let mut busy = server.connect().await;
    busy.assert_alive().await;
    busy.send(&msg(1, 0, &[&body(doc! {"work": 10i64, "pause": 20i64})]))
        .await;
    eventually("it is busy", || {
        server.handler.calls.load(Ordering::SeqCst) >= 3
    })
    .await;
    server.tell_to_stop();
    idle.assert_hung_up("idle").await;
    half.assert_hung_up("in the middle of a message").await;
    let reply = busy.receive().await.expect("the running command's reply");
    assert_eq!(reply.document, doc! {"worked": true, "ok": 1.0});
    busy.assert_hung_up("after its reply").await;
    let address = server.address;
    server.stopped().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// Every driver keeps such a command open: a hello that waits for news.
#[tokio::test]
async fn stopping_does_not_wait_for_a_command_that_only_sleeps() {
    let mut server = Running::start().await;
    let mut resting = server.connect().await;
    resting
        .send(&msg(
            1,
            0,
            &[&body(doc! {"work": 2i64, "pause": 3_600_000i64})],
        ))
        .await;
    eventually("it rests", || {
        server.handler.calls.load(Ordering::SeqCst) >= 1
    })
    .await;
    server.tell_to_stop();
    tokio::time::timeout(Duration::from_secs(5), server.stopped())
        .await
        .expect("it stops at once");
}
