//! The handler of upstream mode: answers a request here, or has the cluster answer it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use super::CollectionRules;
use super::ask::{Ask, Lost};
use super::cluster::Cluster;
use super::relay::{LinkSlot, Relay, RelayCounters};
use super::rewrite::{self, CursorRules, ViewCursors, check_database};
use super::ruling::{Ruling, answered, is_read};
use super::schema;
use super::settings::{KnownAt, RuleSettings, SettingsOptions, WriteInFlight};
use super::statistics;
use super::status;
use super::watch::OpenStreams;
use crate::clock::Clock;
use crate::command::{self, Announced, Commands, Context, Route, find};
use crate::config::{Config, UpstreamLogin};
use crate::error::{Error, Hangup};
use crate::handler::{Answer, CallOutcome, Handler, Peer, Traffic};
use crate::value::{Doc, DocBuf, is_true};
use crate::wire::{CompressedMessage, Request};

/// Answers requests by asking the cluster.
pub struct Proxy {
    /// Answers what needs no cluster: hello, ping, logins.
    local: Commands,
    cluster: Arc<Cluster>,
    counters: Arc<RelayCounters>,
    ruling: Arc<Ruling>,
    login: UpstreamLogin,
}

/// The handler's side of a connection.
pub struct ProxyConnection {
    local: command::Connection,
    link: Arc<LinkSlot>,
    /// The client has begun to log in to the cluster, so its link cannot be replaced.
    bound: bool,
}

/// What is known about a command before its rules are loaded.
enum Glance {
    /// It touches no collection with rules. A write is counted.
    Passes(Option<WriteInFlight>),
    /// It touches only a collection that has these rules. A write is counted.
    OneCollection(Arc<CollectionRules>, Option<WriteInFlight>),
    /// Its rules must be loaded.
    Unknown,
}

type Answering = Pin<Box<dyn Future<Output = Result<Answer, Hangup>> + Send>>;

// === impl Proxy ===

impl Proxy {
    pub fn new(cluster: Arc<Cluster>, config: &Config, clock: Clock) -> Self {
        let upstream = config.upstream.as_ref();
        let login = upstream.map(|upstream| upstream.login);
        let usual = SettingsOptions::default();
        let options = SettingsOptions {
            patience: cluster.selection_timeout,
            renewal: upstream.map_or(usual.renewal, |upstream| upstream.renewal),
            ..usual
        };
        let settings = RuleSettings::start(cluster.client().clone(), clock.clone(), &options);
        let context = Context::in_front_of(Arc::clone(&cluster) as _, config.clone(), clock);
        Self {
            local: Commands::new(context),
            cluster,
            counters: Arc::default(),
            ruling: Arc::new(Ruling {
                settings,
                cursors: CursorRules::default(),
                views: ViewCursors::default(),
                streams: OpenStreams::default(),
                expose_ts: config.expose_ts,
            }),
            login: login.unwrap_or_default(),
        }
    }

    /// The state of the commands that are answered here.
    pub fn context(&self) -> &Arc<Context> {
        self.local.context()
    }

    fn relay(&self, connection: &ProxyConnection) -> Relay {
        Relay {
            slot: Arc::clone(&connection.link),
            bound: connection.bound && connection.link.is_open(),
        }
    }

    /// Passes a request on.
    fn forward(&self, connection: &ProxyConnection, request: Request) -> Answering {
        self.forward_write(connection, request, None)
    }

    /// Passes a request on that may be a write.
    fn forward_write(
        &self,
        connection: &ProxyConnection,
        request: Request,
        write: Option<WriteInFlight>,
    ) -> Answering {
        let mut relay = self.relay(connection);
        let exhausts = request.exhaust_allowed;
        Box::pin(async move {
            let _under_way = write;
            let document = match relay.ask(request).await {
                Ok(document) => document,
                Err(lost) => return lost.answer(),
            };
            Ok(answered(document, exhausts))
        })
    }

    /// Runs a command that reads or writes documents, under the rules of its collections.
    fn documents(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let settings = &self.ruling.settings;
        let known = settings.known_now();
        // A write is counted first, and then it must be certain that what it counts on is still known.
        let is_certain =
            |write: &Option<WriteInFlight>| write.is_none() || settings.is_known_since(known);
        match self.glance(&request) {
            Glance::Passes(_) if is_read(&request) => {
                self.read_as_it_is(connection, request, known)
            }
            Glance::Passes(write) if is_certain(&write) => {
                self.forward_write(connection, request, write)
            }
            Glance::OneCollection(rules, write) if is_certain(&write) => {
                self.on_one(connection, request, (rules, write), known)
            }
            _ => {
                let mut relay = self.relay(connection);
                let ruling = Arc::clone(&self.ruling);
                let exhausts = request.exhaust_allowed;
                Box::pin(async move { ruling.answer(&mut relay, request, exhausts).await })
            }
        }
    }

