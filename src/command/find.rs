//! `find`: returns the documents that match a filter.

use std::sync::Arc;

use super::collation;
use super::collection_uuid;
use super::cursor::{self, CursorOptions};
use super::frame::oplog;
use super::rows::RowSource;
use super::stream::{SortSource, WalkSource};
use super::write::hint;
use super::{Access, Call, Command, Counter, Counters, Flags, Needs, Outcome, record_ids};
use crate::args::Arg;
use crate::auth::Action;
use crate::engine::key_bounds::MinMaxBounds;
use crate::engine::plan::{Hint, ScanDirection, id_equality, plain_id};
use crate::engine::return_key::{self, FoundBy};
use crate::engine::{self, EngineSources, OpenedWalk, Reading, show_by_id};
use crate::error::{Code, Error, Result};
use crate::names::check_read;
use crate::query::filter::Filter;
use crate::query::projection::Projection;
use crate::query::sort::Sort;
use crate::query::stage::{self, PipelineLimits, Rows, SourceSpec};
use crate::query::{Survey, Vars, bind_let};
use crate::session::Source;
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, DocBuilder, ValueRef};

pub(super) const COMMAND: Command = Command::ready(
    "find",
    Access::Read,
    "Returns the documents that match a filter.",
    run,
)
.with(
    Flags::STABLE
        .and(Flags::SECONDARY)
        .and(Flags::SNAPSHOT)
        .and(Flags::TRANSACTION)
        .and(Flags::UNCOUNTED)
        .and(Flags::BY_UUID),
)
.needs(Needs::Collection(Action::Find));

/// The arguments of a find, read but not yet parsed.
#[derive(Default)]
pub(super) struct Find<'a> {
    pub collection: &'a str,
    pub filter: Option<Doc<'a>>,
    pub sort: Option<Doc<'a>>,
    pub projection: Option<Doc<'a>>,
    hint: Option<Hint>,
    between: Option<MinMaxBounds>,
    show_record_id: bool,
    pub return_key: bool,
    tailable: bool,
    await_data: bool,
    let_vars: Option<Doc<'a>>,
    pub skip: u64,
    pub limit: Option<u64>,
    batch_size: Option<u32>,
    single_batch: bool,
    no_timeout: bool,
    allow_disk_use: Option<bool>,
}

/// A find that was parsed and checked: it can be run, or explained.
pub(super) struct PreparedFind {
    pub reading: Reading,
    pub projection: Option<Projection>,
    pub vars: Vars,
    pub sources: Arc<EngineSources>,
    pub limits: PipelineLimits,
    /// Whether the cursor stays open at the end of a capped collection.
    tailing: bool,
    is_slow: bool,
}

/// Returns the rows as the projection shows them.
pub(super) fn project(
    rows: Box<dyn Rows>,
    projection: Projection,
    filter: Arc<Filter>,
) -> Box<dyn Rows> {
    match projection.is_positional() {
        true => stage::project_found(rows, projection, filter),
        false => stage::project(rows, projection),
    }
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.context
        .counters
        .add(Counters::shard(call.client.id), Counter::Query, 1);
    Find::read(call)?.answer(call, reply)
}

/// Reads a document. An empty document counts as left out.
fn non_empty<'a>(arg: &Arg<'a>) -> Result<Option<Doc<'a>>> {
    Ok(Some(arg.doc_not_null()?).filter(|doc| !doc.is_empty()))
}

// === impl Find ===

