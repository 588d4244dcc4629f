//! `saslStart` and `saslContinue`: SCRAM in MongoDB's messages.
//!
//! Every failure is reported as "Authentication failed." The log names the user, but never the credentials.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::args::{Arg, fields, required};
use crate::auth::{Conversation, LoginAttempt, Mechanism, UserName};
use crate::clock::monotonic;
use crate::command::{Access, Call, Client, Command, Context, Flags, Needs, Outcome, Step, Task};
use crate::error::{Code, Error, Result};
use crate::value::{Doc, DocBuf, DocBuilder, Type, Value, ValueRef};
use crate::wait::Wait;

const FLAGS: Flags = Flags::BEFORE_LOGIN
    .and(Flags::STABLE)
    .and(Flags::SECONDARY)
    .and(Flags::SECRETS)
    .and(Flags::LEGACY);

pub(in crate::command) const START: Command =
    Command::ready("saslStart", Access::None, "Starts a SCRAM login.", start)
        .with(FLAGS)
        .needs(Needs::Nothing);

pub(in crate::command) const CONTINUE: Command = Command::ready(
    "saslContinue",
    Access::None,
    "Continues a SCRAM login.",
    proceed,
)
.with(FLAGS)
.needs(Needs::Nothing);

pub(in crate::command) const AUTHENTICATE: Command = Command::ready(
    "authenticate",
    Access::None,
    "Logs in with a certificate, which always fails.",
    authenticate,
)
.with(FLAGS)
.needs(Needs::Nothing);

/// The number of the conversation, as in MongoDB. A connection has one conversation at a time.
const ID: i64 = 1;

/// The message that begins a conversation, in `saslStart` or in a hello.
struct Start<'a> {
    db: &'a str,
    mechanism: Mechanism,
    payload: Payload,
    skip_empty: bool,
}

/// The SCRAM part of a message.
struct Payload {
    bytes: Vec<u8>,
    /// The client sent it as base64 in a string.
    in_text: bool,
}

/// A proof that must wait, because there were too many wrong ones before it.
struct DelayedProof {
    context: Arc<Context>,
    client: Arc<Client>,
    pause: Option<Duration>,
    conversation: Option<Conversation>,
    payload: Vec<u8>,
}

fn failed() -> Error {
    Error::new(Code::AuthenticationFailed, "Authentication failed.")
}

fn unavailable(mechanism: &str) -> Error {
    Error::new(
        Code::MechanismUnavailable,
        format!("Received authentication for mechanism {mechanism} which is not enabled"),
    )
}

/// Refuses the command. Its only mechanism is X.509, and clients cannot identify themselves by certificate.
fn authenticate(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut mechanism = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "mechanism" => mechanism = arg.str()?,
            "user" => drop(arg.str()?),
            _ => return Err(arg.unknown()),
        }
    }
    required(mechanism, "authenticate", "mechanism")?;
    Err(failed())
}

fn start(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let start = Start::read(call.args().skip(1), "saslStart", call.database())?;
    let opened = open(call, start, false)?;
    reply.put_body(opened.as_doc().body());
    Ok(Outcome::Reply)
}

/// Begins a log-in within a hello. Errors are not reported, because the client then begins again with `saslStart`.
pub(in crate::command) fn speculate(call: &Call<'_>, arg: &Arg<'_>) -> Result<Option<DocBuf>> {
    let Some(doc) = arg.doc()? else {
        return Ok(None);
    };
    let is_start = doc.first().is_some_and(|first| first.name() == "saslStart");
    let start = Start::read(fields("speculativeAuthenticate", doc), "", call.database());
    Ok(match start {
        Ok(start) if is_start => open(call, start, true).ok(),
        _ => None,
    })
}

fn open(call: &Call<'_>, start: Start<'_>, speculative: bool) -> Result<DocBuf> {
    let users = &call.context.users;
    let (mut conversation, first) =
        Conversation::begin(users, start.mechanism, start.db, &start.payload.bytes)
            .map_err(|_| failed())?;
    // A driver guesses the mechanism in its hello. If the hello offers other mechanisms, the guess is dropped and the driver
    // starts again.
    let offered = || users.mechanisms(&conversation.user);
    if speculative && !offered().contains(&start.mechanism) {
        return Err(failed());
    }
    conversation.in_text = start.payload.in_text;
    conversation.skip_empty = start.skip_empty;
    conversation.speculative = speculative;
    let reply = DocBuf::build(|reply| put(reply, &conversation, false, first.as_bytes()));
    call.client.login.keep_conversation(conversation);
    Ok(reply)
}

fn proceed(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let (mut id, mut payload) = (None, None);
    for arg in call.args().skip(1) {
        match arg.name() {
            "conversationId" => id = arg.int()?,
            "payload" => payload = Payload::read(&arg)?,
            _ => return Err(arg.unknown()),
        }
    }
    let id = required(id, "saslContinue", "conversationId")?;
    let payload = required(payload, "saslContinue", "payload")?;
    let protocol = |message| Error::new(Code::ProtocolError, message);
    let conversation = call
        .client
        .login
        .take_conversation()
        .ok_or_else(|| protocol("No SASL session state found"))?;
    if id != ID {
        return Err(protocol("sasl: Mismatched conversation id"));
    }
    if conversation.db != call.database() {
        return Err(protocol(
            "Attempt to switch database target during sasl authentication.",
        ));
    }
    let mut proving = DelayedProof {
        context: Arc::clone(call.context),
        client: Arc::clone(call.client),
        pause: None,
        payload: payload.bytes,
        conversation: None,
    };
    if conversation.is_proved() {
        return proving.finish(conversation, reply).map(|()| Outcome::Reply);
    }
    let guess = proving.guess(&conversation);
    let Some(pause) = call.context.users.throttle.wait(&guess, monotonic()) else {
        return Err(proving.note_failure(&conversation, &guess));
    };
    if pause.is_zero() {
        return proving.prove(conversation, reply).map(|()| Outcome::Reply);
    }
    proving.pause = Some(pause);
    proving.conversation = Some(conversation);
    Ok(Outcome::Work(Box::new(proving)))
}

