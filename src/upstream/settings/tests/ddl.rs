//! The commands that set and show DefaultTTL.

use bson::Bson;

use super::*;
use crate::upstream::settings::ddl;

/// One Sundown and its cluster.
struct Front {
    cluster: TestCluster,
    settings: RuleSettings,
}

impl Front {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        let settings = cluster.settings(LONG);
        Self { cluster, settings }
    }

    /// Sends a command through the function that runs it. Returns the reply, also if it is an error.
    async fn send(&self, mut command: Document) -> Document {
        command.insert("$db", &self.cluster.database);
        let request = Request::new(command.to_vec().unwrap());
        let (settings, ask) = (&self.settings, &mut &self.cluster);
        let name = command.keys().next().unwrap().as_str();
        let reply = match name {
            "create" => ddl::create(settings, ask, &request).await,
            "collMod" => ddl::coll_mod(settings, ask, &request).await,
            "customAction" => ddl::custom_action(settings, ask, &request).await,
            "createIndexes" => ddl::create_indexes(settings, ask, &request).await,
            "dropIndexes" => ddl::drop_indexes(settings, ask, &request).await,
            "listIndexes" => ddl::list_indexes(settings, ask, &request).await,
            "listCollections" => ddl::list_collections(settings, ask, &request).await,
            "drop" => ddl::drop_collection(settings, ask, &request).await,
            "dropDatabase" => ddl::drop_database(settings, ask, &request).await,
            other => panic!("{other}"),
        };
        match reply {
            Ok(reply) => Document::from_reader(&reply[..]).unwrap(),
            Err(Lost::Error(error)) => {
                doc! {"ok": 0.0, "code": error.code().number(), "errmsg": error.message()}
            }
            Err(lost) => panic!("{lost:?}"),
        }
    }

    async fn ok(&self, command: Document) -> Document {
        let reply = self.send(command.clone()).await;
        assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{command}: {reply}");
        reply
    }

    async fn refused(&self, command: Document) -> (i32, String) {
        let reply = self.send(command.clone()).await;
        assert_eq!(reply.get_f64("ok").unwrap(), 0.0, "{command}: {reply}");
        let message = reply.get_str("errmsg").unwrap().to_owned();
        (reply.get_i32("code").unwrap(), message)
    }

    async fn rows(&self, command: Document) -> Vec<Document> {
        let reply = self.ok(command).await;
        let rows = reply
            .get_document("cursor")
            .unwrap()
            .get_array("firstBatch");
        let rows = rows.unwrap().iter();
        rows.map(|row| row.as_document().unwrap().clone()).collect()
    }

    /// Returns what all commands show: the default of the rules, of listCollections and of listIndexes, with the indexes' names.
    async fn shown(&self) -> (Option<i32>, Option<i32>, Option<i32>, Vec<String>) {
        let rules = self.settings.rules(&self.cluster.database, "c");
        let default = rules.await.unwrap().default.seconds();
        let collections = self
            .rows(doc! {"listCollections": 1, "filter": {"name": "c"}})
            .await;
        let options = collections[0].get_document("options").unwrap();
        let option = options.get_i32("defaultTtl").ok();
        let indexes = self.rows(doc! {"listIndexes": "c"}).await;
        let on_ts = |row: &&Document| row.get_document("key").unwrap().contains_key("_ts");
        let expiry = indexes.iter().find(on_ts);
        let expiry = expiry.and_then(|row| row.get_i32("expireAfterSeconds").ok());
        let names = indexes.iter().map(|row| row.get_str("name").unwrap());
        (
            default,
            option,
            expiry,
            names.map(ToOwned::to_owned).collect(),
        )
    }

    async fn assert_default(&self, seconds: Option<i32>, names: &[&str]) {
        let shown = self.shown().await;
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(shown, (seconds, seconds, seconds, names));
    }
}

fn ts_index(seconds: impl Into<Bson>) -> Document {
    doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": seconds.into()}
}

