//! The Dockerfile and the compose files, tested without docker. Every option, port, path and variable in them is compared
//! with the binary and the source tree. The command of the image is started here as a user without rights.
//!
//! Not tested, because no image can be pulled where this is developed: `docker build` itself, and the base images.

#![allow(clippy::unwrap_used)] // a panic says where

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use sundown::config;

#[path = "support/yaml.rs"]
mod yaml;

use yaml::Yaml;

const BINARY: &str = env!("CARGO_BIN_EXE_sundown");
/// The path of the binary in the image.
const INSTALLED: &str = "/usr/local/bin/sundown";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|problem| panic!("{name}: {problem}"))
}

// The Dockerfile.

/// One instruction: its keyword and the rest of its line.
struct Instruction {
    word: String,
    rest: String,
}

fn dockerfile() -> Vec<Instruction> {
    let text = read("Dockerfile").replace("\\\n", " ");
    text.lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (word, rest) = line.split_once(' ').expect("an instruction has arguments");
            Instruction {
                word: word.to_owned(),
                rest: rest.trim().to_owned(),
            }
        })
        .collect()
}

/// Returns the arguments of the last instruction with this keyword.
fn last(word: &str) -> String {
    let all = dockerfile();
    let found = all.iter().rev().find(|found| found.word == word);
    found
        .unwrap_or_else(|| panic!("the Dockerfile has no {word}"))
        .rest
        .clone()
}

fn words(list: &str) -> Vec<String> {
    match Yaml::inline(list) {
        Yaml::List(items) => items.iter().map(Yaml::text).collect(),
        other => panic!("not a list: {other:?}"),
    }
}

/// Returns the image's command, which is in exec form because the image has no shell.
fn image_command() -> Vec<String> {
    words(&last("ENTRYPOINT"))
}

