//! `$merge`: writes each row into the target collection, document by document.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use super::access::SlicePace;
use super::write::{
    Blocked, Changed, Intake, MAX_LOST, Search, Selection, Selector, WriteTarget, collection_for,
    insert_batch,
};
use super::{ObjectIds, SourceHandles};
use crate::effort::{Effort, Weigh};
use crate::error::{Code, Error, Result};
use crate::interrupt::{run_blocking, tick};
use crate::query::filter::Filter;
use crate::query::stage::{
    Endless, Merge, RowBatch, RowContext, Sink, WhenMatched, WhenNotMatched,
};
use crate::query::update::{Update, path_order};
use crate::query::{Scope, Vars};
use crate::storage::{Catalog, Collection, New, ReadPoint};
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, Path, Type, Value, ValueRef};

pub struct Merging {
    resources: Resources,
    merge: Arc<Merge>,
    /// The paths of `on`.
    on: Vec<Path>,
    /// The unique index behind `on` leaves out documents without these fields.
    sparse: bool,
    /// The update of a matched document. For `replace` and `merge` it is a pipeline over `$$new`. Otherwise it is the
    /// client's pipeline, which is parsed when the first row arrives.
    update: Option<Update>,
    blocked: Blocked,
}

/// The parts of the server that writing the rows needs.
pub struct Resources {
    pub catalog: Arc<Catalog>,
    pub ids: Arc<ObjectIds>,
    /// See [`WriteTarget`].
    pub outside_lock: bool,
    pub weigh: Weigh,
    /// They hold the read point of the command and count its work.
    pub handles: SourceHandles,
}

/// The handling of the document that a row matches.
enum MatchHandling {
    /// No lookup: the insert fails if the document exists.
    None,
    /// A lookup that leaves the document as it is, `_ts` included.
    Look(Selection),
    Change(Search),
}

/// Starts a merge. Checks that `on` identifies at most one document.
pub fn begin(resources: Resources, merge: Arc<Merge>, cx: &RowContext<'_>) -> Result<Merging> {
    let on: Vec<Path> = merge.on.iter().map(|field| Path::parse(field)).collect();
    let sparse = check_on(&resources.catalog, &merge, resources.handles.read_point())?;
    let update = match &merge.when_matched {
        WhenMatched::Replace => Some(pipeline(cx.vars, |stage| {
            stage.put_str("$replaceWith", "$$new");
        })?),
        WhenMatched::Merge => Some(pipeline(cx.vars, |stage| {
            let mut with = stage.doc("$replaceWith");
            let mut merged = with.array("$mergeObjects");
            merged.push_str("$$ROOT").push_str("$$new");
            merged.end();
            with.end();
        })?),
        _ => None,
    };
    Ok(Merging {
        on,
        sparse,
        update,
        resources,
        merge,
        blocked: Blocked::default(),
    })
}

/// Refuses an `on` without a unique index, since it could match several documents. Returns whether the index is sparse.
pub fn check_on(catalog: &Catalog, merge: &Merge, at: ReadPoint) -> Result<bool> {
    if matches!(merge.on.as_slice(), [field] if &**field == "_id") {
        return Ok(false);
    }
    let on: Vec<Path> = merge.on.iter().map(|field| Path::parse(field)).collect();
    catalog
        .get(&merge.into.db, &merge.into.coll)?
        .and_then(|collection| unique_index(&collection, &on, at))
        .ok_or_else(|| {
            Error::location(
                51183,
                "Cannot find index to verify that join fields will be unique",
            )
        })
}

