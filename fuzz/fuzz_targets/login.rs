//! Uses arbitrary bytes as the messages of a login: directly in the SCRAM parser, and as payloads of a hello, a `saslStart` and
//! a `saslContinue` on one connection. No client may log in without the password, and every command must get a reply.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sundown::auth::scram::{Exchange, Hello};
use sundown::auth::{Credential, Mechanism, RoleName, User, UserName};
use sundown::clock::{Clock, Millis};
use sundown::command::{Commands, Context};
use sundown::config::{Accounts, Config};
use sundown::handler::{CallOutcome, Handler, Peer, Progress};
use sundown::value::{Doc, DocBuf, DocBuilder, Limits, Value, validate};
use sundown::wire::Request;

/// A user with a name so short that the fuzzer finds it. Computing its keys takes long, so this happens once.
static USER: LazyLock<User> = LazyLock::new(|| {
    let roles = vec![RoleName::new("root", "admin")];
    User::with_password(UserName::new("a", "admin"), "hard to guess", roles).expect("a user")
});

/// Creates a new server for every input.
fn server() -> Commands {
    let config = Config {
        accounts: Accounts {
            list: vec![USER.clone()],
            required: true,
        },
        ..Config::default()
    };
    Commands::new(Context::new(
        config,
        Clock::frozen(Millis(1_900_000_000_000)),
    ))
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    let mut parts = rest.splitn(3, |byte| *byte == 0xFF);
    let mut part = || parts.next().unwrap_or_default();
    let (first, second, third) = (part(), part(), part());
    let mechanism = Mechanism::ALL[usize::from(choice & 1)];
    exchange(mechanism, first, second);
    converse(&server(), choice, mechanism, [first, second, third]);
});

/// Runs the parser alone, with a key that no proof matches.
fn exchange(mechanism: Mechanism, first: &[u8], proof: &[u8]) {
    let Ok(hello) = Hello::parse(first) else {
        return;
    };
    assert!(!hello.user.is_empty());
    let credential = Credential {
        iterations: 4096,
        salt: vec![7; 16],
        stored_key: vec![7; mechanism.key_length()],
        server_key: vec![7; mechanism.key_length()],
    };
    let (exchange, reply) = Exchange::begin(mechanism, &hello, credential, true, "ours");
    assert!(exchange.prove(proof).is_err());
    // The same bytes after a valid beginning, so that the check of the proof is reached.
    let nonce = reply.split(',').next().unwrap_or_default();
    let mut right = format!("c=biws,{nonce},p=").into_bytes();
    right.extend_from_slice(proof);
    assert!(exchange.prove(&right).is_err());
}

/// Sends the same bytes on a connection and checks that they do not log in.
fn converse(commands: &Commands, choice: u8, mechanism: Mechanism, parts: [&[u8]; 3]) {
    let mut connection = commands.open(Peer::plain(1, ([127, 0, 0, 1], 1).into()));
    let payload = |doc: &mut DocBuilder<'_>, bytes: &[u8]| {
        match std::str::from_utf8(bytes) {
            Ok(text) if choice & 2 != 0 && !text.contains('\0') => doc.put_str("payload", text),
            _ => doc.put("payload", Value::binary(0, bytes).as_ref()),
        };
    };
    let start = |doc: &mut DocBuilder<'_>, bytes: &[u8]| {
        doc.put_i32("saslStart", 1)
            .put_str("mechanism", mechanism.name());
        payload(doc, bytes);
        let mut options = doc.doc("options");
        options.put_bool("skipEmptyExchange", choice & 4 != 0);
        options.end();
    };
    let begin = DocBuf::build(|doc| {
        if choice & 8 == 0 {
            start(doc, parts[0]);
        } else {
            doc.put_i32("hello", 1);
            let mut login = doc.doc("speculativeAuthenticate");
            start(&mut login, parts[0]);
            login.put_str("db", "admin");
            login.end();
        }
        doc.put_str("$db", "admin");
    });
    let proceed = |bytes: &[u8]| {
        DocBuf::build(|doc| {
            doc.put_i32("saslContinue", 1).put_i32("conversationId", 1);
            payload(doc, bytes);
            doc.put_str("$db", "admin");
        })
    };
    let find = DocBuf::build(|doc| {
        doc.put_str("find", "c").put_str("$db", "admin");
    });
    for command in [begin, proceed(parts[1]), proceed(parts[2]), find] {
        let last = command.as_doc().has("find");
        let mut reply = Vec::new();
        let request = Request::new(command.into_bytes());
        if let Ok(CallOutcome::Work(mut work)) = commands.call(&mut connection, request, &mut reply)
        {
            while !matches!(work.step(&mut reply), Ok(Progress::Done) | Err(_)) {}
        }
        assert!(validate(&reply, Limits::default()).is_ok());
        let code = Doc::new(&reply).get("code").as_i32();
        assert!(!last || code == Some(13), "somebody got in");
    }
}
