//! Collections as pipelines and finds read them.

use std::sync::Arc;

use super::access::Walk;
use super::choose::{Hint, choose, id_key_of};
use super::write::append_ts;
use super::{CollectionRows, Handles};
use crate::error::{Error, Result};
use crate::query::filter::Filter;
use crate::query::sort::Sort;
use crate::query::stage::{
    self, Batch, Cx, Empty, Origin, Output, Report, Rows, Sink, SourceSpec, Sources, Target,
};
use crate::storage::Catalog;
use crate::value::{Doc, Millis, ValueRef};

/// What one command (and the cursor that it leaves behind) can reach.
pub struct EngineSources {
    catalog: Arc<Catalog>,
    handles: Handles,
    /// Every document is shown with its `_ts`.
    show_ts: bool,
}

/// What is read of a collection: filter, sort, skip, limit, in this order.
pub struct Reading {
    pub filter: Arc<Filter>,
    pub sort: Option<Arc<Sort>>,
    pub hint: Option<Hint>,
    pub skip: u64,
    pub limit: Option<u64>,
    pub show_ts: bool,
}

// === impl EngineSources ===

impl EngineSources {
    pub fn new(catalog: Arc<Catalog>, show_ts: bool) -> Self {
        Self {
            catalog,
            handles: Handles::default(),
            show_ts,
        }
    }

    pub fn handles(&self) -> &Handles {
        &self.handles
    }

    /// The rows of a collection; one that does not exist has none.
    pub fn read(
        &self,
        database: &str,
        collection: &str,
        reading: Reading,
        now: Millis,
    ) -> Result<Box<dyn Rows>> {
        let Some(collection) = self.catalog.get(database, collection) else {
            return Ok(Box::new(Empty));
        };
        let Reading {
            filter,
            sort,
            hint,
            skip,
            limit,
            show_ts,
        } = reading;
        let chosen = choose(&collection, &filter, sort.as_deref(), hint.as_ref(), now)?;
        let walk = Walk::new(collection, chosen.access).show_ts(show_ts);
        let sort = sort.filter(|sort| !chosen.sorted && !sort.is_empty());
        let Some(sort) = sort else {
            return Ok(Box::new(CollectionRows::new(
                walk,
                filter,
                &self.handles,
                skip,
                limit,
            )));
        };
        let found = Box::new(CollectionRows::new(walk, filter, &self.handles, 0, None));
        let bound = limit.map(|limit| limit.saturating_add(skip));
        let mut rows = stage::sort(found, sort, bound);
        if skip > 0 {
            rows = stage::skip(rows, skip);
        }
        if let Some(limit) = limit {
            rows = stage::limit(rows, limit);
        }
        Ok(rows)
    }
}

impl Sources for EngineSources {
    fn open(&self, cx: &Cx<'_>, from: &Target, spec: &SourceSpec) -> Result<Box<dyn Rows>> {
        let reading = Reading {
            filter: spec
                .filter
                .clone()
                .unwrap_or_else(|| Arc::new(Filter::all())),
            sort: spec.sort.clone(),
            hint: None,
            skip: spec.skip,
            limit: spec.limit,
            show_ts: self.show_ts,
        };
        self.read(&from.db, &from.coll, reading, cx.vars.now())
    }

    fn find_equal(
        &self,
        cx: &Cx<'_>,
        from: &Target,
        field: &str,
        keys: &[ValueRef<'_>],
        out: &mut Batch,
    ) -> Result<bool> {
        if field != "_id" {
            return Ok(false);
        }
        let Some(keys) = keys
            .iter()
            .map(|key| id_key_of(*key))
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(false);
        };
        let Some(collection) = self.catalog.get(&from.db, &from.coll) else {
            return Ok(true);
        };
        let source = self.handles.add(&collection);
        let mut scratch = Vec::new();
        collection.read(cx.vars.now(), |view| {
            for key in &keys {
                if let Some((id, stored)) = view.by_id(key) {
                    let mut doc = Doc::new(stored.bytes);
                    if self.show_ts {
                        scratch.clear();
                        append_ts(doc, stored.ts, &mut scratch);
                        doc = Doc::new(&scratch);
                    }
                    out.push(
                        doc,
                        Some(Origin {
                            source,
                            record: id.0,
                        }),
                    );
                }
            }
        });
        Ok(true)
    }

    fn sink(&self, _: &Cx<'_>, _: &Arc<Output>) -> Result<Box<dyn Sink>> {
        Err(Error::not_implemented("$out and $merge"))
    }

    fn report(&self, _: &Cx<'_>, _: &Target, _: &Report, _: &mut Batch) -> Result<()> {
        Err(Error::not_implemented("$collStats"))
    }
}
