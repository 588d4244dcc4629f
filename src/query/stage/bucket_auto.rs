//! `$bucketAuto`: sorts rows by a value and splits them into buckets of about equal size.

use std::sync::Arc;

use super::bucket;
use super::granularity::Granularity;
use super::group::GroupFields;
use super::run_sorter::RunSorter;
use super::sort::too_much;
use super::{Empty, Flow, Row, RowBatch, RowContext, Rows, Stage, StageContext, StageOp};
use crate::args::{Arg, fields, object};
use crate::error::{Error, Result};
use crate::query::Expr;
use crate::query::Survey;
use crate::query::accumulator::{AccumulatorState, GroupEngine};
use crate::value::{Doc, DocBuf, DocBuilder, Value, ValueRef, compare, key};

struct BucketAuto {
    by: Expr,
    buckets: i32,
    fields: GroupFields,
    granularity: Option<Granularity>,
}

struct BucketAutoRows {
    input: Box<dyn Rows>,
    stage: Arc<BucketAuto>,
    batch: RowBatch,
    /// Rows with the value they are sorted by: `{v: value, d: document}`.
    held: RunSorter,
    key: Vec<u8>,
    complete: bool,
    /// The number of rows per bucket, and the number of buckets that were started.
    size: usize,
    started_buckets: i32,
    /// The first row of the next bucket.
    next: Option<DocBuf>,
    /// The end of the last bucket, for buckets with rounded bounds.
    last_end: Option<Value>,
}

/// A bucket that is being filled.
struct Bucket {
    min: Value,
    max: Value,
    states: Vec<Box<dyn AccumulatorState>>,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let words = "The argument to $bucketAuto must be an object, but found type: {}.";
    let (mut by, mut buckets, mut output, mut granularity) = (None, None, None, None);
    for option in fields("$bucketAuto", object(value, 40240, words)?) {
        match option.name() {
            "groupBy" => {
                let wanted = (40239, "$bucketAuto", "an expression object", "");
                let given = bucket::expression(option.value(), wanted)?;
                by = Some(Expr::parse(given, context.scope)?);
            }
            "buckets" => buckets = Some(parse_buckets(option)?),
            "output" => {
                let fields = bucket::output_object(option, 40244, "$bucketAuto")?;
                output = Some(GroupFields::parse(fields, context.scope)?);
            }
            "granularity" => {
                let words =
                    "The $bucketAuto 'granularity' field must be a string, but found type: {}.";
                let name = option.expect(ValueRef::as_str, 40261, words)?;
                granularity = Some(Granularity::find(name)?);
            }
            _ => return Err(option.refuse(40245, "Unrecognized option to $bucketAuto: {}.")),
        }
    }
    let (Some(by), Some(buckets)) = (by, buckets) else {
        return Err(Error::location(
            40246,
            "$bucketAuto requires 'groupBy' and 'buckets' to be specified.",
        ));
    };
    if buckets < 1 {
        let words = "The $bucketAuto 'buckets' field must be greater than 0, but found: {}";
        return Err(Error::found(40243, words, &buckets.to_string()));
    }
    let fields = match output {
        Some(fields) if fields.len() > 0 => fields,
        _ => GroupFields::count("count")?,
    };
    push(Stage::StageOp(Arc::new(BucketAuto {
        by,
        buckets,
        fields,
        granularity,
    })));
    Ok(())
}

fn parse_buckets(option: Arg<'_>) -> Result<i32> {
    let words = "The $bucketAuto 'buckets' field must be a numeric value, but found type: {}.";
    let number = option.expect(ValueRef::as_num, 40241, words)?;
    number
        .to_i64_exact()
        .and_then(|integer| i32::try_from(integer).ok())
        .ok_or_else(|| {
            let words = "The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {}.";
            Error::found(40242, words, &option.value().to_string())
        })
}

// === impl BucketAuto ===

impl StageOp for BucketAuto {
    fn open(self: Arc<Self>, input: Box<dyn Rows>) -> Box<dyn Rows> {
        Box::new(BucketAutoRows {
            input,
            stage: self,
            batch: RowBatch::new(),
            held: RunSorter::default(),
            key: Vec::new(),
            complete: false,
            size: 1,
            started_buckets: 0,
            next: None,
            last_end: None,
        })
    }

    fn survey(&self, survey: &mut Survey<'_>) {
        survey.expr(&self.by);
        self.fields.survey(survey);
    }
}

// === impl BucketAutoRows ===

