//! Documents in the cluster end exactly on time, through one Sundown and through several. The clock is the test's.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use mongodb::{Collection, Database};
use sundown::clock::{Clock, Millis};
use sundown::{Config, Sundown};

use crate::cluster::{Cluster, Kind, driver, in_front_of};

/// 2030-01-01T00:00:00Z.
const START: Millis = Millis(1_893_456_000_000);

/// A Sundown in front of a cluster, with a clock that stands still.
pub struct Front {
    pub cluster: Cluster,
    pub clock: Clock,
    /// Runs until the test ends.
    _server: Sundown,
    pub db: Database,
}

impl Front {
    pub async fn start(kind: Kind, test: &str) -> Option<Self> {
        let cluster = Cluster::start(kind, test).await?;
        let clock = Clock::frozen(START);
        let (server, db) = connect(&cluster, &clock).await;
        Some(Self {
            cluster,
            clock,
            _server: server,
            db,
        })
    }

    pub fn carts(&self) -> Collection<Document> {
        self.db.collection("carts")
    }

    pub async fn run(&self, command: Document) -> Document {
        let shown = command.to_string();
        let reply = self.db.run_command(command).await;
        reply.unwrap_or_else(|problem| panic!("{shown}: {problem}"))
    }

    /// The documents as they are in the cluster.
    async fn stored(&self) -> Vec<Document> {
        let direct = mongodb::Client::with_uri_str(self.cluster.uri()).await;
        let direct = direct.unwrap().database("shop");
        rows(direct.collection::<Document>("carts").find(doc! {}).await).await
    }
}

pub async fn connect(cluster: &Cluster, clock: &Clock) -> (Sundown, Database) {
    let config = in_front_of(&cluster.uri());
    let server = Sundown::start(config, clock.clone()).await.unwrap();
    let client = driver(&server, "").await;
    (server, client.database("shop"))
}

