//! Small commands that describe the server and the connection: `whatsmyuri`, `listCommands`, `features`, `getCmdLineOpts`,
//! `getLog`, `connPoolStats`, `isdbgrid`, `replSetGetStatus`, ...

use super::system_collections::put_replica_set;
use super::{Access, COMMANDS, Call, Command, Flags, Needs, Outcome, system};
use crate::args::required;
use crate::auth::Action;
use crate::clock::monotonic;
use crate::config::{self, TlsMode, Topology};
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, Millis, Type, Value};

const ANYWHERE: Flags = Flags::BEFORE_LOGIN.and(Flags::SECONDARY);

pub(super) const WHATSMYURI: Command = Command::ready(
    "whatsmyuri",
    Access::None,
    "Shows the client's address.",
    |call, reply| {
        reply.put_str("you", &call.client.address.to_string());
        Ok(Outcome::Reply)
    },
)
.with(ANYWHERE)
.needs(Needs::Nothing);

pub(super) const LIST_COMMANDS: Command = Command::ready(
    "listCommands",
    Access::None,
    "Lists the commands.",
    list_commands,
)
.with(ANYWHERE)
.needs(Needs::Nothing);

pub(super) const FEATURES: Command = Command::ready(
    "features",
    Access::None,
    "Lists features of the build.",
    |call, reply| {
        call.only(&["oidReset"])?;
        let mut js = reply.doc("js");
        js.put_bool("utf8", true);
        js.end();
        Ok(Outcome::Reply)
    },
)
.with(ANYWHERE)
.needs(Needs::Nothing);

pub(super) const GET_CMD_LINE_OPTS: Command = Command::ready(
    "getCmdLineOpts",
    Access::Admin,
    "Shows how the server was started.",
    get_cmd_line_opts,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::GetCmdLineOpts));

pub(super) const GET_LOG: Command =
    Command::ready("getLog", Access::Admin, "Shows recent log lines.", get_log)
        .with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
        .needs(Needs::Server(Action::GetLog));

pub(super) const CONN_POOL_STATS: Command = Command::ready(
    "connPoolStats",
    Access::None,
    "Shows connections to other servers (there are none).",
    |_, reply| {
        reply
            .put_i32("numClientConnections", 0)
            .put_i32("numAScopedConnections", 0)
            .put_i32("totalInUse", 0)
            .put_i32("totalAvailable", 0)
            .put_i32("totalLeased", 0)
            .put_i32("totalCreated", 0)
            .put_i32("totalRefreshing", 0)
            .put_i32("totalRefreshed", 0);
        for name in ["pools", "hosts", "replicaSets"] {
            reply.doc(name).end();
        }
        Ok(Outcome::Reply)
    },
)
.with(Flags::SECONDARY)
.needs(Needs::Server(Action::ConnPoolStats));

pub(super) const IS_DB_GRID: Command = Command::ready(
    "isdbgrid",
    Access::None,
    "Says whether the server announces itself as a router.",
    |call, reply| {
        if call.context.config.topology != Topology::Router {
            return Err(Error::new(
                Code::CommandNotFound,
                "no such command: 'isdbgrid'",
            ));
        }
        reply
            .put_i32("isdbgrid", 1)
            .put_str("hostname", &system::host_name());
        Ok(Outcome::Reply)
    },
)
.with(ANYWHERE)
.needs(Needs::Nothing);

pub(super) const REPL_SET_GET_STATUS: Command = Command::ready(
    "replSetGetStatus",
    Access::Admin,
    "Shows the status of the announced replica set.",
    repl_set_get_status,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::ReplSetGetStatus));

pub(super) const REPL_SET_GET_CONFIG: Command = Command::ready(
    "replSetGetConfig",
    Access::Admin,
    "Shows the configuration of the announced replica set.",
    repl_set_get_config,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::ReplSetGetConfig));

