//! A server inside a test, with its own clock: an hour passes in a microsecond.
//!
//! `cargo run --example embed`

// --- shown in the README
use mongodb::{Client, bson::Document, bson::doc};
use sundown::{Clock, Config, Millis, Sundown};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The clock stands still until the test moves it. Port 0 picks a free port.
    let clock = Clock::frozen(Millis(1_900_000_000_000));
    let config = Config {
        port: 0,
        ..Config::default()
    };
    let server = Sundown::start(config, clock.clone()).await?;
    let shop = Client::with_uri_str(server.uri()).await?.database("shop");
    let create = doc! {"create": "carts", "defaultTtl": 3600};
    shop.run_command(create).await?;
    let carts = shop.collection::<Document>("carts");
    carts.insert_one(doc! {"_id": "ann"}).await?;

    clock.advance(3_599_999);
    assert_eq!(carts.count_documents(doc! {}).await?, 1);
    clock.advance(1);
    assert_eq!(carts.count_documents(doc! {}).await?, 0);

    println!("the cart lived for an hour, and not a millisecond longer");
    server.stop().await;
    Ok(())
}