impl<'a> Find<'a> {
    /// Reads the fields of a find, which may be the command itself or nested in an explain.
    pub fn read(call: &Call<'a>) -> Result<Self> {
        let mut find = Self::default();
        for arg in call.args().skip(1) {
            match arg.name_bytes() {
                b"filter" => find.filter = Some(arg.doc_not_null()?),
                b"sort" => find.sort = non_empty(&arg)?,
                b"projection" => find.projection = non_empty(&arg)?,
                b"hint" => find.hint = hint(&arg)?,
                b"skip" => find.skip = arg.int_at_least(0)?.unwrap_or(0) as u64,
                b"limit" => {
                    let limit = arg.int_at_least(0)?.filter(|&limit| limit > 0);
                    find.limit = limit.map(|limit| limit as u64);
                }
                b"batchSize" => find.batch_size = arg.batch_size()?,
                b"singleBatch" => find.single_batch = arg.bool_not_null()?,
                b"let" => find.let_vars = arg.doc()?,
                b"collectionUUID" => collection_uuid::check(call, arg)?,
                b"noCursorTimeout" => find.no_timeout = arg.bool_not_null()?,
                b"allowDiskUse" => find.allow_disk_use = Some(arg.bool_not_null()?),
                b"allowPartialResults"
                | b"oplogReplay"
                | b"mirrored"
                | b"includeQueryStatsMetrics" => {
                    arg.bool_not_null()?;
                }
                b"collation" => collation::read(&arg)?,
                b"tailable" => {
                    find.tailable = arg.bool_not_null()?;
                    if find.tailable && call.is_in_transaction() {
                        return Err(Error::new(
                            Code::InvalidOptions,
                            "It is illegal to open a tailable cursor in a transaction",
                        ));
                    }
                }
                b"awaitData" => find.await_data = arg.bool_not_null()?,
                b"returnKey" => find.return_key = arg.bool_not_null()?,
                b"showRecordId" => find.show_record_id = arg.bool_not_null()?,
                b"min" | b"max" => {
                    if let Some(end) = non_empty(&arg)? {
                        let ends = find.between.get_or_insert(MinMaxBounds {
                            min: None,
                            max: None,
                        });
                        let end = Some(DocBuf::from_bytes(end.bytes().to_vec()));
                        match arg.name_bytes() {
                            b"min" => ends.min = end,
                            _ => ends.max = end,
                        }
                    }
                }
                b"term" | b"resumeAfter" | b"startAt" | b"requestResumeToken" => {
                    return Err(Error::not_implemented(format_args!("find.{}", arg.name())));
                }
                _ => return Err(arg.unknown()),
            }
        }
        find.collection = call.collection()?;
        check_read(call.database(), find.collection)?;
        find.between.as_ref().map_or(Ok(()), MinMaxBounds::check)?;
        if find.await_data && !find.tailable {
            return Err(Error::failed_to_parse(
                "Cannot set 'awaitData' without also setting 'tailable'",
            ));
        }
        if find.tailable {
            find.check_tailable()?;
        }
        find.natural()?;
        Ok(find)
    }

    /// Turns a sort by `$natural` into a hint. A tailable cursor always walks in natural order.
    fn natural(&mut self) -> Result<()> {
        let hint = self
            .sort
            .map(|sort| Hint::of_natural_sort(sort, self.hint.as_ref()));
        if let Some(hint) = hint.transpose()?.flatten() {
            self.hint = Some(hint);
            self.sort = None;
        } else if self.tailable && self.hint.is_none() {
            self.hint = Some(Hint::Natural(ScanDirection::Forward));
        }
        Ok(())
    }

