//! `find`: the documents that match a filter.

use std::sync::Arc;

use super::args::Arg;
use super::cursor::{self, Opening};
use super::rows::RowSource;
use super::stream::Stream;
use super::write::{collation, hint, names_ts};
use super::{Access, Call, Command, Counted, Counters, Flags, Outcome};
use crate::engine::choose::{Hint, id_equality};
use crate::engine::{EngineSources, Reading};
use crate::error::{Code, Error, Result};
use crate::query::filter::Filter;
use crate::query::projection::{Kind, Projection};
use crate::query::sort::Sort;
use crate::query::stage::{self, Limits, Rows};
use crate::query::{Scope, Vars, bind_let};
use crate::session::Source;
use crate::value::{Doc, DocBuf, DocBuilder, Type, ValueRef};

pub(super) const COMMAND: Command = Command::ready(
    "find",
    Access::Read,
    "Returns the documents that match a filter.",
    run,
)
.with(
    Flags::STABLE
        .and(Flags::SECONDARY)
        .and(Flags::READ_CONCERN)
        .and(Flags::UNCOUNTED),
);

/// What the client asks for, read but not yet parsed.
#[derive(Default)]
pub(super) struct Find<'a> {
    pub filter: Option<Doc<'a>>,
    pub sort: Option<Doc<'a>>,
    pub projection: Option<Doc<'a>>,
    pub hint: Option<Hint>,
    pub let_vars: Option<Doc<'a>>,
    pub skip: u64,
    pub limit: Option<u64>,
    batch_size: Option<u32>,
    single_batch: bool,
    no_timeout: bool,
    pub allow_disk_use: Option<bool>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    call.context
        .counters
        .add(Counters::shard(call.client.id), Counted::Query, 1);
    let collection = call.collection()?;
    if collection.starts_with('$') {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!("Invalid collection name: {}", call.namespace(collection)),
        ));
    }
    let find = Find::read(call)?;
    find.answer(call, collection, reply)
}

// === impl Find ===

impl<'a> Find<'a> {
    pub fn read(call: &Call<'a>) -> Result<Self> {
        Self::read_fields(call.args().skip(1))
    }

    /// From the fields of a find command, wherever it stands (explain has one inside).
    pub fn read_fields(args: impl Iterator<Item = Arg<'a>>) -> Result<Self> {
        let mut find = Self::default();
        for arg in args {
            match arg.name() {
                "filter" if arg.is_null() => return Err(arg.wrong_type(&[Type::Document])),
                "filter" => find.filter = arg.doc()?,
                "sort" => find.sort = arg.doc()?.filter(|sort| !sort.is_empty()),
                "projection" => find.projection = arg.doc()?.filter(|fields| !fields.is_empty()),
                "hint" => find.hint = hint(&arg)?,
                "skip" => find.skip = arg.int_at_least(0)?.unwrap_or(0) as u64,
                "limit" => {
                    let limit = arg.int_at_least(0)?.filter(|&limit| limit > 0);
                    find.limit = limit.map(|limit| limit as u64);
                }
                "batchSize" => {
                    let size = arg.int_at_least(0)?;
                    find.batch_size = size.map(|size| u32::try_from(size).unwrap_or(u32::MAX));
                }
                "singleBatch" => find.single_batch = arg.bool()?.unwrap_or(false),
                "let" => find.let_vars = arg.doc()?,
                "noCursorTimeout" => find.no_timeout = arg.bool()?.unwrap_or(false),
                "allowDiskUse" => find.allow_disk_use = arg.bool()?,
                "allowPartialResults" | "oplogReplay" | "mirrored" | "includeQueryStatsMetrics" => {
                    arg.bool()?;
                }
                "collation" => collation(&arg)?,
                "tailable" => refuse_if(arg.bool()?, "tailable cursors")?,
                "awaitData" => {
                    if arg.bool()? == Some(true) {
                        return Err(Error::failed_to_parse(
                            "Cannot set 'awaitData' without also setting 'tailable'",
                        ));
                    }
                }
                "returnKey" => refuse_if(arg.bool()?, "find.returnKey")?,
                "showRecordId" => refuse_if(arg.bool()?, "find.showRecordId")?,
                "min" | "max" => refuse_if(
                    arg.doc()?.map(|bound| !bound.is_empty()),
                    "find.min and find.max",
                )?,
                "term" | "resumeAfter" | "startAt" | "requestResumeToken" => {
                    return Err(Error::not_implemented(format_args!("find.{}", arg.name())));
                }
                _ => return Err(arg.unknown()),
            }
        }
        find.natural()?;
        Ok(find)
    }

