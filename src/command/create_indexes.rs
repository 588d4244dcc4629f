//! `createIndexes`: builds indexes.

use super::frame::transaction::check_local;
use super::index_spec::{self, Unknown};
use super::{
    Access, Call, Command, Flags, Needs, Outcome, Step, Task, collection_uuid, commit_quorum,
    schema,
};
use crate::args::required;
use crate::auth::Action;
use crate::config::Topology;
use crate::engine::ddl::{BuildIndexes, Namespace, SchemaChange};
use crate::error::{Code, Error, Result};
use crate::names::check_created;
use crate::value::{DocBuilder, Value};

pub(super) const COMMAND: Command =
    Command::ready("createIndexes", Access::Admin, "Creates indexes.", run)
        .with(
            Flags::STABLE
                .and(Flags::WRITE_CONCERN)
                .and(Flags::TRANSACTION),
        )
        .needs(Needs::Collection(Action::CreateIndex));

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut specs = None;
    let mut unknown = Unknown::Refused;
    let mut quorum = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "indexes" => specs = arg.docs()?,
            "collectionUUID" => collection_uuid::check(call, arg)?,
            "ignoreUnknownIndexOptions" => {
                if arg.bool()? == Some(true) {
                    unknown = Unknown::Ignored;
                }
            }
            // The version for the whole command. Each index may also have its own `v`.
            "v" => drop(arg.int()?),
            "commitQuorum" => {
                commit_quorum::read(arg)?;
                quorum = Some(arg).filter(|arg| !arg.is_null());
            }
            _ => return Err(arg.unknown()),
        }
    }
    let specs = required(specs, "createIndexes", "indexes")?;
    let name = call.collection()?;
    check_created(call.database(), name)?;
    if (call.database(), name) == ("config", "transactions") {
        return Err(Error::new(
            Code::IllegalOperation,
            "not allowed to create index on config.transactions",
        ));
    }
    if specs.is_empty() {
        return Err(Error::bad_value(
            "Must specify at least one index to create",
        ));
    }
    let wanted = specs
        .into_iter()
        .map(|spec| index_spec::parse(spec, unknown))
        .collect::<Result<Vec<_>>>()?;
    if let Some(arg) = quorum {
        commit_quorum::check(&call.context.config.topology, arg)?;
    }
    let change = BuildIndexes {
        namespace: Namespace::new(call.database(), name),
        indexes: wanted,
    };
    if call.is_in_transaction() {
        check_local(call)?;
        let built = change.run_at(&call.context.catalog, call.read_point())?;
        schema::put_built(&built, reply);
        return Ok(Outcome::Reply);
    }
    let outcome = schema::run(call, reply, SchemaChange::BuildIndexes(change))?;
    if !matches!(call.context.config.topology, Topology::ReplicaSet { .. }) {
        return Ok(outcome);
    }
    let default = || Value::string(commit_quorum::DEFAULT);
    let quorum = quorum.map_or_else(default, |arg| arg.value().to_value());
    match outcome {
        Outcome::Work(build) => Ok(Outcome::Work(Box::new(QuorumBuild { build, quorum }))),
        outcome => {
            reply.put(QUORUM, quorum.as_ref());
            Ok(outcome)
        }
    }
}

/// A build on a replica set, whose reply names the commit quorum.
struct QuorumBuild {
    build: Box<dyn Task>,
    quorum: Value,
}

const QUORUM: &str = "commitQuorum";

impl Task for QuorumBuild {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let step = self.build.step(reply)?;
        if matches!(step, Step::Done) {
            reply.put(QUORUM, self.quorum.as_ref());
        }
        Ok(step)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::tests::server::{ask, begin, finish, server};
    use crate::config::Config;
    use crate::handler::Progress;
    use bson::{Document, doc};
    use std::pin::Pin;
    use std::task::{Context, Waker};

    type Server = (super::super::Commands, super::super::Connection);

    /// Creates a collection so large that an index build on it takes several steps.
    fn with_documents(a: impl Fn(i32) -> i32) -> Server {
        let mut server = server(Config::default());
        for from in (0..6_000).step_by(1_000) {
            let documents: Vec<Document> = (from..from + 1_000)
                .map(|n| doc! {"_id": n, "a": a(n)})
                .collect();
            ask(
                &mut server,
                doc! {"insert": "c", "documents": documents, "$db": "d"},
            );
        }
        server
    }

