//! Logical time on the wire: `$clusterTime`, which clients and servers exchange, and `operationTime`.
//!
//! A driver sends back the latest cluster time that any reply has told it, so that all servers that it speaks to agree on
//! what happened before. A standalone server has no logical time. A server in front of a cluster leaves it to the cluster.

use super::Context;
use crate::config::Topology;
use crate::engine::Catalog;
use crate::error::{Code, Error, Result};
use crate::value::{ClusterTime, Millis, Type, ValueRef};

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

/// The last fields of a reply: `$clusterTime`, with the signature of a server without keys, and `operationTime`. Each reply
/// gets a copy of these bytes, with its time in the two gaps.
///
/// ```text
/// 03 $clusterTime { 11 clusterTime (time), 03 signature { 05 hash (20 zeros), 12 keyId 0 } }, 11 operationTime (time)
/// ```
const TIME_FIELDS: [u8; 125] = *b"\x03$clusterTime\0\x58\0\0\0\
    \x11clusterTime\0\0\0\0\0\0\0\0\0\
    \x03signature\0\x33\0\0\0\
    \x05hash\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
    \x12keyId\0\0\0\0\0\0\0\0\0\
    \0\0\
    \x11operationTime\0\0\0\0\0\0\0\0\0";
/// The offsets of the two timestamps.
const GAPS: [usize; 2] = [31, TIME_FIELDS.len() - 8];

/// Returns whether the replies of the server have a logical time.
pub(super) fn is_told(topology: &Topology, has_upstream: bool) -> bool {
    *topology != Topology::Standalone && !has_upstream
}

/// Appends the logical time to the reply that begins at `start`.
#[inline]
fn put_fields(out: &mut Vec<u8>, start: usize, time: ClusterTime) {
    let mut fields = TIME_FIELDS;
    for gap in GAPS {
        fields[gap..gap + 8].copy_from_slice(&time.0.to_le_bytes());
    }
    out.pop(); // the end of the document
    out.extend_from_slice(&fields);
    out.push(0);
    let len = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

// === impl Context ===

impl Context {
    /// Appends the logical time to the reply that begins at `start`.
    #[inline]
    pub(in crate::command) fn put_time(&self, out: &mut Vec<u8>, start: usize) {
        if self.tells_time {
            put_fields(out, start, self.catalog.time().latest());
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
    use crate::value::DocBuf;

    #[test]
    fn the_time_comes_last_in_mongods_order() {
        let mut out = vec![7, 7, 7];
        out.extend(doc! {"n": 1, "ok": 1.0}.to_vec().unwrap());
        put_fields(&mut out, 3, ClusterTime::from_parts(5, 9));
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
        assert!(is_told(&Topology::Router, false));
        assert!(!is_told(&Topology::Standalone, false));
        assert!(!is_told(&Topology::Router, true));
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
