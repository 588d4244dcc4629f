//! The commands about users answer in mongod's words and shapes.

use bson::{Document, doc};

use crate::command::tests::server::{ask, server};
use crate::command::{Commands, Connection};
use crate::config::Config;

#[test]
fn users_are_created_changed_and_dropped_as_in_mongod() {
    let mut server = server(Config::default());
    let mechanisms = vec!["SCRAM-SHA-1"];
    let steps: Vec<(Document, Option<(i32, &str)>)> = vec![
        (
            doc! {"createUser": "ann", "pwd": "x", "roles": ["read"], "mechanisms": &mechanisms, "customData": {"a": 1}},
            None,
        ),
        (
            doc! {"createUser": "ann", "pwd": "x", "roles": [], "mechanisms": &mechanisms},
            Some((51003, "User \"ann@shop\" already exists")),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x", "roles": ["nope"], "mechanisms": &mechanisms},
            Some((31, "Could not find role: nope@shop")),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x", "roles": ["root"], "mechanisms": &mechanisms},
            Some((31, "Could not find role: root@shop")),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x"},
            Some((
                40414,
                "BSON field 'createUser.roles' is missing but a required field",
            )),
        ),
        (
            doc! {"createUser": "bob", "roles": []},
            Some((
                2,
                "Must provide a 'pwd' field for all user documents, except those with '$external' as the user's source db",
            )),
        ),
        (
            doc! {"createUser": "bob", "pwd": "", "roles": []},
            Some((2, "Password cannot be empty")),
        ),
        (
            doc! {"createUser": "", "pwd": "x", "roles": []},
            Some((2, "User document needs 'user' field to be non-empty")),
        ),
        (
            doc! {"createUser": 5, "pwd": "x", "roles": []},
            Some((
                14,
                "BSON field 'createUser.createUser' is the wrong type 'int', expected type 'string'",
            )),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x", "roles": [], "mechanisms": []},
            Some((2, "mechanisms field must not be empty")),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x", "roles": [], "mechanisms": ["X"]},
            Some((2, "Unknown auth mechanism 'X'")),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x", "roles": [], "digestPassword": false},
            Some((2, "Use of SCRAM-SHA-256 requires undigested passwords")),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x", "roles": [5], "mechanisms": &mechanisms},
            Some((2, "Role names must be either strings or objects")),
        ),
        (
            doc! {"createUser": "bob", "pwd": "x", "roles": [], "nope": 1},
            Some((40415, "BSON field 'createUser.nope' is an unknown field.")),
        ),
        (
            doc! {"updateUser": "ann"},
            Some((2, "Must specify at least one field to update in updateUser")),
        ),
        (
            doc! {"updateUser": "bob", "roles": []},
            Some((11, "User bob@shop not found")),
        ),
        (
            doc! {"updateUser": "ann", "mechanisms": ["SCRAM-SHA-256"]},
            Some((
                2,
                "mechanisms field must be a subset of previously set mechanisms",
            )),
        ),
        (
            doc! {"updateUser": "ann", "pwd": "y", "mechanisms": &mechanisms, "roles": ["readWrite"]},
            None,
        ),
        (
            doc! {"grantRolesToUser": "ann", "roles": [{"role": "read", "db": "other"}]},
            None,
        ),
        (
            doc! {"grantRolesToUser": "bob", "roles": ["read"]},
            Some((11, "Could not find user \"bob\" for db \"shop\"")),
        ),
        (
            doc! {"grantRolesToUser": "ann", "roles": ["nope"]},
            Some((31, "Could not find role: nope@shop")),
        ),
        (
            doc! {"revokeRolesFromUser": "ann", "roles": ["readWrite"]},
            None,
        ),
        (
            doc! {"dropUser": "bob"},
            Some((11, "User 'bob@shop' not found")),
        ),
    ];
    for (mut command, expected) in steps {
        command.insert("$db", "shop");
        let reply = ask(&mut server, command.clone());
        let found = reply.get_i32("code").ok().zip(reply.get_str("errmsg").ok());
        assert_eq!(found, expected, "{command}");
    }
    let info = |server: &mut (Commands, Connection), mut command: Document| {
        command.insert("$db", "shop");
        let reply = ask(server, command);
        let users = reply
            .get_array("users")
            .unwrap_or_else(|_| panic!("{reply}"));
        users
            .iter()
            .map(|user| user.as_document().unwrap().clone())
            .collect::<Vec<_>>()
    };
    let ann = info(&mut server, doc! {"usersInfo": "ann"}).remove(0);
    assert_eq!(ann.get_str("_id").unwrap(), "shop.ann");
    assert_eq!(
        ann.get_array("roles").unwrap(),
        &vec![doc! {"role": "read", "db": "other"}.into()]
    );
    assert_eq!(
        ann.get_array("mechanisms").unwrap(),
        &vec!["SCRAM-SHA-1".into()]
    );
    assert_eq!(ann.get_document("customData").unwrap(), &doc! {"a": 1});
    assert!(!ann.contains_key("credentials"));
    let shown = info(&mut server, doc! {"usersInfo": [{"user": "ann", "db": "shop"}], "showCredentials": true, "showPrivileges": true}).remove(0);
    assert!(
        shown
            .get_document("credentials")
            .unwrap()
            .contains_key("SCRAM-SHA-1")
    );
    assert!(shown.contains_key("inheritedPrivileges"));
    for (command, count) in [
        (doc! {"usersInfo": 1}, 1),
        (doc! {"usersInfo": "bob"}, 0),
        (doc! {"usersInfo": {"forAllDBs": true}}, 1),
        (doc! {"usersInfo": {"user": "ann", "db": "other"}}, 0),
        (doc! {"usersInfo": 1, "filter": {"user": "zoe"}}, 0),
    ] {
        assert_eq!(info(&mut server, command.clone()).len(), count, "{command}");
    }
    let reply = ask(
        &mut server,
        doc! {"rolesInfo": "read", "showPrivileges": true, "$db": "shop"},
    );
    let role = reply.get_array("roles").unwrap()[0]
        .as_document()
        .unwrap()
        .clone();
    assert!(role.get_bool("isBuiltin").unwrap());
    let reply = ask(
        &mut server,
        doc! {"rolesInfo": 1, "showBuiltinRoles": true, "$db": "shop"},
    );
    assert_eq!(reply.get_array("roles").unwrap().len(), 5);
    let reply = ask(
        &mut server,
        doc! {"dropAllUsersFromDatabase": 1, "$db": "shop"},
    );
    assert_eq!(reply.get_i32("n").unwrap(), 1, "{reply}");
}
