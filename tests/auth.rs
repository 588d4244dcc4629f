//! Logging in: as the official driver does it, and as an attacker might try it.

#![allow(clippy::unwrap_used)] // a panic says where

use std::net::Ipv4Addr;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mongodb::bson::{Binary, Bson, Document, doc, spec::BinarySubtype};
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{AuthMechanism, ClientOptions, Credential};
use sundown::Sundown;
use sundown::auth::{RoleName, User, UserName};
use sundown::clock::{Clock, Millis, monotonic};
use sundown::config::{Accounts, Config};

#[path = "support/client.rs"]
mod raw;

/// Far longer than any step takes. Only a server that hangs reaches it.
const LATE: Duration = Duration::from_secs(120);

const START: Millis = Millis(1_893_456_000_000);

/// Users as (name, database, password, role).
async fn server(users: &[[&str; 4]], required: bool) -> Sundown {
    let list = users
        .iter()
        .map(|[name, db, password, role]| {
            let (role, place) = role.split_once('@').unwrap();
            let roles = vec![RoleName::new(role, place)];
            User::with_password(UserName::new(*name, *db), password, roles).unwrap()
        })
        .collect();
    let config = Config {
        bind: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        accounts: Accounts { list, required },
        ..Config::default()
    };
    Sundown::start(config, Clock::frozen(START)).await.unwrap()
}

/// Starts a server with one user who may read and write `shop` and one who may do everything.
async fn shop() -> Sundown {
    let ann = ["ann", "shop", "p\u{e4}ss, w=rd", "readWrite@shop"];
    let root = ["root", "admin", "toor", "root@admin"];
    server(&[ann, root], false).await
}

/// Returns driver options with a timeout that is long enough for a busy machine.
async fn options(server: &Sundown) -> ClientOptions {
    let mut options = ClientOptions::parse(server.uri()).await.unwrap();
    options.server_selection_timeout = Some(LATE);
    options.connect_timeout = Some(LATE);
    options
}

async fn stranger(server: &Sundown) -> mongodb::Client {
    mongodb::Client::with_options(options(server).await).unwrap()
}

async fn client(
    server: &Sundown,
    user: &str,
    source: &str,
    password: &str,
    mechanism: Option<AuthMechanism>,
) -> mongodb::Client {
    let mut options = options(server).await;
    let mut credential = Credential::builder()
        .username(user.to_owned())
        .source(source.to_owned())
        .password(password.to_owned())
        .build();
    credential.mechanism = mechanism;
    options.credential = Some(credential);
    mongodb::Client::with_options(options).unwrap()
}

fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(error) => Some(error.code),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_mechanisms_log_in_and_the_default_is_negotiated() {
    let server = shop().await;
    for mechanism in [
        None,
        Some(AuthMechanism::ScramSha1),
        Some(AuthMechanism::ScramSha256),
    ] {
        let client = client(&server, "ann", "shop", "p\u{e4}ss, w=rd", mechanism.clone()).await;
        let books = client.database("shop").collection::<Document>("books");
        books.insert_one(doc! {"a": 1}).await.unwrap();
        assert!(
            books.count_documents(doc! {}).await.unwrap() > 0,
            "{mechanism:?}"
        );
        let status = client
            .database("shop")
            .run_command(doc! {"connectionStatus": 1, "showPrivileges": true})
            .await
            .unwrap();
        let info = status.get_document("authInfo").unwrap();
        let users: Vec<Bson> = vec![doc! {"user": "ann", "db": "shop"}.into()];
        assert_eq!(info.get_array("authenticatedUsers").unwrap(), &users);
        let roles: Vec<Bson> = vec![doc! {"role": "readWrite", "db": "shop"}.into()];
        assert_eq!(info.get_array("authenticatedUserRoles").unwrap(), &roles);
        assert!(
            !info
                .get_array("authenticatedUserPrivileges")
                .unwrap()
                .is_empty()
        );
        let other = client.database("other").collection::<Document>("books");
        let refused = other.insert_one(doc! {}).await.unwrap_err();
        assert_eq!(code(&refused), Some(13), "{refused}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_a_driver_works_as_its_user() {
    let server = shop().await;
    let client = client(&server, "root", "admin", "toor", None).await;
    let books = client.database("shop").collection::<Document>("books");
    let many: Vec<_> = (0..500).map(|n| doc! {"_id": n}).collect();
    books.insert_many(many).await.unwrap();
    let mut session = client.start_session().await.unwrap();
    let mut cursor = books
        .find(doc! {})
        .batch_size(100)
        .session(&mut session)
        .await
        .unwrap();
    let mut seen = 0;
    while cursor
        .next(&mut session)
        .await
        .transpose()
        .unwrap()
        .is_some()
    {
        seen += 1;
    }
    assert_eq!(seen, 500);
    books
        .update_one(doc! {"_id": 1}, doc! {"$set": {"a": 1}})
        .session(&mut session)
        .await
        .unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_logins_reveal_nothing() {
    let server = shop().await;
    let rows = [
        ("ann", "shop", "wrong"),
        ("ann", "admin", "p\u{e4}ss, w=rd"),
        ("nobody", "shop", "p\u{e4}ss, w=rd"),
        ("ann", "shop", "P\u{e4}ss, w=rd"),
    ];
    let mut texts = Vec::new();
    for mechanism in [AuthMechanism::ScramSha1, AuthMechanism::ScramSha256] {
        for (user, source, password) in rows {
            let client = client(&server, user, source, password, Some(mechanism.clone())).await;
            let refused = client
                .database("shop")
                .collection::<Document>("books")
                .find_one(doc! {})
                .await
                .unwrap_err();
            assert!(
                matches!(&*refused.kind, ErrorKind::Authentication { .. }),
                "{refused:?}"
            );
            let text = refused.to_string();
            texts.push(text.replace("SCRAM-SHA-256", "SCRAM-SHA-1"));
        }
    }
    texts.dedup();
    assert_eq!(texts.len(), 1, "{texts:?}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_works_before_login_and_localhost_may_create_the_first_user() {
    let server = server(&[], true).await;
    let stranger = stranger(&server).await;
    let find = stranger.database("shop").collection::<Document>("c");
    assert_eq!(code(&find.find_one(doc! {}).await.unwrap_err()), Some(13));
    let create = doc! {"createUser": "boss", "pwd": "secret", "roles": ["root"]};
    stranger
        .database("admin")
        .run_command(create.clone())
        .await
        .unwrap();
    let again = stranger
        .database("admin")
        .run_command(create)
        .await
        .unwrap_err();
    assert_eq!(
        code(&again),
        Some(13),
        "the exception was for the first one"
    );
    let boss = client(&server, "boss", "admin", "secret", None).await;
    let read = doc! {"role": "read", "db": "shop"};
    let make = doc! {"createUser": "bob", "pwd": "builder", "roles": [read], "mechanisms": ["SCRAM-SHA-1"]};
    let admin = boss.database("admin");
    admin.run_command(make).await.unwrap();
    // Negotiation finds the only mechanism of a user. (The driver negotiates for users of `admin` only.)
    let bob = client(&server, "bob", "admin", "builder", None).await;
    let books = bob.database("shop").collection::<Document>("books");
    assert_eq!(books.find_one(doc! {}).await.unwrap(), None);
    let refused = books.insert_one(doc! {}).await.unwrap_err();
    assert_eq!(code(&refused), Some(13));
    // A change of a user takes effect at once, also on open connections.
    let write = doc! {"role": "readWrite", "db": "shop"};
    let change = doc! {"updateUser": "bob", "roles": [write]};
    admin.run_command(change).await.unwrap();
    books.insert_one(doc! {}).await.unwrap();
    admin.run_command(doc! {"dropUser": "bob"}).await.unwrap();
    let gone = books.find_one(doc! {}).await.unwrap_err();
    assert_eq!(code(&gone), Some(13));
    server.stop().await;
}

/// A client that builds its own messages. It uses the server's cryptography, whose own tests compare it with the RFCs.
mod scram {
    use super::*;
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::{Digest, Sha256};

    fn hmac(key: &[u8], message: &str) -> Vec<u8> {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(message.as_bytes());
        mac.finalize().into_bytes().to_vec()
    }

    /// Returns the client's final message, given its own first message and the server's.
    pub fn proof(password: &str, bare: &str, first: &str) -> String {
        let field = |letter: &str| {
            let found = first.split(',').find_map(|part| part.strip_prefix(letter));
            found.unwrap_or_else(|| panic!("{first}")).to_owned()
        };
        let salt = STANDARD.decode(field("s=")).unwrap();
        let rounds = field("i=").parse().unwrap();
        let mut salted = [0; 32];
        pbkdf2::pbkdf2::<Hmac<Sha256>>(password.as_bytes(), &salt, rounds, &mut salted).unwrap();
        let key = hmac(&salted, "Client Key");
        let unproved = format!("c=biws,r={}", field("r="));
        let signature = hmac(&Sha256::digest(&key), &format!("{bare},{first},{unproved}"));
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        format!("{unproved},p={}", STANDARD.encode(proof))
    }
}

const BARE: &str = "n=root,r=abcdefghijklmnop";

fn binary(text: &str) -> Bson {
    Bson::Binary(Binary {
        subtype: BinarySubtype::Generic,
        bytes: text.as_bytes().to_vec(),
    })
}

fn text(reply: &Document) -> String {
    match reply.get("payload") {
        Some(Bson::Binary(payload)) => String::from_utf8(payload.bytes.clone()).unwrap(),
        Some(Bson::String(payload)) => {
            String::from_utf8(STANDARD.decode(payload).unwrap()).unwrap()
        }
        _ => panic!("{reply}"),
    }
}

fn start(payload: Bson) -> Document {
    doc! {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": payload}
}

fn go_on(payload: Bson) -> Document {
    doc! {"saslContinue": 1, "conversationId": 1, "payload": payload}
}

/// Runs `talk` with a raw client. The client blocks its thread, so it gets a thread of its own.
async fn talk(server: &Sundown, talk: impl FnOnce(&mut raw::Client) + Send + 'static) {
    let address = server.local_addr();
    tokio::task::spawn_blocking(move || talk(&mut raw::Client::connect(address).unwrap()))
        .await
        .unwrap();
}

fn find(client: &mut raw::Client) -> Option<i32> {
    let reply = client.command("shop", doc! {"find": "c"}).unwrap();
    reply.get_i32("code").ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_and_without_the_empty_exchange_as_binary_and_as_text() {
    let server = shop().await;
    for (skip, in_text) in [(false, false), (true, false), (false, true), (true, true)] {
        talk(&server, move |client| {
            let dress = |message: &str| {
                if in_text {
                    Bson::String(STANDARD.encode(message))
                } else {
                    binary(message)
                }
            };
            let mut begin = start(dress(&format!("n,,{BARE}")));
            if skip {
                begin.insert("options", doc! {"skipEmptyExchange": true});
            }
            let first = client.command("admin", begin).unwrap();
            assert_eq!(first.get_bool("done").ok(), Some(false), "{first}");
            let proof = scram::proof("toor", BARE, &text(&first));
            let second = client.command("admin", go_on(dress(&proof))).unwrap();
            assert_eq!(second.get_bool("done").ok(), Some(skip), "{second}");
            assert!(text(&second).starts_with("v="));
            if !skip {
                assert_eq!(find(client), Some(13), "not yet");
                let third = client.command("admin", go_on(dress(""))).unwrap();
                assert_eq!(third.get_bool("done").ok(), Some(true), "{third}");
                assert_eq!(text(&third), "");
            }
            assert_eq!(find(client), None);
            assert_eq!(
                client
                    .command("admin", doc! {"logout": 1})
                    .unwrap()
                    .get_f64("ok")
                    .ok(),
                Some(1.0)
            );
            assert_eq!(find(client), Some(13));
        })
        .await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hello_can_start_the_login_and_does_not_report_failures() {
    let server = shop().await;
    talk(&server, |client| {
        let mut begin = start(binary(&format!("n,,{BARE}")));
        begin.insert("db", "admin");
        begin.insert("options", doc! {"skipEmptyExchange": true});
        let hello =
            doc! {"hello": 1, "saslSupportedMechs": "admin.root", "speculativeAuthenticate": begin};
        let reply = client.command("admin", hello).unwrap();
        let both: Vec<Bson> = vec!["SCRAM-SHA-1".into(), "SCRAM-SHA-256".into()];
        assert_eq!(reply.get_array("saslSupportedMechs").unwrap(), &both);
        let first = text(reply.get_document("speculativeAuthenticate").unwrap());
        let proof = scram::proof("toor", BARE, &first);
        let last = client.command("admin", go_on(binary(&proof))).unwrap();
        assert_eq!(last.get_bool("done").ok(), Some(true), "{last}");
        assert_eq!(find(client), None);
    })
    .await;
    talk(&server, |client| {
        for wrong in [
            doc! {"saslStart": 1, "mechanism": "MONGODB-X509", "payload": binary("x"), "db": "$external"},
            doc! {"authenticate": 1, "mechanism": "MONGODB-X509", "db": "$external"},
            doc! {"saslStart": 1, "mechanism": "SCRAM-SHA-256", "payload": binary("n,,x"), "db": "admin"},
            doc! {},
        ] {
            let hello = doc! {"hello": 1, "speculativeAuthenticate": wrong.clone()};
            let reply = client.command("admin", hello).unwrap();
            assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{wrong}: {reply}");
            assert!(!reply.contains_key("speculativeAuthenticate"), "{wrong}: {reply}");
        }
        // An unknown user gets the same kind of reply as a known one: the same mechanisms, and always the same salt.
        let mut begin = start(binary("n,,n=nobody,r=abcdefghijklmnop"));
        begin.insert("db", "admin");
        let hello = doc! {"hello": 1, "saslSupportedMechs": "admin.nobody", "speculativeAuthenticate": begin};
        let salt = |client: &mut raw::Client| {
            let reply = client.command("admin", hello.clone()).unwrap();
            assert_eq!(reply.get_array("saslSupportedMechs").unwrap().len(), 2);
            let first = text(reply.get_document("speculativeAuthenticate").unwrap());
            first.split_once(",s=").unwrap().1.to_owned()
        };
        assert_eq!(salt(client), salt(client));
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_payloads_get_one_error_and_keep_the_connection() {
    let server = shop().await;
    talk(&server, |client| {
        let failed = |reply: &Document| {
            assert_eq!(reply.get_i32("code").ok(), Some(18), "{reply}");
            assert_eq!(reply.get_str("errmsg").unwrap(), "Authentication failed.");
            assert_eq!(reply.get_str("codeName").unwrap(), "AuthenticationFailed");
        };
        let long = "x".repeat(1 << 20);
        for payload in [
            "",
            "n",
            "n,,",
            ",,,,",
            "n,,n=,r=",
            "p=x,,n=root,r=a",
            "n,,n=root,r=\u{e9}",
            long.as_str(),
        ] {
            failed(&client.command("admin", start(binary(payload))).unwrap());
        }
        failed(
            &client
                .command("admin", start(Bson::String("no base64!".into())))
                .unwrap(),
        );
        for proof in [
            "",
            "c=biws",
            "c=biws,r=,p=",
            "c=biws,r=abcdefghijklmnop,p=AAAA",
            ",p=",
            "p=x,p=y,p=z",
            long.as_str(),
        ] {
            client
                .command("admin", start(binary(&format!("n,,{BARE}"))))
                .unwrap();
            failed(&client.command("admin", go_on(binary(proof))).unwrap());
        }
        let rows: Vec<(Document, &str, i32)> = vec![
            (go_on(binary("x")), "admin", 17),
            (
                doc! {"saslStart": 1, "mechanism": "PLAIN", "payload": ""},
                "admin",
                334,
            ),
            (
                doc! {"saslStart": 1, "mechanism": "SCRAM-SHA-256"},
                "admin",
                40414,
            ),
            (
                doc! {"saslStart": 1, "mechanism": 5, "payload": ""},
                "admin",
                14,
            ),
            (start(Bson::Int32(5)), "admin", 14),
            (doc! {"saslContinue": 1, "payload": ""}, "admin", 40414),
        ];
        for (command, db, code) in rows {
            let reply = client.command(db, command.clone()).unwrap();
            assert_eq!(reply.get_i32("code").ok(), Some(code), "{command}: {reply}");
        }
        // A conversation belongs to one database and has one id, and the client can send only one proof.
        for (command, db) in [
            (
                doc! {"saslContinue": 1, "conversationId": 2, "payload": ""},
                "admin",
            ),
            (go_on(binary("x")), "shop"),
        ] {
            client
                .command("admin", start(binary(&format!("n,,{BARE}"))))
                .unwrap();
            assert_eq!(
                client.command(db, command).unwrap().get_i32("code").ok(),
                Some(17)
            );
            assert_eq!(
                client
                    .command("admin", go_on(binary("x")))
                    .unwrap()
                    .get_i32("code")
                    .ok(),
                Some(17)
            );
        }
        assert_eq!(find(client), Some(13));
    })
    .await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_failures_are_slowed_down_and_others_are_not() {
    let server = shop().await;
    talk(&server, |client| {
        let begun = monotonic();
        for _ in 0..6 {
            client
                .command("admin", start(binary(&format!("n,,{BARE}"))))
                .unwrap();
            let reply = client.command("admin", go_on(binary("wrong"))).unwrap();
            assert_eq!(reply.get_i32("code").ok(), Some(18));
        }
        // The first three failures cause no delay, the next ones 100, 200 and 400 milliseconds.
        assert!(
            begun.elapsed() >= Duration::from_millis(700),
            "{:?}",
            begun.elapsed()
        );
    })
    .await;
    let ann = client(&server, "ann", "shop", "p\u{e4}ss, w=rd", None).await;
    let books = ann.database("shop").collection::<Document>("books");
    books.find_one(doc! {}).await.unwrap();
    server.stop().await;
}

/// The password may change between the client's proof and the empty message that ends the conversation.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_password_does_not_log_in() {
    let server = shop().await;
    let address = server.local_addr();
    for change in [
        doc! {"updateUser": "root", "pwd": "another"},
        doc! {"dropUser": "root"},
    ] {
        let password = if change.contains_key("pwd") {
            "toor"
        } else {
            "another"
        };
        talk(&server, move |client| {
            let log_in = |client: &mut raw::Client, finish: bool| {
                let begin = start(binary(&format!("n,,{BARE}")));
                let first = client.command("admin", begin).unwrap();
                let proof = scram::proof(password, BARE, &text(&first));
                let second = client.command("admin", go_on(binary(&proof))).unwrap();
                assert!(text(&second).starts_with("v="), "{second}");
                if finish {
                    client.command("admin", go_on(binary(""))).unwrap();
                }
            };
            log_in(client, false);
            let mut other = raw::Client::connect(address).unwrap();
            log_in(&mut other, true);
            let changed = other.command("admin", change).unwrap();
            assert_eq!(changed.get_f64("ok").ok(), Some(1.0), "{changed}");
            let last = client.command("admin", go_on(binary(""))).unwrap();
            assert_eq!(last.get_i32("code").ok(), Some(18), "{last}");
            assert_eq!(find(client), Some(13));
        })
        .await;
    }
    server.stop().await;
}

/// While a proof is delayed, other users see the command in currentOp but not its payload.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_payloads_are_not_in_current_op() {
    let root = ["root", "admin", "toor", "root@admin"];
    let watch = ["watch", "admin", "tower", "clusterMonitor@admin"];
    let server = server(&[root, watch], false).await;
    talk(&server, |client| {
        for _ in 0..6 {
            client
                .command("admin", start(binary(&format!("n,,{BARE}"))))
                .unwrap();
            client.command("admin", go_on(binary("wrong"))).unwrap();
        }
    })
    .await;
    let address = server.local_addr();
    let waiting = tokio::task::spawn_blocking(move || {
        let mut client = raw::Client::connect(address).unwrap();
        client
            .command("admin", start(binary(&format!("n,,{BARE}"))))
            .unwrap();
        client.command("admin", go_on(binary("hunter2"))).unwrap()
    });
    // Root's failures do not slow down another user from the same address.
    let watch = client(&server, "watch", "admin", "tower", None).await;
    let shown = loop {
        assert!(!waiting.is_finished(), "it was never seen");
        let reply = watch
            .database("admin")
            .run_command(doc! {"currentOp": 1, "command.saslContinue": 1})
            .await
            .unwrap();
        let running = reply.get_array("inprog").unwrap();
        if let Some(Bson::Document(operation)) = running.first() {
            break operation.clone();
        }
    };
    let command = shown.get_document("command").unwrap();
    assert_eq!(command.get_str("payload").unwrap(), "xxx", "{shown}");
    waiting.await.unwrap();
    server.stop().await;
}
