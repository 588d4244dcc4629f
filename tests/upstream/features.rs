//! Features of drivers on collections with a TTL: GridFS, transactions, bulk writes.

use bson::{Document, doc};
use futures_util::{AsyncReadExt, AsyncWriteExt};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::IndexOptions;
use mongodb::{ClientSession, Collection, IndexModel};

use crate::cluster::Kind;
use crate::ttl::Front;

fn code(error: &Error) -> i32 {
    match &*error.kind {
        ErrorKind::Command(error) => error.code,
        ErrorKind::Write(mongodb::error::WriteFailure::WriteError(error)) => error.code,
        _ => panic!("{error}"),
    }
}

async fn ids(carts: &Collection<Document>, session: &mut ClientSession) -> Vec<i32> {
    let found = carts.find(doc! {}).sort(doc! {"_id": 1});
    let mut found = found.session(&mut *session).await.unwrap();
    let mut ids = Vec::new();
    while let Some(row) = found.next(session).await {
        ids.push(row.unwrap().get_i32("_id").unwrap());
    }
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn transactions_take_over_the_keys_of_ended_documents() {
    let Some(front) = Front::start(Kind::Set(1), "transactions_take_over_the_keys").await else {
        return;
    };
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    let carts = front.carts();
    let unique = IndexOptions::builder().unique(true).build();
    let index = IndexModel::builder().keys(doc! {"k": 1}).options(unique);
    carts.create_index(index.build()).await.unwrap();
    let held = [doc! {"_id": 1, "k": 1}, doc! {"_id": 2, "k": 2}];
    carts.insert_many(held).await.unwrap();
    front.clock.advance(10_000);

    let client = front.db.client();
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    for document in [doc! {"_id": 1, "k": 5}, doc! {"_id": 3, "k": 1}] {
        carts
            .insert_one(document)
            .session(&mut session)
            .await
            .unwrap();
    }
    let upsert = carts.update_one(doc! {"_id": 2}, doc! {"$set": {"k": 6}});
    let upserted = upsert.upsert(true).session(&mut session).await.unwrap();
    assert!(upserted.upserted_id.is_some());
    assert_eq!(ids(&carts, &mut session).await, [1, 2, 3]);
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 0);
    session.commit_transaction().await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 3);

    // What is taken back stays ended.
    front.clock.advance(10_000);
    session.start_transaction().await.unwrap();
    let again = carts.insert_one(doc! {"_id": 1, "k": 1});
    again.session(&mut session).await.unwrap();
    session.abort_transaction().await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 0);

    // A key that a living document holds is still held, and two transactions that want one key conflict.
    carts.insert_one(doc! {"_id": 7, "k": 7}).await.unwrap();
    session.start_transaction().await.unwrap();
    let held = carts.insert_one(doc! {"_id": 8, "k": 7});
    let error = held.session(&mut session).await.unwrap_err();
    assert_eq!(code(&error), 11000);
    let _ = session.abort_transaction().await;
    let mut other = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    other.start_transaction().await.unwrap();
    let first = carts.insert_one(doc! {"_id": 1, "k": 10});
    first.session(&mut session).await.unwrap();
    let second = carts.insert_one(doc! {"_id": 1, "k": 11});
    let error = second.session(&mut other).await.unwrap_err();
    assert_eq!(code(&error), 112, "{error}");
    assert!(error.contains_label("TransientTransactionError"), "{error}");
    session.commit_transaction().await.unwrap();
    let _ = other.abort_transaction().await;
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_end_with_their_documents() {
    let front = Front::start(Kind::Any, "files_end_with_their_documents").await;
    let front = front.unwrap();
    for name in ["fs.files", "fs.chunks"] {
        front.run(doc! {"create": name, "defaultTtl": 10}).await;
    }
    let bucket = front.db.gridfs_bucket(None);
    let content = vec![7; 700_000];
    for name in ["a", "b"] {
        let mut file = bucket.open_upload_stream(name).await.unwrap();
        file.write_all(&content).await.unwrap();
        file.close().await.unwrap();
        let mut file = bucket.open_download_stream_by_name(name).await.unwrap();
        let mut read = Vec::new();
        file.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, content);
        front.clock.advance(9_999);
    }
    // The first has ended, the second has a millisecond left.
    assert!(bucket.open_download_stream_by_name("a").await.is_err());
    assert!(
        bucket
            .find_one(doc! {"filename": "b"})
            .await
            .unwrap()
            .is_some()
    );
    front.clock.advance(1);
    assert!(bucket.open_download_stream_by_name("b").await.is_err());
    let chunks = front.db.collection::<Document>("fs.chunks");
    assert_eq!(chunks.count_documents(doc! {}).await.unwrap(), 0);
}

