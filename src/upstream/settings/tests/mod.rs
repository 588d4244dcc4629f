//! Settings in front of a cluster. It is a Sundown in this process, or the one that `SUNDOWN_TEST_CLUSTER` names.

mod basics;
mod changes;
mod ddl;
mod gates;
mod several;
mod sweeping;

use std::time::Duration;

use bson::{Document, doc};
use bytes::Bytes;
use mongodb::Client;
use mongodb::error::ErrorKind;

use super::{RuleSettings, SettingsOptions};
use crate::clock::{Clock, Millis};
use crate::upstream::{Ask, Lost};
use crate::wire::Request;
use crate::{Config, Sundown};

/// A lease that does not end during a test.
const LONG: Duration = Duration::from_secs(60);
/// A lease for tests with two Sundowns. They hear from each other several times in it.
const SHORT: Duration = Duration::from_secs(2);

/// A cluster, a driver that talks to it directly, and the frozen clock of all Sundowns in front of it.
struct TestCluster {
    clock: Clock,
    client: Client,
    /// The database of this test alone.
    database: String,
    _server: Option<Sundown>,
}

impl TestCluster {
    async fn start() -> Self {
        let clock = Clock::frozen(Millis(1_893_456_000_000));
        let (uri, server) = match std::env::var("SUNDOWN_TEST_CLUSTER") {
            Ok(uri) => (uri, None),
            Err(_) => {
                let config = Config {
                    port: 0,
                    ..Config::default()
                };
                let server = Sundown::start(config, clock.clone()).await.unwrap();
                (server.uri(), Some(server))
            }
        };
        let client = Client::with_uri_str(uri).await.unwrap();
        if server.is_none() {
            // Sundowns of earlier tests are dead, and a change would wait for them.
            client.database("sundown").drop().await.unwrap();
        }
        let database = format!("db{}", uuid::Uuid::new_v4().simple());
        Self {
            clock,
            client,
            database,
            _server: server,
        }
    }

    /// Starts the settings of one Sundown.
    fn settings(&self, lease: Duration) -> RuleSettings {
        let options = SettingsOptions {
            lease,
            patience: Duration::ZERO,
            ..SettingsOptions::default()
        };
        RuleSettings::start(self.client.clone(), self.clock.clone(), &options)
    }

    /// Runs a command directly.
    async fn run(&self, command: Document) -> Document {
        let database = self.client.database(&self.database);
        database.run_command(command).await.unwrap()
    }
}

/// A client's connection to the cluster.
impl Ask for &TestCluster {
    async fn ask(&mut self, request: Request) -> Result<Bytes, Lost> {
        let mut command = Document::from_reader(&request.body[..]).unwrap();
        let database = command.remove("$db");
        let database = database.as_ref().and_then(bson::Bson::as_str);
        let database = self.client.database(database.unwrap());
        let reply = match database.run_command(command).await {
            Ok(reply) => reply,
            Err(error) => match &*error.kind {
                ErrorKind::Command(refused) => {
                    doc! {"ok": 0.0, "code": refused.code, "errmsg": &refused.message}
                }
                other => panic!("{other:?}"),
            },
        };
        Ok(Bytes::from(reply.to_vec().unwrap()))
    }
}
