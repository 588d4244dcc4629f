//! The servers, each in a process of its own, so that its CPU time can be told from that of the others.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use bson::doc;
use sundown::clock::monotonic;

use client::Client;

#[path = "../../tests/support/client.rs"]
mod client;

/// A server. It ends with this value, if this benchmark has started it.
pub struct Process {
    pid: u32,
    pub address: SocketAddr,
    child: Option<Child>,
    /// Kept open, so that the server can go on writing.
    _out: Option<BufReader<ChildStdout>>,
    folder: Option<PathBuf>,
}

/// The line by which a server tells its address.
pub const LISTENING: &str = "listening on ";

const START: Duration = Duration::from_secs(60);

pub fn client(address: SocketAddr) -> Client {
    Client::connect(address).expect("a connection")
}

// === impl Process ===

impl Process {
    pub fn mongod(binary: &str) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        drop(socket);
        let name = format!("sundown-bench-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        let child = Command::new(binary)
            .args(["--bind_ip", "127.0.0.1", "--wiredTigerCacheSizeGB", "1"])
            .args(["--setParameter", "diagnosticDataCollectionEnabled=false"])
            .args(["--port", &address.port().to_string(), "--dbpath"])
            .arg(&folder)
            .arg("--unixSocketPrefix")
            .arg(&folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|problem| panic!("MONGOD={binary}: {problem}"));
        let mongod = Self {
            pid: child.id(),
            address,
            child: Some(child),
            _out: None,
            folder: Some(folder),
        };
        let deadline = monotonic() + START;
        while !mongod.answers() {
            assert!(monotonic() < deadline, "mongod does not answer");
            std::thread::sleep(Duration::from_millis(50));
        }
        mongod
    }

    fn answers(&self) -> bool {
        let asked = Client::connect(self.address)
            .and_then(|mut client| client.command("admin", doc! {"ping": 1}));
        asked.is_ok()
    }

    /// Starts Sundown in front of a mongod.
    pub fn sundown(mongod: &Self) -> Self {
        Self::in_front_of(&mongod.address.to_string())
    }

    /// The same, with a Unix domain socket between the two.
    #[allow(dead_code)] // another benchmark does not measure that
    pub fn sundown_by_socket(mongod: &Self) -> Self {
        let folder = mongod.folder.as_deref().expect("it was started here");
        let path = folder.join(format!("mongodb-{}.sock", mongod.address.port()));
        Self::in_front_of(&path.display().to_string().replace('/', "%2F"))
    }

    fn in_front_of(host: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sundown"));
        command
            .args(["--port", "0", "--log", "error", "--upstream"])
            .arg(format!("mongodb://{host}/"));
        Self::listening(command)
    }

    /// Starts Sundown with its documents in memory.
    #[allow(dead_code)] // another benchmark measures that
    pub fn in_memory() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sundown"));
        command.args(["--port", "0", "--log", "error"]);
        Self::listening(command)
    }

    /// Starts this program as one of the servers to compare with.
    pub fn this(role: &str, upstream: Option<SocketAddr>) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .arg(role)
            .args(upstream.map(|address| address.to_string()));
        Self::listening(command)
    }

    /// Returns a server that runs already, if the variable names one: `address,pid`.
    pub fn running(variable: &str) -> Option<Self> {
        let named = std::env::var(variable).ok()?;
        let (address, pid) = named.split_once(',').expect(variable);
        Some(Self {
            pid: pid.parse().expect("a process id"),
            address: address.parse().expect("an address"),
            child: None,
            _out: None,
            folder: None,
        })
    }

    fn listening(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("its first line");
        let address = line.strip_prefix(LISTENING);
        let address = address.and_then(|rest| rest.split([',', '\n']).next()?.parse().ok());
        Self {
            pid: child.id(),
            address: address.unwrap_or_else(|| panic!("{line:?}")),
            child: Some(child),
            _out: Some(out),
            folder: None,
        }
    }

    /// Returns the CPU time of all its threads.
    pub fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).expect("Linux");
        let nanos = threads.flatten().map(|thread| {
            // A thread that has just ended has no file any more.
            let times = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
            let first = times.split(' ').next().unwrap_or_default();
            first.parse().unwrap_or(0)
        });
        Duration::from_nanos(nanos.sum())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(folder) = &self.folder {
            let _ = fs::remove_dir_all(folder);
        }
    }
}