pub async fn rows(cursor: mongodb::error::Result<mongodb::Cursor<Document>>) -> Vec<Document> {
    cursor.unwrap().try_collect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_end_at_the_millisecond_and_nothing_hidden_is_seen() {
    let front = Front::start(Kind::Any, "documents_end_at_the_millisecond").await;
    let front = front.unwrap();
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    let carts = front.carts();
    let documents = [
        doc! {"_id": 1, "a": 1},
        doc! {"_id": 2, "ttl": 5},
        doc! {"_id": 3, "ttl": -1},
        doc! {"_id": 4, "ttl": "junk"},
    ];
    carts.insert_many(&documents).await.unwrap();
    let stored = front.stored().await;
    assert!(stored.iter().all(|row| row.contains_key("_sundown")));

    let all = async |living: Vec<Document>| {
        let found = rows(front.carts().find(doc! {}).sort(doc! {"_id": 1}).await).await;
        assert_eq!(found, living);
        let counted = front.carts().count_documents(doc! {}).await.unwrap();
        assert_eq!(counted, living.len() as u64);
        let whole = [
            doc! {"$sort": {"_id": 1}},
            doc! {"$project": {"all": {"$objectToArray": "$$ROOT"}, "whole": "$$ROOT"}},
        ];
        for (row, living) in rows(front.carts().aggregate(whole).await)
            .await
            .iter()
            .zip(&living)
        {
            assert_eq!(row.get_document("whole").unwrap(), living);
            let names = row.get_array("all").unwrap().iter();
            let names: Vec<_> = names
                .map(|pair| pair.as_document().unwrap().get_str("k").unwrap())
                .collect();
            assert_eq!(names, living.keys().collect::<Vec<_>>());
        }
    };
    // Joined to documents of a collection without rules.
    let plain: Collection<Document> = front.db.collection("plain");
    plain.insert_one(doc! {"_id": 1}).await.unwrap();
    let lookup = doc! {"$lookup": {"from": "carts", "localField": "_id", "foreignField": "_id", "as": "found"}};
    let project = doc! {"$project": {"found": 1}};
    let unwind = doc! {"$unwind": "$found"};
    let first = documents[0].clone();
    for (pipeline, found) in [
        (
            vec![lookup.clone()],
            Bson::Array(vec![first.clone().into()]),
        ),
        (
            vec![lookup.clone(), project],
            Bson::Array(vec![first.clone().into()]),
        ),
        (vec![lookup, unwind], first.into()),
    ] {
        let joined = rows(plain.aggregate(pipeline).await).await;
        assert_eq!(joined, [doc! {"_id": 1, "found": found}]);
    }
    let [one, two, three, four] = documents;
    front.clock.advance(4_999);
    all(vec![one.clone(), two, three.clone(), four.clone()]).await;
    front.clock.advance(1);
    all(vec![one.clone(), three.clone(), four.clone()]).await;
    front.clock.advance(4_999);
    all(vec![one, three.clone(), four]).await;
    front.clock.advance(1);
    all(vec![three]).await;

    // The keys of ended documents are free at once, for inserts and for upserts.
    carts.insert_one(doc! {"_id": 1, "b": 1}).await.unwrap();
    let upsert = carts
        .update_one(doc! {"_id": 2}, doc! {"$set": {"b": 2}})
        .upsert(true);
    assert_eq!(upsert.await.unwrap().upserted_id, Some(Bson::Int32(2)));
    let found = carts.find_one(doc! {"_id": 2}).await.unwrap();
    assert_eq!(found, Some(doc! {"_id": 2, "b": 2}));
    // What clients see of the settings is DefaultTTL, and not how it is kept.
    assert_eq!(carts.list_index_names().await.unwrap(), ["_id_", "_ts_1"]);
    for hidden in [
        doc! {"_sundown": 1},
        doc! {"$expr": {"$gt": ["$_sundown", 0]}},
    ] {
        assert!(carts.find_one(hidden).await.is_err());
    }
}

/// MongoDB computes the projection after it has stored the update. So an update whose projection fails is not sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_whose_projection_fails_is_applied_as_often_as_without_a_ttl() {
    let front = Front::start(Kind::Any, "an_update_whose_projection_fails").await;
    let front = front.unwrap();
    front
        .run(doc! {"create": "carts", "defaultTtl": 1_000})
        .await;
    let mut outcomes = Vec::new();
    for name in ["plain", "carts"] {
        let insert = doc! {"_id": 1, "n": 0, "zero": 0, "a": [1]};
        front
            .run(doc! {"insert": name, "documents": [insert]})
            .await;
        let mut outcome = Vec::new();
        for (field, value) in [
            ("x", Bson::from(doc! {"$divide": [1, "$zero"]})),
            ("a.$", 1.into()),
            ("n", 1.into()),
        ] {
            let command = doc! {
                "findAndModify": name, "query": {"_id": 1}, "update": {"$inc": {"n": 1}}, "fields": {field: value},
            };
            let failed = front.db.run_command(command).await.is_err();
            let found = front.run(doc! {"find": name, "filter": {"_id": 1}}).await;
            let found = found
                .get_document("cursor")
                .unwrap()
                .get_array("firstBatch");
            outcome.push((
                failed,
                found.unwrap()[0].as_document().unwrap()["n"].clone(),
            ));
        }
        outcomes.push(outcome);
    }
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0][0].0 && !outcomes[0][2].0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documents_from_before_count_from_the_moment_of_the_default() {
    let front = Front::start(Kind::Any, "documents_from_before")
        .await
        .unwrap();
    let carts = front.carts();
    carts.insert_one(doc! {"_id": 1}).await.unwrap();
    front.clock.advance(60_000);
    front.run(doc! {"collMod": "carts", "defaultTtl": 10}).await;
    front.clock.advance(9_999);
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 1);
    front.clock.advance(1);
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 0);
    // Expired is final.
    front
        .run(doc! {"collMod": "carts", "defaultTtl": 1_000_000})
        .await;
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 0);
    front
        .run(doc! {"collMod": "carts", "defaultTtl": Bson::Null})
        .await;
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_set_through_one_sundown_holds_for_all() {
    let front = Front::start(Kind::Any, "a_rule_set_through_one_sundown").await;
    let front = front.unwrap();
    let (_second, other) = connect(&front.cluster, &front.clock).await;
    let there: Collection<Document> = other.collection("carts");
    front.carts().insert_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(there.count_documents(doc! {}).await.unwrap(), 1);
    front.run(doc! {"collMod": "carts", "defaultTtl": 10}).await;
    front.clock.advance(10_000);
    // The command that changed the rule has been answered, so the rule holds everywhere.
    assert_eq!(there.count_documents(doc! {}).await.unwrap(), 0);
    there.insert_one(doc! {"_id": 1}).await.unwrap();
    assert_eq!(front.carts().count_documents(doc! {}).await.unwrap(), 1);
    other
        .run_command(doc! {"collMod": "carts", "defaultTtl": 5})
        .await
        .unwrap();
    front.clock.advance(5_000);
    assert_eq!(front.carts().count_documents(doc! {}).await.unwrap(), 0);
    // The lists show it at once, too, and the counts of indexes.
    for (by, seen_by, default) in [
        (&front.db, &other, Some(7)),
        (&other, &front.db, Some(8)),
        (&front.db, &other, None),
    ] {
        let change = doc! {"collMod": "carts", "defaultTtl": default};
        by.run_command(change).await.unwrap();
        let list = doc! {"listCollections": 1, "filter": {"name": "carts"}};
        let listed = seen_by.run_command(list).await.unwrap();
        let rows = listed
            .get_document("cursor")
            .unwrap()
            .get_array("firstBatch");
        let row = rows.unwrap()[0].as_document().unwrap();
        let options = row.get_document("options").unwrap();
        assert_eq!(options.get_i32("defaultTtl").ok(), default);
    }
    let index = doc! {"key": {"a": 1}, "name": "a_1"};
    let create = doc! {"createIndexes": "carts", "indexes": [index]};
    let created = other.run_command(create).await.unwrap();
    assert_eq!(created.get_i32("numIndexesAfter").ok(), Some(2));
}

