//! What a client may do before and after a log-in.

use bson::doc;

use super::{code, logged_in, user};
use crate::auth::{RoleName, UserName};
use crate::command::tests::server::{ask, server};
use crate::command::{COMMANDS, Flags};
use crate::config::{Accounts, Config};

#[test]
fn nothing_but_the_handshake_works_before_login() {
    let free: Vec<_> = COMMANDS
        .entries()
        .iter()
        .filter(|command| command.facts.flags.has(Flags::BEFORE_LOGIN))
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
    server.1.client.login.log_out();
    for command in COMMANDS.entries() {
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
fn changes_of_a_user_take_effect_at_once() {
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
    // Another user must exist. After the last user is dropped, a client on this machine may create a new one.
    users.add(user("bob", &[])).unwrap();
    assert!(users.remove(&ann));
    let reply = ask(&mut server, doc! {"find": "c", "$db": "shop"});
    assert_eq!(
        reply.get_str("errmsg").unwrap(),
        "Command find requires authentication"
    );
}

#[test]
fn access_control_is_off_until_the_first_admin_exists() {
    let mut server = server(Config::default());
    let bob = |roles: Vec<&str>| doc! {"createUser": "bob", "pwd": "x", "roles": roles, "mechanisms": ["SCRAM-SHA-1"]};
    assert_eq!(code(&mut server, "shop", &bob(vec!["readWrite"])), None);
    assert_eq!(code(&mut server, "shop", &doc! {"find": "c"}), None);
    assert_eq!(code(&mut server, "admin", &bob(vec!["root"])), None);
    assert_eq!(code(&mut server, "shop", &doc! {"find": "c"}), Some(13));
}

#[test]
fn the_localhost_exception_allows_only_creating_the_first_user() {
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
