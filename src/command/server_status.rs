//! `serverStatus`: shows statistics of the server.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Access, Call, Command, Context, Flags, Needs, Outcome, build_info, system};
use crate::auth::Action;
use crate::clock::monotonic;
use crate::config::Topology;
use crate::error::Result;
use crate::value::{DocBuilder, Millis, ValueRef, is_true};
use crate::wire::Compressors;

pub(super) const COMMAND: Command = Command::ready(
    "serverStatus",
    Access::None,
    "Shows server statistics.",
    run,
)
.with(Flags::SECONDARY)
.needs(Needs::Server(Action::ServerStatus));

/// Writes a section. The second argument is what the client wrote for it, such as `{histograms: true}`.
type Section = fn(&Context, ValueRef<'_>, &mut DocBuilder<'_>);

/// The sections, sorted. A client excludes one with `{metrics: 0}`. `mirroredReads` is shown only on request.
const SECTIONS: &[(&str, Section)] = &[
    ("asserts", asserts),
    ("catalogStats", catalog),
    ("connections", connections),
    ("extra_info", extra_info),
    ("globalLock", global_lock),
    ("locks", |_, _, _| {}),
    ("logicalSessionRecordCache", sessions),
    ("mem", memory),
    ("metrics", metrics),
    ("mirroredReads", mirrored_reads),
    ("network", network),
    ("opLatencies", latencies),
    ("opcounters", operations),
    ("opcountersRepl", operations_from_elsewhere),
    ("repl", replica_set),
    ("storageEngine", storage_engine),
    ("transactions", transactions),
    ("transportSecurity", transport_security),
];

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    let context = &**call.context;
    put_head(context, call.now, reply);
    for (name, write) in SECTIONS {
        let arg = call.arg(name).map(|arg| arg.value());
        let wanted = arg.map_or(*name != "mirroredReads", is_true);
        let asked = arg.unwrap_or(ValueRef::MISSING);
        let applies =
            *name != "repl" || matches!(context.config.topology, Topology::ReplicaSet { .. });
        if wanted && applies {
            let mut section = reply.doc(name);
            write(context, asked, &mut section);
            section.end();
        }
    }
    Ok(Outcome::Reply)
}

fn put_head(context: &Context, now: Millis, reply: &mut DocBuilder<'_>) {
    let up = monotonic().saturating_duration_since(context.started);
    let process = match context.config.topology {
        Topology::Router => "mongos",
        _ => "mongod",
    };
    reply
        .put_str("host", &context.machine())
        .put_str("version", build_info::VERSION)
        .put_str("process", process);
    reply.array("service").push_str(process);
    reply
        .put_i64("pid", i64::from(std::process::id()))
        .put_f64("uptime", up.as_secs() as f64)
        .put_i64(
            "uptimeMillis",
            i64::try_from(up.as_millis()).unwrap_or(i64::MAX),
        )
        .put_i64(
            "uptimeEstimate",
            i64::try_from(up.as_secs()).unwrap_or(i64::MAX),
        )
        .put_date("localTime", now.0);
}

fn asserts(_: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    for name in ["regular", "warning", "msg", "user", "tripwire", "rollovers"] {
        out.put_i32(name, 0);
    }
}

fn catalog(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let collections = context.catalog.collections().len();
    out.put_i32(
        "collections",
        i32::try_from(collections).unwrap_or(i32::MAX),
    );
    for name in [
        "capped",
        "clustered",
        "timeseries",
        "views",
        "internalCollections",
        "internalViews",
    ] {
        out.put_i32(name, 0);
    }
}

fn connections(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let current = context.clients.len();
    let number = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    let gauge = |gauge: &AtomicUsize| number(gauge.load(Ordering::Relaxed));
    let monitors = &context.monitors;
    out.put_i32("current", number(current))
        .put_i32(
            "available",
            number(context.config.max_connections.saturating_sub(current)),
        )
        .put_i32("totalCreated", gauge(&context.connections.opened))
        .put_i32("rejected", gauge(&context.connections.rejected))
        .put_i32("active", 1)
        .put_i32("threaded", number(current))
        .put_i32("exhaustIsMaster", gauge(&monitors.streaming_legacy))
        .put_i32("exhaustHello", gauge(&monitors.streaming))
        .put_i32("awaitingTopologyChanges", gauge(&monitors.awaiting));
}

