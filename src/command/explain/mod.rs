//! `explain`: how a command finds its documents, and what that costs.
//!
//! [`subject`] reads the explained command with that command's own parser and turns it into an [`ExplainSubject`]: its
//! plan, and work that changes nothing. [`work`] does the work in steps and counts it. [`tree`] prints the plan as
//! MongoDB's stages, with or without the figures. [`shape`] computes the hashes that show which queries are alike. The
//! planning itself is in `engine`.

mod shape;
mod subject;
mod tree;
mod work;

use std::cell::Cell;
use std::time::Instant;

use smallvec::SmallVec;

use super::build_info::VERSION;
use super::generic::Generic;
use super::guard;
use super::{Access, Call, Command, Flags, Needs, Outcome, Step, Task, cosmos, reply};
use crate::args;
use crate::clock::monotonic;
use crate::effort::Effort;
use crate::engine::ReadPoint;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuf, DocBuilder};
use crate::wire::Request;

use subject::ExplainSubject;
use tree::{ExecutionStats, PlanTree};

/// The most bytes of a reply. A part that does not fit is left out, with a warning in mongod's words.
const MOST_BYTES: usize = 16 << 20;

pub(super) const COMMAND: Command = Command::ready(
    "explain",
    Access::Read,
    "Shows how a command finds its documents.",
    run,
)
.with(Flags::STABLE.and(Flags::SECONDARY).and(Flags::SNAPSHOT))
.needs(Needs::Nothing);

/// How much explain shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Verbosity {
    /// The plan only; the command does not run.
    QueryPlanner,
    /// The plan and its figures.
    ExecutionStats,
    /// The figures of the rejected plans as well. There are none, because the planner compares plans without running them.
    AllPlansExecution,
}

/// An explain that is running.
struct ExplainTask {
    subject: ExplainSubject,
    verbosity: Verbosity,
    /// The explained command, with its database.
    command: DocBuf,
    host: String,
    /// The point from which the reads start.
    at: ReadPoint,
    started: Instant,
    /// Why the plan failed.
    failure: Option<Error>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut verbosity = Verbosity::AllPlansExecution;
    let mut explained = None;
    for arg in call.args() {
        match arg.name() {
            "explain" => explained = arg.doc()?,
            "verbosity" => match arg.str()? {
                None | Some("allPlansExecution") => {}
                Some("queryPlanner") => verbosity = Verbosity::QueryPlanner,
                Some("executionStats") => verbosity = Verbosity::ExecutionStats,
                Some(other) => return Err(arg.not_a_value(other)),
            },
            _ => return Err(arg.unknown()),
        }
    }
    let explained = args::required(explained, "explain", "explain")?;
    let database = explained.get("$db");
    if !database.is_missing() && database.as_str() != Some(call.database()) {
        return Err(Error::new(
            Code::InvalidNamespace,
            format!(
                "Mismatched $db in explain command. Expected {} but got {database}",
                call.database()
            ),
        ));
    }
    let name = explained.first().map_or("", |first| first.name());
    let command = super::find(name.as_bytes()).ok_or_else(|| {
        Error::new(
            Code::CommandNotFound,
            format!("Explain failed due to unknown command: {name}"),
        )
    })?;
    let request = Request {
        query_database: Some(call.database().to_owned()),
        request_id: call.request.request_id,
        form: call.request.form,
        ..Request::new(explained.bytes().to_vec())
    };
    let mut own = SmallVec::new();
    let mut generic = Generic::parse(command, &call.context.config.topology, &request, &mut own)?;
    // `apiStrict` of explain also holds for the explained command.
    generic.api_strict |= call.is_api_strict();
    if call.deadline.is_none() && generic.max_time_millis > 0 {
        call.limit_time(generic.max_time_millis);
    }
    let mut inner = Call {
        context: call.context,
        client: call.client,
        command,
        request: &request,
        now: call.now,
        deadline: call.deadline,
        retry: None,
        transaction: None,
        snapshot: None,
        effort: Effort::default(),
        has_begun_to_write: Cell::new(false),
        lock_wait: None,
        rights: call.rights.clone(),
        generic,
        own: &own,
    };
    guard::check(&inner)?;
    if call.context.cosmos.strict {
        cosmos::check_strict(&inner)?;
    }
    if command.name == "aggregate" && inner.arg("explain").is_some() && !inner.is_api_strict() {
        return Err(Error::failed_to_parse(
            "The 'explain' option is illegal when a explain verbosity is also provided",
        ));
    }
    let outcome = explain(&mut inner, verbosity, reply);
    call.effort = inner.effort;
    outcome
}