    /// A sort by `$natural` says which way to walk: it is a hint.
    fn natural(&mut self) -> Result<()> {
        let Some(sort) = self.sort.filter(|sort| sort.has("$natural")) else {
            return Ok(());
        };
        if sort.count() > 1 {
            return Err(Error::bad_value(format!(
                "Cannot include '$natural' in compound sort: {}",
                ValueRef::document(sort)
            )));
        }
        let way = sort.get("$natural").as_num();
        if !matches!(way.and_then(|way| way.to_i64_exact()), Some(1 | -1)) {
            return Err(Error::bad_value(
                "$natural sort cannot be set to a value other than -1 or 1.",
            ));
        }
        if self.hint.is_some() {
            return Err(Error::bad_value("Cannot use a hint with $natural sort"));
        }
        self.hint = Some(Hint::Key(DocBuf::from_bytes(sort.bytes().to_vec())));
        self.sort = None;
        Ok(())
    }

    fn answer(
        self,
        call: &mut Call<'_>,
        collection: &str,
        reply: &mut DocBuilder<'_>,
    ) -> Result<Outcome> {
        let (scope, vars) = match self.let_vars {
            None => (Scope::new(), Vars::at(call.now)),
            Some(spec) => bind_let(&Vars::at(call.now), &Scope::new(), spec)?,
        };
        let filter = Filter::parse(self.filter.unwrap_or(Doc::EMPTY), &scope)?;
        let projection = self
            .projection
            .map(|fields| Projection::parse(fields, &scope, Kind::Find))
            .transpose()?;
        let show_ts = call.context.config.expose_ts || self.names_ts();
        if !show_ts
            && projection.is_none()
            && self.hint.is_none()
            && self.skip == 0
            && self.batch_size != Some(0)
            && let Some(key) = id_equality(&filter)
        {
            self.check_sort()?;
            return point(call, collection, &key, reply);
        }
        let sort = self.sort.map(Sort::parse).transpose()?;
        let sources = Arc::new(EngineSources::new(
            Arc::clone(&call.context.catalog),
            call.context.config.expose_ts,
        ));
        let positional = projection.as_ref().is_some_and(Projection::is_positional);
        let filter = Arc::new(filter);
        let reading = Reading {
            filter: Arc::clone(&filter),
            sort: sort.map(Arc::new),
            hint: self.hint,
            skip: self.skip,
            limit: self.limit,
            show_ts,
            count_only: false,
        };
        let way = sources.way(call.database(), collection, &reading, call.now)?;
        let source: Box<dyn Source> = match way {
            Some(way) if way.sorted && projection.is_none() => {
                Box::new(Stream::new(way.walk, filter, vars, self.skip, self.limit))
            }
            way => {
                let mut rows = way.map_or_else(
                    || Box::new(stage::Empty) as Box<dyn Rows>,
                    |way| sources.rows(way, reading),
                );
                if let Some(projection) = projection {
                    rows = match positional {
                        true => stage::project_found(rows, projection, filter),
                        false => stage::project(rows, projection),
                    };
                }
                let limits = Limits {
                    allow_disk_use: self.allow_disk_use.unwrap_or(true),
                    ..Limits::default()
                };
                Box::new(RowSource::new(rows, sources, vars, limits))
            }
        };
        let opening = Opening {
            namespace: call.namespace(collection),
            batch_size: self.batch_size,
            single_batch: self.single_batch,
            no_timeout: self.no_timeout,
        };
        cursor::open(call, reply, source, opening)
    }

    pub fn names_ts(&self) -> bool {
        [self.filter, self.sort, self.projection]
            .into_iter()
            .flatten()
            .any(names_ts)
    }

    /// A sort that is not needed still has to be one.
    fn check_sort(&self) -> Result<()> {
        self.sort.map(Sort::parse).transpose().map(drop)
    }
}

/// The document with that `_id`, copied from where it stands into the reply.
fn point(
    call: &mut Call<'_>,
    collection: &str,
    key: &[u8],
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let found = call.context.catalog.get(call.database(), collection);
    let mut cursor = reply.doc("cursor");
    let mut batch = cursor.array("firstBatch");
    if let Some(found) = found {
        found.read(call.now, |view| {
            if let Some((_, stored)) = view.by_id(key) {
                batch.push_doc(Doc::new(stored.bytes));
            }
        });
    }
    batch.end();
    cursor
        .put_i64("id", 0)
        .put_joined("ns", call.database(), collection);
    cursor.end();
    Ok(Outcome::Reply)
}

fn refuse_if(set: Option<bool>, what: &str) -> Result<()> {
    match set {
        Some(true) => Err(Error::not_implemented(what)),
        _ => Ok(()),
    }
}