impl BucketAutoRows {
    fn take(&mut self, cx: &RowContext<'_>) -> Result<()> {
        for row in self.batch.iter() {
            let value = self.stage.by.eval(row.doc, cx.vars)?;
            let value = value.as_ref().or_null();
            if let Some(granularity) = &self.stage.granularity {
                granularity.check(value)?;
            }
            self.key.clear();
            key::encode(value, false, &mut self.key);
            let held = DocBuf::build(|doc| {
                doc.put("v", value).put_doc("d", row.doc);
            });
            self.held.push(
                &self.key,
                Row {
                    doc: held.as_doc(),
                    origin: None,
                },
            );
        }
        if self.held.size() > cx.limits.memory {
            return Err(too_much("$bucketAuto", cx));
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<DocBuf> {
        self.held.pop().map(|row| DocBuf::from(row.doc))
    }

    fn add(&self, bucket: &mut Bucket, held: &DocBuf, cx: &RowContext<'_>) -> Result<()> {
        let held = held.as_doc();
        let value = held.get("v");
        bucket.max = value.to_value();
        let doc = held.get("d").as_doc().unwrap_or(Doc::EMPTY);
        let (fields, engine) = (&self.stage.fields, GroupEngine::Classic);
        fields.feed(&mut bucket.states, doc, cx.vars, engine)?;
        Ok(())
    }

    /// Fills the next bucket and appends its row. Returns `false` if no row is left.
    fn bucket(&mut self, cx: &RowContext<'_>, out: &mut RowBatch) -> Result<bool> {
        let Some(first) = self.next.take().or_else(|| self.pop()) else {
            return Ok(false);
        };
        self.started_buckets += 1;
        let value = first.as_doc().get("v").to_value();
        let mut bucket = Bucket {
            min: value.clone(),
            max: value,
            states: Vec::new(),
        };
        // A bucket's key is known only when it is full, so accumulators cannot read it.
        self.stage
            .fields
            .start(ValueRef::NULL, cx.vars, &mut bucket.states)?;
        if let Some(granularity) = &self.stage.granularity {
            bucket.min = match &self.last_end {
                Some(end) => end.clone(),
                None => granularity.round_down(bucket.min.as_ref()),
            };
        }
        self.add(&mut bucket, &first, cx)?;
        let wanted = if self.started_buckets == self.stage.buckets {
            usize::MAX
        } else {
            self.size
        };
        for _ in 1..wanted {
            let Some(row) = self.pop() else { break };
            self.add(&mut bucket, &row, cx)?;
        }
        let mut next = self.pop();
        let stage = self.stage.clone();
        match &stage.granularity {
            Some(granularity) => {
                let end = granularity.round_up(bucket.max.as_ref());
                while let Some(row) =
                    next.take_if(|row| compare(end.as_ref(), row.as_doc().get("v")).is_gt())
                {
                    self.add(&mut bucket, &row, cx)?;
                    next = self.pop();
                }
                let zero = end.as_ref().as_num().is_some_and(|end| end.to_f64() == 0.0);
                bucket.max = match &next {
                    // A first bucket of zeros ends where the next one begins.
                    Some(row) if zero => granularity.round_down(row.as_doc().get("v")),
                    _ => end,
                };
            }
            None => {
                // Equal values stay in one bucket.
                while let Some(row) =
                    next.take_if(|row| compare(bucket.max.as_ref(), row.as_doc().get("v")).is_eq())
                {
                    self.add(&mut bucket, &row, cx)?;
                    next = self.pop();
                }
                if let Some(row) = &next {
                    bucket.max = row.as_doc().get("v").to_value();
                }
            }
        }
        self.last_end = Some(bucket.max.clone());
        self.next = next;
        out.push_with(None, |bytes| {
            let mut doc = DocBuilder::begin(bytes);
            let mut id = doc.doc("_id");
            id.put("min", bucket.min.as_ref())
                .put("max", bucket.max.as_ref());
            id.end();
            self.stage.fields.finish(&mut bucket.states, &mut doc)?;
            doc.end();
            Ok::<_, Error>(true)
        })?;
        Ok(true)
    }
}

impl Rows for BucketAutoRows {
    fn fill(&mut self, cx: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        while !self.complete {
            self.batch.restart(usize::MAX);
            let flow = self.input.fill(cx, &mut self.batch)?;
            self.take(cx)?;
            match flow {
                Flow::End => {
                    let share = self.held.len() as f64 / f64::from(self.stage.buckets);
                    self.size = (share.round() as usize).max(1);
                    self.held.finish(None);
                    self.complete = true;
                    // This frees the memory of the stages before this one, which are no longer needed.
                    self.input = Box::new(Empty);
                }
                Flow::More if !cx.out_of_time() => {}
                _ => return Ok(Flow::Pause),
            }
        }
        while !out.is_full() {
            if !self.bucket(cx, out)? {
                return Ok(Flow::End);
            }
        }
        Ok(Flow::More)
    }

    fn suspend(&mut self) -> usize {
        self.batch.clear();
        let next = self.next.as_ref().map_or(0, |row| row.bytes().len());
        self.batch.suspend() + self.held.memory() + next + self.input.suspend()
    }
}
