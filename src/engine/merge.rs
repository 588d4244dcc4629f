//! `$merge`: writes each row into the target collection, document by document.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::access::SlicePace;
use super::write::{
    Blocked, Changed, Intake, MAX_LOST, Search, Selection, Selector, WriteTarget, collection_for,
    insert_batch,
};
use super::{ObjectIds, SourceHandles};
use crate::effort::{Effort, Weigh};
use crate::error::{Code, Error, Result};
use crate::interrupt::{tick, wait_here};
use crate::query::filter::Filter;
use crate::query::stage::{
    Endless, Merge, RowBatch, RowContext, Sink, WhenMatched, WhenNotMatched,
};
use crate::query::update::{Apply, Update};
use crate::query::{Scope, Vars};
use crate::storage::{Catalog, Collection, New, ReadPoint};
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, MAX_DOCUMENT, Path, Type, Value, ValueRef};

pub struct Merging {
    resources: Resources,
    merge: Arc<Merge>,
    /// The paths of `on`.
    on: Vec<Path>,
    /// The unique index behind `on` leaves out documents without these fields.
    sparse: bool,
    /// The update of a matched document. For `replace` it is a pipeline over `$$new`. Otherwise it is the client's pipeline,
    /// which is parsed when the first row arrives. The other modes make an update of each row.
    update: Option<Update>,
    blocked: Blocked,
    /// Rows that are not written yet. As in MongoDB they wait until there are many, so a pipeline that also reads the target
    /// seldom sees what it has written.
    waiting: Vec<WaitingRow>,
    waiting_bytes: usize,
}

/// A row that is not written yet.
struct WaitingRow {
    bytes: Box<[u8]>,
    /// The variables of `let`.
    let_values: Vec<Value>,
}

/// The most rows that wait to be written. They also take no more bytes than the largest document.
const MAX_WAITING: usize = 100_000;

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
    /// A lookup that leaves the document as it is, `_ts` included. If there is none, the update makes it.
    Look(Selection, Update),
    /// A change by the update of the stage.
    Change(Search),
    /// A change by an update of the row's fields, which also makes the document if there is none.
    Set(Search, Update),
}

