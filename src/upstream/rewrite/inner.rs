//! Stages with other collections or pipelines in them, and the stages that Sundown adds.

use std::sync::Arc;

use crate::error::Result;
use crate::query::stage::{DocumentsAfter, STAGES};
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{ArrayBuilder, Doc, DocBuf, DocBuilder, Elem, Millis, ValueRef};

use super::carry::hidden;
use super::fields::doc_or_empty;
use super::filter::prepared;
use super::namespaces::target;
use super::naming::{contains, sees_whole};
use super::pipeline::{Levels, StageOutput};
use super::rows::Joined;
use super::rulebook::NO_RULES;
use super::stamp::put_without;
use super::whole::WithoutHidden;
use super::{EndedPredicate, Rulebook, WriteStamp};

// === impl Levels ===

impl<B: Rulebook> Levels<'_, B> {
    pub fn lookup(
        &self,
        stage: &Elem<'_>,
        later: &[Doc<'_>],
        writing: &mut StageOutput<'_, '_, '_>,
    ) -> Result<()> {
        let Some(spec) = stage.value.as_doc() else {
            writing.push(stage.name(), stage.value);
            return Ok(());
        };
        let named = target(stage, self.database);
        let known = named.map(|(db, coll)| self.book.rules(db, coll));
        let rules = known.as_deref().unwrap_or(&NO_RULES);
        let own = spec.get("pipeline").as_array();
        if rules.is_none() && own.is_none() {
            writing.push(stage.name(), stage.value);
            return Ok(());
        }
        let stages = own.unwrap_or(Doc::EMPTY);
        let name = spec.get("as").as_str().unwrap_or_default();
        let inner = match (named, &known) {
            // The joined documents can be tested once more, if nobody looks at them before they leave.
            (Some((db, coll)), Some(known))
                if writing.outermost && !rules.is_none() && stays(name, later) =>
            {
                let mut bytes = Vec::new();
                let mut out = ArrayBuilder::begin(&mut bytes);
                let rows = self.pipeline(stages, rules, true, &mut out)?;
                out.end();
                writing.rows.joined.retain(|joined| &*joined.name != name);
                writing.rows.joined.push(Joined {
                    name: name.into(),
                    namespace: (db.into(), coll.into()),
                    rules: Arc::clone(known),
                    rows: rows.rule(rules, self.shows_ts)?,
                });
                DocBuf::from_bytes(bytes)
            }
            _ => self.array(stages, rules)?,
        };
        let sent = DocBuf::build(|out| {
            put_without(spec, &["pipeline"], out);
            out.put("pipeline", ValueRef::array(inner.as_doc()));
        });
        writing.push(stage.name(), ValueRef::document(sent.as_doc()));
        Ok(())
    }

    pub fn graph_lookup(
        &self,
        stage: &Elem<'_>,
        writing: &mut StageOutput<'_, '_, '_>,
    ) -> Result<()> {
        let rules = target(stage, self.database).map(|(db, coll)| self.book.rules(db, coll));
        let rules = rules.as_deref().unwrap_or(&NO_RULES);
        let Some(spec) = stage.value.as_doc().filter(|_| !rules.is_none()) else {
            writing.push(stage.name(), stage.value);
            return Ok(());
        };
        let restriction = doc_or_empty(spec, "restrictSearchWithMatch");
        let prepared = prepared(restriction, rules, self.shows_ts)?;
        let restriction = prepared.as_ref().map_or(restriction, DocBuf::as_doc);
        let restriction = EndedPredicate::new(rules, self.moment.now).alive(restriction);
        let sent = DocBuf::build(|out| {
            put_without(spec, &["restrictSearchWithMatch"], out);
            if !restriction.as_doc().is_empty() {
                out.put_doc("restrictSearchWithMatch", restriction.as_doc());
            }
        });
        writing.push(stage.name(), ValueRef::document(sent.as_doc()));
        // The stage has no pipeline of its own that could remove the fields.
        if let Some(name) = spec.get("as").as_str() {
            unset(hidden(rules, self.shows_ts), name, writing.out);
        }
        Ok(())
    }

    pub fn union_with(
        &self,
        stage: &Elem<'_>,
        writing: &mut StageOutput<'_, '_, '_>,
    ) -> Result<()> {
        let named = target(stage, self.database);
        let rules = named.map(|(db, coll)| self.book.rules(db, coll));
        let rules = rules.as_deref().unwrap_or(&NO_RULES);
        let own = stage.value.as_doc().map(|spec| spec.get("pipeline"));
        let own = own.and_then(ValueRef::as_array);
        if rules.is_none() && own.is_none() {
            writing.push(stage.name(), stage.value);
            return Ok(());
        }
        let inner = self.array(own.unwrap_or(Doc::EMPTY), rules)?;
        let sent = DocBuf::build(|out| {
            match stage.value.as_doc() {
                Some(spec) => put_without(spec, &["pipeline"], out),
                None => {
                    out.put("coll", stage.value);
                }
            }
            out.put("pipeline", ValueRef::array(inner.as_doc()));
        });
        writing.push(stage.name(), ValueRef::document(sent.as_doc()));
        Ok(())
    }

    pub fn facet(&self, stage: &Elem<'_>, writing: &mut StageOutput<'_, '_, '_>) -> Result<()> {
        let mut bytes = Vec::new();
        let mut out = DocBuilder::begin(&mut bytes);
        for facet in stage.value.as_doc().into_iter().flatten() {
            match facet.value.as_array() {
                Some(stages) => {
                    let inner = self.array(stages, &NO_RULES)?;
                    out.put(facet.name(), ValueRef::array(inner.as_doc()));
                }
                None => {
                    out.put(facet.name(), facet.value);
                }
            }
        }
        out.end();
        writing.push(stage.name(), ValueRef::document(Doc::new(&bytes)));
        Ok(())
    }

    pub fn merge(&self, stage: &Elem<'_>, writing: &mut StageOutput<'_, '_, '_>) -> Result<()> {
        let Some((db, coll)) = target(stage, self.database) else {
            writing.push(stage.name(), stage.value);
            return Ok(());
        };
        let rules = self.book.rules(db, coll);
        if rules.can_end() {
            self.drained.borrow_mut().push((db.into(), coll.into()));
        }
        let keeps = self.keeps_row_ts(stage);
        let stamp = match keeps {
            true => WriteStamp::new(&rules, self.moment.now),
            false => self.stamp(&rules, writing),
        };
        let spec = stage.value.as_doc();
        let matched = spec.and_then(|spec| spec.get("whenMatched").as_array());
        let (Some(stamp), Some(spec), Some(matched)) = (stamp, spec, matched) else {
            writing.push(stage.name(), stage.value);
            return Ok(());
        };
        // The row has its stamp already, if it may be inserted. The client's stages do not see it.
        let without = WithoutHidden {
            variables: &["$$new"],
            hidden: if keeps { &[] } else { hidden(&rules, false) },
        };
        let shows_ts = super::change::names_ts(ValueRef::array(matched));
        let mut bytes = Vec::new();
        let mut out = ArrayBuilder::begin(&mut bytes);
        unset(hidden(&rules, shows_ts), "", &mut out);
        without.array(matched, &mut out);
        out.push_doc(stamp.stage().as_doc());
        out.end();
        let sent = DocBuf::build(|out| {
            put_without(spec, &["whenMatched"], out);
            out.put("whenMatched", ValueRef::array(Doc::new(&bytes)));
        });
        writing.push(stage.name(), ValueRef::document(sent.as_doc()));
        Ok(())
    }

    /// Returns whether the rows keep their own `_ts` up to this stage: a `$merge` with stages of the client for documents that
    /// match, and that inserts nothing. Then no row is stored as it is, and the client's stages may read its `_ts`.
    pub fn keeps_row_ts(&self, stage: &Elem<'_>) -> bool {
        let Some(spec) = stage.value.as_doc().filter(|_| stage.name() == "$merge") else {
            return false;
        };
        let inserts = !matches!(
            spec.get("whenNotMatched").as_str(),
            Some("fail" | "discard")
        );
        let target = target(stage, self.database);
        !inserts
            && spec.get("whenMatched").as_array().is_some()
            && target.is_some_and(|(db, coll)| self.book.rules(db, coll).stamped)
    }

    /// Gives rows the stamp of the collection that stores them.
    pub fn stamp(
        &self,
        target: &CollectionRules,
        writing: &mut StageOutput<'_, '_, '_>,
    ) -> Option<WriteStamp> {
        let stamp = WriteStamp::new(target, self.moment.now)?;
        writing.out.push_doc(stamp.stage().as_doc());
        Some(stamp)
    }

    fn array(&self, stages: Doc<'_>, rules: &CollectionRules) -> Result<DocBuf> {
        let mut bytes = Vec::new();
        let mut out = ArrayBuilder::begin(&mut bytes);
        self.inner(stages, rules, &mut out)?;
        out.end();
        Ok(DocBuf::from_bytes(bytes))
    }
}

