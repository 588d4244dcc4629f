//! Opens data connections: TCP or a Unix domain socket, TLS, hello, login.

use std::sync::Arc;
use std::time::Duration;

use bson::spec::BinarySubtype;
use bson::{Binary, Document, doc};
use mongodb::options::{AuthMechanism, ClientOptions, Credential, ServerAddress, Tls};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use super::cluster::ClusterNode;
use super::link::{Link, Socket};
use crate::auth::{ClientExchange, Mechanism};
use crate::config::UpstreamLogin;
use crate::error::{Code, Error};
use crate::trust::{Trust, client_config};
use crate::value::{Doc, DocBuf};
use crate::wire::{Compressor, Compressors, Request};

/// Everything that a new data connection needs besides its node.
pub struct Dialer {
    tls: Option<TlsConnector>,
    /// The user to log in as; `None` if the clients log in themselves, or if nobody needs to.
    login: Option<Login>,
    compressors: Vec<Compressor>,
    connect_timeout: Duration,
}

struct Login {
    user: String,
    password: String,
    source: String,
    mechanism: LoginMechanism,
}

#[derive(Clone, Copy)]
enum LoginMechanism {
    /// The strongest SCRAM that the node has for the user.
    Negotiated,
    Scram(Mechanism),
    X509,
    Plain,
}

/// A connection that could not be opened.
pub struct DialError {
    pub error: Error,
    /// Dialing again will not help: the login was refused.
    pub is_final: bool,
}

/// The driver's default.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

// === impl Dialer ===

impl Dialer {
    /// Takes over the options of the connection string. The error is a message for the operator.
    pub fn new(options: &ClientOptions, login: UpstreamLogin) -> Result<Self, String> {
        let login = match (login, &options.credential) {
            (UpstreamLogin::Own, Some(credential)) => Some(Login::new(credential)?),
            _ => None,
        };
        let compressors = options.compressors.iter().flatten();
        Ok(Self {
            tls: connector(options)?,
            login,
            compressors: compressors
                .filter_map(|compressor| {
                    let name = format!("{compressor:?}").to_lowercase();
                    let name = name.split(' ').next().unwrap_or_default();
                    Compressors::ALL.get(name)
                })
                .collect(),
            connect_timeout: options.connect_timeout.unwrap_or(CONNECT_TIMEOUT),
        })
    }

    /// Opens a connection to the node, and logs in.
    pub async fn dial(
        &self,
        node: &Arc<ClusterNode>,
        patience: Duration,
    ) -> Result<Link, DialError> {
        let patience = patience.min(self.connect_timeout);
        let connected = tokio::time::timeout(patience, async {
            let socket = self.connect(&node.address).await?;
            let mut link = Link::new(socket, Arc::clone(node));
            self.greet(&mut link).await?;
            Ok(link)
        });
        connected
            .await
            .unwrap_or_else(|_| Err(unreachable(&node.address, "connecting took too long")))
    }

    async fn connect(&self, address: &ServerAddress) -> Result<Socket, DialError> {
        let (host, port) = match address {
            ServerAddress::Tcp { host, port } => (host, port),
            // Never with TLS, as in the driver: it does not leave the machine.
            ServerAddress::Unix { path } => {
                let stream = UnixStream::connect(path).await;
                let stream = stream.map_err(|problem| unreachable(address, problem))?;
                return Ok(Socket::Unix(stream));
            }
            _ => {
                return Err(unreachable(
                    address,
                    "addresses of this kind are not supported",
                ));
            }
        };
        let stream = TcpStream::connect((host.as_str(), port.unwrap_or(27017)))
            .await
            .map_err(|problem| unreachable(address, problem))?;
        stream
            .set_nodelay(true)
            .map_err(|problem| unreachable(address, problem))?;
        let Some(tls) = &self.tls else {
            return Ok(Socket::Plain(stream));
        };
        let name =
            ServerName::try_from(host.clone()).map_err(|problem| unreachable(address, problem))?;
        match tls.connect(name, stream).await {
            Ok(stream) => Ok(Socket::Tls(Box::new(stream))),
            Err(problem) => Err(unreachable(address, problem)),
        }
    }

    /// Introduces Sundown to the node, agrees on a compressor, and logs in.
    async fn greet(&self, link: &mut Link) -> Result<(), DialError> {
        let names = self.compressors.iter().map(|compressor| compressor.name());
        let mut hello = doc! {
            "hello": 1,
            "client": {
                "application": {"name": "sundown"},
                "driver": {"name": "sundown", "version": env!("CARGO_PKG_VERSION")},
                "os": {"type": std::env::consts::OS},
            },
            "compression": names.collect::<Vec<_>>(),
            "$db": "admin",
        };
        if let Some(login) = &self.login
            && matches!(login.mechanism, LoginMechanism::Negotiated)
        {
            let user = format!("{}.{}", login.source, login.user);
            hello.insert("saslSupportedMechs", user);
        }
        let reply = ask(link, hello).await?;
        let greeting = reply.as_doc();
        if let Some(login) = &self.login {
            login.run(link, greeting).await?;
        }
        let version = greeting.get("topologyVersion").as_doc();
        link.version = version.map(DocBuf::from).unwrap_or_default();
        let agreed = greeting.get("compression").as_array();
        link.compressor = agreed
            .and_then(|names| names.iter().next()?.value.as_str())
            .and_then(|name| Compressors::ALL.get(name));
        Ok(())
    }
}

