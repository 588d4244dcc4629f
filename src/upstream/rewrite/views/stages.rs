//! Views in stages that read other collections.

use super::collation;
use crate::error::{Error, Result};
use crate::query::stage::{Changes, STAGES};
use crate::upstream::RuledView;
use crate::upstream::rewrite::Rulebook;
use crate::upstream::rewrite::fields::doc_or_empty;
use crate::upstream::rewrite::namespaces::target;
use crate::upstream::rewrite::naming::root;
use crate::upstream::rewrite::stamp::put_without;
use crate::value::{ArrayBuilder, Doc, DocBuf, Elem, ValueRef};

/// Replaces views in the stages of one command.
pub struct ViewStages<'a, B> {
    pub book: &'a B,
    pub database: &'a str,
    /// The collation of the command, if it names one.
    pub collation: Option<Doc<'a>>,
    /// The view that the command is on.
    pub view: Option<&'a RuledView>,
}

/// Stages that treat each document by itself. A filter on a field that they leave alone may stand in front of them.
const EACH_DOCUMENT: &[&str] = &[
    "$addFields",
    "$graphLookup",
    "$lookup",
    "$match",
    "$project",
    "$set",
    "$sort",
    "$unset",
];

// === impl ViewStages ===

impl<B: Rulebook> ViewStages<'_, B> {
    /// Writes stages without views. Returns whether there was any.
    pub fn write(&self, stages: Doc<'_>, out: &mut ArrayBuilder<'_>) -> Result<bool> {
        let mut replaced = false;
        for elem in stages {
            let stage = elem.value.as_doc().and_then(Doc::first);
            match stage.map(|stage| self.stage(&stage)).transpose()?.flatten() {
                Some(stage) => {
                    out.push_doc(stage.as_doc());
                    replaced = true;
                }
                None => {
                    out.push(elem.value);
                }
            }
        }
        Ok(replaced)
    }

    /// Returns a stage without views, or `None` if it has none.
    fn stage(&self, stage: &Elem<'_>) -> Result<Option<DocBuf>> {
        let of_stage = |spec: DocBuf| {
            DocBuf::build(|out| {
                out.put_doc(stage.name(), spec.as_doc());
            })
        };
        let spec = match stage.name() {
            "$facet" => self.facet(stage)?,
            "$lookup" | "$unionWith" | "$graphLookup" => {
                let named = target(stage, self.database);
                let rules = named.map(|(db, coll)| self.book.rules(db, coll));
                let view = rules.as_ref().and_then(|rules| rules.view.as_deref());
                if let Some(view) = view {
                    self.check_collation(view)?;
                }
                match (stage.name(), view) {
                    ("$graphLookup", view) => {
                        view.map(|found| graph_lookup(stage, found)).transpose()?
                    }
                    (_, view) => self.with_pipeline(stage, view)?,
                }
            }
            _ => None,
        };
        Ok(spec.map(of_stage))
    }

    fn facet(&self, stage: &Elem<'_>) -> Result<Option<DocBuf>> {
        let mut replaced = false;
        let mut facets = DocBuf::new();
        for facet in stage.value.as_doc().into_iter().flatten() {
            let Some(stages) = facet.value.as_array() else {
                facets.put(facet.name(), facet.value);
                continue;
            };
            let (written, changed) = self.array(Doc::EMPTY, stages)?;
            replaced |= changed;
            facets.put(facet.name(), ValueRef::array(written.as_doc()));
        }
        Ok(replaced.then_some(facets))
    }

    /// `$lookup` and `$unionWith`: the stages of the view come before the client's own.
    fn with_pipeline(&self, stage: &Elem<'_>, view: Option<&RuledView>) -> Result<Option<DocBuf>> {
        let spec = stage.value.as_doc().unwrap_or(Doc::EMPTY);
        let own = spec.get("pipeline").as_array();
        let of_view = view.map_or(Doc::EMPTY, |found| found.stages.as_doc());
        let (stages, changed) = self.array(of_view, own.unwrap_or(Doc::EMPTY))?;
        if view.is_none() && !changed {
            return Ok(None);
        }
        let from = match stage.name() {
            "$lookup" => "from",
            _ => "coll",
        };
        if let (Some(view), Some(field)) = (view, spec.get("foreignField").as_str())
            && !keeps(view.stages.as_doc(), field)
        {
            return Err(Error::not_implemented(
                "$lookup by a field that a view with a TTL computes or selects by, in front of a cluster,",
            ));
        }
        Ok(Some(DocBuf::build(|out| {
            match view {
                None => put_without(spec, &["pipeline"], out),
                Some(view) => {
                    out.put_str(from, &view.base);
                    put_without(spec, &["pipeline", from], out);
                }
            }
            out.put("pipeline", ValueRef::array(stages.as_doc()));
        })))
    }

    fn array(&self, first: Doc<'_>, then: Doc<'_>) -> Result<(DocBuf, bool)> {
        let mut bytes = Vec::with_capacity(first.bytes().len() + then.bytes().len());
        let mut out = ArrayBuilder::begin(&mut bytes);
        for stage in first {
            out.push(stage.value);
        }
        let changed = self.write(then, &mut out)?;
        out.end();
        Ok((DocBuf::from_bytes(bytes), changed))
    }

    /// Refuses a view whose collation is not that of the command.
    fn check_collation(&self, view: &RuledView) -> Result<()> {
        let own = self.view.map(collation::of_view);
        let own = own.as_ref().map(DocBuf::as_doc);
        match (own.or(self.collation), &view.collation) {
            (Some(own), _) => collation::check(view, own),
            (None, Some(_)) => collation::check(view, Doc::EMPTY),
            (None, None) => Ok(()),
        }
    }
}

/// `$graphLookup` has no pipeline, but a filter.
fn graph_lookup(stage: &Elem<'_>, view: &RuledView) -> Result<DocBuf> {
    let spec = stage.value.as_doc().unwrap_or(Doc::EMPTY);
    let stages = view.stages.as_doc();
    let filters = stages
        .iter()
        .map(|stage| stage.value.as_doc()?.get("$match").as_doc());
    let Some(filters) = filters.collect::<Option<Vec<_>>>() else {
        return Err(Error::not_implemented(
            "$graphLookup from a view with a TTL that has other stages than $match, in front of a cluster,",
        ));
    };
    Ok(DocBuf::build(|out| {
        out.put_str("from", &view.base);
        put_without(spec, &["from", "restrictSearchWithMatch"], out);
        let own = doc_or_empty(spec, "restrictSearchWithMatch");
        let mut restriction = out.doc("restrictSearchWithMatch");
        let mut all = restriction.array("$and");
        for filter in filters.into_iter().chain([own]) {
            all.push_doc(filter);
        }
        all.end();
        restriction.end();
    }))
}

/// Returns whether documents may be selected by a field before these stages as well as behind them.
fn keeps(stages: Doc<'_>, field: &str) -> bool {
    let mut stages = stages
        .iter()
        .filter_map(|stage| stage.value.as_doc()?.first());
    stages.all(|stage| {
        let row = STAGES.find(stage.name_bytes());
        let row = row.filter(|_| EACH_DOCUMENT.contains(&stage.name()));
        row.is_some_and(|row| match row.facts.changes {
            Changes::Nothing => true,
            Changes::Fields(each) => {
                let mut written = false;
                each(stage.value, &mut |path| {
                    written |= root(path) == root(field)
                });
                !written
            }
            Changes::Selection(_, passes) => passes(stage.value, field),
            Changes::Everything => false,
        })
    })
}
