//! Running the statements of a command: at once if that is quickly done, else in steps.

use std::sync::Arc;

use crate::aside::is_long_expected;
use crate::command::{Call, Context, Outcome, Step, Task};
use crate::cosmos::{Cosmos, Price};
use crate::engine::TimeSlice;
use crate::engine::write::Place;
use crate::error::Result;
use crate::query::Vars;
use crate::query::stage::Slice;
use crate::session::Retry;
use crate::value::{DocBuilder, Millis};
use crate::wire::Request;

/// The statements of a command, run one after the other.
pub trait Statements: Send + 'static {
    /// Goes on until all are done (`true`) or the time slice is over.
    fn step(&mut self, run: &mut Running<'_>, slice: &dyn Slice) -> Result<bool>;
    /// Writes what came of them.
    fn reply(&mut self, reply: &mut DocBuilder<'_>);
}

/// What statements run with.
pub struct Running<'r> {
    pub request: &'r Request,
    pub place: Place<'r>,
    pub vars: Vars,
    pub retry: &'r mut Option<Retry>,
    /// Where statements are limited one by one: in size, or by a budget.
    pub limits: Option<&'r Cosmos>,
}

/// Statements that did not get done at once.
struct Longer<S> {
    statements: S,
    context: Arc<Context>,
    request: Request,
    database: String,
    collection: String,
    now: Millis,
    retry: Option<Retry>,
}

/// Runs the statements: at once if that is quickly done, else in steps.
pub fn run<S: Statements>(
    call: &mut Call<'_>,
    collection: &str,
    mut statements: S,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let mut retry = call.retry.take();
    let mut running = Running {
        request: call.request,
        place: Place {
            catalog: &call.context.catalog,
            ids: &call.context.ids,
            database: call.database(),
            collection,
            now: call.now,
        },
        vars: call.vars(),
        retry: &mut retry,
        limits: call.context.cosmos.limits(),
    };
    // What may take long is on the list of operations before it begins.
    if !is_long_expected() && statements.step(&mut running, &TimeSlice::begin())? {
        statements.reply(reply);
        return Ok(Outcome::Reply);
    }
    Ok(Outcome::Work(Box::new(Longer {
        statements,
        context: Arc::clone(call.context),
        request: call.request.clone(),
        database: call.database().to_owned(),
        collection: collection.to_owned(),
        now: call.now,
        retry,
    })))
}

// === impl Running ===

impl Running<'_> {
    /// Whether a statement of that many bytes may run here.
    #[inline]
    pub fn afford(&self, place: &Place<'_>, price: Price, bytes: usize) -> Result<()> {
        match self.limits {
            None => Ok(()),
            Some(limits) => {
                let name = (place.database, place.collection);
                limits.afford(name, place.now, price, bytes)
            }
        }
    }
}

// === impl Longer ===

impl<S: Statements> Task for Longer<S> {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        let mut running = Running {
            request: &self.request,
            place: Place {
                catalog: &self.context.catalog,
                ids: &self.context.ids,
                database: &self.database,
                collection: &self.collection,
                now: self.now,
            },
            vars: self.context.vars(self.now),
            retry: &mut self.retry,
            limits: self.context.cosmos.limits(),
        };
        if !self.statements.step(&mut running, &TimeSlice::begin())? {
            return Ok(Step::More);
        }
        self.statements.reply(reply);
        Ok(Step::Done)
    }
}