/// Explains an `aggregate` with `explain: true`.
pub(super) fn of_aggregate(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    explain(call, Verbosity::QueryPlanner, reply)
}

fn explain(
    call: &mut Call<'_>,
    verbosity: Verbosity,
    reply: &mut DocBuilder<'_>,
) -> Result<Outcome> {
    let started = monotonic();
    let subject = ExplainSubject::of(call)?;
    let mut explaining = ExplainTask {
        subject,
        verbosity,
        command: command_shown(call),
        host: call.context.host(),
        at: call.read_point(),
        started,
        failure: None,
    };
    let stepped = explaining.step(reply);
    call.effort = explaining.effort();
    match stepped? {
        Step::Done => Ok(Outcome::Reply),
        _ => Ok(Outcome::Work(Box::new(explaining))),
    }
}

/// Returns the command without the fields that the driver adds, and with its database.
fn command_shown(call: &Call<'_>) -> DocBuf {
    DocBuf::build(|out| {
        for elem in call.body() {
            if !matches!(elem.name(), "$db" | "lsid" | "$clusterTime" | "explain") {
                out.put(elem.name(), elem.value);
            }
        }
        out.put_str("$db", call.database());
    })
}

// === impl ExplainTask ===

impl Task for ExplainTask {
    fn step(&mut self, reply: &mut DocBuilder<'_>) -> Result<Step> {
        if self.verbosity != Verbosity::QueryPlanner {
            match self.subject.work.step(self.at) {
                Ok(true) => {}
                Ok(false) => return Ok(Step::More),
                // A plan that fails is explained, too. A pipeline is not.
                Err(error) if self.subject.is_plan() && !error.is_interruption() => {
                    self.failure = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        self.reply(reply);
        Ok(Step::Done)
    }

    fn effort(&self) -> Effort {
        self.subject.work.effort()
    }
}

impl ExplainTask {
    fn reply(&self, reply: &mut DocBuilder<'_>) {
        let subject = &self.subject;
        let passed = monotonic() - self.started;
        let millis = passed.as_millis().min(i32::MAX as u128) as i64;
        let figures =
            (self.verbosity > Verbosity::QueryPlanner).then(|| subject.work.figures(millis));
        reply.put_str("explainVersion", "1");
        if subject.is_plan() {
            self.put_plan(figures.as_ref(), reply);
        } else {
            self.put_stages(figures.as_ref(), reply);
        }
        reply.put_str("queryShapeHash", &subject.shape.query_hash());
        if reply.len() + self.command.bytes().len() <= MOST_BYTES {
            reply.put_doc("command", self.command.as_doc());
        } else {
            reply.put_str(
                "warning",
                "'command' has been omitted due to BSON size limit",
            );
        }
        put_server(&self.host, reply);
    }

    /// Writes `queryPlanner` and `executionStats`.
    fn put_plan(&self, figures: Option<&ExecutionStats>, out: &mut DocBuilder<'_>) {
        let subject = &self.subject;
        let Some(tree) = &subject.tree else { return };
        let hash = subject.shape.plan_hash();
        let mut planner = out.doc("queryPlanner");
        planner
            .put_str("namespace", &subject.namespace)
            .put_doc("parsedQuery", subject.parsed.as_doc())
            .put_bool("indexFilterSet", false)
            .put_str("queryHash", &hash)
            .put_str("planCacheShapeHash", &hash)
            .put_str("planCacheKey", &hash)
            .put_i32("optimizationTimeMillis", 0)
            .put_bool("maxIndexedOrSolutionsReached", false)
            .put_bool("maxIndexedAndSolutionsReached", false)
            .put_bool("maxScansToExplodeReached", false)
            .put_bool("prunedSimilarIndexes", false);
        let taken = planner.len();
        let mut winning = planner.doc("winningPlan");
        put_tree(tree, None, taken, &mut winning);
        winning.end();
        planner.array("rejectedPlans").end();
        planner.end();
        let Some(figures) = figures else { return };
        let taken = out.len();
        let mut stats = out.doc("executionStats");
        stats.put_bool("executionSuccess", self.failure.is_none());
        if let Some(error) = &self.failure {
            stats
                .put_str("errorMessage", error.message())
                .put_i32("errorCode", error.code().number());
        }
        reply::put_count(&mut stats, "nReturned", tree.returned(figures));
        stats.put_i32("executionTimeMillis", figures.millis as i32);
        reply::put_count(&mut stats, "totalKeysExamined", figures.keys);
        reply::put_count(&mut stats, "totalDocsExamined", figures.documents);
        let mut stages = stats.doc("executionStages");
        put_tree(tree, Some(figures), taken, &mut stages);
        stages.end();
        if self.verbosity == Verbosity::AllPlansExecution {
            stats.array("allPlansExecution").end();
        }
        stats.end();
    }

    /// Writes `stages`: the source of the pipeline as `$cursor`, then its stages.
    fn put_stages(&self, figures: Option<&ExecutionStats>, out: &mut DocBuilder<'_>) {
        let mut stages = out.array("stages");
        if self.subject.tree.is_some() {
            let mut entry = stages.doc();
            let mut cursor = entry.doc("$cursor");
            self.put_plan(figures, &mut cursor);
            cursor.end();
            if let Some(figures) = figures {
                put_stage_figures(figures.returned, figures, &mut entry);
            }
            entry.end();
        }
        for stage in &self.subject.stages {
            let mut entry = stages.doc();
            entry.put(stage.name, stage.spec.as_ref());
            if let Some(figures) = figures {
                put_stage_figures(stage.returned(), figures, &mut entry);
            }
            entry.end();
        }
        stages.end();
    }
}

/// Writes the stages of a plan if they fit into the reply. `taken` is the number of bytes already used.
fn put_tree(
    tree: &PlanTree,
    figures: Option<&ExecutionStats>,
    taken: usize,
    out: &mut DocBuilder<'_>,
) {
    if taken + tree.access.bytes().len() <= MOST_BYTES {
        tree.put(figures, out);
    } else {
        out.put_str("warning", "stats tree exceeded BSON size limit for explain");
    }
}

fn put_stage_figures(returned: u64, figures: &ExecutionStats, out: &mut DocBuilder<'_>) {
    out.put_i64("nReturned", i64::try_from(returned).unwrap_or(i64::MAX))
        .put_i64("executionTimeMillisEstimate", figures.millis);
}

fn put_server(host: &str, reply: &mut DocBuilder<'_>) {
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let mut server = reply.doc("serverInfo");
    server
        .put_str("host", name)
        .put_i32("port", port.parse().unwrap_or(0))
        .put_str("version", VERSION)
        .put_str("gitVersion", concat!("sundown-", env!("CARGO_PKG_VERSION")));
    server.end();
    let mut parameters = reply.doc("serverParameters");
    for name in [
        "internalQueryFacetBufferSizeBytes",
        "internalQueryFacetMaxOutputDocSizeBytes",
        "internalLookupStageIntermediateDocumentMaxSizeBytes",
        "internalDocumentSourceGroupMaxMemoryBytes",
        "internalQueryMaxBlockingSortMemoryUsageBytes",
        "internalQueryMaxAddToSetBytes",
        "internalDocumentSourceSetWindowFieldsMaxMemoryBytes",
    ] {
        parameters.put_i32(name, tree::MEMORY);
    }
    parameters
        .put_i32("internalQueryProhibitBlockingMergeOnMongoS", 0)
        .put_str("internalQueryFrameworkControl", "forceClassicEngine")
        .put_i32("internalQueryPlannerIgnoreIndexWithCollationForRegex", 1);
    parameters.end();
}

#[cfg(test)]
mod tests;
