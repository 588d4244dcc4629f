//! Compression with the official driver. A proxy records which messages are compressed.

#![allow(clippy::unwrap_used)] // a panic says where

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use futures_util::TryStreamExt;
use mongodb::Client;
use mongodb::bson::{Document, doc};
use sundown::Sundown;
use sundown::clock::Clock;
use sundown::config::Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Far longer than any step takes. Only a server that hangs reaches it.
const PATIENT: &str = "serverSelectionTimeoutMS=120000&connectTimeoutMS=120000";

/// The compressors that were seen in each direction. 0 stands for an uncompressed message.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    asked: BTreeSet<u8>,
    answered: BTreeSet<u8>,
}

/// Starts a proxy between the client and the server that records the compressor of each message.
async fn tap(server: SocketAddr) -> (SocketAddr, Arc<Mutex<Seen>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Seen::default()));
    let log = Arc::clone(&seen);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = TcpStream::connect(server).await.unwrap().into_split();
            let (asked, answered) = (Arc::clone(&log), Arc::clone(&log));
            tokio::spawn(pass(from_client, to_server, move |compressor| {
                asked.lock().unwrap().asked.insert(compressor);
            }));
            tokio::spawn(pass(from_server, to_client, move |compressor| {
                answered.lock().unwrap().answered.insert(compressor);
            }));
        }
    });
    (address, seen)
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, note: impl Fn(u8)) -> Option<()> {
    loop {
        let mut length = [0; 4];
        from.read_exact(&mut length).await.ok()?;
        let mut message = vec![0; i32::from_le_bytes(length) as usize];
        message[..4].copy_from_slice(&length);
        from.read_exact(&mut message[4..]).await.ok()?;
        let compressed = message[12..16] == 2012i32.to_le_bytes();
        note(if compressed { message[24] } else { 0 });
        to.write_all(&message).await.ok()?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_compressor_is_agreed_on_and_used() {
    for (offered, wanted, used) in [
        ("snappy,zstd,zlib", "snappy", 1),
        ("snappy,zstd,zlib", "zlib", 2),
        ("snappy,zstd,zlib", "zstd", 3),
        ("zlib", "snappy,zlib", 2),
        ("zlib", "zstd", 0),
        ("disabled", "snappy,zstd,zlib", 0),
    ] {
        let config = Config {
            port: 0,
            compressors: offered.parse().unwrap(),
            ..Config::default()
        };
        let server = Sundown::start(config, Clock::system()).await.unwrap();
        let (address, seen) = tap(server.local_addr()).await;
        let uri = format!("mongodb://{address}/?compressors={wanted}&{PATIENT}");
        let client = Client::with_uri_str(uri).await.unwrap();
        let things = client.database("d").collection::<Document>("things");
        let documents = (0..5_000).map(|id| doc! {"_id": id, "text": "sundown ".repeat(50)});
        things.insert_many(documents).await.unwrap();
        let found: Vec<_> = things
            .find(doc! {})
            .batch_size(2_000)
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        assert_eq!(found.len(), 5_000);
        assert!(things.insert_one(doc! {"_id": 1}).await.is_err());
        let status = client
            .database("admin")
            .run_command(doc! {"serverStatus": 1})
            .await
            .unwrap();
        let network = status.get_document("network").unwrap();
        let bytes = |name: &str| network.get_i64(name).unwrap();
        let written = 5_000 * 400;
        for (logical, physical) in [
            (bytes("bytesIn"), bytes("physicalBytesIn")),
            (bytes("bytesOut"), bytes("physicalBytesOut")),
        ] {
            assert!(logical > written, "{network}");
            assert_eq!(physical < written / 2, used > 0, "{network}");
        }
        let counted = network.get_document("compression").unwrap();
        for (name, compressor) in counted {
            let compressor = compressor.as_document().unwrap();
            let sizes = |way: &str| {
                let way = compressor.get_document(way).unwrap();
                (
                    way.get_i64("bytesIn").unwrap(),
                    way.get_i64("bytesOut").unwrap(),
                )
            };
            let (large, small) = sizes("compressor");
            let (came, became) = sizes("decompressor");
            let was_used = ["", "snappy", "zlib", "zstd"][usize::from(used)] == name;
            assert_eq!(large > written && became > written, was_used, "{network}");
            assert!(small < large && came < became || !was_used, "{network}");
        }
        let seen = seen.lock().unwrap();
        // The handshake is never compressed, and a short reply may not get smaller.
        let expected: BTreeSet<u8> = [0, used].into();
        assert_eq!(seen.asked, expected, "{offered} {wanted}");
        assert_eq!(seen.answered, expected, "{offered} {wanted}");
    }
}
