//! `distinct`: lists the distinct values of a field.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::cursor;
use super::scan::{self, ScanVisitor};
use super::write::{self, Selecting};
use super::{Access, Call, Command, Flags, Needs, Outcome, collation, collection_uuid};
use crate::args;
use crate::auth::Action;
use crate::engine::distinct::DistinctIndex;
use crate::engine::plan::Hint;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::names::check_read;
use crate::value::{ArrayBuilder, Doc, DocBuilder, MAX_DOCUMENT, Path, Value, ValueRef, key};

pub(super) const COMMAND: Command = Command::ready(
    "distinct",
    Access::Read,
    "Lists the distinct values of a field.",
    run,
)
// `distinct` is not in the stable API, where clients use `$group` instead.
.with(
    Flags::SECONDARY
        .and(Flags::SNAPSHOT)
        .and(Flags::TRANSACTION)
        .and(Flags::BY_UUID),
)
.needs(Needs::Collection(Action::Find));

/// The arguments of a distinct.
pub(super) struct Distinct<'a> {
    pub collection: &'a str,
    pub key: &'a str,
    pub filter: Option<Doc<'a>>,
    pub hint: Option<Hint>,
}

/// Collects the values at a path.
pub(super) struct Values {
    path: Path,
    index: Option<DistinctIndex>,
    /// The time of the snapshot that is read, for the reply.
    time: Option<Value>,
    distinct: DistinctValues,
}

/// The values so far, in sort order. Of equal values the first one found is kept.
#[derive(Default)]
struct DistinctValues {
    found: BTreeMap<Vec<u8>, Value>,
    bytes: usize,
    scratch: Vec<u8>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let distinct = Distinct::read(call)?;
    let collection = distinct.collection;
    let mut values = Values::new(distinct.key);
    let snapshot = call.snapshot.as_deref();
    values.time = snapshot.map(|snapshot| cursor::timestamp(snapshot.time()));
    let (has_filter, is_free) = (distinct.filter.is_some(), distinct.hint.is_none());
    let selecting = Selecting::plain(distinct.filter, distinct.hint);
    let (mut selection, _) = selecting.parse(&call.vars(), |_| Ok(()))?;
    let at = call.read_point();
    let catalog = &call.context.catalog;
    if is_free && let Some(collection) = catalog.get_at(call.database(), collection, at)? {
        let filter = has_filter.then(|| &**selection.wanted.filter());
        values.index = DistinctIndex::on(&collection, &values.path, filter, at)?;
    }
    selection.names_ts |= call.context.config.expose_ts || values.names_ts();
    scan::run(call, collection, selection, values, reply)
}

// === impl Distinct ===

impl<'a> Distinct<'a> {
    /// Reads the fields of a distinct, which may be the command itself or nested in an explain.
    pub fn read(call: &Call<'a>) -> Result<Self> {
        let collection = call.collection()?;
        check_read(call.database(), collection)?;
        let (mut key, mut filter, mut hint, mut order) = (None, None, None, None);
        for arg in call.args().skip(1) {
            match arg.name() {
                "key" => key = arg.str()?,
                "query" => filter = arg.doc()?.filter(|filter| !filter.is_empty()),
                "hint" => hint = write::hint(&arg)?,
                "collation" => {
                    arg.doc()?;
                    order = Some(arg);
                }
                "includeQueryStatsMetrics" | "mirrored" => drop(arg.bool()?),
                "collectionUUID" => collection_uuid::check(call, arg)?,
                "encryptionInformation" => return Err(arg.not_implemented()),
                _ => return Err(arg.unknown()),
            }
        }
        let key = args::required(key, "distinct", "key")?;
        if key.contains('\0') {
            return Err(Error::location(
                31032,
                "Key field cannot contain an embedded null byte",
            ));
        }
        order.as_ref().map_or(Ok(()), collation::read)?;
        Ok(Self {
            collection,
            key,
            filter,
            hint,
        })
    }
}

// === impl Values ===

impl Values {
    pub fn new(path: &str) -> Self {
        Self {
            path: Path::parse(path),
            index: None,
            time: None,
            distinct: DistinctValues::default(),
        }
    }

