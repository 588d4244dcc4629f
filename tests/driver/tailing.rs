//! Cursors that wait for the next document.

use std::time::Duration;

use mongodb::bson::{Document, doc};
use mongodb::options::CursorType;
use mongodb::{Collection, Database};

use crate::raw::{Client, PATIENCE, body, msg};
use crate::server::{TestServer, default_server};

const HOUR: Duration = Duration::from_secs(3_600);

/// Creates a capped collection with one document.
async fn capped(test_server: &TestServer) -> Collection<Document> {
    let create = doc! {"create": "log", "capped": true, "size": 100_000};
    test_server.database.run_command(create).await.unwrap();
    let log = test_server.database.collection("log");
    log.insert_one(doc! {"_id": 1}).await.unwrap();
    log
}

/// Returns the number of running getMores.
async fn waiting(database: &Database) -> usize {
    let admin = database.client().database("admin");
    let running = admin.run_command(doc! {"currentOp": 1}).await.unwrap();
    let all = running.get_array("inprog").unwrap().iter();
    let ops = all.filter_map(|op| op.as_document()?.get_str("op").ok());
    ops.filter(|op| *op == "getmore").count()
}

async fn until_waiting(database: &Database, wanted: usize) {
    let waited = async {
        while waiting(database).await != wanted {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waited)
        .await
        .expect("a getMore");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_document_wakes_a_cursor_that_waits() {
    let test_server = default_server().await;
    let log = capped(&test_server).await;
    let find = log.find(doc! {}).cursor_type(CursorType::TailableAwait);
    let mut cursor = find.max_await_time(HOUR).await.unwrap();
    assert!(cursor.advance().await.unwrap());
    for n in 2..5 {
        let next = tokio::spawn(async move {
            assert!(cursor.advance().await.unwrap());
            cursor
        });
        until_waiting(&test_server.database, 1).await;
        log.insert_one(doc! {"_id": n}).await.unwrap();
        cursor = tokio::time::timeout(PATIENCE, next)
            .await
            .expect("it is woken")
            .unwrap();
        assert_eq!(cursor.deserialize_current().unwrap(), doc! {"_id": n});
    }
    drop(cursor);
    test_server.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_cursor_ends_with_its_client_and_with_the_server() {
    let test_server = default_server().await;
    capped(&test_server).await;
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut client = Client::connect(test_server.server.local_addr()).await;
        let find = bson::doc! {"find": "log", "tailable": true, "awaitData": true, "$db": "shop"};
        let opened = client.ask(find).await;
        let id = opened
            .get_document("cursor")
            .unwrap()
            .get_i64("id")
            .unwrap();
        let more =
            bson::doc! {"getMore": id, "collection": "log", "maxTimeMS": 3_600_000, "$db": "shop"};
        client.send(&msg(7, 0, &[&body(more)])).await;
        clients.push(client);
    }
    until_waiting(&test_server.database, 2).await;
    drop(clients.pop());
    until_waiting(&test_server.database, 1).await;
    assert_eq!(test_server.server.stop().await, 0, "it waits for no cursor");
    clients[0].assert_hung_up("the server has stopped").await;
}
