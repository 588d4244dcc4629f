//! `hello` and `isMaster`: describe the server and what it supports.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use smallvec::SmallVec;

use super::reply::put_topology_version;
use super::write::MAX_STATEMENTS;
use super::{Access, Announced, Call, Command, Context, Flags, Needs, Outcome, Step, Task, login};
use crate::auth::UserName;
use crate::config::Topology;
use crate::error::{Code, Error, Result};
use crate::session::SESSION_MINUTES;
use crate::value::{Doc, DocBuf, DocBuilder, MAX_DOCUMENT, Millis, Type, Value, ValueRef};
use crate::wait::Wait;
use crate::wire::{Compressor, Compressors, MAX_MESSAGE};

/// The wire version of MongoDB 8.2.
const MAX_WIRE_VERSION: i32 = 27;

/// MongoDB's limits for client metadata, in bytes: on a router and elsewhere. The server keeps the metadata as long as the
/// connection.
const METADATA_OF_ROUTER: usize = 512;
const METADATA: usize = 1024;
const APP_NAME: usize = 128;

pub(super) const COMMAND: Command = Command::ready(
    "hello",
    Access::None,
    "Describes the server and what it supports.",
    |call, reply| run(call, reply, false),
)
.with(
    Flags::BEFORE_LOGIN
        .and(Flags::SECRETS)
        .and(Flags::STABLE)
        .and(Flags::SECONDARY)
        .and(Flags::LEGACY),
)
.needs(Needs::Nothing);

pub(super) const IS_MASTER: Command = Command::ready(
    "isMaster",
    Access::None,
    "The older form of hello.",
    |call, reply| run(call, reply, true),
)
.alias(&["ismaster"])
.with(
    Flags::BEFORE_LOGIN
        .and(Flags::SECRETS)
        .and(Flags::SECONDARY)
        .and(Flags::LEGACY),
)
.needs(Needs::Nothing);

/// Everything that the reply is built from.
struct Hello {
    context: Arc<Context>,
    announced: Announced,
    connection: u64,
    legacy: bool,
    hello_ok: bool,
    /// The compressors that both sides support, in the client's order.
    compressors: SmallVec<[Compressor; 3]>,
    /// The user whose login mechanisms the client asks for.
    user: Option<UserName>,
    /// The server's reply to a login that began with this hello.
    login: Option<DocBuf>,
    /// Whether the client is a monitor that wants further replies without asking again.
    streams: bool,
}

/// A hello that waits until the topology changes or until the client's `maxAwaitTimeMS` has passed. The topology never
/// changes here, so it always waits the full time.
struct Await {
    hello: Hello,
    patience: Option<Duration>,
}

/// The number of hellos that are waiting now, for serverStatus.
#[derive(Default)]
pub struct Monitors {
    pub awaiting: AtomicUsize,
    pub streaming: AtomicUsize,
    /// The streaming ones that were sent as `isMaster`.
    pub streaming_legacy: AtomicUsize,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>, legacy: bool) -> Result<Outcome> {
    let mut hello = Hello {
        context: Arc::clone(call.context),
        announced: announced(call.context)?,
        connection: call.client.id,
        legacy,
        hello_ok: false,
        compressors: SmallVec::new(),
        user: None,
        login: None,
        streams: false,
    };
    let mut seen = None;
    let mut patience = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "helloOk" => hello.hello_ok = arg.bool()?.unwrap_or(false),
            "topologyVersion" => seen = arg.doc()?,
            "maxAwaitTimeMS" => patience = arg.int_at_least(0)?,
            "client" => {
                let metadata = arg.value().as_doc().ok_or_else(|| {
                    Error::type_mismatch("The client metadata document must be a document")
                })?;
                introduce(call, metadata)?;
            }
            "saslSupportedMechs" => {
                hello.user = Some(read_user(arg.value())?);
            }
            "compression" => {
                if let Some(names) = arg.array()? {
                    hello.compressors = agree(call.context.config.compressors, names)?;
                }
            }
            "speculativeAuthenticate" => hello.login = login::speculate(call, &arg)?,
            "loadBalanced" => drop(arg.strict_bool()?),
            // Unknown fields are ignored, as in MongoDB, because drivers announce their features here.
            _ => {}
        }
    }
    hello.streams = seen.is_some() && call.request.exhaust_allowed;
    let patience = match (seen, patience) {
        (Some(seen), Some(patience)) => is_current(call.context, seen)?.then_some(patience),
        (Some(_), None) => {
            return Err(Error::location(
                31368,
                "A request with a 'topologyVersion' must include 'maxAwaitTimeMS'",
            ));
        }
        (None, Some(_)) => {
            return Err(Error::location(
                31372,
                "A request with 'maxAwaitTimeMS' must include a 'topologyVersion'",
            ));
        }
        (None, None) => None,
    };
    match patience {
        Some(millis) if millis > 0 => Ok(Outcome::Work(Box::new(Await::new(
            hello,
            Duration::from_millis(millis.unsigned_abs()),
        )))),
        _ => {
            hello.put(reply, call.now);
            Ok(if hello.streams {
                Outcome::Stream
            } else {
                Outcome::Reply
            })
        }
    }
}