    /// Refuses options that a tailable cursor cannot have. Such a cursor walks all documents in natural order.
    fn check_tailable(&self) -> Result<()> {
        let forwards = |sort: Doc<'_>| {
            let direction = sort.get("$natural").as_num();
            sort.count() == 1 && direction.and_then(|direction| direction.to_i64_exact()) == Some(1)
        };
        if self.sort.is_some_and(|sort| !forwards(sort)) {
            return Err(Error::bad_value(
                "cannot use tailable option with a sort other than {$natural: 1}",
            ));
        }
        if self.single_batch {
            return Err(Error::bad_value(
                "cannot use tailable option with the 'singleBatch' option",
            ));
        }
        Ok(())
    }

    fn answer(self, call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
        if !call.context.config.expose_ts
            && self.is_plain()
            && self.sort.is_none()
            && self.let_vars.is_none()
            && let Some(id) = self.filter.and_then(plain_id)
        {
            return point(call, self.collection, id, reply);
        }
        let prepared = self.prepare(call)?;
        if !prepared.reading.show_ts
            && self.is_plain()
            && let Some(id) = id_equality(&prepared.reading.filter)
        {
            return point(call, self.collection, id, reply);
        }
        // A cursor on no collection has nothing to wait for, so that it ends at once even with an empty first batch.
        let is_there = self.batch_size != Some(0)
            || call
                .context
                .catalog
                .get(call.database(), self.collection)?
                .is_some();
        let opening = CursorOptions {
            namespace: call.namespace(self.collection),
            batch_size: self.batch_size,
            single_batch: self.single_batch || !is_there,
            no_timeout: self.no_timeout,
            awaits: prepared.tailing && self.await_data,
            is_slow: prepared.is_slow,
            writes: false,
        };
        let tailing = prepared.tailing;
        let mut source = self.source(call, prepared)?;
        if tailing {
            source = oplog::tail(call, self.collection, source);
        }
        cursor::open(call, reply, source, opening)
    }

    /// Parses the parts and refuses a find that cannot run. An explain of a find calls this, too.
    pub fn prepare(&self, call: &Call<'_>) -> Result<PreparedFind> {
        let context = call.context;
        let (scope, vars) = match self.let_vars {
            None => (call.scope(), call.vars()),
            Some(spec) => bind_let(&call.vars(), &call.scope(), spec)?,
        };
        let filter = Filter::parse(self.filter.unwrap_or(Doc::EMPTY), &scope)?;
        let projection = self
            .projection
            .map(|fields| {
                Projection::parse_found(fields, self.filter.unwrap_or(Doc::EMPTY), &scope)
            })
            .transpose()?;
        let sort = self.sort.map(Sort::parse).transpose()?;
        let expose_ts = context.config.expose_ts;
        let surveyed = Survey::of(TS_FIELD, |survey| {
            filter.survey(survey);
            survey.settle();
            if let Some(sort) = &sort {
                sort.survey(survey);
                survey.settle();
            }
            if let Some(projection) = &projection {
                projection.survey(survey);
            }
        });
        let bound = self.let_vars.and_then(|_| filter.bound(&vars));
        let spec = SourceSpec {
            filter: Some(Arc::new(bound.unwrap_or(filter))),
            sort: sort.map(Arc::new),
            skip: self.skip,
            limit: self.limit,
            count_only: false,
        };
        let show_ts = expose_ts || surveyed.names_field;
        let mut reading = Reading::new(spec, self.hint.clone(), show_ts);
        reading.between = self.between.clone();
        Ok(PreparedFind {
            reading,
            projection,
            vars,
            sources: Arc::new(EngineSources::new(
                Arc::clone(&context.catalog),
                call.read_point(),
                expose_ts,
            )),
            limits: PipelineLimits::new(self.allow_disk_use.unwrap_or(true), context.query_memory),
            tailing: self.tailable && has_tail(call, self.collection)?,
            is_slow: surveyed.is_slow,
        })
    }

    /// Returns the source that the cursor reads from.
    fn source(&self, call: &Call<'_>, prepared: PreparedFind) -> Result<Box<dyn Source>> {
        let PreparedFind {
            reading,
            projection,
            vars,
            sources,
            limits,
            tailing,
            ..
        } = prepared;
        let filter = Arc::clone(&reading.filter);
        let as_stored = projection.is_none() && !self.show_record_id && !self.return_key;
        let opened = match sources.open_walk(call.database(), self.collection, &reading)? {
            Some(opened) if opened.sorted && as_stored => {
                let walk = opened.walk.tailing(tailing);
                let mut stream = WalkSource::new(walk, filter, vars, self.skip, self.limit);
                if reading.sort.is_some() {
                    stream = stream.in_order(SortSource {
                        reading,
                        sources,
                        limits,
                    });
                }
                return Ok(Box::new(stream.tailing(tailing)));
            }
            opened => opened,
        };
        let by = opened
            .as_ref()
            .filter(|_| self.return_key)
            .map(|opened| return_key::indexes(&opened.walk));
        let tail = opened
            .as_ref()
            .filter(|_| tailing)
            .map(|opened| opened.walk.tail());
        let show_ts = reading.show_ts || by.iter().flatten().any(FoundBy::names_ts);
        let mut rows: Box<dyn Rows> = match opened {
            None => Box::new(stage::Empty),
            Some(opened) => {
                let walk = opened.walk.tailing(tailing).show_ts(show_ts);
                sources.rows(OpenedWalk { walk, ..opened }, reading)
            }
        };
        if let Some(by) = by {
            // Rows become index keys. They have no fields for the projection and no record id, so both options have no
            // effect.
            rows = return_key::rows(rows, by);
        } else {
            if let Some(projection) = projection {
                rows = project(rows, projection, filter);
            }
            if self.show_record_id {
                rows = record_ids::rows(rows);
            }
        }
        Ok(Box::new(
            RowSource::new(rows, sources, vars, limits).tailing(tail),
        ))
    }

    /// Returns whether the find returns documents as they are stored and has its result in the first batch.
    #[inline]
    fn is_plain(&self) -> bool {
        self.projection.is_none()
            && self.hint.is_none()
            && self.between.is_none()
            && !self.show_record_id
            && !self.return_key
            && !self.tailable
            && self.skip == 0
            && self.batch_size != Some(0)
    }
}

