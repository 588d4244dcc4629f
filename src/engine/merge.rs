//! `$merge`: each row into the collection, document by document.

use std::sync::Arc;

use super::ObjectIds;
use super::access::Walk;
use super::choose::choose;
use super::sources::WriteEffort;
use super::write::{
    Candidate, Intake, MAX_LOST, Match, Modified, Picked, Picker, Target, Wanted, collection_for,
    insert_batch, with_ts,
};
use crate::error::{Code, Error, Result};
use crate::query::filter::Filter;
use crate::query::stage::{Batch, Cx, Endless, Merge, Sink, WhenMatched, WhenNotMatched};
use crate::query::update::{Apply, Update};
use crate::query::{Scope, Vars};
use crate::storage::{Catalog, Collection, New, NewTtl, ReadPoint};
use crate::ttl::TS_FIELD;
use crate::value::{Doc, DocBuf, Path, Type, Value, ValueRef};

pub struct Merging {
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    merge: Arc<Merge>,
    /// The paths of `on`.
    on: Vec<Path>,
    /// The unique index behind `on` leaves documents without these fields out.
    sparse: bool,
    /// What becomes of a document that is there: for `replace` and `merge` a pipeline over `$$new`, else the client's, once
    /// the first row has come.
    update: Option<Update>,
    effort: WriteEffort,
}

/// Checks that `on` names one document at most.
pub fn begin(
    catalog: Arc<Catalog>,
    ids: Arc<ObjectIds>,
    merge: Arc<Merge>,
    effort: WriteEffort,
    cx: &Cx<'_>,
) -> Result<Merging> {
    let on: Vec<Path> = merge.on.iter().map(|field| Path::parse(field)).collect();
    let sparse = check_on(&catalog, &merge, super::sources::read_point(cx))?;
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
        catalog,
        ids,
        merge,
        effort,
    })
}

/// Refuses an `on` that does not name one document at most, for want of a unique index. Says whether the index is sparse.
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

/// A pipeline of one stage, in which the row is `$$new`: the variable behind those of the command.
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

/// Whether there is a unique index on exactly these fields, and if so whether it is sparse.
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

/// The fields of a row as an update with $set adds them: in the order of their names.
fn by_name(row: Doc<'_>) -> DocBuf {
    let mut fields: Vec<_> = row.iter().map(|elem| (elem.name(), elem.value)).collect();
    fields.sort_by_key(|(name, _)| *name);
    DocBuf::build(|doc| {
        for (name, value) in fields {
            doc.put(name, value);
        }
    })
}

// === impl Merging ===

impl Merging {
    /// `{on: {$eq: value}, ...}` for a row.
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

