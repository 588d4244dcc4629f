//! Collections and indexes.

use mongodb::bson::{Document, doc};
use mongodb::{Collection, IndexModel};

use crate::server::default_house;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn collections_and_indexes() {
    let house = default_house().await;
    house.database.create_collection("one").await.unwrap();
    let two: Collection<Document> = house.database.collection("two");
    two.insert_one(doc! {"a": 1, "b": [1, 2]}).await.unwrap();
    let mut names = house.database.list_collection_names().await.unwrap();
    names.sort();
    assert_eq!(names, ["one", "two"]);
    assert!(
        house
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
    house.database.drop().await.unwrap();
    assert!(
        house
            .database
            .list_collection_names()
            .await
            .unwrap()
            .is_empty()
    );
    house.server.stop().await;
}
