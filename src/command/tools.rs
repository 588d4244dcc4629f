//! Commands that shells and graphical tools send, answered as by a server without a plan cache and without timings:
//! `planCacheClear`, `getDefaultRWConcern`, `top`, ...

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::auth::Action;
use crate::error::Result;
use crate::value::DocBuilder;

pub(super) const PLAN_CACHE_CLEAR: Command = Command::ready(
    "planCacheClear",
    Access::Admin,
    "Clears the plan cache (there is none).",
    |call, _| {
        call.collection()?;
        Ok(Outcome::Reply)
    },
)
.needs(Needs::Collection(Action::PlanCacheWrite));

pub(super) const PLAN_CACHE_CLEAR_FILTERS: Command = Command::ready(
    "planCacheClearFilters",
    Access::Admin,
    "Removes index filters (there are none).",
    |call, _| {
        call.collection()?;
        Ok(Outcome::Reply)
    },
)
.needs(Needs::Collection(Action::PlanCacheIndexFilter));

pub(super) const PLAN_CACHE_LIST_FILTERS: Command = Command::ready(
    "planCacheListFilters",
    Access::Read,
    "Lists index filters (there are none).",
    |call, reply| {
        call.collection()?;
        reply.array("filters").end();
        Ok(Outcome::Reply)
    },
)
.needs(Needs::Collection(Action::PlanCacheIndexFilter));

pub(super) const GET_DEFAULT_RW_CONCERN: Command = Command::ready(
    "getDefaultRWConcern",
    Access::Admin,
    "Shows the default read and write concern.",
    get_default_rw_concern,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::GetDefaultRwConcern));

pub(super) const TOP: Command = Command::ready(
    "top",
    Access::Admin,
    "Shows how often each collection is used, and for how long.",
    top,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::Top));

fn get_default_rw_concern(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut in_memory = false;
    for arg in call.args().skip(1) {
        match arg.name() {
            "inMemory" => in_memory = arg.strict_bool()?.unwrap_or(false),
            _ => return Err(arg.unknown()),
        }
    }
    let mut read = reply.doc("defaultReadConcern");
    read.put_str("level", "local");
    read.end();
    let mut write = reply.doc("defaultWriteConcern");
    write.put_str("w", "majority").put_i32("wtimeout", 0);
    write.end();
    reply
        .put_str("defaultReadConcernSource", "implicit")
        .put_str("defaultWriteConcernSource", "implicit")
        .put_date("localUpdateWallClockTime", call.now.0);
    if in_memory {
        reply.put_bool("inMemory", true);
    }
    Ok(Outcome::Reply)
}

fn top(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut collections = call.context.usage().collections();
    for collection in call.context.catalog.collections() {
        let name = collection.namespace().as_str().to_owned();
        collections.entry(name).or_default();
    }
    let mut totals = reply.doc("totals");
    totals.put_str("note", "all times in microseconds");
    for (name, usage) in &collections {
        let mut entry = totals.doc(name);
        usage.put_events(&mut entry);
        entry.end();
    }
    totals.end();
    Ok(Outcome::Reply)
}
