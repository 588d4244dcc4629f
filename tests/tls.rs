//! Encrypted and plain connections on one port, certificates made and given, clients' own, and new ones while the server runs.

#![allow(clippy::unwrap_used)] // a panic says where

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use mongodb::bson::{Document, doc};
use mongodb::options::{ClientOptions, TlsOptions};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use sundown::Sundown;
use sundown::clock::Clock;
use sundown::config::{Config, Identity, Tls, TlsMode};
use sundown::server::Server;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion, version,
};

#[path = "support/raw.rs"]
mod raw;

use raw::{Client, MORE_TO_COME, PATIENCE, body, msg, ping, sequence};

/// A folder of its own for each test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("tls")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn kept_in(folder: &Path, mode: TlsMode) -> Tls {
    Tls {
        mode,
        identity: Identity::Made {
            names: vec!["sundown".into(), "10.1.2.3".into()],
            directory: Some(folder.into()),
        },
        ..Tls::default()
    }
}

fn given(certificate: &Path, key: &Path) -> Tls {
    Tls {
        mode: TlsMode::Required,
        identity: Identity::Given {
            certificate: certificate.into(),
            key: key.into(),
        },
        ..Tls::default()
    }
}

fn with(tls: Tls) -> Config {
    Config {
        port: 0,
        tls,
        ..Config::default()
    }
}

async fn start(tls: Tls) -> Sundown {
    Sundown::start(with(tls), Clock::system()).await.unwrap()
}

// An authority of the test's own.

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn write(&self, file: PathBuf) -> PathBuf {
        fs::write(&file, self.0.pem()).unwrap();
        file
    }

    /// A certificate and its key, as PEM.
    fn certify(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }
}

// A client that knows TLS and bytes.

struct Dialing<'a> {
    authority: &'a Path,
    name: &'a str,
    versions: Versions,
    /// Certificate and key in one.
    own: Option<&'a str>,
}

type Versions = &'static [&'static SupportedProtocolVersion];
const BOTH: Versions = &[&version::TLS12, &version::TLS13];
const TLS12: Versions = &[&version::TLS12];
const TLS13: Versions = &[&version::TLS13];

fn trusting(authority: &Path) -> Dialing<'_> {
    Dialing {
        authority,
        name: "localhost",
        versions: BOTH,
        own: None,
    }
}

impl Dialing<'_> {
    async fn dial(&self, address: SocketAddr) -> Result<Client<TlsStream<TcpStream>>, String> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.authority).unwrap())
            .unwrap();
        let provider = tokio_rustls::rustls::crypto::ring::default_provider();
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match self.own {
            None => config.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::pem_slice_iter(own.as_bytes())
                    .map(Result::unwrap)
                    .collect();
                let key = PrivateKeyDer::from_pem_slice(own.as_bytes()).unwrap();
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(self.name.to_owned()).unwrap();
        let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
        match tokio::time::timeout(PATIENCE, connecting).await.unwrap() {
            Ok(stream) => Ok(Client(stream)),
            Err(problem) => Err(problem.to_string()),
        }
    }

    /// Connects, asks, and tells what the answer was. With TLS 1.3 a client learns only then that it was refused.
    async fn ask(&self, address: SocketAddr) -> Result<Document, String> {
        let mut client = self.dial(address).await?;
        let asked = client.0.write_all(&msg(1, 0, &[&ping()])).await;
        asked.map_err(|problem| problem.to_string())?;
        let mut first = [0; 21];
        let read = tokio::io::AsyncReadExt::read_exact(&mut client.0, &mut first).await;
        read.map_err(|problem| problem.to_string())?;
        Ok(doc! {"ok": 1.0})
    }
}

/// What is not going to work is not waited for.
async fn driver(server: &Sundown, tls: Option<TlsOptions>, will_work: bool) -> mongodb::Client {
    let mut options = ClientOptions::parse(server.uri()).await.unwrap();
    let patience = if will_work {
        PATIENCE
    } else {
        Duration::from_secs(2)
    };
    options.server_selection_timeout = Some(patience);
    options.tls = tls.map(mongodb::options::Tls::Enabled);
    mongodb::Client::with_options(options).unwrap()
}

async fn works(client: &mongodb::Client) -> bool {
    let ping = client.database("admin").run_command(doc! {"ping": 1}).await;
    ping.is_ok()
}

