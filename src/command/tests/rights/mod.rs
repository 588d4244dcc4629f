//! For tests: who may run which command, and what of it belongs to whom.

mod entrance;
mod owned;
mod table;

use std::sync::Arc;

use bson::Document;

use crate::auth::{Credentials, RoleName, User, UserName};
use crate::command::tests::server::{ask, server};
use crate::command::{Commands, Connection};
use crate::config::{Accounts, Config};

fn user(name: &str, roles: &[&str]) -> User {
    let roles = roles
        .iter()
        .map(|text| {
            let (role, db) = text.split_once('@').unwrap_or((text, "admin"));
            RoleName::new(role, db)
        })
        .collect();
    User::new(UserName::new(name, "admin"), Credentials::default(), roles).unwrap()
}

/// A server with one user of these roles, who has logged in.
fn logged_in(roles: &[&str]) -> (Commands, Connection) {
    let ann = user("ann", roles);
    let server = server(Config {
        accounts: Accounts {
            list: vec![ann.clone()],
            required: false,
        },
        enable_test_commands: true,
        ..Config::default()
    });
    log_in(&server, ann);
    server
}

fn log_in((commands, connection): &(Commands, Connection), user: User) {
    let users = &commands.context().users;
    let standing = &connection.client.standing;
    standing.log_in(users, Arc::new(user)).unwrap();
}

/// A new user takes the place of whoever was logged in.
fn hand_over(server: &(Commands, Connection), to: User) {
    server.0.context().users.add(to.clone()).unwrap();
    server.1.client.standing.log_out();
    log_in(server, to);
}

fn code(server: &mut (Commands, Connection), db: &str, command: &Document) -> Option<i32> {
    let mut command = command.clone();
    command.insert("$db", db);
    ask(server, command).get_i32("code").ok()
}