/// Returns what the server announces itself as: what its settings say, or the cluster that holds its documents.
fn announced(context: &Context) -> Result<Announced> {
    let Some(upstream) = &context.upstream else {
        return Ok(Announced {
            topology: context.config.topology.clone(),
            min_wire_version: 0,
            max_wire_version: MAX_WIRE_VERSION,
        });
    };
    upstream.announced().ok_or_else(|| {
        Error::new(
            Code::FailedToSatisfyReadPreference,
            "the upstream cluster was not found yet",
        )
    })
}

/// Stores the client metadata. A client may send it only once. It must be short and must name the driver.
fn introduce(call: &Call<'_>, metadata: Doc<'_>) -> Result<()> {
    if call.client.metadata().is_some() {
        return Err(only_first());
    }
    let most = match call.context.config.topology {
        Topology::Router => METADATA_OF_ROUTER,
        _ => METADATA,
    };
    if metadata.bytes().len() > most {
        return Err(Error::new(
            Code::ClientMetadataDocumentTooLarge,
            format!("The client metadata document must be less then or equal to {most} bytes"),
        ));
    }
    let text = |part: &str, field: &str| {
        let value = metadata.get(part).as_doc().map(|part| part.get(field));
        match value.filter(|value| !value.is_missing()) {
            Some(value) if value.as_str().is_none() => Err(Error::type_mismatch(format!(
                "The '{part}.{field}' field must be a string in the client metadata document"
            ))),
            value => Ok(value.and_then(|value| value.as_str())),
        }
    };
    if text("application", "name")?.is_some_and(|name| name.len() > APP_NAME) {
        return Err(Error::new(
            Code::ClientMetadataAppNameTooLarge,
            format!(
                "The 'application.name' field must be less then or equal to {APP_NAME} bytes in length"
            ),
        ));
    }
    let invalid = |message: String| Err(Error::new(Code::ClientMetadataMissingField, message));
    for part in ["driver", "os"] {
        if metadata.get(part).as_doc().is_none() {
            return invalid(format!(
                "Missing required field '{part}' in the client metadata document"
            ));
        }
        let required: &[&str] = if part == "driver" {
            &["name", "version"]
        } else {
            &["type"]
        };
        for field in required {
            if text(part, field)?.is_none() {
                return invalid(format!(
                    "Missing required field '{part}.{field}' in the client metadata document"
                ));
            }
        }
    }
    if !call.client.introduce(metadata) {
        return Err(only_first());
    }
    Ok(())
}

fn only_first() -> Error {
    Error::new(
        Code::ClientMetadataCannotBeMutated,
        "The client metadata document may only be sent in the first hello",
    )
}

/// Returns the compressors of the client that this server offers, without duplicates.
fn agree(offered: Compressors, names: Doc<'_>) -> Result<SmallVec<[Compressor; 3]>> {
    let mut agreed = SmallVec::new();
    for elem in names {
        let name = elem.value.as_str().ok_or_else(|| {
            let path = format!("compression.{}", elem.name());
            Error::wrong_type("hello", &path, elem.value.ty(), &[Type::String])
        })?;
        if let Some(compressor) = offered.get(name)
            && !agreed.contains(&compressor)
        {
            agreed.push(compressor);
        }
    }
    Ok(agreed)
}

/// Parses the user in `saslSupportedMechs`, which has the form `db.name`.
fn read_user(value: ValueRef<'_>) -> Result<UserName> {
    if !matches!(value.ty(), Type::String | Type::Document) {
        return Err(Error::wrong_type(
            "hello",
            "saslSupportedMechs",
            value.ty(),
            &[Type::String, Type::Document],
        ));
    }
    value
        .as_str()
        .and_then(|text| text.split_once('.'))
        .map(|(db, user)| UserName::new(user, db))
        .ok_or_else(|| {
            Error::bad_value("saslSupportedMechs must name a user in the form <database>.<user>")
        })
}

/// Returns whether the client knows the current topology version.
fn is_current(context: &Context, seen: Doc<'_>) -> Result<bool> {
    let process = seen.get("processId").as_oid();
    let counter = seen.get("counter").as_i64();
    let (Some(process), Some(counter)) = (process, counter) else {
        return Err(Error::missing_field(
            "topologyVersion",
            if process.is_none() {
                "processId"
            } else {
                "counter"
            },
        ));
    };
    if process != context.process {
        return Ok(false);
    }
    if counter > 0 {
        return Err(Error::location(
            31382,
            format!(
                "Received a topology version with counter: {counter} which is greater than the server topology version \
                 counter: 0"
            ),
        ));
    }
    Ok(counter == 0)
}

// === impl Hello ===

impl Hello {
    /// Returns the gauges that count this hello while it waits.
    fn gauges(&self) -> impl Iterator<Item = &AtomicUsize> {
        let monitors = &self.context.monitors;
        let stream = self.streams.then_some(if self.legacy {
            &monitors.streaming_legacy
        } else {
            &monitors.streaming
        });
        std::iter::once(&monitors.awaiting).chain(stream)
    }

