//! What an index is on.

use std::sync::Arc;

use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, DocBuilder, Path, ValueRef, key};

/// The name of the index on `_id`, which every collection has. It is a hash map; an ordered index of that name is added
/// the first time that somebody asks for an order or a range of `_id`s.
pub const ID_INDEX: &str = "_id_";

/// The field that the server keeps: an index may name it, though documents do not carry it.

#[derive(Clone)]
pub struct IndexSpec {
    pub name: String,
    /// The key as the client wrote it: `{a: 1, b: -1}`.
    pub key: DocBuf,
    /// The paths of the key, and for each whether it is descending.
    pub paths: Vec<Path>,
    pub descending: Vec<bool>,
    pub unique: bool,
    /// New duplicates are refused, those that are there stay: on the way to being unique.
    pub prepare_unique: bool,
    pub sparse: bool,
    pub hidden: bool,
    /// A TTL index on dates.
    pub expire_after: Option<i32>,
    pub partial: Option<Partial>,
    /// Other options that are only kept to be shown.
    pub shown: DocBuf,
}

/// A partial index's filter: as the client wrote it, and ready to be asked.
#[derive(Clone)]
pub struct Partial {
    pub filter: DocBuf,
    pub condition: Arc<dyn Condition>,
}

/// A question about a document that storage hands to whoever knows the query language.
pub trait Condition: Send + Sync {
    fn holds(&self, doc: Doc<'_>) -> bool;
    /// What it really is, for the planner.
    fn as_any(&self) -> &dyn std::any::Any;
}

// === impl IndexSpec ===

impl IndexSpec {
    /// Whether the index holds such a document at all; a partial one holds those that its filter lets in.
    pub fn covers(&self, doc: Doc<'_>) -> bool {
        self.partial
            .as_ref()
            .is_none_or(|partial| partial.condition.holds(doc))
    }

    /// A plain index on that key, whose values are numbers: a negative one means descending.
    pub fn new(name: &str, key: DocBuf) -> Self {
        let fields = || key.as_doc().iter();
        Self {
            name: name.to_owned(),
            paths: fields().map(|elem| Path::parse(elem.name())).collect(),
            descending: fields()
                .map(|elem| elem.value.as_num().is_some_and(|n| n.is_negative()))
                .collect(),
            key,
            unique: false,
            prepare_unique: false,
            sparse: false,
            hidden: false,
            expire_after: None,
            partial: None,
            shown: DocBuf::new(),
        }
    }

    /// Whether keys depend on the time of the last write.
    pub fn names_ts(&self) -> bool {
        self.paths.iter().any(|path| path.first() == TS_FIELD)
    }

    /// Whether its keys may change when those root fields are written to (and the time of the last write with them).
    pub fn depends_on(&self, writes: impl Fn(&str) -> bool) -> bool {
        let read = |path: &Path| path.first() == TS_FIELD || writes(path.first());
        self.partial.is_some() || self.paths.iter().any(read)
    }

    /// Appends the bytes of a key with these values.
    #[inline]
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) {
        for (&value, &descending) in values.iter().zip(&self.descending) {
            key::encode(value, descending, out);
        }
    }

    /// As listIndexes shows it.
    pub fn describe(&self, out: &mut DocBuilder<'_>) {
        out.put_i32("v", 2)
            .put_doc("key", self.key.as_doc())
            .put_str("name", &self.name);
        for (name, set) in [
            ("unique", self.unique),
            ("prepareUnique", self.prepare_unique),
            ("sparse", self.sparse),
            ("hidden", self.hidden),
        ] {
            if set {
                out.put_bool(name, true);
            }
        }
        if let Some(partial) = &self.partial {
            out.put_doc("partialFilterExpression", partial.filter.as_doc());
        }
        if let Some(seconds) = self.expire_after {
            out.put_i32("expireAfterSeconds", seconds);
        }
        out.put_body(self.shown.as_doc().body());
    }
}

impl std::fmt::Debug for IndexSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.name, self.key)
    }
}
