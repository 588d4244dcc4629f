//! Certificates: generated ones, given ones, those of clients, and new ones while the server runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use mongodb::bson::doc;
use mongodb::options::TlsOptions;
use sundown::clock::Clock;
use sundown::config::{Tls, TlsMode};
use sundown::server::Server;
use sundown::{Backend, Sundown};

use crate::clients::{TLS12, TLS13, TlsClient, driver, trusting, works};
use crate::settings::{Authority, folder, given, kept_in, start, with};

#[tokio::test]
async fn the_authority_is_reused_at_the_next_start() {
    let folder = folder("kept").join("deeper");
    let server = start(kept_in(&folder, TlsMode::Optional)).await;
    server.stop().await;
    let (pem, key) = (folder.join("ca.pem"), folder.join("ca.key"));
    let first = fs::read_to_string(&pem).unwrap();
    assert_eq!(
        fs::metadata(&key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, 2, "nothing is left lying around");
    let client = folder.join("what-a-client-was-given.pem");
    fs::write(&client, &first).unwrap();

    let server = start(kept_in(&folder, TlsMode::Optional)).await;
    assert_eq!(fs::read_to_string(&pem).unwrap(), first);
    trusting(&client).ask(server.local_addr()).await.unwrap();
    server.stop().await;

    // The certificate is missing or belongs to another key: it is written again, and clients that trust the old one still
    // connect.
    for damage in [
        None,
        Some(Authority::new().0.pem()),
        Some("nonsense".into()),
    ] {
        match damage {
            None => fs::remove_file(&pem).unwrap(),
            Some(text) => fs::write(&pem, text).unwrap(),
        }
        let server = start(kept_in(&folder, TlsMode::Optional)).await;
        trusting(&client).ask(server.local_addr()).await.unwrap();
        trusting(&pem).ask(server.local_addr()).await.unwrap();
        server.stop().await;
    }

    // A key that cannot be read is not replaced with one that nobody trusts.
    fs::write(&key, "nonsense").unwrap();
    let refused = Sundown::start(with(kept_in(&folder, TlsMode::Optional)), Clock::system()).await;
    let refused = refused.expect_err("a broken key").to_string();
    assert!(refused.contains("ca.key"), "{refused}");
    assert_eq!(fs::read_to_string(&key).unwrap(), "nonsense");
}

#[tokio::test]
async fn without_a_directory_no_authority_is_written() {
    let tls = Tls {
        mode: TlsMode::Required,
        ..Tls::default()
    };
    let server = start(tls).await;
    let folder = folder("unkept");
    let stranger = Authority::new().write(folder.join("stranger.pem"));
    let refused = trusting(&stranger)
        .ask(server.local_addr())
        .await
        .unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
    let any = TlsOptions::builder()
        .allow_invalid_certificates(true)
        .build();
    assert!(works(&driver(&server, Some(any), true).await).await);
}

#[tokio::test]
async fn a_given_certificate_in_one_file_or_two() {
    let folder = folder("given");
    let authority = Authority::new();
    let ca = authority.write(folder.join("authority.pem"));
    let (certificate, key) = authority.certify("localhost");
    let (_, another) = authority.certify("localhost");
    let file = |name: &str, text: &str| {
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        file
    };
    let both = file("both.pem", &format!("{key}{certificate}"));
    let certificate = file("cert.pem", &certificate);
    let key = file("key.pem", &key);
    let another = file("another.pem", &another);
    let empty = file("empty.pem", "");
    for tls in [given(&certificate, &key), given(&both, &both)] {
        let server = start(tls).await;
        trusting(&ca).ask(server.local_addr()).await.unwrap();
    }
    for (tls, word) in [
        (given(&certificate, &another), "do not fit"),
        (given(&empty, &key), "empty.pem"),
        (given(&certificate, &empty), "empty.pem"),
        (given(&certificate, &folder.join("missing")), "missing"),
        (given(&folder.join("missing"), &key), "missing"),
        (
            Tls {
                client_authority: Some(empty.clone()),
                ..given(&both, &both)
            },
            "empty.pem",
        ),
    ] {
        let refused = Server::bind(with(tls)).await.unwrap_err().to_string();
        assert!(
            refused.starts_with("TLS: ") && refused.contains(word),
            "{word}: {refused}"
        );
    }
}

#[tokio::test]
async fn client_certificates_are_requested() {
    let folder = folder("clients");
    let authority = Authority::new();
    let known = authority.write(folder.join("clients.pem"));
    let own = |authority: &Authority| {
        let (certificate, key) = authority.certify("ann");
        format!("{certificate}{key}")
    };
    let right = own(&authority);
    let wrong = own(&Authority::new());
    for allow_without in [false, true] {
        let tls = Tls {
            client_authority: Some(known.clone()),
            clients_without_certificate: allow_without,
            ..kept_in(&folder, TlsMode::Required)
        };
        let server = start(tls).await;
        let ca = folder.join("ca.pem");
        for versions in [TLS12, TLS13] {
            for (what, own, expected) in [
                ("right", Some(right.as_str()), true),
                ("wrong", Some(wrong.as_str()), false),
                ("none", None, allow_without),
            ] {
                let dialing = TlsClient {
                    own,
                    versions,
                    ..trusting(&ca)
                };
                let answer = dialing.ask(server.local_addr()).await;
                assert_eq!(
                    answer.is_ok(),
                    expected,
                    "{what} {allow_without}: {answer:?}"
                );
            }
        }
        let file = folder.join("ann.pem");
        fs::write(&file, &right).unwrap();
        let tls = TlsOptions::builder()
            .ca_file_path(ca)
            .cert_key_file_path(file)
            .build();
        assert!(works(&driver(&server, Some(tls), true).await).await);
    }
}

#[tokio::test]
async fn new_connections_get_the_new_certificate() {
    let folder = folder("reload");
    let first = Authority::new();
    let second = Authority::new();
    let trust_first = first.write(folder.join("first.pem"));
    let trust_second = second.write(folder.join("second.pem"));
    let both = folder.join("both.pem");
    let install = |authority: &Authority| {
        let (certificate, key) = authority.certify("localhost");
        fs::write(&both, format!("{certificate}{key}")).unwrap();
    };
    install(&first);
    let server = Server::bind(with(given(&both, &both))).await.unwrap();
    let address = server.local_addr();
    let door = server.tls_acceptor().expect("it has one");
    let backend = Backend::open(server.config(), Clock::system())
        .await
        .unwrap();
    let serving = tokio::spawn(backend.serve(server, std::future::pending()));
    let mut old = trusting(&trust_first).dial(address).await.unwrap();

    // Invalid files: the old certificate stays in use.
    fs::write(&both, "nonsense").unwrap();
    door.reload();
    trusting(&trust_first).ask(address).await.unwrap();

    install(&second);
    trusting(&trust_first)
        .ask(address)
        .await
        .expect("not before it is told");
    door.reload();
    assert!(trusting(&trust_first).ask(address).await.is_err());
    trusting(&trust_second).ask(address).await.unwrap();
    assert_eq!(
        old.ask(doc! {"ping": 1, "$db": "admin"})
            .await
            .get_f64("ok")
            .unwrap(),
        1.0
    );
    serving.abort();
}
