//! A Sundown that reaches the documents and not the settings. It refuses commands, because the rules may have changed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::Collection;
use sundown::Sundown;
use sundown::clock::{Clock, monotonic};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::cluster::{Cluster, Kind, driver, in_front_of};

/// Stands between a Sundown and its node. It lets everything pass, or, when it is cut, all but the commands of the driver that
/// keeps the settings.
struct Middle {
    address: SocketAddr,
    cut: Arc<AtomicBool>,
}

impl Middle {
    async fn start(node: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let middle = Self {
            address,
            cut: Arc::clone(&cut),
        };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(node).await.unwrap();
                tokio::spawn(pass(client, server, Arc::clone(&cut)));
            }
        });
        middle
    }
}

/// Copies messages until one side ends, or one may not pass.
async fn pass(client: TcpStream, server: TcpStream, cut: Arc<AtomicBool>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut is_of_settings = false;
    let mut message = Vec::new();
    loop {
        let mut length = [0; 4];
        if from_client.read_exact(&mut length).await.is_err() {
            return;
        }
        message.clear();
        message.extend_from_slice(&length);
        message.resize(i32::from_le_bytes(length) as usize, 0);
        if from_client.read_exact(&mut message[4..]).await.is_err() {
            return;
        }
        let has = |word: &[u8]| message.windows(word.len()).any(|at| at == word);
        // The first message says who connects.
        is_of_settings |= has(b"mongo-rust-driver");
        let is_monitoring = has(b"hello\0") || has(b"isMaster\0");
        if is_of_settings && !is_monitoring && cut.load(Ordering::Relaxed) {
            return;
        }
        if to_server.write_all(&message).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_settings_nothing_is_guessed() {
    let cluster = Cluster::start(Kind::Any, "without_the_settings_nothing_is_guessed").await;
    let cluster = cluster.unwrap();
    let middle = Middle::start(cluster.address()).await;
    let uri = format!(
        "mongodb://{}/?directConnection=true&serverSelectionTimeoutMS=3000",
        middle.address
    );
    let server = Sundown::start(in_front_of(&uri), Clock::system()).await;
    let server = server.unwrap();
    let client = driver(&server, "retryReads=false&retryWrites=false").await;
    let db = client.database("shop");
    db.run_command(doc! {"create": "carts", "defaultTtl": 1_000})
        .await
        .unwrap();
    let carts: Collection<Document> = db.collection("carts");
    carts.insert_one(doc! {"_id": 1}).await.unwrap();
    middle.cut.store(true, Ordering::Relaxed);
    let deadline = monotonic() + Duration::from_secs(60);
    // The lease is good for a few seconds.
    let admin = client.database("admin");
    let is_usable = async || {
        let status = admin.run_command(doc! {"serverStatus": 1}).await.ok()?;
        let settings = status
            .get_document("upstream")
            .ok()?
            .get_document("settings");
        settings.ok()?.get_bool("usable").ok()
    };
    while is_usable().await != Some(false) {
        if let Ok(found) = carts.find_one(doc! {"_id": 1}).await {
            assert_eq!(found, Some(doc! {"_id": 1}));
        }
        assert!(monotonic() < deadline, "the lease does not end");
    }
    // Writes are refused, too: without the rules they would not be stamped.
    assert!(carts.find_one(doc! {"_id": 1}).await.is_err());
    assert!(carts.insert_one(doc! {"_id": 2}).await.is_err());

    middle.cut.store(false, Ordering::Relaxed);
    while carts.insert_one(doc! {"_id": 2}).await.is_err() {
        assert!(monotonic() < deadline, "it does not come back");
        tokio::time::sleep(Duration::from_millis(20)).await; // real time: connections are opened again
    }
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 2);
}
