//! Logical time on the wire: `$clusterTime`, which clients and servers exchange, and `operationTime`.
//!
//! A driver sends back the latest cluster time that any reply has told it, so that all servers that it speaks to agree on
//! what happened before. A standalone server has no logical time. A server in front of a cluster leaves it to the cluster.

use super::Context;
use crate::config::Topology;
use crate::engine::Catalog;
use crate::error::{Code, Error, Result};
use crate::value::{ClusterTime, DocBuf, Millis, Type, Value, ValueRef};

/// How far a client may move logical time forward: a year, as in MongoDB. Time stays usable whatever clients send.
const MAX_DRIFT_SECONDS: u32 = 365 * 24 * 60 * 60;

/// Reads `$clusterTime`.
pub(super) fn parse(value: ValueRef<'_>) -> Result<Option<ClusterTime>> {
    let Some(doc) = value.as_doc() else {
        return Ok(None);
    };
    let missing = |name| {
        let message = format!("Missing expected field \"{name}\"");
        Err(Error::new(Code::NoSuchKey, message))
    };
    let time = doc.get("clusterTime");
    if time.is_missing() {
        return missing("clusterTime");
    }
    let Some((seconds, increment)) = time.as_timestamp() else {
        let found = time.ty().alias();
        return Err(Error::type_mismatch(format!(
            "\"clusterTime\" had the wrong type. Expected {}, found {found}",
            Type::Timestamp.alias()
        )));
    };
    if doc.get("signature").is_missing() {
        return missing("signature");
    }
    Ok(Some(ClusterTime::from_parts(seconds, increment)))
}

/// Moves the logical clock forward to a time that a client has brought.
pub(super) fn advance(catalog: &Catalog, to: ClusterTime, now: Millis) -> Result<()> {
    let clock = catalog.time();
    let latest = clock.latest();
    if to <= latest {
        return Ok(());
    }
    // The clock of the server may have been set back, so its own times count too.
    let (wall, _) = ClusterTime::first_of(now).max(latest).parts();
    let (seconds, _) = to.parts();
    if seconds > wall.saturating_add(MAX_DRIFT_SECONDS) {
        return Err(Error::new(
            Code::ClusterTimeFailsRateLimiter,
            format!(
                "New $clusterTime, {seconds}, is too far from this node's wall clock time, {wall}."
            ),
        ));
    }
    clock.advance_to(to);
    Ok(())
}

/// The last fields of a reply. Built once: each reply gets a copy, with its time in the two gaps.
pub(super) struct TimeFields {
    elements: Vec<u8>,
    /// The offsets of the two timestamps.
    gaps: [usize; 2],
}

// === impl TimeFields ===

impl TimeFields {
    /// Returns `None` for a server whose replies have no logical time.
    pub fn of(topology: &Topology, has_upstream: bool) -> Option<Self> {
        if *topology == Topology::Standalone || has_upstream {
            return None;
        }
        let gap = Value::timestamp(0, 0);
        let fields = DocBuf::build(|d| {
            let mut time = d.doc("$clusterTime");
            time.put("clusterTime", gap.as_ref());
            let mut signature = time.doc("signature");
            signature
                .put("hash", Value::binary(0, &[0; 20]).as_ref())
                .put_i64("keyId", 0);
            signature.end();
            time.end();
            d.put("operationTime", gap.as_ref());
        });
        let elements = fields.as_doc().body().to_vec();
        let cluster_time = b"\x11clusterTime\0";
        let first = elements
            .windows(cluster_time.len())
            .position(|part| part == cluster_time)
            .map_or(0, |at| at + cluster_time.len());
        let gaps = [first, elements.len() - size_of::<u64>()];
        Some(Self { elements, gaps })
    }

    /// Appends the fields to the reply that begins at `start`.
    fn put(&self, out: &mut Vec<u8>, start: usize, time: ClusterTime) {
        out.pop(); // the end of the document
        let at = out.len();
        out.extend_from_slice(&self.elements);
        for gap in self.gaps {
            let gap = at + gap;
            out[gap..gap + size_of::<u64>()].copy_from_slice(&time.0.to_le_bytes());
        }
        out.push(0);
        let len = (out.len() - start) as u32;
        out[start..start + size_of::<u32>()].copy_from_slice(&len.to_le_bytes());
    }
}

// === impl Context ===

impl Context {
    /// Appends the logical time to the reply that begins at `start`.
    #[inline]
    pub(in crate::command) fn put_time(&self, out: &mut Vec<u8>, start: usize) {
        if let Some(fields) = &self.time_fields {
            fields.put(out, start, self.catalog.time().latest());
        }
    }
}

/// Returns the reply without its logical time, which differs from run to run.
#[cfg(test)]
pub(in crate::command) fn without_time(reply: &[u8]) -> bson::Document {
    let mut reply = bson::Document::from_reader(reply).unwrap();
    for name in ["$clusterTime", "operationTime"] {
        reply.remove(name);
    }
    reply
}

#[cfg(test)]
mod tests {
    use bson::{Timestamp, doc};

    use super::*;

    #[test]
    fn the_time_comes_last_in_mongods_order() {
        let fields = TimeFields::of(&Topology::Router, false).unwrap();
        let mut out = vec![7, 7, 7];
        out.extend(doc! {"n": 1, "ok": 1.0}.to_vec().unwrap());
        fields.put(&mut out, 3, ClusterTime::from_parts(5, 9));
        let time = Timestamp {
            time: 5,
            increment: 9,
        };
        let hash = bson::Binary {
            subtype: bson::spec::BinarySubtype::Generic,
            bytes: vec![0; 20],
        };
        let expected = doc! {
            "n": 1, "ok": 1.0,
            "$clusterTime": {"clusterTime": time, "signature": {"hash": hash, "keyId": 0_i64}},
            "operationTime": time,
        };
        assert_eq!(out[3..], expected.to_vec().unwrap());
        assert!(TimeFields::of(&Topology::Standalone, false).is_none());
        assert!(TimeFields::of(&Topology::Router, true).is_none());
    }

    #[test]
    fn a_client_moves_logical_time_forward_but_not_far() {
        let catalog = Catalog::new();
        let now = Millis(1_000_000);
        let at = |seconds| ClusterTime::from_parts(seconds, 1);
        for (seconds, expected) in [
            (1_500, Ok(1_500)),
            (1_200, Ok(1_500)),
            (1_500 + MAX_DRIFT_SECONDS, Ok(1_500 + MAX_DRIFT_SECONDS)),
            (u32::MAX, Err(Code::ClusterTimeFailsRateLimiter)),
        ] {
            let advanced = advance(&catalog, at(seconds), now);
            let latest = advanced.map(|()| catalog.time().latest().parts().0);
            assert_eq!(latest.map_err(|error| error.code()), expected, "{seconds}");
        }
    }

    #[test]
    fn a_wrong_cluster_time_has_the_errors_of_mongod() {
        let time = Timestamp {
            time: 5,
            increment: 1,
        };
        for (sent, expected) in [
            (
                doc! {"clusterTime": time, "signature": {}},
                Ok(Some(ClusterTime::from_parts(5, 1))),
            ),
            (doc! {}, Err(Code::NoSuchKey)),
            (doc! {"clusterTime": time}, Err(Code::NoSuchKey)),
            (doc! {"clusterTime": 5}, Err(Code::TypeMismatch)),
        ] {
            let doc = DocBuf::from(sent.clone());
            let parsed = parse(ValueRef::document(doc.as_doc()));
            assert_eq!(parsed.map_err(|error| error.code()), expected, "{sent}");
        }
    }
}
