//! The events of a change stream, as the source of a cursor.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::effort::Effort;
use crate::engine::{
    EngineSources, MissingImage, NextEvent, PlanSummary, ReadPoint, TimeSlice, Watch, fatal,
};
use crate::error::{Code, Result};
use crate::query::stage::{
    Flow, Pipeline, PipelineLimits, ResumeToken, RowBatch, RowContext, Rows, StepBudget,
};
use crate::query::{Survey, Vars};
use crate::session::{Fill, ReplyBatch, Source};
use crate::value::{Doc, DocBuf, check_size};
use crate::wait::Wait;

/// A source that feeds one event at a time to the stages behind `$changeStream`. So it always knows which event a row
/// comes from, and where a new stream would go on.
pub(in crate::command) struct WatchSource {
    watch: Watch,
    /// The event that the stages read next.
    feed: EventFeed,
    rows: Box<dyn Rows>,
    sources: Arc<EngineSources>,
    vars: Vars,
    limits: PipelineLimits,
    /// The rows of the last event that did not fit into its batch.
    held: RowBatch,
    /// The place behind the last row that was handed out.
    resume: ResumeToken,
    /// How many fragments of the first event the client knows already.
    known_fragments: usize,
    /// No stage follows `$changeStream`, so an event is a row as it is.
    is_plain: bool,
    early: EarlyStages,
}

/// The first stages, with which an event is tested before the documents that it must have are looked for: as in mongod, a
/// `$match` that does not name them comes first.
struct EarlyStages {
    feed: EventFeed,
    rows: Box<dyn Rows>,
    /// The documents in an event that these stages do not name.
    unnamed: Vec<&'static str>,
}

/// The input of the first stage: at most one event.
#[derive(Clone, Default)]
struct EventFeed(Arc<Mutex<Option<DocBuf>>>);

// === impl WatchSource ===

impl WatchSource {
    pub fn new(
        watch: Watch,
        pipeline: &Pipeline,
        sources: Arc<EngineSources>,
        vars: Vars,
        limits: PipelineLimits,
    ) -> Self {
        let feed = EventFeed::default();
        let fragment = watch.mark().event.and_then(|event| event.fragment);
        Self {
            known_fragments: fragment.map_or(0, |last| last as usize + 1),
            resume: watch.mark(),
            watch,
            rows: pipeline.open(Box::new(feed.clone())),
            feed,
            sources,
            vars,
            limits,
            held: RowBatch::new(),
            is_plain: pipeline.steps().len() == 1,
            early: EarlyStages::of(pipeline),
        }
    }

    /// Hands out an event that no stage changes. One that does not fit is held.
    fn pass(&mut self, event: &DocBuf, batch: &mut ReplyBatch<'_>) -> Result<()> {
        check_size(event.bytes().len())?;
        match batch.push(event.as_doc()) {
            true => self.resume = self.watch.mark(),
            false => self.held.push(event.as_doc(), None),
        }
        Ok(())
    }

    /// Fails for an event that lacks a required document, unless the early stages drop it.
    fn drop_or_fail(
        &mut self,
        event: DocBuf,
        missing: MissingImage,
        slice: &TimeSlice,
    ) -> Result<()> {
        let EarlyStages {
            feed,
            rows,
            unnamed,
        } = &mut self.early;
        if !unnamed.contains(&missing.field) {
            return Err(missing.error);
        }
        let mut cx = RowContext {
            vars: &self.vars,
            slice,
            limits: self.limits,
            sources: &*self.sources,
        };
        let mut kept = RowBatch::new();
        feed.pass(event, &mut **rows, &mut cx, &mut kept)?;
        match kept.is_empty() {
            true => Ok(()),
            false => Err(missing.error),
        }
    }

    /// Passes an event through the stages. Its row is in `held` then, unless a stage has dropped it.
    fn transform(&mut self, token: ResumeToken, event: DocBuf, slice: &TimeSlice) -> Result<()> {
        self.held.clear();
        let mut cx = RowContext {
            vars: &self.vars,
            slice,
            limits: self.limits,
            sources: &*self.sources,
        };
        self.feed
            .pass(event, &mut *self.rows, &mut cx, &mut self.held)?;
        let is_split = self.held.len() > 1;
        for (number, row) in self.held.iter().enumerate() {
            let fragment = token.of_fragment(number as u32);
            check_token(row.doc, if is_split { fragment } else { token })?;
        }
        self.leave_out_known()
    }

    /// Leaves out the fragments behind which the client wants to go on.
    fn leave_out_known(&mut self) -> Result<()> {
        let known = std::mem::take(&mut self.known_fragments);
        if known > 0 && known >= self.held.len() {
            return Err(fatal(
                Code::ChangeStreamFatalError,
                "Attempted to resume from a split event, but the resumed stream produced a different split. Ensure that the \
                 pipeline used to resume is the same as the original"
                    .to_owned(),
            ));
        }
        self.held.remove(0, known);
        Ok(())
    }

