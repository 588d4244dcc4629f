//! For tests: a server without sockets.

use bson::Document;

use super::{Commands, Connection, Context};
use crate::clock::{Clock, Millis};
use crate::config::Config;
use crate::handler::{self, Handler, Peer, Progress};
use crate::wire::Request;

pub fn server(config: Config) -> (Commands, Connection) {
    let commands = Commands::new(Context::new(config, Clock::frozen(Millis(1_000_000))));
    let peer = Peer {
        id: 7,
        address: ([127, 0, 0, 1], 5000).into(),
    };
    let connection = commands.open(peer);
    (commands, connection)
}

pub fn ask((commands, connection): &mut (Commands, Connection), command: Document) -> Document {
    let request = Request {
        body: command.to_vec().unwrap().into(),
        sequences: Vec::new(),
        query_database: None,
        unacknowledged: false,
        exhaust_allowed: false,
        compressor: None,
        request_id: 1,
        form: crate::wire::Form::Msg,
    };
    let mut reply = Vec::new();
    if let handler::Outcome::Work(mut work) =
        commands.call(connection, request, &mut reply).unwrap()
    {
        while work.step(&mut reply).unwrap() != Progress::Done {}
    }
    Document::from_reader(&reply[..]).unwrap()
}
