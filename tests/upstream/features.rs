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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_a_collection_are_measured() {
    let front = Front::start(Kind::Any, "parts_of_a_collection_are_measured").await;
    let front = front.unwrap();
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    let index = |key: Document, name: &str| doc! {"key": key, "name": name};
    let mut sparse = index(doc! {"x": 1}, "x");
    sparse.insert("sparse", true);
    let indexes = [sparse, index(doc! {"x": 1, "y": -1}, "xy")];
    front
        .run(doc! {"createIndexes": "carts", "indexes": indexes.to_vec()})
        .await;
    let keys = [(1, 1), (1, 2), (2, 1), (3, 1), (3, 2)];
    let rows = (1..).zip(keys).map(|(id, (x, y))| {
        let ttl = if id == 3 { 5 } else { 60 };
        doc! {"_id": id, "x": x, "y": y, "ttl": ttl}
    });
    let rows: Vec<Document> = rows.collect();
    let each = rows[0].to_vec().unwrap().len() as i64;
    front.carts().insert_many(rows).await.unwrap();
    front.clock.advance(5_000);
    let parts = [
        (doc! {"min": {"_id": 2}, "max": {"_id": 5}}, 2),
        (
            doc! {"keyPattern": {"x": 1}, "min": {"x": 1}, "max": {"x": 3}},
            2,
        ),
        // Within an index a descending field begins with its largest value.
        (
            doc! {"keyPattern": {"x": 1}, "min": {"x": 1}, "max": {"x": 3, "y": 1}},
            3,
        ),
        (
            doc! {"keyPattern": {"x": 1}, "min": {"x": 3}, "max": {"x": 1}},
            0,
        ),
        (doc! {"min": {}, "max": {}}, 4),
        (doc! {"maxObjects": 2}, -3),
        (doc! {"maxSize": each}, -2),
        (doc! {"maxObjects": 4, "maxSize": each * 4}, 4),
    ];
    for (part, count) in parts {
        let mut command = doc! {"dataSize": "shop.carts"};
        command.extend(part.clone());
        let reply = front.run(command).await;
        let number = |name: &str| match reply.get(name) {
            Some(bson::Bson::Int32(n)) => i64::from(*n),
            Some(bson::Bson::Int64(n)) => *n,
            other => panic!("{part}: {other:?}"),
        };
        assert_eq!(
            reply.contains_key("maxReached"),
            count < 0,
            "{part}: {reply}"
        );
        let count = i64::abs(count);
        assert_eq!(number("numObjects"), count, "{part}");
        assert_eq!(number("size"), count * each, "{part}");
    }
    let unknown =
        doc! {"dataSize": "shop.carts", "keyPattern": {"y": 1}, "min": {"y": 1}, "max": {"y": 2}};
    assert!(front.db.run_command(unknown).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_show_nothing_hidden() {
    let front = Front::start(Kind::Any, "errors_show_nothing_hidden").await;
    let front = front.unwrap();
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    front
        .carts()
        .insert_one(doc! {"_id": 1, "a": 5})
        .await
        .unwrap();
    // Sundown's own indexes do not exist for clients.
    let hints = ["no such index", "_sundown_own", "_sundown_default"];
    let hinted = hints.map(|hint| doc! {"find": "carts", "filter": {"a": 5}, "hint": hint});
    let near = doc! {"find": "carts", "filter": {"at": {"$near": [0, 0]}}};
    let roots = ["$a", "$missing"].map(|root| {
        doc! {"aggregate": "carts", "pipeline": [{"$replaceWith": root}], "cursor": {}}
    });
    let inner = doc! {"aggregate": "carts", "pipeline": [
        {"$lookup": {"from": "carts", "pipeline": [{"$replaceWith": "$a"}], "as": "all"}},
    ], "cursor": {}};
    for command in hinted.into_iter().chain([near, inner]).chain(roots) {
        let error = front.db.run_command(command.clone()).await.unwrap_err();
        let error = error.to_string();
        assert!(!error.contains("_sundown"), "{command}: {error}");
    }
    let update = doc! {"q": {"a": 5}, "u": {"$set": {"b": 1}}, "hint": "_sundown_own"};
    let update = doc! {"update": "carts", "updates": [update]};
    let failed = front.db.run_command(update).await;
    let shown = failed.map_or_else(|error| error.to_string(), |reply| reply.to_string());
    assert!(
        shown.contains("hint") && !shown.contains("_sundown"),
        "{shown}"
    );
}