fn extra_info(_: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    out.put_str("note", "fields vary by platform");
}

fn global_lock(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let up = monotonic().saturating_duration_since(context.started);
    out.put_i64(
        "totalTime",
        i64::try_from(up.as_micros()).unwrap_or(i64::MAX),
    );
    for name in ["currentQueue", "activeClients"] {
        let mut queue = out.doc(name);
        queue
            .put_i32("total", 0)
            .put_i32("readers", 0)
            .put_i32("writers", 0);
        queue.end();
    }
}

fn sessions(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    out.put_i32(
        "activeSessionsCount",
        i32::try_from(context.sessions.len()).unwrap_or(i32::MAX),
    );
}

fn memory(_: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let (resident, size) = system::memory_mb();
    let number = |n: i64| i32::try_from(n).unwrap_or(i32::MAX);
    out.put_i32("bits", usize::BITS as i32)
        .put_i32("resident", number(resident))
        .put_i32("virtual", number(size))
        .put_bool("supported", true);
}

fn metrics(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let transactions = context.sessions.transactions();
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed) as i64;
    let mut expiry = out.doc("abortExpiredTransactions");
    expiry
        .put_i64("passes", count(&transactions.passes))
        .put_i64("successfulKills", count(&transactions.expired))
        // A transaction is never waited for.
        .put_i64("timedOutKills", 0);
    expiry.end();
    let mut commands = out.doc("commands");
    let unknown = context.counters.unknown_total();
    commands.put_i64("<UNKNOWN>", unknown.cast_signed());
    for (name, run, failed) in context.counters.commands() {
        if run > 0 {
            let mut entry = commands.doc(name);
            let forms = context.counters.update_forms(name);
            if let Some(forms) = forms {
                entry.put_i64("arrayFilters", forms.array_filters.cast_signed());
            }
            entry.put_i64("failed", failed.cast_signed());
            if let Some(forms) = forms {
                entry.put_i64("pipeline", forms.pipelines.cast_signed());
            }
            entry.put_i64("total", run.cast_signed());
            entry.end();
        }
    }
    commands.end();
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let (timed_out, opened) = context.cursors.totals();
    let mut cursor = out.doc("cursor");
    cursor
        .put_i64("timedOut", number(timed_out))
        .put_i64("totalOpened", number(opened));
    let mut open = cursor.doc("open");
    open.put_i64("noTimeout", number(context.cursors.no_timeout_count()))
        .put_i64("pinned", 0)
        .put_i64("total", number(context.cursors.len()));
    open.end();
    cursor.end();
    let conflicts = context.counters.conflicts().cast_signed();
    out.doc("operation").put_i64("writeConflicts", conflicts);
    let mut ttl = out.doc("ttl");
    put_ttl(context, &mut ttl);
    ttl.end();
}

/// Writes the statistics of the reaper.
fn put_ttl(context: &Context, out: &mut DocBuilder<'_>) {
    let stats = context.reaper.stats();
    out.put_i64("passes", stats.passes.cast_signed())
        .put_i64("deletedDocuments", stats.deleted.cast_signed())
        .put_i64("pendingDocuments", stats.pending.cast_signed())
        .put_i64("lagMillis", stats.lag_millis.cast_signed());
    let events = &context.catalog.shared().expiry_events;
    let delay = i64::try_from(events.longest_delay().as_millis()).unwrap_or(i64::MAX);
    let when = match events.is_instant() {
        true => "instant",
        false => "removal",
    };
    out.put_str("eventsAt", when)
        .put_i64("longestEventDelayMillis", delay);
}

fn mirrored_reads(_: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    out.put_i64("seen", 0).put_i64("sent", 0);
}

