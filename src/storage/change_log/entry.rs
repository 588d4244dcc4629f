//! One entry of the log: what was changed, where and when.

use std::sync::Arc;

use uuid::Uuid;

use crate::storage::{CollectionOptions, Namespace};
use crate::ttl::DefaultTtl;
use crate::value::{ClusterTime, Doc, DocBuf, Millis};

/// A change, as the log keeps it.
#[derive(Debug)]
pub struct LogEntry {
    pub time: ClusterTime,
    /// The position among the entries of the same time. Only the changes of one transaction share their time.
    pub index: u32,
    pub wall: Millis,
    pub subject: Arc<LogSubject>,
    pub op: LogOp,
    /// The transaction that made the change with others: those of the same time.
    pub transaction: Option<Arc<LogTransaction>>,
}

/// A committed transaction, as its client has numbered it.
#[derive(Debug, PartialEq, Eq)]
pub struct LogTransaction {
    /// `{id, uid}`.
    pub lsid: DocBuf,
    pub number: i64,
}

/// What an entry is about: a collection, or a whole database.
#[derive(Debug, PartialEq, Eq)]
pub struct LogSubject {
    /// For a database, a name without a collection.
    pub namespace: Namespace,
    pub uuid: Option<Uuid>,
}

/// A logged change.
#[derive(Debug)]
pub enum LogOp {
    Insert {
        document: DocBuf,
    },
    /// An update that tells which fields it changed.
    Update {
        /// The `_id`, as `{_id: ...}`.
        key: DocBuf,
        /// The changed fields, in the format of MongoDB's log.
        delta: DocBuf,
        images: Images,
    },
    /// An update that tells only the new document.
    Replace {
        document: DocBuf,
        images: Images,
    },
    Delete {
        key: DocBuf,
        images: Images,
    },
    /// The collection was created.
    Create {
        options: Box<CollectionOptions>,
        default: DefaultTtl,
    },
    Drop {
        /// How many documents it had.
        documents: u64,
    },
    /// The collection got another name, and may have replaced another collection.
    Rename {
        to: Namespace,
        replaced: Option<Uuid>,
    },
    DropDatabase,
    /// Indexes, as listIndexes shows them.
    CreateIndexes {
        indexes: Vec<DocBuf>,
    },
    DropIndexes {
        index: DocBuf,
    },
    /// The settings that a client has changed, and those from before.
    Modify {
        change: DocBuf,
        before: DocBuf,
    },
}

/// The whole document before and after a change, if its collection keeps them (`changeStreamPreAndPostImages`).
#[derive(Debug, Default)]
pub struct Images {
    pub before: Option<DocBuf>,
    pub after: Option<DocBuf>,
}

/// Tells which fields an update changes.
pub trait UpdateDelta {
    /// Returns the changed fields in the format of MongoDB's log, or `None` if the update replaces the whole document.
    fn delta(&self, before: Doc<'_>, after: Doc<'_>) -> Option<DocBuf>;
}

/// An update that tells only the new document. Tests and benchmarks that do not look at the log use it.
pub struct NoDelta;

impl UpdateDelta for NoDelta {
    fn delta(&self, _: Doc<'_>, _: Doc<'_>) -> Option<DocBuf> {
        None
    }
}

// === impl LogSubject ===

impl LogSubject {
    pub fn database(name: &str) -> Arc<Self> {
        Arc::new(Self {
            namespace: Namespace::new(name, ""),
            uuid: None,
        })
    }

    /// Returns whether changes are told at all. As in MongoDB, the database `local` is the server's own affair.
    pub(in crate::storage) fn is_told(&self) -> bool {
        self.namespace.database() != "local"
    }

    pub fn collection(namespace: Namespace, uuid: Uuid) -> Arc<Self> {
        Arc::new(Self {
            namespace,
            uuid: Some(uuid),
        })
    }
}

// === impl LogEntry ===

impl LogEntry {
    /// Returns an estimate of the memory that the entry takes.
    pub fn weight(&self) -> usize {
        /// The allocations themselves, and the place in the log.
        const OVERHEAD: usize = 64;
        size_of::<Self>() + OVERHEAD + self.op.weight()
    }
}

// === impl LogOp ===

impl LogOp {
    /// Returns the bytes of the documents and names in it.
    pub fn weight(&self) -> usize {
        match self {
            Self::Insert { document } => document.bytes().len(),
            Self::Update { key, delta, images } => {
                key.bytes().len() + delta.bytes().len() + images.weight()
            }
            Self::Replace { document, images } => document.bytes().len() + images.weight(),
            Self::Delete { key, images } => key.bytes().len() + images.weight(),
            Self::Create { options, .. } => {
                size_of::<CollectionOptions>() + options.shown.bytes().len()
            }
            Self::Rename { to, .. } => to.as_str().len(),
            Self::CreateIndexes { indexes } => {
                indexes.iter().map(|index| index.bytes().len()).sum()
            }
            Self::DropIndexes { index } => index.bytes().len(),
            Self::Modify { change, before } => change.bytes().len() + before.bytes().len(),
            Self::Drop { .. } | Self::DropDatabase => 0,
        }
    }
}

// === impl Images ===

impl Images {
    fn weight(&self) -> usize {
        let images = [&self.before, &self.after];
        let weights = images
            .into_iter()
            .flatten()
            .map(|image| image.bytes().len());
        weights.sum()
    }
}
