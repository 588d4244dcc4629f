//! Answers ping and hello, until the command room takes its place.

use crate::error::{Code, Error, Hangup};
use crate::handler::{Handler, Outcome, Peer};
use crate::value::DocBuilder;
use crate::wire::Request;

#[derive(Debug, Default)]
pub struct Placeholder;

impl Handler for Placeholder {
    type Connection = ();

    fn open(&self, _: Peer) {}

    fn call(&self, (): &mut (), request: Request, reply: &mut Vec<u8>) -> Result<Outcome, Hangup> {
        match request.body().first().map_or("", |first| first.name()) {
            "ping" => {
                let mut doc = DocBuilder::begin(reply);
                doc.put_f64("ok", 1.0);
                doc.end();
            }
            "hello" | "ismaster" | "isMaster" => {
                let mut doc = DocBuilder::begin(reply);
                doc.put_bool("isWritablePrimary", true)
                    .put_str("msg", "isdbgrid")
                    .put_i32("maxBsonObjectSize", 16_777_216)
                    .put_i32("maxMessageSizeBytes", 48_000_000)
                    .put_i32("maxWriteBatchSize", 100_000)
                    .put_i32("minWireVersion", 0)
                    .put_i32("maxWireVersion", 27)
                    .put_f64("ok", 1.0);
                doc.end();
            }
            name => Error::new(Code::CommandNotFound, format!("no such command: '{name}'"))
                .write_reply(reply),
        }
        Ok(Outcome::Replied)
    }
}
