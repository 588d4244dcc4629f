//! Clusters for tests: processes of mongod, or a Sundown in this process. They end with the test.

#![allow(clippy::unwrap_used)] // a panic says where

use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bson::{Document, doc};
use mongodb::Client as Driver;
use sundown::Sundown;
use sundown::clock::{Clock, monotonic};
use sundown::config::{ClusterUri, Config, UpstreamConfig};

use super::authority::Authority;
use super::client::Client;

/// What a test needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Anything that answers: a replica set of one member, or a Sundown.
    Any,
    /// A genuine replica set of this many members.
    Set(usize),
    /// A genuine mongod that is not in a set.
    Standalone,
    /// A genuine mongod that asks for a login, with the user `root` (password `secret`).
    Guarded,
    /// A guarded one that speaks only TLS. Its folder has the files `authority.pem`, which has signed its certificate,
    /// `client.pem`, a certificate by which `root` may log in, too, and `other.pem`, another authority.
    Encrypted,
}

pub enum Cluster {
    Sundown(Sundown),
    Mongod(Mongod),
}

/// A genuine mongod, or a replica set.
pub struct Mongod {
    pub members: Vec<Member>,
    uri: String,
    folder: PathBuf,
}

pub struct Member {
    pub address: SocketAddr,
    process: Child,
    binary: String,
    arguments: Vec<String>,
}

// === impl Cluster ===

impl Cluster {
    /// Starts a cluster. Without a mongod there is only one kind; then a line says which test did not run.
    pub async fn start(kind: Kind, test: &str) -> Option<Self> {
        let Ok(binary) = std::env::var("MONGOD") else {
            if kind == Kind::Any {
                let config = Config {
                    port: 0,
                    ..Config::default()
                };
                let server = Sundown::start(config, Clock::system()).await.unwrap();
                return Some(Self::Sundown(server));
            }
            // Past the harness, which shows nothing of a test that passes.
            let _ = writeln!(
                std::io::stderr(),
                "upstream: {test} DID NOT RUN: MONGOD names no mongod (MONGOD=$(tests/mongod.sh path))"
            );
            return None;
        };
        let mongod = tokio::task::spawn_blocking(move || Mongod::start(&binary, kind));
        Some(Self::Mongod(mongod.await.unwrap()))
    }

    pub fn uri(&self) -> String {
        match self {
            Self::Sundown(server) => server.uri(),
            Self::Mongod(mongod) => mongod.uri.clone(),
        }
    }

    /// The address of a node, past Sundown.
    pub fn address(&self) -> SocketAddr {
        match self {
            Self::Sundown(server) => server.local_addr(),
            Self::Mongod(mongod) => mongod.members[0].address,
        }
    }

    pub fn mongod(&mut self) -> &mut Mongod {
        match self {
            Self::Mongod(mongod) => mongod,
            Self::Sundown(_) => panic!("this test needs a mongod"),
        }
    }

    /// The folder with the files of a mongod.
    pub fn folder(&self) -> &Path {
        match self {
            Self::Mongod(mongod) => &mongod.folder,
            Self::Sundown(_) => panic!("this test needs a mongod"),
        }
    }

    /// Starts a Sundown in front of the cluster.
    pub async fn sundown(&self) -> Sundown {
        self.sundown_with(|_| {}).await
    }

    pub async fn sundown_with(&self, set: impl FnOnce(&mut Config)) -> Sundown {
        let mut config = in_front_of(&self.uri());
        set(&mut config);
        Sundown::start(config, Clock::system()).await.unwrap()
    }
}

/// The settings of a Sundown in front of this cluster.
pub fn in_front_of(uri: &str) -> Config {
    Config {
        port: 0,
        upstream: Some(UpstreamConfig {
            start_timeout: Duration::from_secs(60),
            ..UpstreamConfig::at(ClusterUri::new(uri))
        }),
        ..Config::default()
    }
}

/// Connects a driver. `options` are those of a connection string: `w=majority&...`.
pub async fn driver(server: &Sundown, options: &str) -> Driver {
    let separator = if options.is_empty() { "" } else { "&" };
    let uri = format!(
        "{}?serverSelectionTimeoutMS=60000{separator}{options}",
        server.uri()
    );
    Driver::with_uri_str(uri).await.unwrap()
}

// === impl Mongod ===

