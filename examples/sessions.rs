//! A store of login sessions: each expires when it has not been used for a while.
//!
//! `cargo run --example sessions`
//!
//! The database does all the work: there is no `expires_at` to compare with and no clean-up job, and an expired session can
//! never be read. The store uses only the driver, so it works on Cosmos DB's API for MongoDB as well. Only [`main`], which moves the
//! clock, needs Sundown.

use std::error::Error;

use mongodb::bson::doc;
use mongodb::{Client, Collection, Database};
use serde::{Deserialize, Serialize};
use sundown::{Clock, Config, Sundown};

/// How long a session lives when it is not used: half an hour, or thirty days for those who asked to be remembered.
const SHORT: i32 = 30 * 60;
const LONG: i32 = 30 * 24 * 60 * 60;

#[derive(Debug, Serialize, Deserialize)]
struct Session {
    #[serde(rename = "_id")]
    token: String,
    user: String,
    requests: i32,
    /// Seconds after the last write.
    ttl: i32,
}

struct Store(Collection<Session>);

// === impl Store ===

impl Store {
    /// The default is -1, so only documents with their own `ttl` expire.
    async fn open(database: &Database) -> mongodb::error::Result<Self> {
        let index = doc! {"key": {"_ts": 1}, "name": "_ts_1", "expireAfterSeconds": -1};
        database
            .run_command(doc! {"createIndexes": "sessions", "indexes": [index]})
            .await?;
        Ok(Self(database.collection("sessions")))
    }

    async fn log_in(&self, token: &str, user: &str, ttl: i32) -> mongodb::error::Result<()> {
        let session = Session {
            token: token.into(),
            user: user.into(),
            requests: 0,
            ttl,
        };
        self.0.insert_one(session).await?;
        Ok(())
    }

    /// The user of a session. The write restarts the session's clock.
    async fn request(&self, token: &str) -> mongodb::error::Result<Option<String>> {
        let found = self
            .0
            .find_one_and_update(doc! {"_id": token}, doc! {"$inc": {"requests": 1}})
            .await?;
        Ok(found.map(|session| session.user))
    }

    async fn log_out(&self, token: &str) -> mongodb::error::Result<()> {
        self.0.delete_one(doc! {"_id": token}).await?;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::system();
    let config = Config {
        port: 0,
        ..Config::default()
    };
    let server = Sundown::start(config, clock.clone()).await?;
    let client = Client::with_uri_str(server.uri()).await?;
    let store = Store::open(&client.database("site")).await?;

    store.log_in("t1", "ann", SHORT).await?;
    store.log_in("t2", "ben", LONG).await?;
    store.log_in("t3", "cid", SHORT).await?;
    store.log_out("t3").await?;

    let minutes = |n: i64| clock.advance(n * 60_000);
    for (step, wait) in [(1, 0), (2, 29), (3, 29), (4, 31)] {
        minutes(wait);
        println!("{step}. after another {wait} minutes:");
        for token in ["t1", "t2", "t3"] {
            match store.request(token).await? {
                Some(user) => println!("   {token} is {user}"),
                None => println!("   {token} is nobody: log in, please"),
            }
        }
    }
    assert_eq!(store.request("t1").await?, None, "31 minutes were too long");
    assert_eq!(store.request("t2").await?.as_deref(), Some("ben"));
    assert_eq!(store.request("t3").await?, None);
    server.stop().await;
    Ok(())
}
