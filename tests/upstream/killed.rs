//! A Sundown is killed (-9) in the middle of its work. Another one finishes the work or withdraws it, and until then nobody
//! sees what has ended. The processes have the system's clock.

use std::time::Duration;

use bson::{Bson, Document, doc};
use futures_util::TryStreamExt;
use mongodb::{Client as Driver, Collection, Database};
use sundown::clock::monotonic;

use crate::cluster::{Cluster, Kind};
use crate::support::binary::Binary;

/// So many documents that deleting them takes longer than noticing it.
const MANY: i32 = 20_000;

/// A cluster with two Sundowns in front of it, which know each other.
struct Pair {
    cluster: Cluster,
    first: Front,
    second: Front,
}

struct Front {
    process: Binary,
    db: Database,
}

// === impl Pair ===

impl Pair {
    async fn start(test: &str) -> Option<Self> {
        let cluster = Cluster::start(Kind::Set(1), test).await?;
        let pair = Self {
            first: Front::start(&cluster).await,
            second: Front::start(&cluster).await,
            cluster,
        };
        for front in [&pair.first, &pair.second] {
            eventually("they know each other", async || {
                let settings = front.status().await;
                let settings = settings.get_document("settings").unwrap();
                settings.get_i64("otherSundowns").ok() == Some(1)
            })
            .await;
        }
        Some(pair)
    }

    /// The database past Sundown.
    async fn direct(&self) -> Driver {
        Driver::with_uri_str(self.cluster.uri()).await.unwrap()
    }
}

// === impl Front ===

impl Front {
    async fn start(cluster: &Cluster) -> Self {
        let uri = cluster.uri();
        let process =
            tokio::task::spawn_blocking(move || Binary::start_with(&["--upstream", &uri]));
        let process = process.await.unwrap();
        let driver = Driver::with_uri_str(format!("mongodb://{}/", process.address)).await;
        Self {
            process,
            db: driver.unwrap().database("shop"),
        }
    }

    fn carts(&self) -> Collection<Document> {
        self.db.collection("carts")
    }

    async fn run(&self, command: Document) -> Document {
        self.db.run_command(command).await.unwrap()
    }

    async fn status(&self) -> Document {
        let status = self.run(doc! {"serverStatus": 1}).await;
        status.get_document("upstream").unwrap().clone()
    }

    async fn fill(&self, document: Document) {
        let documents = (0..MANY).map(|id| {
            let mut document = document.clone();
            document.insert("_id", id);
            document
        });
        self.carts().insert_many(documents).await.unwrap();
    }

    async fn default_ttl(&self) -> Option<i32> {
        let list = doc! {"listCollections": 1, "filter": {"name": "carts"}};
        let listed = self.run(list).await;
        let rows = listed
            .get_document("cursor")
            .unwrap()
            .get_array("firstBatch");
        let carts = rows.unwrap()[0].as_document().unwrap().clone();
        carts
            .get_document("options")
            .unwrap()
            .get_i32("defaultTtl")
            .ok()
    }
}