    pub fn names_ts(&self) -> bool {
        self.path.first() == crate::ttl::TS_FIELD
    }
}

// === impl DistinctValues ===

impl DistinctValues {
    fn add(&mut self, value: ValueRef<'_>) -> Result<()> {
        // One document may add a million values.
        interrupt::tick(1)?;
        self.scratch.clear();
        key::encode(value, false, &mut self.scratch);
        if self.found.contains_key(&self.scratch) {
            return Ok(());
        }
        self.bytes += value.data().len() + 8;
        if self.bytes >= MAX_DOCUMENT {
            return Err(Error::location(17217, "distinct too big, 16mb cap"));
        }
        self.found.insert(self.scratch.clone(), value.to_value());
        Ok(())
    }
}

impl ScanVisitor for Values {
    fn take(&mut self, doc: Doc<'_>) -> Result<ControlFlow<()>> {
        let mut found = |value: ValueRef<'_>| self.distinct.add(value);
        match &self.index {
            Some(index) => index.values(doc, &mut found),
            None => self.path.distinct_values(doc, &mut found),
        }
        .map(ControlFlow::Continue)
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) -> Result<()> {
        let mut values: ArrayBuilder<'_> = reply.array("values");
        for value in self.distinct.found.values() {
            values.push(value.as_ref());
        }
        values.end();
        if let Some(time) = &self.time {
            reply.put("atClusterTime", time.as_ref());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bson::{Bson, bson, doc};

    use crate::command::tests::server::{ask, server};
    use crate::config::Config;

    #[test]
    fn distinct_values_are_returned_once_and_in_order() {
        let mut server = server(Config::default());
        let documents = vec![
            doc! {"_id": 1, "x": 3, "a": [{"b": 1, "0": 9}, {"b": [2, 3]}], "n": [[1, 2], 5]},
            doc! {"_id": 2, "x": "s", "a": {"b": 1.0}, "n": {"0": 7}},
            doc! {"_id": 3, "x": 3.0, "a": 4, "a.b": 8},
            doc! {"_id": 4, "x": [1, 3, [4]], "n": 1},
            doc! {"_id": 5, "x": null},
            doc! {"_id": 6, "x": []},
        ];
        ask(
            &mut server,
            doc! {"insert": "c", "documents": documents, "$db": "d"},
        );
        for (key, query, expected) in [
            ("x", doc! {}, bson!([null, 1, 3, "s", [4]])),
            ("x", doc! {"_id": {"$lt": 3}}, bson!([3, "s"])),
            ("a.b", doc! {}, bson!([1, 2, 3, 8])),
            ("a.0.b", doc! {}, bson!([1])),
            ("a.0", doc! {"_id": 1}, bson!([{"b": 1, "0": 9}])),
            ("n.0", doc! {}, bson!([1, 2, 7])),
            ("nope", doc! {}, bson!([])),
            ("x.", doc! {}, bson!([])),
            ("_id", doc! {"_id": {"$in": [2, 9, 1]}}, bson!([1, 2])),
        ] {
            let command = doc! {"distinct": "c", "key": key, "query": query.clone(), "$db": "d"};
            let reply = ask(&mut server, command);
            assert_eq!(
                reply.get("values"),
                Some(&expected),
                "{key} {query}: {reply}"
            );
        }
        for (fields, code) in [
            (doc! {}, 40414),
            (doc! {"key": null}, 40414),
            (doc! {"key": 1}, 14),
            (doc! {"key": "a\0b"}, 31032),
            (doc! {"key": "x", "hint": Bson::Null}, 9),
            (doc! {"key": "x", "nope": 1}, 40415),
            (doc! {"key": "x", "query": {"$nope": 1}}, 2),
        ] {
            let mut command = doc! {"distinct": "c", "$db": "d"};
            command.extend(fields.clone());
            let reply = ask(&mut server, command);
            assert_eq!(reply.get_i32("code").ok(), Some(code), "{fields}: {reply}");
        }
    }
}
