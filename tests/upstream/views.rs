//! Views over collections with a TTL: what they show is what a cluster would show in which ended documents are gone.

use bson::{Bson, Document, bson, doc};
use mongodb::Collection;

use crate::cluster::Kind;
use crate::ttl::{Front, connect, rows};

/// Creates `carts` with a default of 10 seconds and four documents, the last of which ends 10 seconds after the others, and
/// views of it.
async fn start(test: &str) -> Option<Front> {
    let front = Front::start(Kind::Set(1), test).await?;
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    let first = [
        doc! {"_id": 1, "kind": "a", "n": [1, 2], "p": {"q": [5, null]}},
        doc! {"_id": 2, "kind": "b", "n": 3, "p": [{"q": 6}, {"q": [[7]]}]},
        doc! {"_id": 3, "kind": "b", "n": []},
    ];
    front.carts().insert_many(first).await.unwrap();
    front.clock.advance(10_000);
    // Those are not shown by anything any more, and their keys are free.
    let again = [
        doc! {"_id": 1, "kind": "a", "n": [1, 2], "p": {"q": [5, null]}},
        doc! {"_id": 2, "kind": "b", "n": 3, "p": [{"q": 6}, {"q": [[7]]}], "ttl": 5},
    ];
    front.carts().insert_many(again).await.unwrap();
    let plain: Collection<Document> = front.db.collection("plain");
    let of_plain = [doc! {"_id": 1, "cart": 1}, doc! {"_id": 2, "cart": 3}];
    plain.insert_many(of_plain).await.unwrap();
    let lookup = doc! {"$lookup": {"from": "carts", "localField": "cart", "foreignField": "_id", "as": "found"}};
    for (name, on, stages) in [
        ("all", "carts", vec![]),
        ("named", "all", vec![doc! {"$set": {"who": "$kind"}}]),
        ("kinds", "named", vec![doc! {"$sortByCount": "$who"}]),
        ("whole", "carts", vec![doc! {"$project": {"row": "$$ROOT"}}]),
        ("joined", "plain", vec![lookup]),
    ] {
        front
            .run(doc! {"create": name, "viewOn": on, "pipeline": stages})
            .await;
    }
    Some(front)
}

async fn all(front: &Front, view: &str, filter: Document) -> Vec<Document> {
    let view: Collection<Document> = front.db.collection(view);
    rows(view.find(filter).sort(doc! {"_id": 1}).await).await
}

