//! The handler of upstream mode: answers a request here, or has the cluster answer it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::ask::{Ask, Lost};
use super::cluster::Cluster;
use super::relay::{LinkSlot, Relay, RelayCounters};
use super::status;
use crate::clock::Clock;
use crate::command::{self, Announced, Commands, Context, Route, find};
use crate::config::{Config, UpstreamLogin};
use crate::error::{Code, Error, Hangup};
use crate::handler::{Answer, Handler, Outcome, Peer, Traffic};
use crate::value::{Doc, DocBuf};
use crate::wire::{CompressedMessage, Request};

/// Answers requests by asking the cluster.
pub struct Proxy {
    /// Answers what needs no cluster: hello, ping, logins.
    local: Commands,
    cluster: Arc<Cluster>,
    counters: Arc<RelayCounters>,
    login: UpstreamLogin,
}

/// The handler's side of a connection.
pub struct ProxyConnection {
    local: command::Connection,
    link: Arc<LinkSlot>,
    /// The client has begun to log in to the cluster, so its link cannot be replaced.
    bound: bool,
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, Hangup>> + Send>>;

/// Databases that are not the clients' business: of each node alone, and of Sundown itself.
const HIDDEN_DATABASES: [&str; 2] = ["local", "sundown"];

// === impl Proxy ===

impl Proxy {
    pub fn new(cluster: Arc<Cluster>, config: &Config, clock: Clock) -> Self {
        let login = config.upstream.as_ref().map(|upstream| upstream.login);
        let context = Context::in_front_of(Arc::clone(&cluster) as _, config.clone(), clock);
        Self {
            local: Commands::new(context),
            cluster,
            counters: Arc::default(),
            login: login.unwrap_or_default(),
        }
    }

    /// The state of the commands that are answered here.
    pub fn context(&self) -> &Arc<Context> {
        self.local.context()
    }

    fn relay(&self, connection: &ProxyConnection) -> Relay {
        Relay {
            cluster: Arc::clone(&self.cluster),
            slot: Arc::clone(&connection.link),
            counters: Arc::clone(&self.counters),
            bound: connection.bound && connection.link.is_open(),
        }
    }

    /// Passes a request on.
    fn forward(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let mut relay = self.relay(connection);
        let exhausts = request.exhaust_allowed;
        Box::pin(async move {
            let document = match relay.ask(request).await {
                Ok(document) => document,
                Err(lost) => return lost.answer(),
            };
            let streaming = exhausts && has_more(Doc::new(&document));
            Ok(Answer {
                document,
                streaming,
            })
        })
    }

    /// Answers serverStatus: the cluster's, with a section about the connection to it.
    fn status(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let mut relay = self.relay(connection);
        Box::pin(async move {
            let reply = match relay.ask(request).await {
                Ok(reply) => reply,
                Err(lost) => return lost.answer(),
            };
            let section = status::section(&relay.cluster.state(), &relay.counters);
            Ok(Answer::of(status::with_section(Doc::new(&reply), &section)))
        })
    }