#[tokio::test]
async fn all_commands_change_one_setting() {
    let front = Front::start().await;
    front.ok(doc! {"create": "c", "defaultTtl": 10}).await;
    front.assert_default(Some(10), &["_id_", "_ts_1"]).await;
    front.ok(doc! {"collMod": "c", "defaultTtl": -1}).await;
    front.assert_default(Some(-1), &["_id_", "_ts_1"]).await;
    let index = doc! {"keyPattern": {"_ts": 1}, "expireAfterSeconds": 7};
    let reply = front.ok(doc! {"collMod": "c", "index": index}).await;
    assert_eq!(reply.get_i64("expireAfterSeconds_old").unwrap(), -1);
    assert_eq!(reply.get_i64("expireAfterSeconds_new").unwrap(), 7);
    front.assert_default(Some(7), &["_id_", "_ts_1"]).await;
    let reply = front
        .ok(doc! {"createIndexes": "c", "indexes": [ts_index(20), {"key": {"a": 1}, "name": "a"}]})
        .await;
    let number = |reply: &Document, name| reply.get_i32(name).unwrap();
    assert_eq!(number(&reply, "numIndexesBefore"), 2);
    assert_eq!(number(&reply, "numIndexesAfter"), 3);
    front
        .assert_default(Some(20), &["_id_", "a", "_ts_1"])
        .await;
    let reply = front.ok(doc! {"dropIndexes": "c", "index": "_ts_1"}).await;
    assert_eq!(number(&reply, "nIndexesWas"), 3);
    front.assert_default(None, &["_id_", "a"]).await;
    front.ok(doc! {"collMod": "c", "defaultTtl": 5}).await;
    let reply = front.ok(doc! {"dropIndexes": "c", "index": "*"}).await;
    assert_eq!(number(&reply, "nIndexesWas"), 3);
    front.assert_default(None, &["_id_"]).await;
    let reply = front
        .ok(doc! {"createIndexes": "new", "indexes": [ts_index(5)]})
        .await;
    assert!(reply.get_bool("createdCollectionAutomatically").unwrap());
    assert_eq!(number(&reply, "numIndexesBefore"), 1);
    assert_eq!(number(&reply, "numIndexesAfter"), 2);
    front.ok(doc! {"drop": "new"}).await;
    front.ok(doc! {"dropDatabase": 1}).await;
    assert!(
        !front
            .settings
            .has_settings(&front.cluster.database)
            .await
            .unwrap()
    );
}

#[tokio::test]
async fn what_is_refused_changes_nothing() {
    let front = Front::start().await;
    front.ok(doc! {"create": "c", "defaultTtl": 10}).await;
    let range = "must be -1 or a whole number from 1 to 2147483647, but found: 0";
    let rows = [
        (doc! {"collMod": "c", "defaultTtl": 0}, 72, range),
        (
            doc! {"collMod": "c", "defaultTtl": "x"},
            14,
            "but found: \"x\"",
        ),
        (doc! {"create": "d", "defaultTtl": 0}, 72, range),
        (
            doc! {"create": "d", "defaultTtl": 1, "indexingPolicy": {"indexingMode": "none"}},
            2,
            "Indexing mode value cannot be 'none'",
        ),
        (
            doc! {"collMod": "c", "indexingPolicy": {"indexingMode": "none"}},
            2,
            "Indexing mode value cannot be 'none'",
        ),
        (
            doc! {"createIndexes": "c", "indexes": [ts_index(0)]},
            67,
            range,
        ),
        (
            doc! {"createIndexes": "c", "indexes": [{"key": {"_ts": 1, "a": 1}, "name": "x", "expireAfterSeconds": 1}]},
            67,
            "compound indexes do not support TTL",
        ),
        (
            doc! {"createIndexes": "c", "indexes": [{"key": {"_ts": 1}, "name": "x"}]},
            85,
            "An equivalent index already exists",
        ),
        (
            doc! {"createIndexes": "c", "indexes": [{"key": {"_sundown": 1}, "name": "x"}]},
            2,
            "reserved",
        ),
        (
            doc! {"dropIndexes": "c", "index": "_sundown_own"},
            27,
            "index not found",
        ),
        (
            doc! {"dropIndexes": "c", "index": "zzz"},
            27,
            "index not found",
        ),
        (
            doc! {"collMod": "zzz", "defaultTtl": 1},
            26,
            "ns does not exist",
        ),
        (
            doc! {"create": "d", "capped": true, "size": 10_000, "defaultTtl": 1},
            67,
            "capped",
        ),
        (
            doc! {"collMod": "c", "index": {"name": "_ts_1", "hidden": true}},
            2,
            "can't hide the index on _ts",
        ),
        (
            doc! {"collMod": "c", "defaultTtl": 3, "index": {"name": "_ts_1", "expireAfterSeconds": 4}},
            72,
            "they cannot be given two values",
        ),
    ];
    for (command, code, words) in rows {
        let (number, message) = front.refused(command.clone()).await;
        assert_eq!(number, code, "{command}: {message}");
        assert!(message.contains(words), "{command}: {message}");
    }
    front.assert_default(Some(10), &["_id_", "_ts_1"]).await;
    assert_eq!(front.rows(doc! {"listCollections": 1}).await.len(), 1);
}

