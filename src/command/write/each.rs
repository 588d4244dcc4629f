//! Statements that search for documents and write to them: those of update and delete, and the updates and deletes of
//! bulkWrite and findAndModify.

use super::{
    StatementNames, StatementRun, Statements, Tally, WriteOptions, check_statements,
    only_statement, run,
};
use crate::command::{Call, Counter, Counters, Outcome, UpdateForms};
use crate::effort::Effort;
use crate::engine::write::{Deleting, Selection, Updating, WriteTarget, collection_for};
use crate::error::{Code, Error, Result};
use crate::names::check_written;
use crate::query::Vars;
use crate::query::stage::StepBudget;
use crate::session;
use crate::value::{Doc, DocBuf, DocBuilder};

/// A statement that is running.
pub trait Writing: Send + 'static {
    /// Continues until it is done (`true`) or the time slice is over.
    fn step(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool>;
    /// Whether a single document may take long.
    fn is_slow(&self) -> bool;
    /// Makes empty timestamps mean themselves (`bypassEmptyTsReplacement`).
    fn keep_empty_timestamps(&mut self) {}
    /// Counts the form of the update, if it is one.
    fn note_form(&self, _forms: &mut UpdateForms) {}
    /// Returns what the statement has done, even if it failed in the end.
    fn outcome(&mut self) -> session::StatementOutcome;
}

/// A running update or delete.
pub enum RunningAction {
    Update(Box<Updating>),
    Remove(Box<Deleting>),
}

/// A statement that is read but not yet parsed.
pub trait Statement<'a>: Sized {
    type Writing: Writing;
    fn read_as(doc: Doc<'a>, names: &StatementNames) -> Result<Self>;
    fn parse(self, let_vars: Option<Doc<'_>>, vars: &Vars) -> Result<Self::Writing>;

    /// Returns how the client says that the statement may change several documents, if it says so.
    fn many(&self) -> Option<&'static str>;

    /// Returns whether the statement creates its collection, as MongoDB does even if it cannot parse the statement.
    fn creates(&self) -> bool {
        false
    }

    /// Returns the error that fails the whole command after its statements have run.
    fn late_error(&self) -> Option<Error> {
        None
    }
}

/// A kind of command that has such statements.
pub trait StatementKind: Send + 'static {
    /// The field that holds the statements.
    const LIST: &'static str;
    const NAMES: &'static StatementNames;
    const COUNTED: Counter;
    /// Whether the reply says how many documents really changed.
    const MODIFIES: bool;
    type Writing: Writing;
    type Statement<'a>: Statement<'a, Writing = Self::Writing>;
}

/// The statements of a command, and the position among them.
struct EachStatement<K: StatementKind> {
    let_vars: Option<DocBuf>,
    keeps_empty_timestamps: bool,
    /// The offset of the next statement, its index, and the number of statements.
    offset: usize,
    next: usize,
    count: usize,
    current: Option<K::Writing>,
    forms: UpdateForms,
    tally: Tally,
    /// The first error of a statement that fails the command at its end.
    late_error: Option<Error>,
}

/// Runs a command of this kind.
pub fn run_each<K: StatementKind>(
    call: &mut Call<'_>,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let mut options = WriteOptions::read(call, K::LIST, &[])?;
    let documents = call.documents(K::LIST)?;
    let count = check_statements(call, K::LIST, documents)?;
    let mut late_error = None;
    if count > 1 {
        // A statement that cannot be read fails the whole command before any statement has run.
        for value in documents.iter() {
            let statement = read::<K>(value.as_doc().unwrap_or(Doc::EMPTY))?;
            late_error = late_error.or_else(|| statement.late_error());
        }
    }
    let collection = call.collection()?;
    check_written(call.database(), collection)?;
    let each = EachStatement::<K> {
        let_vars: options.let_vars.map(DocBuf::from),
        keeps_empty_timestamps: options.keeps_empty_timestamps,
        offset: 0,
        next: 0,
        count,
        current: None,
        forms: UpdateForms::default(),
        tally: Tally::new(options.is_ordered(call), options.numbers(count)?),
        late_error,
    };
    run(call, collection, documents, each, false, reply)
}

/// Returns the statement of a command that has only one, for explain.
pub fn only<K: StatementKind>(call: &Call<'_>) -> Result<K::Writing> {
    let options = WriteOptions::read(call, K::LIST, &[])?;
    read::<K>(only_statement(call, K::LIST)?)?.parse(options.let_vars, &call.vars())
}

/// Returns the error for a retryable write that may change several documents: it has no single outcome to repeat.
fn not_retryable(many: &str) -> Error {
    Error::new(
        Code::InvalidOptions,
        format!("Cannot use (or request) retryable writes with {many}"),
    )
}

