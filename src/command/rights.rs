//! For tests: each role against each kind of command.

use std::sync::Arc;

use bson::{Document, doc};

use super::check::{ask, server};
use super::{COMMANDS, Commands, Connection, Flags, Needs, Status};
use crate::auth::{Credentials, RoleName, User, UserName};
use crate::config::{Accounts, Config};

/// A server with one user of these roles, who has logged in.
fn logged_in(roles: &[&str]) -> (Commands, Connection) {
    let roles = roles
        .iter()
        .map(|text| {
            let (role, db) = text.split_once('@').unwrap_or((text, "admin"));
            RoleName::new(role, db)
        })
        .collect();
    let user = User::new(UserName::new("ann", "admin"), Credentials::default(), roles).unwrap();
    let server = server(Config {
        accounts: Accounts {
            list: vec![user.clone()],
            required: false,
        },
        enable_test_commands: true,
        ..Config::default()
    });
    log_in(&server, user);
    server
}

fn log_in((commands, connection): &(Commands, Connection), user: User) {
    let users = &commands.context().users;
    let standing = &connection.client.standing;
    standing.log_in(users, Arc::new(user)).unwrap();
}

fn code(server: &mut (Commands, Connection), db: &str, command: &Document) -> Option<i32> {
    let mut command = command.clone();
    command.insert("$db", db);
    ask(server, command).get_i32("code").ok()
}

/// The columns of the table. A letter in a row says that the role may run the command.
const ROLES: &[(char, &str)] = &[
    ('r', "read@shop"),
    ('w', "readWrite@shop"),
    ('d', "dbAdmin@shop"),
    ('u', "userAdmin@shop"),
    ('o', "dbOwner@shop"),
    ('R', "readAnyDatabase"),
    ('W', "readWriteAnyDatabase"),
    ('D', "dbAdminAnyDatabase"),
    ('U', "userAdminAnyDatabase"),
    ('m', "clusterMonitor"),
    ('c', "clusterAdmin"),
    ('x', "root"),
];

const ALL: &str = "rwduoRWDUmcx";
const READS: &str = "rwoRWx";
const WRITES: &str = "woWx";
/// Who may make and drop collections and indexes.
const SHAPES: &str = "wdoWDx";
const ADMINISTERS: &str = "doDx";
const ADMITS: &str = "uoUx";