    /// Passes a read on, of a collection without rules. If it may have got some meanwhile, it is read again.
    fn read_as_it_is(
        &self,
        connection: &ProxyConnection,
        request: Request,
        known: KnownAt,
    ) -> Answering {
        let mut relay = self.relay(connection);
        let ruling = Arc::clone(&self.ruling);
        let exhausts = request.exhaust_allowed;
        Box::pin(async move {
            let document = match relay.ask(request.clone()).await {
                Ok(document) => document,
                Err(lost) => return lost.answer(),
            };
            if !ruling.settings.is_known_since(known) {
                let none = CollectionRules::NONE;
                let read = (&request, document, &none);
                return Box::pin(ruling.confirmed(&mut relay, read, exhausts)).await;
            }
            Ok(answered(document, exhausts))
        })
    }

    /// Runs a command that touches a single collection, under its rules.
    fn on_one(
        &self,
        connection: &ProxyConnection,
        request: Request,
        (rules, write): (Arc<CollectionRules>, Option<WriteInFlight>),
        known: KnownAt,
    ) -> Answering {
        let mut relay = self.relay(connection);
        relay.count_rewritten();
        let ruling = Arc::clone(&self.ruling);
        let moment = ruling.moment();
        let exhausts = request.exhaust_allowed;
        let again = is_read(&request).then(|| request.clone());
        Box::pin(async move {
            let _under_way = write;
            let cursors = &ruling.cursors;
            let ran = rewrite::run_on_one(&mut relay, request, &rules, moment, cursors).await;
            match (ran, again) {
                (Ok(document), Some(again)) if !ruling.settings.is_known_since(known) => {
                    let read = (&again, document, &*rules);
                    Box::pin(ruling.confirmed(&mut relay, read, exhausts)).await
                }
                (Ok(document), _) => Ok(answered(document, exhausts)),
                (Err(lost), _) => lost.answer(),
            }
        })
    }

    /// Runs a command that creates, changes, lists or drops collections, indexes or databases.
    fn schema(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let mut relay = self.relay(connection);
        let settings = self.ruling.settings.clone();
        Box::pin(async move {
            match schema::run(&settings, &mut relay, request).await {
                Ok(document) => Ok(Answer::of(document)),
                Err(lost) => lost.answer(),
            }
        })
    }

    /// Answers with sizes and counts.
    fn statistics(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let mut relay = self.relay(connection);
        let settings = self.ruling.settings.clone();
        Box::pin(async move {
            match statistics::run(&settings, &mut relay, request).await {
                Ok(document) => Ok(Answer::of(document)),
                Err(lost) => lost.answer(),
            }
        })
    }

    /// Sets parameters of the cluster. The one that switches its TTL monitor switches the sweeper, too.
    fn parameter(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let mut relay = self.relay(connection);
        let settings = self.ruling.settings.clone();
        Box::pin(async move {
            let enabled = request.body().get("ttlMonitorEnabled");
            let enabled = (!enabled.is_missing()).then(|| is_true(enabled));
            match relay.ask(request).await {
                Ok(document) => {
                    let done = is_true(Doc::new(&document).get("ok"));
                    if let Some(enabled) = enabled.filter(|_| done) {
                        settings.enable_sweeping(enabled);
                    }
                    Ok(Answer::of(document))
                }
                Err(lost) => lost.answer(),
            }
        })
    }

    /// Checks the client's rights to the commands that a customAction becomes.
    fn admit_actions(&self, connection: &ProxyConnection, request: &Request) -> Result<(), Error> {
        let body = request.body();
        let action = body.first().filter(|first| first.name() == "customAction");
        let commands: &[&str] = match action.and_then(|first| first.value.as_str()) {
            Some("CreateCollection") => &["create", "createIndexes"],
            Some("UpdateCollection") if body.has("indexes") => &["createIndexes", "dropIndexes"],
            Some("GetCollection") => &["listIndexes"],
            _ => return Ok(()),
        };
        for command in commands {
            let asked = DocBuf::build(|asked| {
                asked.put(command, body.get("collection"));
                asked.put("$db", body.get("$db"));
            });
            let asked = Request::new(asked.into_bytes());
            self.local.admit(&connection.local, &asked)?;
        }
        Ok(())
    }

