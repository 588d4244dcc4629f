//! `$lookup`: adds the related documents of another collection to a row, as an array.
//!
//! The relation is the equality of two fields, or a pipeline that may use the row's values through `let`, or both.

use std::sync::Arc;

use smallvec::SmallVec;

use super::lookup_spec::Lookup;
use super::{
    CollectionName, Empty, Flow, Origin, Pipeline, PipelineInput, Row, RowBatch, RowContext, Rows,
    SourceSpec, StageOp,
};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::query::expr::shallow;
use crate::query::filter::Filter;
use crate::query::{PathOrigin, Scope, Survey, Vars};
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Path, Type, ValueRef};

pub(super) use super::lookup_spec::{check_early, parse, written};

/// The most bytes that mongod allows for the joined documents of one row.
const MAX_JOINED: usize = 100 * 1024 * 1024;

struct LookupRows {
    input: Box<dyn Rows>,
    stage: Arc<Lookup>,
    batch: RowBatch,
    flow: Flow,
    /// The next row of `batch`.
    row: usize,
    /// The pipeline of that row, if it takes more than one step.
    inner: Option<RowPipeline>,
    found: RowBatch,
    /// The elements of the array for every row, if they do not depend on the row. They are valid only for the command that found them.
    /// Comparing `now` is not enough, because a TTL rule may have changed between two commands with the same `now`.
    same: Option<(u32, JoinedDocuments)>,
}

/// A pipeline that runs for one row.
struct RowPipeline {
    rows: Box<dyn Rows>,
    vars: Option<Vars>,
    joined: JoinedDocuments,
}

/// The documents of an array, in blocks: one growing buffer would be copied whenever it is full, and nested lookups join
/// documents of many megabytes.
#[derive(Default)]
struct JoinedDocuments {
    blocks: Vec<Vec<u8>>,
    len: usize,
    count: u32,
}

/// A block takes no further documents from this size on.
const BLOCK: usize = 1024 * 1024;

/// Rows that are already in memory.
struct BufferedRows(RowBatch);

// === impl Lookup ===

impl StageOp for Lookup {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(LookupRows {
            input,
            stage: self,
            batch: RowBatch::new(),
            flow: Flow::More,
            row: 0,
            inner: None,
            found: RowBatch::new(),
            same: None,
        })
    }

    fn runs_in_newer_engine(&self) -> bool {
        self.sub.is_none()
    }

    fn inner(&self, visit: &mut dyn FnMut(&Pipeline, PipelineInput<'_>)) {
        let on = self
            .from
            .as_ref()
            .map_or(PipelineInput::Nothing, PipelineInput::Collection);
        if let Some(sub) = &self.sub {
            visit(&sub.full, on);
        }
        // A join by fields reads the documents even if the pipeline has a source of its own.
        if self.fields.is_some() && self.from.is_some() {
            visit(&Pipeline::EMPTY, on);
        }
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.path(&self.into);
        for path in self
            .fields
            .iter()
            .flat_map(|(local, foreign)| [local, foreign])
        {
            survey.path(path);
        }
        for (_, expr) in &self.let_vars {
            survey.expr(expr);
        }
        survey.settle();
        if let Some(sub) = &self.sub {
            sub.full.survey(survey);
        }
        survey.carry();
    }

    fn origin(&self, path: &Path) -> PathOrigin {
        match self.into.first() == path.first() {
            true => PathOrigin::Computed,
            false => PathOrigin::Same,
        }
    }

    fn optimised(&self) -> Result<Option<Arc<dyn StageOp>>> {
        let Some(sub) = &self.sub else {
            return Ok(None);
        };
        Ok(Some(Arc::new(Self {
            sub: Some(sub.optimised()?),
            ..self.clone()
        })))
    }
}

// === impl LookupRows ===

