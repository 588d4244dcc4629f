//! Several Sundowns in front of one cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use super::*;
use crate::ttl::DefaultTtl;
use crate::upstream::Term;
use crate::upstream::settings::record::SettingRecord;
use crate::value::DocBuf;

/// The default only grows, so every order of replies can be checked: whoever begins after a value was seen sees at least that
/// value, and nobody sees a value before its change has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_reply_contradicts_another_while_rules_change() {
    let cluster = Arc::new(TestCluster::start().await);
    cluster.run(doc! {"create": "c"}).await;
    let lease = Duration::from_millis(600);
    let fronts: Vec<_> = (0..3).map(|_| cluster.settings(lease)).collect();
    let (begun, seen) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicI32::new(0)));
    let over = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for front in &fronts {
        for _ in 0..2 {
            let (front, cluster) = (front.clone(), Arc::clone(&cluster));
            let (begun, seen, over) = (begun.clone(), seen.clone(), over.clone());
            readers.push(tokio::spawn(async move {
                let (mut reads, mut quick) = (0, 0);
                while !over.load(Ordering::SeqCst) {
                    let least = seen.load(Ordering::SeqCst);
                    quick += i32::from(front.cached(&cluster.database, "c").is_some());
                    let rules = front.rules(&cluster.database, "c").await.unwrap();
                    let value = rules.default.seconds().unwrap_or(0);
                    let most = begun.load(Ordering::SeqCst);
                    assert!((least..=most).contains(&value), "{least} {value} {most}");
                    seen.fetch_max(value, Ordering::SeqCst);
                    reads += 1;
                    tokio::task::yield_now().await;
                }
                (reads, quick)
            }));
        }
    }
    for value in 1..=9 {
        let front = &fronts[value as usize % fronts.len()];
        begun.store(value, Ordering::SeqCst);
        let mut change = front.0.begin(&cluster.database, "c").await.unwrap();
        let new = SettingRecord {
            default: DefaultTtl::Seconds(value),
            ..change.setting().clone()
        };
        change.install(new, Vec::new()).await.unwrap();
        change.close().await.unwrap();
        seen.fetch_max(value, Ordering::SeqCst);
    }
    over.store(true, Ordering::SeqCst);
    for reader in readers {
        let (reads, quick) = reader.await.unwrap();
        assert!(reads > 9 && quick > 0, "{reads} {quick}");
    }
}

/// Changes through several Sundowns at once are made one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_do_not_lose_each_other() {
    let cluster = Arc::new(TestCluster::start().await);
    cluster.run(doc! {"create": "c"}).await;
    let fronts: Vec<_> = (0..2)
        .map(|_| cluster.settings(Duration::from_millis(600)))
        .collect();
    let mut running = Vec::new();
    for nth in 0..6_usize {
        let (front, cluster) = (fronts[nth % 2].clone(), Arc::clone(&cluster));
        running.push(tokio::spawn(async move {
            let mut change = front.0.begin(&cluster.database, "c").await.unwrap();
            let old = change.setting().default.seconds().unwrap_or(0);
            let new = SettingRecord {
                default: DefaultTtl::Seconds(old + 1),
                ..change.setting().clone()
            };
            change.install(new, Vec::new()).await.unwrap();
            change.close().await.unwrap();
        }));
    }
    for change in running {
        change.await.unwrap();
    }
    for front in &fronts {
        let rules = front.rules(&cluster.database, "c").await.unwrap();
        assert_eq!(rules.default, DefaultTtl::Seconds(6));
    }
}

/// A Sundown without a lease may have missed that a name stood for another collection meanwhile.
#[tokio::test]
async fn a_lost_lease_forgets_the_last_writes() {
    let cluster = TestCluster::start().await;
    cluster.run(doc! {"create": "c"}).await;
    let lease = Duration::from_millis(600);
    let settings = cluster.settings(lease);
    let mut change = settings.0.begin(&cluster.database, "c").await.unwrap();
    let new = SettingRecord {
        default: DefaultTtl::Seconds(1_000),
        ..change.setting().clone()
    };
    change.install(new, Vec::new()).await.unwrap();
    change.close().await.unwrap();
    let id = DocBuf::from(&doc! {"_id": 1});
    for lost in [false, true] {
        let rules = settings.rules(&cluster.database, "c").await.unwrap();
        let (id, term) = (id.as_doc().get("_id"), Term(1));
        rules.writes.as_ref().unwrap().saw(id, Millis(10), term);
        let turn = settings.0.turn.lock().await;
        while lost && settings.0.lease.holds(settings.0.lease.now()) {
            tokio::task::yield_now().await;
        }
        // Others have announced something, and it is over.
        let news = doc! {
            "update": "state", "updates": [{"q": {}, "u": {"$inc": {"version": 1_i64}}}],
        };
        let database = cluster.client.database("sundown");
        database.run_command(news).await.unwrap();
        settings.0.renew(&turn).await.unwrap();
        drop(turn);
        let rules = settings.rules(&cluster.database, "c").await.unwrap();
        let writes = rules.writes.as_ref().unwrap();
        assert_eq!(writes.is_written_after(id, Millis(9), term), !lost);
    }
}
