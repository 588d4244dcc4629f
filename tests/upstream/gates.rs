//! Writes that are under way when a collection is dropped or renamed.

use std::time::Duration;

use bson::{Document, doc};
use mongodb::{Client, Database};
use sundown::Sundown;
use sundown::clock::Clock;

use crate::cluster::{Cluster, Kind, driver, in_front_of};
use crate::ttl::rows;

/// A write takes this long on its way to the cluster.
const DELAY: i32 = 2_500;

/// A cluster with two Sundowns. The next insert that one of them sends waits in the cluster before it runs.
struct Delayed {
    cluster: Client,
    _running: (Cluster, [Sundown; 2]),
    fronts: [Database; 2],
}

impl Delayed {
    async fn start(test: &str) -> Option<Self> {
        let running = Cluster::start(Kind::Set(1), test).await?;
        let (first, one) = front(&running).await;
        let (second, other) = front(&running).await;
        Some(Self {
            cluster: Client::with_uri_str(running.uri()).await.unwrap(),
            _running: (running, [first, second]),
            fronts: [one, other],
        })
    }

    async fn run(&self, front: usize, command: Document) -> Document {
        let shown = command.to_string();
        let reply = self.fronts[front].run_command(command).await;
        reply.unwrap_or_else(|problem| panic!("{shown}: {problem}"))
    }

    /// Runs a command through the first Sundown while an insert through the second one is on its way.
    async fn during_an_insert(&self, into: &str, database: &str, command: Document) {
        let delay = doc! {
            "configureFailPoint": "failCommand",
            "mode": {"times": 1},
            "data": {"failCommands": ["insert"], "blockConnection": true, "blockTimeMS": DELAY, "appName": "sundown"},
        };
        let admin = self.cluster.database("admin");
        let before = admin.run_command(delay).await.unwrap();
        let count = before.get_i32("count").map_or(0, i64::from);
        let insert = doc! {"insert": into, "documents": [{"_id": "late"}]};
        let front = self.fronts[1].clone();
        let late = tokio::spawn(async move { front.run_command(insert).await });
        // It has arrived.
        let wait = doc! {"waitForFailPoint": "failCommand", "timesEntered": count + 1, "maxTimeMS": 60_000};
        admin.run_command(wait).await.unwrap();
        let client = self.fronts[0].client();
        client
            .database(database)
            .run_command(command)
            .await
            .unwrap();
        late.await.unwrap().unwrap();
    }

    /// Returns what clients see, and whether each stored document has a stamp.
    async fn seen(&self, collection: &str) -> (Vec<Document>, Vec<bool>) {
        let shop = self.cluster.database("shop");
        let stored = rows(shop.collection::<Document>(collection).find(doc! {}).await).await;
        let seen = self.fronts[0].collection::<Document>(collection);
        let seen = rows(seen.find(doc! {}).await).await;
        let stamped = stored.iter().map(|row| row.contains_key("_sundown"));
        (seen, stamped.collect())
    }
}

/// Starts a Sundown that often hears from the other, so that a change takes less time than the write.
async fn front(cluster: &Cluster) -> (Sundown, Database) {
    let mut config = in_front_of(&cluster.uri());
    config.upstream.as_mut().unwrap().renewal = Duration::from_millis(50);
    let server = Sundown::start(config, Clock::system()).await.unwrap();
    let client = driver(&server, "").await;
    (server, client.database("shop"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rename_waits_for_writes_that_are_under_way() {
    let test = "a_rename_waits_for_writes_that_are_under_way";
    let Some(front) = Delayed::start(test).await else {
        return;
    };
    // From a collection with a TTL to the name of one without, and the other way round.
    for (at, ttls) in [[true, false], [false, true]].into_iter().enumerate() {
        let names = [format!("from{at}"), format!("to{at}")];
        for (name, has_ttl) in names.iter().zip(ttls) {
            let mut create = doc! {"create": name};
            if has_ttl {
                create.insert("defaultTtl", 1_000);
            }
            front.run(0, create).await;
            front
                .run(1, doc! {"insert": name, "documents": [{"_id": name}]})
                .await;
        }
        let [from, to] = &names;
        let rename = doc! {
            "renameCollection": format!("shop.{from}"), "to": format!("shop.{to}"), "dropTarget": true,
        };
        front.during_an_insert(to, "admin", rename).await;
        let (seen, stamped) = front.seen(to).await;
        // The write came first, so the collection that it reached is gone.
        assert_eq!(seen, [doc! {"_id": from}]);
        assert_eq!(stamped, [ttls[0]]);
        front
            .run(1, doc! {"insert": to, "documents": [{"_id": "next"}]})
            .await;
        let (seen, stamped) = front.seen(to).await;
        assert_eq!(seen, [doc! {"_id": from}, doc! {"_id": "next"}]);
        assert_eq!(stamped, [ttls[0]; 2]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_waits_for_writes_that_are_under_way() {
    let test = "a_drop_waits_for_writes_that_are_under_way";
    let Some(front) = Delayed::start(test).await else {
        return;
    };
    for drop in [doc! {"drop": "carts"}, doc! {"dropDatabase": 1}] {
        front
            .run(0, doc! {"create": "carts", "defaultTtl": 1_000})
            .await;
        front
            .run(1, doc! {"insert": "carts", "documents": [{"_id": 1}]})
            .await;
        front.during_an_insert("carts", "shop", drop).await;
        assert_eq!(front.seen("carts").await, (Vec::new(), Vec::new()));
        // A collection that comes by itself has no TTL.
        front
            .run(1, doc! {"insert": "carts", "documents": [{"_id": 2}]})
            .await;
        let (seen, stamped) = front.seen("carts").await;
        assert_eq!((seen, stamped), (vec![doc! {"_id": 2}], vec![false]));
        front.run(1, doc! {"drop": "carts"}).await;
    }
}
