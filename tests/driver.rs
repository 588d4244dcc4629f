//! The official driver as an ordinary user: nothing here knows that it is not talking to MongoDB, except where time is moved.

#![allow(clippy::unwrap_used)]

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use mongodb::bson::{Bson, DateTime, Document, doc, oid::ObjectId};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::{ClientOptions, IndexOptions, ReturnDocument};
use mongodb::{Client, Collection, Database, IndexModel};
use serde::{Deserialize, Serialize};
use sundown::Sundown;
use sundown::clock::{Clock, Millis};
use sundown::config::{Config, Topology};

const START: Millis = Millis(1_893_456_000_000);

struct House {
    server: Sundown,
    clock: Clock,
    client: Client,
    database: Database,
}

async fn house(topology: Topology) -> House {
    let clock = Clock::frozen(START);
    let config = Config {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        enable_test_commands: true,
        topology,
        ..Config::default()
    };
    let server = Sundown::start(config, clock.clone()).await.unwrap();
    let options = ClientOptions::parse(server.uri()).await.unwrap();
    let client = Client::with_options(options).unwrap();
    let database = client.database("shop");
    House {
        server,
        clock,
        client,
        database,
    }
}

async fn default_house() -> House {
    house(Topology::Router).await
}

/// A TTL index.
fn expiring(field: &str, seconds: u64) -> IndexModel {
    let options = IndexOptions::builder().expire_after(Duration::from_secs(seconds));
    IndexModel::builder()
        .keys(doc! {field: 1})
        .options(options.build())
        .build()
}

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

fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        ErrorKind::Command(error) => Some(error.code),
        ErrorKind::InsertMany(error) => Some(error.write_errors.as_ref()?.first()?.code),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn create_read_update_delete() {
    let house = default_house().await;
    let books: Collection<Book> = house.database.collection("books");
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
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bulk_writes() {
    let house = default_house().await;
    let books: Collection<Document> = house.database.collection("books");
    let films: Collection<Document> = house.database.collection("films");
    let done = house
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
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_are_made_and_errors_have_their_kinds() {
    let house = default_house().await;
    let things: Collection<Document> = house.database.collection("things");
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
    let error = things
        .insert_many([
            doc! {"_id": 1, "u": 1},
            doc! {"_id": 2, "u": 1},
            doc! {"_id": 3, "u": 2},
        ])
        .await
        .unwrap_err();
    assert_eq!(code(&error), Some(11_000));
    assert_eq!(
        things
            .count_documents(doc! {"u": {"$exists": true}})
            .await
            .unwrap(),
        1
    );
    let error = things
        .insert_many([doc! {"_id": 2, "u": 1}, doc! {"_id": 3, "u": 2}])
        .ordered(false)
        .await
        .unwrap_err();
    assert_eq!(code(&error), Some(11_000));
    assert_eq!(
        things
            .count_documents(doc! {"u": {"$exists": true}})
            .await
            .unwrap(),
        2
    );

    let error = things.find(doc! {"a": {"$nope": 1}}).await.unwrap_err();
    assert_eq!(code(&error), Some(2));
    let error = house
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
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors() {
    let house = default_house().await;
    let numbers: Collection<Document> = house.database.collection("numbers");
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
    // One that is dropped half way is killed; the server goes on.
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
    house.server.stop().await;
}

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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_retryable_writes() {
    for topology in [
        Topology::Router,
        Topology::ReplicaSet {
            name: "globaldb".into(),
            advertise: None,
        },
    ] {
        let house = house(topology).await;
        let things: Collection<Document> = house.database.collection("things");
        let mut session = house.client.start_session().await.unwrap();
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

        // What the driver does after a lost reply: the same write under the same number.
        let write = doc! {
            "update": "things", "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}],
            "txnNumber": 1_000i64,
        };
        let mut send = Vec::new();
        for _ in 0..2 {
            let sent = house.database.run_command(write.clone());
            send.push(sent.session(&mut session).await.unwrap());
        }
        let (first, again) = (&send[0], &send[1]);
        assert_eq!(first.get("nModified"), again.get("nModified"));
        assert_eq!(
            things.find_one(doc! {}).await.unwrap(),
            Some(doc! {"_id": 1, "n": 6})
        );
        house.server.stop().await;
    }
}

/// Sessions for someone who comes back, links that live a minute: Cosmos' settings through MongoDB's driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_end_on_time() {
    let house = default_house().await;
    let sessions: Collection<Document> = house.database.collection("sessions");
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
    house.clock.advance(59_999);
    assert_eq!(there(&sessions).await, ["ann", "link", "root"]);
    house.clock.advance(1);
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

    // Ann comes back, over the wire, half an hour but a second later: her session begins anew.
    let admin = house.client.database("admin");
    admin
        .run_command(doc! {"timeTravel": 1, "advanceSeconds": 1_739})
        .await
        .unwrap();
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
    admin
        .run_command(doc! {"timeTravel": 1, "advanceSeconds": 61})
        .await
        .unwrap();
    assert_eq!(there(&sessions).await, ["ann", "root"]);
    admin
        .run_command(doc! {"timeTravel": 1, "advanceSeconds": 1_738.999})
        .await
        .unwrap();
    assert_eq!(there(&sessions).await, ["ann", "root"]);
    admin
        .run_command(doc! {"timeTravel": 1, "advanceSeconds": 0.001})
        .await
        .unwrap();
    assert_eq!(there(&sessions).await, ["root"]);
    let stored = sessions
        .find_one(doc! {"_id": "root"})
        .projection(doc! {"_ts": 1})
        .await
        .unwrap()
        .unwrap();
    assert_eq!(stored.get_i64("_ts").unwrap(), START.0 / 1000);
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_that_outlives_its_documents() {
    let house = default_house().await;
    house
        .database
        .run_command(doc! {"create": "queue", "defaultTtl": 10})
        .await
        .unwrap();
    let queue: Collection<Document> = house.database.collection("queue");
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
    house.clock.advance(10_000);
    let rest: Vec<Document> = cursor.try_collect().await.unwrap();
    let rest: Vec<i32> = rest.iter().map(|row| row.get_i32("_id").unwrap()).collect();
    assert_eq!(rest, (0..50).step_by(2).collect::<Vec<_>>());
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dates_as_in_mongodb() {
    let house = default_house().await;
    let events: Collection<Document> = house.database.collection("events");
    let ttl = expiring("at", 5);
    events.create_index(ttl).await.unwrap();
    events
        .insert_one(doc! {"_id": ObjectId::new(), "at": DateTime::from_millis(START.0)})
        .await
        .unwrap();
    house.clock.advance(4_999);
    assert_eq!(events.count_documents(doc! {}).await.unwrap(), 1);
    house.clock.advance(1);
    assert_eq!(events.count_documents(doc! {}).await.unwrap(), 0);
    house.server.stop().await;
}

/// What is not there says so, by name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_built_is_refused_by_name() {
    let house = default_house().await;
    let things: Collection<Document> = house.database.collection("things");
    let mut session = house.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let error = things
        .insert_one(doc! {"_id": 1})
        .session(&mut session)
        .await
        .unwrap_err();
    assert!(
        error.to_string().to_lowercase().contains("transaction"),
        "{error}"
    );
    drop(session);
    let error = things.watch().await.unwrap_err();
    assert!(error.to_string().contains("$changeStream"), "{error}");
    assert_eq!(things.count_documents(doc! {}).await.unwrap(), 0);
    house.server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_clients_at_once() {
    let house = default_house().await;
    let things: Collection<Document> = house.database.collection("things");
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
    house.server.stop().await;
}