/// While `$out` replaces the collection over and over, other clients read it through both Sundowns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_has_its_rules_while_it_is_replaced() {
    let test = "a_collection_has_its_rules_while_it_is_replaced";
    let Some(front) = Front::start(Kind::Any, test).await else {
        return;
    };
    let (_other, other) = connect(&front.cluster, &front.clock).await;
    for name in ["carts", "plain"] {
        let documents: Vec<Document> = (0..20).map(|id| doc! {"_id": id}).collect();
        if name == "carts" {
            front.run(doc! {"create": name, "defaultTtl": 10}).await;
        }
        front
            .run(doc! {"insert": name, "documents": documents})
            .await;
    }
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for db in [front.db.clone(), other.clone()] {
        let over = Arc::clone(&over);
        readers.push(tokio::spawn(async move {
            let mut seen = 0;
            while !over.load(Ordering::SeqCst) {
                let carts = db.collection::<Document>("carts");
                let filter = doc! {"_id": {"$gte": 0}};
                // A collection that is replaced while it is read may end the cursor.
                let Ok(cursor) = carts.find(filter).await else {
                    continue;
                };
                let Ok(all) = cursor.try_collect::<Vec<Document>>().await else {
                    continue;
                };
                for row in all {
                    assert_eq!(row.len(), 1, "{row}");
                    seen += 1;
                }
            }
            seen
        }));
    }
    for round in 0..6 {
        let db = if round % 2 == 0 { &front.db } else { &other };
        let out = doc! {"aggregate": "plain", "pipeline": [{"$out": "carts"}], "cursor": {}};
        db.run_command(out).await.unwrap();
    }
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    front.clock.advance(10_000);
    for db in [&front.db, &other] {
        let carts = db.collection::<Document>("carts");
        assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 0);
    }
}