fn connector(options: &ClientOptions) -> Result<Option<TlsConnector>, String> {
    let Some(Tls::Enabled(tls)) = &options.tls else {
        return Ok(None);
    };
    let trust = match (&tls.ca_file_path, tls.allow_invalid_certificates) {
        (_, Some(true)) => Trust::Anyone,
        (Some(file), _) => Trust::Authority(file),
        (None, _) => Trust::Public,
    };
    let config = client_config(trust, tls.cert_key_file_path.as_deref())?;
    Ok(Some(TlsConnector::from(Arc::new(config))))
}

fn unreachable(address: &ServerAddress, problem: impl std::fmt::Display) -> DialError {
    DialError {
        error: Error::new(
            Code::HostUnreachable,
            format!("Error connecting to {address} :: caused by :: {problem}"),
        ),
        is_final: false,
    }
}

/// Runs a command of the greeting. An error of the node is final.
async fn ask(link: &mut Link, command: Document) -> Result<DocBuf, DialError> {
    let request = Request::new(DocBuf::from(command).into_bytes());
    let reply = match link.exchange(&request).await {
        Ok(reply) => DocBuf::from(Doc::new(&reply)),
        Err(problem) => return Err(unreachable(&link.node().address, problem)),
    };
    let said = reply.as_doc();
    if said.get("ok").as_f64() == Some(1.0) {
        return Ok(reply);
    }
    let number = said.get("code").as_f64().unwrap_or_default() as i32;
    let message = said.get("errmsg").as_str().unwrap_or_default();
    Err(DialError {
        error: Error::new(Code::numbered(number), message),
        is_final: true,
    })
}

// === impl Login ===

impl Login {
    fn new(credential: &Credential) -> Result<Self, String> {
        let mechanism = match &credential.mechanism {
            None => LoginMechanism::Negotiated,
            Some(AuthMechanism::ScramSha1) => LoginMechanism::Scram(Mechanism::Sha1),
            Some(AuthMechanism::ScramSha256) => LoginMechanism::Scram(Mechanism::Sha256),
            Some(AuthMechanism::MongoDbX509) => LoginMechanism::X509,
            Some(AuthMechanism::Plain) => LoginMechanism::Plain,
            Some(other) => {
                return Err(format!(
                    "the login mechanism {other:?} is not implemented in Sundown"
                ));
            }
        };
        let external = matches!(mechanism, LoginMechanism::X509 | LoginMechanism::Plain);
        let usual = if external { "$external" } else { "admin" };
        Ok(Self {
            user: credential.username.clone().unwrap_or_default(),
            password: credential.password.clone().unwrap_or_default(),
            source: credential.source.clone().unwrap_or_else(|| usual.into()),
            mechanism,
        })
    }

    async fn run(&self, link: &mut Link, greeting: Doc<'_>) -> Result<(), DialError> {
        let mechanism = match self.mechanism {
            LoginMechanism::Scram(mechanism) => mechanism,
            LoginMechanism::Negotiated => {
                let offered = greeting.get("saslSupportedMechs").as_array();
                let has = |name| {
                    let mut offered = offered.iter().flat_map(|names| names.iter());
                    offered.any(|offered| offered.value.as_str() == Some(name))
                };
                match has(Mechanism::Sha256.name()) {
                    true => Mechanism::Sha256,
                    false => Mechanism::Sha1,
                }
            }
            LoginMechanism::X509 => {
                let mut command =
                    doc! {"authenticate": 1, "mechanism": "MONGODB-X509", "$db": &self.source};
                if !self.user.is_empty() {
                    command.insert("user", &self.user);
                }
                return ask(link, command).await.map(drop);
            }
            LoginMechanism::Plain => {
                let payload = binary(format!("\0{}\0{}", self.user, self.password).as_bytes());
                let start = doc! {"saslStart": 1, "mechanism": "PLAIN", "payload": payload, "$db": &self.source};
                return ask(link, start).await.map(drop);
            }
        };
        self.scram(link, mechanism).await
    }

    async fn scram(&self, link: &mut Link, mechanism: Mechanism) -> Result<(), DialError> {
        let (exchange, payload) = ClientExchange::begin(mechanism, &self.user, &self.password)
            .map_err(|problem| refused(format!("the password cannot be used: {problem:?}")))?;
        let start = doc! {
            "saslStart": 1,
            "mechanism": mechanism.name(),
            "payload": binary(payload.as_bytes()),
            "options": {"skipEmptyExchange": true},
            "$db": &self.source,
        };
        let first = ask(link, start).await?;
        let bad = |_| refused("the server does not keep to the exchange");
        let (proof, payload) = exchange.prove(payload_of(first.as_doc())).map_err(bad)?;
        let conversation = first.as_doc().get("conversationId").as_i32().unwrap_or(1);
        let next = |payload: &[u8]| {
            doc! {
                "saslContinue": 1,
                "conversationId": conversation,
                "payload": binary(payload),
                "$db": &self.source,
            }
        };
        let last = ask(link, next(payload.as_bytes())).await?;
        proof.check(payload_of(last.as_doc())).map_err(bad)?;
        if last.as_doc().get("done").as_bool() == Some(false) {
            // A server that does not know `skipEmptyExchange` wants one more message.
            ask(link, next(&[])).await?;
        }
        Ok(())
    }
}

fn binary(bytes: &[u8]) -> Binary {
    Binary {
        subtype: BinarySubtype::Generic,
        bytes: bytes.to_vec(),
    }
}

fn payload_of(reply: Doc<'_>) -> &[u8] {
    reply
        .get("payload")
        .as_binary()
        .map_or(&[], |(_, payload)| payload)
}

fn refused(why: impl Into<String>) -> DialError {
    DialError {
        error: Error::new(Code::AuthenticationFailed, why),
        is_final: true,
    }
}
