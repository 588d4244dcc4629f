//! `count`: counts the documents that match a filter.

use std::ops::ControlFlow;

use super::scan::{self, ScanVisitor};
use super::write::{self, Selecting};
use super::{Access, Call, Command, Flags, Needs, Outcome, collation, collection_uuid, reply};
use crate::args::Arg;
use crate::auth::Action;
use crate::engine::plan::Hint;
use crate::engine::stats::totals;
use crate::error::{Error, Result};
use crate::names::check_read;
use crate::value::{Doc, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "count",
    Access::Read,
    "Counts the documents that match a filter.",
    run,
)
.with(
    Flags::STABLE
        .and(Flags::SECONDARY)
        .and(Flags::READ_CONCERN)
        .and(Flags::BY_UUID),
)
.needs(Needs::Collection(Action::Find));

/// The arguments of a count.
#[derive(Default)]
pub(super) struct Count<'a> {
    pub collection: &'a str,
    pub filter: Option<Doc<'a>>,
    pub hint: Option<Hint>,
    pub skip: u64,
    pub limit: Option<u64>,
}

/// Counts matching documents: skips `skip` of them, then counts at most `limit`.
pub(super) struct CountDocuments {
    skip: u64,
    limit: Option<u64>,
    pub n: u64,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let count = Count::read(call)?;
    let collection = count.collection;
    if count.is_of_all() {
        // Storage keeps this total. It examines a document only if that document is due to expire.
        let known = call.context.catalog.get(call.database(), collection)?;
        let all = known.map_or(0, |known| totals(&known, call.read_point()).count);
        reply::put_count(reply, "n", count.of(all));
        return Ok(Outcome::Reply);
    }
    let counting = count.counting();
    let selecting = Selecting::plain(count.filter, count.hint);
    let (selection, _) = selecting.parse(&call.vars(), |_| Ok(()))?;
    scan::run(call, collection, selection, counting, reply)
}

// === impl Count ===

impl<'a> Count<'a> {
    /// Reads the fields of a count, which may be the command itself or nested in an explain.
    pub fn read(call: &Call<'a>) -> Result<Self> {
        let mut count = Self::default();
        for arg in call.args().skip(1) {
            match arg.name() {
                "query" => count.filter = arg.doc()?.filter(|filter| !filter.is_empty()),
                "skip" => count.skip = arg.int_at_least(0)?.unwrap_or(0).unsigned_abs(),
                "limit" => count.limit = read_limit(&arg)?,
                "hint" => count.hint = write::hint(&arg)?,
                "collation" => collation::read(&arg)?,
                // Old drivers send these fields, and they have no effect.
                "fields" | "queryOptions" => {}
                "includeQueryStatsMetrics" | "mirrored" => drop(arg.bool()?),
                "collectionUUID" => collection_uuid::check(call, arg)?,
                "encryptionInformation" => return Err(arg.not_implemented()),
                _ => return Err(arg.unknown()),
            }
        }
        count.collection = call.collection()?;
        check_read(call.database(), count.collection)?;
        Ok(count)
    }

    /// Returns whether the count covers every document of the collection. With a hint it may not, because the index may not
    /// contain all documents.
    pub fn is_of_all(&self) -> bool {
        self.filter.is_none() && self.hint.is_none()
    }

    pub fn counting(&self) -> CountDocuments {
        CountDocuments {
            skip: self.skip,
            limit: self.limit,
            n: 0,
        }
    }

    /// Applies `skip` and `limit` to the number of matching documents.
    pub fn of(&self, all: u64) -> u64 {
        all.saturating_sub(self.skip)
            .min(self.limit.unwrap_or(u64::MAX))
    }
}

/// Reads the limit. A negative limit means its absolute value, and zero means no limit.
fn read_limit(arg: &Arg<'_>) -> Result<Option<u64>> {
    if arg.value().as_num().is_none() {
        return Err(Error::bad_value("limit value is not a valid number"));
    }
    match arg.exact_int()? {
        Some(i64::MIN) => Err(Error::bad_value("limit value for count cannot be min long")),
        limit => Ok(limit.map(i64::unsigned_abs).filter(|&limit| limit > 0)),
    }
}

// === impl CountDocuments ===

impl ScanVisitor for CountDocuments {
    fn take(&mut self, _: Doc<'_>) -> Result<ControlFlow<()>> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        self.n += 1;
        Ok(match self.limit {
            Some(limit) if self.n >= limit => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) -> Result<()> {
        reply::put_count(reply, "n", self.n);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use crate::command::tests::server::{ask, server};
    use crate::config::Config;

    #[test]
    fn counts() {
        let mut server = server(Config::default());
        let documents: Vec<Document> = (0..10)
            .map(|i| match i % 2 {
                0 => doc! {"_id": i, "x": i},
                _ => doc! {"_id": i, "y": i},
            })
            .collect();
        ask(
            &mut server,
            doc! {"insert": "c", "documents": documents, "$db": "d"},
        );
        let index = doc! {"key": {"x": 1}, "name": "x", "sparse": true};
        ask(
            &mut server,
            doc! {"createIndexes": "c", "indexes": [index], "$db": "d"},
        );
        for (fields, expected) in [
            (doc! {}, Ok(10)),
            (doc! {"query": {}}, Ok(10)),
            (doc! {"query": null}, Ok(10)),
            (doc! {"skip": 3}, Ok(7)),
            (doc! {"skip": 30}, Ok(0)),
            (doc! {"skip": 8, "limit": 5}, Ok(2)),
            (doc! {"limit": -3}, Ok(3)),
            (doc! {"limit": 0}, Ok(10)),
            (doc! {"query": {"x": {"$gte": 4}}}, Ok(3)),
            (
                doc! {"query": {"x": {"$gte": 4}}, "skip": 1, "limit": 1},
                Ok(1),
            ),
            (doc! {"query": {"_id": 4}}, Ok(1)),
            (doc! {"query": {"_id": {"$in": [1, 2, 77]}}}, Ok(2)),
            (doc! {"hint": "x"}, Ok(5)),
            (doc! {"hint": {"$natural": -1}}, Ok(10)),
            (doc! {"hint": "nope"}, Err(2)),
            (doc! {"hint": {"$natural": 2}}, Err(2)),
            (doc! {"hint": 1}, Err(9)),
            (doc! {"limit": null}, Err(2)),
            (doc! {"limit": 1.5}, Err(9)),
            (doc! {"limit": i64::MIN}, Err(2)),
            (doc! {"skip": -1}, Err(2)),
            (doc! {"query": 1}, Err(14)),
            (doc! {"query": {"$nope": 1}}, Err(2)),
            (doc! {"Query": {}}, Err(40415)),
        ] {
            let mut command = doc! {"count": "c", "$db": "d"};
            command.extend(fields.clone());
            let reply = ask(&mut server, command);
            let got = reply
                .get_i32("n")
                .map_err(|_| reply.get_i32("code").unwrap());
            assert_eq!(got, expected, "{fields}: {reply}");
        }
        let nowhere = ask(&mut server, doc! {"count": "nope", "hint": "x", "$db": "d"});
        assert_eq!(nowhere.get_i32("n").unwrap(), 0);
    }
}
