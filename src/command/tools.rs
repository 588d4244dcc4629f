//! Questions that shells and graphical tools ask, with the answer that a server without plan cache and profiler
//! gives: `profile`, `planCacheClear`, `getDefaultRWConcern`, `top`, `validateDBMetadata`, ...

use super::args::{Arg, fields, required};
use super::{Access, Call, Command, Flags, Needs, Outcome, check_collection};
use crate::auth::Action;
use crate::error::{Error, Result};
use crate::value::{DocBuilder, Type};

pub(super) const PLAN_CACHE_CLEAR: Command = Command::ready(
    "planCacheClear",
    Access::Admin,
    "Forgets query plans: none are kept.",
    |call, _| {
        call.collection()?;
        Ok(Outcome::Reply)
    },
)
.needs(Needs::Collection(Action::PlanCacheWrite));

pub(super) const PLAN_CACHE_CLEAR_FILTERS: Command = Command::ready(
    "planCacheClearFilters",
    Access::Admin,
    "Removes index filters: there are none.",
    |call, _| {
        call.collection()?;
        Ok(Outcome::Reply)
    },
)
.needs(Needs::Collection(Action::PlanCacheIndexFilter));

pub(super) const PLAN_CACHE_LIST_FILTERS: Command = Command::ready(
    "planCacheListFilters",
    Access::Read,
    "Lists index filters: there are none.",
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
    "Shows the read and write concern that hold where a client gives none.",
    get_default_rw_concern,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::GetDefaultRwConcern));

pub(super) const PROFILE: Command = Command::ready(
    "profile",
    Access::Admin,
    "Shows the profiler's level: it is always off.",
    profile,
)
.with(Flags::SECONDARY)
.needs(Needs::Database(Action::EnableProfiler));

pub(super) const TOP: Command = Command::ready(
    "top",
    Access::Admin,
    "Shows time spent per collection: it is not measured.",
    top,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::Top));

pub(super) const VALIDATE_DB_METADATA: Command = Command::ready(
    "validateDBMetadata",
    Access::Admin,
    "Looks for collections and indexes outside the stable API: there are none.",
    validate_db_metadata,
)
.with(Flags::SECONDARY)
.needs(Needs::Database(Action::Validate));

fn get_default_rw_concern(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    for arg in call.args().skip(1) {
        match arg.name() {
            "inMemory" => {
                arg.bool()?;
            }
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
    Ok(Outcome::Reply)
}

fn profile(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut level = None;
    for arg in call.args() {
        match arg.name() {
            "profile" => level = profile_level(arg)?,
            "slowms" => {
                arg.int()?;
            }
            "sampleRate" => {
                if let Some(rate) = super::args::to_f64(arg.value())
                    && !(0.0..=1.0).contains(&rate)
                {
                    return Err(Error::bad_value(
                        "'sampleRate' must be between 0.0 and 1.0 inclusive",
                    ));
                }
            }
            "filter" => {}
            _ => return Err(arg.unknown()),
        }
    }
    if matches!(required(level, "profile", "profile")?, 1 | 2) {
        return Err(Error::not_implemented("the profiler"));
    }
    reply
        .put_i32("was", 0)
        .put_i32("slowms", 100)
        .put_f64("sampleRate", 1.0);
    Ok(Outcome::Reply)
}

fn profile_level(arg: Arg<'_>) -> Result<Option<i64>> {
    let value = arg.value();
    match value.as_num() {
        Some(number) => Ok(Some(number.to_i64_saturating())),
        None if value.is_nullish() => Ok(None),
        None => Err(arg.wrong_type(&[Type::Int64, Type::Int32, Type::Decimal, Type::Double])),
    }
}

fn top(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut totals = reply.doc("totals");
    totals.put_str("note", "all times in microseconds");
    for collection in call.context.catalog.collections() {
        let mut entry = totals.doc(collection.namespace().as_str());
        for event in [
            "total",
            "readLock",
            "writeLock",
            "queries",
            "getmore",
            "insert",
            "update",
            "remove",
            "commands",
        ] {
            let mut counts = entry.doc(event);
            counts.put_i64("time", 0).put_i64("count", 0);
            counts.end();
        }
        entry.end();
    }
    totals.end();
    Ok(Outcome::Reply)
}

fn validate_db_metadata(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut parameters = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "apiParameters" => parameters = arg.doc()?,
            "db" => {
                if let Some(name) = arg.str()? {
                    if name.is_empty() {
                        return Err(Error::location(28539, "db name must not be empty"));
                    }
                    super::check_database(name)?;
                }
            }
            "collection" => {
                if let Some(name) = arg.str()? {
                    check_collection(call.database(), name)?;
                }
            }
            _ => return Err(arg.unknown()),
        }
    }
    let parameters = required(parameters, "validateDBMetadata", "apiParameters")?;
    let path = "validateDBMetadata.apiParameters";
    let mut version = None;
    for field in fields(path, parameters) {
        match field.name() {
            "version" => version = field.str()?,
            "strict" | "deprecationErrors" => {
                field.bool()?;
            }
            _ => return Err(field.unknown()),
        }
    }
    required(version, path, "version")?;
    reply.array("apiVersionErrors").end();
    Ok(Outcome::Reply)
}
