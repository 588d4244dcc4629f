//! Each role against each kind of command.

use bson::{Document, doc};

use super::{code, logged_in};
use crate::command::{COMMANDS, Needs};

/// The columns of the table. A letter in a row means that the role may run the command.
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
/// The roles that may create and drop collections and indexes.
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
        // The same within other stages, in addition to what the outer pipeline needs.
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$lookup": {"from": "d", "pipeline": [{"$indexStats": {}}], "as": "e"}}], "cursor": {}},
            "x",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$unionWith": {"coll": "d", "pipeline": [{"$indexStats": {}}]}}], "cursor": {}},
            "x",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$lookup": {"from": "d", "pipeline": [{"$unionWith": {"coll": "c", "pipeline": [{"$indexStats": {}}]}}], "as": "e"}}], "cursor": {}},
            "x",
        ),
        (
            "shop",
            doc! {"explain": {"aggregate": "c", "pipeline": [{"$unionWith": {"coll": "d", "pipeline": [{"$indexStats": {}}]}}], "cursor": {}}},
            "x",
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$unionWith": {"coll": "d", "pipeline": [{"$collStats": {"count": {}}}]}}], "cursor": {}},
            READS,
        ),
        (
            "shop",
            doc! {"aggregate": "c", "pipeline": [{"$unionWith": {"pipeline": [{"$documents": []}]}}], "cursor": {}},
            READS,
        ),
        // A stage that is not built yet.
        (
            "shop",
            doc! {"aggregate": 1, "pipeline": [{"$backupCursor": {}}], "cursor": {}},
            "x",
        ),
        (
            "shop",
            doc! {"aggregate": 1, "pipeline": [{"$documents": []}], "cursor": {}},
            ALL,
        ),
        (
            "shop",
            doc! {"explain": {"aggregate": 1, "pipeline": [{"$documents": []}], "cursor": {}}},
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
        // Schema changes.
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
        // Users and roles.
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
        // Commands for every user.
        ("admin", doc! {"startSession": 1}, ALL),
        ("admin", doc! {"killSessions": []}, ALL),
        ("shop", doc! {"killCursors": "c", "cursors": [5_i64]}, ALL),
        ("shop", doc! {"connectionStatus": 1}, ALL),
        ("shop", doc! {"ping": 1}, ALL),
    ]
}

#[test]
fn each_role_may_run_what_the_table_says() {
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
    let of = |command: &Document| {
        let explained = command.get_document("explain");
        explained.unwrap_or(command).clone()
    };
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
            || of(command).get_array("pipeline").is_ok_and(|stages| {
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
fn every_command_declares_its_privileges() {
    for command in COMMANDS.entries() {
        let says = !matches!(command.facts.needs, Needs::Everything);
        assert!(
            says || !command.is_ready(),
            "{}: add .needs(Needs::…) to its row",
            command.name
        );
    }
}