pub(super) const REPL_SET_INITIATE: Command = Command::ready(
    "replSetInitiate",
    Access::Admin,
    "Replies that the announced replica set is already initialized.",
    repl_set_initiate,
)
.with(Flags::ADMIN_ONLY)
.needs(Needs::Server(Action::ReplSetConfigure));

pub(super) const LOCK_INFO: Command = Command::ready(
    "lockInfo",
    Access::Admin,
    "Lists locks (none is held between commands).",
    |call, reply| {
        call.only(&[])?;
        reply.array("lockInfo").end();
        Ok(Outcome::Reply)
    },
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::ServerStatus));

fn list_commands(_: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut commands = reply.doc("commands");
    for command in COMMANDS.entries().iter().filter(|row| row.is_ready()) {
        let mut entry = commands.doc(command.name);
        entry
            .put_str("help", command.facts.help)
            .put_bool(
                "requiresAuth",
                !command.facts.flags.has(Flags::BEFORE_LOGIN),
            )
            .put_bool("secondaryOk", command.facts.flags.has(Flags::SECONDARY))
            .put_bool("adminOnly", command.facts.flags.has(Flags::ADMIN_ONLY));
        let mut versions = entry.array("apiVersions");
        if command.facts.flags.has(Flags::STABLE) {
            versions.push_str("1");
        }
        versions.end();
        entry.array("deprecatedApiVersions").end();
        entry.end();
    }
    commands.end();
    Ok(Outcome::Reply)
}

fn get_cmd_line_opts(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    let mut argv = reply.array("argv");
    let mut secret = false;
    for argument in std::env::args_os() {
        let argument = argument.to_string_lossy();
        match argument.split_once('=') {
            Some(("--user", _)) => argv.push_str("--user=xxx"),
            _ if secret => argv.push_str("xxx"),
            _ => argv.push_str(&argument),
        };
        secret = argument == "--user";
    }
    argv.end();
    let config = &call.context.config;
    let mut parsed = reply.doc("parsed");
    let mut net = parsed.doc("net");
    net.put_str("bindIp", &config.bind.to_string())
        .put_i32("port", i32::from(config.port));
    let mode = match config.tls.mode {
        TlsMode::Disabled => "disabled",
        TlsMode::Optional => "allowTLS",
        TlsMode::Required => "requireTLS",
    };
    let mut tls = net.doc("tls");
    tls.put_str("mode", mode);
    tls.end();
    let mut compression = net.doc("compression");
    compression.put_str("compressors", &config.compressors.to_string());
    compression.end();
    net.end();
    if config.enable_test_commands {
        let mut parameters = parsed.doc("setParameter");
        parameters.put_str("enableTestCommands", "1");
        parameters.end();
    }
    if let Topology::ReplicaSet { name, .. } = &config.topology {
        let mut replication = parsed.doc("replication");
        replication.put_str("replSetName", name);
        replication.end();
    }
    if call.context.users.is_on() {
        let mut security = parsed.doc("security");
        security.put_str("authorization", "enabled");
        security.end();
    }
    if config.cosmos != config::CosmosConfig::default() {
        let mut cosmos = parsed.doc("cosmos");
        cosmos
            .put_bool("profile", config.cosmos.profile)
            .put_bool("strict", config.cosmos.strict);
        if !config.cosmos.request_units.is_empty() {
            let units = config.cosmos.request_units.iter();
            let units: Vec<String> = units.map(ToString::to_string).collect();
            cosmos.put_str("requestUnits", &units.join(","));
        }
        cosmos.end();
    }
    parsed.end();
    Ok(Outcome::Reply)
}

/// Returns the startup warning of a server without access control. It has mongod's format, because shells parse it and show
/// its message.
fn open_to_everybody(now: Millis) -> String {
    format!(
        "{{\"t\":{{\"$date\":{{\"$numberLong\":\"{}\"}}}},\"s\":\"W\",\"c\":\"CONTROL\",\"id\":22120,\"ctx\":\"initandlisten\",\
         \"msg\":\"Access control is not enabled for the database. Read and write access to data and configuration is \
         unrestricted\",\"tags\":[\"startupWarnings\"]}}",
        now.0
    )
}

