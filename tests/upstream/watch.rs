//! Change streams of collections, databases and the cluster, where collections have a TTL.

use std::time::Duration;

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use mongodb::change_stream::ChangeStream;
use mongodb::change_stream::event::{ChangeStreamEvent, OperationType};
use mongodb::options::FullDocumentType;
use sundown::clock::monotonic;

use crate::cluster::Kind;
use crate::ttl::Front;

type Events = ChangeStream<ChangeStreamEvent<Document>>;

async fn start(test: &str) -> Option<Front> {
    let front = Front::start(Kind::Set(1), test).await?;
    front.run(doc! {"create": "plain"}).await;
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    Some(front)
}

/// Writes in both collections, and a mark at the end.
async fn write(front: &Front) {
    let carts = front.carts();
    let plain = front.db.collection::<Document>("plain");
    carts.insert_one(doc! {"_id": 1, "a": 1}).await.unwrap();
    let one = || doc! {"_id": 1};
    // Nothing changes but the stamp.
    carts
        .update_one(one(), doc! {"$set": {"a": 1}})
        .await
        .unwrap();
    carts
        .update_one(one(), doc! {"$set": {"a": 2}, "$unset": {"b": 1}})
        .await
        .unwrap();
    carts.replace_one(one(), doc! {"c": 1}).await.unwrap();
    // Of a client, in a collection without a TTL.
    plain
        .insert_one(doc! {"_id": 1, "_sundown": 1, "_ts": 2})
        .await
        .unwrap();
    carts.delete_one(one()).await.unwrap();
    plain.insert_one(doc! {"_id": "end"}).await.unwrap();
}

async fn next(events: &mut Events) -> ChangeStreamEvent<Document> {
    let event = tokio::time::timeout(Duration::from_secs(30), events.try_next());
    event.await.expect("an event in time").unwrap().unwrap()
}

