//! Pipelines, and the pipelines inside their stages.
//!
//! The predicate goes to the front, where the row of the first stage says ([`ConditionPosition`]). The hidden fields are removed as
//! late as possible, because an index cannot sort behind a `$unset`: just before a stage that would see whole documents, or
//! never if rows lose them anyway. Rows that reach the client whole lose them here, after they were tested once more.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::query::stage::{
    Changes, ConditionPosition, DocumentsAfter, Entry, STAGES, StageParser, names,
};
use crate::ttl::OwnTtl;
use crate::upstream::{CollectionRules, HIDDEN_FIELD};
use crate::value::{ArrayBuilder, Doc, DocBuf, Elem, ValueRef};
use crate::vocabulary::Status;

use super::carry::{Carried, computed, date_rules, hidden, riding, riding_root};
use super::fields::with_replaced;
use super::filter::prepared;
use super::inner::{living_count, own_indexes, unset};
use super::namespaces::{NamespacePair, target};
use super::naming::{contains, root, sees_whole};
use super::rows::{Joined, RowRule};
use super::whole::WithoutHidden;
use super::{EndedPredicate, Moment, Rulebook, Visibility};

/// What all pipelines of a command share.
pub struct Levels<'a, B> {
    pub book: &'a B,
    pub database: &'a str,
    /// The collection of the command itself.
    pub collection: &'a str,
    pub moment: Moment,
    pub shows_ts: bool,
    /// Collections from which everything that has ended must go before the command is sent: `$merge` would match it.
    pub drained: RefCell<Vec<NamespacePair>>,
}

/// What the rows at the end of a pipeline are.
#[derive(Debug, Default)]
pub struct RowFacts {
    /// They may have the hidden fields.
    pub hidden: bool,
    /// They stand for one document each and hold what the rule needs.
    pub testable: bool,
    /// They are whole documents.
    pub whole: bool,
    /// They may stand for one document each. Then its fields that the rule needs ride in the hidden field.
    pub rides: bool,
    /// They have these fields only for the test.
    pub carried: Vec<Box<str>>,
    /// They hold documents of other collections.
    pub joined: Vec<Joined>,
    /// Stages have set these fields.
    pub added: Vec<Box<str>>,
}

/// A stage is being written.
pub struct StageOutput<'a, 'o, 'b> {
    pub rules: &'a CollectionRules,
    pub rows: RowFacts,
    /// The rows of the pipeline reach the client, alone or inside others.
    pub outermost: bool,
    pub out: &'o mut ArrayBuilder<'b>,
}

// === impl Levels ===

