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
use crate::value::{Doc, DocBuf, Type, ValueRef, is_true};

use super::carry::{Carried, computed, hidden, is_positional};
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
        let by_id = testable && number("skip") == 0 && is_by_id(filter);

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
                added: computed(doc_or_empty(command, "projection")).collect(),
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

/// Returns whether a find by `_id` passes as it is, and its row is a whole document that is tested by the default alone.
pub fn is_plain_by_id(command: Doc<'_>, rules: &CollectionRules) -> bool {
    let mut by_id = false;
    let is_plain = command.iter().all(|elem| match elem.name_bytes() {
        b"filter" => {
            let filter = elem.value.as_doc();
            // A document may have the name of a hidden field in it, which is refused.
            let is_scalar = |filter: Doc<'_>| {
                let id = filter.first();
                id.is_some_and(|id| id.value.ty() != Type::Document)
            };
            by_id = filter.is_some_and(|filter| is_by_id(filter) && is_scalar(filter));
            by_id
        }
        b"find" | b"limit" | b"singleBatch" | b"lsid" | b"txnNumber" | b"autocommit"
        | b"startTransaction" | b"readConcern" | b"maxTimeMS" | b"$clusterTime" | b"$db" => true,
        _ => false,
    });
    is_plain && by_id && rules.dates.is_empty() && rules.former.is_none()
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

/// Returns whether a filter is nothing but an equality on `_id`.
pub fn is_by_id(filter: Doc<'_>) -> bool {
    let mut fields = filter.iter();
    let id = fields.next().filter(|elem| elem.name_bytes() == b"_id");
    let (Some(id), None) = (id, fields.next()) else {
        return false;
    };
    let is_compared = |ty| {
        !matches!(
            ty,
            Type::Missing | Type::Regex | Type::Array | Type::Null | Type::Undefined
        )
    };
    match id.value.ty() {
        Type::Document => {
            let inner = Doc::new(id.value.data());
            let mut names = inner.iter();
            match names.any(|elem| elem.name_bytes().starts_with(b"$")) {
                false => true,
                true => inner.count() == 1 && is_compared(inner.get("$eq").ty()),
            }
        }
        ty => is_compared(ty),
    }
}
