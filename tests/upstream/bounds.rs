//! What clients can make Sundown hold: connections to the cluster, and replies that nobody reads.

use bson::doc;

use crate::cluster::{Cluster, Kind};
use crate::support::binary::Binary;
use crate::support::client::Client;

const MEGABYTE: u64 = 1024 * 1024;

/// The client asks twenty times for twelve megabytes, and reads nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_makes_sundown_hold_one_batch() {
    let cluster = Cluster::start(Kind::Any, "a_slow_client_makes_sundown_hold_one_batch").await;
    let uri = cluster.as_ref().unwrap().uri();
    let measured = tokio::task::spawn_blocking(move || {
        let process = Binary::start_with(&["--upstream", &uri]);
        let mut client = process.connect();
        let text = "x".repeat(MEGABYTE as usize);
        for id in 0..12 {
            let document = doc! {"_id": id, "text": &text};
            let insert = doc! {"insert": "big", "documents": [document]};
            let reply = client.command("shop", insert).unwrap();
            assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply}");
        }
        let find = || doc! {"find": "big", "batchSize": 12};
        // Another client asks for the same, again and again, and reads it.
        let mut other = process.connect();
        for client in [&mut client, &mut other] {
            client.command("shop", find()).unwrap();
        }
        let before = process.resident();
        for _ in 0..20 {
            client.send("shop", find()).unwrap();
        }
        // Meanwhile Sundown could have asked for everything that the first client wants, if it did so.
        for _ in 0..20 {
            other.command("shop", find()).unwrap();
        }
        let after = process.resident();
        for _ in 0..20 {
            let reply = client.receive().unwrap();
            let rows = reply
                .get_document("cursor")
                .unwrap()
                .get_array("firstBatch");
            assert_eq!(rows.unwrap().len(), 12);
        }
        after.saturating_sub(before)
    });
    let held = measured.await.unwrap();
    assert!(held < 60 * MEGABYTE, "{} MB", held / MEGABYTE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_more_connections_to_the_cluster_than_clients_are_allowed() {
    let cluster = Cluster::start(Kind::Any, "no_more_connections_to_the_cluster").await;
    let cluster = cluster.unwrap();
    let server = cluster
        .sundown_with(|config| config.max_connections = 3)
        .await;
    let address = server.local_addr();
    let asked = tokio::task::spawn_blocking(move || {
        let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(address).unwrap()).collect();
        for client in &mut clients {
            for _ in 0..3 {
                client.command("shop", doc! {"find": "carts"}).unwrap();
            }
        }
        let refused = Client::connect(address)
            .and_then(|mut fourth| fourth.command("shop", doc! {"find": "carts"}));
        assert!(refused.is_err());
        clients[0]
            .command("admin", doc! {"serverStatus": 1})
            .unwrap()
    });
    let status = asked.await.unwrap();
    let upstream = status.get_document("upstream").unwrap();
    let connections = upstream.get_document("connections").unwrap();
    assert_eq!(connections.get_i64("current").ok(), Some(3));
}
