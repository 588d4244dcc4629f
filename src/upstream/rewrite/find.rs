//! `find`.
//!
//! | the filter | what is sent | who tests the rows |
//! |---|---|---|
//! | `_id` equals a value | the filter alone | Sundown |
//! | anything else | the filter and the predicate | the cluster, and Sundown once more |
//! | with a positional projection | the filter alone, without skip and limit | Sundown, which also counts |

use std::sync::Arc;

use crate::error::Result;
use crate::upstream::CollectionRules;
use crate::value::{Doc, DocBuf, Type, Value, ValueRef, is_true};

use super::carry::{Carried, hidden, is_positional};
use super::fields::{doc_or_empty, with_fields};
use super::filter::prepared;
use super::naming::Parts;
use super::rows::{RowRule, Window};
use super::whole::WithoutHidden;
use super::{EndedPredicate, Moment, Visibility, hint};

/// A find as it is sent, and what becomes of its rows.
pub struct FindRewrite {
    pub body: DocBuf,
    pub rows: RowRule,
    pub window: Window,
    /// Sundown counts the rows, and the client wants all of them in one batch.
    pub gathers: bool,
}

// === impl FindRewrite ===

impl FindRewrite {
    pub fn rewrite(command: Doc<'_>, rules: &CollectionRules, moment: Moment) -> Result<Self> {
        let filter = doc_or_empty(command, "filter");
        let projection = command.get("projection").as_doc();
        let is_key = is_true(command.get("returnKey"));
        // The key of an index on `_ts` contains it, whoever names it.
        let shows_ts = moment.expose_ts || is_key || names_ts(command);
        let hidden = hidden(rules, shows_ts);
        let carried = Carried::new(projection.unwrap_or(Doc::EMPTY), rules);
        let testable = carried.complete && !is_key;

        let number = |name| {
            command
                .get(name)
                .as_num()
                .map_or(0, |n| n.to_i64_saturating())
        };
        let positional =
            projection.is_some_and(is_positional) && EndedPredicate::needs_expr(rules) && testable;
        let by_id = testable && number("skip") == 0 && id_of(filter).is_some();

        let prepared = prepared(filter, rules, shows_ts)?;
        let filter = prepared.as_ref().map_or(filter, DocBuf::as_doc);
        let sent = match by_id || positional {
            true => DocBuf::from(filter),
            false => EndedPredicate::new(rules, moment.now).alive(filter),
        };
        let projection = carried
            .projection
            .as_ref()
            .map(DocBuf::as_doc)
            .or(projection);
        let without = WithoutHidden {
            variables: &["$$ROOT", "$$CURRENT"],
            hidden,
        };
        let rewritten = projection.map(|p| without.apply(p)).transpose()?.flatten();
        let projection = rewritten.as_ref().map(DocBuf::as_doc).or(projection);

        let filter = ("filter", ValueRef::document(sent.as_doc()));
        let mut fields = vec![filter, hint::sent(command, rules)];
        fields.extend(projection.map(|p| ("projection", ValueRef::document(p))));
        let mut window = Window::default();
        let mut gathers = false;
        if positional {
            let limit = number("limit").unsigned_abs();
            window.skip = number("skip").unsigned_abs();
            window.limit = (limit > 0).then_some(limit);
            gathers = is_true(command.get("singleBatch"));
            fields.extend(["skip", "limit", "singleBatch"].map(|name| (name, ValueRef::MISSING)));
        }
        let test = testable.then(|| Visibility::new(rules)).transpose()?;
        let cut = hidden.iter().map(|&name| name.into()).chain(carried.cut);
        Ok(Self {
            body: with_fields(command, &fields),
            rows: RowRule {
                test: test.map(Arc::new),
                whole: is_whole(command),
                rides: false,
                joined: Vec::new(),
                cut: cut.collect(),
                shows_ts,
                ts_last: rules.stamped && rules.stores_ts && shows_ts && !is_key,
                ts_since: projection.is_none().then_some(rules.since),
            },
            window,
            gathers,
        })
    }
}

/// Returns whether a find names `_ts`.
pub fn names_ts(command: Doc<'_>) -> bool {
    let parts = Parts {
        filter: command.get("filter").as_doc(),
        sort: command.get("sort").as_doc(),
        projection: command.get("projection").as_doc(),
        lets: command.get("let").as_doc(),
        ..Parts::default()
    };
    parts.name_ts()
}

/// Returns whether the rows of a find are whole documents.
pub fn is_whole(command: Doc<'_>) -> bool {
    doc_or_empty(command, "projection").is_empty() && !is_true(command.get("returnKey"))
}

/// Returns the `_id` if a filter is nothing but an equality on it.
pub fn id_of(filter: Doc<'_>) -> Option<Value> {
    let mut fields = filter.iter();
    let id = fields.next().filter(|elem| elem.name() == "_id")?.value;
    if fields.next().is_some() {
        return None;
    }
    match id.ty() {
        Type::Regex | Type::Array | Type::Null | Type::Undefined => None,
        Type::Document => {
            let inner = Doc::new(id.data());
            let operator = inner.iter().any(|elem| elem.name().starts_with('$'));
            let equals = inner.get("$eq");
            match (operator, inner.count()) {
                (false, _) => Some(id.to_value()),
                (true, 1)
                    if !matches!(
                        equals.ty(),
                        Type::Missing | Type::Regex | Type::Array | Type::Null
                    ) =>
                {
                    Some(equals.to_value())
                }
                _ => None,
            }
        }
        _ => Some(id.to_value()),
    }
}
