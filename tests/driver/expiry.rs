//! Documents that expire.

use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use mongodb::bson::{DateTime, Document, doc, oid::ObjectId};
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

use crate::server::{START, default_server};

/// A TTL index.
fn expiring(field: &str, seconds: u64) -> IndexModel {
    let options = IndexOptions::builder().expire_after(Duration::from_secs(seconds));
    IndexModel::builder()
        .keys(doc! {field: 1})
        .options(options.build())
        .build()
}

/// Sessions that are renewed, and links that live for a minute: the settings of Cosmos DB through MongoDB's driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_end_on_time() {
    let test_server = default_server().await;
    let sessions: Collection<Document> = test_server.database.collection("sessions");
    let ttl = expiring("_ts", 1_800);
    assert_eq!(
        sessions.create_index(ttl).await.unwrap().index_name,
        "_ts_1"
    );
    sessions
        .insert_many([
            doc! {"_id": "ann"},
            doc! {"_id": "link", "ttl": 60},
            doc! {"_id": "root", "ttl": -1},
        ])
        .await
        .unwrap();

    let there = async |sessions: &Collection<Document>| -> Vec<String> {
        let rows: Vec<Document> = sessions
            .find(doc! {})
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        rows.iter()
            .map(|row| row.get_str("_id").unwrap().to_owned())
            .collect()
    };
    test_server.clock.advance(59_999);
    assert_eq!(there(&sessions).await, ["ann", "link", "root"]);
    test_server.clock.advance(1);
    assert_eq!(there(&sessions).await, ["ann", "root"]);
    assert_eq!(sessions.count_documents(doc! {}).await.unwrap(), 2);
    assert_eq!(sessions.estimated_document_count().await.unwrap(), 2);
    assert_eq!(sessions.find_one(doc! {"_id": "link"}).await.unwrap(), None);
    assert_eq!(
        sessions
            .update_one(doc! {"_id": "link"}, doc! {"$set": {"x": 1}})
            .await
            .unwrap()
            .matched_count,
        0
    );
    sessions
        .insert_one(doc! {"_id": "link", "again": true})
        .await
        .unwrap();

    // Ann returns one second before half an hour is over, and her session is renewed.
    let admin = test_server.client.database("admin");
    let travel = async |seconds: f64| {
        let command = doc! {"timeTravel": 1, "advanceSeconds": seconds};
        admin.run_command(command).await.unwrap();
    };
    travel(1_739.0).await;
    assert_eq!(
        sessions
            .update_one(
                doc! {"_id": "ann"},
                doc! {"$set": {"seen": DateTime::now()}}
            )
            .await
            .unwrap()
            .matched_count,
        1
    );
    travel(61.0).await;
    assert_eq!(there(&sessions).await, ["ann", "root"]);
    travel(1_738.999).await;
    assert_eq!(there(&sessions).await, ["ann", "root"]);
    travel(0.001).await;
    assert_eq!(there(&sessions).await, ["root"]);
    let stored = sessions
        .find_one(doc! {"_id": "root"})
        .projection(doc! {"_ts": 1})
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.get_i64("_ts").unwrap(), START.0 / 1000);
    test_server.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_skips_documents_that_have_expired() {
    let test_server = default_server().await;
    test_server
        .database
        .run_command(doc! {"create": "queue", "defaultTtl": 10})
        .await
        .unwrap();
    let queue: Collection<Document> = test_server.database.collection("queue");
    queue
        .insert_many((0..50).map(|n| doc! {"_id": n, "ttl": if n % 2 == 0 { -1 } else { 10 }}))
        .await
        .unwrap();
    let mut cursor = queue
        .find(doc! {})
        .sort(doc! {"ttl": -1, "_id": 1})
        .batch_size(5)
        .await
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(
            cursor
                .next()
                .await
                .unwrap()
                .unwrap()
                .get_i32("_id")
                .unwrap(),
        );
    }
    assert_eq!(seen, [1, 3, 5, 7, 9]);
    test_server.clock.advance(10_000);
    let rest: Vec<Document> = cursor.try_collect().await.unwrap();
    let rest: Vec<i32> = rest.iter().map(|row| row.get_i32("_id").unwrap()).collect();
    assert_eq!(rest, (0..50).step_by(2).collect::<Vec<_>>());
    test_server.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dates_as_in_mongodb() {
    let test_server = default_server().await;
    let events: Collection<Document> = test_server.database.collection("events");
    let ttl = expiring("at", 5);
    events.create_index(ttl).await.unwrap();
    events
        .insert_one(doc! {"_id": ObjectId::new(), "at": DateTime::from_millis(START.0)})
        .await
        .unwrap();
    test_server.clock.advance(4_999);
    assert_eq!(events.count_documents(doc! {}).await.unwrap(), 1);
    test_server.clock.advance(1);
    assert_eq!(events.count_documents(doc! {}).await.unwrap(), 0);
    test_server.server.stop().await;
}