fn read<K: StatementKind>(doc: Doc<'_>) -> Result<K::Statement<'_>> {
    K::Statement::read_as(doc, K::NAMES)
}

// === impl EachStatement ===

impl<K: StatementKind> Statements for EachStatement<K> {
    const LIST: Option<&'static str> = Some(K::LIST);

    fn step(&mut self, run: &mut StatementRun<'_>, slice: &dyn StepBudget) -> Result<bool> {
        match self.advance(run, slice)? {
            true => self.late_error.take().map_or(Ok(true), Err),
            false => Ok(false),
        }
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) {
        self.tally.reply(K::MODIFIES, reply);
    }

    fn count(&self, counters: &Counters, shard: usize) {
        counters.add(shard, K::COUNTED, self.next as u64);
        counters.updated("update", self.forms);
    }
}

impl<K: StatementKind> EachStatement<K> {
    /// Continues until all statements are done (`true`) or the time slice is over.
    fn advance(&mut self, run: &mut StatementRun<'_>, slice: &dyn StepBudget) -> Result<bool> {
        while self.next < self.count {
            let index = self.next;
            let ended = match &mut self.current {
                Some(current) => match current.step(&run.place, slice, &mut run.effort) {
                    Ok(false) => {
                        run.pay(run.place.name());
                        return Ok(false);
                    }
                    Ok(true) => {
                        self.tally
                            .done(index, current.outcome(), run.retry.as_mut());
                        Ok(())
                    }
                    // What the statement did before it failed stays done, but does not count in the reply, as in MongoDB.
                    Err(error) => Err(error),
                },
                None => {
                    let Some(value) = run.documents.take_next(&mut self.offset) else {
                        return Ok(true);
                    };
                    if self.tally.repeat(index, run.retry.as_ref()) {
                        Ok(())
                    } else if let Err(refusal) = run.admit(&run.place) {
                        Err(refusal)
                    } else {
                        let statement = read::<K>(value.as_doc().unwrap_or(Doc::EMPTY))?;
                        let many = statement.many().filter(|_| run.retry.is_some());
                        if self.count == 1 {
                            self.late_error = statement.late_error();
                        }
                        let let_vars = self.let_vars.as_ref().map(DocBuf::as_doc);
                        let creates = statement.creates();
                        let begun = match many {
                            None => statement.parse(let_vars, &run.vars),
                            Some(many) => Err(not_retryable(many)),
                        };
                        match begun {
                            Ok(mut begun) => {
                                if self.keeps_empty_timestamps {
                                    begun.keep_empty_timestamps();
                                }
                                begun.note_form(&mut self.forms);
                                if self.current.insert(begun).is_slow() {
                                    return Ok(false);
                                }
                                continue;
                            }
                            Err(error) if creates => {
                                let place = &run.place;
                                let (database, name) = place.name();
                                collection_for(place.catalog, database, name, place.at)?;
                                Err(error)
                            }
                            Err(error) => Err(error),
                        }
                    }
                }
            };
            run.pay(run.place.name());
            self.current = None;
            self.next += 1;
            if let Err(error) = ended {
                if error.is_interruption() {
                    return Err(error);
                }
                if !self.tally.fail(index, error) {
                    return Ok(true);
                }
            }
            // After the last statement there is no need to read the clock.
            if self.next < self.count && slice.is_over() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

// === impl Writing ===

impl Writing for Updating {
    fn step(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool> {
        Self::step(self, place, slice, effort)
    }

    fn is_slow(&self) -> bool {
        Self::is_slow(self)
    }

    fn keep_empty_timestamps(&mut self) {
        self.update.keep_empty_timestamps();
    }

    fn note_form(&self, forms: &mut UpdateForms) {
        forms.note(&self.update);
    }

    fn outcome(&mut self) -> session::StatementOutcome {
        let done = &mut self.done;
        session::StatementOutcome::Updated {
            n: done.reached(),
            modified: done.modified,
            upserted: done.upserted.take().map(Box::new),
        }
    }
}

impl Writing for Deleting {
    fn step(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool> {
        Self::step(self, place, slice, effort)
    }

    fn is_slow(&self) -> bool {
        self.search.selection.is_slow()
    }

    fn outcome(&mut self) -> session::StatementOutcome {
        session::StatementOutcome::Deleted { n: self.deleted }
    }
}

impl Writing for RunningAction {
    fn step(
        &mut self,
        place: &WriteTarget<'_>,
        slice: &dyn StepBudget,
        effort: &mut Effort,
    ) -> Result<bool> {
        match self {
            Self::Update(updating) => updating.step(place, slice, effort),
            Self::Remove(deleting) => deleting.step(place, slice, effort),
        }
    }

    fn is_slow(&self) -> bool {
        match self {
            Self::Update(updating) => Writing::is_slow(&**updating),
            Self::Remove(deleting) => Writing::is_slow(&**deleting),
        }
    }

    fn keep_empty_timestamps(&mut self) {
        if let Self::Update(updating) = self {
            updating.update.keep_empty_timestamps();
        }
    }

    fn note_form(&self, forms: &mut UpdateForms) {
        if let Self::Update(updating) = self {
            forms.note(&updating.update);
        }
    }

    fn outcome(&mut self) -> session::StatementOutcome {
        match self {
            Self::Update(updating) => updating.outcome(),
            Self::Remove(deleting) => deleting.outcome(),
        }
    }
}

impl RunningAction {
    /// Returns what selects the statement's documents.
    pub fn selection(&self) -> &Selection {
        match self {
            Self::Update(updating) => &updating.search.selection,
            Self::Remove(deleting) => &deleting.search.selection,
        }
    }
}
