//! `collStats` and `dbStats`: statistics of collections and databases, exact at the `now` of the command.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::Arg;
use crate::auth::Action;
use crate::engine::stats::StorageStats;
use crate::error::{Error, Result};
use crate::value::DocBuilder;

pub(super) const COMMAND: Command = Command::ready(
    "collStats",
    Access::Read,
    "Shows statistics of a collection.",
    run,
)
.alias(&["collstats"])
.with(Flags::SECONDARY)
.needs(Needs::Collection(Action::CollStats));

pub(super) const DATABASE: Command = Command::ready(
    "dbStats",
    Access::Read,
    "Shows statistics of a database.",
    run_database,
)
.alias(&["dbstats"])
.with(Flags::SECONDARY)
.needs(Needs::Database(Action::DbStats));

/// Reads the number by which sizes are divided.
fn scale(arg: Arg<'_>) -> Result<f64> {
    let scale = arg.int()?.unwrap_or(1);
    if scale < 1 {
        return Err(Error::bad_value(format!(
            "BSON field 'scale' value must be >= 1, actual value '{scale}'"
        )));
    }
    Ok(scale as f64)
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let name = call.collection()?;
    let mut factor = 1.0;
    for arg in call.args().skip(1) {
        match arg.name() {
            "scale" => factor = scale(arg)?,
            "verbose" | "waitForLock" | "numericOnly" => {}
            _ => return Err(arg.unknown()),
        }
    }
    let figures = match call.context.catalog.get(call.database(), name)? {
        Some(collection) => StorageStats::of(&collection, call.read_point()),
        None => StorageStats::default(),
    };
    reply.put_str("ns", &call.namespace(name));
    figures.put(reply, factor);
    Ok(Outcome::Reply)
}

fn run_database(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut factor = 1.0;
    let mut free = false;
    for arg in call.args().skip(1) {
        match arg.name() {
            "scale" => factor = scale(arg)?,
            "freeStorage" => free = arg.bool()?.unwrap_or(false),
            _ => return Err(arg.unknown()),
        }
    }
    let mut sum = StorageStats::default();
    let collections = call.context.catalog.in_database(call.database());
    for collection in &collections {
        let figures = StorageStats::of(collection, call.read_point());
        sum.documents.count += figures.documents.count;
        sum.documents.bytes += figures.documents.bytes;
        sum.indexes.extend(figures.indexes);
    }
    let count = sum.documents.count;
    let bytes = sum.documents.bytes as f64;
    let index_bytes = sum.index_bytes() as f64;
    let average = if count == 0 {
        0.0
    } else {
        bytes / count as f64
    };
    reply
        .put_str("db", call.database())
        .put_i64(
            "collections",
            i64::try_from(collections.len()).unwrap_or(i64::MAX),
        )
        .put_i64("views", 0)
        .put_i64("objects", count.cast_signed())
        .put_f64("avgObjSize", average)
        .put_f64("dataSize", bytes / factor)
        .put_f64("storageSize", bytes / factor);
    if free {
        reply.put_f64("freeStorageSize", 0.0);
    }
    reply
        .put_i64(
            "indexes",
            i64::try_from(sum.indexes.len()).unwrap_or(i64::MAX),
        )
        .put_f64("indexSize", index_bytes / factor);
    if free {
        reply
            .put_f64("indexFreeStorageSize", 0.0)
            .put_f64("totalFreeStorageSize", 0.0);
    }
    let memory = super::system::total_memory_mb() as f64 * 1024.0 * 1024.0;
    let used = super::system::memory_mb().0 as f64 * 1024.0 * 1024.0;
    reply
        .put_f64("totalSize", (bytes + index_bytes) / factor)
        .put_i64("scaleFactor", factor as i64)
        .put_f64("fsUsedSize", used / factor)
        .put_f64("fsTotalSize", memory / factor);
    Ok(Outcome::Reply)
}