/// Writes `{conversationId, done, payload}`.
fn put(reply: &mut DocBuilder<'_>, conversation: &Conversation, done: bool, payload: &[u8]) {
    reply
        .put_i32("conversationId", ID as i32)
        .put_bool("done", done);
    if conversation.in_text {
        reply.put_str("payload", &STANDARD.encode(payload));
    } else {
        reply.put("payload", Value::binary(0, payload).as_ref());
    }
}

/// Writes `saslSupportedMechs` of the user named `db.user`.
pub(in crate::command) fn put_mechanisms(
    context: &Context,
    user: &UserName,
    reply: &mut DocBuilder<'_>,
) {
    let user = context.users.resolve(user.clone());
    let mut list = reply.array("saslSupportedMechs");
    for mechanism in context.users.mechanisms(&user) {
        list.push_str(mechanism.name());
    }
    list.end();
}

// === impl Start ===

impl<'a> Start<'a> {
    fn read(args: impl Iterator<Item = Arg<'a>>, path: &'static str, db: &'a str) -> Result<Self> {
        let (mut mechanism, mut payload, mut options) = (None, None, Doc::EMPTY);
        let mut db = db;
        for arg in args {
            match arg.name() {
                "mechanism" => mechanism = arg.str()?,
                "payload" => payload = Payload::read(&arg)?,
                "options" => options = arg.doc()?.unwrap_or(Doc::EMPTY),
                "autoAuthorize" => {}
                // The first field of a log-in within a hello, where `db` replaces `$db`.
                "saslStart" => {}
                "db" => db = arg.str()?.unwrap_or(db),
                _ => return Err(arg.unknown()),
            }
        }
        let name = required(mechanism, path, "mechanism")?;
        let payload = required(payload, path, "payload")?;
        let mechanism = Mechanism::find(name).ok_or_else(|| unavailable(name))?;
        Ok(Self {
            db,
            mechanism,
            payload,
            skip_empty: options.get("skipEmptyExchange").as_bool() == Some(true),
        })
    }
}

// === impl Payload ===

impl Payload {
    fn read(arg: &Arg<'_>) -> Result<Option<Self>> {
        let value: ValueRef<'_> = arg.value();
        if let Some((_, bytes)) = value.as_binary() {
            return Ok(Some(Self {
                bytes: bytes.to_vec(),
                in_text: false,
            }));
        }
        match arg.value().as_str() {
            Some(text) => Ok(Some(Self {
                bytes: STANDARD.decode(text).map_err(|_| failed())?,
                in_text: true,
            })),
            None if arg.is_null() => Ok(None),
            None => Err(arg.wrong_type(&[Type::Binary, Type::String])),
        }
    }
}

// === impl DelayedProof ===

impl DelayedProof {
    fn guess(&self, conversation: &Conversation) -> LoginAttempt {
        LoginAttempt {
            address: self.client.address.ip(),
            user: conversation.user.clone(),
        }
    }

    fn note_failure(&self, conversation: &Conversation, guess: &LoginAttempt) -> Error {
        self.context.users.throttle.failed(guess, monotonic());
        tracing::info!(
            connection = self.client.id,
            address = %self.client.address,
            user = ?guess.user.user,
            db = ?guess.user.db,
            mechanism = conversation.mechanism.name(),
            "log-in failed"
        );
        failed()
    }

    fn prove(&self, mut conversation: Conversation, reply: &mut DocBuilder<'_>) -> Result<()> {
        let guess = self.guess(&conversation);
        let Ok(signature) = conversation.prove(&self.payload) else {
            return Err(self.note_failure(&conversation, &guess));
        };
        self.context.users.throttle.succeeded(&guess);
        let done = conversation.skip_empty;
        if done {
            self.log_in(&conversation)?;
        }
        put(reply, &conversation, done, signature.as_bytes());
        if !done {
            self.client.login.keep_conversation(conversation);
        }
        Ok(())
    }

    /// Handles the empty exchange after a proof.
    fn finish(&self, conversation: Conversation, reply: &mut DocBuilder<'_>) -> Result<()> {
        if !self.payload.is_empty() {
            return Err(failed());
        }
        self.log_in(&conversation)?;
        put(reply, &conversation, true, &[]);
        Ok(())
    }

    fn log_in(&self, conversation: &Conversation) -> Result<()> {
        let users = &self.context.users;
        let login = &self.client.login;
        let user = conversation.proved_user(users).ok_or_else(failed)?;
        login
            .log_in(users, user)
            .map_err(|taken| {
                Error::location(
                    5626701,
                    format!(
                        "Each client connection may only be authenticated once. Previously authenticated as: {}",
                        taken.0
                    ),
                )
            })?;
        tracing::debug!(
            connection = self.client.id,
            address = %self.client.address,
            user = ?conversation.user.user,
            db = ?conversation.user.db,
            mechanism = conversation.mechanism.name(),
            speculative = conversation.speculative,
            "logged in"
        );
        Ok(())
    }
}

impl Task for DelayedProof {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        if let Some(pause) = self.pause.take() {
            return Ok(Step::Wait(Wait::sleep(pause)));
        }
        let conversation = self.conversation.take().ok_or_else(failed)?;
        self.prove(conversation, reply).map(|()| Step::Done)
    }
}
