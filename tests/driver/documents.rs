//! Documents: inserts, finds, counts and errors.

use futures_util::{StreamExt, TryStreamExt};
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::{IndexOptions, ReturnDocument};
use mongodb::{Collection, IndexModel};
use serde::{Deserialize, Serialize};

use crate::server::{code, default_server};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Book {
    #[serde(rename = "_id")]
    id: i32,
    title: String,
    #[serde(default)]
    tags: Vec<String>,
    year: i32,
}

fn book(id: i32, title: &str, year: i32) -> Book {
    Book {
        id,
        title: title.to_owned(),
        tags: vec![format!("t{}", id % 3)],
        year,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_read_update_delete() {
    let test_server = default_server().await;
    let books: Collection<Book> = test_server.database.collection("books");
    let inserted = books.insert_one(book(1, "Dawn", 1960)).await.unwrap();
    assert_eq!(inserted.inserted_id, Bson::Int32(1));
    let many = books
        .insert_many((2..=20).map(|id| book(id, "More", 1900 + id)))
        .await
        .unwrap();
    assert_eq!(many.inserted_ids.len(), 19);

    assert_eq!(
        books.find_one(doc! {"_id": 1}).await.unwrap(),
        Some(book(1, "Dawn", 1960))
    );
    assert_eq!(books.find_one(doc! {"_id": 99}).await.unwrap(), None);
    let late: Vec<Book> = books
        .find(doc! {"year": {"$gte": 1918}})
        .sort(doc! {"year": -1})
        .limit(2)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(
        late.iter().map(|book| book.year).collect::<Vec<_>>(),
        [1960, 1920]
    );

    let updated = books
        .update_one(
            doc! {"_id": 1},
            doc! {"$set": {"title": "Dusk"}, "$push": {"tags": "new"}},
        )
        .await
        .unwrap();
    assert_eq!((updated.matched_count, updated.modified_count), (1, 1));
    let updated = books
        .update_many(doc! {"year": {"$lt": 1950}}, doc! {"$inc": {"year": 100}})
        .await
        .unwrap();
    assert_eq!(updated.matched_count, 19);
    let upserted = books
        .update_one(
            doc! {"_id": 50},
            doc! {"$set": {"title": "New", "year": 2000, "tags": []}},
        )
        .upsert(true)
        .await
        .unwrap();
    assert_eq!(upserted.upserted_id, Some(Bson::Int32(50)));
    let replaced = books
        .replace_one(doc! {"_id": 50}, book(50, "Newer", 2001))
        .await
        .unwrap();
    assert_eq!(replaced.modified_count, 1);

    let before = books
        .find_one_and_update(doc! {"_id": 50}, doc! {"$inc": {"year": 1}})
        .await
        .unwrap()
        .unwrap();
    assert_eq!(before.year, 2001);
    let after = books
        .find_one_and_replace(doc! {"_id": 50}, book(50, "Newest", 2003))
        .return_document(ReturnDocument::After)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(after.title, "Newest");
    let gone = books
        .find_one_and_delete(doc! {"_id": 50})
        .await
        .unwrap()
        .unwrap();
    assert_eq!(gone.year, 2003);

    assert_eq!(books.count_documents(doc! {}).await.unwrap(), 20);
    assert_eq!(
        books.count_documents(doc! {"tags": "new"}).await.unwrap(),
        1
    );
    assert_eq!(books.estimated_document_count().await.unwrap(), 20);
    let mut tags: Vec<String> = books
        .distinct("tags", doc! {"_id": {"$gt": 1}})
        .await
        .unwrap()
        .into_iter()
        .map(|tag| tag.as_str().unwrap().to_owned())
        .collect();
    tags.sort();
    assert_eq!(tags, ["t0", "t1", "t2"]);

    assert_eq!(
        books
            .delete_one(doc! {"_id": 1})
            .await
            .unwrap()
            .deleted_count,
        1
    );
    assert_eq!(books.delete_many(doc! {}).await.unwrap().deleted_count, 19);
    assert_eq!(books.estimated_document_count().await.unwrap(), 0);
    test_server.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_writes() {
    let test_server = default_server().await;
    let books: Collection<Document> = test_server.database.collection("books");
    let films: Collection<Document> = test_server.database.collection("films");
    let done = test_server
        .client
        .bulk_write([
            books.insert_one_model(doc! {"_id": 1}).unwrap(),
            films.insert_one_model(doc! {"_id": 2, "n": 1}).unwrap(),
        ])
        .await
        .unwrap();
    assert_eq!(done.inserted_count, 2);
    assert_eq!(books.count_documents(doc! {}).await.unwrap(), 1);
    assert_eq!(films.count_documents(doc! {"n": 1}).await.unwrap(), 1);
    test_server.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_generated_and_errors_have_their_kinds() {
    let test_server = default_server().await;
    let things: Collection<Document> = test_server.database.collection("things");
    let id = things.insert_one(doc! {"a": 1}).await.unwrap().inserted_id;
    assert!(matches!(id, Bson::ObjectId(_)));
    let error = things
        .insert_one(doc! {"_id": id.clone()})
        .await
        .unwrap_err();
    assert_eq!(code(&error), Some(11_000));

    let unique = IndexModel::builder()
        .keys(doc! {"u": 1})
        .options(IndexOptions::builder().unique(true).build())
        .build();
    things.create_index(unique).await.unwrap();
    let with_u = async || {
        let filter = doc! {"u": {"$exists": true}};
        things.count_documents(filter).await.unwrap()
    };
    let error = things
        .insert_many([
            doc! {"_id": 1, "u": 1},
            doc! {"_id": 2, "u": 1},
            doc! {"_id": 3, "u": 2},
        ])
        .await
        .unwrap_err();
    assert_eq!(code(&error), Some(11_000));
    assert_eq!(with_u().await, 1);
    let error = things
        .insert_many([doc! {"_id": 2, "u": 1}, doc! {"_id": 3, "u": 2}])
        .ordered(false)
        .await
        .unwrap_err();
    assert_eq!(code(&error), Some(11_000));
    assert_eq!(with_u().await, 2);

    let error = things.find(doc! {"a": {"$nope": 1}}).await.unwrap_err();
    assert_eq!(code(&error), Some(2));
    let error = test_server
        .database
        .run_command(doc! {"nope": 1})
        .await
        .unwrap_err();
    assert_eq!(code(&error), Some(59));
    let error = things
        .update_one(doc! {}, doc! {"$inc": {"_id": 1}})
        .await
        .unwrap_err();
    assert!(code(&error).is_some());
    test_server.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors() {
    let test_server = default_server().await;
    let numbers: Collection<Document> = test_server.database.collection("numbers");
    numbers
        .insert_many((0..1_000).map(|n| doc! {"_id": n, "n": n % 10}))
        .await
        .unwrap();
    let mut cursor = numbers.find(doc! {}).batch_size(7).await.unwrap();
    let mut next = 0;
    while cursor.advance().await.unwrap() {
        assert_eq!(cursor.current().get_i32("_id").unwrap(), next);
        next += 1;
    }
    assert_eq!(next, 1_000);
    // A cursor that is dropped before its end is killed. The server continues.
    let mut cursor = numbers.find(doc! {}).batch_size(2).await.unwrap();
    assert!(cursor.next().await.unwrap().is_ok());
    drop(cursor);
    let groups: Vec<Document> = numbers
        .aggregate([
            doc! {"$match": {"n": {"$lt": 5}}},
            doc! {"$group": {"_id": "$n", "count": {"$sum": 1}}},
            doc! {"$sort": {"_id": 1}},
        ])
        .batch_size(2)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(groups.len(), 5);
    assert!(
        groups
            .iter()
            .all(|group| group.get("count") == Some(&Bson::Int32(100)))
    );
    let sorted: Vec<Document> = numbers
        .find(doc! {})
        .sort(doc! {"n": -1, "_id": 1})
        .batch_size(100)
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(sorted[0], doc! {"_id": 9, "n": 9});
    assert_eq!(sorted.len(), 1_000);
    test_server.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_at_once() {
    let test_server = default_server().await;
    let things: Collection<Document> = test_server.database.collection("things");
    let tasks: Vec<_> = (0..16)
        .map(|nth| {
            let things = things.clone();
            tokio::spawn(async move {
                for n in 0..50 {
                    things
                        .insert_one(doc! {"_id": nth * 1_000 + n, "by": nth})
                        .await
                        .unwrap();
                    things
                        .update_one(doc! {"_id": "counter"}, doc! {"$inc": {"n": 1}})
                        .upsert(true)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(
        things
            .count_documents(doc! {"by": {"$exists": true}})
            .await
            .unwrap(),
        800
    );
    assert_eq!(
        things
            .find_one(doc! {"_id": "counter"})
            .await
            .unwrap()
            .unwrap()
            .get_i32("n")
            .unwrap(),
        800
    );
    test_server.server.stop().await;
}

/// A message may be a little larger than a document, so that a document of the largest size can be sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_cannot_become_too_large() {
    const LARGEST: usize = 16 * 1024 * 1024;
    let test_server = default_server().await;
    let things: Collection<Document> = test_server.database.collection("things");
    things.insert_one(doc! {"_id": 1, "x": 0}).await.unwrap();
    let empty = doc! {"_id": 1, "x": ""}.to_vec().unwrap().len();
    let sized = |id: i32, size: usize| doc! {"_id": id, "x": "a".repeat(size - empty)};
    for indexed in [false, true] {
        if indexed {
            things
                .create_index(IndexModel::builder().keys(doc! {"y": 1}).build())
                .await
                .unwrap();
        }
        let replaced = things.replace_one(doc! {"_id": 1}, sized(1, LARGEST)).await;
        assert_eq!(replaced.unwrap().matched_count, 1);
        let too_large = sized(1, LARGEST + 500);
        let replaced = things.replace_one(doc! {"_id": 1}, &too_large).await;
        assert_eq!(code(&replaced.unwrap_err()), Some(17419), "{indexed}");
        let replaced = things.find_one_and_replace(doc! {"_id": 1}, &too_large);
        assert_eq!(code(&replaced.await.unwrap_err()), Some(17419), "{indexed}");
        let upserted = things.replace_one(doc! {"_id": 2}, sized(2, LARGEST + 500));
        assert!(upserted.upsert(true).await.is_err(), "{indexed}");
        let stored = things.find_one(doc! {}).await.unwrap().unwrap();
        assert_eq!(stored.to_vec().unwrap().len(), LARGEST, "{indexed}");
        assert_eq!(things.count_documents(doc! {}).await.unwrap(), 1);
    }
    test_server.server.stop().await;
}