/// Returns whether a root field reaches the client as it is, and no stage reads it.
fn stays(name: &str, later: &[Doc<'_>]) -> bool {
    let harmless = |stage: &Doc<'_>| {
        stage.first().is_some_and(|first| {
            let row = STAGES.find(first.name_bytes());
            row.is_some_and(|row| row.facts.documents == DocumentsAfter::Pass)
                && first.name() != "$redact"
                && !sees_whole(first.value)
                && !contains(stage.bytes(), name.as_bytes())
        })
    };
    !name.is_empty() && !name.contains('.') && later.iter().all(harmless)
}

/// Writes a stage that removes fields, at the root or in the documents below a name.
pub fn unset(fields: &[&str], below: &str, out: &mut ArrayBuilder<'_>) {
    if fields.is_empty() {
        return;
    }
    let mut stage = out.doc();
    let mut paths = stage.array("$unset");
    for field in fields {
        match below {
            "" => paths.push_str(field),
            below => paths.push_str(&format!("{below}.{field}")),
        };
    }
    paths.end();
    stage.end();
}

/// Leaves out the indexes that serve the rule.
pub fn own_indexes() -> DocBuf {
    DocBuf::build(|stage| {
        let mut filter = stage.doc("$match");
        filter
            .doc(&format!("key.{HIDDEN_FIELD}"))
            .put_bool("$exists", false);
        filter.end();
    })
}

/// Writes the stages that make the row of `$collStats: {count: {}}` from documents: always one row, also if there is no
/// document, and only one in front of several shards.
pub fn living_count(database: &str, collection: &str, now: Millis, out: &mut ArrayBuilder<'_>) {
    let mut stage = out.doc();
    let mut facet = stage.doc("$facet");
    let mut counted = facet.array("count");
    counted.doc().put_str("$count", "n");
    counted.end();
    facet.end();
    stage.end();
    let mut stage = out.doc();
    let mut row = stage.doc("$project");
    row.doc("ns")
        .put_str("$literal", &format!("{database}.{collection}"));
    row.doc("localTime").put_date("$literal", now.0);
    let mut count = row.doc("count");
    count.put_str("$sum", "$count.n");
    count.end();
    row.end();
    stage.end();
}
