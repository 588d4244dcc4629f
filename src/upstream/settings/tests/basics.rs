//! The copy of the settings, its lease and the time.

use super::*;

#[tokio::test]
async fn a_collection_without_settings_has_no_rules() {
    let cluster = TestCluster::start().await;
    let settings = cluster.settings(LONG);
    let db = &cluster.database;
    assert!(settings.cached(db, "c").is_none());
    let rules = settings.rules(db, "c").await.unwrap();
    assert!(rules.is_none());
    assert!(settings.cached(db, "c").unwrap().is_none());
    assert!(settings.cached(db, "other").is_none());
    assert!(!settings.has_settings(db).await.unwrap());
    assert_eq!(settings.now(), cluster.clock.now());
}

#[tokio::test]
async fn a_change_that_sets_nothing_leaves_no_settings() {
    let cluster = TestCluster::start().await;
    cluster.run(doc! {"create": "c"}).await;
    let settings = cluster.settings(LONG);
    let db = &cluster.database;
    let mut change = settings.0.begin(db, "c").await.unwrap();
    assert!(settings.has_settings(db).await.unwrap());
    assert!(settings.has_settings_anywhere().await.unwrap());
    change.end().await.unwrap();
    assert!(!settings.has_settings(db).await.unwrap());
    assert!(!settings.has_settings_anywhere().await.unwrap());
}

#[tokio::test]
async fn ttl_indexes_on_dates_are_rules() {
    let cluster = TestCluster::start().await;
    let settings = cluster.settings(LONG);
    let index = doc! {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 5};
    let create = doc! {"createIndexes": "c", "indexes": [index]};
    cluster.run(create).await;
    let rules = settings.rules(&cluster.database, "c").await.unwrap();
    assert_eq!(rules.dates.len(), 1);
    assert!(!rules.stamped);
    assert_eq!(settings.cached(&cluster.database, "c"), Some(rules));
}

#[tokio::test]
async fn without_the_cluster_rules_are_refused() {
    let options = mongodb::options::ClientOptions::parse("mongodb://127.0.0.1:1/");
    let mut options = options.await.unwrap();
    options.server_selection_timeout = Some(Duration::from_millis(50));
    let nowhere = Client::with_options(options).unwrap();
    let settings = RuleSettings::start(nowhere, Clock::system(), &SettingsOptions::default());
    let error = settings.rules("db", "c").await.unwrap_err();
    assert_eq!(error.code().number(), 6, "{error}");
}
