//! A server with a frozen clock, and a client for it.

use std::net::Ipv4Addr;

use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::ClientOptions;
use mongodb::{Client, Database};
use sundown::Sundown;
use sundown::clock::{Clock, Millis};
use sundown::config::{Config, Topology};

use crate::raw::PATIENCE;

pub const START: Millis = Millis(1_893_456_000_000);

pub struct TestServer {
    pub server: Sundown,
    pub clock: Clock,
    pub client: Client,
    pub database: Database,
}

pub async fn test_server(topology: Topology) -> TestServer {
    let clock = Clock::frozen(START);
    let config = Config {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        enable_test_commands: true,
        topology,
        shutdown_timeout: PATIENCE,
        ..Config::default()
    };
    let server = Sundown::start(config, clock.clone()).await.unwrap();
    let mut options = ClientOptions::parse(server.uri()).await.unwrap();
    options.server_selection_timeout = Some(PATIENCE);
    options.connect_timeout = Some(PATIENCE);
    let client = Client::with_options(options).unwrap();
    let database = client.database("shop");
    TestServer {
        server,
        clock,
        client,
        database,
    }
}

pub async fn default_server() -> TestServer {
    test_server(Topology::Router).await
}

pub fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        ErrorKind::Command(error) => Some(error.code),
        ErrorKind::InsertMany(error) => Some(error.write_errors.as_ref()?.first()?.code),
        _ => None,
    }
}
