//! What belongs to one user is out of reach of others: databases in a list, sessions, cursors, running operations.

use std::sync::Arc;

use bson::{Document, doc};

use super::{code, hand_over, log_in, logged_in, user};
use crate::auth::UserName;
use crate::command::tests::server::ask;
use crate::command::{Commands, Connection};

/// Returns a session id that belongs to another user.
fn foreign(id: bson::Uuid) -> Document {
    let uid = bson::Binary {
        subtype: bson::spec::BinarySubtype::Generic,
        bytes: vec![7; 32],
    };
    doc! {"id": id, "uid": uid}
}

#[test]
fn lists_show_what_the_user_may_use() {
    let mut root = logged_in(&["root"]);
    for (db, name) in [("shop", "c"), ("other", "d")] {
        assert_eq!(code(&mut root, db, &doc! {"create": name}), None);
    }
    let names = |server: &mut (Commands, Connection), command: Document| {
        let reply = ask(server, command);
        let list = reply.get_array("databases").unwrap().iter();
        list.map(|db| {
            db.as_document()
                .unwrap()
                .get_str("name")
                .unwrap()
                .to_owned()
        })
        .collect::<Vec<_>>()
    };
    let all = doc! {"listDatabases": 1, "nameOnly": true, "$db": "admin"};
    assert_eq!(
        names(&mut root, all.clone()),
        ["admin", "config", "local", "other", "shop"]
    );
    // The same server, with another user.
    hand_over(&root, user("bob", &["read@shop"]));
    assert_eq!(names(&mut root, all), ["shop"]);
}

#[test]
fn sessions_of_other_users_cannot_be_used() {
    let mut server = logged_in(&["readWrite@shop"]);
    let id = bson::Uuid::new();
    let own = doc! {"id": id};
    let foreign = foreign(id);
    for (command, wanted) in [
        (doc! {"find": "c", "lsid": foreign.clone()}, Some(13)),
        (doc! {"killSessions": [foreign.clone()]}, Some(13)),
        (doc! {"endSessions": [foreign.clone()]}, Some(13)),
        (doc! {"refreshSessions": [foreign.clone()]}, Some(13)),
        (doc! {"refreshSessions": [own.clone()]}, None),
        (doc! {"killSessions": [own.clone()]}, None),
    ] {
        assert_eq!(code(&mut server, "shop", &command), wanted, "{command}");
    }
    // A user who may kill all sessions names users, and kills only their sessions.
    let mut root = logged_in(&["root"]);
    let write = doc! {
        "insert": "c", "documents": [{}], "lsid": own, "txnNumber": 1_i64, "autocommit": false, "startTransaction": true,
    };
    assert_eq!(code(&mut root, "shop", &write), None);
    let context = Arc::clone(root.0.context());
    for (command, left) in [
        (
            doc! {"killAllSessions": [{"user": "bob", "db": "admin"}]},
            1,
        ),
        (doc! {"killAllSessionsByPattern": [{"lsid": foreign}]}, 1),
        (
            doc! {"killAllSessions": [{"user": "ann", "db": "admin"}]},
            0,
        ),
    ] {
        assert_eq!(code(&mut root, "admin", &command), None, "{command}");
        assert_eq!(context.sessions.transactions().open(), left, "{command}");
    }
}

#[test]
fn a_session_belongs_to_its_user() {
    let mut server = logged_in(&["root"]);
    assert_eq!(
        code(
            &mut server,
            "shop",
            &doc! {"find": "c", "lsid": foreign(bson::Uuid::new())}
        ),
        Some(13)
    );
    let lsid = doc! {"id": bson::Uuid::new()};
    assert_eq!(
        code(&mut server, "shop", &doc! {"find": "c", "lsid": lsid}),
        None
    );
}

#[test]
fn current_op_shows_the_users_own_operations() {
    let mut server = logged_in(&["root"]);
    let fill = doc! {"insert": "c", "documents": [{}, {}, {}]};
    assert_eq!(code(&mut server, "shop", &fill), None);
    let idle = |all: bool| {
        doc! {"aggregate": 1, "$db": "admin", "cursor": {}, "pipeline": [
            {"$currentOp": {"idleCursors": true, "allUsers": all}}, {"$match": {"type": "idleCursor"}}
        ]}
    };
    let count = |server: &mut (Commands, Connection), all: bool| {
        let reply = ask(server, idle(all));
        let cursor = reply.get_document("cursor").ok()?;
        cursor.get_array("firstBatch").ok().map(Vec::len)
    };
    let open = doc! {"find": "c", "batchSize": 1};
    assert_eq!(code(&mut server, "shop", &open), None);
    hand_over(&server, user("bob", &["readWrite@shop"]));
    assert_eq!(count(&mut server, false), Some(0));
    assert_eq!(code(&mut server, "shop", &open), None);
    assert_eq!(count(&mut server, false), Some(1));
    assert_eq!(count(&mut server, true), None, "not allowed");
    let ann = server.0.context().users.get(&UserName::new("ann", "admin"));
    server.1.client.login.log_out();
    log_in(&server, (*ann.unwrap()).clone());
    assert_eq!(count(&mut server, false), Some(1));
    assert_eq!(count(&mut server, true), Some(2));
}

#[test]
fn cursors_belong_to_the_user_who_opened_them() {
    let mut server = logged_in(&["root"]);
    let documents: Vec<_> = (0..5).map(|n| doc! {"_id": n}).collect();
    assert_eq!(
        code(
            &mut server,
            "shop",
            &doc! {"insert": "c", "documents": documents}
        ),
        None
    );
    let open = |server: &mut (Commands, Connection)| {
        let reply = ask(server, doc! {"find": "c", "batchSize": 2, "$db": "shop"});
        reply.get_document("cursor").unwrap().get_i64("id").unwrap()
    };
    let id = open(&mut server);
    let more = doc! {"getMore": id, "collection": "c", "batchSize": 1};
    assert_eq!(code(&mut server, "shop", &more), None);
    hand_over(&server, user("bob", &["readWrite@shop"]));
    assert_eq!(code(&mut server, "shop", &more), Some(13));
    let kill = |id: i64| doc! {"killCursors": "c", "cursors": [id]};
    assert_eq!(code(&mut server, "shop", &kill(id)), Some(13));
    let own = open(&mut server);
    assert_eq!(code(&mut server, "shop", &kill(own)), None);
}