/// Copies the document with this `_id` from storage into the reply.
fn point(
    call: &mut Call<'_>,
    collection: &str,
    id: ValueRef<'_>,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let found = call
        .context
        .catalog
        .get_at(call.database(), collection, call.read_point())?;
    let mut shown = reply.doc("cursor");
    let mut batch = shown.array("firstBatch");
    if let Some(found) = found {
        show_by_id(&found, call.read_point(), id, |doc| {
            batch.push_doc(doc);
        });
    }
    batch.end();
    shown
        .put_i64("id", 0)
        .put_joined("ns", call.database(), collection);
    if let Some(snapshot) = &call.snapshot {
        let time = cursor::timestamp(snapshot.time());
        shown.put("atClusterTime", time.as_ref());
    }
    shown.end();
    Ok(Outcome::Reply)
}

/// Returns whether the collection has documents, after which a tailable cursor can wait. Fails if it is not capped.
fn has_tail(call: &Call<'_>, collection: &str) -> Result<bool> {
    let found = call
        .context
        .catalog
        .get_at(call.database(), collection, call.read_point())?;
    found.map_or(Ok(false), |found| {
        engine::has_tail(&found, call.read_point())
    })
}

#[cfg(test)]
mod tests {
    use bson::{Bson, Document, doc};

    use crate::command::tests::server::{ask, server};
    use crate::config::Config;

    #[test]
    fn bounds_and_directions_that_a_client_sets() {
        let mut server = server(Config::default());
        let documents: Vec<Document> = (0..6)
            .map(|i| doc! {"_id": i, "a": 10 - i, "v": [1, 2, 3]})
            .collect();
        ask(
            &mut server,
            doc! {"insert": "c", "documents": documents, "$db": "d"},
        );
        let index = doc! {"key": {"a": 1}, "name": "a"};
        ask(
            &mut server,
            doc! {"createIndexes": "c", "indexes": [index], "$db": "d"},
        );
        for (fields, expected) in [
            (doc! {"hint": "a", "min": {"a": 9}}, Ok(vec![1, 0])),
            (doc! {"hint": {"a": 1}, "max": {"a": 7}}, Ok(vec![5, 4])),
            (
                doc! {"hint": "a", "min": {"a": 6}, "max": {"a": 9}, "filter": {"_id": {"$ne": 3}}},
                Ok(vec![4, 2]),
            ),
            (doc! {"hint": {"_id": 1}, "min": {"_id": 4}}, Ok(vec![4, 5])),
            (doc! {"min": {"a": 6}}, Err(51173)),
            (doc! {"hint": "a", "min": {"b": 6}}, Err(51174)),
            (
                doc! {"hint": "a", "min": {"a": 6}, "max": {"a": 6}},
                Err(51175),
            ),
            (doc! {"sort": {"$natural": -1}, "limit": 2}, Ok(vec![5, 4])),
            (doc! {"sort": {"$natural": 2}}, Err(2)),
            (doc! {"sort": {"$natural": 1, "a": 1}}, Err(2)),
            (doc! {"sort": {"$natural": 1}, "hint": "a"}, Err(2)),
            (doc! {"filter": null}, Err(14)),
            (
                doc! {"filter": {"v": 2, "$expr": true}, "projection": {"v.$": 1}},
                Err(224),
            ),
        ] {
            let mut command = doc! {"find": "c", "$db": "d"};
            command.extend(fields.clone());
            let reply = ask(&mut server, command);
            let got = match reply.get_document("cursor") {
                Ok(cursor) => Ok(cursor
                    .get_array("firstBatch")
                    .unwrap()
                    .iter()
                    .map(|row| row.as_document().unwrap().get_i32("_id").unwrap())
                    .collect()),
                Err(_) => Err(reply.get_i32("code").unwrap()),
            };
            assert_eq!(got, expected, "{fields}: {reply}");
        }
        let shown = ask(
            &mut server,
            doc! {"find": "c", "showRecordId": true, "projection": {"a": 1}, "limit": 1, "$db": "d"},
        );
        let rows = shown.get_document("cursor").unwrap();
        let row = &rows.get_array("firstBatch").unwrap()[0];
        assert!(
            row.as_document().unwrap().get_i64("$recordId").is_ok(),
            "{shown}"
        );
        let dollar = ask(&mut server, doc! {"find": "$c", "$db": "d"});
        assert_eq!(dollar.get_i32("code").unwrap(), 73);
    }