/// Waits until something is so, at most a minute.
async fn eventually(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = monotonic() + Duration::from_secs(60);
    while !is_so().await {
        assert!(monotonic() < deadline, "not within a minute: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await; // real time: other processes work
    }
}

/// The settings of `carts`, as they are stored.
async fn record(direct: &Driver) -> Document {
    let settings = direct
        .database("sundown")
        .collection::<Document>("collections");
    let record = settings.find_one(doc! {"_id": "shop.carts"}).await.unwrap();
    record.unwrap_or_default()
}

async fn stored(direct: &Driver) -> u64 {
    let carts = direct.database("shop").collection::<Document>("carts");
    carts.count_documents(doc! {}).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_is_finished_by_another() {
    let Some(mut pair) = Pair::start("a_drain_is_finished_by_another").await else {
        return;
    };
    let direct = pair.direct().await;
    pair.first
        .run(doc! {"create": "carts", "defaultTtl": 1})
        .await;
    pair.first.fill(doc! {}).await;
    let count = async |front: &Front| front.carts().count_documents(doc! {}).await.unwrap();
    eventually("all have ended", async || count(&pair.second).await == 0).await;
    let longer = doc! {"collMod": "carts", "defaultTtl": 1_000_000};
    let db = pair.first.db.clone();
    let change = tokio::spawn(async move { db.run_command(longer).await });
    eventually("the drain has begun", async || {
        record(&direct).await.contains_key("former")
    })
    .await;
    pair.first.process.kill();
    assert!(stored(&direct).await > 0, "the drain was over too soon");
    assert!(change.await.unwrap().is_err());
    eventually("the other has finished", async || {
        assert_eq!(count(&pair.second).await, 0);
        !record(&direct).await.contains_key("next")
    })
    .await;
    assert_eq!(stored(&direct).await, 0);
    assert_eq!(pair.second.default_ttl().await, Some(1_000_000));
    assert_eq!(count(&pair.second).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_only_announced_is_withdrawn() {
    let Some(mut pair) = Pair::start("a_change_that_is_only_announced_is_withdrawn").await else {
        return;
    };
    let direct = pair.direct().await;
    pair.first
        .carts()
        .insert_one(doc! {"_id": 1})
        .await
        .unwrap();
    // The author waits for the other one, which does not answer.
    pair.second.process.signal("-STOP");
    let db = pair.first.db.clone();
    let announce = doc! {"collMod": "carts", "defaultTtl": 1};
    let change = tokio::spawn(async move { db.run_command(announce).await });
    eventually("it is announced", async || {
        record(&direct).await.contains_key("next")
    })
    .await;
    pair.first.process.kill();
    pair.second.process.signal("-CONT");
    assert!(change.await.unwrap().is_err());
    assert!(!record(&direct).await.contains_key("default"));
    eventually("the other has withdrawn it", async || {
        let count = pair.second.carts().count_documents(doc! {}).await;
        // While it renews its lease it may refuse, but it does not guess.
        assert!(count.is_err() || count.unwrap() == 1);
        !record(&direct).await.contains_key("next")
    })
    .await;
    assert_eq!(pair.second.default_ttl().await, None);
    // The rule can be changed again.
    pair.second
        .run(doc! {"collMod": "carts", "defaultTtl": 1_000})
        .await;
    assert_eq!(pair.second.default_ttl().await, Some(1_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sweep_is_continued_by_another() {
    let Some(pair) = Pair::start("a_sweep_is_continued_by_another").await else {
        return;
    };
    let direct = pair.direct().await;
    pair.first
        .run(doc! {"create": "carts", "defaultTtl": -1})
        .await;
    pair.first.fill(doc! {"ttl": 1}).await;
    let status = pair.first.status().await;
    let sweeps = status.get_document("sweeper").unwrap().get_bool("active");
    let (mut sweeper, other) = match sweeps.unwrap() {
        true => (pair.first, pair.second),
        false => (pair.second, pair.first),
    };
    eventually("the sweep has begun", async || {
        stored(&direct).await < MANY as u64
    })
    .await;
    sweeper.process.kill();
    assert!(stored(&direct).await > 0, "the sweep was over too soon");
    assert_eq!(other.carts().count_documents(doc! {}).await.unwrap(), 0);
    eventually("the other has swept the rest", async || {
        stored(&direct).await == 0
    })
    .await;
    eventually("it counts what it has swept", async || {
        let status = other.status().await;
        let sweeper = status.get_document("sweeper").unwrap();
        sweeper.get_i64("deletedDocuments").unwrap() > 0
    })
    .await;
}

/// The collection of that name, as the cluster knows it.
async fn identity(direct: &Driver) -> Bson {
    let list = doc! {"listCollections": 1, "filter": {"name": "carts"}};
    let listed = direct.database("shop").run_command(list).await.unwrap();
    let rows = listed.get_document("cursor").unwrap();
    let carts = rows.get_array("firstBatch").unwrap()[0].as_document();
    let info = carts.unwrap().get_document("info").unwrap();
    info.get("uuid").unwrap().clone()
}

/// The fail point at which the cluster waits in the middle of an `$out`.
const HELD: &str = "hangWhileBuildingDocumentSourceOutBatch";

/// Lets the cluster wait in the middle of an `$out`, or go on.
async fn hold_out(direct: &Driver, mode: &str) {
    let hold = doc! {"configureFailPoint": HELD, "mode": mode};
    direct.database("admin").run_command(hold).await.unwrap();
}

/// A collection with a rule, and one from which `$out` replaces it. Its documents say which one they are from.
async fn begin_out(pair: &Pair) -> tokio::task::JoinHandle<mongodb::error::Result<Document>> {
    let first = &pair.first;
    first
        .run(doc! {"create": "carts", "defaultTtl": 1_000})
        .await;
    first.carts().insert_one(doc! {"from": 1}).await.unwrap();
    let source = first.db.collection::<Document>("source");
    let rows = [doc! {"from": 2}, doc! {"from": 2, "ttl": 1}];
    source.insert_many(rows).await.unwrap();
    // The other one knows the old collection.
    assert_eq!(shown(&pair.second).await, [doc! {"from": 1}]);
    let out = doc! {"aggregate": "source", "pipeline": [{"$out": "carts"}], "cursor": {}};
    let db = first.db.clone();
    tokio::spawn(async move { db.run_command(out).await })
}

/// The same, and waits until the cluster is in the middle of it. That the Sundown has announced it is not enough: it sends the
/// command after that.
async fn begin_held_out(
    pair: &Pair,
    direct: &Driver,
) -> tokio::task::JoinHandle<mongodb::error::Result<Document>> {
    hold_out(direct, "alwaysOn").await;
    let out = begin_out(pair).await;
    let held = doc! {"waitForFailPoint": HELD, "timesEntered": 1, "maxTimeMS": 60_000};
    direct.database("admin").run_command(held).await.unwrap();
    assert!(record(direct).await.contains_key("arriving"));
    out
}

/// What a client sees of the documents.
async fn shown(front: &Front) -> Vec<Document> {
    let carts = front.carts();
    let rows = carts.find(doc! {}).projection(doc! {"_id": 0});
    let mut rows: Vec<Document> = rows.await.unwrap().try_collect().await.unwrap();
    for row in &mut rows {
        row.remove("ttl");
    }
    rows.dedup();
    rows
}

/// Waits until the one that is left has ended the change, and checks that the rule holds for the collection that is there now.
async fn check_rule(pair: &Pair, direct: &Driver, from: i32) {
    eventually("the change is over", async || {
        // Whatever is there, nothing hidden is seen.
        let rows = shown(&pair.second).await;
        let named = |row: &Document| row.keys().all(|name| name == "from");
        assert!(rows.iter().all(named), "{rows:?}");
        let record = record(direct).await;
        !record.contains_key("next") && record.get("uuid") == Some(&identity(direct).await)
    })
    .await;
    assert_eq!(pair.second.default_ttl().await, Some(1_000));
    let carts = pair.second.carts();
    carts.insert_one(doc! {"from": 3, "ttl": 1}).await.unwrap();
    eventually("documents end by the rule", async || {
        shown(&pair.second).await == [doc! {"from": from}]
    })
    .await;
    let stored = direct.database("shop").collection::<Document>("carts");
    let unstamped = stored.count_documents(doc! {"_sundown": {"$exists": false}});
    assert_eq!(unstamped.await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_out_that_dies_with_its_sundown_leaves_the_rule() {
    let Some(mut pair) = Pair::start("an_out_that_dies_with_its_sundown").await else {
        return;
    };
    let direct = pair.direct().await;
    let out = begin_held_out(&pair, &direct).await;
    pair.first.process.kill();
    assert!(out.await.unwrap().is_err());
    // The cluster notices that nobody waits for the reply.
    check_rule(&pair, &direct, 1).await;
    hold_out(&direct, "off").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_out_whose_reply_is_lost_hands_the_rule_over() {
    let Some(mut pair) = Pair::start("an_out_whose_reply_is_lost").await else {
        return;
    };
    let direct = pair.direct().await;
    let out = begin_held_out(&pair, &direct).await;
    let old = identity(&direct).await;
    pair.first.process.signal("-STOP");
    hold_out(&direct, "off").await;
    eventually("the collection is replaced", async || {
        identity(&direct).await != old
    })
    .await;
    pair.first.process.kill();
    assert!(out.await.unwrap().is_err());
    check_rule(&pair, &direct, 2).await;
}

/// The cluster does not notice that the Sundown is gone, as when a machine loses its power, and goes on with the `$out` when
/// another Sundown has given up waiting for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_out_that_outlives_its_sundown_hands_the_rule_over() {
    let Some(mut pair) = Pair::start("an_out_that_outlives_its_sundown").await else {
        return;
    };
    let direct = pair.direct().await;
    let out = begin_held_out(&pair, &direct).await;
    let old = identity(&direct).await;
    pair.first.process.signal("-STOP");
    eventually("the other has given it up", async || {
        assert_eq!(shown(&pair.second).await, [doc! {"from": 1}]);
        !record(&direct).await.contains_key("next")
    })
    .await;
    hold_out(&direct, "off").await;
    eventually("the collection is replaced", async || {
        identity(&direct).await != old
    })
    .await;
    check_rule(&pair, &direct, 2).await;
    pair.first.process.kill();
    assert!(out.await.unwrap().is_err());
}
