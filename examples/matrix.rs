//! Prints which document ends when, by asking a server.
//!
//! `cargo run --example matrix`
//!
//! There is one collection for each DefaultTTL and one document for each ttl. The example moves the clock from moment to moment
//! and asks each time which documents are still there.

use std::collections::BTreeSet;
use std::error::Error;

use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, Database};
use sundown::{Clock, Config, Millis, Sundown};

const DEFAULTS: &[(&str, Option<i32>)] = &[("off", None), ("-1", Some(-1)), ("10", Some(10))];

/// The moments at which the server is asked, in milliseconds after the insert.
const MOMENTS: &[i64] = &[
    0,
    9_999,
    10_000,
    19_999,
    20_000,
    100 * 365 * 86_400_000, // a hundred years
];

/// The `ttl` of each document; `None` for a document without one.
fn ttls() -> Vec<(&'static str, Option<Bson>)> {
    vec![
        ("missing", None),
        ("-1", Some(Bson::Int32(-1))),
        ("20", Some(Bson::Int32(20))),
        ("NumberLong(20)", Some(Bson::Int64(20))),
        ("20.0", Some(Bson::Double(20.0))),
        ("20.5", Some(Bson::Double(20.5))),
        ("\"20\"", Some(Bson::String("20".into()))),
        ("0", Some(Bson::Int32(0))),
        ("-5", Some(Bson::Int32(-5))),
        ("null", Some(Bson::Null)),
    ]
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let start = Millis(1_900_000_000_000);
    let clock = Clock::frozen(start);
    let config = Config {
        port: 0,
        ..Config::default()
    };
    let server = Sundown::start(config, clock.clone()).await?;
    let database = Client::with_uri_str(server.uri()).await?.database("matrix");

    for (name, default) in DEFAULTS {
        fill(&database, name, *default).await?;
    }
    // For each collection, the documents that were there at each moment.
    let mut seen: Vec<Vec<BTreeSet<String>>> = vec![Vec::new(); DEFAULTS.len()];
    for moment in MOMENTS {
        clock.set(Millis(start.0 + moment));
        for ((name, _), seen) in DEFAULTS.iter().zip(&mut seen) {
            seen.push(living(&database, name).await?);
        }
    }

    println!(
        "{:<16}| DefaultTTL off | DefaultTTL -1  | DefaultTTL 10",
        "ttl"
    );
    println!(
        "{:-<16}|----------------|----------------|---------------",
        ""
    );
    for (name, _) in ttls() {
        let ends: Vec<String> = seen.iter().map(|seen| end(name, seen)).collect();
        println!(
            "{name:<16}| {:<14} | {:<14} | {}",
            ends[0], ends[1], ends[2]
        );
    }
    let row = |name: &str| -> Vec<String> { seen.iter().map(|seen| end(name, seen)).collect() };
    assert_eq!(row("missing"), ["stays", "stays", "gone at 10 s"]);
    assert_eq!(row("-1"), ["stays", "stays", "stays"]);
    assert_eq!(row("20"), ["stays", "gone at 20 s", "gone at 20 s"]);
    server.stop().await;
    Ok(())
}

async fn fill(database: &Database, name: &str, default: Option<i32>) -> mongodb::error::Result<()> {
    database
        .run_command(doc! {"create": name, "defaultTtl": default})
        .await?;
    let documents = ttls().into_iter().map(|(name, ttl)| {
        let mut document = doc! {"_id": name};
        document.extend(ttl.map(|ttl| ("ttl".to_owned(), ttl)));
        document
    });
    database
        .collection::<Document>(name)
        .insert_many(documents)
        .await?;
    Ok(())
}

async fn living(database: &Database, name: &str) -> mongodb::error::Result<BTreeSet<String>> {
    let mut found = database.collection::<Document>(name).find(doc! {}).await?;
    let mut names = BTreeSet::new();
    while found.advance().await? {
        let document = found.deserialize_current()?;
        names.extend(document.get_str("_id").ok().map(str::to_owned));
    }
    Ok(names)
}

/// The first moment at which the document was gone.
fn end(name: &str, seen: &[BTreeSet<String>]) -> String {
    match seen.iter().position(|living| !living.contains(name)) {
        Some(nth) => format!("gone at {} s", MOMENTS[nth] as f64 / 1000.0),
        None => "stays".to_owned(),
    }
}