#[tokio::test]
async fn rules_on_dates_change_and_what_has_ended_stays_ended() {
    let front = Front::start().await;
    let now = front.cluster.clock.now().0;
    let at = |seconds: i64| bson::DateTime::from_millis(now + seconds * 1_000);
    let index = doc! {"key": {"at": 1}, "name": "at", "expireAfterSeconds": 0};
    front.ok(doc! {"create": "c"}).await;
    // A past date would end by the cluster's own monitor, so the index comes after the documents.
    let documents = vec![doc! {"_id": 1, "at": at(-5)}, doc! {"_id": 2, "at": at(5)}];
    front
        .cluster
        .run(doc! {"insert": "c", "documents": documents})
        .await;
    let db = &front.cluster.database;
    assert!(front.settings.rules(db, "c").await.unwrap().is_none());
    front
        .ok(doc! {"createIndexes": "c", "indexes": [index]})
        .await;
    let rules = front.settings.rules(db, "c").await.unwrap();
    assert_eq!((rules.dates.len(), rules.stamped), (1, false));
    let longer = doc! {"name": "at", "expireAfterSeconds": 100};
    front.ok(doc! {"collMod": "c", "index": longer}).await;
    let rules = front.settings.rules(db, "c").await.unwrap();
    assert_eq!(rules.dates[0].seconds, 100);
    assert_eq!(rules.former, None);
    let left = front.cluster.run(doc! {"count": "c", "query": {}}).await;
    assert_eq!(left.get_i32("n").unwrap(), 1);
    front
        .ok(doc! {"dropIndexes": "c", "index": {"at": 1}})
        .await;
    assert!(front.settings.rules(db, "c").await.unwrap().is_none());
}

#[tokio::test]
async fn an_existing_index_on_ts_shows_the_default() {
    let front = Front::start().await;
    let plain = doc! {"key": {"_ts": -1}, "name": "mine"};
    front
        .ok(doc! {"createIndexes": "c", "indexes": [plain]})
        .await;
    front.ok(doc! {"collMod": "c", "defaultTtl": 9}).await;
    front.assert_default(Some(9), &["_id_", "mine"]).await;
    let index = doc! {"name": "mine", "expireAfterSeconds": 8};
    front.ok(doc! {"collMod": "c", "index": index}).await;
    front.assert_default(Some(8), &["_id_", "mine"]).await;
    front.ok(doc! {"dropIndexes": "c", "index": ["mine"]}).await;
    front.assert_default(None, &["_id_"]).await;
}

#[tokio::test]
async fn settings_go_with_their_collection() {
    let front = Front::start().await;
    let db = front.cluster.database.clone();
    let default = async |name: &str| {
        let rules = front.settings.rules(&db, name).await.unwrap();
        rules.default.seconds()
    };
    front.ok(doc! {"create": "c", "defaultTtl": 5}).await;
    // A rename runs in the database admin, also through a client.
    let (from, to) = (format!("{db}.c"), format!("{db}.d"));
    let rename = doc! {"renameCollection": &from, "to": &to, "$db": "admin"};
    let request = Request::new(rename.to_vec().unwrap());
    let reply = ddl::rename(&front.settings, &mut &front.cluster, &request).await;
    let reply = Document::from_reader(&reply.unwrap()[..]).unwrap();
    assert_eq!(reply.get_f64("ok").unwrap(), 1.0, "{reply}");
    assert_eq!((default("c").await, default("d").await), (None, Some(5)));
    // `$out` puts another collection in its place.
    let replacing = ddl::replacing(&front.settings, &db, "d").await.unwrap();
    front.cluster.run(doc! {"create": "e"}).await;
    let out = doc! {"aggregate": "e", "pipeline": [{"$out": "d"}], "cursor": {}};
    front.cluster.run(out).await;
    replacing.end().await.unwrap();
    assert_eq!(default("d").await, Some(5));
    front.ok(doc! {"drop": "d"}).await;
    front.ok(doc! {"create": "d"}).await;
    assert_eq!(default("d").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_actions_set_the_default() {
    let front = Front::start().await;
    let id = doc! {"key": {"_id": 1}, "name": "_id_"};
    let default = doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": 20};
    let a = doc! {"key": {"a": 1}, "name": "a_1"};
    let action = |name: &str, indexes: &[&Document]| {
        let indexes: Vec<_> = indexes.iter().map(|index| (*index).clone()).collect();
        doc! {"customAction": name, "collection": "c", "indexes": indexes}
    };
    let get = doc! {"customAction": "GetCollection", "collection": "c", "showIndexes": true};
    assert_eq!(front.refused(get.clone()).await.0, 26);
    front.ok(action("CreateCollection", &[&id, &default])).await;
    let again = front.refused(action("CreateCollection", &[&id])).await;
    assert_eq!(again.0, 48);
    for (indexes, names) in [
        (vec![&id, &default, &a], vec!["_id_", "a_1", "_ts_1"]),
        (vec![&id, &a], vec!["_id_", "a_1"]),
        (vec![&id, &default], vec!["_id_", "_ts_1"]),
    ] {
        front.ok(action("UpdateCollection", &indexes)).await;
        let shown = front.ok(get.clone()).await;
        let shown = shown.get_array("indexes").unwrap().iter();
        let shown = shown.map(|index| index.as_document().unwrap().get_str("name").unwrap());
        assert_eq!(shown.collect::<Vec<_>>(), names);
    }
    assert_eq!(front.refused(action("UpdateCollection", &[&a])).await.0, 2);
    let paid = doc! {"customAction": "CreateCollection", "collection": "d", "offerThroughput": 400};
    let (code, message) = front.refused(paid).await;
    assert_eq!(code, 238);
    assert!(message.contains("offerThroughput"), "{message}");
}
