//! The section `upstream` of serverStatus.

use std::sync::atomic::Ordering;

use bson::{Document, doc};
use bytes::Bytes;

use super::cluster::ClusterState;
use super::relay::RelayCounters;
use crate::value::{Doc, DocBuf};

/// Describes the connection to the cluster.
pub fn section(state: &ClusterState, counters: &RelayCounters) -> Document {
    let node = state.node.as_ref().map(|node| node.address.to_string());
    let figure = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as i64;
    doc! {
        "state": if node.is_some() { "connected" } else { "noPrimary" },
        "node": node,
        "connections": {
            "current": counters.open.load(Ordering::Relaxed) as i64,
            "totalCreated": figure(&counters.opened),
        },
        "commands": {
            "forwarded": figure(&counters.forwarded),
            "repeated": figure(&counters.repeated),
            "rewritten": figure(&counters.rewritten),
        },
    }
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
