//! The events of a change stream, as the source of a cursor.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::effort::Effort;
use crate::engine::{EngineSources, MissingImage, NextEvent, ReadPoint, TimeSlice, Watch, fatal};
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
    /// The documents in an event that are looked up only after the stages have dropped what they drop.
    matched_before: Vec<&'static str>,
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
            matched_before: matched_before(pipeline),
        }
    }

    /// Fails for an event that lacks a required document, unless the stages may drop the event before anybody looks for the
    /// document: as in mongod, a `$match` that does not name it comes first.
    fn check_image(&self, missing: Option<&MissingImage>) -> Result<()> {
        match missing {
            Some(missing) if !self.matched_before.contains(&missing.field) => {
                Err(missing.error.clone())
            }
            _ => Ok(()),
        }
    }

    /// Passes an event through the stages. Its row is in `held` then, unless a stage has dropped it.
    fn transform(&mut self, token: ResumeToken, event: DocBuf, slice: &TimeSlice) -> Result<()> {
        *self.feed.0.lock() = Some(event);
        self.held.clear();
        let mut cx = RowContext {
            vars: &self.vars,
            slice,
            limits: self.limits,
            sources: &*self.sources,
        };
        while self.rows.fill(&mut cx, &mut self.held)? != Flow::End {}
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
                    self.check_image(missing.as_ref())?;
                    self.transform(token, event, &slice)?;
                    if let Some(missing) = missing
                        && !self.held.is_empty()
                    {
                        return Err(missing.error);
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

/// Returns the documents in an event that no stage names, if every `$match` can be moved before their look-up.
fn matched_before(pipeline: &Pipeline) -> Vec<&'static str> {
    const PASSED: [&str; 6] = [
        "$changeStream",
        "$match",
        "$addFields",
        "$set",
        "$unset",
        "$project",
    ];
    let mut steps = pipeline.steps().iter();
    if !steps.all(|step| PASSED.contains(&step.row.name)) {
        return Vec::new();
    }
    let is_named = |field: &str| Survey::of(field, |survey| pipeline.survey(survey)).names_field;
    let mut fields = vec!["fullDocument", "fullDocumentBeforeChange"];
    fields.retain(|field| !is_named(field));
    fields
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
