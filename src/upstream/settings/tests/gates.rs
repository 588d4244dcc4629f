//! Writes that are under way when a collection is dropped or renamed.

use std::sync::Arc;

use super::*;
use crate::ttl::DefaultTtl;
use crate::upstream::rewrite::NamespacePair;
use crate::upstream::settings::ddl;
use crate::upstream::settings::record::SettingRecord;

/// A cluster with two Sundowns that often hear from each other, and a collection with a TTL.
async fn two_fronts() -> (Arc<TestCluster>, [RuleSettings; 2], NamespacePair) {
    let cluster = Arc::new(TestCluster::start().await);
    cluster.run(doc! {"create": "c"}).await;
    let options = SettingsOptions {
        lease: LONG,
        renewal: Duration::from_millis(50),
        patience: LONG,
    };
    let start = || RuleSettings::start(cluster.client.clone(), cluster.clock.clone(), &options);
    let fronts = [start(), start()];
    let mut change = fronts[0].0.begin(&cluster.database, "c").await.unwrap();
    let new = SettingRecord {
        default: DefaultTtl::Seconds(9),
        ..change.setting().clone()
    };
    change.install(new, Vec::new()).await.unwrap();
    change.close().await.unwrap();
    let name = (cluster.database.as_str().into(), "c".into());
    (cluster, fronts, name)
}

fn request(mut command: Document, database: &str) -> Request {
    command.insert("$db", database);
    Request::new(command.to_vec().unwrap())
}

/// Waits until a Sundown has said that it knows the latest announcement, by which the gate is closed.
async fn knows_the_closed_gate(front: &RuleSettings, namespace: &str) {
    loop {
        let (known, epoch) = front.0.known(namespace);
        let state = front.0.cluster.state().await.unwrap();
        let said = state.members[&front.0.id].seen;
        if known.is_some_and(|known| known.is_closed()) && said >= epoch.version {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_and_a_rename_wait_for_writes_through_any_sundown() {
    for renames in [true, false] {
        for writer in [0, 1] {
            let (cluster, fronts, name) = two_fronts().await;
            let namespace = format!("{}.c", cluster.database);
            let names = [name];
            let write = fronts[writer].begin_write(&names, true).await.unwrap();
            let (author, asked) = (fronts[0].clone(), Arc::clone(&cluster));
            let changing = tokio::spawn(async move {
                let database = &asked.database;
                let mut ask = &*asked;
                let done = match renames {
                    true => {
                        let (from, to) = (format!("{database}.c"), format!("{database}.d"));
                        let rename = request(doc! {"renameCollection": from, "to": to}, "admin");
                        ddl::rename(&author, &mut ask, &rename).await
                    }
                    false => {
                        let drop = request(doc! {"drop": "c"}, database);
                        ddl::drop_collection(&author, &mut ask, &drop).await
                    }
                };
                done.unwrap()
            });
            knows_the_closed_gate(&fronts[writer], &namespace).await;
            // One that comes now waits, and one that has locks does not.
            let late = fronts[writer].clone();
            let names_of_late = names.clone();
            let late = tokio::spawn(async move { late.begin_write(&names_of_late, true).await });
            drop(fronts[writer].begin_write(&names, false).await.unwrap());
            assert!(!changing.is_finished() && !late.is_finished());
            let rules = fronts[writer].rules(&cluster.database, "c").await.unwrap();
            assert!(rules.gate.is_closed() && rules.stamped);
            drop(write);
            let reply = Document::from_reader(&changing.await.unwrap()[..]).unwrap();
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
            late.await.unwrap().unwrap();
            let rules = fronts[writer].rules(&cluster.database, "c").await.unwrap();
            assert!(!rules.gate.is_closed() && !rules.stamped);
        }
    }
}