fn table() -> Vec<(&'static str, Document, &'static str)> {
    vec![
        // Reading.
        ("shop", doc! {"find": "c"}, READS),
        ("shop", doc! {"count": "c"}, READS),
        ("shop", doc! {"distinct": "c", "key": "a"}, READS),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [], "cursor": {}},
            READS,
        ),
        ("shop", doc! {"dataSize": "shop.c"}, READS),
        ("shop", doc! {"explain": {"find": "c"}}, READS),
        (
            "shop",
            doc! {"explain": {"delete": "c", "deletes": [{"q": {}, "limit": 0}]}},
            WRITES,
        ),
        ("shop", doc! {"find": "system.js"}, READS),
        ("shop", doc! {"find": "system.secret"}, "x"),
        ("other", doc! {"find": "c"}, "RWx"),
        ("local", doc! {"find": "c"}, "mcx"),
        ("admin", doc! {"find": "system.users"}, "Ux"),
        // Reading several collections.
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$lookup": {"from": "d", "localField": "a", "foreignField": "b", "as": "e"}}], "cursor": {}},
            READS,
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$lookup": {"from": "system.secret", "localField": "a", "foreignField": "b", "as": "e"}}], "cursor": {}},
            "x",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$facet": {"f": [{"$lookup": {"from": "d", "pipeline": [{"$unionWith": "system.secret"}], "as": "e"}}]}}], "cursor": {}},
            "x",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$unionWith": {"coll": "system.secret", "pipeline": []}}], "cursor": {}},
            "x",
        ),
        (
            "shop",
            doc! {"explain": {"aggregate": "c", "pipeline": [{"$unionWith": "system.secret"}], "cursor": {}}},
            "x",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}},
            WRITES,
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$out": {"db": "other", "coll": "d"}}], "cursor": {}},
            "Wx",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$merge": "d"}], "cursor": {}},
            WRITES,
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$merge": {"into": {"db": "other", "coll": "d"}}}], "cursor": {}},
            "Wx",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$collStats": {"count": {}}}], "cursor": {}},
            "rwdoRWDmcx",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$indexStats": {}}], "cursor": {}},
            "mcx",
        ),
        (
            "shop",
            doc! {"aggregate": 1, "pipeline": [{"$documents": []}], "cursor": {}},
            ALL,
        ),
        // Writing.
        ("shop", doc! {"insert": "c", "documents": [{}]}, WRITES),
        (
            "shop",
            doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}}]},
            WRITES,
        ),
        (
            "shop",
            doc! {"update": "c", "updates": [{"q": {}, "u": {"$set": {"a": 1}}, "upsert": true}]},
            WRITES,
        ),
        (
            "shop",
            doc! {"delete": "c", "deletes": [{"q": {}, "limit": 1}]},
            WRITES,
        ),
        ("shop", doc! {"findAndModify": "c", "remove": true}, WRITES),
        (
            "shop",
            doc! {"findAndModify": "c", "update": {"a": 1}, "upsert": true},
            WRITES,
        ),
        (
            "admin",
            doc! {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "shop.c"}]},
            WRITES,
        ),
        (
            "admin",
            doc! {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}, {"delete": 1, "filter": {}}], "nsInfo": [{"ns": "shop.c"}, {"ns": "other.c"}]},
            "Wx",
        ),
        (
            "shop",
            doc! {"insert": "c", "documents": [{}], "bypassDocumentValidation": true},
            "ox",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$merge": "d"}], "cursor": {}, "bypassDocumentValidation": true},
            "ox",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [], "cursor": {}, "bypassDocumentValidation": true},
            READS,
        ),
        (
            "admin",
            doc! {"bulkWrite": 1, "ops": [{"insert": 0, "document": {}}], "nsInfo": [{"ns": "shop.c"}], "bypassDocumentValidation": true},
            "ox",
        ),
        // Shaping.
        ("shop", doc! {"create": "n"}, SHAPES),
        (
            "shop",
            doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1}, "name": "a"}]},
            SHAPES,
        ),
        ("shop", doc! {"dropIndexes": "c", "index": "a"}, SHAPES),
        ("shop", doc! {"listIndexes": "c"}, "rwdoRWDx"),
        ("shop", doc! {"listCollections": 1}, "rwdoRWDx"),
        (
            "shop",
            doc! {"listCollections": 1, "nameOnly": true, "authorizedCollections": true},
            ALL,
        ),
        ("shop", doc! {"collMod": "c"}, ADMINISTERS),
        ("shop", doc! {"customAction": "GetDatabase"}, "rwdoRWDx"),
        (
            "shop",
            doc! {"customAction": "UpdateDatabase", "offerThroughput": 400},
            SHAPES,
        ),
        ("shop", doc! {"validate": "c"}, ADMINISTERS),
        ("shop", doc! {"planCacheClear": "c"}, ADMINISTERS),
        ("shop", doc! {"profile": 0}, ADMINISTERS),
        (
            "shop",
            doc! {"validateDBMetadata": 1, "apiParameters": {"version": "1"}},
            ADMINISTERS,
        ),
        (
            "shop",
            doc! {"validateDBMetadata": 1, "apiParameters": {"version": "1"}, "db": "bank"},
            "Dx",
        ),
        ("shop", doc! {"collStats": "c"}, "rwdoRWDmcx"),
        ("shop", doc! {"dbStats": 1}, "rwdoRWDmcx"),
        (
            "admin",
            doc! {"renameCollection": "shop.c", "to": "shop.d"},
            SHAPES,
        ),
        (
            "admin",
            doc! {"renameCollection": "shop.c", "to": "other.d"},
            "Wx",
        ),
        ("shop", doc! {"drop": "c"}, SHAPES),
        ("shop", doc! {"dropDatabase": 1}, "doDcx"),
        // Letting others in.
        (
            "shop",
            doc! {"createUser": "bob", "pwd": "x", "roles": [], "mechanisms": ["SCRAM-SHA-1"]},
            ADMITS,
        ),
        (
            "shop",
            doc! {"createUser": "bob", "pwd": "x", "roles": [{"role": "root", "db": "admin"}], "mechanisms": ["SCRAM-SHA-1"]},
            "Ux",
        ),
        ("shop", doc! {"updateUser": "bob", "customData": {}}, ADMITS),
        (
            "shop",
            doc! {"grantRolesToUser": "bob", "roles": ["read"]},
            ADMITS,
        ),
        (
            "shop",
            doc! {"grantRolesToUser": "bob", "roles": [{"role": "read", "db": "other"}]},
            "Ux",
        ),
        (
            "shop",
            doc! {"revokeRolesFromUser": "bob", "roles": ["read"]},
            ADMITS,
        ),
        ("shop", doc! {"usersInfo": 1}, ADMITS),
        (
            "shop",
            doc! {"usersInfo": {"user": "ann", "db": "admin"}},
            ALL,
        ),
        ("shop", doc! {"usersInfo": {"forAllDBs": true}}, "Ux"),
        ("shop", doc! {"rolesInfo": 1}, ADMITS),
        ("shop", doc! {"dropAllRolesFromDatabase": 1}, ADMITS),
        ("admin", doc! {"invalidateUserCache": 1}, "Ucx"),
        ("shop", doc! {"dropUser": "bob"}, ADMITS),
        ("shop", doc! {"dropAllUsersFromDatabase": 1}, ADMITS),
        // The server.
        ("admin", doc! {"serverStatus": 1}, "mcx"),
        ("admin", doc! {"hostInfo": 1}, "mcx"),
        ("admin", doc! {"currentOp": 1}, "mcx"),
        ("admin", doc! {"currentOp": 1, "$ownOps": true}, ALL),
        (
            "admin",
            doc! {"aggregate": 1, "pipeline": [{"$currentOp": {"allUsers": true}}], "cursor": {}},
            "mcx",
        ),
        (
            "admin",
            doc! {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}},
            ALL,
        ),
        ("admin", doc! {"killOp": 1, "op": 5}, "cx"),
        ("admin", doc! {"getLog": "global"}, "mcx"),
        ("admin", doc! {"getParameter": "*"}, "mcx"),
        (
            "admin",
            doc! {"setParameter": 1, "ttlMonitorEnabled": true},
            "cx",
        ),
        ("admin", doc! {"getCmdLineOpts": 1}, "mcx"),
        ("admin", doc! {"top": 1}, "mcx"),
        ("admin", doc! {"timeTravel": 1}, "cx"),
        (
            "admin",
            doc! {"configureFailPoint": "failCommand", "mode": "off"},
            "cx",
        ),
        ("admin", doc! {"listShards": 1}, "mcx"),
        ("admin", doc! {"balancerStatus": 1}, "mcx"),
        ("admin", doc! {"replSetInitiate": {}}, "cx"),
        ("admin", doc! {"enableSharding": "shop"}, "cx"),
        ("admin", doc! {"killAllSessions": []}, "cx"),
        ("admin", doc! {"listDatabases": 1}, ALL),
        (
            "admin",
            doc! {"listDatabases": 1, "authorizedDatabases": false},
            "RWDUmcx",
        ),
        // Everybody's.
        ("admin", doc! {"startSession": 1}, ALL),
        ("admin", doc! {"killSessions": []}, ALL),
        ("shop", doc! {"killCursors": "c", "cursors": [5_i64]}, ALL),
        ("shop", doc! {"connectionStatus": 1}, ALL),
        ("shop", doc! {"ping": 1}, ALL),
    ]
}

