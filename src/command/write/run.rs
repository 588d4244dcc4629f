//! Runs the statements of a command, at once if that is quick, else in steps.

use std::sync::Arc;

use crate::command::{Call, Client, Command, Context, Counters, DocumentList, Outcome, Step, Task};
use crate::cosmos::{self, Usage};
use crate::effort::Effort;
use crate::engine::write::{BATCH, Blocked, WriteTarget};
use crate::engine::{ReadPoint, TimeSlice};
use crate::error::Result;
use crate::query::Vars;
use crate::query::stage::StepBudget;
use crate::session::Retry;
use crate::value::DocBuilder;
use crate::wire::Request;

/// The statements of a command, run one by one.
pub trait Statements: Send + 'static {
    /// The field that holds the statements, if the command has a list of them.
    const LIST: Option<&'static str>;
    /// Continues until all are done (`true`) or the time slice is over.
    fn step(&mut self, run: &mut StatementRun<'_>, slice: &dyn StepBudget) -> Result<bool>;
    /// Writes the results.
    fn reply(&mut self, reply: &mut DocBuilder<'_>);
    /// Counts the statements that were tried, once no more will be.
    fn count(&self, _counters: &Counters, _shard: usize) {}
}

/// What statements need to run.
pub struct StatementRun<'r> {
    /// The statements of [`Statements::LIST`].
    pub documents: DocumentList<'r>,
    pub place: WriteTarget<'r>,
    pub vars: Vars,
    pub retry: &'r mut Option<Retry>,
    /// The work that the statements of the command have done so far.
    pub effort: Effort,
    /// Set if each statement must be admitted.
    gate: Option<Gate<'r>>,
}

/// The check before each statement: a fail point that is set, or a budget that may be spent.
struct Gate<'r> {
    context: &'r Context,
    client: &'r Client,
    command: &'static Command,
    /// The work that is already paid for.
    paid: Effort,
}

/// Statements that take longer than the first step.
struct Longer<S> {
    statements: S,
    context: Arc<Context>,
    client: Arc<Client>,
    command: &'static Command,
    request: Request,
    database: String,
    collection: String,
    /// The point from which the reads of every step start.
    at: ReadPoint,
    retry: Option<Retry>,
    effort: Effort,
}

/// Runs the statements. They run at once if that is quick and the parsed ones are not slow, else in steps.
pub fn run<S: Statements>(
    call: &mut Call<'_>,
    collection: &str,
    documents: DocumentList<'_>,
    mut statements: S,
    is_slow: bool,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    call.has_begun_to_write.set(true);
    let blocked = Blocked::default();
    let mut retry = call.retry.take();
    let mut running = StatementRun {
        documents,
        place: place(
            call.context,
            call.database(),
            collection,
            call.read_point(),
            &blocked,
        ),
        vars: call.vars(),
        retry: &mut retry,
        effort: Effort::default(),
        gate: Gate::of(call.context, call.client, call.command, Effort::default()),
    };
    // A command that may take long is on the list of operations before it begins.
    let stepped = match is_slow {
        true => Ok(false),
        false => statements.step(&mut running, &TimeSlice::begin()),
    };
    call.effort = running.effort;
    if !matches!(stepped, Ok(false)) {
        statements.count(&call.context.counters, Counters::shard(call.client.id));
    }
    if stepped? {
        statements.reply(reply);
        return Ok(Outcome::Reply);
    }
    Ok(Outcome::Work(Box::new(Longer {
        statements,
        context: Arc::clone(call.context),
        client: Arc::clone(call.client),
        command: call.command,
        request: call.request.clone(),
        database: call.database().to_owned(),
        collection: collection.to_owned(),
        at: call.read_point(),
        retry,
        effort: call.effort,
    })))
}

fn place<'p>(
    context: &'p Context,
    database: &'p str,
    collection: &'p str,
    at: ReadPoint,
    blocked: &'p Blocked,
) -> WriteTarget<'p> {
    WriteTarget {
        catalog: &context.catalog,
        ids: &context.ids,
        database,
        collection,
        outside_lock: context.config.writes_outside_lock,
        weigh: cosmos::weigh,
        at,
        blocked,
    }
}

// === impl StatementRun ===

impl StatementRun<'_> {
    /// Checks whether a statement may run there.
    #[inline]
    pub fn admit(&self, place: &WriteTarget<'_>) -> Result<()> {
        match &self.gate {
            None => Ok(()),
            Some(gate) => gate.admit(place, self.retry.is_some()),
        }
    }

    /// Charges the budget of this place for the work since the last payment.
    #[inline]
    pub fn pay(&mut self, place: (&str, &str)) {
        if let Some(gate) = &mut self.gate {
            gate.pay(place, self.effort);
        }
    }

    /// Returns how many documents are inserted under one lock: one if each must be admitted.
    #[inline]
    pub fn batch(&self) -> usize {
        match &self.gate {
            None => BATCH,
            Some(_) => 1,
        }
    }
}

// === impl Gate ===

impl<'r> Gate<'r> {
    #[inline]
    fn of(
        context: &'r Context,
        client: &'r Client,
        command: &'static Command,
        paid: Effort,
    ) -> Option<Self> {
        let closed = context.cosmos.is_limited() || context.fail_points.is_on();
        closed.then_some(Self {
            context,
            client,
            command,
            paid,
        })
    }

    fn admit(&self, place: &WriteTarget<'_>, is_retryable: bool) -> Result<()> {
        let name = place.name();
        let points = &self.context.fail_points;
        if is_retryable {
            points.strike_write(self.client.id)?;
        }
        if let Some(refusal) = points.refuse_statement(self.client, self.command, name) {
            return Err(refusal);
        }
        let now = self.context.clock.now();
        self.context.cosmos.admit(name, now)
    }

    fn pay(&mut self, place: (&str, &str), so_far: Effort) {
        let usage = Usage {
            effort: so_far - self.paid,
            returned: 0,
        };
        self.paid = so_far;
        let now = self.context.clock.now();
        self.context.cosmos.charge(place, now, usage.cost());
    }
}

// === impl Longer ===

impl<S: Statements> Task for Longer<S> {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let blocked = Blocked::default();
        let mut running = StatementRun {
            documents: S::LIST.map_or(DocumentList::NONE, |list| {
                DocumentList::of(&self.request, list)
            }),
            place: place(
                &self.context,
                &self.database,
                &self.collection,
                self.at,
                &blocked,
            ),
            vars: self.context.vars(self.at.now()),
            retry: &mut self.retry,
            effort: self.effort,
            gate: Gate::of(&self.context, &self.client, self.command, self.effort),
        };
        let stepped = self.statements.step(&mut running, &TimeSlice::begin());
        self.effort = running.effort;
        if !matches!(stepped, Ok(false)) {
            let shard = Counters::shard(self.client.id);
            self.statements.count(&self.context.counters, shard);
        }
        if !stepped? {
            return Ok(blocked.take().map_or(Step::More, Step::Wait));
        }
        self.statements.reply(reply);
        Ok(Step::Done)
    }

    fn effort(&self) -> Effort {
        self.effort
    }
}
