//! Shutting down a server.

use std::sync::atomic::Ordering;

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
    // The first command is stepped, the second blocks its own thread, and the third is awaited.
    let mut busy = Vec::new();
    for command in ["toil", "block", "await"] {
        let mut client = server.connect().await;
        client.send(&msg(1, 0, &[&body(doc! {command: 1})])).await;
        busy.push(client);
    }
    eventually("they are busy", || {
        server.handler.calls.load(Ordering::SeqCst) >= 4
    })
    .await;
    server.tell_to_stop();
    idle.assert_hung_up("idle").await;
    half.assert_hung_up("in the middle of a message").await;
    server.handler.release.set();
    for client in &mut busy {
        let reply = client.receive().await.expect("the running command's reply");
        assert_eq!(reply.document, doc! {"released": true, "ok": 1.0});
        client.assert_hung_up("after its reply").await;
    }
    let address = server.address;
    server.stopped().await;
    assert!(TcpStream::connect(address).await.is_err());
}

/// Every driver keeps such a command open: a hello that waits for changes.
#[tokio::test]
async fn stopping_does_not_wait_for_a_command_that_only_waits() {
    let mut server = Running::start().await;
    let sleeping = doc! {"work": 2i64, "pause": 3_600_000i64};
    let mut resting = Vec::new();
    for command in [sleeping, doc! {"wait": 1}] {
        let mut client = server.connect().await;
        client.send(&msg(1, 0, &[&body(command)])).await;
        resting.push(client);
    }
    eventually("they rest", || {
        server.handler.calls.load(Ordering::SeqCst) >= 2
    })
    .await;
    server.tell_to_stop();
    assert_eq!(server.stopped().await, 0);
}

/// Commands that still run at the end of the timeout are abandoned, including a step that blocks its thread.
#[tokio::test]
async fn stopping_abandons_commands_after_the_timeout() {
    for command in ["toil", "block", "await"] {
        let mut server = Running::impatient().await;
        let mut client = server.connect().await;
        client.send(&msg(1, 0, &[&body(doc! {command: 1})])).await;
        eventually("it is busy", || {
            server.handler.calls.load(Ordering::SeqCst) == 1
        })
        .await;
        let handler = server.handler.clone();
        server.tell_to_stop();
        assert_eq!(server.stopped().await, 1, "{command}");
        eventually(&format!("{command} is abandoned"), || {
            handler.abandoned.load(Ordering::SeqCst) == 1
        })
        .await;
    }
}