/// A read that is under way when a collection with a rule gets the name finds that collection, and is read again under its rule.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_meets_a_renamed_collection_sees_nothing_hidden() {
    let test = "a_read_that_meets_a_renamed_collection_sees_nothing_hidden";
    let Some(front) = Front::start(Kind::Set(1), test).await else {
        return;
    };
    // It acknowledges changes soon, so that the rename does not take long.
    let mut config = in_front_of(&front.cluster.uri());
    config.upstream.as_mut().unwrap().renewal = Duration::from_millis(100);
    let server = Sundown::start(config, front.clock.clone()).await.unwrap();
    let other = driver(&server, "").await.database("shop");
    let direct = mongodb::Client::with_uri_str(front.cluster.uri()).await;
    let admin = direct.unwrap().database("admin");
    // A name that is free, that of a collection without rules, and that of one with another rule.
    for (round, target) in ["free", "plain", "ruled"].into_iter().enumerate() {
        let known: Collection<Document> = other.collection(target);
        if target == "ruled" {
            front
                .run(doc! {"create": target, "defaultTtl": 1_000})
                .await;
        }
        if target != "free" {
            known.insert_one(doc! {"_id": 0}).await.unwrap();
        }
        front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
        let rows_of = [doc! {"_id": 1, "ttl": 1}, doc! {"_id": 2}];
        front.carts().insert_many(rows_of).await.unwrap();
        front.clock.advance(1_000);
        known.find_one(doc! {}).await.unwrap();
        // The cluster is slow to begin with the next read of that name.
        let read = if round == 1 { "aggregate" } else { "find" };
        let slow = doc! {
            "configureFailPoint": "failCommand",
            "mode": {"times": 1},
            "data": {
                "failCommands": [read],
                "namespace": format!("shop.{target}"),
                "blockConnection": true,
                "blockTimeMS": 5_000,
            },
        };
        admin.run_command(slow).await.unwrap();
        let reader = tokio::spawn(async move {
            let cursor = match read {
                "find" => known.find(doc! {}).await,
                _ => known.aggregate([doc! {"$match": {}}]).await,
            };
            rows(cursor).await
        });
        // It must have been sent.
        tokio::time::sleep(Duration::from_millis(500)).await; // real time: another process waits
        let rename = doc! {
            "renameCollection": "shop.carts", "to": format!("shop.{target}"), "dropTarget": true,
        };
        let client = front.db.client().database("admin");
        client.run_command(rename).await.unwrap();
        let found = reader.await.unwrap();
        let old = vec![doc! {"_id": 0}];
        assert!(
            found == [doc! {"_id": 2}] || found == old,
            "{target}: {found:?}"
        );
        assert_ne!(found, old, "{target}: the read was over too soon");
    }
}

/// What one Sundown makes unique is unique for the others: ended documents make way before a transaction meets them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_becomes_unique_is_known_to_all() {
    let test = "a_key_that_becomes_unique_is_known_to_all";
    let Some(front) = Front::start(Kind::Set(1), test).await else {
        return;
    };
    let (_other, other) = connect(&front.cluster, &front.clock).await;
    let index = doc! {"key": {"k": 1}, "name": "k_1"};
    front.run(doc! {"create": "carts", "defaultTtl": 10}).await;
    front
        .run(doc! {"createIndexes": "carts", "indexes": [index]})
        .await;
    let there: Collection<Document> = other.collection("carts");
    there.insert_one(doc! {"_id": 1, "k": 1}).await.unwrap();
    for change in ["prepareUnique", "unique"] {
        front
            .run(doc! {"collMod": "carts", "index": {"name": "k_1", change: true}})
            .await;
    }
    front.clock.advance(10_000);
    let mut session = other.client().start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let insert = there.insert_one(doc! {"_id": 2, "k": 1});
    insert.session(&mut session).await.unwrap();
    session.commit_transaction().await.unwrap();
    assert_eq!(front.carts().count_documents(doc! {}).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dates_end_documents_exactly() {
    let front = Front::start(Kind::Any, "dates_end_documents_exactly")
        .await
        .unwrap();
    let index = doc! {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 5};
    front
        .run(doc! {"createIndexes": "carts", "indexes": [index]})
        .await;
    let at = bson::DateTime::from_millis(START.0);
    front
        .carts()
        .insert_one(doc! {"_id": 1, "at": at})
        .await
        .unwrap();
    front.clock.advance(4_999);
    assert_eq!(front.carts().count_documents(doc! {}).await.unwrap(), 1);
    front.clock.advance(1);
    assert_eq!(front.carts().count_documents(doc! {}).await.unwrap(), 0);
}

/// A Sundown that cannot ask the cluster for the rules does not guess them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_settings_commands_are_refused() {
    let config = Config {
        port: 0,
        ..Config::default()
    };
    let cluster = Sundown::start(config, Clock::system()).await.unwrap();
    let uri = format!("{}?serverSelectionTimeoutMS=200", cluster.uri());
    let server = Sundown::start(in_front_of(&uri), Clock::system())
        .await
        .unwrap();
    let client = driver(&server, "retryReads=false").await;
    let carts: Collection<Document> = client.database("shop").collection("carts");
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 0);
    cluster.stop().await;
    assert!(carts.count_documents(doc! {}).await.is_err());
}
