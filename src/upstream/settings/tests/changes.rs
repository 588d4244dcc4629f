//! The protocol by which rules change.

use super::*;
use crate::ttl::DefaultTtl;
use crate::upstream::settings::record::SettingRecord;

impl TestCluster {
    /// Changes the default by hand, as a door does.
    async fn set(&self, settings: &RuleSettings, default: DefaultTtl) {
        let mut change = settings.0.begin(&self.database, "c").await.unwrap();
        let new = SettingRecord {
            default,
            ..change.setting().clone()
        };
        change.install(new, Vec::new()).await.unwrap();
        change.close().await.unwrap();
    }

    async fn count(&self) -> i32 {
        let count = self.run(doc! {"count": "c", "query": {}}).await;
        count.get_i32("n").unwrap()
    }
}

#[tokio::test]
async fn a_default_is_known_at_once_and_to_others_within_a_lease() {
    let cluster = TestCluster::start().await;
    let db = &cluster.database;
    cluster.run(doc! {"create": "c"}).await;
    let (one, other) = (cluster.settings(SHORT), cluster.settings(SHORT));
    assert!(one.rules(db, "c").await.unwrap().is_none());
    cluster.set(&one, DefaultTtl::Seconds(5)).await;
    let rules = one.rules(db, "c").await.unwrap();
    assert_eq!(rules.default, DefaultTtl::Seconds(5));
    assert!(rules.stamped);
    assert_eq!(rules.since, cluster.clock.now());
    assert_eq!(one.cached(db, "c"), Some(rules.clone()));
    assert_eq!(other.rules(db, "c").await.unwrap(), rules);
}

#[tokio::test]
async fn what_has_ended_does_not_come_back() {
    let cluster = TestCluster::start().await;
    let start = cluster.clock.now().0;
    let date = |seconds: i64| bson::DateTime::from_millis(start + seconds * 1_000);
    let documents = vec![
        doc! {"_id": "unstamped"},
        doc! {"_id": "later", "_sundown": date(3)},
        doc! {"_id": "own", "ttl": 2, "_sundown": date(0)},
        doc! {"_id": "own later", "ttl": 20.0, "_sundown": date(0)},
        doc! {"_id": "never", "ttl": -1, "_sundown": date(0)},
        doc! {"_id": "odd", "ttl": ["2"], "_sundown": date(0)},
        doc! {"_id": "odder", "ttl": 2.5, "_sundown": date(3)},
    ];
    cluster.run(doc! {"create": "c"}).await;
    let settings = cluster.settings(LONG);
    cluster.set(&settings, DefaultTtl::Seconds(5)).await;
    cluster
        .run(doc! {"insert": "c", "documents": documents})
        .await;
    cluster.clock.advance(5_000);
    assert_eq!(cluster.count().await, 7);
    cluster.set(&settings, DefaultTtl::Seconds(2)).await;
    assert_eq!(cluster.count().await, 7, "a shorter one deletes nothing");
    cluster.set(&settings, DefaultTtl::Seconds(3)).await;
    let left = cluster.run(doc! {"distinct": "c", "key": "_id"}).await;
    let left: Vec<_> = left.get_array("values").unwrap().iter().collect();
    assert_eq!(left.len(), 2, "{left:?}");
    cluster.clock.advance(15_000);
    cluster.set(&settings, DefaultTtl::Off).await;
    assert_eq!(cluster.count().await, 1, "the one that never ends");
}

#[tokio::test]
async fn an_abandoned_change_is_settled_by_the_next_one() {
    let cluster = TestCluster::start().await;
    cluster.run(doc! {"create": "c"}).await;
    let (one, other) = (cluster.settings(SHORT), cluster.settings(SHORT));
    let db = &cluster.database;
    drop(one.0.begin(db, "c").await.unwrap());
    cluster.set(&one, DefaultTtl::Never).await;
    let change = one.0.begin(db, "c").await.unwrap();
    // The author dies: it is not among the members any more.
    std::mem::forget(change);
    one.leave().await;
    cluster.set(&other, DefaultTtl::Seconds(9)).await;
    let rules = other.rules(db, "c").await.unwrap();
    assert_eq!(rules.default, DefaultTtl::Seconds(9));
}

#[tokio::test]
async fn settings_of_a_replaced_collection_are_void() {
    let cluster = TestCluster::start().await;
    cluster.run(doc! {"create": "c"}).await;
    let settings = cluster.settings(LONG);
    cluster.set(&settings, DefaultTtl::Seconds(5)).await;
    cluster.run(doc! {"drop": "c"}).await;
    cluster.run(doc! {"create": "c"}).await;
    let other = cluster.settings(LONG);
    assert!(other.rules(&cluster.database, "c").await.unwrap().is_none());
}
