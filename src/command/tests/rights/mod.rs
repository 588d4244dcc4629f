//! Tests of rights: who may run which command, and which objects belong to which user.

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

/// Returns a server with one user who has these roles and has logged in.
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
    let login = &connection.client.login;
    login.log_in(users, Arc::new(user)).unwrap();
}

/// Replaces the logged-in user with a new one.
fn hand_over(server: &(Commands, Connection), to: User) {
    server.0.context().users.add(to.clone()).unwrap();
    server.1.client.login.log_out();
    log_in(server, to);
}

fn code(server: &mut (Commands, Connection), db: &str, command: &Document) -> Option<i32> {
    let mut command = command.clone();
    command.insert("$db", db);
    ask(server, command).get_i32("code").ok()
}