#[test]
fn each_role_against_each_kind_of_command() {
    let table = table();
    for (letter, role) in ROLES {
        let mut server = logged_in(&[*role]);
        for (db, command, allowed) in &table {
            let code = code(&mut server, db, command);
            let may = allowed.contains(*letter);
            assert_eq!(
                code != Some(13),
                may,
                "{role} on {db}: {command} -> {code:?}"
            );
        }
    }
    let mut nobody = logged_in(&[]);
    let none = [
        "connectionStatus",
        "ping",
        "listDatabases",
        "startSession",
        "killSessions",
        "killCursors",
    ];
    for (db, command, _) in &table {
        let name = command.keys().next().unwrap().as_str();
        let free = none.contains(&name) && !command.contains_key("authorizedDatabases")
            || command.contains_key("$ownOps")
            || command
                .get_document("usersInfo")
                .is_ok_and(|who| who.contains_key("user"))
            || command.get_array("pipeline").is_ok_and(|stages| {
                stages.first().is_some_and(|stage| {
                    let stage = stage.as_document().unwrap();
                    stage.contains_key("$documents")
                        || stage
                            .get_document("$currentOp")
                            .is_ok_and(Document::is_empty)
                })
            });
        assert_eq!(
            code(&mut nobody, db, command) != Some(13),
            free,
            "{command}"
        );
    }
}