    /// Returns what is already known about the collections of a command. A quick look: most commands name one collection.
    fn glance(&self, request: &Request) -> Glance {
        let body = request.body();
        let Some(first) = body.first() else {
            return Glance::Passes(None);
        };
        let mut is_alone = false;
        let writes = matches!(
            first.name_bytes(),
            b"insert" | b"update" | b"delete" | b"findAndModify" | b"findandmodify"
        );
        let collection = match first.name_bytes() {
            b"find" | b"insert" | b"update" | b"delete" | b"findAndModify" | b"count"
            | b"distinct" => {
                is_alone = true;
                first.value.as_str()
            }
            b"getMore" => {
                let id = first.value.as_i64().unwrap_or_default();
                let ruling = &self.ruling;
                let changes_rows = ruling.views.contains(id)
                    || ruling.streams.contains(id)
                    || ruling.cursors.has(id);
                if changes_rows {
                    return Glance::Unknown;
                }
                body.get("collection").as_str()
            }
            b"killCursors" => {
                return match self.ruling.cursors.is_empty() {
                    true => Glance::Passes(None),
                    false => Glance::Unknown,
                };
            }
            b"aggregate" | b"bulkWrite" | b"explain" => return Glance::Unknown,
            _ => first.value.as_str(),
        };
        let (Some(database), Some(collection)) = (body.get("$db").as_str(), collection) else {
            return Glance::Unknown;
        };
        let known = self.ruling.settings.look_up(database, collection, |rules| {
            let write = || writes.then(|| rules.gate.enter()).flatten();
            if rules.is_none() {
                Glance::Passes(write())
            } else if is_alone && rules.view.is_none() {
                Glance::OneCollection(Arc::clone(rules), write())
            } else {
                Glance::Unknown
            }
        });
        known.unwrap_or(Glance::Unknown)
    }

    /// Passes a command on of which nothing is known, if no collection of its database has a TTL.
    fn without_ttl(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let settings = self.ruling.settings.clone();
        let mut relay = self.relay(connection);
        Box::pin(async move {
            let database = request.body().get("$db").as_str().unwrap_or_default();
            let refused = match settings.has_settings(database).await {
                Ok(false) => None,
                Ok(true) => {
                    let name = request.body().first().map_or("", |first| first.name());
                    Some(Error::not_implemented(format!(
                        "{name} with --upstream, in a database that has a collection with a TTL,"
                    )))
                }
                Err(error) => Some(error),
            };
            if let Some(error) = refused {
                return Lost::Error(error).answer();
            }
            match relay.ask(request).await {
                Ok(document) => Ok(Answer::of(document)),
                Err(lost) => lost.answer(),
            }
        })
    }

    /// Answers serverStatus: the cluster's, with a section about the connection to it.
    fn status(&self, connection: &ProxyConnection, request: Request) -> Answering {
        let mut relay = self.relay(connection);
        let settings = self.ruling.settings.clone();
        Box::pin(async move {
            let reply = match relay.ask(request).await {
                Ok(reply) => reply,
                Err(lost) => return lost.answer(),
            };
            let LinkSlot {
                cluster, counters, ..
            } = &*relay.slot;
            let known = settings.status();
            let section = status::section(&cluster.state(), counters, &known);
            let reply = status::with_deleted(&reply, &known);
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

impl Handler for Proxy {
    type Connection = ProxyConnection;

    fn open(&self, peer: Peer) -> ProxyConnection {
        ProxyConnection {
            local: self.local.open(peer),
            link: Arc::new(LinkSlot::new(&self.cluster, &self.counters)),
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
    ) -> Result<CallOutcome, Hangup> {
        let body = request.body();
        let command = body.first().and_then(|name| find(name.name_bytes()));
        let route = command.map_or(Route::WithoutTtl, |command| command.facts.route);
        let clients_log_in = self.login == UpstreamLogin::Clients;
        let checked = match route {
            Route::Here => {
                let logs_in =
                    clients_log_in && LOGIN_FIELDS.iter().any(|field| body.has(field.as_bytes()));
                if logs_in {
                    let answer = self.hello_with_login(connection, request)?;
                    return Ok(CallOutcome::Awaited(answer));
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
            _ => check_database(body.get("$db").as_str().unwrap_or_default())
                .and_then(|()| self.local.admit(&connection.local, &request))
                .and_then(|()| match route {
                    Route::Schema => self.admit_actions(connection, &request),
                    _ => Ok(()),
                }),
        };
        if let Err(error) = checked {
            error.write_reply(reply);
            return Ok(CallOutcome::Replied);
        }
        Ok(CallOutcome::Awaited(match route {
            Route::Status => self.status(connection, request),
            Route::Documents => self.documents(connection, request),
            Route::Schema => self.schema(connection, request),
            Route::Statistics => self.statistics(connection, request),
            Route::Parameter => self.parameter(connection, request),
            Route::WithoutTtl => self.without_ttl(connection, request),
            _ => self.forward(connection, request),
        }))
    }
}

// === impl Cluster ===

impl command::AnnouncedCluster for Cluster {
    fn announced(&self) -> Option<Announced> {
        let kind = self.state().kind?;
        Some(Announced {
            topology: kind.topology,
            min_wire_version: kind.min_wire_version,
            max_wire_version: kind.max_wire_version,
        })
    }
}