/// Starts a merge. Checks that `on` identifies at most one document.
pub fn begin(resources: Resources, merge: Arc<Merge>, cx: &RowContext<'_>) -> Result<Merging> {
    let on: Vec<Path> = merge.on.iter().map(|field| Path::parse(field)).collect();
    let sparse = check_on(&resources.catalog, &merge, resources.handles.read_point())?;
    let update = match &merge.when_matched {
        WhenMatched::Replace => Some(pipeline(cx.vars, |stage| {
            stage.put_str("$replaceWith", "$$new");
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
        waiting: Vec::new(),
        waiting_bytes: 0,
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

/// Returns the update that sets the fields of a row, by this operator.
fn setting(operator: &str, row: Doc<'_>) -> Result<Update> {
    let update = DocBuf::build(|doc| {
        let mut fields = doc.doc(operator);
        // The server keeps `_ts`, and a row may carry that of its source.
        for elem in row.iter().filter(|elem| elem.name() != TS_FIELD) {
            fields.put(elem.name(), elem.value);
        }
        fields.end();
    });
    Update::parse(ValueRef::document(update.as_doc()), None, &Scope::new())
}

// === impl Merging ===

impl Merging {
    /// Checks the fields of `on` in a row.
    fn check_on_fields(&self, row: Doc<'_>) -> Result<()> {
        for path in &self.on {
            let value = path.get(row);
            if value.ty() == Type::Array {
                return Err(Error::location(
                    51185,
                    format!("$merge write error: 'on' field '{path}' is an array"),
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
        }
        Ok(())
    }

    /// Computes the variables of `let` for a row.
    fn let_values(&self, row: Doc<'_>, vars: &Vars) -> Result<Vec<Value>> {
        let lets = self.merge.let_vars.iter();
        lets.map(|(_, expr)| Ok(expr.eval(row, vars)?.into_value()))
            .collect()
    }

    /// Returns the filter `{on: {$eq: value}, ...}` for a row.
    fn filter(&self, row: Doc<'_>) -> Result<Filter> {
        let mut filter = DocBuf::new();
        for path in &self.on {
            let equal = DocBuf::build(|doc| {
                doc.put("$eq", path.get(row).or_null());
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

    fn one(&self, row: WaitingRow, vars: &Vars, effort: &mut Effort) -> Result<()> {
        let WaitingRow { bytes, let_values } = row;
        let row = Doc::new(&bytes);
        let merge = &*self.merge;
        let target = self.target();
        let intake = Intake {
            ids: target.ids,
            now: target.now(),
            keeps_empty_timestamps: false,
        };
        // A lookup by `_id` for a row without `_id` matches nothing.
        let new = if row.has("_id") || self.on.len() != 1 || self.on[0].as_str() != "_id" {
            row.bytes().into()
        } else {
            intake.admit(row)?
        };
        let row = Doc::new(&new);
        let mut meeting = self.meeting(row, let_values, vars)?;
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
            let made = match &meeting {
                MatchHandling::Look(_, update) | MatchHandling::Set(_, update) => {
                    Some(self.upserted(row, update, vars, &target)?)
                }
                _ => None,
            };
            let added = made.as_deref().map_or(row, Doc::new);
            let admitted = intake.admit(added)?;
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
            // A row is written in one step, so it cannot wait for a transaction like the statements of a client.
            if let Some(wait) = inserted.blocked {
                wait_here(wait)?;
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

    /// Writes the rows that wait. All of them are written, even after a failure. Then the first failure is reported.
    fn write_waiting(&mut self, vars: &Vars) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        if self.merge.when_not_matched == WhenNotMatched::Insert {
            // An upsert creates its collection even if it fails.
            let target = self.target();
            collection_for(
                target.catalog,
                target.database,
                target.collection,
                target.at,
            )?;
        }
        if self.update.is_none()
            && let WhenMatched::Pipeline { stages, scope } = &self.merge.when_matched
        {
            self.update = Some(Update::parse(stages.as_ref(), None, scope)?);
        }
        let mut failed = Ok(());
        let mut effort = Effort::default();
        for row in std::mem::take(&mut self.waiting) {
            tick(16)?;
            let written = self.one(row, vars, &mut effort);
            if failed.is_ok() {
                failed = written.map_err(|error| self.explained(error));
            }
        }
        self.waiting_bytes = 0;
        self.resources.handles.add_effort(effort);
        failed
    }

    /// Tells which part of the stage failed, in MongoDB's words.
    fn explained(&self, error: Error) -> Error {
        match error.code() {
            Code::ImmutableField => error.caused(
                "$merge failed to update the matching document, did you attempt to modify the _id or the shard key?",
            ),
            Code::DuplicateKey => {
                let key = error.details().map(|details| Doc::new(details).get("keyPattern"));
                let key = key.and_then(|key| key.as_doc());
                let on_fields = key.is_some_and(|key| {
                    key.iter().count() == self.on.len()
                        && self.on.iter().all(|path| key.has(path.as_str()))
                });
                let by_row = matches!(self.merge.when_matched, WhenMatched::Fail) && on_fields;
                error.caused(match by_row {
                    true => {
                        "$merge with whenMatched: fail found an existing document with the same values for the 'on' fields"
                    }
                    false => "$merge failed due to a DuplicateKey error",
                })
            }
            _ => error,
        }
    }

    /// Prepares what `whenMatched` asks for on the document that the row matches.
    fn meeting(&self, row: Doc<'_>, let_values: Vec<Value>, vars: &Vars) -> Result<MatchHandling> {
        let filter = self.filter(row)?;
        let new = |row: Doc<'_>| Value::document(row.bytes().to_vec());
        let values = match &self.merge.when_matched {
            WhenMatched::Fail => return Ok(MatchHandling::None),
            WhenMatched::KeepExisting => {
                let update = setting("$setOnInsert", row)?;
                let selection = self.selection(filter, vars.clone());
                return Ok(MatchHandling::Look(selection, update));
            }
            WhenMatched::Merge => {
                let update = setting("$set", row)?;
                let selection = self.selection(filter, vars.clone());
                return Ok(MatchHandling::Set(Search::new(selection, None), update));
            }
            WhenMatched::Replace => vec![new(row)],
            WhenMatched::Pipeline { .. } => {
                let mut values = vec![new(row)];
                for ((name, _), value) in self.merge.let_vars.iter().zip(let_values) {
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
        let (search, update) = match (meeting, &self.update) {
            (MatchHandling::Look(selection, _), _) => {
                return matches_any(selection, target, effort);
            }
            (MatchHandling::Set(search, update), _) => (search, &*update),
            (MatchHandling::Change(search), Some(update)) => (search, update),
            _ => return Ok(false),
        };
        search.start_over();
        loop {
            match search.change_next(target, &Endless, update, false, &mut New::Same, effort)? {
                Changed::Done(_) => return Ok(true),
                Changed::Again => {
                    if let Some(wait) = target.blocked.take() {
                        wait_here(wait)?;
                    }
                }
                Changed::None => return Ok(false),
            }
        }
    }

    /// Returns the document that `merge` and `keepExisting` insert if nothing matched. In MongoDB they are upserts: a field of
    /// `on` that the row lacks becomes null.
    fn upserted(
        &self,
        row: Doc<'_>,
        update: &Update,
        vars: &Vars,
        target: &WriteTarget<'_>,
    ) -> Result<Vec<u8>> {
        let apply = Apply {
            now: target.now(),
            vars,
            position: None,
            inserting: true,
        };
        let value = |path: &Path| path.get(row).or_null().to_value();
        let values: Vec<Value> = self.on.iter().map(value).collect();
        let equalities = self.on.iter().map(Path::as_str).zip(&values);
        let equalities: Vec<(&str, &Value)> = equalities.collect();
        update.upsert(&equalities, &apply, || {
            Value::oid(target.ids.next(target.now()))
        })
    }
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
        for row in rows.iter() {
            let bytes = row.doc.bytes();
            // If a row fails here, those that wait are not written either, as in MongoDB.
            self.check_on_fields(row.doc)?;
            let let_values = self.let_values(row.doc, cx.vars)?;
            let is_full = self.waiting_bytes + bytes.len() > MAX_DOCUMENT
                || self.waiting.len() == MAX_WAITING;
            if is_full {
                self.write_waiting(cx.vars)?;
            }
            self.waiting_bytes += bytes.len();
            self.waiting.push(WaitingRow {
                bytes: bytes.into(),
                let_values,
            });
        }
        Ok(())
    }

    fn finish(&mut self, cx: &mut RowContext<'_>) -> Result<()> {
        self.write_waiting(cx.vars)
    }
}
