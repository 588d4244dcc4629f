//! What a driver does goes through: documents, cursors, sessions, transactions, change streams.

use bson::{Document, doc};
use futures_util::{StreamExt, TryStreamExt};
use mongodb::error::ErrorKind;
use mongodb::options::IndexOptions;
use mongodb::{Collection, IndexModel};

use crate::cluster::{Cluster, Kind, driver};

async fn ids(rows: mongodb::Cursor<Document>) -> Vec<i32> {
    let rows: Vec<Document> = rows.try_collect().await.unwrap();
    rows.iter().map(|row| row.get_i32("_id").unwrap()).collect()
}

fn code(error: &mongodb::error::Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_cursors_and_indexes() {
    let cluster = Cluster::start(Kind::Any, "documents_cursors_and_indexes").await;
    let cluster = cluster.unwrap();
    let server = cluster.sundown().await;
    let client = driver(&server, "").await;
    let db = client.database("shop");
    let carts: Collection<Document> = db.collection("carts");
    let many = (0..500).map(|n| doc! {"_id": n, "kind": n % 5});
    carts.insert_many(many).await.unwrap();
    assert_eq!(carts.count_documents(doc! {"kind": 3}).await.unwrap(), 100);
    let found = carts
        .find(doc! {"kind": 3})
        .batch_size(7)
        .sort(doc! {"_id": 1});
    let found = ids(found.await.unwrap()).await;
    assert_eq!(found.len(), 100);
    assert_eq!(found[..3], [3, 8, 13]);
    let key = IndexModel::builder().keys(doc! {"kind": 1, "_id": 1});
    let options = IndexOptions::builder().name("both".to_owned()).build();
    let key = key.options(options).build();
    carts.create_index(key).await.unwrap();
    assert_eq!(carts.list_index_names().await.unwrap(), ["_id_", "both"]);
    let update = doc! {"$inc": {"kind": 10}};
    let updated = carts.update_many(doc! {"kind": 1}, update).await.unwrap();
    assert_eq!(updated.modified_count, 100);
    let groups = carts.aggregate([
        doc! {"$group": {"_id": "$kind"}},
        doc! {"$sort": {"_id": 1}},
    ]);
    assert_eq!(ids(groups.await.unwrap()).await, [0, 2, 3, 4, 11]);
    let again = carts.insert_one(doc! {"_id": 1}).await.unwrap_err();
    assert!(again.to_string().contains("E11000"), "{again}");
    assert_eq!(db.list_collection_names().await.unwrap(), ["carts"]);
    // The documents are in the cluster, not here.
    let direct = mongodb::Client::with_uri_str(cluster.uri()).await.unwrap();
    let there = direct.database("shop").collection::<Document>("carts");
    assert_eq!(there.count_documents(doc! {}).await.unwrap(), 500);
    carts.drop().await.unwrap();
    assert_eq!(there.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn some_databases_and_commands_are_refused_by_name() {
    let cluster = Cluster::start(Kind::Any, "some_databases_and_commands").await;
    let cluster = cluster.unwrap();
    let server = cluster.sundown().await;
    let client = driver(&server, "").await;
    let run = async |db: &str, command| {
        let error = client.database(db).run_command(command).await.unwrap_err();
        (code(&error).unwrap_or_default(), error.to_string())
    };
    for database in ["local", "sundown"] {
        let (code, message) = run(database, doc! {"find": "c"}).await;
        assert_eq!(code, 13);
        assert!(message.contains(database), "{message}");
    }
    client
        .database("shop")
        .create_collection("c")
        .await
        .unwrap();
    let listed = client.list_database_names().await.unwrap();
    assert!(listed.contains(&"shop".to_owned()), "{listed:?}");
    for closed in ["local", "sundown"] {
        assert!(!listed.contains(&closed.to_owned()), "{listed:?}");
    }
    let (code, message) = run("admin", doc! {"timeTravel": 1, "advanceSeconds": 5}).await;
    assert_eq!(code, 238);
    assert!(message.contains("timeTravel"), "{message}");
    let (code, _) = run("shop", doc! {"noSuchCommand": 1}).await;
    assert_eq!(code, 59);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_status_tells_about_the_cluster() {
    let cluster = Cluster::start(Kind::Any, "server_status_tells_about_the_cluster").await;
    let cluster = cluster.unwrap();
    let server = cluster.sundown().await;
    let client = driver(&server, "").await;
    let admin = client.database("admin");
    let status = admin.run_command(doc! {"serverStatus": 1}).await.unwrap();
    let upstream = status.get_document("upstream").unwrap();
    assert_eq!(upstream.get_str("state").ok(), Some("connected"));
    assert_eq!(
        upstream.get_str("node").unwrap(),
        cluster.address().to_string()
    );
    let connections = upstream.get_document("connections").unwrap();
    assert_eq!(connections.get_i64("current").ok(), Some(1));
    let hello = admin.run_command(doc! {"hello": 1}).await.unwrap();
    assert_eq!(hello.get_str("msg").ok(), Some("isdbgrid"));
    assert_eq!(hello.get_i32("maxWriteBatchSize").ok(), Some(10_000));
    let direct = mongodb::Client::with_uri_str(cluster.uri()).await.unwrap();
    let direct = direct.database("admin");
    let direct = direct.run_command(doc! {"hello": 1}).await.unwrap();
    for version in ["minWireVersion", "maxWireVersion"] {
        assert_eq!(hello.get(version), direct.get(version));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_and_change_streams() {
    let Some(cluster) = Cluster::start(Kind::Set(1), "transactions_and_change_streams").await
    else {
        return;
    };
    let server = cluster.sundown().await;
    let client = driver(&server, "").await;
    let carts: Collection<Document> = client.database("shop").collection("carts");
    carts.insert_one(doc! {"_id": 1}).await.unwrap();
    let mut events = carts.watch().await.unwrap();

    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let insert = carts.insert_one(doc! {"_id": 2}).session(&mut session);
    insert.await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 1);
    session.commit_transaction().await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 2);
    let event = events.next().await.unwrap().unwrap();
    assert_eq!(event.full_document, Some(doc! {"_id": 2}));

    session.start_transaction().await.unwrap();
    let delete = carts.delete_one(doc! {"_id": 2}).session(&mut session);
    delete.await.unwrap();
    session.abort_transaction().await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standalone_is_announced_as_one() {
    let Some(cluster) = Cluster::start(Kind::Standalone, "a_standalone_is_announced_as_one").await
    else {
        return;
    };
    let server = cluster.sundown().await;
    let client = driver(&server, "retryWrites=false").await;
    let admin = client.database("admin");
    let hello = admin.run_command(doc! {"hello": 1}).await.unwrap();
    assert!(!hello.contains_key("msg") && !hello.contains_key("setName"));
    let carts: Collection<Document> = client.database("shop").collection("carts");
    carts.insert_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_compressed_on_either_side() {
    let cluster = Cluster::start(Kind::Any, "messages_are_compressed_on_either_side").await;
    let cluster = cluster.unwrap();
    let separator = if cluster.uri().contains('?') {
        '&'
    } else {
        '?'
    };
    for compressor in ["snappy", "zlib", "zstd"] {
        let uri = format!("{}{separator}compressors={compressor}", cluster.uri());
        let config = crate::cluster::in_front_of(&uri);
        let server = sundown::Sundown::start(config, sundown::Clock::system()).await;
        let server = server.unwrap();
        for clients in ["", "compressors=zstd"] {
            let client = driver(&server, clients).await;
            let notes: Collection<Document> = client.database("shop").collection("notes");
            notes.delete_many(doc! {}).await.unwrap();
            let text = "sundown ".repeat(10_000);
            let notes_there = (0..20).map(|n| doc! {"_id": n, "text": &text});
            notes.insert_many(notes_there).await.unwrap();
            let found: Vec<Document> = notes
                .find(doc! {})
                .await
                .unwrap()
                .try_collect()
                .await
                .unwrap();
            assert_eq!(found.len(), 20);
            assert!(
                found
                    .iter()
                    .all(|note| note.get_str("text").ok() == Some(text.as_str()))
            );
        }
    }
}
