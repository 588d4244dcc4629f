//! `insert`: adds documents.

use smallvec::SmallVec;
use std::borrow::Cow;

use super::write::{self, Added, StatementRun, Statements, Tally, WriteOptions};
use super::{Access, Call, Command, Counter, Counters, Flags, Needs, Outcome};
use crate::auth::Action;
use crate::engine::write::Intake;
use crate::error::Result;
use crate::names::check_written;
use crate::query::stage::StepBudget;
use crate::session;
use crate::value::DocBuilder;

pub(super) const COMMAND: Command = Command::ready(
    "insert",
    Access::Write,
    "Inserts documents into a collection.",
    run,
)
.with(Flags::STATEMENTS)
.needs(Needs::Collection(Action::Insert));

const LIST: &str = "documents";

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut options = WriteOptions::read(call, LIST, &[])?;
    let documents = call.documents(LIST)?;
    let count = write::check_statements(call, LIST, documents)?;
    let collection = call.collection()?;
    check_written(call.database(), collection)?;
    let inserts = Inserts {
        offset: 0,
        next: 0,
        reached: 0,
        tried: 0,
        tally: Tally::new(options.is_ordered(call), options.numbers(count)?),
        keeps_empty_timestamps: options.keeps_empty_timestamps,
    };
    write::run(call, collection, documents, inserts, false, reply)
}

struct Inserts {
    /// The offset of the next document in the list, and below it the index of that document.
    offset: usize,
    next: usize,
    /// The documents before this index were looked at before. Those that a transaction held up come again.
    reached: usize,
    /// The documents before this index were inserted or refused.
    tried: usize,
    tally: Tally,
    keeps_empty_timestamps: bool,
}

// === impl Inserts ===

impl Statements for Inserts {
    const LIST: Option<&'static str> = Some(LIST);

    fn step(&mut self, run: &mut StatementRun<'_>, slice: &dyn StepBudget) -> Result<bool> {
        loop {
            if self.chunk(run)? {
                return Ok(true);
            }
            if run.place.is_blocked() || slice.is_over() {
                return Ok(false);
            }
        }
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        self.tally.reply(false, reply);
    }

    fn count(&self, counters: &Counters, shard: usize) {
        counters.add(shard, Counter::Insert, self.tried as u64);
    }
}

/// Documents that passed the checks, each with its index in the command.
type Admitted<'d> = SmallVec<[(usize, Cow<'d, [u8]>); 1]>;

impl Inserts {
    /// Inserts one batch of documents. Returns whether the command is finished.
    fn chunk(&mut self, run: &mut StatementRun<'_>) -> Result<bool> {
        let intake = Intake {
            ids: run.place.ids,
            now: run.place.now(),
            keeps_empty_timestamps: self.keeps_empty_timestamps,
        };
        let start = (self.offset, self.next);
        let mut admitted = Admitted::new();
        let mut over = true;
        let mut refused = None;
        while let Some(value) = run.documents.take_next(&mut self.offset) {
            let index = self.next;
            self.next += 1;
            let repeated = match index < self.reached {
                true => self.tally.ran_before(index, run.retry.as_ref()),
                false => self.tally.repeat(index, run.retry.as_ref()),
            };
            self.reached = self.reached.max(self.next);
            if repeated {
                continue;
            }
            match run.admit(&run.place).and_then(|()| {
                value
                    .as_doc()
                    .map_or_else(|| Ok(Cow::Borrowed(value.data())), |doc| intake.admit(doc))
            }) {
                Ok(bytes) => admitted.push((index, bytes)),
                Err(error) => {
                    refused = Some((index, error));
                    over = false;
                    break;
                }
            }
            if admitted.len() == run.batch() {
                over = false;
                break;
            }
        }
        let mut interrupted = None;
        let (effort, retry) = (&mut run.effort, &mut *run.retry);
        let added = write::add(&run.place, effort, &admitted, |index, failed| {
            self.tried = index + 1;
            match failed {
                None => {
                    let outcome = session::StatementOutcome::Inserted;
                    self.tally.done(index, outcome, retry.as_mut());
                    true
                }
                Some(error) if error.is_interruption() => {
                    interrupted = Some(error);
                    false
                }
                Some(error) => self.tally.fail(index, error),
            }
        });
        run.pay(run.place.name());
        if let Some(error) = interrupted {
            return Err(error);
        }
        match added {
            Added::All => {}
            Added::Failed => return Ok(true),
            Added::Blocked(index) => {
                (self.offset, self.next) = start;
                while self.next < index {
                    run.documents.take_next(&mut self.offset);
                    self.next += 1;
                }
                return Ok(false);
            }
        }
        Ok(match refused {
            Some((index, error)) => {
                self.tried = index + 1;
                !self.tally.fail(index, error)
            }
            None => over,
        })
    }
}
