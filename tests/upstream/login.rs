//! Whose rights the commands of clients have: Sundown's own, or the clients'.

use bson::{Document, doc};
use mongodb::Client as Driver;
use sundown::auth::{RoleName, User, UserName};
use sundown::clock::Clock;
use sundown::config::{Accounts, UpstreamLogin};
use sundown::{Config, Sundown};

use crate::cluster::{Cluster, Kind, in_front_of};

async fn connect(server: &Sundown, user: &str, options: &str) -> Driver {
    let uri = format!("mongodb://{user}@{}/{options}", server.local_addr());
    Driver::with_uri_str(uri).await.unwrap()
}

async fn insert(client: &Driver, id: i32) -> Result<(), String> {
    let carts = client.database("shop").collection::<Document>("carts");
    let inserted = carts.insert_one(doc! {"_id": id}).await;
    inserted.map(drop).map_err(|error| error.to_string())
}

fn clients_log_in(uri: &str) -> Config {
    let mut config = in_front_of(uri);
    config.upstream.as_mut().unwrap().login = UpstreamLogin::Clients;
    config
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_log_in_to_the_cluster() {
    let Some(cluster) = Cluster::start(Kind::Guarded, "clients_log_in_to_the_cluster").await else {
        return;
    };
    let uri = format!("mongodb://root:secret@{}/", cluster.address());
    let root = Driver::with_uri_str(&uri).await.unwrap();
    let reader =
        doc! {"createUser": "ann", "pwd": "tea", "roles": [{"role": "read", "db": "shop"}]};
    root.database("admin").run_command(reader).await.unwrap();

    let server = Sundown::start(clients_log_in(&uri), Clock::system()).await;
    let server = server.unwrap();
    for mechanism in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
        let options = format!("?retryWrites=false&authMechanism={mechanism}");
        let root = connect(&server, "root:secret", &options).await;
        insert(&root, mechanism.len() as i32).await.unwrap();
        let ann = connect(&server, "ann:tea", &options).await;
        let carts = ann.database("shop").collection::<Document>("carts");
        carts.count_documents(doc! {}).await.unwrap();
        let refused = insert(&ann, 7).await.unwrap_err();
        assert!(refused.contains("not authorized"), "{refused}");
        let stranger = connect(&server, "ann:coffee", &options).await;
        let refused = insert(&stranger, 8).await.unwrap_err();
        assert!(refused.contains("Authentication failed"), "{refused}");
    }
    let nobody = Driver::with_uri_str(server.uri()).await.unwrap();
    assert!(insert(&nobody, 9).await.is_err());

    // Sundown itself has no rights without a user in its URI.
    let bare = format!("mongodb://{}/", cluster.address());
    let started = Sundown::start(clients_log_in(&bare), Clock::system()).await;
    let said = started.unwrap_err().to_string();
    assert!(said.contains("needs a user of its own"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sundowns_own_users_hold_towards_clients() {
    let Some(cluster) = Cluster::start(Kind::Guarded, "sundowns_own_users_hold").await else {
        return;
    };
    for mechanism in [
        "",
        "?authMechanism=SCRAM-SHA-1",
        "?authMechanism=SCRAM-SHA-256",
    ] {
        let uri = format!("mongodb://root:secret@{}/{mechanism}", cluster.address());
        let mut config = in_front_of(&uri);
        config.accounts = accounts();
        let server = Sundown::start(config, Clock::system()).await.unwrap();
        let ben = connect(&server, "ben:milk", "?retryWrites=false").await;
        let carts = ben.database("shop").collection::<Document>("carts");
        carts.count_documents(doc! {}).await.unwrap();
        let refused = insert(&ben, 1).await.unwrap_err();
        assert!(refused.contains("not authorized"), "{refused}");
        let nobody = Driver::with_uri_str(server.uri()).await.unwrap();
        let refused = insert(&nobody, 2).await.unwrap_err();
        assert!(refused.contains("requires authentication"), "{refused}");
    }
}

/// A user that Sundown knows and the cluster does not.
fn accounts() -> Accounts {
    let roles = vec![RoleName::new("read", "shop")];
    let ben = User::with_password(UserName::new("ben", "admin"), "milk", roles);
    Accounts {
        list: vec![ben.unwrap()],
        required: false,
    }
}