impl Mongod {
    pub fn start(binary: &str, kind: Kind) -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sundown-upstream-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let members = match kind {
            Kind::Any => 1,
            Kind::Set(members) => members,
            Kind::Standalone | Kind::Guarded | Kind::Encrypted => 0,
        };
        let start = |at: usize| {
            let data = folder.join(at.to_string());
            fs::create_dir_all(&data).unwrap();
            let socket = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap();
            drop(socket);
            let mut arguments: Vec<String> = [
                "--bind_ip=127.0.0.1",
                "--wiredTigerCacheSizeGB=0.25",
                "--setParameter=enableTestCommands=1",
                "--setParameter=diagnosticDataCollectionEnabled=false",
                // Writes that wait for the journal wait up to 100 ms otherwise.
                "--journalCommitInterval=2",
            ]
            .map(str::to_owned)
            .into();
            arguments.push(format!("--port={}", address.port()));
            arguments.push(format!("--dbpath={}", data.display()));
            arguments.push(format!("--unixSocketPrefix={}", folder.display()));
            if members > 0 {
                arguments.push("--replSet=rs0".into());
            }
            if kind == Kind::Guarded {
                arguments.push("--auth".into());
            }
            Member::start(binary, arguments, address)
        };
        let mut members_started: Vec<Member> = (0..members.max(1)).map(start).collect();
        let hosts: Vec<String> = members_started
            .iter()
            .map(|member| member.address.to_string())
            .collect();
        let mut uri = format!("mongodb://{}/", hosts.join(","));
        for member in &members_started {
            member.wait_for("it answers", |_| true);
        }
        let first = &members_started[0];
        if members > 0 {
            let hosts = hosts.iter().enumerate();
            let list: Vec<Document> = hosts
                .map(|(at, host)| doc! {"_id": at as i32, "host": host})
                .collect();
            let initiate = doc! {"replSetInitiate": {
                "_id": "rs0",
                "members": list,
                "settings": {"electionTimeoutMillis": 1000},
            }};
            first.run("admin", initiate);
            first.wait_for("it is the primary", |hello| {
                hello.get_bool("isWritablePrimary").ok() == Some(true)
            });
            uri += "?replicaSet=rs0";
        }
        if matches!(kind, Kind::Guarded | Kind::Encrypted) {
            let root = doc! {"createUser": "root", "pwd": "secret", "roles": ["root"]};
            first.run("admin", root);
        }
        if kind == Kind::Encrypted {
            encrypt(&mut members_started[0], &folder);
        }
        Self {
            members: members_started,
            uri,
            folder,
        }
    }

    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The Unix domain socket of a member, as a connection string has it.
    pub fn socket(&self, at: usize) -> String {
        let port = self.members[at].address.port();
        let path = self.folder.join(format!("mongodb-{port}.sock"));
        path.display().to_string().replace('/', "%2F")
    }

    /// Ends the processes when this one ends, however it ends. For those in statics, which are never dropped.
    pub fn end_with_this_process(&self) {
        let pids = self.members.iter().map(|member| member.process.id());
        let pids: Vec<String> = pids.map(|pid| pid.to_string()).collect();
        let end = "cat; kill -9 $0; rm -rf \"$1\"";
        let watcher = Command::new("sh")
            .args(["-c", end, &pids.join(" ")])
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .spawn();
        // Its input ends with this process.
        std::mem::forget(watcher.expect("a shell"));
    }

    /// Ends a member as a crash would.
    pub fn kill(&mut self, address: &str) {
        self.member(address).kill();
    }

    /// Starts a member that was killed, at the same address.
    pub fn start_again(&mut self, address: &str) {
        self.member(address).start_again();
    }

    fn member(&mut self, address: &str) -> &mut Member {
        let mut members = self.members.iter_mut();
        members
            .find(|member| member.address.to_string() == address)
            .unwrap_or_else(|| panic!("{address} is no member"))
    }
}

/// Makes certificates, and starts a member again so that it speaks only TLS and asks for a login.
fn encrypt(member: &mut Member, folder: &Path) {
    Authority::new(folder, "other");
    let authority = Authority::new(folder, "authority");
    let server = authority.certify("server");
    authority.certify("client");
    let by_certificate = doc! {
        "createUser": "O=client,CN=client",
        "roles": [{"role": "root", "db": "admin"}],
        // The process is killed next.
        "writeConcern": {"w": 1, "j": true},
    };
    member.run("$external", by_certificate);
    member.kill();
    member.arguments.extend([
        "--auth".to_owned(),
        "--tlsMode=requireTLS".to_owned(),
        format!("--tlsCertificateKeyFile={}", server.display()),
        format!("--tlsCAFile={}", authority.file().display()),
    ]);
    member.start_again();
    let deadline = monotonic() + Duration::from_secs(60);
    while std::net::TcpStream::connect(member.address).is_err() {
        assert!(monotonic() < deadline, "mongod does not start with TLS");
        std::thread::sleep(Duration::from_millis(50)); // real time: another process starts
    }
}

impl Drop for Mongod {
    fn drop(&mut self) {
        for member in &mut self.members {
            let _ = member.process.kill();
            let _ = member.process.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

// === impl Member ===

impl Member {
    fn start(binary: &str, arguments: Vec<String>, address: SocketAddr) -> Self {
        let process = Command::new(binary)
            .args(&arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|problem| panic!("MONGOD={binary}: {problem}"));
        Self {
            address,
            process,
            binary: binary.into(),
            arguments,
        }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts the process again, with the documents that it had.
    fn start_again(&mut self) {
        *self = Self::start(&self.binary, self.arguments.clone(), self.address);
    }

    fn run(&self, database: &str, command: Document) {
        let mut client = Client::connect(self.address).unwrap();
        let reply = client.command(database, command).unwrap();
        assert_eq!(reply.get_f64("ok").ok(), Some(1.0), "{reply}");
    }

    /// Asks for `hello` until the reply is as wanted.
    fn wait_for(&self, what: &str, is_so: impl Fn(&Document) -> bool) {
        let deadline = monotonic() + Duration::from_secs(120);
        while monotonic() < deadline {
            let hello = Client::connect(self.address)
                .and_then(|mut client| client.command("admin", doc! {"hello": 1}));
            if hello.is_ok_and(|hello| is_so(&hello)) {
                return;
            }
            // real time: another process starts.
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{} did not become ready: {what}", self.address);
    }
}