fn image_variables() -> BTreeMap<String, String> {
    dockerfile()
        .iter()
        .filter(|found| found.word == "ENV")
        .map(|found| {
            let (name, value) = found.rest.split_once('=').expect("ENV NAME=value");
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

fn image_healthcheck() -> Vec<String> {
    let line = last("HEALTHCHECK");
    let (_, command) = line.split_once("CMD ").expect("HEALTHCHECK ... CMD");
    words(command)
}

#[test]
fn the_build_stage_copies_what_the_build_needs_and_builds_the_binary() {
    let all = dockerfile();
    let ignored = read(".dockerignore");
    let mut copied = Vec::new();
    for copy in all
        .iter()
        .filter(|found| found.word == "COPY" && !found.rest.starts_with("--from"))
    {
        let mut paths: Vec<&str> = copy.rest.split(' ').collect();
        paths.pop();
        for path in paths {
            assert!(root().join(path).exists(), "COPY {path}: no such path");
            assert!(
                ignored.lines().any(|line| line == format!("!{path}")),
                ".dockerignore hides {path}"
            );
            copied.push(path.to_owned());
        }
    }
    // Files that the manifest names must exist, or cargo refuses the manifest.
    let manifest = read("Cargo.toml");
    for (section, folder) in [("[[bench]]", "benches"), ("[[bin]]", "src")] {
        if manifest.contains(section) {
            assert!(copied.iter().any(|path| path == folder), "{folder}");
        }
    }
    for needed in ["Cargo.toml", "Cargo.lock", ".cargo", "src"] {
        assert!(copied.iter().any(|path| path == needed), "{needed}");
    }
    let build = all.iter().find(|found| found.word == "RUN");
    assert_eq!(
        build.map(|found| found.rest.as_str()),
        Some("cargo build --release --locked --bin sundown")
    );
    // The builder has the Rust version that the crate requires.
    let wanted = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \""))
        .map(|rest| rest.trim_end_matches('"').to_owned())
        .expect("the manifest names a version");
    let from = &all[0].rest;
    assert!(from.starts_with(&format!("rust:{wanted}-")), "{from}");
    // The builder has the same C library as the final image.
    assert!(from.contains("bookworm") && last("FROM").contains("debian12"));
}

/// Creates the folder of the build stage: the files that it copies, and nothing else.
fn staged(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("sundown-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for copy in dockerfile()
        .iter()
        .filter(|found| found.word == "COPY" && !found.rest.starts_with("--from"))
    {
        let mut paths: Vec<&str> = copy.rest.split(' ').collect();
        paths.pop();
        for path in paths {
            let copied = Command::new("cp")
                .arg("-R")
                .args([root().join(path), folder.join(path)])
                .status();
            assert!(copied.unwrap().success(), "{path}");
        }
    }
    folder
}

fn build_command() -> Vec<String> {
    let all = dockerfile();
    let build = all.iter().find(|found| found.word == "RUN").unwrap();
    build.rest.split(' ').map(str::to_owned).collect()
}

/// cargo accepts the manifest with the copied files, and knows every flag of the build command.
#[test]
fn cargo_accepts_the_build_command() {
    let folder = staged("manifest");
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let metadata = Command::new(&cargo)
        .args(["metadata", "--locked", "--offline", "--no-deps"])
        .args(["--format-version", "1"])
        .current_dir(&folder)
        .output()
        .unwrap();
    let _ = fs::remove_dir_all(folder);
    assert!(metadata.status.success(), "{metadata:?}");
    let text = String::from_utf8_lossy(&metadata.stdout).into_owned();
    assert!(text.contains(r#""kind":["bin"],"crate_types":["bin"],"name":"sundown""#));
    let help = Command::new(&cargo).args(["build", "-h"]).output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let build = build_command();
    assert_eq!(build[..2], ["cargo", "build"]);
    for flag in build.iter().filter(|word| word.starts_with("--")) {
        assert!(help.contains(flag.as_str()), "cargo build {flag}");
    }
    // The second stage copies what the first one builds.
    let all = dockerfile();
    let copy = all
        .iter()
        .find(|found| found.rest.starts_with("--from=build"));
    let copy: Vec<&str> = copy.unwrap().rest.split(' ').collect();
    assert_eq!(copy[1..], ["/src/target/release/sundown", INSTALLED]);
}

/// `cargo test --test packaging -- --ignored`: runs the build itself, a release build from scratch, in its own folder and
/// as a user without rights. (The user may read root's files, because cargo is installed there on some machines.)
#[test]
#[ignore = "a release build: a quarter of an hour"]
fn the_build_command_works_without_privileges() {
    let folder = staged("build");
    let build = build_command();
    let mut run = if is_root() {
        let owned = Command::new("chown")
            .args(["-R", "65534:65534"])
            .arg(&folder)
            .status();
        assert!(owned.unwrap().success());
        let mut run = Command::new("setpriv");
        run.args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args([
                "--inh-caps=-all,+dac_read_search",
                "--ambient-caps=-all,+dac_read_search",
            ])
            // Uses the system's linker. Rust's own linker checks file permissions, and these do not show that the process
            // may read everything.
            .env("RUSTFLAGS", "-Clinker-features=-lld")
            .arg(&build[0]);
        run
    } else {
        Command::new(&build[0])
    };
    let built = run
        .args(&build[1..])
        .arg("--offline")
        .env_remove("CARGO_TARGET_DIR")
        .current_dir(&folder)
        .status()
        .unwrap();
    assert!(built.success());
    let version = Command::new(folder.join("target/release/sundown"))
        .arg("--version")
        .output()
        .unwrap();
    assert!(version.status.success(), "{version:?}");
    let _ = fs::remove_dir_all(folder);
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|id| id.stdout == b"0\n")
}

#[test]
fn the_image_uses_options_that_the_binary_has() {
    assert_eq!(image_command()[0], INSTALLED);
    check_arguments(&image_command()[1..]);
    assert_eq!(image_healthcheck(), [INSTALLED, "healthcheck"]);
    assert_eq!(last("USER"), "nonroot");
    assert!(last("FROM").ends_with(":nonroot"));
    assert_eq!(image_variables().get("SUNDOWN_BIND").unwrap(), "0.0.0.0");
    for name in image_variables().keys() {
        check_variable(name);
    }
    assert_eq!(last("EXPOSE"), config::usual_port(false).to_string());
}

// The compose file.

fn services() -> BTreeMap<String, Yaml> {
    let file = Yaml::parse(&read("docker-compose.yml"));
    let Some(Yaml::Map(services)) = file.get("services").cloned() else {
        panic!("docker-compose.yml has no services");
    };
    services.into_iter().collect()
}

/// Returns the services that run our image.
fn ours() -> BTreeMap<String, Yaml> {
    let mut all = services();
    all.retain(|_, service| service.get("build").is_some());
    assert!(all.len() >= 2, "the server and its variant");
    all
}

fn list(of: &Yaml, name: &str) -> Vec<String> {
    match of.get(name) {
        Some(Yaml::List(items)) => items.iter().map(Yaml::text).collect(),
        Some(Yaml::Map(entries)) => entries.iter().map(|(name, _)| name.clone()).collect(),
        Some(other) => panic!("{name}: {other:?}"),
        None => Vec::new(),
    }
}

fn environment(service: &Yaml) -> BTreeMap<String, String> {
    match service.get("environment") {
        Some(Yaml::Map(entries)) => entries
            .iter()
            .map(|(name, value)| (name.clone(), value.text()))
            .collect(),
        None => BTreeMap::new(),
        Some(other) => panic!("environment: {other:?}"),
    }
}

#[test]
fn compose_files_use_only_options_of_the_binary() {
    for (name, service) in ours() {
        assert_eq!(service.get("build").map(Yaml::text).as_deref(), Some("."));
        check_arguments(&list(&service, "command"));
        for variable in environment(&service).keys() {
            check_variable(variable);
        }
        for port in list(&service, "ports") {
            let inside = port.rsplit(':').next().unwrap();
            assert_eq!(inside, last("EXPOSE"), "{name}: {port}");
        }
        let check = service.get("healthcheck").expect("it has a health check");
        let test = list(check, "test");
        assert_eq!(test[0], "CMD", "{name}");
        assert_eq!(test[1..], image_healthcheck(), "{name}");
    }
}

#[test]
fn the_replica_set_advertises_the_name_of_its_service() {
    let all = ours();
    let (name, variant) = all
        .iter()
        .find(|(_, service)| list(service, "command").contains(&"--replica-set".to_owned()))
        .expect("a variant announces a replica set");
    let command = list(variant, "command").join(" ");
    let announced = format!("--replica-set globaldb --advertise {name}:27017");
    assert!(command.contains(&announced), "{command}");
    assert_eq!(list(variant, "profiles"), ["globaldb"]);
}

#[test]
fn the_samples_use_existing_servers_and_ports() {
    let (all, ours) = (services(), ours());
    let samples: Vec<_> = all
        .iter()
        .filter(|(name, _)| !ours.contains_key(*name))
        .collect();
    assert_eq!(samples.len(), ours.len(), "a sample for each variant");
    for (name, sample) in samples {
        let waits = list(sample, "depends_on");
        let [host] = &waits[..] else {
            panic!("{name}: depends on its server");
        };
        let server = ours.get(host).expect("a server of ours");
        assert_eq!(
            list(server, "profiles"),
            list(sample, "profiles"),
            "{name} runs when its server runs"
        );
        let uri = environment(sample)["MONGODB_URI"].clone();
        let address = format!("mongodb://{host}:{}/", config::usual_port(false));
        assert!(uri.starts_with(&address), "{uri}");
        let set = uri
            .split_once("replicaSet=")
            .map(|(_, name)| name.to_owned());
        let command = list(server, "command");
        let announced = command
            .iter()
            .position(|word| word == "--replica-set")
            .map(|at| command[at + 1].clone());
        assert_eq!(set, announced, "{name}");
        for volume in list(sample, "volumes") {
            let mut parts = volume.split(':');
            let (outside, inside) = (parts.next().unwrap(), parts.next().unwrap());
            assert!(root().join(outside).is_file(), "{outside}");
            assert!(list(sample, "command").join(" ").contains(inside), "{name}");
        }
    }
}

/// The file with a cluster: Sundown finds it by the name of its service, and both agree on the replica set.
#[test]
fn the_upstream_compose_file_is_consistent() {
    let file = Yaml::parse(&read("examples/docker-compose.upstream.yml"));
    let services = file.get("services").expect("services");
    let server = services.get("sundown").expect("the server");
    let mongo = services.get("mongo").expect("the cluster");
    let set = environment(server);
    for variable in set.keys() {
        check_variable(variable);
    }
    let uri = &set["SUNDOWN_UPSTREAM"];
    assert_eq!(uri, "mongodb://mongo:27017/?replicaSet=rs0");
    config::ClusterUri::new(uri.as_str())
        .check()
        .expect("a URI");
    assert_eq!(list(mongo, "command")[..2], ["--replSet", "rs0"]);
    let check = mongo.get("healthcheck").expect("it has a health check");
    let initiates = list(check, "test").join(" ");
    for part in ["rs.initiate", "_id: 'rs0'", "host: 'mongo:27017'"] {
        assert!(initiates.contains(part), "{initiates}");
    }
    let check = server.get("healthcheck").expect("it has a health check");
    assert_eq!(list(check, "test")[1..], image_healthcheck());
    assert_eq!(list(server, "depends_on"), ["mongo"]);
}

/// The file for teams on Cosmos DB: client and server agree on name, port, replica set and the path of the authority's
/// certificate.
#[test]
fn the_cosmos_compose_file_is_consistent() {
    let file = Yaml::parse(&read("examples/docker-compose.cosmos.yml"));
    let service = |name: &str| {
        let services = file.get("services").expect("services");
        services.get(name).expect("the service").clone()
    };
    let (server, sample) = (service("sundown"), service("sample"));
    check_arguments(&list(&server, "command"));
    let set = environment(&server);
    for variable in set.keys() {
        check_variable(variable);
    }
    let port = config::usual_port(true);
    assert_eq!(set["SUNDOWN_COSMOS"], "true");
    assert_eq!(set["SUNDOWN_ADVERTISE"], format!("sundown:{port}"));
    assert_eq!(set["SUNDOWN_TLS_NAME"], "sundown");
    let check = server.get("healthcheck").expect("it has a health check");
    assert_eq!(list(check, "test")[1..], image_healthcheck());
    let uri = environment(&sample)["MONGODB_URI"].clone();
    for part in [
        format!(
            "@sundown:{port}/?ssl=true&replicaSet={}&",
            config::CosmosConfig::REPLICA_SET
        ),
        "retrywrites=false&maxIdleTimeMS=120000&appName=@localhost@".to_owned(),
        "tlsCAFile=/certificate/ca.pem".to_owned(),
    ] {
        assert!(uri.contains(&part), "{part}: {uri}");
    }
    let kept = format!("certificate:{}", set["SUNDOWN_TLS_DIR"]);
    assert!(list(&server, "volumes").contains(&kept));
    assert!(list(&sample, "volumes").contains(&"certificate:/certificate:ro".to_owned()));
    assert!(file.get("volumes").is_some());
}

// The options and variables of the binary.

fn check_variable(name: &str) {
    let known = config::table().iter().any(|row| row.env == name);
    assert!(known, "the server reads no variable {name}");
}

fn check_arguments(arguments: &[String]) {
    let help = Command::new(BINARY).arg("--help").output().unwrap();
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    for option in arguments.iter().filter(|word| word.starts_with("--")) {
        let known = config::table().iter().any(|row| row.name == *option);
        assert!(known && help.contains(option), "no option {option}");
    }
}

// Starting the binary as the image would start it.

struct Started {
    child: Child,
    address: String,
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a command that runs our own binary instead of the installed one, with only the given variables. If the test runs
/// as root, the command switches to the user `nobody` first and uses a copy of the binary that this user may read.
fn unprivileged(command: &[String], variables: &BTreeMap<String, String>) -> Option<Command> {
    assert_eq!(command[0], INSTALLED);
    let mut run = if is_root() {
        let binary = readable_copy()?;
        let mut run = Command::new("setpriv");
        run.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--no-new-privs",
        ])
        .arg("--inh-caps=-all")
        .arg(binary);
        run
    } else {
        Command::new(BINARY)
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    run.args(&command[1..])
        .env_clear()
        .env("PATH", path)
        .envs(variables);
    Some(run)
}

/// Copies the binary to a folder that every user can read. The target folder may be readable by its owner only.
fn readable_copy() -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    use std::sync::OnceLock;
    static COPY: OnceLock<Option<PathBuf>> = OnceLock::new();
    COPY.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("sundown-packaging-{}", std::process::id()));
        fs::create_dir_all(&folder).ok()?;
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).ok()?;
        let copy = folder.join("sundown");
        // A hard link avoids the copy if both folders are on the same disk.
        let _ = fs::remove_file(&copy);
        fs::hard_link(BINARY, &copy)
            .or_else(|_| fs::copy(BINARY, &copy).map(|_| ()))
            .ok()?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).ok()?;
        Some(copy)
    })
    .clone()
}