// Which connections are taken.

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_driver_with_and_without_tls_in_each_mode() {
    let folder = folder("modes");
    for (mode, plain, encrypted) in [
        (TlsMode::Disabled, true, false),
        (TlsMode::Optional, true, true),
        (TlsMode::Required, false, true),
    ] {
        let server = start(kept_in(&folder, mode)).await;
        assert_eq!(
            works(&driver(&server, None, plain).await).await,
            plain,
            "{mode:?} plain"
        );
        if !folder.join("ca.pem").exists() {
            fs::write(folder.join("ca.pem"), Authority::new().0.pem()).unwrap();
        }
        let tls = TlsOptions::builder()
            .ca_file_path(folder.join("ca.pem"))
            .build();
        let client = driver(&server, Some(tls), encrypted).await;
        assert_eq!(works(&client).await, encrypted, "{mode:?} encrypted");
        if encrypted {
            let things = client.database("d").collection::<Document>("things");
            let text = "sundown ".repeat(100_000);
            let documents = (0..20).map(|id| doc! {"_id": id, "text": &text});
            things.insert_many(documents).await.unwrap();
            let found: Vec<_> = things
                .find(doc! {})
                .await
                .unwrap()
                .try_collect()
                .await
                .unwrap();
            assert_eq!(found.len(), 20);
            assert!(found.iter().all(|one| one.get_str("text").unwrap() == text));
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn both_versions_and_every_name() {
    let folder = folder("names");
    let server = start(kept_in(&folder, TlsMode::Optional)).await;
    let authority = folder.join("ca.pem");
    let machine = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for name in [
        "localhost",
        "127.0.0.1",
        "::1",
        "sundown",
        "10.1.2.3",
        machine.trim(),
    ] {
        for (versions, agreed) in [
            (TLS12, ProtocolVersion::TLSv1_2),
            (TLS13, ProtocolVersion::TLSv1_3),
        ] {
            let dialing = Dialing {
                name,
                versions,
                ..trusting(&authority)
            };
            let mut client = dialing.dial(server.local_addr()).await.unwrap();
            assert_eq!(client.0.get_ref().1.protocol_version(), Some(agreed));
            assert_eq!(
                client.ask(doc! {"ping": 1, "$db": "admin"}).await,
                doc! {"ok": 1.0}
            );
        }
    }
    let other = Dialing {
        name: "elsewhere",
        ..trusting(&authority)
    };
    assert!(other.dial(server.local_addr()).await.is_err());
    let mut plain = Client::connect(server.local_addr()).await;
    let status = plain.ask(doc! {"serverStatus": 1, "$db": "admin"}).await;
    let secured = status.get_document("transportSecurity").unwrap();
    assert_eq!(secured.get_i64("1.2").ok(), Some(6), "{secured}");
    assert_eq!(secured.get_i64("1.3").ok(), Some(6), "{secured}");
}

/// A plain message may begin with the byte that TLS begins with.
#[tokio::test]
async fn plain_messages_of_every_length_are_told_from_tls() {
    let folder = folder("lengths");
    let server = start(kept_in(&folder, TlsMode::Optional)).await;
    let empty = msg(
        1,
        0,
        &[&body(doc! {"ping": 1, "$db": "admin", "comment": ""})],
    )
    .len();
    for length in [0x116, 0x216, 0x316, 0x10316, 0x30316] {
        let command = doc! {"ping": 1, "$db": "admin", "comment": "x".repeat(length - empty)};
        let bytes = msg(0x0103_0301, 0, &[&body(command)]);
        assert_eq!(bytes.len(), length);
        let mut client = Client::connect(server.local_addr()).await;
        client.send(&bytes).await;
        let reply = client.receive().await.expect("a reply");
        assert_eq!(reply.document, doc! {"ok": 1.0}, "{length}");
    }
    // Byte by byte.
    let mut client = Client::connect(server.local_addr()).await;
    client.0.set_nodelay(true).unwrap();
    let command = doc! {"ping": 1, "$db": "admin", "comment": "x".repeat(0x316 - empty)};
    let bytes = msg(1, 0, &[&body(command)]);
    for byte in &bytes[..12] {
        client.send(&[*byte]).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    client.send(&bytes[12..]).await;
    assert_eq!(client.receive().await.unwrap().document, doc! {"ok": 1.0});
}

#[tokio::test]
async fn bad_greetings_end_that_connection_and_no_other() {
    let folder = folder("greetings");
    for mode in [TlsMode::Optional, TlsMode::Required] {
        let server = start(kept_in(&folder, mode)).await;
        let authority = folder.join("ca.pem");
        let mut good = trusting(&authority)
            .dial(server.local_addr())
            .await
            .unwrap();
        let mut hello = vec![0x16, 3, 1, 0, 50, 1, 0, 0, 46, 3, 3];
        hello.extend([0xAB; 44]);
        let rows: &[(&str, Vec<u8>)] = &[
            ("nonsense in a handshake", hello.clone()),
            (
                "a record that is too long",
                [&[0x16, 3, 1, 0xFF, 0xFF, 1, 0, 0, 46, 3, 3][..], &[0; 60]].concat(),
            ),
            ("HTTP", b"GET / HTTP/1.1\r\n\r\n".to_vec()),
            (
                "SSL 2",
                vec![
                    0x80, 0x2E, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
                ],
            ),
        ];
        for (what, bytes) in rows {
            let mut bad = TcpStream::connect(server.local_addr()).await.unwrap();
            bad.write_all(bytes).await.unwrap();
            // What may come is an alert.
            let mut rest = Vec::new();
            let ended = tokio::io::AsyncReadExt::read_to_end(&mut bad, &mut rest);
            let _ = tokio::time::timeout(PATIENCE, ended).await.expect(what);
            assert!(rest.len() < 20, "{what}: {rest:x?}");
            assert_eq!(
                good.ask(doc! {"ping": 1, "$db": "admin"}).await,
                doc! {"ok": 1.0}
            );
        }
        // Some say nothing, some stop in the middle, some leave: the server stops all the same.
        let silent = TcpStream::connect(server.local_addr()).await.unwrap();
        let mut half = TcpStream::connect(server.local_addr()).await.unwrap();
        half.write_all(&hello[..20]).await.unwrap();
        let mut tiny = TcpStream::connect(server.local_addr()).await.unwrap();
        tiny.write_all(&hello[..3]).await.unwrap();
        drop(TcpStream::connect(server.local_addr()).await.unwrap());
        good.ask(doc! {"ping": 1, "$db": "admin"}).await;
        tokio::time::timeout(Duration::from_secs(5), server.stop())
            .await
            .expect("it stops at once");
        good.assert_hung_up("the server has stopped").await;
        drop((silent, half, tiny));
    }
}

#[tokio::test]
async fn what_comes_in_is_what_was_sent() {
    let folder = folder("contents");
    let server = start(kept_in(&folder, TlsMode::Required)).await;
    let authority = folder.join("ca.pem");
    let mut client = trusting(&authority)
        .dial(server.local_addr())
        .await
        .unwrap();
    // Several at once, one without an answer, and one that takes many records.
    let documents: Vec<_> = (0..100)
        .map(|id| doc! {"_id": id, "text": "y".repeat(100_000)})
        .collect();
    let insert = body(doc! {"insert": "c", "$db": "d"});
    let bytes = [
        msg(1, 0, &[&ping()]),
        msg(2, MORE_TO_COME, &[&ping()]),
        msg(3, 0, &[&insert, &sequence("documents", &documents)]),
        msg(4, 0, &[&ping()]),
    ]
    .concat();
    client.send(&bytes).await;
    for id in [1, 3, 4] {
        assert_eq!(client.receive().await.unwrap().response_to, id);
    }
    let found = client.ask(doc! {"find": "c", "$db": "d"}).await;
    let batch = found
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap();
    assert_eq!(batch.len(), 100);

    // A client that leaves while its command waits is noticed, goodbye or not.
    let version = client.ask(doc! {"hello": 1, "$db": "admin"}).await;
    let version = version.get_document("topologyVersion").unwrap();
    let wait = body(
        doc! {"hello": 1, "$db": "admin", "topologyVersion": version, "maxAwaitTimeMS": 1_000_000i64},
    );
    for goodbye in [true, false] {
        let mut leaving = trusting(&authority)
            .dial(server.local_addr())
            .await
            .unwrap();
        leaving.send(&msg(1, 0, &[&wait])).await;
        let awaiting = |status: Document| {
            status
                .get_document("connections")
                .unwrap()
                .get_i32("awaitingTopologyChanges")
                .unwrap()
        };
        let status = doc! {"serverStatus": 1, "$db": "admin"};
        while awaiting(client.ask(status.clone()).await) == 0 {}
        if goodbye {
            leaving.0.shutdown().await.unwrap();
        }
        drop(leaving);
        let gone = async { while awaiting(client.ask(status.clone()).await) > 0 {} };
        tokio::time::timeout(PATIENCE, gone)
            .await
            .expect("it is noticed");
    }
}

// Certificates that are made.

#[tokio::test]
async fn the_authority_is_kept_and_known_at_the_next_start() {
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

    // Lost, or another's: written again, and what clients have still counts.
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

    // A key that cannot be read is not replaced by one that nobody trusts.
    fs::write(&key, "nonsense").unwrap();
    let refused = Sundown::start(with(kept_in(&folder, TlsMode::Optional)), Clock::system()).await;
    let refused = refused.expect_err("a broken key").to_string();
    assert!(refused.contains("ca.key"), "{refused}");
    assert_eq!(fs::read_to_string(&key).unwrap(), "nonsense");
}

#[tokio::test]
async fn without_a_place_to_keep_it_nothing_is_written() {
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

// Certificates that are given.

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
async fn clients_are_asked_for_their_certificates() {
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
                let dialing = Dialing {
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
    let door = server.door().expect("it has one");
    let handler = sundown::handler(server.config(), Clock::system());
    let serving = tokio::spawn(server.run(handler, std::future::pending()));
    let mut old = trusting(&trust_first).dial(address).await.unwrap();

    // Broken: everything stays as it is.
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
        old.ask(doc! {"ping": 1, "$db": "admin"}).await,
        doc! {"ok": 1.0}
    );
    serving.abort();
}