impl Rows for LookupRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        loop {
            while self.row < self.batch.len() {
                if !self.join(cx, out)? {
                    return Ok(Flow::Pause);
                }
                self.row += 1;
                if self.row == self.batch.len() {
                    // A large document stays in one stage at a time, no matter how many stages there are.
                    self.batch.clear();
                }
                if out.is_full() {
                    return Ok(Flow::More);
                }
                // A join by equality takes about a microsecond, so reading the clock each time would be noticeable.
                if self.row.is_multiple_of(8) && cx.out_of_time() {
                    return Ok(Flow::Pause);
                }
            }
            match self.flow {
                Flow::End => return Ok(Flow::End),
                Flow::Pause => {
                    self.flow = Flow::More;
                    return Ok(Flow::Pause);
                }
                Flow::More => {}
            }
            self.batch.restart(out.room());
            self.row = 0;
            self.flow = self.input.fill(cx, &mut self.batch)?;
        }
    }

    fn suspend(&mut self) -> usize {
        self.found = RowBatch::new();
        // The next command must search again.
        self.same = None;
        let inner = self.inner.as_mut().map_or(0, RowPipeline::suspend);
        self.batch.suspend() + inner + self.input.suspend()
    }
}

impl LookupRows {
    /// Appends the next row with its documents. Returns `false` if the time slice ends before all of them are found.
    fn join(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<bool> {
        let Some(row) = self.batch.get(self.row) else {
            return Ok(true);
        };
        interrupt::tick_read(row.doc.bytes().len())?;
        let stage = &self.stage;
        let mut inner = match self.inner.take() {
            Some(inner) => inner,
            None => {
                if let Some((found_by, elements)) = &self.same
                    && *found_by == cx.sources.command()
                {
                    emit(&stage.into, row, elements, out);
                    return Ok(true);
                }
                match RowPipeline::open(stage, row, cx, &mut self.found, out)? {
                    Some(inner) => inner,
                    None => return Ok(true),
                }
            }
        };
        if !inner.run(cx, &mut self.found, stage.from.as_ref())? {
            self.inner = Some(inner);
            return Ok(false);
        }
        emit(&stage.into, row, &inner.joined, out);
        if stage.is_uncorrelated() {
            self.same = Some((cx.sources.command(), inner.joined));
        }
        Ok(true)
    }
}

/// Appends the row with the documents that `find` returns, each copied once. Returns `false` and appends nothing if `find`
/// has no fast path.
fn join_at_once(
    into: &Path,
    row: Row<'_>,
    from: &CollectionName,
    find: impl Fn(&mut dyn FnMut(Doc<'_>, Option<Origin>) -> Result<()>) -> Result<bool>,
    out: &mut RowBatch,
) -> Result<bool> {
    out.push_with(row.origin, |bytes| {
        let mut joined = Ok(true);
        into.put_with(row.doc, bytes, |builder, name| {
            let mut array = builder.array(name);
            joined = find(&mut |doc, _| {
                array.push_doc(doc);
                check_joined(array.len(), from)
            });
            array.end();
        });
        joined
    })
}

/// Appends the row with an array of these documents.
fn emit(into: &Path, row: Row<'_>, joined: &JoinedDocuments, out: &mut RowBatch) {
    out.reserve(row.doc.bytes().len() + joined.len + into.as_str().len() + 64);
    let _ = out.push_with(row.origin, |bytes| {
        into.put_with(row.doc, bytes, |builder, name| {
            let mut array = builder.array(name);
            for block in &joined.blocks {
                array.put_body(block);
            }
        });
        Ok::<_, ()>(true)
    });
}

fn check_joined(size: usize, from: &CollectionName) -> Result<()> {
    if size > MAX_JOINED {
        return Err(Error::location(
            4568,
            format!(
                "Total size of documents in {} matching pipeline's $lookup stage exceeds {MAX_JOINED} bytes",
                from.coll
            ),
        ));
    }
    Ok(())
}

// === impl JoinedDocuments ===

impl JoinedDocuments {
    fn push(&mut self, doc: Doc<'_>) {
        let length = doc.bytes().len();
        let is_full = |block: &Vec<u8>| !block.is_empty() && block.len() + length > BLOCK;
        if self.blocks.last().is_none_or(is_full) {
            self.blocks.push(Vec::new());
        }
        if let Some(block) = self.blocks.last_mut() {
            let before = block.len();
            if length >= BLOCK {
                block.reserve_exact(length + 16);
            }
            ArrayBuilder::element(block, self.count, |out| {
                out.extend_from_slice(doc.bytes());
            });
            self.len += block.len() - before;
            self.count += 1;
        }
    }

    fn held(&self) -> usize {
        self.blocks.iter().map(Vec::capacity).sum()
    }
}

// === impl RowPipeline ===

impl RowPipeline {
    /// Opens the rows that belong to `row`. Returns `None` if there is a fast path: `row` was then appended with its
    /// documents at once.
    fn open(
        stage: &Lookup,
        row: Row<'_>,
        cx: &RowContext<'_>,
        found: &mut RowBatch,
        out: &mut RowBatch,
    ) -> Result<Option<Self>> {
        let vars = match stage.let_vars.as_slice() {
            [] => None,
            let_vars => {
                let values: Result<Vec<_>> = let_vars
                    .iter()
                    .map(|(_, expr)| Ok(shallow(expr.eval(row.doc, cx.vars)?)?.into_value()))
                    .collect();
                Some(cx.vars.with(values?))
            }
        };
        if let Some(failure) = &stage.failure {
            return Err(failure.clone());
        }
        let cx = cx.with_vars(vars.as_ref().unwrap_or(cx.vars));
        let rows = match (&stage.fields, &stage.from) {
            (Some((local, foreign)), Some(from)) => {
                let (field, keys) = (foreign.as_str(), keys_of(row.doc, local));
                let find = |each: &mut dyn FnMut(Doc<'_>, Option<Origin>) -> Result<()>| {
                    cx.sources.find_equal(&cx, from, field, &keys, each)
                };
                if stage.sub.is_none() && join_at_once(&stage.into, row, from, find, out)? {
                    return Ok(None);
                }
                found.clear();
                if let Some(sub) = &stage.sub
                    && find(&mut |doc, origin| {
                        found.push(doc, origin);
                        Ok(())
                    })?
                {
                    sub.full.open(Box::new(BufferedRows(std::mem::take(found))))
                } else {
                    let spec = SourceSpec {
                        filter: Some(Arc::new(equal_filter(field, &keys)?)),
                        ..SourceSpec::default()
                    };
                    let rows = cx.sources.open(&cx, from, &spec)?;
                    match &stage.sub {
                        None => rows,
                        Some(sub) => sub.full.open(rows),
                    }
                }
            }
            // If the pipeline has rows of its own, they are compared as they arrive.
            (Some((local, foreign)), None) => match &stage.sub {
                Some(sub) => {
                    let keys = keys_of(row.doc, local);
                    sub.open_filtered(Arc::new(equal_filter(foreign.as_str(), &keys)?))
                }
                None => Box::new(Empty),
            },
            (None, from) => match &stage.sub {
                Some(sub) => sub.open(&cx, from.as_ref())?,
                None => Box::new(Empty),
            },
        };
        Ok(Some(Self {
            rows,
            vars,
            joined: JoinedDocuments::default(),
        }))
    }

    /// Collects the documents. Returns `false` if the time slice is over.
    fn run(
        &mut self,
        cx: &RowContext<'_>,
        found: &mut RowBatch,
        from: Option<&CollectionName>,
    ) -> Result<bool> {
        let mut cx = cx.with_vars(self.vars.as_ref().unwrap_or(cx.vars));
        loop {
            found.restart(usize::MAX);
            let flow = self.rows.fill(&mut cx, found)?;
            for row in found.iter() {
                // Nested lookups multiply, so the limit is tested before the memory is taken.
                if let Some(from) = from {
                    check_joined(self.joined.len + row.doc.bytes().len(), from)?;
                }
                self.joined.push(row.doc);
            }
            match flow {
                Flow::End => return Ok(true),
                Flow::More if !cx.out_of_time() => {}
                _ => return Ok(false),
            }
        }
    }

    fn suspend(&mut self) -> usize {
        let vars = self.vars.as_ref().map_or(0, Vars::held);
        self.joined.held() + vars + self.rows.suspend()
    }
}

// === impl BufferedRows ===

impl Rows for BufferedRows {
    fn fill(&mut self, _: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        for row in self.0.iter() {
            out.push(row.doc, row.origin);
        }
        self.0.clear();
        Ok(Flow::End)
    }

    fn suspend(&mut self) -> usize {
        self.0.suspend()
    }
}

/// Returns the values by which a row is joined.
fn keys_of<'d>(row: Doc<'d>, local: &Path) -> SmallVec<[ValueRef<'d>; 8]> {
    let mut keys = local.join_values(row);
    if keys.is_empty() {
        // A missing field matches a missing field.
        keys.push(ValueRef::NULL);
    }
    keys
}

/// Builds `{field: {$eq: key}}`, or `{field: {$in: [...]}}` for several keys, which an index can serve. The join needs
/// exact equality, but `$in` matches by regular expressions. So keys with a regex become `{$or: [{field: {$eq: key}},
/// ...]}`.
fn equal_filter(field: &str, keys: &[ValueRef<'_>]) -> Result<Filter> {
    let equal = |doc: &mut DocBuilder<'_>, key: ValueRef<'_>| {
        let mut equal = doc.doc(field);
        equal.put("$eq", key);
        equal.end();
    };
    let filter = DocBuf::build(|doc| match keys {
        [key] => equal(doc, *key),
        keys if keys.iter().any(|key| key.ty() == Type::Regex) => {
            let mut any = doc.array("$or");
            for key in keys {
                let mut one = any.doc();
                equal(&mut one, *key);
                one.end();
            }
            any.end();
        }
        keys => {
            let mut among = doc.doc(field);
            let mut list = among.array("$in");
            for key in keys {
                list.push(*key);
            }
            list.end();
            among.end();
        }
    });
    Filter::parse(filter.as_doc(), &Scope::new())
}

// === impl SubPipeline ===

/// The pipeline of a `$lookup` or `$unionWith`: as a whole, and split for a source.
#[derive(Clone)]
pub(super) struct SubPipeline {
    pub full: Pipeline,
    spec: SourceSpec,
    rest: Pipeline,
    /// True if the same variables always give the same rows.
    pub deterministic: bool,
}

impl SubPipeline {
    pub fn new(full: Pipeline) -> Self {
        let (spec, rest) = full.clone().split_source();
        Self {
            deterministic: full.is_deterministic(),
            full,
            spec,
            rest,
        }
    }

    pub fn optimised(&self) -> Result<Self> {
        self.full.clone().optimise().map(Self::new)
    }

    /// Opens a pipeline that has rows of its own, with a filter directly after them.
    fn open_filtered(&self, filter: Arc<Filter>) -> Box<dyn Rows> {
        let (first, rest) = self.full.clone().split_first();
        rest.open(super::filter(first.open(Box::new(Empty)), filter))
    }

    /// Opens the pipeline on a collection, or on its own rows.
    pub fn open(
        &self,
        cx: &RowContext<'_>,
        from: Option<&CollectionName>,
    ) -> Result<Box<dyn Rows>> {
        match from {
            Some(from) if !self.full.is_own_source() => {
                Ok(self.rest.open(cx.sources.open(cx, from, &self.spec)?))
            }
            _ => Ok(self.full.open(Box::new(Empty))),
        }
    }
}