    /// Answers a hello that begins a login to the cluster: what Sundown says, with what the cluster says of the login.
    fn hello_with_login(
        &self,
        connection: &mut ProxyConnection,
        request: Request,
    ) -> Result<Answering, Hangup> {
        let is_of_login = |name: &str| LOGIN_FIELDS.contains(&name);
        let part = |of_login: bool| {
            DocBuf::build(|hello| {
                let fields = request.body().iter().enumerate();
                for (at, elem) in fields {
                    let name = elem.name();
                    if at == 0 || name == "$db" || is_of_login(name) == of_login {
                        hello.put(name, elem.value);
                    }
                }
            })
        };
        let own = Request {
            body: part(false).into_bytes().into(),
            ..request.clone()
        };
        let asked = Request {
            body: part(true).into_bytes().into(),
            ..request.clone()
        };
        let mut said = Vec::new();
        self.local.call(&mut connection.local, own, &mut said)?;
        let mut relay = self.relay(connection);
        connection.bound |= request.body().has(b"speculativeAuthenticate");
        Ok(Box::pin(async move {
            let reply = match relay.ask(asked).await {
                Ok(reply) => reply,
                Err(lost) => return lost.answer(),
            };
            let merged = DocBuf::build(|hello| {
                hello.put_body(Doc::new(&said).body());
                for name in LOGIN_FIELDS {
                    hello.put(name, Doc::new(&reply).get(name));
                }
            });
            Ok(Answer::of(merged.into_bytes().into()))
        }))
    }
}

/// The fields of a hello, and of its reply, by which a login begins.
const LOGIN_FIELDS: [&str; 2] = ["saslSupportedMechs", "speculativeAuthenticate"];

/// Returns whether the reply has a cursor that is still open.
fn has_more(reply: Doc<'_>) -> bool {
    let cursor = reply.get("cursor").as_doc();
    cursor.is_some_and(|cursor| cursor.get("id").as_i64().is_some_and(|id| id != 0))
}

fn refuse_database(request: &Request) -> Result<(), Error> {
    let database = request.body().get("$db").as_str().unwrap_or_default();
    if HIDDEN_DATABASES.contains(&database) {
        return Err(Error::new(
            Code::Unauthorized,
            format!("the database '{database}' is not available with --upstream"),
        ));
    }
    Ok(())
}

impl Handler for Proxy {
    type Connection = ProxyConnection;

    fn open(&self, peer: Peer) -> ProxyConnection {
        ProxyConnection {
            local: self.local.open(peer),
            link: Arc::default(),
            bound: false,
        }
    }

    fn rejected(&self) {
        self.local.rejected();
    }

    #[inline]
    fn moved(&self, connection: &ProxyConnection, traffic: Traffic) {
        self.local.moved(&connection.local, traffic);
    }

    fn message_compressed(&self, message: CompressedMessage, came: bool) {
        self.local.message_compressed(message, came);
    }

    fn may_answer_at_length(&self, request: &Request) -> bool {
        self.local.may_answer_at_length(request)
    }

    fn call(
        &self,
        connection: &mut ProxyConnection,
        request: Request,
        reply: &mut Vec<u8>,
    ) -> Result<Outcome, Hangup> {
        let name = request.body().first();
        let command = name.and_then(|name| find(name.name_bytes()));
        let route = command.map_or(Route::WithoutTtl, |command| command.facts.route);
        let clients_log_in = self.login == UpstreamLogin::Clients;
        let checked = match route {
            Route::Here => {
                let logs_in = clients_log_in
                    && LOGIN_FIELDS
                        .iter()
                        .any(|field| request.body().has(field.as_bytes()));
                if logs_in {
                    let answer = self.hello_with_login(connection, request)?;
                    return Ok(Outcome::Awaited(answer));
                }
                return self.local.call(&mut connection.local, request, reply);
            }
            Route::Login if !clients_log_in => {
                return self.local.call(&mut connection.local, request, reply);
            }
            Route::Login => {
                connection.bound = true;
                Ok(())
            }
            Route::Refused => Err(Error::not_implemented(format!(
                "{} with --upstream",
                command.map_or("this command", |command| command.name)
            ))),
            _ => refuse_database(&request)
                .and_then(|()| self.local.admit(&connection.local, &request)),
        };
        if let Err(error) = checked {
            error.write_reply(reply);
            return Ok(Outcome::Replied);
        }
        Ok(Outcome::Awaited(match route {
            Route::Status => self.status(connection, request),
            _ => self.forward(connection, request),
        }))
    }
}

// === impl Lost ===

impl Lost {
    fn answer(self) -> Result<Answer, Hangup> {
        match self {
            Self::Error(error) => {
                let mut reply = Vec::new();
                error.write_reply(&mut reply);
                Ok(Answer::of(reply.into()))
            }
            Self::Hangup(hangup) => Err(hangup),
        }
    }
}

// === impl Cluster ===

impl command::Upstream for Cluster {
    fn announced(&self) -> Option<Announced> {
        let kind = self.state().kind?;
        Some(Announced {
            topology: kind.topology,
            min_wire_version: kind.min_wire_version,
            max_wire_version: kind.max_wire_version,
        })
    }
}
