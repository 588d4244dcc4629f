//! A server inside a test, with a clock of its own: an hour passes in a microsecond.
//!
//! `cargo run --example embed`

// --- shown in the README
use mongodb::{Client, bson::doc};
use sundown::{Clock, Config, Millis, Sundown};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Time stands still at this moment until the test moves it. Port 0 picks a free port.
    let clock = Clock::frozen(Millis(1_900_000_000_000));
    let config = Config {
        port: 0,
        ..Config::default()
    };
    let server = Sundown::start(config, clock.clone()).await?;
    let client = Client::with_uri_str(server.uri()).await?;
    let database = client.database("shop");
    database
        .run_command(doc! {"create": "carts", "defaultTtl": 3600})
        .await?;
    let carts = database.collection::<mongodb::bson::Document>("carts");
    carts
        .insert_one(doc! {"_id": "ann", "items": ["tea"]})
        .await?;

    clock.advance(3_599_999);
    assert_eq!(carts.count_documents(doc! {}).await?, 1);
    clock.advance(1);
    assert_eq!(carts.count_documents(doc! {}).await?, 0);

    println!("the cart was there for an hour, and not a millisecond longer");
    server.stop().await;
    Ok(())
}
