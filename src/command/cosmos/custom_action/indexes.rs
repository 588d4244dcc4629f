//! The indexes of an action: creates them, or replaces the existing ones with them.

use super::work::{UndoableCommand, client_command};
use crate::command::Call;
use crate::command::index_spec::{self, Unknown};
use crate::cosmos::strict;
use crate::engine::ddl::WantedIndex;
use crate::engine::describe::indexes_of;
use crate::error::{Error, Result};
use crate::handler::Work;
use crate::ttl::is_ts_key;
use crate::value::{Doc, DocBuf};

/// A plan that replaces the existing indexes with a list of new ones.
///
/// New indexes are created first, then the old ones are dropped. Indexes that have the name or the key of an old one cannot
/// be created beside it, so they come last. If an index cannot be created, the steps before it are undone.
#[derive(Default)]
pub struct IndexChanges<'a> {
    first: Vec<Doc<'a>>,
    old: Vec<DocBuf>,
    last: Vec<Doc<'a>>,
}

/// Parses a list of indexes. The list must contain the index on `_id`, which exists anyway and is left out of the result.
pub fn check<'a>(call: &Call<'_>, specs: &[Doc<'a>]) -> Result<Vec<(Doc<'a>, WantedIndex)>> {
    let is_id = |spec: &&Doc<'_>| {
        let key = spec.get("key").as_doc().unwrap_or(Doc::EMPTY);
        key.count() == 1 && key.has("_id")
    };
    if !specs.iter().any(|spec| is_id(&spec)) {
        return Err(Error::bad_value(
            "customAction 'indexes' must contain the index on _id",
        ));
    }
    let others = specs.iter().filter(|spec| !is_id(spec));
    let read = |spec: &Doc<'a>| {
        if call.context.cosmos.strict {
            // Whether existing documents forbid the index is checked when it is created.
            strict::check_index(*spec, false)?;
        }
        Ok((*spec, index_spec::parse(*spec, Unknown::Refused)?))
    };
    others.map(read).collect()
}

pub fn make<'s>(
    call: &Call<'_>,
    collection: &str,
    specs: impl Iterator<Item = Doc<'s>>,
) -> Box<dyn Work> {
    let body = DocBuf::build(|body| {
        body.put_str("createIndexes", collection);
        let mut list = body.array("indexes");
        for spec in specs {
            list.push_doc(spec);
        }
        list.end();
        body.put_str("$db", call.database());
    });
    client_command(call, &body)
}

fn drop_indexes<'s>(
    call: &Call<'_>,
    collection: &str,
    specs: impl Iterator<Item = Doc<'s>>,
) -> Box<dyn Work> {
    let body = DocBuf::build(|body| {
        body.put_str("dropIndexes", collection);
        let mut list = body.array("index");
        for spec in specs {
            list.push_str(name(spec));
        }
        list.end();
        body.put_str("$db", call.database());
    });
    client_command(call, &body)
}

fn name(spec: Doc<'_>) -> &str {
    spec.get("name").as_str().unwrap_or_default()
}

fn key(spec: Doc<'_>) -> Doc<'_> {
    spec.get("key").as_doc().unwrap_or(Doc::EMPTY)
}

// === impl IndexChanges ===

impl<'a> IndexChanges<'a> {
    pub fn new(
        call: &Call<'_>,
        collection: &str,
        wanted: Vec<(Doc<'a>, WantedIndex)>,
    ) -> Result<Self> {
        let there = call.context.catalog.get(call.database(), collection)?;
        let mut old = there.map_or_else(Vec::new, |there| indexes_of(&there, call.read_point()));
        old.retain(|index| !key(index.as_doc()).has("_id") || key(index.as_doc()).count() > 1);
        let mut plan = Self::default();
        let mut new = Vec::new();
        for (spec, wanted) in wanted {
            match wanted {
                WantedIndex::Id => {}
                // A new default TTL replaces the old one by itself.
                WantedIndex::Default { .. } => {
                    old.retain(|index| !is_ts_key(key(index.as_doc())));
                    plan.last.push(spec);
                }
                WantedIndex::Index(index) => {
                    let described = DocBuf::build(|doc| index.describe(doc));
                    match old.iter().position(|old| old.bytes() == described.bytes()) {
                        Some(same) => _ = old.swap_remove(same),
                        None => new.push(spec),
                    }
                }
            }
        }
        for spec in new {
            let clashes = |old: &DocBuf| {
                let old = old.as_doc();
                name(old) == name(spec) || key(old).bytes() == key(spec).bytes()
            };
            match old.iter().any(clashes) {
                true => plan.last.push(spec),
                false => plan.first.push(spec),
            }
        }
        plan.old = old;
        Ok(plan)
    }

    pub fn commands(self, call: &Call<'_>, collection: &str) -> Vec<UndoableCommand> {
        let mut commands = Vec::new();
        let Self { first, old, last } = self;
        if !first.is_empty() {
            commands.push(UndoableCommand {
                work: make(call, collection, first.iter().copied()),
                undo: Some(drop_indexes(call, collection, first.iter().copied())),
            });
        }
        if !old.is_empty() {
            commands.push(UndoableCommand {
                work: drop_indexes(call, collection, old.iter().map(DocBuf::as_doc)),
                undo: Some(make(call, collection, old.iter().map(DocBuf::as_doc))),
            });
        }
        if !last.is_empty() {
            commands.push(UndoableCommand {
                work: make(call, collection, last.iter().copied()),
                undo: None,
            });
        }
        commands
    }
}