/// MongoDB has it since 8.0.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bulk_write_obeys_the_rules_or_is_unknown_to_the_cluster() {
    let front = Front::start(Kind::Any, "a_bulk_write_obeys_the_rules").await;
    let front = front.unwrap();
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    let admin = front.db.client().database("admin");
    let insert = || {
        doc! {
            "bulkWrite": 1,
            "ops": [{"insert": 0, "document": {"_id": 1}}, {"update": 0, "filter": {"_id": 1}, "updateMods": {"$set": {"a": 1}}}],
            "nsInfo": [{"ns": "shop.carts"}],
        }
    };
    match admin.run_command(insert()).await {
        Err(error) => assert_eq!(code(&error), 59, "{error}"),
        Ok(reply) => {
            assert_eq!(reply.get_i32("nErrors").ok(), Some(0), "{reply}");
            let found = front.carts().find_one(doc! {}).await.unwrap();
            assert_eq!(found, Some(doc! {"_id": 1, "a": 1}));
            front.clock.advance(10_000);
            assert_eq!(front.carts().count_documents(doc! {}).await.unwrap(), 0);
            let again = admin.run_command(insert()).await.unwrap();
            assert_eq!(again.get_i32("nErrors").ok(), Some(0), "{again}");
        }
    }
}

/// So do shells and older drivers ask for sizes and counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stages_behind_figures_see_exact_ones() {
    let front = Front::start(Kind::Any, "stages_behind_figures_see_exact_ones").await;
    let front = front.unwrap();
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    let both = [doc! {"_id": 1}, doc! {"_id": 2, "ttl": 60}];
    front.carts().insert_many(both).await.unwrap();
    front.clock.advance(10_000);
    let carts = front.carts();
    let aggregate = async |stages: Vec<Document>, batch: u32| {
        crate::ttl::rows(carts.aggregate(stages).batch_size(batch).await).await
    };
    let grouped = vec![
        doc! {"$collStats": {"storageStats": {}}},
        doc! {"$group": {
            "_id": null,
            "count": {"$sum": "$storageStats.count"},
            "size": {"$sum": "$storageStats.size"},
            "indexes": {"$max": "$storageStats.nindexes"},
        }},
    ];
    let size = doc! {"_id": 2, "ttl": 60}.to_vec().unwrap().len() as i32;
    for batch in [0, 100] {
        assert_eq!(
            aggregate(grouped.clone(), batch).await,
            [doc! {"_id": null, "count": 1, "size": size, "indexes": 1}]
        );
        let alone = aggregate(vec![doc! {"$collStats": {"count": {}}}], batch).await;
        assert_eq!(alone.len(), 1);
        assert_eq!(alone[0].get_i32("count").ok(), Some(1), "{alone:?}");
        // The rules hold for what the other stages read.
        let joined = doc! {"$lookup": {"from": "carts", "pipeline": [], "as": "all"}};
        let only = doc! {"$project": {"_id": 0, "count": 1, "all": 1}};
        let joined = vec![doc! {"$collStats": {"count": {}}}, joined, only];
        assert_eq!(
            aggregate(joined, batch).await,
            [doc! {"count": 1, "all": [{"_id": 2, "ttl": 60}]}]
        );
    }
}
