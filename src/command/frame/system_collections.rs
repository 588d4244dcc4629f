//! Collections in `config` and `local` from which clients learn the kind of the server. They hold plain documents, written
//! at start: for a router the ones that `sh.status()` reads first, for a member of a replica set its configuration.
//!
//! Clients can read the router's collections, but listCollections does not show them. Otherwise `mongodump` would dump them,
//! and `mongorestore` refuses to restore a router's `config`.

use super::context::Context;
use crate::command::cosmos::put_shard;
use crate::config::Topology;
use crate::engine::write::insert_own;
use crate::value::{DocBuf, DocBuilder, Type, ValueRef};

const VERSION: &str = "version";
const SHARDS: &str = "shards";
const SETTINGS: &str = "settings";

/// Whether listCollections leaves the collection out.
pub(in crate::command) fn is_unlisted(context: &Context, database: &str, collection: &str) -> bool {
    context.config.topology == Topology::Router
        && database == "config"
        && [VERSION, SHARDS, SETTINGS].contains(&collection)
}

/// Writes the documents. Nothing else uses the catalog yet.
pub(in crate::command) fn announce(context: &Context) {
    match &context.config.topology {
        Topology::Router => {
            put(context, "config", VERSION, |doc| {
                doc.put_i32("_id", 1)
                    .put("clusterId", ValueRef::new(Type::ObjectId, &context.process));
            });
            put(context, "config", SHARDS, |doc| {
                put_shard(doc, &context.host());
            });
            // The balancer is off, because there is no other shard to move data to.
            put(context, "config", SETTINGS, |doc| {
                doc.put_str("_id", "balancer")
                    .put_str("mode", "off")
                    .put_bool("stopped", true);
            });
        }
        Topology::ReplicaSet { name, .. } => put(context, "local", "system.replset", |doc| {
            put_replica_set(doc, name, &context.host());
        }),
        Topology::Standalone => {}
    }
}

/// Writes the configuration of a replica set with one member.
pub(in crate::command) fn put_replica_set(doc: &mut DocBuilder<'_>, name: &str, host: &str) {
    doc.put_str("_id", name)
        .put_i32("version", 1)
        .put_i32("term", 1);
    let mut members = doc.array("members");
    let mut member = members.doc();
    member
        .put_i32("_id", 0)
        .put_str("host", host)
        .put_bool("arbiterOnly", false)
        .put_bool("buildIndexes", true)
        .put_bool("hidden", false)
        .put_i32("priority", 1)
        .put_i32("votes", 1);
    member.end();
    members.end();
}

fn put(
    context: &Context,
    database: &str,
    collection: &str,
    write: impl FnOnce(&mut DocBuilder<'_>),
) {
    let document = DocBuf::build(write);
    let (document, now) = (document.as_doc(), context.clock.now());
    insert_own(&context.catalog, database, collection, document, now)
        .expect("nothing else is there yet");
}

#[cfg(test)]
mod tests {
    use crate::command::tests::server::{ask, server};
    use crate::config::{Config, Topology};
    use bson::{Document, doc};

    fn first(topology: &Topology, database: &str, collection: &str) -> Option<Document> {
        let mut server = server(Config {
            topology: topology.clone(),
            ..Config::default()
        });
        let reply = ask(&mut server, doc! {"find": collection, "$db": database});
        let batch = reply
            .get_document("cursor")
            .unwrap()
            .get_array("firstBatch");
        batch.unwrap().first()?.as_document().cloned()
    }

    #[test]
    fn system_collections_describe_the_topology() {
        let set = Topology::ReplicaSet {
            name: "rs0".into(),
            advertise: Some("there:1".into()),
        };
        let rows: &[(Topology, &str, &str, Option<&str>)] = &[
            (Topology::Router, "config", "version", Some("1")),
            (Topology::Router, "config", "shards", Some("\"shard0000\"")),
            (Topology::Router, "config", "settings", Some("\"balancer\"")),
            (Topology::Router, "local", "system.replset", None),
            (set.clone(), "local", "system.replset", Some("\"rs0\"")),
            (set.clone(), "config", "version", None),
            (Topology::Standalone, "config", "version", None),
            (Topology::Standalone, "local", "system.replset", None),
        ];
        for (topology, database, collection, id) in rows {
            let found = first(topology, database, collection);
            let found = found.map(|doc| doc["_id"].to_string());
            assert_eq!(
                found.as_deref(),
                *id,
                "{topology:?} {database}.{collection}"
            );
        }
        let mut router = server(Config::default());
        let listed = ask(&mut router, doc! {"listCollections": 1, "$db": "config"});
        let listed = listed.get_document("cursor").unwrap();
        assert_eq!(listed.get_array("firstBatch").unwrap().len(), 0);
        let mut member = server(Config {
            topology: set.clone(),
            ..Config::default()
        });
        let told = ask(&mut member, doc! {"replSetGetConfig": 1, "$db": "admin"});
        let kept = first(&set, "local", "system.replset");
        assert_eq!(told.get_document("config").ok(), kept.as_ref());
    }
}
