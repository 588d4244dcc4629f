//! The specification of an index.

use std::sync::Arc;

use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, DocBuilder, Elem, Path, ValueRef, key};

/// The name of the index on `_id`, which every collection has. It is a hash map. An ordered index of that name is added the
/// first time that a query needs an order or a range of `_id`s.
pub const ID_INDEX: &str = "_id_";

/// The specification of an index: its key and its options. The key may name `_ts`, which the server keeps and documents do
/// not contain.
#[derive(Clone)]
pub struct IndexSpec {
    pub name: String,
    /// The key as the client wrote it: `{a: 1, b: -1}`.
    pub key: DocBuf,
    /// The paths of the key. For each, `descending` tells whether it is descending.
    pub paths: Vec<Path>,
    pub descending: Vec<bool>,
    pub unique: bool,
    /// New duplicates are refused and existing ones stay: the first step of making an index unique.
    pub prepare_unique: bool,
    pub sparse: bool,
    pub hidden: bool,
    /// `expireAfterSeconds` of a TTL index on dates.
    pub expire_after: Option<i32>,
    pub partial: Option<Partial>,
    /// Other options, which are only stored and shown.
    pub shown: DocBuf,
}

/// The filter of a partial index: as the client wrote it, and compiled.
#[derive(Clone)]
pub struct Partial {
    pub filter: DocBuf,
    pub condition: Arc<dyn PartialCondition>,
}

/// A predicate on documents that the owner of the query language implements. Storage only calls it.
pub trait PartialCondition: Send + Sync {
    fn holds(&self, doc: Doc<'_>) -> bool;
    /// Returns the concrete predicate, for the planner.
    fn as_any(&self) -> &dyn std::any::Any;
}

// === impl IndexSpec ===

impl IndexSpec {
    /// Returns whether the index contains such a document. A partial index contains those that match its filter.
    pub fn covers(&self, doc: Doc<'_>) -> bool {
        self.partial
            .as_ref()
            .is_none_or(|partial| partial.condition.holds(doc))
    }

    /// Creates a plain index on that key, whose values are numbers. A negative number means descending.
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

    /// Returns whether keys depend on the time of the last write.
    pub fn names_ts(&self) -> bool {
        self.paths.iter().any(|path| path.first() == TS_FIELD)
    }

    /// Returns whether its keys may change when these root fields are written (and `_ts` with them).
    pub fn depends_on(&self, writes: impl Fn(&str) -> bool) -> bool {
        let read = |path: &Path| path.first() == TS_FIELD || writes(path.first());
        self.partial.is_some() || self.paths.iter().any(read)
    }

    /// Appends the bytes of the key with these values.
    #[inline]
    pub fn encode(&self, values: &[ValueRef<'_>], out: &mut Vec<u8>) {
        for (&value, &descending) in values.iter().zip(&self.descending) {
            key::encode(value, descending, out);
        }
    }

    /// Writes the specification as listIndexes shows it, with the fields in mongod's order.
    pub fn describe(&self, out: &mut DocBuilder<'_>) {
        let shown = self.shown.as_doc();
        out.put_i32("v", shown.get("v").as_i32().unwrap_or(2))
            .put_doc("key", self.key.as_doc())
            .put_str("name", &self.name);
        let is_early = |elem: &Elem<'_>| elem.name() == "background";
        for elem in shown.iter().filter(is_early) {
            out.put(elem.name(), elem.value);
        }
        put_set("unique", self.unique, out);
        put_set("hidden", self.hidden, out);
        if let Some(partial) = &self.partial {
            out.put_doc("partialFilterExpression", partial.filter.as_doc());
        }
        put_set("sparse", self.sparse, out);
        if let Some(seconds) = self.expire_after {
            out.put_i32("expireAfterSeconds", seconds);
        }
        for elem in shown.iter() {
            if elem.name() != "v" && !is_early(&elem) {
                out.put(elem.name(), elem.value);
            }
        }
        put_set("prepareUnique", self.prepare_unique, out);
    }
}

fn put_set(name: &str, is_set: bool, out: &mut DocBuilder<'_>) {
    if is_set {
        out.put_bool(name, true);
    }
}

impl std::fmt::Debug for IndexSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?}", self.name, self.key)
    }
}
