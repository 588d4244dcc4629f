//! The primary is killed, steps down, or the whole cluster goes away: under load, with a driver that retries writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::{Client as Driver, Collection};
use sundown::Sundown;
use sundown::clock::monotonic;
use tokio::task::JoinHandle;

use crate::cluster::{Cluster, Kind, driver};

const WRITERS: i32 = 4;

/// The writers' documents live this many seconds after their last write, and the one that shows that nothing ended returns
/// lives one second.
const LONG: i32 = 1_000;

/// A client that counts: it adds one to its own document, and reads it back. Only its own acknowledged writes change the
/// document, so every read tells whether one was lost or applied twice. Another client looks for a document that has ended.
/// The collection has a TTL, so that every command is rewritten.
struct Writers {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicI32>,
    tasks: Vec<JoinHandle<i32>>,
    looker: JoinHandle<()>,
}

/// Looks for a document that ends after a second: from then on it is gone, whoever is the primary.
async fn look_for_ended(counters: Collection<Document>, stop: Arc<AtomicBool>) {
    let ended = doc! {"_id": "ended"};
    let short = doc! {"_id": "ended", "ttl": 1};
    counters.insert_one(short).await.unwrap();
    let mut was_gone = false;
    while !stop.load(Ordering::Relaxed) {
        let is_gone = counters.find_one(ended.clone()).await.unwrap().is_none();
        assert!(is_gone || !was_gone, "an ended document returns");
        was_gone = is_gone;
        tokio::time::sleep(Duration::from_millis(5)).await; // real time: so does the cluster
    }
    assert!(was_gone);
}

impl Writers {
    async fn start(client: &Driver) -> Self {
        let shop = client.database("shop");
        let create = doc! {"create": "counters", "defaultTtl": LONG};
        // Nobody repeats it for us, and a set that has just started may elect once more.
        let deadline = monotonic() + Duration::from_secs(60);
        while let Err(problem) = shop.run_command(create.clone()).await {
            assert!(monotonic() < deadline, "{problem}");
            tokio::time::sleep(Duration::from_millis(100)).await; // real time: other processes elect
        }
        let stop = Arc::new(AtomicBool::new(false));
        let done = Arc::new(AtomicI32::new(0));
        let start = |id: i32| {
            let counters: Collection<Document> = client.database("shop").collection("counters");
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            tokio::spawn(async move {
                counters.insert_one(doc! {"_id": id, "n": 0}).await.unwrap();
                let mut acknowledged = 0;
                while !stop.load(Ordering::Relaxed) {
                    let by_one = doc! {"$inc": {"n": 1}};
                    let updated = counters.update_one(doc! {"_id": id}, by_one).await;
                    assert_eq!(updated.unwrap().modified_count, 1);
                    acknowledged += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                    let found = counters.find_one(doc! {"_id": id}).await.unwrap().unwrap();
                    assert_eq!(found.get_i32("n").ok(), Some(acknowledged));
                }
                acknowledged
            })
        };
        let counters = client.database("shop").collection("counters");
        Self {
            tasks: (0..WRITERS).map(start).collect(),
            looker: tokio::spawn(look_for_ended(counters, Arc::clone(&stop))),
            stop: Arc::clone(&stop),
            done: Arc::clone(&done),
        }
    }

    /// Waits until this many more writes were acknowledged.
    async fn more(&self, count: i32) {
        let aim = self.done.load(Ordering::Relaxed) + count;
        while self.done.load(Ordering::Relaxed) < aim {
            let failed = self.tasks.iter().any(JoinHandle::is_finished);
            assert!(!failed && !self.looker.is_finished(), "a client failed");
            tokio::time::sleep(Duration::from_millis(10)).await; // real time: other processes elect
        }
    }

    async fn finish(self, client: &Driver) {
        self.stop.store(true, Ordering::Relaxed);
        self.looker.await.unwrap();
        let counters: Collection<Document> = client.database("shop").collection("counters");
        for (id, task) in self.tasks.into_iter().enumerate() {
            let acknowledged = task.await.unwrap();
            let found = counters.find_one(doc! {"_id": id as i32}).await.unwrap();
            assert_eq!(found.unwrap().get_i32("n").ok(), Some(acknowledged));
        }
    }
}