    /// Hands out the rows of the last event. Returns `false` if one did not fit.
    fn release(&mut self, batch: &mut ReplyBatch<'_>) -> Result<bool> {
        let mut released = 0;
        for row in self.held.iter() {
            check_size(row.doc.bytes().len())?;
            if !batch.push(row.doc) {
                break;
            }
            released += 1;
            let token = row.doc.get("_id").as_doc().unwrap_or(Doc::EMPTY);
            self.resume = ResumeToken::parse(token)?;
        }
        self.held.remove(0, released);
        if self.held.is_empty() {
            self.resume = self.watch.mark();
        }
        Ok(self.held.is_empty())
    }
}

impl Source for WatchSource {
    fn plan_summary(&self) -> Option<PlanSummary> {
        Some(PlanSummary::scan())
    }

    fn fill(
        &mut self,
        at: ReadPoint,
        batch: &mut ReplyBatch<'_>,
        effort: &mut Effort,
    ) -> Result<Fill> {
        if at.now() != self.vars.now() {
            self.vars = self.vars.moved_to(at.now());
        }
        let slice = TimeSlice::begin();
        loop {
            if !self.release(batch)? || batch.is_full() {
                return Ok(Fill::Full);
            }
            if slice.is_over() {
                return Ok(Fill::Pause);
            }
            match self.watch.next(at)? {
                NextEvent::Event {
                    token,
                    event,
                    missing,
                } => {
                    effort.documents += 1;
                    if let Some(missing) = missing {
                        self.drop_or_fail(event, missing, &slice)?;
                    } else if self.is_plain && self.known_fragments == 0 {
                        self.pass(&event, batch)?;
                    } else {
                        self.transform(token, event, &slice)?;
                    }
                }
                NextEvent::Pause => return Ok(Fill::Pause),
                NextEvent::None => {
                    self.resume = self.watch.mark();
                    return Ok(Fill::Waiting);
                }
                NextEvent::Over => return Ok(Fill::End),
            }
        }
    }

    fn arrival(&self) -> Option<Wait> {
        Some(self.watch.arrival())
    }

    fn resume_token(&self) -> Option<DocBuf> {
        Some(self.resume.encode())
    }

    fn suspend(&mut self) -> usize {
        self.held.suspend() + self.rows.suspend() + self.watch.held() + self.vars.held()
    }
}

// === impl EarlyStages ===

impl EarlyStages {
    fn of(pipeline: &Pipeline) -> Self {
        /// A `$match` can be moved in front of these.
        const PASSED: [&str; 6] = [
            "$changeStream",
            "$match",
            "$addFields",
            "$set",
            "$unset",
            "$project",
        ];
        let steps = pipeline.steps().iter();
        let count = steps.take_while(|step| PASSED.contains(&step.row.name));
        let stages = pipeline.leading(count.count());
        let is_named = |field: &str| Survey::of(field, |survey| stages.survey(survey)).names_field;
        let mut unnamed = vec!["fullDocument", "fullDocumentBeforeChange"];
        unnamed.retain(|field| !is_named(field));
        let feed = EventFeed::default();
        Self {
            rows: stages.open(Box::new(feed.clone())),
            feed,
            unnamed,
        }
    }
}

/// Checks that the stages have left the resume token alone. A client could not go on from another one.
fn check_token(row: Doc<'_>, token: ResumeToken) -> Result<()> {
    let expected = token.encode();
    let found = row.get("_id");
    if found.as_doc() == Some(expected.as_doc()) {
        return Ok(());
    }
    let shown = DocBuf::build(|shown| {
        shown.put("_id", found);
    });
    Err(fatal(
        Code::ChangeStreamFatalError,
        format!(
            "Encountered an event whose _id field, which contains the resume token, was modified by the pipeline. Modifying \
             the _id field of an event makes it impossible to resume the stream from that point. Only transformations that \
             retain the unmodified _id field are allowed. Expected: {{ _id: {expected} }} but found: {shown}"
        ),
    ))
}

// === impl EventFeed ===

impl EventFeed {
    /// Passes an event through the stages that read from this feed.
    fn pass(
        &self,
        event: DocBuf,
        stages: &mut dyn Rows,
        cx: &mut RowContext<'_>,
        out: &mut RowBatch,
    ) -> Result<()> {
        *self.0.lock() = Some(event);
        while stages.fill(cx, out)? != Flow::End {}
        Ok(())
    }
}

impl Rows for EventFeed {
    fn fill(&mut self, _: &mut RowContext<'_>, out: &mut RowBatch) -> Result<Flow> {
        if let Some(event) = self.0.lock().take() {
            out.push(event.as_doc(), None);
        }
        Ok(Flow::End)
    }

    fn suspend(&mut self) -> usize {
        0
    }
}
