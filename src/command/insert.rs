//! `insert`: adds documents.

use smallvec::SmallVec;
use std::borrow::Cow;

use super::write::{self, Numbers, Options, Running, Statements, Tally};
use super::{Access, Call, Command, Counted, Counters, Documents, Flags, Outcome};
use crate::engine::write::{BATCH, Intake, insert_batch};
use crate::error::Result;
use crate::query::stage::Slice;
use crate::session;
use crate::value::DocBuilder;

pub(super) const COMMAND: Command = Command::ready(
    "insert",
    Access::Write,
    "Adds documents to a collection.",
    run,
)
.with(
    Flags::RETRYABLE
        .and(Flags::WRITE_CONCERN)
        .and(Flags::STABLE)
        .and(Flags::UNCOUNTED),
);

const LIST: &str = "documents";

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let collection = call.collection()?;
    let mut options = Options::read(call, LIST, &[])?;
    let count = write::check_statements(call, LIST, call.documents(LIST)?)?;
    let inserts = Inserts {
        ordered: options.ordered,
        numbers: options.numbers(count)?,
        offset: 0,
        next: 0,
        tally: Tally::default(),
    };
    call.context.counters.add(
        Counters::shard(call.client.id),
        Counted::Insert,
        count as u64,
    );
    write::run(call, collection, inserts, reply)
}

struct Inserts {
    ordered: bool,
    numbers: Numbers,
    /// Where the next document stands, and which it is.
    offset: usize,
    next: usize,
    tally: Tally,
}

// === impl Inserts ===

impl Statements for Inserts {
    fn step(&mut self, run: &mut Running<'_>, slice: &dyn Slice) -> Result<bool> {
        let documents = Documents::of(run.request, LIST);
        loop {
            if self.chunk(run, documents) {
                return Ok(true);
            }
            if slice.is_over() {
                return Ok(false);
            }
        }
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        self.tally.put_n(reply);
        self.tally.put_errors(reply);
    }
}

/// Documents on their way in, with the index that each has among the statements.
type Admitted<'d> = SmallVec<[(usize, Cow<'d, [u8]>); 1]>;

impl Inserts {
    /// Adds about a hundred documents. Says whether that was all.
    fn chunk(&mut self, run: &mut Running<'_>, documents: Documents<'_>) -> bool {
        let intake = Intake {
            ids: run.place.ids,
            now: run.place.now,
        };
        let mut admitted = Admitted::new();
        let mut over = true;
        let mut refused = None;
        while let Some(value) = documents.take_next(&mut self.offset) {
            let index = self.next;
            self.next += 1;
            let number = self.numbers.of(index);
            if run
                .retry
                .as_ref()
                .is_some_and(|retry| retry.outcome(number).is_some())
            {
                self.tally.n += 1;
                self.tally.retried.push(number);
                continue;
            }
            match value
                .as_doc()
                .map_or_else(|| Ok(Cow::Borrowed(value.data())), |doc| intake.admit(doc))
            {
                Ok(bytes) => admitted.push((index, bytes)),
                Err(error) => {
                    refused = Some((index, error));
                    over = false;
                    break;
                }
            }
            if admitted.len() == BATCH {
                over = false;
                break;
            }
        }
        if !self.add(run, &admitted) {
            return true;
        }
        match refused {
            Some((index, error)) => !self.tally.fail(index, error, self.ordered),
            None => over,
        }
    }

    /// Adds the documents. Says whether to go on with others.
    fn add(&mut self, run: &mut Running<'_>, mut admitted: &[(usize, Cow<'_, [u8]>)]) -> bool {
        while !admitted.is_empty() {
            let (collection, _) = run
                .place
                .catalog
                .get_or_create(run.place.database, run.place.collection);
            let bytes = admitted.iter().map(|(_, bytes)| bytes.as_ref());
            // Dropped in between: it is made again.
            let Ok(inserted) = insert_batch(&collection, bytes, run.place.now) else {
                continue;
            };
            let (added, rest) = admitted.split_at(inserted.count);
            self.tally.n += added.len() as u64;
            if let Some(retry) = run.retry {
                for (index, _) in added {
                    retry.record(self.numbers.of(*index), session::Outcome::Inserted);
                }
            }
            admitted = rest;
            if let (Some(error), Some(((index, _), rest))) = (inserted.failed, rest.split_first()) {
                if !self.tally.fail(*index, error, self.ordered) {
                    return false;
                }
                admitted = rest;
            }
        }
        true
    }
}