async fn node(server: &Sundown) -> String {
    let client = driver(server, "").await;
    let admin = client.database("admin");
    let status = admin.run_command(doc! {"serverStatus": 1}).await.unwrap();
    let upstream = status.get_document("upstream").unwrap();
    upstream.get_str("node").unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_is_killed_and_drivers_see_no_error() {
    let test = "the_primary_is_killed_and_drivers_see_no_error";
    let Some(mut cluster) = Cluster::start(Kind::Set(3), test).await else {
        return;
    };
    let server = cluster.sundown().await;
    let client = driver(&server, "w=majority&retryWrites=true").await;
    let writers = Writers::start(&client).await;
    writers.more(100).await;
    let primary = node(&server).await;
    cluster.mongod().kill(&primary);
    writers.more(200).await;
    assert_ne!(node(&server).await, primary);
    writers.finish(&client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_primary_steps_down_and_drivers_see_no_error() {
    let test = "the_primary_steps_down_and_drivers_see_no_error";
    let Some(cluster) = Cluster::start(Kind::Set(3), test).await else {
        return;
    };
    let server = cluster.sundown().await;
    let client = driver(&server, "w=majority&retryWrites=true").await;
    let writers = Writers::start(&client).await;
    writers.more(100).await;
    let primary = node(&server).await;
    let direct = format!("mongodb://{primary}/?directConnection=true");
    let direct = Driver::with_uri_str(direct).await.unwrap();
    let step_down = doc! {"replSetStepDown": 60, "force": true};
    direct
        .database("admin")
        .run_command(step_down)
        .await
        .unwrap();
    writers.more(200).await;
    assert_ne!(node(&server).await, primary);
    writers.finish(&client).await;
}

/// An index is built for it, and a member that is down cannot build one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_default_is_switched_on_while_a_member_is_down() {
    let test = "a_default_is_switched_on_while_a_member_is_down";
    let Some(mut cluster) = Cluster::start(Kind::Set(3), test).await else {
        return;
    };
    let server = cluster.sundown().await;
    let client = driver(&server, "w=majority&retryWrites=true").await;
    let shop = client.database("shop");
    let carts: Collection<Document> = shop.collection("carts");
    carts.insert_one(doc! {"_id": 0}).await.unwrap();
    let primary = node(&server).await;
    let members = cluster.mongod().members.iter();
    let mut members = members.map(|member| member.address.to_string());
    let other = members.find(|member| *member != primary).unwrap();
    cluster.mongod().kill(&other);
    for default in [-1, 1_000] {
        let change = shop.run_command(doc! {"collMod": "carts", "defaultTtl": default});
        let changed = tokio::time::timeout(Duration::from_secs(60), change).await;
        changed.expect("it waits for the member").unwrap();
    }
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 1);
}

/// Statements of a transaction cannot be repeated on a new primary. The driver begins the transaction again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_that_loses_its_primary_is_repeated_by_the_driver() {
    let test = "a_transaction_that_loses_its_primary_is_repeated_by_the_driver";
    let Some(mut cluster) = Cluster::start(Kind::Set(3), test).await else {
        return;
    };
    let server = cluster.sundown().await;
    let client = driver(&server, "w=majority&retryWrites=true").await;
    let carts: Collection<Document> = client.database("shop").collection("carts");
    carts.insert_one(doc! {"_id": 0}).await.unwrap();
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let insert = carts.insert_one(doc! {"_id": 1}).session(&mut session);
    insert.await.unwrap();
    let primary = node(&server).await;
    cluster.mongod().kill(&primary);
    let insert = carts.insert_one(doc! {"_id": 2}).session(&mut session);
    let lost = insert.await.unwrap_err();
    assert!(lost.contains_label("TransientTransactionError"), "{lost}");
    let _ = session.abort_transaction().await;
    session.start_transaction().await.unwrap();
    for id in [1, 2] {
        let insert = carts.insert_one(doc! {"_id": id}).session(&mut session);
        insert.await.unwrap();
    }
    session.commit_transaction().await.unwrap();
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_goes_away_gives_errors_in_time_and_is_found_again() {
    let test = "a_cluster_that_goes_away_gives_errors_in_time";
    let Some(mut cluster) = Cluster::start(Kind::Set(1), test).await else {
        return;
    };
    let uri = format!("{}&serverSelectionTimeoutMS=500", cluster.uri());
    let server = Sundown::start(crate::cluster::in_front_of(&uri), sundown::Clock::system()).await;
    let server = server.unwrap();
    let client = driver(&server, "retryReads=false&retryWrites=false").await;
    let carts: Collection<Document> = client.database("shop").collection("carts");
    carts.insert_one(doc! {"_id": 0}).await.unwrap();
    let only = node(&server).await;
    cluster.mongod().kill(&only);
    for _ in 0..3 {
        let start = monotonic();
        let lost = carts.insert_one(doc! {"_id": 1}).await.unwrap_err();
        let lost = lost.to_string();
        assert!(monotonic() - start < Duration::from_secs(10), "{lost}");
        assert!(
            lost.contains("upstream cluster") || lost.contains("connecting"),
            "{lost}"
        );
        assert!(carts.find_one(doc! {}).await.is_err());
    }
    // What it announced before is still announced, so that drivers do not give up on it.
    let admin = client.database("admin");
    let hello = admin.run_command(doc! {"hello": 1});
    assert_eq!(hello.await.unwrap().get_str("msg").ok(), Some("isdbgrid"));

    cluster.mongod().start_again(&only);
    let deadline = monotonic() + Duration::from_secs(60);
    while carts.insert_one(doc! {"_id": 1}).await.is_err() {
        assert!(monotonic() < deadline, "it is not found again");
        tokio::time::sleep(Duration::from_millis(20)).await; // real time: another process starts
    }
    assert_eq!(carts.count_documents(doc! {}).await.unwrap(), 2);
}
