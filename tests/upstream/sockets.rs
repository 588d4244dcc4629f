//! A cluster that is reached by a Unix domain socket.

use std::time::Duration;

use bson::{Document, doc};
use sundown::Sundown;
use sundown::clock::Clock;

use crate::cluster::{Cluster, Kind, driver, in_front_of};
use crate::support::client::Client;

/// Uses both kinds of connections: those of the driver, for the settings, and those of the clients.
pub async fn round_trip(server: &Sundown) {
    let client = driver(server, "retryWrites=false").await;
    let shop = client.database("shop");
    let carts = shop.collection::<Document>("carts");
    carts.drop().await.unwrap();
    shop.run_command(doc! {"create": "carts", "defaultTtl": 1_000})
        .await
        .unwrap();
    // Larger than what a socket takes at once.
    let documents = (0..200).map(|id| doc! {"_id": id, "text": "x".repeat(10_000)});
    carts.insert_many(documents).await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 200);
    let found = carts.find_one(doc! {"_id": 7}).await.unwrap().unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), ["_id", "text"]);
}

/// Returns the address of the node, and how many data connections are open to it.
async fn connections(server: &Sundown) -> (String, i64) {
    let client = driver(server, "").await;
    let status = client.database("admin");
    let status = status.run_command(doc! {"serverStatus": 1}).await.unwrap();
    let upstream = status.get_document("upstream").unwrap();
    let open = upstream.get_document("connections").unwrap();
    let open = open.get_i64("current").unwrap();
    (upstream.get_str("node").unwrap().to_owned(), open)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_is_reached_by_a_unix_domain_socket() {
    let test = "a_cluster_is_reached_by_a_unix_domain_socket";
    for (kind, options) in [
        (Kind::Standalone, ""),
        (Kind::Set(1), "?directConnection=true"),
    ] {
        let Some(mut cluster) = Cluster::start(kind, test).await else {
            return;
        };
        let uri = format!("mongodb://{}/{options}", cluster.mongod().socket(0));
        let server = Sundown::start(in_front_of(&uri), Clock::system()).await;
        let server = server.unwrap_or_else(|problem| panic!("{uri}: {problem}"));
        round_trip(&server).await;
        let (node, open) = connections(&server).await;
        assert!(node.ends_with(".sock") && open > 0, "{node} {open}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_and_a_restart_by_a_unix_domain_socket() {
    let test = "a_login_and_a_restart_by_a_unix_domain_socket";
    let Some(mut cluster) = Cluster::start(Kind::Guarded, test).await else {
        return;
    };
    let socket = cluster.mongod().socket(0);
    let uri = format!("mongodb://root:secret@{socket}/?heartbeatFrequencyMS=500");
    let server = Sundown::start(in_front_of(&uri), Clock::system()).await;
    let server = server.unwrap();
    round_trip(&server).await;
    // A killed mongod leaves its socket behind, at which nobody listens.
    let address = cluster.address().to_string();
    cluster.mongod().kill(&address);
    cluster.mongod().start_again(&address);
    let client = driver(&server, "").await;
    let carts = client.database("shop").collection::<Document>("carts");
    assert!(carts.find_one(doc! {"_id": 7}).await.unwrap().is_some());
}

/// As with an address at which nothing listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_does_not_exist_is_a_cluster_that_is_not_there_yet() {
    let path = std::env::temp_dir().join(format!("nowhere-{}.sock", std::process::id()));
    let path = path.display().to_string().replace('/', "%2F");
    let uri = format!("mongodb://ann:secret@{path}/?serverSelectionTimeoutMS=100");
    let mut config = in_front_of(&uri);
    let upstream = config.upstream.as_mut().unwrap();
    upstream.required = true;
    let refused = Sundown::start(config.clone(), Clock::system()).await;
    let said = refused.map(drop).unwrap_err().to_string();
    assert!(said.contains("No such file or directory"), "{said}");
    assert!(said.contains(&path) && !said.contains("secret"), "{said}");

    let upstream = config.upstream.as_mut().unwrap();
    upstream.required = false;
    upstream.start_timeout = Duration::from_millis(100);
    let server = Sundown::start(config, Clock::system()).await.unwrap();
    let address = server.local_addr();
    let hello = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(address).unwrap();
        client.command("admin", doc! {"hello": 1}).unwrap()
    });
    let hello = hello.await.unwrap();
    assert_eq!(hello.get_i32("code").ok(), Some(133), "{hello}");
}
