//! A server without sockets, for tests.

use bson::Document;

use crate::clock::{Clock, Millis};
use crate::command::frame::cluster_time::without_time;
use crate::command::{Commands, Connection, Context};
use crate::config::Config;
use crate::error::Hangup;
use crate::handler::{CallOutcome, Handler, Peer, Progress, Work};
use crate::wire::Request;

pub fn server(config: Config) -> (Commands, Connection) {
    let commands = Commands::new(Context::new(config, Clock::frozen(Millis(1_000_000))));
    let peer = Peer::plain(7, ([127, 0, 0, 1], 5000).into());
    let connection = commands.open(peer);
    (commands, connection)
}

/// Runs a command that is work. Returns the outcome of each step, and the reply.
pub fn step(
    (commands, connection): &mut (Commands, Connection),
    command: Document,
) -> (Vec<Result<Progress, Hangup>>, Option<Document>) {
    let mut reply = Vec::new();
    let mut steps = Vec::new();
    match commands.call(connection, request(command), &mut reply) {
        Ok(CallOutcome::Work(mut work)) => loop {
            steps.push(work.step(&mut reply));
            if matches!(steps.last(), Some(Ok(Progress::Done) | Err(_))) {
                break;
            }
        },
        Ok(_) => {}
        Err(hangup) => steps.push(Err(hangup)),
    }
    (steps, (!reply.is_empty()).then(|| without_time(&reply)))
}

pub fn ask((commands, connection): &mut (Commands, Connection), command: Document) -> Document {
    let mut reply = Vec::new();
    match commands.call(connection, request(command), &mut reply) {
        Ok(CallOutcome::Work(work)) => finish(work),
        _ => without_time(&reply),
    }
}

/// Begins a command that is work.
pub fn begin(
    (commands, connection): &mut (Commands, Connection),
    command: Document,
) -> Box<dyn Work> {
    match commands.call(connection, request(command), &mut Vec::new()) {
        Ok(CallOutcome::Work(work)) => work,
        _ => panic!("it is done already"),
    }
}

pub fn finish(mut work: Box<dyn Work>) -> Document {
    let mut reply = Vec::new();
    while !work.step(&mut reply).unwrap().is_done() {}
    without_time(&reply)
}

/// Returns the reply of a command that may have to wait.
pub async fn await_reply(
    (commands, connection): &mut (Commands, Connection),
    command: Document,
) -> Document {
    let mut reply = Vec::new();
    if let Ok(CallOutcome::Work(mut work)) = commands.call(connection, request(command), &mut reply)
    {
        loop {
            match work.step(&mut reply).unwrap() {
                Progress::Wait(wait) => wait.await,
                progress if progress.is_done() => break,
                _ => {}
            }
        }
    }
    without_time(&reply)
}

/// Runs that many steps of a command that is work, then abandons it. Returns whether it was done.
pub fn run_steps(
    (commands, connection): &mut (Commands, Connection),
    command: Document,
    steps: usize,
) -> bool {
    let mut reply = Vec::new();
    match commands.call(connection, request(command), &mut reply) {
        Ok(CallOutcome::Work(mut work)) => {
            (0..steps).any(|_| work.step(&mut reply).unwrap().is_done())
        }
        _ => true,
    }
}

fn request(command: Document) -> Request {
    Request::new(command.to_vec().unwrap())
}