    fn create() -> Document {
        let unique = doc! {"key": {"a": 1}, "name": "a_1", "unique": true};
        doc! {"createIndexes": "c", "indexes": [unique], "$db": "d"}
    }

    fn numbers(reply: &Document) -> (i32, i32) {
        let number = |name| reply.get_i32(name).unwrap();
        (number("numIndexesBefore"), number("numIndexesAfter"))
    }

    #[test]
    fn a_second_build_of_the_same_index_waits_for_the_first() {
        let mut server = with_documents(|n| n);
        let mut first = begin(&mut server, create());
        let mut second = begin(&mut server, create());
        let mut reply = Vec::new();
        let mut waits = Vec::new();
        while !first.step(&mut reply).unwrap().is_done() {
            match second.step(&mut Vec::new()).unwrap() {
                Progress::Wait(wait) => waits.push(wait),
                other => panic!("{other:?}"),
            }
        }
        let mut nobody = Context::from_waker(Waker::noop());
        for mut wait in waits {
            assert!(
                Pin::new(&mut wait).poll(&mut nobody).is_ready(),
                "it is woken"
            );
        }
        assert_eq!(numbers(&Document::from_reader(&reply[..]).unwrap()), (1, 2));
        let second = finish(second);
        assert_eq!(numbers(&second), (2, 2), "{second}");
        assert_eq!(second.get_str("note").unwrap(), "all indexes already exist");
    }

    #[test]
    fn if_the_build_fails_both_clients_get_the_error() {
        let mut server = with_documents(|n| n.min(5_998));
        let first = begin(&mut server, create());
        let second = begin(&mut server, create());
        let third = begin(&mut server, create());
        for work in [first, second] {
            let reply = finish(work);
            assert_eq!(reply.get_i32("code").ok(), Some(11_000), "{reply}");
        }
        // The third build succeeds once the duplicate key is gone.
        let gone = doc! {"delete": "c", "deletes": [{"q": {"_id": 5_999}, "limit": 1}], "$db": "d"};
        ask(&mut server, gone);
        assert_eq!(numbers(&finish(third)), (1, 2));
    }

    #[test]
    fn an_index_dropped_during_its_build_is_not_mistaken_for_a_new_one() {
        let mut server = with_documents(|n| n);
        let mut first = begin(&mut server, create());
        first.step(&mut Vec::new()).unwrap();
        ask(
            &mut server,
            doc! {"dropIndexes": "c", "index": "a_1", "$db": "d"},
        );
        let second = begin(&mut server, create());
        let reply = finish(first);
        assert_eq!(reply.get_i32("code").ok(), Some(276), "{reply}");
        assert_eq!(numbers(&finish(second)), (1, 2));
        for n in [0, 50, 3_000, 5_999] {
            let find = doc! {"count": "c", "query": {"a": n}, "hint": "a_1", "$db": "d"};
            assert_eq!(ask(&mut server, find).get_i32("n").ok(), Some(1), "{n}");
        }
    }

    /// As in MongoDB, a build whose collection is dropped fails, and a collection cannot be renamed while a build runs on
    /// it.
    #[test]
    fn a_build_ends_with_its_collection_and_prevents_a_rename() {
        let drops = [
            doc! {"drop": "c", "$db": "d"},
            doc! {"dropDatabase": 1, "$db": "d"},
        ];
        for drop in drops {
            let mut server = with_documents(|n| n);
            let mut work = begin(&mut server, create());
            work.step(&mut Vec::new()).unwrap();
            for (from, to) in [("d.c", "d.other"), ("d.source", "d.c")] {
                ask(&mut server, doc! {"create": "source", "$db": "d"});
                let rename =
                    doc! {"renameCollection": from, "to": to, "dropTarget": true, "$db": "admin"};
                let reply = ask(&mut server, rename);
                assert_eq!(reply.get_i32("code").ok(), Some(12_587), "{reply}");
            }
            assert_eq!(ask(&mut server, drop).get_f64("ok").ok(), Some(1.0));
            let reply = finish(work);
            assert_eq!(reply.get_i32("code").ok(), Some(276), "{reply}");
            let message = reply.get_str("errmsg").unwrap();
            assert!(message.starts_with("Index build failed: "), "{message}");
            assert!(message.ends_with(") is being dropped"), "{message}");
            assert_eq!(numbers(&ask(&mut server, create())), (1, 2));
        }
    }
}
