//! The section `upstream` of serverStatus.

use std::sync::atomic::Ordering;

use bson::{Bson, Document, doc};
use bytes::Bytes;

use super::cluster::ClusterState;
use super::relay::RelayCounters;
use super::settings::SettingsStatus;
use crate::value::{Doc, DocBuf};

/// Describes the connection to the cluster.
pub fn section(
    state: &ClusterState,
    counters: &RelayCounters,
    settings: &SettingsStatus,
) -> Document {
    let node = state.node.as_ref().map(|node| node.address.to_string());
    let figure = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as i64;
    doc! {
        "state": if node.is_some() { "connected" } else { "noPrimary" },
        "node": node,
        "roundTripMicros": settings.round_trip.as_micros() as i64,
        "connections": {
            "current": counters.open.load(Ordering::Relaxed) as i64,
            "totalCreated": figure(&counters.opened),
        },
        "commands": {
            "forwarded": figure(&counters.forwarded),
            "repeated": figure(&counters.repeated),
            "rewritten": figure(&counters.rewritten),
        },
        "updatesWithoutPredicate": {
            "sent": settings.unfiltered as i64,
            "repeated": settings.unfiltered_failed as i64,
        },
        "clock": {
            "offsetMillis": settings.clock_offset,
            "errorMicros": settings.clock_error.as_micros() as i64,
        },
        "settings": {
            "usable": settings.has_lease,
            "collections": settings.collections as i64,
            "otherSundowns": settings.others as i64,
        },
        "sweeper": {
            "active": settings.is_sweeper,
            "passes": settings.passes as i64,
            "deletedDocuments": settings.swept as i64,
            "stampedDocuments": settings.stamped as i64,
        },
    }
}

/// Adds what the sweeper has done to what the cluster's TTL monitor has done. How many ended documents are not deleted yet is
/// not shown: to count them, every document would have to be examined.
pub fn with_deleted(reply: &Bytes, settings: &SettingsStatus) -> Bytes {
    let Ok(mut status) = Document::from_reader(&reply[..]) else {
        return reply.clone();
    };
    let Ok(metrics) = status.get_document_mut("metrics") else {
        return reply.clone();
    };
    let known = metrics.get_document("ttl").cloned().unwrap_or_default();
    let sum = |name: &str, own: u64| {
        let cluster = match known.get(name) {
            Some(Bson::Int32(n)) => i64::from(*n),
            Some(Bson::Int64(n)) => *n,
            _ => 0,
        };
        cluster.saturating_add(own.cast_signed())
    };
    let ttl = doc! {
        "deletedDocuments": sum("deletedDocuments", settings.swept),
        "passes": sum("passes", settings.passes),
    };
    metrics.insert("ttl", ttl);
    Bytes::from(DocBuf::from(&status).into_bytes())
}

/// Adds the section to the cluster's reply, in front of `ok`.
pub fn with_section(reply: Doc<'_>, section: &Document) -> Bytes {
    let section = DocBuf::from(section);
    let mut pending = Some(section.as_doc());
    let whole = DocBuf::build(|whole| {
        for elem in reply {
            if elem.name() == "ok"
                && elem.value.as_f64() == Some(1.0)
                && let Some(section) = pending.take()
            {
                whole.put_doc("upstream", section);
            }
            whole.put(elem.name(), elem.value);
        }
    });
    whole.into_bytes().into()
}
