//! Collections and indexes.

use mongodb::bson::{Document, doc};
use mongodb::{Collection, IndexModel};

use crate::server::default_server;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collections_and_indexes() {
    let test_server = default_server().await;
    test_server.database.create_collection("one").await.unwrap();
    let two: Collection<Document> = test_server.database.collection("two");
    two.insert_one(doc! {"a": 1, "b": [1, 2]}).await.unwrap();
    let mut names = test_server.database.list_collection_names().await.unwrap();
    names.sort();
    assert_eq!(names, ["one", "two"]);
    assert!(
        test_server
            .client
            .list_database_names()
            .await
            .unwrap()
            .contains(&"shop".to_owned())
    );
    let made = two
        .create_indexes([
            IndexModel::builder().keys(doc! {"a": 1}).build(),
            IndexModel::builder().keys(doc! {"b": -1, "a": 1}).build(),
        ])
        .await
        .unwrap();
    assert_eq!(made.index_names, ["a_1", "b_-1_a_1"]);
    assert_eq!(
        two.list_index_names().await.unwrap(),
        ["_id_", "a_1", "b_-1_a_1"]
    );
    two.drop_index("a_1").await.unwrap();
    assert_eq!(two.list_index_names().await.unwrap().len(), 2);
    two.drop_indexes().await.unwrap();
    assert_eq!(two.list_index_names().await.unwrap(), ["_id_"]);
    two.drop().await.unwrap();
    test_server.database.drop().await.unwrap();
    assert!(
        test_server
            .database
            .list_collection_names()
            .await
            .unwrap()
            .is_empty()
    );
    test_server.server.stop().await;
}