fn start(command: &[String], variables: &BTreeMap<String, String>) -> Option<Started> {
    let mut run = unprivileged(command, variables)?;
    let child = run
        .env("SUNDOWN_PORT", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(problem) => {
            println!("not tried: starting as a user without rights ({problem})");
            return None;
        }
    };
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line
        .strip_prefix("listening on ")
        .and_then(|rest| rest.strip_suffix(", waiting for connections\n"))
        .unwrap_or_else(|| panic!("{command:?} said {line:?}"))
        .to_owned();
    Some(Started { child, address })
}

/// Runs the image alone and every service of the compose file.
#[test]
fn the_command_of_the_image_runs_without_privileges_and_is_healthy() {
    let mut rows = vec![("the image".to_owned(), Vec::new(), BTreeMap::new())];
    for (name, service) in ours() {
        rows.push((name, list(&service, "command"), environment(&service)));
    }
    for (name, arguments, more) in rows {
        let mut command = image_command();
        command.extend(arguments);
        let mut variables = image_variables();
        variables.extend(more);
        let Some(server) = start(&command, &variables) else {
            return;
        };
        let (host, port) = server.address.rsplit_once(':').unwrap();
        assert_eq!(host, variables["SUNDOWN_BIND"], "{name}");
        if let Ok(status) = fs::read_to_string(format!("/proc/{}/status", server.child.id())) {
            let uid = status.lines().find(|line| line.starts_with("Uid:"));
            let uid = uid.and_then(|line| line.split_whitespace().nth(1));
            assert_ne!(uid, Some("0"), "{name} runs as root");
        }
        let mut healthy = |port: &str| {
            variables.insert("SUNDOWN_PORT".into(), port.into());
            let mut check = unprivileged(&image_healthcheck(), &variables).unwrap();
            check.output().unwrap()
        };
        let answer = healthy(port);
        assert!(answer.status.success(), "{name}: {answer:?}");
        // The check must also be able to fail.
        let answer = healthy("1");
        assert!(!answer.status.success(), "{name}: {answer:?}");
    }
}
