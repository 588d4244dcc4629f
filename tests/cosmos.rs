//! `sundown --cosmos` and the Rust driver, with a connection string from the Azure portal in which only the host is
//! changed.

#![allow(clippy::unwrap_used)] // a panic says where

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use mongodb::Client;
use mongodb::bson::{Document, doc};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The emulator's account, and its key as it is written in a connection string.
const ACCOUNT: &str = "localhost";
const KEY: &str = "C2y6yDjf5%2FR%2Bob0N8A7Cgv30VRDJIWEHLM%2B4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw%2FJw%3D%3D";

#[tokio::test]
async fn the_connection_string_of_the_cloud_works() {
    let folder = std::env::temp_dir().join(format!("sundown-cosmos-{}", std::process::id()));
    let mut child = Command::new(env!("CARGO_BIN_EXE_sundown"))
        .args(["--cosmos", "--port", "0", "--log", "off", "--tls-dir"])
        .arg(&folder)
        .env_clear()
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let _running = Running(child);
    let port = line
        .strip_prefix("listening on 127.0.0.1:")
        .and_then(|rest| rest.split(',').next())
        .unwrap_or_else(|| panic!("{line:?}"))
        .to_owned();
    let uri = |key: &str, path: &str, ssl: bool| {
        let tls = match ssl {
            true => format!("ssl=true&tlsCAFile={}", folder.join("ca.pem").display()),
            false => "ssl=false".to_owned(),
        };
        format!(
            "mongodb://{ACCOUNT}:{key}@localhost:{port}/{path}?{tls}&replicaSet=globaldb&retrywrites=false\
             &maxIdleTimeMS=120000&appName=@{ACCOUNT}@&maxPoolSize=1\
             &serverSelectionTimeoutMS=120000&connectTimeoutMS=120000"
        )
    };
    // A database in the path of the string becomes its `authSource`. Cosmos DB ignores that.
    let rows = [("", true), ("", false), ("tutorial", true), ("t2", false)];
    for (path, ssl) in rows {
        let client = Client::with_uri_str(uri(KEY, path, ssl)).await.unwrap();
        let shop = client.database(&format!("{}{path}", if ssl { "safe" } else { "plain" }));
        shop.run_command(doc! {"customAction": "CreateCollection", "collection": "carts", "offerThroughput": 400})
            .await
            .unwrap();
        let carts = shop.collection::<Document>("carts");
        carts.insert_one(doc! {"_id": 1}).await.unwrap();
        let last = shop.run_command(doc! {"getLastRequestStatistics": 1}).await;
        let last = last.unwrap();
        assert_eq!(last.get_str("CommandName").unwrap(), "insert");
        assert_eq!(last.get_f64("RequestCharge").unwrap(), 5.0);
        assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 1);
    }
    for path in ["", "tutorial"] {
        let stranger = Client::with_uri_str(uri("wrong", path, true)).await;
        let refused = stranger.unwrap().list_database_names().await.unwrap_err();
        assert!(
            refused.to_string().contains("Authentication failed"),
            "{refused}"
        );
    }
    let _ = std::fs::remove_dir_all(folder);
}