#[test]
fn every_command_says_what_it_needs() {
    for command in COMMANDS {
        let says = !matches!(command.needs, Needs::Everything);
        let ready = matches!(command.status, Status::Ready(_));
        assert!(
            says || !ready,
            "{}: add .needs(Needs::…) to its row",
            command.name
        );
    }
}

#[test]
fn nothing_but_the_handshake_works_before_login() {
    let free: Vec<_> = COMMANDS
        .iter()
        .filter(|command| command.flags.has(Flags::BEFORE_LOGIN))
        .map(|command| command.name)
        .collect();
    let handshake = [
        "authenticate",
        "buildInfo",
        "connectionStatus",
        "features",
        "hello",
        "isMaster",
        "isdbgrid",
        "listCommands",
        "logout",
        "ping",
        "saslContinue",
        "saslStart",
        "whatsmyuri",
    ];
    assert_eq!(free, handshake);
    let mut server = logged_in(&["root"]);
    server.1.client.standing.log_out();
    for command in COMMANDS {
        let reply = ask(&mut server, doc! {command.name: 1, "$db": "admin"});
        let refused = reply.get_i32("code").ok() == Some(13);
        assert_eq!(refused, !handshake.contains(&command.name), "{reply}");
        if refused {
            let words = format!("Command {} requires authentication", command.name);
            assert_eq!(reply.get_str("errmsg").unwrap(), words);
        }
    }
}

#[test]
fn a_refusal_repeats_the_command_without_its_secrets() {
    let mut server = logged_in(&["read@shop"]);
    let reply = ask(
        &mut server,
        doc! {"insert": "c", "documents": [{"_id": 1}], "$db": "shop"},
    );
    assert_eq!(
        reply.get_str("errmsg").unwrap(),
        "not authorized on shop to execute command { insert: \"c\", documents: [ { _id: 1 } ], $db: \"shop\" }"
    );
    let reply = ask(
        &mut server,
        doc! {"createUser": "bob", "pwd": "hunter2", "roles": [], "$db": "shop"},
    );
    assert_eq!(
        reply.get_str("errmsg").unwrap(),
        "not authorized on shop to execute command { createUser: \"bob\", pwd: \"xxx\", roles: [], $db: \"shop\" }"
    );
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
    // The same server, another user.
    let bob = User::new(
        UserName::new("bob", "admin"),
        Credentials::default(),
        vec![RoleName::new("read", "shop")],
    )
    .unwrap();
    root.0.context().users.add(bob.clone()).unwrap();
    root.1.client.standing.log_out();
    log_in(&root, bob);
    assert_eq!(names(&mut root, all), ["shop"]);
}

#[test]
fn sessions_of_others_are_out_of_reach() {
    let mut server = logged_in(&["readWrite@shop"]);
    let own = doc! {"id": bson::Uuid::new()};
    let mut foreign = own.clone();
    foreign.insert(
        "uid",
        bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: vec![7; 32],
        },
    );
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
    // Whoever may kill all of them names users, and means theirs only.
    let mut root = logged_in(&["root"]);
    let write = doc! {"insert": "c", "documents": [{}], "lsid": own, "txnNumber": 1_i64};
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
        assert_eq!(context.sessions.len(), left, "{command}");
    }
}

#[test]
fn who_asks_what_runs_sees_their_own() {
    let mut server = logged_in(&["root"]);
    let roles = vec![RoleName::new("readWrite", "shop")];
    let bob = User::new(UserName::new("bob", "admin"), Credentials::default(), roles).unwrap();
    server.0.context().users.add(bob.clone()).unwrap();
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
    server.1.client.standing.log_out();
    log_in(&server, bob);
    assert_eq!(count(&mut server, false), Some(0));
    assert_eq!(code(&mut server, "shop", &open), None);
    assert_eq!(count(&mut server, false), Some(1));
    assert_eq!(count(&mut server, true), None, "not allowed");
    let ann = server.0.context().users.get(&UserName::new("ann", "admin"));
    server.1.client.standing.log_out();
    log_in(&server, (*ann.unwrap()).clone());
    assert_eq!(count(&mut server, false), Some(1));
    assert_eq!(count(&mut server, true), Some(2));
}

