//! Sessions, retried writes and transactions.

use futures_util::TryStreamExt;
use mongodb::Collection;
use mongodb::bson::{Document, doc};
use sundown::config::Topology;

use crate::server::{default_server, test_server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_retryable_writes() {
    for topology in [
        Topology::Router,
        Topology::ReplicaSet {
            name: "globaldb".into(),
            advertise: None,
        },
    ] {
        let test_server = test_server(topology).await;
        let things: Collection<Document> = test_server.database.collection("things");
        let mut session = test_server.client.start_session().await.unwrap();
        things
            .insert_one(doc! {"_id": 1, "n": 0})
            .session(&mut session)
            .await
            .unwrap();
        for _ in 0..5 {
            let done = things
                .update_one(doc! {"_id": 1}, doc! {"$inc": {"n": 1}})
                .session(&mut session)
                .await
                .unwrap();
            assert_eq!(done.modified_count, 1);
        }
        let mut cursor = things.find(doc! {}).session(&mut session).await.unwrap();
        let rows: Vec<Document> = cursor.stream(&mut session).try_collect().await.unwrap();
        assert_eq!(rows, [doc! {"_id": 1, "n": 5}]);

        // The driver sends the same write with the same number again after a lost reply.
        let write = doc! {
            "update": "things", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}],
            "txnNumber": 1_000i64,
        };
        let mut send = Vec::new();
        for _ in 0..2 {
            let sent = test_server.database.run_command(write.clone());
            send.push(sent.session(&mut session).await.unwrap());
        }
        let (first, again) = (&send[0], &send[1]);
        assert_eq!(first.get("nModified"), again.get("nModified"));
        assert_eq!(
            things.find_one(doc! {}).await.unwrap(),
            Some(doc! {"_id": 1, "n": 6})
        );
        test_server.server.stop().await;
    }
}

/// A transaction of the driver: its reads are one snapshot, and its writes become visible at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions() {
    let test_server = default_server().await;
    let things: Collection<Document> = test_server.database.collection("things");
    let others: Collection<Document> = test_server.database.collection("others");
    things.insert_one(doc! {"_id": 1, "n": 0}).await.unwrap();
    let mut session = test_server.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let raise = doc! {"$inc": {"n": 1}};
    things
        .update_one(doc! {"_id": 1}, raise.clone())
        .session(&mut session)
        .await
        .unwrap();
    others
        .insert_one(doc! {"_id": 1})
        .session(&mut session)
        .await
        .unwrap();
    assert_eq!(others.count_documents(doc! {}).await.unwrap(), 0);
    // Another transaction that writes to the same document ends, and the driver may start it again.
    let mut second = test_server.client.start_session().await.unwrap();
    second.start_transaction().await.unwrap();
    let conflict = things
        .update_one(doc! {"_id": 1}, raise.clone())
        .session(&mut second)
        .await
        .unwrap_err();
    assert!(
        conflict.contains_label(mongodb::error::TRANSIENT_TRANSACTION_ERROR),
        "{conflict}"
    );
    // A write outside waits for the transaction.
    let waiting = tokio::spawn({
        let things = things.clone();
        async move { things.update_one(doc! {"_id": 1}, raise).await }
    });
    session.commit_transaction().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap().modified_count, 1);
    assert_eq!(
        things.find_one(doc! {}).await.unwrap(),
        Some(doc! {"_id": 1, "n": 2})
    );
    assert_eq!(others.count_documents(doc! {}).await.unwrap(), 1);
    session.start_transaction().await.unwrap();
    others
        .delete_many(doc! {})
        .session(&mut session)
        .await
        .unwrap();
    session.abort_transaction().await.unwrap();
    assert_eq!(others.count_documents(doc! {}).await.unwrap(), 1);
    test_server.server.stop().await;
}