    fn put(&self, reply: &mut DocBuilder<'_>, now: Millis) {
        let context = &*self.context;
        if self.hello_ok {
            reply.put_bool("helloOk", true);
        }
        let primary = if self.legacy {
            "ismaster"
        } else {
            "isWritablePrimary"
        };
        match &self.announced.topology {
            Topology::Router => {
                reply.put_bool(primary, true).put_str("msg", "isdbgrid");
                put_topology_version(reply, &context.process);
            }
            Topology::Standalone => {
                reply.put_bool(primary, true);
                put_topology_version(reply, &context.process);
            }
            Topology::ReplicaSet { name, .. } => {
                put_topology_version(reply, &context.process);
                self.put_replica_set(reply, name, primary, now);
            }
        }
        let (max_message, max_statements) = match context.upstream {
            None => (MAX_MESSAGE, MAX_STATEMENTS),
            Some(_) => (Announced::MAX_MESSAGE, Announced::MAX_STATEMENTS),
        };
        reply
            .put_i32("maxBsonObjectSize", MAX_DOCUMENT as i32)
            .put_i32("maxMessageSizeBytes", max_message as i32)
            .put_i32("maxWriteBatchSize", max_statements as i32)
            .put_date("localTime", now.0)
            .put_i32("logicalSessionTimeoutMinutes", SESSION_MINUTES as i32)
            .put_i32("connectionId", (self.connection & 0x7fff_ffff) as i32)
            .put_i32("minWireVersion", self.announced.min_wire_version)
            .put_i32("maxWireVersion", self.announced.max_wire_version)
            .put_bool("readOnly", false);
        if let Some((parameter, value)) = context.parameters.get("automationServiceDescriptor") {
            reply.put(parameter.name, value.as_ref());
        }
        if !self.compressors.is_empty() {
            let mut names = reply.array("compression");
            for compressor in &self.compressors {
                names.push_str(compressor.name());
            }
            names.end();
        }
        if let Some(user) = &self.user {
            login::put_mechanisms(context, user, reply);
        }
        if let Some(login) = &self.login {
            reply.put_doc("speculativeAuthenticate", login.as_doc());
        }
    }

    fn put_replica_set(&self, reply: &mut DocBuilder<'_>, name: &str, primary: &str, now: Millis) {
        let host = self.context.host();
        let mut hosts = reply.array("hosts");
        hosts.push_str(&host);
        hosts.end();
        reply
            .put_str("setName", name)
            .put_i32("setVersion", 1)
            .put_bool(primary, true)
            .put_bool("secondary", false)
            .put_str("primary", &host)
            .put_str("me", &host)
            .put("electionId", ValueRef::new(Type::ObjectId, &ELECTION));
        let seconds = u32::try_from(now.seconds()).unwrap_or(0);
        let mut write = reply.doc("lastWrite");
        for (optime, date) in [
            ("opTime", "lastWriteDate"),
            ("majorityOpTime", "majorityWriteDate"),
        ] {
            let mut op = write.doc(optime);
            op.put("ts", Value::timestamp(seconds, 1).as_ref())
                .put_i64("t", 1);
            op.end();
            write.put_date(date, i64::from(seconds) * 1000);
        }
        write.end();
    }
}

/// The `electionId` of the first election. Drivers only compare it.
const ELECTION: [u8; 12] = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 1];

// === impl Await ===

impl Await {
    fn new(hello: Hello, patience: Duration) -> Self {
        for gauge in hello.gauges() {
            gauge.fetch_add(1, Ordering::Relaxed);
        }
        Self {
            hello,
            patience: Some(patience),
        }
    }
}

impl Drop for Await {
    fn drop(&mut self) {
        for gauge in self.hello.gauges() {
            gauge.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Task for Await {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        match self.patience.take() {
            Some(patience) => Ok(Step::Wait(Wait::sleep(patience))),
            None => {
                self.hello.put(reply, self.hello.context.clock.now());
                Ok(if self.hello.streams {
                    Step::Stream
                } else {
                    Step::Done
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::tests::server::{ask, server};
    use crate::config::Config;
    use bson::doc;

    #[test]
    fn a_driver_introduces_itself_shortly() {
        for (topology, filler, name, code) in [
            (Topology::Router, 100, 128, None),
            (Topology::Router, 100, 129, Some(184)),
            (Topology::Router, 500, 1, Some(185)),
            (Topology::Standalone, 500, 1, None),
            (Topology::Standalone, 1_000, 1, Some(185)),
        ] {
            let mut server = server(Config {
                topology,
                ..Config::default()
            });
            let client = doc! {
                "application": {"name": "n".repeat(name)},
                "driver": {"name": "d", "version": "1"},
                "os": {"type": "t"},
                "platform": "p".repeat(filler),
            };
            let reply = ask(
                &mut server,
                doc! {"hello": 1, "client": client, "$db": "admin"},
            );
            assert_eq!(reply.get_i32("code").ok(), code, "{filler} {name}");
        }
    }
}
