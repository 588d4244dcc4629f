//! Which connections are accepted, and whether their data arrives completely.

use std::fs;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};
use mongodb::options::TlsOptions;
use sundown::config::TlsMode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::ProtocolVersion;

use crate::clients::{TLS12, TLS13, TlsClient, driver, trusting, works};
use crate::raw::{Client, MORE_TO_COME, PATIENCE, body, msg, ping, sequence};
use crate::settings::{Authority, folder, kept_in, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_driver_with_and_without_tls_in_each_mode() {
    let folder = folder("modes");
    for (mode, plain, encrypted) in [
        (TlsMode::Disabled, true, false),
        (TlsMode::Optional, true, true),
        (TlsMode::Required, false, true),
    ] {
        let server = start(kept_in(&folder, mode)).await;
        assert_eq!(
            works(&driver(&server, None, plain).await).await,
            plain,
            "{mode:?} plain"
        );
        if !folder.join("ca.pem").exists() {
            fs::write(folder.join("ca.pem"), Authority::new().0.pem()).unwrap();
        }
        let tls = TlsOptions::builder()
            .ca_file_path(folder.join("ca.pem"))
            .build();
        let client = driver(&server, Some(tls), encrypted).await;
        assert_eq!(works(&client).await, encrypted, "{mode:?} encrypted");
        if encrypted {
            let things = client.database("d").collection::<Document>("things");
            let text = "sundown ".repeat(100_000);
            let documents = (0..20).map(|id| doc! {"_id": id, "text": &text});
            things.insert_many(documents).await.unwrap();
            let found: Vec<_> = things
                .find(doc! {})
                .await
                .unwrap()
                .try_collect()
                .await
                .unwrap();
            assert_eq!(found.len(), 20);
            assert!(found.iter().all(|one| one.get_str("text").unwrap() == text));
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn both_versions_and_every_name() {
    let folder = folder("names");
    let server = start(kept_in(&folder, TlsMode::Optional)).await;
    let authority = folder.join("ca.pem");
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for name in [
        "localhost",
        "127.0.0.1",
        "::1",
        "sundown",
        "10.1.2.3",
        machine.trim(),
    ] {
        for (versions, agreed) in [
            (TLS12, ProtocolVersion::TLSv1_2),
            (TLS13, ProtocolVersion::TLSv1_3),
        ] {
            let dialing = TlsClient {
                name,
                versions,
                ..trusting(&authority)
            };
            let mut client = dialing.dial(server.local_addr()).await.unwrap();
            assert_eq!(client.0.get_ref().1.protocol_version(), Some(agreed));
            assert_eq!(
                client
                    .ask(doc! {"ping": 1, "$db": "admin"})
                    .await
                    .get_f64("ok")
                    .unwrap(),
                1.0
            );
        }
    }
    let other = TlsClient {
        name: "elsewhere",
        ..trusting(&authority)
    };
    assert!(other.dial(server.local_addr()).await.is_err());
    let mut plain = Client::connect(server.local_addr()).await;
    let status = plain.ask(doc! {"serverStatus": 1, "$db": "admin"}).await;
    let secured = status.get_document("transportSecurity").unwrap();
    assert_eq!(secured.get_i64("1.2").ok(), Some(6), "{secured}");
    assert_eq!(secured.get_i64("1.3").ok(), Some(6), "{secured}");
}

/// The first byte of a plain message may be the first byte of TLS.
#[tokio::test]
async fn plain_messages_of_every_length_are_distinguished_from_tls() {
    let folder = folder("lengths");
    let server = start(kept_in(&folder, TlsMode::Optional)).await;
    let empty = msg(
        1,
        0,
        &[&body(doc! {"ping": 1, "$db": "admin", "comment": ""})],
    )
    .len();
    for length in [0x116, 0x216, 0x316, 0x10316, 0x30316] {
        let command = doc! {"ping": 1, "$db": "admin", "comment": "x".repeat(length - empty)};
        let bytes = msg(0x0103_0301, 0, &[&body(command)]);
        assert_eq!(bytes.len(), length);
        let mut client = Client::connect(server.local_addr()).await;
        client.send(&bytes).await;
        let reply = client.receive().await.expect("a reply");
        assert_eq!(reply.document.get_f64("ok").unwrap(), 1.0, "{length}");
    }
    // Byte by byte.
    let mut client = Client::connect(server.local_addr()).await;
    client.0.set_nodelay(true).unwrap();
    let command = doc! {"ping": 1, "$db": "admin", "comment": "x".repeat(0x316 - empty)};
    let bytes = msg(1, 0, &[&body(command)]);
    for byte in &bytes[..12] {
        client.send(&[*byte]).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    client.send(&bytes[12..]).await;
    let reply = client.receive().await.unwrap();
    assert_eq!(reply.document.get_f64("ok").unwrap(), 1.0);
}

#[tokio::test]
async fn bad_greetings_close_only_their_connection() {
    let folder = folder("greetings");
    for mode in [TlsMode::Optional, TlsMode::Required] {
        let server = start(kept_in(&folder, mode)).await;
        let authority = folder.join("ca.pem");
        let mut good = trusting(&authority)
            .dial(server.local_addr())
            .await
            .unwrap();
        let mut hello = vec![0x16, 3, 1, 0, 50, 1, 0, 0, 46, 3, 3];
        hello.extend([0xAB; 44]);
        let rows: &[(&str, Vec<u8>)] = &[
            ("nonsense in a handshake", hello.clone()),
            (
                "a record that is too long",
                [&[0x16, 3, 1, 0xFF, 0xFF, 1, 0, 0, 46, 3, 3][..], &[0; 60]].concat(),
            ),
            ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
            (
                "SSL 2",
                vec![
                    0x80, 0x2E, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
                ],
            ),
        ];
        for (what, bytes) in rows {
            let mut bad = TcpStream::connect(server.local_addr()).await.unwrap();
            bad.write_all(bytes).await.unwrap();
            // The server may send an alert.
            let mut rest = Vec::new();
            let ended = bad.read_to_end(&mut rest);
            let _ = tokio::time::timeout(PATIENCE, ended).await.expect(what);
            assert!(rest.len() < 20, "{what}: {rest:x?}");
            assert_eq!(
                good.ask(doc! {"ping": 1, "$db": "admin"})
                    .await
                    .get_f64("ok")
                    .unwrap(),
                1.0
            );
        }
        // Some clients send nothing, some stop in the middle, some disconnect. The server stops in any case.
        let silent = TcpStream::connect(server.local_addr()).await.unwrap();
        let mut half = TcpStream::connect(server.local_addr()).await.unwrap();
        half.write_all(&hello[..20]).await.unwrap();
        let mut tiny = TcpStream::connect(server.local_addr()).await.unwrap();
        tiny.write_all(&hello[..3]).await.unwrap();
        drop(TcpStream::connect(server.local_addr()).await.unwrap());
        good.ask(doc! {"ping": 1, "$db": "admin"}).await;
        assert_eq!(server.stop().await, 0, "it waits for none of them");
        good.assert_hung_up("the server has stopped").await;
        drop((silent, half, tiny));
    }
}

#[tokio::test]
async fn messages_over_tls_arrive_unchanged() {
    let folder = folder("contents");
    let server = start(kept_in(&folder, TlsMode::Required)).await;
    let authority = folder.join("ca.pem");
    let mut client = trusting(&authority)
        .dial(server.local_addr())
        .await
        .unwrap();
    // Several messages at once, one without a reply, and one that needs many TLS records.
    let documents: Vec<_> = (0..100)
        .map(|id| doc! {"_id": id, "text": "y".repeat(100_000)})
        .collect();
    let insert = body(doc! {"insert": "c", "$db": "d"});
    let bytes = [
        msg(1, 0, &[&ping()]),
        msg(2, MORE_TO_COME, &[&ping()]),
        msg(3, 0, &[&insert, &sequence("documents", &documents)]),
        msg(4, 0, &[&ping()]),
    ]
    .concat();
    client.send(&bytes).await;
    for id in [1, 3, 4] {
        assert_eq!(client.receive().await.unwrap().response_to, id);
    }
    let found = client.ask(doc! {"find": "c", "$db": "d"}).await;
    let batch = found
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap();
    assert_eq!(batch.len(), 100);

    // The server notices a client that disconnects while its command waits, with and without a closing alert.
    let version = client.ask(doc! {"hello": 1, "$db": "admin"}).await;
    let version = version.get_document("topologyVersion").unwrap();
    let wait = body(
        doc! {"hello": 1, "$db": "admin", "topologyVersion": version, "maxAwaitTimeMS": 1_000_000i64},
    );
    for goodbye in [true, false] {
        let mut leaving = trusting(&authority)
            .dial(server.local_addr())
            .await
            .unwrap();
        leaving.send(&msg(1, 0, &[&wait])).await;
        let awaiting = |status: Document| {
            status
                .get_document("connections")
                .unwrap()
                .get_i32("awaitingTopologyChanges")
                .unwrap()
        };
        let status = doc! {"serverStatus": 1, "$db": "admin"};
        while awaiting(client.ask(status.clone()).await) == 0 {}
        if goodbye {
            leaving.0.shutdown().await.unwrap();
        }
        drop(leaving);
        let gone = async { while awaiting(client.ask(status.clone()).await) > 0 {} };
        tokio::time::timeout(PATIENCE, gone)
            .await
            .expect("it is noticed");
    }
}
