//! The running binary, for tests that measure the process from outside.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use super::client::Client;

pub struct Binary {
    child: Child,
    // Kept open, so that the server can go on writing.
    _out: BufReader<ChildStdout>,
    pub address: SocketAddr,
}

// === impl Binary ===

impl Binary {
    /// Starts the binary on a free port, with test commands enabled.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts it with further arguments.
    pub fn start_with(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sundown"))
            .args(["--port", "0", "--enable-test-commands", "--log", "error"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut out = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        out.read_line(&mut line).expect("its first line");
        let address = line
            .strip_prefix("listening on ")
            .and_then(|rest| rest.split_once(','))
            .and_then(|(address, _)| address.parse().ok())
            .unwrap_or_else(|| panic!("{line:?}"));
        Self {
            child,
            _out: out,
            address,
        }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address).expect("a connection")
    }

    /// Ends the process as a crash would.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Sends a signal, by its name: `-STOP`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &id]).status();
        assert!(sent.expect("kill is there").success());
    }

    /// Returns the resident memory in bytes.
    pub fn resident(&self) -> u64 {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("Linux");
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:"))
            .expect("VmRSS");
        let kilobytes = line.trim().trim_end_matches(" kB").trim();
        kilobytes.parse::<u64>().expect("a number") * 1024
    }
}

impl Drop for Binary {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
