//! `dataSize`: the size of the documents of a collection, or of those between two keys of an index.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::scan::{self, ScanTask, ScanVisitor};
use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::required;
use crate::auth::{Action, AuthTarget};
use crate::engine::access::Walk;
use crate::engine::key_bounds::within;
use crate::engine::plan::{self, ScanDirection};
use crate::engine::stats::{Totals, totals};
use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::value::{Doc, DocBuilder};

pub(super) const COMMAND: Command = Command::ready(
    "dataSize",
    Access::Read,
    "Shows the size of a collection's documents.",
    run,
)
.alias(&["datasize"])
.with(Flags::SECONDARY)
.needs(Needs::Asked(may));

/// Checks the rights. The command names the collection together with its database, so `$db` is not used.
fn may(call: &Call<'_>) -> Result<bool> {
    let name = call.target().as_str().and_then(|name| name.split_once('.'));
    Ok(match name {
        Some((db, name)) => call.may(AuthTarget::Collection(db, name), Action::Find),
        None => call.user().is_some(),
    })
}

/// The arguments of the command.
#[derive(Default)]
struct DataSize<'a> {
    namespace: Option<&'a str>,
    estimate: bool,
    key_pattern: Option<Doc<'a>>,
    min: Option<Doc<'a>>,
    max: Option<Doc<'a>>,
    most: Totals,
}

/// Sums up the sizes of documents.
struct SumSizes {
    estimate: bool,
    /// Counting stops above these totals. 0 means no limit.
    most: Totals,
    /// The average size, which counts for every document if the client accepts an estimate.
    average: Option<u64>,
    found: Totals,
    enough: bool,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let target = call.target().as_str();
    target.map(super::rename_collection::parse).transpose()?;
    let arguments = DataSize::read(call)?;
    let namespace = required(arguments.namespace, "dataSize", "dataSize")?;
    let namespace = super::rename_collection::parse(namespace)?;
    match (arguments.min.is_some(), arguments.max.is_some()) {
        (true, false) => return Err(Error::bad_value("Max must be set if min is set.")),
        (false, true) => return Err(Error::bad_value("Max must not be set if min is not set.")),
        _ => {}
    }
    let catalog = &call.context.catalog;
    let collection = catalog.get(namespace.database(), namespace.collection())?;
    let all = collection
        .as_ref()
        .map_or_else(Totals::default, |found| totals(found, call.read_point()));
    let mut measuring = SumSizes {
        estimate: arguments.estimate,
        most: arguments.most,
        average: all
            .bytes
            .checked_div(all.count)
            .filter(|_| arguments.estimate),
        found: all,
        enough: false,
    };
    let ends = arguments.ends();
    // Storage keeps these totals. It examines a document only if that document is due to expire.
    let known = ends.is_none() && (arguments.estimate || arguments.most == Totals::default());
    let Some(collection) = collection.filter(|_| all.count > 0 && !known) else {
        measuring.reply(reply)?;
        return Ok(Outcome::Reply);
    };
    let access = match ends {
        None => plan::AccessPath::CollScan(ScanDirection::Forward),
        Some((min, max)) if min.is_empty() || max.is_empty() => {
            return Err(Error::bad_value("Only one of min or max specified"));
        }
        Some((min, max)) => within(
            &collection,
            arguments.key_pattern,
            min,
            max,
            call.read_point(),
        )?,
    };
    measuring.found = Totals::default();
    let walk = Some(Walk::new(collection, access));
    let filter = Arc::new(Filter::all());
    let scan = ScanTask::new(walk, filter, call.vars(), measuring, call);
    scan::begin(call, scan, false, reply)
}

// === impl DataSize ===

impl<'a> DataSize<'a> {
    fn read(call: &Call<'a>) -> Result<Self> {
        let mut arguments = Self::default();
        for arg in call.args() {
            let count = || Ok::<_, Error>(arg.int()?.map_or(0, |n| n.max(0).unsigned_abs()));
            match arg.name() {
                "dataSize" | "datasize" => arguments.namespace = arg.str()?,
                "estimate" => arguments.estimate = arg.bool()?.unwrap_or(false),
                "keyPattern" => arguments.key_pattern = arg.doc()?.filter(|key| !key.is_empty()),
                "min" => arguments.min = arg.doc()?,
                "max" => arguments.max = arg.doc()?,
                "maxSize" => arguments.most.bytes = count()?,
                "maxObjects" => arguments.most.count = count()?,
                _ => return Err(arg.unknown()),
            }
        }
        Ok(arguments)
    }

    /// Returns `min` and `max`. If both are empty, there is no range.
    fn ends(&self) -> Option<(Doc<'a>, Doc<'a>)> {
        let ends = self.min.zip(self.max);
        ends.filter(|(min, max)| !min.is_empty() || !max.is_empty())
    }
}

// === impl SumSizes ===

impl ScanVisitor for SumSizes {
    fn take(&mut self, doc: Doc<'_>) -> Result<ControlFlow<()>> {
        let bytes = doc.bytes().len() as u64;
        self.found.count += 1;
        self.found.bytes += self.average.unwrap_or(bytes);
        let over = |found, most| most > 0 && found > most;
        self.enough =
            over(self.found.bytes, self.most.bytes) || over(self.found.count, self.most.count);
        Ok(match self.enough {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })
    }

    fn reply(&mut self, reply: &mut DocBuilder<'_>) -> Result<()> {
        reply
            .put_bool("estimate", self.estimate)
            .put_i64("size", self.found.bytes.cast_signed())
            .put_i64("numObjects", self.found.count.cast_signed());
        if self.enough {
            reply.put_bool("maxReached", true);
        }
        reply.put_i64("millis", 0);
        Ok(())
    }
}