fn get_log(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.only(&[])?;
    let target = call.target();
    let which = required(Some(target).filter(|v| !v.is_nullish()), "getLog", "getLog")?;
    let Some(which) = which.as_str() else {
        return Err(Error::wrong_type(
            "getLog",
            "getLog",
            target.ty(),
            &[Type::String],
        ));
    };
    // The real log goes to standard error. Here a client only sees that the server runs.
    let line = format!(
        "{{\"s\":\"I\",\"c\":\"CONTROL\",\"msg\":\"Sundown {} is running\"}}",
        env!("CARGO_PKG_VERSION")
    );
    match which {
        "*" => {
            let mut names = reply.array("names");
            names.push_str("global").push_str("startupWarnings");
            names.end();
        }
        "global" => {
            reply.put_i32("totalLinesWritten", 1);
            let mut log = reply.array("log");
            log.push_str(&line);
            log.end();
        }
        "startupWarnings" => {
            let open = !call.context.users.is_on() && !call.context.config.bind.is_loopback();
            reply.put_i32("totalLinesWritten", i32::from(open));
            let mut log = reply.array("log");
            if open {
                log.push_str(&open_to_everybody(call.now));
            }
            log.end();
        }
        other => {
            return Err(Error::new(
                Code::OperationFailed,
                format!("No log named '{other}'"),
            ));
        }
    }
    Ok(Outcome::Reply)
}

fn set_name<'a>(call: &Call<'a>) -> Result<&'a str> {
    match &call.context.config.topology {
        Topology::ReplicaSet { name, .. } => Ok(name),
        Topology::Router => Err(Error::new(
            Code::CommandNotFound,
            format!("no such command: '{}'", call.command.name),
        )),
        Topology::Standalone => Err(Error::new(
            Code::NoReplicationEnabled,
            "not running with --replSet",
        )),
    }
}

fn repl_set_get_status(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = set_name(call)?;
    let up = monotonic().saturating_duration_since(call.context.started);
    let seconds = u32::try_from(call.now.seconds()).unwrap_or(0);
    reply
        .put_str("set", name)
        .put_date("date", call.now.0)
        .put_i32("myState", 1)
        .put_i64("term", 1)
        .put_i64("heartbeatIntervalMillis", 2000)
        .put_i32("majorityVoteCount", 1)
        .put_i32("writeMajorityCount", 1)
        .put_i32("votingMembersCount", 1)
        .put_i32("writableVotingMembersCount", 1);
    let mut members = reply.array("members");
    let mut member = members.doc();
    member
        .put_i32("_id", 0)
        .put_str("name", &call.context.host())
        .put_f64("health", 1.0)
        .put_i32("state", 1)
        .put_str("stateStr", "PRIMARY")
        .put_i32("uptime", i32::try_from(up.as_secs()).unwrap_or(i32::MAX));
    let mut optime = member.doc("optime");
    optime
        .put("ts", Value::timestamp(seconds, 1).as_ref())
        .put_i64("t", 1);
    optime.end();
    member
        .put_date("optimeDate", i64::from(seconds) * 1000)
        .put_i32("configVersion", 1)
        .put_i32("configTerm", 1)
        .put_bool("self", true);
    member.end();
    members.end();
    Ok(Outcome::Reply)
}

/// Always fails for a replica set. Scripts that set up a replica set treat this error as success.
fn repl_set_initiate(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    set_name(call)?;
    Err(Error::new(Code::AlreadyInitialized, "already initialized"))
}

fn repl_set_get_config(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = set_name(call)?;
    let mut config = reply.doc("config");
    put_replica_set(&mut config, name, &call.context.host());
    config.end();
    Ok(Outcome::Reply)
}