impl<B: Rulebook> Levels<'_, B> {
    /// Writes the pipeline of the command itself.
    pub fn outer(
        &self,
        stages: Doc<'_>,
        rules: &CollectionRules,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<RowFacts> {
        self.pipeline(stages, rules, true, out)
    }

    /// Writes a pipeline inside a stage. Its rows have no hidden fields.
    pub fn inner(
        &self,
        stages: Doc<'_>,
        rules: &CollectionRules,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<()> {
        let rows = self.pipeline(stages, rules, false, out)?;
        if rows.hidden {
            unset(hidden(rules, self.shows_ts), "", out);
        }
        Ok(())
    }

    pub fn pipeline(
        &self,
        stages: Doc<'_>,
        rules: &CollectionRules,
        outermost: bool,
        out: &mut ArrayBuilder<'_>,
    ) -> Result<RowFacts> {
        let predicate = EndedPredicate::new(rules, self.moment.now);
        let mut writing = StageOutput {
            rules,
            rows: RowFacts {
                hidden: rules.stamped,
                testable: outermost && !rules.is_none(),
                whole: is_whole(stages),
                ..RowFacts::default()
            },
            outermost,
            out,
        };
        let all: Vec<Doc<'_>> = stages.iter().filter_map(|s| s.value.as_doc()).collect();
        if all.len() != stages.count() || all.iter().any(|stage| stage.count() != 1) {
            return Err(Error::type_mismatch(
                "Each element of the 'pipeline' array must be an object with exactly one field",
            ));
        }
        if all.is_empty() && !predicate.is_none() {
            writing.push(
                "$match",
                ValueRef::document(predicate.alive(Doc::EMPTY).as_doc()),
            );
        }
        for (at, stage) in all.iter().filter_map(|stage| stage.first()).enumerate() {
            let Some(row) = STAGES.find(stage.name_bytes()) else {
                return Err(Error::not_implemented(format_args!(
                    "the stage {} in a command on a collection with a TTL",
                    stage.name()
                )));
            };
            let later = all.get(at + 1..).unwrap_or_default();
            if at == 0 && self.first(&stage, row, &predicate, &mut writing)? {
                continue;
            }
            self.stage(&stage, row, later, &mut writing)?;
        }
        Ok(writing.rows)
    }

    /// Puts the predicate to the front. Returns whether the first stage is written, too.
    fn first(
        &self,
        stage: &Elem<'_>,
        row: &Entry,
        predicate: &EndedPredicate,
        writing: &mut StageOutput<'_, '_, '_>,
    ) -> Result<bool> {
        let spec = stage.value.as_doc();
        match row.facts.condition {
            ConditionPosition::Nowhere => {
                writing.rows = RowFacts::default();
                if stage.name() == "$indexStats" && writing.rules.stamped {
                    writing.push(stage.name(), stage.value);
                    writing.out.push_doc(own_indexes().as_doc());
                    return Ok(true);
                }
                if stage.name() == "$collStats" && writing.rules.can_end() {
                    let only_count =
                        spec.is_some_and(|spec| spec.count() == 1 && spec.has("count"));
                    if !only_count {
                        return Err(not_possible(stage.name()));
                    }
                    let sent = predicate.alive(Doc::EMPTY);
                    writing.push("$match", ValueRef::document(sent.as_doc()));
                    living_count(self.database, self.collection, self.moment.now, writing.out);
                    return Ok(true);
                }
                Ok(false)
            }
            _ if predicate.is_none() => Ok(false),
            ConditionPosition::Impossible => Err(not_possible(stage.name())),
            ConditionPosition::Before => {
                let (filter, own) = match (stage.name(), spec) {
                    ("$match", Some(filter)) => (filter, true),
                    _ => (Doc::EMPTY, false),
                };
                let prepared = prepared(filter, writing.rules, self.shows_ts)?;
                let filter = prepared.as_ref().map_or(filter, DocBuf::as_doc);
                let sent = predicate.alive(filter);
                writing.push("$match", ValueRef::document(sent.as_doc()));
                Ok(own)
            }
            ConditionPosition::InQuery => {
                let Some(spec) = spec else {
                    return Ok(false);
                };
                let query = super::fields::doc_or_empty(spec, "query");
                let prepared = prepared(query, writing.rules, self.shows_ts)?;
                let query = prepared.as_ref().map_or(query, DocBuf::as_doc);
                let query = predicate.alive(query);
                let sent = DocBuf::build(|out| {
                    super::stamp::put_without(spec, &["query"], out);
                    out.put_doc("query", query.as_doc());
                });
                writing.push(stage.name(), ValueRef::document(sent.as_doc()));
                Ok(true)
            }
            ConditionPosition::Behind => {
                writing.push(stage.name(), stage.value);
                let sent = predicate.alive(Doc::EMPTY);
                writing.push("$match", ValueRef::document(sent.as_doc()));
                Ok(true)
            }
        }
    }

    fn stage(
        &self,
        stage: &Elem<'_>,
        row: &Entry,
        later: &[Doc<'_>],
        writing: &mut StageOutput<'_, '_, '_>,
    ) -> Result<()> {
        let taken = row.facts.documents == DocumentsAfter::Taken;
        let filter = stage.value.as_doc().filter(|_| stage.name() == "$match");
        let sees_whole = filter.is_none() && sees_whole(stage.value);
        let hides = writing.rows.hidden || writing.rows.rides;
        let without = match sees_whole && !taken {
            true => self.without_hidden(stage, row, writing),
            false => None,
        };
        let rewritten = without.as_ref().and_then(|stage| stage.as_doc().first());
        let stage = rewritten.as_ref().unwrap_or(stage);
        let cannot_ride = writing.rows.rides && stage.name() == "$redact";
        if hides && (taken || cannot_ride || (sees_whole && rewritten.is_none())) {
            // `_ts` that is shown in rows is still not the target's.
            let stored = matches!(stage.name(), "$merge" | "$out") && !self.keeps_row_ts(stage);
            let hidden = self.hidden(writing, self.shows_ts && !stored);
            unset(&hidden, "", writing.out);
            writing.rows = RowFacts::default();
        }
        if self.shows_ts {
            writing.rows.added.extend(added(stage, row));
        }
        match row.facts.documents {
            DocumentsAfter::Pass => {
                if writing.rows.testable && touches(writing.rules, row, stage) {
                    writing.ride(later);
                }
            }
            DocumentsAfter::Joined => writing.ride(later),
            DocumentsAfter::Replaced if replaces_root(stage.name()) => {
                writing.ride(later);
                if writing.rows.rides {
                    writing.replace_root(stage);
                    return Ok(());
                }
                writing.rows = RowFacts::default();
            }
            DocumentsAfter::Replaced | DocumentsAfter::Taken => writing.rows = RowFacts::default(),
            DocumentsAfter::Selected => {
                if self.select(stage, later, writing) {
                    return Ok(());
                }
            }
        }
        match stage.name() {
            "$match" => {
                let hides = writing.rows.hidden;
                let prepared = filter
                    .filter(|_| hides)
                    .map(|filter| prepared(filter, writing.rules, self.shows_ts));
                let prepared = prepared.transpose()?.flatten();
                let sent = prepared
                    .as_ref()
                    .map(|sent| ValueRef::document(sent.as_doc()));
                writing.push("$match", sent.unwrap_or(stage.value));
                Ok(())
            }
            "$lookup" => self.lookup(stage, later, writing),
            "$graphLookup" => self.graph_lookup(stage, writing),
            "$unionWith" => self.union_with(stage, writing),
            "$facet" => self.facet(stage, writing),
            "$merge" => self.merge(stage, writing),
            "$out" => {
                if let Some((db, coll)) = target(stage, self.database) {
                    self.stamp(&self.book.rules(db, coll), writing);
                }
                writing.push(stage.name(), stage.value);
                Ok(())
            }
            _ => {
                writing.push(stage.name(), stage.value);
                Ok(())
            }
        }
    }

    /// Returns a stage that sees whole documents, so that it sees them without the hidden fields. `None` if the fields have to
    /// be removed from the rows instead.
    fn without_hidden(
        &self,
        stage: &Elem<'_>,
        row: &Entry,
        writing: &StageOutput<'_, '_, '_>,
    ) -> Option<DocBuf> {
        let tested = writing.rows.testable || writing.rows.rides;
        let maps = matches!(row.status, Status::Ready(StageParser::Each(_)));
        if !tested || !maps {
            return None;
        }
        let whole = DocBuf::build(|out| {
            out.put(stage.name(), stage.value);
        });
        let without = WithoutHidden {
            variables: &["$$ROOT", "$$CURRENT"],
            hidden: &self.hidden(writing, self.shows_ts),
        };
        match without.apply(whole.as_doc()) {
            Ok(changed) => Some(changed.unwrap_or(whole)),
            Err(_) => None,
        }
    }

    /// Returns the hidden fields that rows have here.
    fn hidden(&self, writing: &StageOutput<'_, '_, '_>, shows_ts: bool) -> Vec<&'static str> {
        let mut fields = match writing.rows.hidden {
            true => hidden(writing.rules, shows_ts).to_vec(),
            false => Vec::new(),
        };
        if writing.rows.rides && !fields.contains(&HIDDEN_FIELD) {
            fields.push(HIDDEN_FIELD);
        }
        fields
    }

    /// Lets the fields of the rule stay in rows through a `$project`, if no later stage could see them. Otherwise they ride in
    /// the hidden field. Returns whether the stage is written.
    fn select(
        &self,
        stage: &Elem<'_>,
        later: &[Doc<'_>],
        writing: &mut StageOutput<'_, '_, '_>,
    ) -> bool {
        let Some(spec) = stage.value.as_doc() else {
            return false;
        };
        let carried = Carried::new(spec, writing.rules);
        let harmless = |stage: &Doc<'_>| {
            let seen = |name: &str| contains(stage.bytes(), name.as_bytes());
            stage.first().is_some_and(|first| {
                let row = STAGES.find(first.name_bytes());
                row.is_some_and(|row| row.facts.documents == DocumentsAfter::Pass)
                    && !sees_whole(first.value)
                    && !carried.cut.iter().any(|name| seen(name))
            })
        };
        if !(carried.complete && later.iter().all(harmless)) {
            writing.ride(later);
        }
        let rows = &mut writing.rows;
        if !rows.testable {
            rows.hidden &= !carried.inclusive;
            rows.carried.clear();
            if rows.rides && carried.inclusive {
                let sent = DocBuf::build(|out| {
                    out.put_body(spec.body());
                    out.put_i32(HIDDEN_FIELD, 1);
                });
                writing.push(stage.name(), ValueRef::document(sent.as_doc()));
                return true;
            }
            return false;
        }
        rows.carried.extend(carried.cut);
        match carried.projection {
            None => false,
            Some(projection) => {
                // An empty one is refused. It would change nothing.
                if !projection.as_doc().is_empty() {
                    let spec = ValueRef::document(projection.as_doc());
                    writing.push(stage.name(), spec);
                }
                true
            }
        }
    }
}

// === impl RowFacts ===

impl RowFacts {
    /// Returns what happens to these rows when they leave.
    pub fn rule(self, rules: &CollectionRules, shows_ts: bool) -> Result<RowRule> {
        let tested = self.testable || self.rides;
        let test = tested.then(|| Visibility::new(rules)).transpose()?;
        let hidden = match self.hidden {
            true => hidden(rules, shows_ts),
            false => &[],
        };
        let cut = hidden.iter().map(|&name| name.into()).chain(self.carried);
        let riding = self.rides && !hidden.contains(&HIDDEN_FIELD);
        let cut = cut.chain(riding.then(|| HIDDEN_FIELD.into()));
        Ok(RowRule {
            test: test.map(Arc::new),
            whole: self.whole,
            rides: self.rides,
            cut: cut.collect(),
            shows_ts,
            ts_last: self.hidden && rules.stores_ts && shows_ts,
            added: self.added,
            joined: self.joined,
            ts_since: None,
        })
    }
}

// === impl StageOutput ===

impl StageOutput<'_, '_, '_> {
    pub fn push(&mut self, name: &str, spec: ValueRef<'_>) {
        self.out.doc().put(name, spec);
    }

    /// The rows are about to lose what the rule needs: from here on it rides in the hidden field, if the rows still stand for one
    /// document each at the end.
    fn ride(&mut self, later: &[Doc<'_>]) {
        if !self.rows.testable {
            return;
        }
        self.rows.testable = false;
        let keeps_origin = |stage: &Doc<'_>| {
            stage.first().is_some_and(|stage| {
                let row = STAGES.find(stage.name_bytes());
                row.is_some_and(|row| match row.facts.documents {
                    DocumentsAfter::Pass => stage.name() != "$redact",
                    DocumentsAfter::Joined | DocumentsAfter::Selected => true,
                    DocumentsAfter::Replaced => replaces_root(stage.name()),
                    DocumentsAfter::Taken => false,
                })
            })
        };
        if later.iter().all(keeps_origin) {
            self.out.push_doc(riding(self.rules).as_doc());
            self.rows.rides = true;
        }
    }

    /// Writes a `$replaceRoot` whose rows keep what rides along.
    fn replace_root(&mut self, stage: &Elem<'_>) {
        self.rows.hidden = false;
        self.rows.carried.clear();
        let spec = stage
            .value
            .as_doc()
            .filter(|_| stage.name() == "$replaceRoot");
        let new_root = match stage.name() {
            "$replaceRoot" => spec.map_or(ValueRef::MISSING, |spec| spec.get("newRoot")),
            _ => stage.value,
        };
        if new_root.is_missing() {
            self.push(stage.name(), stage.value);
            return;
        }
        let sent = riding_root(new_root);
        let sent = match spec {
            None => sent,
            Some(spec) => with_replaced(spec, &[("newRoot", ValueRef::document(sent.as_doc()))]),
        };
        self.push(stage.name(), ValueRef::document(sent.as_doc()));
    }
}

/// Returns whether the rows of a pipeline are whole documents.
pub fn is_whole(stages: Doc<'_>) -> bool {
    names(stages).all(|stage| {
        let row = STAGES.find(stage.name_bytes());
        row.is_some_and(|row| matches!(row.facts.changes, Changes::Nothing))
    })
}

fn replaces_root(stage: &str) -> bool {
    matches!(stage, "$replaceRoot" | "$replaceWith")
}

/// Returns the root fields that a stage may add to documents.
fn added(stage: &Elem<'_>, row: &Entry) -> Vec<Box<str>> {
    let mut added = Vec::new();
    let spec = stage.value.as_doc().unwrap_or(Doc::EMPTY);
    match (stage.name(), row.facts.changes) {
        (_, Changes::Fields(each)) => each(stage.value, &mut |path| added.push(root(path).into())),
        (_, Changes::Selection(..)) => added.extend(computed(spec)),
        ("$unwind", _) => {
            let index = spec.get("includeArrayIndex").as_str();
            added.extend(index.map(|index| root(index).into()));
        }
        _ => {}
    }
    added
}

/// Returns whether a stage changes a field that the rule reads.
fn touches(rules: &CollectionRules, row: &Entry, stage: &Elem<'_>) -> bool {
    let reads = |path: &str| {
        let path = path.strip_prefix('$').unwrap_or(path);
        let own = rules.stamped && root(path) == OwnTtl::FIELD;
        own || date_rules(rules).any(|rule| root(&rule.path) == root(path))
    };
    let mut touched = false;
    match (stage.name(), row.facts.changes) {
        ("$unwind", _) => {
            let path = stage
                .value
                .as_doc()
                .map_or(stage.value, |spec| spec.get("path"));
            touched = path.as_str().is_some_and(reads);
        }
        (_, Changes::Fields(each)) => each(stage.value, &mut |path| touched |= reads(path)),
        _ => {}
    }
    // A partial filter may read any field.
    let partial = date_rules(rules).any(|rule| rule.filter.is_some());
    touched || (partial && !matches!(row.facts.changes, Changes::Nothing))
}

fn not_possible(stage: &str) -> Error {
    Error::not_implemented(format_args!(
        "{stage} on a collection with a TTL, in front of a cluster,"
    ))
}
