//! Whose rights the commands of clients have: Sundown's own, or the clients'.

use bson::{Document, doc};
use mongodb::Client as Driver;
use sundown::auth::{RoleName, User, UserName};
use sundown::clock::{Clock, Millis};
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

/// A client that may not delete takes the place of ended documents all the same. In a transaction they are deleted by the
/// transaction, so there the client needs the right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ended_documents_make_way_with_sundowns_rights() {
    let test = "ended_documents_make_way_with_sundowns_rights";
    let Some(cluster) = Cluster::start(Kind::Guarded, test).await else {
        return;
    };
    let uri = format!("mongodb://root:secret@{}/", cluster.address());
    let root = Driver::with_uri_str(&uri).await.unwrap();
    let carts = doc! {"db": "shop", "collection": "carts"};
    let role = doc! {"createRole": "writer", "roles": [], "privileges": [
        {"resource": carts, "actions": ["find", "insert", "update"]},
    ]};
    let user = doc! {"createUser": "ann", "pwd": "tea", "roles": ["writer"]};
    let reader =
        doc! {"createUser": "ben", "pwd": "milk", "roles": [{"role": "read", "db": "shop"}]};
    for command in [role, user, reader] {
        root.database("admin").run_command(command).await.unwrap();
    }
    let stored = root.database("shop").collection::<Document>("carts");
    let clock = Clock::frozen(Millis(1_893_456_000_000));
    let server = Sundown::start(clients_log_in(&uri), clock.clone()).await;
    let server = server.unwrap();
    let root = connect(&server, "root:secret", "?retryWrites=false").await;
    let create = doc! {"create": "carts", "defaultTtl": 10};
    root.database("shop").run_command(create).await.unwrap();
    let ann = connect(&server, "ann:tea", "?retryWrites=false").await;
    insert(&ann, 1).await.unwrap();
    let refused = insert(&ann, 1).await.unwrap_err();
    assert!(refused.contains("E11000"), "{refused}");
    clock.advance(10_000);
    insert(&ann, 1).await.unwrap();
    clock.advance(10_000);
    // One that may not write makes nothing go away.
    let ben = connect(&server, "ben:milk", "?retryWrites=false").await;
    let shop = ben.database("shop");
    let change = doc! {"$set": {"a": 1}};
    let merge = doc! {"$merge": {"into": "carts"}};
    for write in [
        doc! {"update": "carts", "updates": [{"q": {"_id": 1}, "u": &change, "upsert": true}]},
        doc! {"findAndModify": "carts", "query": {"_id": 1}, "update": &change, "upsert": true},
        doc! {"aggregate": "carts", "pipeline": [merge], "cursor": {}},
    ] {
        let refused = shop.run_command(write).await.unwrap_err().to_string();
        assert!(refused.contains("not authorized"), "{refused}");
    }
    assert_eq!(stored.count_documents(doc! {}).await.unwrap(), 1);
    let carts = ann.database("shop").collection::<Document>("carts");
    let upserted = carts.update_one(doc! {"_id": 1}, doc! {"$set": {"a": 1}});
    let upserted = upserted.upsert(true).await.unwrap();
    assert_eq!(upserted.upserted_id, Some(1.into()));
    assert!(carts.delete_one(doc! {}).await.is_err());
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

/// The README tells these roles. Everything that Sundown does by itself works with them: settings, rules, takeovers, views.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_roles_are_enough() {
    let Some(cluster) = Cluster::start(Kind::Guarded, "the_least_roles_are_enough").await else {
        return;
    };
    let root = format!("mongodb://root:secret@{}/", cluster.address());
    let root = Driver::with_uri_str(&root).await.unwrap();
    let role = |role: &str, db: &str| doc! {"role": role, "db": db};
    let any = ["readWriteAnyDatabase", "dbAdminAnyDatabase"].map(|name| role(name, "admin"));
    let some = [
        role("readWrite", "sundown"),
        role("readWrite", "shop"),
        role("dbAdmin", "shop"),
    ];
    for (user, roles) in [("any", any.to_vec()), ("some", some.to_vec())] {
        let create = doc! {"createUser": user, "pwd": "tea", "roles": roles};
        root.database("admin").run_command(create).await.unwrap();
        let uri = format!("mongodb://{user}:tea@{}/", cluster.address());
        for login in [UpstreamLogin::Own, UpstreamLogin::Clients] {
            let mut config = in_front_of(&uri);
            config.upstream.as_mut().unwrap().login = login;
            let server = Sundown::start(config, Clock::system()).await.unwrap();
            let client = match login {
                UpstreamLogin::Own => Driver::with_uri_str(server.uri()).await.unwrap(),
                UpstreamLogin::Clients => connect(&server, &format!("{user}:tea"), "").await,
            };
            let shop = client.database("shop");
            let run = async |command: Document| {
                let shown = command.to_string();
                let ran = shop.run_command(command).await;
                ran.unwrap_or_else(|problem| panic!("{user}, {login:?}: {shown}: {problem}"))
            };
            run(doc! {"create": "carts", "defaultTtl": 1}).await;
            let date = doc! {"key": {"at": 1}, "name": "at_1", "expireAfterSeconds": 1};
            run(doc! {"createIndexes": "carts", "indexes": [date]}).await;
            run(doc! {"create": "all", "viewOn": "carts", "pipeline": []}).await;
            run(doc! {"insert": "carts", "documents": [{"_id": 1}]}).await;
            let view = shop.collection::<Document>("all");
            while view.find_one(doc! {}).await.unwrap().is_some() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await; // real time: a document ends
            }
            run(doc! {"insert": "carts", "documents": [{"_id": 1}]}).await;
            run(doc! {"collMod": "carts", "defaultTtl": 1_000}).await;
            run(doc! {"collStats": "carts"}).await;
            run(doc! {"listIndexes": "carts"}).await;
            run(doc! {"listCollections": 1}).await;
            run(doc! {"dropIndexes": "carts", "index": "*"}).await;
            run(doc! {"drop": "all"}).await;
            run(doc! {"drop": "carts"}).await;
        }
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