/// Checks that a stream shows the writes of [`write`], and nothing else.
async fn check(mut events: Events) {
    let full = [
        (OperationType::Insert, Some(doc! {"_id": 1, "a": 1})),
        (OperationType::Update, None),
        (OperationType::Replace, Some(doc! {"_id": 1, "c": 1})),
        (
            OperationType::Insert,
            Some(doc! {"_id": 1, "_sundown": 1, "_ts": 2}),
        ),
        (OperationType::Delete, None),
    ];
    for (kind, document) in full {
        let event = next(&mut events).await;
        assert_eq!(event.operation_type, kind, "{event:?}");
        assert_eq!(event.full_document, document);
        assert_eq!(event.document_key, Some(doc! {"_id": 1}));
        if kind == OperationType::Update {
            let change = event.update_description.unwrap();
            assert_eq!(change.updated_fields, doc! {"a": 2});
        }
    }
    let end = next(&mut events).await;
    assert_eq!(end.full_document, Some(doc! {"_id": "end"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wide_change_streams_show_nothing_hidden() {
    let Some(front) = start("wide_change_streams_show_nothing_hidden").await else {
        return;
    };
    let of_database = front.db.watch().await.unwrap();
    let of_cluster = front.db.client().watch().await.unwrap();
    let mut of_one = front.carts().watch().await.unwrap();
    write(&front).await;
    check(of_database).await;
    check(of_cluster).await;
    for kind in [OperationType::Insert, OperationType::Update] {
        assert_eq!(next(&mut of_one).await.operation_type, kind);
    }
    // The stream goes on behind the last event, through the token.
    let token = of_one.resume_token().unwrap();
    drop(of_one);
    // Also if the collection is gone meanwhile, and its settings with it.
    front.carts().drop().await.unwrap();
    let mut resumed = front.carts().watch().resume_after(token).await.unwrap();
    let event = next(&mut resumed).await;
    assert_eq!(event.full_document, Some(doc! {"_id": 1, "c": 1}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clients_stages_see_nothing_hidden() {
    let Some(front) = start("the_clients_stages_see_nothing_hidden").await else {
        return;
    };
    let stages = [
        doc! {"$match": {"operationType": {"$in": ["insert", "replace"]}, "ns.coll": "carts"}},
        doc! {"$match": {"fullDocument._sundown": {"$exists": false}}},
        doc! {"$project": {"all": {"$objectToArray": "$fullDocument"}}},
    ];
    let watch = front.db.watch().pipeline(stages);
    let mut events = watch.await.unwrap().with_type::<Document>();
    write(&front).await;
    for last in ["a", "c"] {
        let event = tokio::time::timeout(Duration::from_secs(30), events.try_next());
        let event = event.await.unwrap().unwrap().unwrap();
        let names = event.get_array("all").unwrap().iter();
        let names: Vec<_> = names
            .map(|pair| pair.as_document().unwrap()["k"].clone())
            .collect();
        assert_eq!(names, [Bson::from("_id"), last.into()]);
    }
    // With variables of the command, and with `$redact`, which may leave an event out.
    let prune = doc! {"$cond": [{"$eq": ["$documentKey._id", "$$unwanted"]}, "$$PRUNE", "$$KEEP"]};
    // The cursor stays in its session.
    let mut session = front.db.client().start_session().await.unwrap();
    let open = doc! {
            "aggregate": "carts",
            "pipeline": [
                {"$changeStream": {}},
                {"$redact": prune},
                {"$project": {"key": "$documentKey._id", "text": "$$text"}},
            ],
            "let": {"unwanted": 3, "text": "t"},
            "collation": {"locale": "simple"},
            "cursor": {},
    };
    let opened = front.db.run_command(open).session(&mut session);
    let reply = opened.await.unwrap();
    for id in [3, 4] {
        front.carts().insert_one(doc! {"_id": id}).await.unwrap();
    }
    let id = reply.get_document("cursor").unwrap().get_i64("id").unwrap();
    let more = doc! {"getMore": id, "collection": "carts", "maxTimeMS": 20_000};
    let more = front.db.run_command(more).session(&mut session);
    let reply = more.await.unwrap();
    let batch = reply.get_document("cursor").unwrap();
    let batch = batch.get_array("nextBatch").unwrap();
    let mut event = batch[0].as_document().unwrap().clone();
    event.remove("_id");
    assert_eq!((batch.len(), event), (1, doc! {"key": 4, "text": "t"}));
    // The token of an event must stay, and some stages are not allowed.
    let unset = front
        .db
        .watch()
        .pipeline([doc! {"$unset": "_id"}])
        .await
        .unwrap();
    front.carts().insert_one(doc! {"_id": 2}).await.unwrap();
    let mut unset = unset;
    let error = unset.try_next().await.unwrap_err().to_string();
    assert!(error.contains("resume token"), "{error}");
    let sorted = front
        .db
        .watch()
        .pipeline([doc! {"$sort": {"_id": 1}}])
        .await;
    let error = sorted.map(drop).unwrap_err().to_string();
    assert!(error.contains("not permitted"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_that_has_ended_is_not_looked_up() {
    let Some(front) = start("a_document_that_has_ended_is_not_looked_up").await else {
        return;
    };
    let watch = front
        .db
        .watch()
        .full_document(FullDocumentType::UpdateLookup);
    let mut events = watch.await.unwrap();
    let carts = front.carts();
    carts.insert_one(doc! {"_id": 1}).await.unwrap();
    carts
        .update_one(doc! {}, doc! {"$set": {"a": 1}})
        .await
        .unwrap();
    next(&mut events).await;
    let living = next(&mut events).await;
    assert_eq!(living.full_document, Some(doc! {"_id": 1, "a": 1}));
    carts
        .update_one(doc! {}, doc! {"$set": {"a": 2}})
        .await
        .unwrap();
    front.clock.advance(10_000);
    let ended = next(&mut events).await;
    assert_eq!(ended.operation_type, OperationType::Update);
    assert_eq!(ended.full_document, None);
}

/// The driver resumes the stream, and nobody notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_is_older_than_the_first_ttl_goes_on() {
    let Some(front) = Front::start(Kind::Set(1), "a_stream_that_is_older").await else {
        return;
    };
    front.run(doc! {"create": "carts"}).await;
    let mut wide = front.db.watch().await.unwrap();
    let mut narrow = front.carts().watch().await.unwrap();
    front.carts().insert_one(doc! {"_id": 1}).await.unwrap();
    for events in [&mut wide, &mut narrow] {
        assert_eq!(next(events).await.full_document, Some(doc! {"_id": 1}));
    }
    front.run(doc! {"collMod": "carts", "defaultTtl": 10}).await;
    front.carts().insert_one(doc! {"_id": 2}).await.unwrap();
    for events in [&mut wide, &mut narrow] {
        assert_eq!(next(events).await.full_document, Some(doc! {"_id": 2}));
    }
}

/// A getMore without an event for the client waits as long as it may, also if there were events that it does not see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_more_waits_for_an_event_that_the_client_sees() {
    let Some(front) = start("a_get_more_waits").await else {
        return;
    };
    front
        .carts()
        .insert_one(doc! {"_id": 1, "a": 1})
        .await
        .unwrap();
    let open = doc! {"aggregate": "carts", "pipeline": [{"$changeStream": {}}], "cursor": {}};
    // The cursor stays in its session.
    let mut session = front.db.client().start_session().await.unwrap();
    let opened = front.db.run_command(open).session(&mut session);
    let opened = opened.await.unwrap();
    let id = opened
        .get_document("cursor")
        .unwrap()
        .get_i64("id")
        .unwrap();
    // Nothing changes but the stamp.
    front
        .carts()
        .update_one(doc! {}, doc! {"$set": {"a": 1}})
        .await
        .unwrap();
    let start = monotonic();
    let more = doc! {"getMore": id, "collection": "carts", "maxTimeMS": 700};
    let more = front.db.run_command(more).session(&mut session);
    let reply = more.await.unwrap();
    let took = monotonic() - start;
    let cursor = reply.get_document("cursor").unwrap();
    assert_eq!(cursor.get_array("nextBatch").unwrap(), &[]);
    assert!(cursor.contains_key("postBatchResumeToken"));
    assert!(took >= Duration::from_millis(600), "{took:?}");
}
