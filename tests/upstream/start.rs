//! Starting: wrong settings, and a cluster that is not there.

use std::time::Duration;

use bson::doc;
use sundown::clock::Clock;
use sundown::{Config, Sundown};

use crate::cluster::{Cluster, Kind, driver, in_front_of};
use crate::support::client::Client;

fn impatient(uri: &str, required: bool) -> Config {
    let mut config = in_front_of(uri);
    let upstream = config.upstream.as_mut().unwrap();
    upstream.start_timeout = Duration::from_millis(100);
    upstream.required = required;
    config
}

async fn refusal(config: Config) -> String {
    let started = Sundown::start(config, Clock::system()).await;
    started.unwrap_err().to_string()
}

/// A port at which nothing listens.
fn nowhere() -> u16 {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_uris_and_missing_clusters_are_told_in_one_line() {
    let nowhere = nowhere();
    let rows = [
        (
            format!("mongodb://ann:secret@127.0.0.1:{nowhere}/?noSuchOption=1"),
            "nosuchoption",
        ),
        (
            format!("mongodb://127.0.0.1:{nowhere}/"),
            "no node takes commands",
        ),
        (
            format!("mongodb://ann:secret@127.0.0.1:{nowhere}/?authMechanism=MONGODB-AWS"),
            "127.0.0.1",
        ),
        (
            "mongodb+srv://ann:secret@cluster.example:27017/".to_owned(),
            "a port cannot be specified",
        ),
    ];
    for (uri, word) in rows {
        let said = refusal(impatient(&uri, true)).await;
        assert!(said.contains(word), "{uri}: {said}");
        assert!(!said.contains('\n') && !said.contains("secret"), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_cluster_it_answers_with_errors() {
    let uri = format!(
        "mongodb://127.0.0.1:{}/?serverSelectionTimeoutMS=100",
        nowhere()
    );
    let server = Sundown::start(impatient(&uri, false), Clock::system()).await;
    let server = server.unwrap();
    let address = server.local_addr();
    let replies = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(address).unwrap();
        ["ping", "hello", "buildInfo"].map(|name| client.command("admin", doc! {name: 1}).unwrap())
    });
    let [ping, hello, info] = replies.await.unwrap();
    assert_eq!(ping.get_f64("ok").ok(), Some(1.0));
    assert_eq!(hello.get_i32("code").ok(), Some(133), "{hello}");
    assert_eq!(info.get_i32("code").ok(), Some(133), "{info}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_comes_later_is_found() {
    let port = nowhere();
    let uri = format!("mongodb://127.0.0.1:{port}/?heartbeatFrequencyMS=500");
    let server = Sundown::start(impatient(&uri, false), Clock::system()).await;
    let server = server.unwrap();
    let late = Config {
        port,
        ..Config::default()
    };
    let late = Sundown::start(late, Clock::system()).await.unwrap();
    let client = driver(&server, "").await;
    let shop = client.database("shop");
    shop.run_command(doc! {"insert": "c", "documents": [{"_id": 1}]})
        .await
        .unwrap();
    late.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_login_is_told_at_the_start() {
    let Some(cluster) = Cluster::start(Kind::Guarded, "a_refused_login_is_told_at_the_start").await
    else {
        return;
    };
    let uri = format!("mongodb://root:wrong@{}/", cluster.address());
    let said = refusal(in_front_of(&uri)).await;
    assert!(said.contains("the login is refused"), "{said}");
    assert!(!said.contains("wrong"), "{said}");
    // Nothing else is logged, neither here nor where the clients log in and Sundown has no user of its own.
    let nobody = format!("mongodb://{}/", cluster.address());
    let rows = [
        (&uri, "own", "the login is refused"),
        (&nobody, "clients", "needs a user of its own"),
    ];
    for (uri, login, word) in rows {
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_sundown"))
            .args(["--port", "0", "--upstream", uri, "--upstream-login", login])
            .output()
            .unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains(word), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
}