#[test]
fn what_changes_for_a_user_changes_at_once() {
    let mut server = logged_in(&["read@shop"]);
    let users = &server.0.context().clone().users;
    let ann = UserName::new("ann", "admin");
    let insert = doc! {"insert": "c", "documents": [{}]};
    assert_eq!(code(&mut server, "shop", &insert), Some(13));
    let roles = vec![RoleName::new("readWrite", "shop")];
    users
        .change(&ann, |user| user.set_roles(roles))
        .unwrap()
        .unwrap();
    assert_eq!(code(&mut server, "shop", &insert), None);
    // As long as there is somebody else: whoever drops the last user is let in from this machine to make another.
    let bob = UserName::new("bob", "admin");
    users
        .add(User::new(bob, Credentials::default(), Vec::new()).unwrap())
        .unwrap();
    assert!(users.remove(&ann));
    let reply = ask(&mut server, doc! {"find": "c", "$db": "shop"});
    assert_eq!(
        reply.get_str("errmsg").unwrap(),
        "Command find requires authentication"
    );
}

#[test]
fn cursors_belong_to_whoever_opened_them() {
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
    let bob = User::new(
        UserName::new("bob", "admin"),
        Credentials::default(),
        vec![RoleName::new("readWrite", "shop")],
    )
    .unwrap();
    server.0.context().users.add(bob.clone()).unwrap();
    server.1.client.standing.log_out();
    log_in(&server, bob);
    assert_eq!(code(&mut server, "shop", &more), Some(13));
    let kill = |id: i64| doc! {"killCursors": "c", "cursors": [id]};
    assert_eq!(code(&mut server, "shop", &kill(id)), Some(13));
    let own = open(&mut server);
    assert_eq!(code(&mut server, "shop", &kill(own)), None);
}

#[test]
fn a_session_is_the_users_own() {
    let mut server = logged_in(&["root"]);
    let lsid = doc! {"id": bson::Uuid::new(), "uid": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![7; 32] }};
    assert_eq!(
        code(&mut server, "shop", &doc! {"find": "c", "lsid": lsid}),
        Some(13)
    );
    let lsid = doc! {"id": bson::Uuid::new()};
    assert_eq!(
        code(&mut server, "shop", &doc! {"find": "c", "lsid": lsid}),
        None
    );
}

#[test]
fn an_open_server_asks_nobody_and_the_first_admin_closes_it() {
    let mut server = server(Config::default());
    let bob = |roles: Vec<&str>| doc! {"createUser": "bob", "pwd": "x", "roles": roles, "mechanisms": ["SCRAM-SHA-1"]};
    assert_eq!(code(&mut server, "shop", &bob(vec!["readWrite"])), None);
    assert_eq!(code(&mut server, "shop", &doc! {"find": "c"}), None);
    assert_eq!(code(&mut server, "admin", &bob(vec!["root"])), None);
    assert_eq!(code(&mut server, "shop", &doc! {"find": "c"}), Some(13));
}

#[test]
fn the_localhost_exception_makes_the_first_user_and_nothing_else() {
    let mut server = server(Config {
        accounts: Accounts {
            list: Vec::new(),
            required: true,
        },
        ..Config::default()
    });
    let bob = doc! {"createUser": "bob", "pwd": "x", "roles": ["userAdmin"], "mechanisms": ["SCRAM-SHA-1"]};
    assert_eq!(code(&mut server, "shop", &doc! {"find": "c"}), Some(13));
    assert_eq!(code(&mut server, "admin", &doc! {"usersInfo": 1}), Some(13));
    assert_eq!(
        code(&mut server, "admin", &doc! {"listDatabases": 1}),
        Some(13)
    );
    assert_eq!(code(&mut server, "shop", &bob), Some(13), "in admin only");
    assert_eq!(code(&mut server, "admin", &bob), None);
    assert_eq!(code(&mut server, "admin", &bob), Some(13), "once");
}