fn ids(rows: &[Document]) -> Vec<Bson> {
    rows.iter().map(|row| row["_id"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn views_show_nothing_that_has_ended_and_nothing_hidden() {
    let Some(front) = start("views_show_nothing_that_has_ended").await else {
        return;
    };
    let db = &front.db;
    let one = doc! {"_id": 1, "kind": "a", "n": [1, 2], "p": {"q": [5, Bson::Null]}};
    for two in [true, false] {
        let expected: Vec<Bson> = if two {
            vec![1.into(), 2.into()]
        } else {
            vec![1.into()]
        };
        let seen = all(&front, "all", doc! {}).await;
        assert_eq!(ids(&seen), expected);
        assert_eq!(seen[0], one);
        let mut named = one.clone();
        named.insert("who", "a");
        assert_eq!(all(&front, "named", doc! {"who": "a"}).await, [named]);
        let kinds = all(&front, "kinds", doc! {}).await;
        assert_eq!(ids(&kinds), [Bson::from("a"), "b".into()][..expected.len()]);
        assert_eq!(
            all(&front, "whole", doc! {"_id": 1}).await,
            [doc! {"_id": 1, "row": &one}]
        );
        // Nothing but documents of 'carts' that are alive is joined.
        let joined = all(&front, "joined", doc! {}).await;
        assert_eq!(
            joined[0].get_array("found").unwrap(),
            &[Bson::from(one.clone())]
        );
        assert_eq!(joined[1].get_array("found").unwrap(), &[]);
        // Of views in stages.
        let plain: Collection<Document> = db.collection("plain");
        let look = doc! {"$lookup": {"from": "named", "localField": "_id", "foreignField": "_id", "as": "x"}};
        let found = rows(plain.aggregate([look]).await).await;
        let counts: Vec<usize> = found
            .iter()
            .map(|row| row.get_array("x").unwrap().len())
            .collect();
        assert_eq!(counts, [1, usize::from(two)]);
        let union = [doc! {"$match": {"_id": 0}}, doc! {"$unionWith": "all"}];
        assert_eq!(ids(&rows(plain.aggregate(union).await).await), expected);
        // Counts and values.
        let count = front.run(doc! {"count": "all"}).await;
        assert_eq!(count.get_i32("n").unwrap(), expected.len() as i32);
        let view: Collection<Document> = db.collection("all");
        assert_eq!(
            view.count_documents(doc! {}).await.unwrap(),
            expected.len() as u64
        );
        for (key, values) in [("n", bson!([1, 2, 3])), ("p.q", bson!([5, null, 6, [7]]))] {
            let mut found = front.run(doc! {"distinct": "all", "key": key}).await;
            let found = std::mem::take(found.get_array_mut("values").unwrap());
            // The order of values is nobody's promise.
            let values = &values.as_array().unwrap()[..if two {
                values.as_array().unwrap().len()
            } else {
                2
            }];
            assert!(found.len() == values.len(), "{key}: {found:?}");
            assert!(
                values.iter().all(|value| found.contains(value)),
                "{key}: {found:?}"
            );
        }
        front.clock.advance(5_000);
    }
    // A view is no collection.
    let view: Collection<Document> = db.collection("all");
    assert!(view.insert_one(doc! {}).await.is_err());
    assert!(view.watch().await.is_err());
    let listed = db
        .list_collections()
        .filter(doc! {"name": "all"})
        .await
        .unwrap();
    let listed: Vec<_> = futures_util::TryStreamExt::try_collect(listed)
        .await
        .unwrap();
    assert_eq!(listed[0].options.view_on.as_deref(), Some("carts"));
    db.collection::<Document>("named").drop().await.unwrap();
    assert_eq!(all(&front, "named", doc! {}).await, Vec::<Document>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cursor_of_a_view_goes_on_under_its_name() {
    let Some(front) = start("a_cursor_of_a_view").await else {
        return;
    };
    let more: Vec<Document> = (10..300)
        .map(|id| doc! {"_id": id, "ttl": if id < 200 { 100 } else { 5 }})
        .collect();
    front.carts().insert_many(more).await.unwrap();
    // A cursor belongs to its session, and the driver's own sessions change.
    let mut session = front.db.client().start_session().await.unwrap();
    let find = doc! {"find": "all", "filter": {"_id": {"$gte": 10}}, "batchSize": 50};
    let opened = front
        .db
        .run_command(find)
        .session(&mut session)
        .await
        .unwrap();
    let cursor = opened.get_document("cursor").unwrap();
    assert_eq!(cursor.get_str("ns").unwrap(), "shop.all");
    let mut seen = cursor.get_array("firstBatch").unwrap().len();
    let mut id = cursor.get_i64("id").unwrap();
    // Those from 200 on end before they leave the cursor.
    front.clock.advance(5_000);
    while id != 0 {
        let more = doc! {"getMore": id, "collection": "all", "batchSize": 50};
        let more = front
            .db
            .run_command(more)
            .session(&mut session)
            .await
            .unwrap();
        let cursor = more.get_document("cursor").unwrap();
        assert_eq!(cursor.get_str("ns").unwrap(), "shop.all");
        seen += cursor.get_array("nextBatch").unwrap().len();
        id = cursor.get_i64("id").unwrap();
    }
    assert_eq!(seen, 190);
}

/// The views are older than the rule, or the other Sundown has just learnt that the name is free.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_shows_nothing_hidden_however_old_it_is() {
    let Some(front) = Front::start(Kind::Set(1), "a_view_shows_nothing_hidden").await else {
        return;
    };
    let (_second, other) = connect(&front.cluster, &front.clock).await;
    front.carts().insert_one(doc! {"_id": 1}).await.unwrap();
    front
        .run(doc! {"create": "before", "viewOn": "carts", "pipeline": []})
        .await;
    assert_eq!(all(&front, "before", doc! {}).await.len(), 1);
    let after: Collection<Document> = other.collection("after");
    assert_eq!(after.find_one(doc! {}).await.unwrap(), None);
    front.run(doc! {"collMod": "carts", "defaultTtl": 10}).await;
    front
        .run(doc! {"create": "after", "viewOn": "before", "pipeline": []})
        .await;
    let two = doc! {"_id": 2};
    front.carts().insert_one(&two).await.unwrap();
    assert_eq!(after.find_one(doc! {"_id": 2}).await.unwrap(), Some(two));
    assert_eq!(all(&front, "before", doc! {}).await.len(), 2);
    front.clock.advance(10_000);
    assert_eq!(after.find_one(doc! {}).await.unwrap(), None);
    assert_eq!(all(&front, "before", doc! {}).await, Vec::<Document>::new());
}