/// Writes the network traffic. `bytesIn` and `bytesOut` count messages before compression, the physical sizes after it.
fn network(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let counters = &context.counters;
    let requests: u64 = counters.commands().map(|(_, run, _)| run).sum();
    let physical = counters.traffic();
    let logical = |physical: u64, received: bool| {
        Compressors::ALL.iter().fold(physical, |sum, compressor| {
            let [large, small] = counters.compression(compressor, received);
            (sum + large).saturating_sub(small)
        })
    };
    out.put_i64("bytesIn", logical(physical.read, true).cast_signed())
        .put_i64("bytesOut", logical(physical.written, false).cast_signed())
        .put_i64("physicalBytesIn", physical.read.cast_signed())
        .put_i64("physicalBytesOut", physical.written.cast_signed())
        .put_i64("numSlowDNSOperations", 0)
        .put_i64("numSlowSSLOperations", 0)
        .put_i64("numRequests", requests.cast_signed());
    let mut compression = out.doc("compression");
    for compressor in context.config.compressors.iter() {
        let mut both = compression.doc(compressor.name());
        let [large, small] = counters.compression(compressor, false);
        put_sizes(&mut both, "compressor", large, small);
        let [large, small] = counters.compression(compressor, true);
        put_sizes(&mut both, "decompressor", small, large);
        both.end();
    }
    compression.end();
}

fn put_sizes(out: &mut DocBuilder<'_>, name: &str, received: u64, left: u64) {
    let mut sizes = out.doc(name);
    sizes
        .put_i64("bytesIn", received.cast_signed())
        .put_i64("bytesOut", left.cast_signed());
    sizes.end();
}

fn latencies(context: &Context, asked: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let asked = asked.as_doc();
    let with_buckets = asked.is_some_and(|options| is_true(options.get("histograms")));
    let transactions = context.sessions.transactions().latencies.lock().clone();
    context.usage().put_all(&transactions, with_buckets, out);
}

fn operations(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    for (name, n) in context.counters.operations() {
        out.put_i64(name, n.cast_signed());
    }
}

fn operations_from_elsewhere(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    for (name, _) in context.counters.operations() {
        out.put_i64(name, 0);
    }
}

fn replica_set(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let Topology::ReplicaSet { name, .. } = &context.config.topology else {
        return;
    };
    let host = context.host();
    let mut hosts = out.array("hosts");
    hosts.push_str(&host);
    hosts.end();
    out.put_str("setName", name)
        .put_i32("setVersion", 1)
        .put_bool("isWritablePrimary", true)
        .put_bool("secondary", false)
        .put_str("primary", &host)
        .put_str("me", &host);
}

fn storage_engine(_: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    out.put_str("name", "inMemory")
        .put_bool("supportsCommittedReads", true)
        .put_bool("persistent", false);
}

fn transactions(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let counts = context.sessions.transactions();
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed) as i64;
    let open = counts.open() as i64;
    let inactive = context.sessions.inactive_transactions().len() as i64;
    out.put_i64("currentActive", (open - inactive).max(0))
        .put_i64("currentInactive", inactive.min(open))
        .put_i64("currentOpen", open)
        .put_i64("totalAborted", count(&counts.aborted))
        .put_i64("totalCommitted", count(&counts.committed))
        .put_i64("totalStarted", count(&counts.started))
        // None is ever prepared: there is one node.
        .put_i64("totalPrepared", 0)
        .put_i64("totalPreparedThenCommitted", 0)
        .put_i64("totalPreparedThenAborted", 0)
        .put_i64("currentPrepared", 0)
        // Not in MongoDB: what the writes of open transactions take, and the versions that snapshots need.
        .put_i64("bufferedBytes", context.catalog.buffered_bytes() as i64)
        .put_i64("versionBytes", context.catalog.earlier_bytes() as i64);
}

/// Writes how many encrypted connections there have been since the start, by TLS version.
fn transport_security(context: &Context, _: ValueRef<'_>, out: &mut DocBuilder<'_>) {
    let count = |counter: &AtomicUsize| counter.load(Ordering::Relaxed) as i64;
    out.put_i64("1.0", 0)
        .put_i64("1.1", 0)
        .put_i64("1.2", count(&context.connections.tls_1_2))
        .put_i64("1.3", count(&context.connections.tls_1_3))
        .put_i64("unknown", 0);
}