    /// The cursor is opened on an index that gives the order. An array enters that index before the cursor is read, so the
    /// result must be sorted instead. This holds for a plain find, for one with a projection and for a pipeline.
    #[test]
    fn an_array_inserted_before_the_first_batch_keeps_the_order() {
        let sort = doc! {"b": 1};
        let filter = doc! {"a": 5};
        let find = doc! {"find": "c", "filter": &filter, "sort": &sort, "skip": 1, "limit": 8, "batchSize": 0};
        let mut projected = find.clone();
        projected.insert("projection", doc! {"b": 1});
        let stages = [
            doc! {"$match": &filter},
            doc! {"$sort": &sort},
            doc! {"$skip": 1},
            doc! {"$limit": 8},
            doc! {"$project": {"b": 1}},
        ];
        let pipeline = doc! {"aggregate": "c", "pipeline": &stages[..], "cursor": {"batchSize": 0}};
        for mut opening in [find, projected, pipeline] {
            let mut server = server(Config::default());
            let documents: Vec<Document> = (0..9).map(|n| doc! {"a": 5, "b": 8 - n}).collect();
            for command in [
                doc! {"insert": "c", "documents": documents},
                doc! {"createIndexes": "c", "indexes": [{"key": {"a": 1, "b": 1}, "name": "i"}]},
            ] {
                let mut command = command;
                command.insert("$db", "d");
                ask(&mut server, command);
            }
            opening.insert("$db", "d");
            let opened = ask(&mut server, opening.clone());
            let id = opened
                .get_document("cursor")
                .unwrap()
                .get_i64("id")
                .unwrap();
            let array = doc! {"insert": "c", "documents": [{"a": [1, 5], "b": 4.5}], "$db": "d"};
            ask(&mut server, array);
            let more = doc! {"getMore": id, "collection": "c", "$db": "d"};
            let more = ask(&mut server, more);
            let rows = more.get_document("cursor").unwrap();
            let rows = rows.get_array("nextBatch").unwrap().iter();
            let found: Vec<_> = rows
                .map(|row| row.as_document().unwrap().get("b").unwrap().clone())
                .collect();
            let expected = bson::bson!([1, 2, 3, 4, 4.5, 5, 6, 7]);
            assert_eq!(Bson::Array(found), expected, "{opening}");
        }
    }

    #[test]
    fn later_batches_see_new_documents_and_a_drop() {
        let mut server = server(Config::default());
        let documents: Vec<Document> = (0..4).map(|i| doc! {"_id": i}).collect();
        ask(
            &mut server,
            doc! {"insert": "c", "documents": documents, "$db": "d"},
        );
        for sort in [doc! {}, doc! {"x": 1}] {
            let find = doc! {"find": "c", "sort": sort.clone(), "batchSize": 2, "$db": "d"};
            let first = ask(&mut server, find.clone());
            let id = first.get_document("cursor").unwrap().get_i64("id").unwrap();
            let added = ask(
                &mut server,
                doc! {"insert": "c", "documents": [{"new": 1}], "$db": "d"},
            );
            assert_eq!(added.get_i32("n").unwrap(), 1);
            let more = ask(
                &mut server,
                doc! {"getMore": id, "collection": "c", "$db": "d"},
            );
            let next = more.get_document("cursor").unwrap();
            let rows = next.get_array("nextBatch").unwrap().len();
            // A blocking sort has already read its whole input.
            assert_eq!(rows, 3, "{more}");
        }
        for sort in [doc! {}, doc! {"x": 1}] {
            let find = doc! {"find": "c", "sort": sort, "batchSize": 2, "$db": "d"};
            let first = ask(&mut server, find);
            let id = first.get_document("cursor").unwrap().get_i64("id").unwrap();
            ask(&mut server, doc! {"drop": "c", "$db": "d"});
            let more = ask(
                &mut server,
                doc! {"getMore": id, "collection": "c", "$db": "d"},
            );
            assert_eq!(more.get_i32("code").ok(), Some(175), "{more}");
            let again: Vec<Document> = (0..4).map(|i| doc! {"_id": i}).collect();
            ask(
                &mut server,
                doc! {"insert": "c", "documents": again, "$db": "d"},
            );
        }
    }
}