/// Builds a pipeline of one stage, in which `$$new` is the row. That variable follows those of the command.
fn pipeline(vars: &Vars, write: impl FnOnce(&mut crate::value::DocBuilder<'_>)) -> Result<Update> {
    let before: Vec<String> = (0..vars.len()).map(|n| format!("v{n}")).collect();
    let scope = Scope::new()
        .with(before.iter().map(String::as_str))
        .with(["new"]);
    let stages = DocBuf::build(|doc| {
        let mut array = doc.array("p");
        let mut stage = array.doc();
        write(&mut stage);
        stage.end();
        array.end();
    });
    Update::parse(stages.as_doc().get("p"), None, &scope)
}

/// Returns whether the unique index on exactly these fields is sparse, if there is such an index.
fn unique_index(collection: &Collection, on: &[Path], at: ReadPoint) -> Option<bool> {
    collection.read(at, |view| {
        view.indexes()
            .filter(|index| index.ready && index.spec.unique && index.spec.partial.is_none())
            .find(|index| {
                let paths = &index.spec.paths;
                paths.len() == on.len() && on.iter().all(|path| paths.contains(path))
            })
            .map(|index| index.spec.sparse)
    })
}

/// Returns the fields of a row in the order of their names, in which an update with `$set` adds them.
fn by_name(row: Doc<'_>) -> DocBuf {
    let mut fields: Vec<_> = row.iter().map(|elem| (elem.name(), elem.value)).collect();
    fields.sort_by(|(a, _), (b, _)| path_order(a, b));
    DocBuf::build(|doc| {
        for (name, value) in fields {
            doc.put(name, value);
        }
    })
}

// === impl Merging ===

impl Merging {
    /// Returns the filter `{on: {$eq: value}, ...}` for a row.
    fn filter(&self, row: Doc<'_>) -> Result<Filter> {
        let mut filter = DocBuf::new();
        for path in &self.on {
            let value = path.get(row);
            if value.ty() == Type::Array {
                return Err(Error::location(
                    51185,
                    format!("$merge write error: 'on' field '{path}' cannot be an array"),
                ));
            }
            if value.is_nullish() && self.sparse {
                return Err(Error::location(
                    51132,
                    format!(
                        "$merge write error: 'on' field '{path}' cannot be missing, null or undefined if supporting index is sparse"
                    ),
                ));
            }
            let equal = DocBuf::build(|doc| {
                doc.put("$eq", value.or_null());
            });
            filter.put(path.as_str(), ValueRef::document(equal.as_doc()));
        }
        Filter::parse(filter.as_doc(), &Scope::new())
    }

    /// Returns the target of the writes, with the read point.
    fn target(&self) -> WriteTarget<'_> {
        let (into, resources) = (&self.merge.into, &self.resources);
        WriteTarget {
            catalog: &resources.catalog,
            ids: &resources.ids,
            database: &into.db,
            collection: &into.coll,
            outside_lock: resources.outside_lock,
            weigh: resources.weigh,
            at: resources.handles.read_point(),
            blocked: &self.blocked,
        }
    }

    fn one(&self, row: Doc<'_>, vars: &Vars, effort: &mut Effort) -> Result<()> {
        let merge = &*self.merge;
        let target = self.target();
        let intake = Intake {
            ids: target.ids,
            now: target.now(),
        };
        // A lookup by `_id` for a row without `_id` matches nothing.
        let new = if row.has("_id") || self.on.len() != 1 || self.on[0].as_str() != "_id" {
            row.bytes().into()
        } else {
            intake.admit(row)?
        };
        let row = Doc::new(&new);
        let mut meeting = self.meeting(row, vars)?;
        let mut lost = 0;
        loop {
            if self.match_exists(&mut meeting, &target, effort)? {
                return Ok(());
            }
            match merge.when_not_matched {
                WhenNotMatched::Discard => return Ok(()),
                WhenNotMatched::Fail => {
                    return Err(Error::new(
                        Code::MergeStageNoMatchingDocument,
                        "$merge could not find a matching document in the target collection for at least one document in the source collection",
                    ));
                }
                WhenNotMatched::Insert => {}
            }
            let added = self.added(row, &merge.when_matched);
            let admitted = intake.admit(added.as_doc())?;
            let (collection, _) = collection_for(
                target.catalog,
                target.database,
                target.collection,
                target.at,
            )?;
            let admitted_once = std::iter::once(admitted.as_ref());
            let Ok(inserted) = insert_batch(&collection, admitted_once, target.at) else {
                continue;
            };
            if inserted.blocked.is_some() {
                wait_for_transaction()?;
                continue;
            }
            match inserted.failed {
                None => {
                    effort.inserted += (target.weigh)(admitted.len());
                    return Ok(());
                }
                // Another client inserted the document first, so the next round can match it, unless another unique key
                // collides.
                Some(error)
                    if error.code() == Code::DuplicateKey
                        && !matches!(merge.when_matched, WhenMatched::Fail)
                        && lost < MAX_LOST =>
                {
                    lost += 1;
                }
                Some(error) => return Err(error),
            }
        }
    }

    /// Prepares what `whenMatched` asks for on the document that the row matches.
    fn meeting(&self, row: Doc<'_>, vars: &Vars) -> Result<MatchHandling> {
        let filter = self.filter(row)?;
        let new = |row: Doc<'_>| Value::document(row.bytes().to_vec());
        let values = match &self.merge.when_matched {
            WhenMatched::Fail => return Ok(MatchHandling::None),
            WhenMatched::KeepExisting => {
                return Ok(MatchHandling::Look(self.selection(filter, vars.clone())));
            }
            WhenMatched::Replace => vec![new(row)],
            WhenMatched::Merge => vec![new(by_name(row).as_doc())],
            WhenMatched::Pipeline { .. } => {
                let mut values = vec![new(row)];
                for (name, expr) in &self.merge.let_vars {
                    let value = expr.eval(row, vars)?.into_value();
                    if value.is_missing() {
                        return Err(Error::location(
                            17276,
                            format!("Use of undefined variable: {name}"),
                        ));
                    }
                    values.push(value);
                }
                values
            }
        };
        let selection = self.selection(filter, vars.with(values));
        Ok(MatchHandling::Change(Search::new(selection, None)))
    }

    /// Returns the selection of the document that a row matches.
    fn selection(&self, filter: Filter, vars: Vars) -> Selection {
        Selection {
            wanted: Selector::Filter(Arc::new(filter)),
            vars,
            sort: None,
            hint: None,
            names_ts: self.on.iter().any(|path| path.first() == TS_FIELD),
            multi: false,
        }
    }

    /// Looks up or changes the matching document. Returns whether it exists.
    fn match_exists(
        &self,
        meeting: &mut MatchHandling,
        target: &WriteTarget<'_>,
        effort: &mut Effort,
    ) -> Result<bool> {
        match (meeting, &self.update) {
            (MatchHandling::Look(selection), _) => matches_any(selection, target, effort),
            (MatchHandling::Change(search), Some(update)) => {
                search.start_over();
                loop {
                    match search.change_next(
                        target,
                        &Endless,
                        update,
                        false,
                        &mut New::Same,
                        effort,
                    )? {
                        Changed::Done(_) => return Ok(true),
                        Changed::Again if target.blocked.take().is_some() => {
                            wait_for_transaction()?
                        }
                        Changed::Again => {}
                        Changed::None => return Ok(false),
                    }
                }
            }
            _ => Ok(false),
        }
    }

    /// Returns the document to insert if nothing matched. In MongoDB `merge` and `keepExisting` are upserts of single
    /// fields, which it adds by name. A field of `on` that the row lacks becomes null.
    fn added(&self, row: Doc<'_>, mode: &WhenMatched) -> DocBuf {
        let mut fields: Vec<(&str, ValueRef<'_>)> =
            row.iter().map(|elem| (elem.name(), elem.value)).collect();
        for path in &self.on {
            if path.len() == 1 && path.as_str() != "_id" && !row.has(path.as_str()) {
                fields.push((path.as_str(), ValueRef::NULL));
            }
        }
        if matches!(mode, WhenMatched::Merge | WhenMatched::KeepExisting) {
            let is_other = |name: &str| name != "_id";
            fields.sort_by(|(a, _), (b, _)| {
                let id_first = is_other(a).cmp(&is_other(b));
                id_first.then_with(|| path_order(a, b))
            });
        }
        DocBuf::build(|doc| {
            for (name, value) in fields {
                doc.put(name, value);
            }
        })
    }
}

/// Waits a moment for a transaction that has written to the target. A row is written in one step, so it cannot wait like the
/// statements of a client.
fn wait_for_transaction() -> Result<()> {
    tick(u32::MAX)?;
    run_blocking(|| std::thread::sleep(Duration::from_millis(1)));
    Ok(())
}

fn matches_any(
    selection: &Selection,
    target: &WriteTarget<'_>,
    effort: &mut Effort,
) -> Result<bool> {
    let Some(collection) = target.catalog.get(target.database, target.collection)? else {
        return Ok(false);
    };
    let mut walk = selection.walk(collection, target.at)?;
    loop {
        let mut found = false;
        let filter = selection.wanted.filter();
        let pace = walk.slice(target.at, filter, &selection.vars, |_| {
            found = true;
            Ok(ControlFlow::Break(()))
        });
        *effort += walk.take_effort();
        if found || pace? == SlicePace::End {
            return Ok(found);
        }
    }
}

impl Sink for Merging {
    fn write(&mut self, cx: &mut RowContext<'_>, rows: &RowBatch) -> Result<()> {
        if self.update.is_none()
            && let WhenMatched::Pipeline { stages, scope } = &self.merge.when_matched
        {
            self.update = Some(Update::parse(stages.as_ref(), None, scope)?);
        }
        // All rows of a batch are written, even after a failure. Then the first failure is reported.
        let mut failed = Ok(());
        let mut effort = Effort::default();
        for row in rows.iter() {
            let written = self.one(row.doc, cx.vars, &mut effort);
            if failed.is_ok() {
                failed = written;
            }
        }
        self.resources.handles.add_effort(effort);
        failed
    }

    fn finish(&mut self, _: &mut RowContext<'_>) -> Result<()> {
        Ok(())
    }
}
