//! The binary as a script sees it: the line it prints when it is ready, the health check, signals and exit codes.

#![allow(clippy::unwrap_used)] // a panic says where

use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// In seconds. Far longer than any step takes. Only a server that hangs reaches it.
const LATE: &str = "120";

fn sundown() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sundown"));
    command.env_clear();
    command
}

/// Starts the server on any free port and waits for its first line.
fn spawn(command: &mut Command) -> (Child, BufReader<ChildStdout>, String) {
    let mut child = command
        .env("SUNDOWN_PORT", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    (child, out, line)
}

struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    port: u16,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let (child, out, line) = spawn(command);
        let port = line
            .strip_prefix("listening on 127.0.0.1:")
            .and_then(|rest| rest.strip_suffix(", waiting for connections\n"))
            .and_then(|port| port.parse().ok())
            .unwrap_or_else(|| panic!("{line:?}"));
        Self { child, out, port }
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn healthcheck(port: u16) -> Output {
    sundown()
        .args(["healthcheck", "--timeout", LATE, "--port"])
        .arg(port.to_string())
        // In a container the check runs with the server's variables.
        .envs([("SUNDOWN_BIND", "0.0.0.0"), ("SUNDOWN_STANDALONE", "true")])
        .output()
        .unwrap()
}

#[test]
fn it_serves_until_it_gets_a_signal() {
    for signal in ["TERM", "INT"] {
        let mut server = Running::start(&mut sundown());
        let healthy = healthcheck(server.port);
        assert!(healthy.status.success(), "{healthy:?}");
        // A client that is idle and one that has sent half a message do not delay the shutdown.
        let _idle = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let mut half = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        std::io::Write::write_all(&mut half, &[99, 0, 0]).unwrap();

        server.signal(signal);
        assert_eq!(server.child.wait().unwrap().code(), Some(0), "{signal}");
        let mut rest = String::new();
        server.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "", "standard output has one line");
        assert!(!healthcheck(server.port).status.success(), "{signal}");
    }
}

/// A terminal that closes sends SIGHUP, and the server must keep its data.
#[test]
fn sighup_reloads_and_does_not_end_a_server_without_certificates() {
    let mut server = Running::start(sundown().args(["--log", "info"]));
    server.signal("HUP");
    let mut log = BufReader::new(server.child.stderr.take().unwrap()).lines();
    let said = log.find(|line| line.as_ref().is_ok_and(|line| line.contains("SIGHUP")));
    assert!(said.is_some(), "it ended without a word");
    assert!(healthcheck(server.port).status.success());
    server.signal("TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
}

#[test]
fn with_tls_it_is_healthy_and_reloads_its_certificate() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli-tls");
    let _ = std::fs::remove_dir_all(&folder);
    let mut command = sundown();
    command
        .args(["--tls", "required", "--tls-dir"])
        .arg(&folder);
    let mut server = Running::start(&mut command);
    let check = |mode: &str| {
        sundown()
            .args(["healthcheck", "--timeout", LATE, "--port"])
            .arg(server.port.to_string())
            .env("SUNDOWN_TLS", mode)
            .output()
            .unwrap()
    };
    let healthy = check("required");
    assert!(healthy.status.success(), "{healthy:?}");
    assert!(!check("disabled").status.success());
    assert!(folder.join("ca.pem").exists());

    // The key is first broken and then missing, so that the server creates a new authority. The server survives both.
    std::fs::write(folder.join("ca.key"), "nonsense").unwrap();
    server.signal("HUP");
    assert!(check("required").status.success());
    std::fs::remove_file(folder.join("ca.key")).unwrap();
    server.signal("HUP");
    let made = || {
        std::fs::read_to_string(folder.join("ca.key")).is_ok_and(|key| key.contains("PRIVATE KEY"))
    };
    let mut tries = 0;
    while !made() {
        assert!(tries < 12_000, "no new key in two minutes");
        tries += 1;
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(check("required").status.success());
    server.signal("TERM");
    assert_eq!(server.child.wait().unwrap().code(), Some(0));
    let mut log = String::new();
    let mut err = server.child.stderr.take().unwrap();
    err.read_to_string(&mut log).unwrap();
    assert!(log.contains("the old certificate stays"), "{log}");
    assert!(!log.contains("PRIVATE"), "{log}");
}

#[test]
fn the_allocator_has_background_threads_and_prints_nothing() {
    let mut server = Running::start(sundown().args(["--log-format", "json", "--log", "info"]));
    server.signal("TERM");
    server.child.wait().unwrap();
    let mut log = String::new();
    let mut err = server.child.stderr.take().unwrap();
    err.read_to_string(&mut log).unwrap();
    assert!(!log.contains("WARN"), "{log}");
    assert!(log.contains("\"level\":\"INFO\""), "{log}");
}

#[test]
fn contradicting_arguments_are_refused() {
    let rows: &[(&[&str], &str)] = &[
        (&["--replica-set", "a", "--standalone"], "--standalone"),
        (&["--advertise", "a:1"], "--replica-set"),
        (&["--nonsense"], "--nonsense"),
        (&["--log", "=="], "--log"),
        (&["--bind", "192.0.2.1", "--port", "0"], "192.0.2.1"),
        (&["--tls", "required", "--tls-cert", "/nowhere"], "/nowhere"),
    ];
    for (arguments, word) in rows {
        let refused = sundown().args(*arguments).output().unwrap();
        assert!(!refused.status.success(), "{arguments:?}");
        let text = String::from_utf8_lossy(&refused.stderr);
        assert!(text.contains(word), "{arguments:?}: {text}");
    }
}

#[test]
fn a_wrong_upstream_is_one_line_and_exit_1() {
    for uri in [
        "h:1",
        "mongo://h:1",
        "mongodb://",
        "mongodb://h:1/?tls=maybe",
    ] {
        let refused = sundown().args(["--upstream", uri]).output().unwrap();
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{uri}: {text}");
        let one_line =
            text.starts_with("sundown: --upstream") && text.trim_end().lines().count() == 1;
        assert!(one_line, "{uri}: {text}");
    }
}

/// Returns everything that the server writes to standard error until it is stopped.
fn stderr_of(command: &mut Command) -> String {
    let (child, _out, _) = spawn(command);
    let id = child.id().to_string();
    assert!(Command::new("kill").arg(&id).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn listening_on_all_addresses_without_users_logs_a_warning() {
    const WORDS: &str = "without any user";
    let everywhere = ["--bind", "0.0.0.0"];
    assert!(stderr_of(sundown().args(everywhere)).contains(WORDS));
    assert!(!stderr_of(&mut sundown()).contains(WORDS));
    for closed in [&["--auth"][..], &["--user", "ann:secret"]] {
        let said = stderr_of(sundown().args(everywhere).args(closed));
        assert!(!said.contains(WORDS), "{said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn passwords_are_not_printed() {
    let help = sundown()
        .arg("--help")
        .env("SUNDOWN_USER", "ann:hunter2")
        .output()
        .unwrap();
    let said = String::from_utf8(help.stdout).unwrap();
    assert!(
        said.contains("SUNDOWN_USER") && !said.contains("hunter2"),
        "{said}"
    );
    let wrong = sundown()
        .env("SUNDOWN_USER", "ann:hunter2@shop:nope")
        .output()
        .unwrap();
    assert!(!wrong.status.success());
    let said = String::from_utf8(wrong.stderr).unwrap();
    assert!(
        said.contains("nope@shop") && !said.contains("hunter2"),
        "{said}"
    );
}
