//! What commands know of a cluster that holds the documents.

use crate::config::Topology;

/// A cluster that holds the documents instead of the engine in memory.
pub trait AnnouncedCluster: Send + Sync {
    /// Returns what `hello` tells about the cluster, or `None` as long as the cluster was never seen. While it cannot be
    /// reached, this is what it was before.
    fn announced(&self) -> Option<Announced>;
}

/// What `hello` tells about the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    pub topology: Topology,
    pub min_wire_version: i32,
    pub max_wire_version: i32,
}

// === impl Announced ===

impl Announced {
    /// Less than the cluster takes, so that there is room for what the rules add to a message.
    pub const MAX_MESSAGE: usize = 40_000_000;
    pub const MAX_STATEMENTS: usize = 10_000;
}