    fn one(&self, row: Doc<'_>, vars: &Vars) -> Result<()> {
        let merge = &*self.merge;
        let intake = Intake {
            ids: &self.ids,
            now: vars.now(),
        };
        // A row without an `_id` that is asked for by `_id` matches nothing.
        let new = if row.has("_id") || self.on.len() != 1 || self.on[0].as_str() != "_id" {
            row.bytes().into()
        } else {
            intake.admit(row)?
        };
        let row = Doc::new(&new);
        let wanted = Wanted::Filter(Arc::new(self.filter(row)?));
        let mut lost = 0;
        loop {
            if self.matched(row, &wanted, vars)? {
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
            let (into, now) = (&merge.into, vars.now());
            let (collection, _) = collection_for(&self.catalog, &into.db, &into.coll, now)?;
            let Ok(inserted) =
                insert_batch(&collection, std::iter::once(admitted.as_ref()), vars.now())
            else {
                continue;
            };
            match inserted.failed {
                None => {
                    self.effort.inserted(admitted.len());
                    return Ok(());
                }
                // Somebody was faster: then it can be matched now, unless another key is in the way.
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

    /// Does with the document that the row stands for what `whenMatched` says, if there is one.
    fn matched(&self, row: Doc<'_>, wanted: &Wanted, vars: &Vars) -> Result<bool> {
        let update = self.update.as_ref();
        match &self.merge.when_matched {
            // The insert says whether it is there.
            WhenMatched::Fail => Ok(false),
            WhenMatched::KeepExisting => self.change(wanted, vars, None),
            WhenMatched::Replace => {
                let vars = vars.with([Value::document(row.bytes().to_vec())]);
                self.change(wanted, &vars, update)
            }
            WhenMatched::Merge => {
                let vars = vars.with([Value::document(by_name(row).bytes().to_vec())]);
                self.change(wanted, &vars, update)
            }
            WhenMatched::Pipeline { .. } => {
                let mut values = vec![Value::document(row.bytes().to_vec())];
                for (name, expr) in &self.merge.lets {
                    let value = expr.eval(row, vars)?.into_value();
                    if value.is_missing() {
                        return Err(Error::location(
                            17276,
                            format!("Use of undefined variable: {name}"),
                        ));
                    }
                    values.push(value);
                }
                self.change(wanted, &vars.with(values), update)
            }
        }
    }

    /// The document that is added where none was found. `merge` and `keepExisting` are upserts of single fields in MongoDB,
    /// which adds them by name; a field of `on` that the row lacks is null.
    fn added(&self, row: Doc<'_>, mode: &WhenMatched) -> DocBuf {
        let mut fields: Vec<(&str, ValueRef<'_>)> =
            row.iter().map(|elem| (elem.name(), elem.value)).collect();
        for path in &self.on {
            if path.len() == 1 && path.as_str() != "_id" && !row.has(path.as_str()) {
                fields.push((path.as_str(), ValueRef::NULL));
            }
        }
        if matches!(mode, WhenMatched::Merge | WhenMatched::KeepExisting) {
            fields.sort_by_key(|(name, _)| (*name != "_id", *name));
        }
        DocBuf::build(|doc| {
            for (name, value) in fields {
                doc.put(name, value);
            }
        })
    }

    /// Changes the document that the filter finds; without an update it is left as it is, `_ts` included. Says whether there
    /// is one.
    fn change(&self, wanted: &Wanted, vars: &Vars, update: Option<&Update>) -> Result<bool> {
        let into = &self.merge.into;
        let at = ReadPoint::at(vars.now());
        let mut current = Vec::new();
        let names_ts = self.on.iter().any(|path| path.first() == TS_FIELD);
        let reads_ts = update.is_some_and(Update::reads_ts);
        loop {
            let Some(collection) = self.catalog.get(&into.db, &into.coll)? else {
                return Ok(false);
            };
            let chosen = choose(&collection, wanted.filter(), None, None, at)?;
            let walk = Walk::new(collection, chosen.access)
                .show_ts(names_ts)
                .for_writing();
            let mut picker = Picker::new(walk, Arc::clone(wanted.filter()), None);
            let picked = picker.next(at, vars, &Endless, &mut current);
            self.effort.add(picker.take_effort());
            let (id, ts) = match picked? {
                Picked::One(id, ts) => (id, ts),
                Picked::Pause => continue,
                Picked::None => return Ok(false),
            };
            let Some(update) = update else {
                return Ok(true);
            };
            let candidate = Candidate {
                collection: picker.collection(),
                target: Target::Found(id, ts),
                reads_ts: names_ts || reads_ts,
                new_ttl: NewTtl::Unknown,
                quick: false,
                keeps: false,
                current: &mut current,
                still_matches: Match {
                    wanted,
                    vars,
                    names_ts,
                },
            };
            let modified = candidate.modify(at, |doc, ts, _| {
                let shown = reads_ts.then(|| with_ts(doc, ts));
                let doc = shown.as_deref().map_or(doc, Doc::new);
                let apply = Apply {
                    now: at.now(),
                    vars,
                    position: None,
                    inserting: false,
                };
                Ok(update.apply(doc, &apply)?.map_or(New::Same, New::Bytes))
            })?;
            if let Ok(Modified::Done { written, .. }) = modified {
                self.effort.changed(written.len);
                return Ok(true);
            }
        }
    }
}

impl Sink for Merging {
    fn write(&mut self, cx: &mut Cx<'_>, rows: &Batch) -> Result<()> {
        if self.update.is_none()
            && let WhenMatched::Pipeline { stages, scope } = &self.merge.when_matched
        {
            self.update = Some(Update::parse(stages.as_ref(), None, scope)?);
        }
        // The rows of a batch are written whatever becomes of those before them; then the first failure is reported.
        let mut failed = Ok(());
        for row in rows.iter() {
            let written = self.one(row.doc, cx.vars);
            if failed.is_ok() {
                failed = written;
            }
        }
        failed
    }

    fn finish(&mut self, _: &mut Cx<'_>) -> Result<()> {
        Ok(())
    }
}
