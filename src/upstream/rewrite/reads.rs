//! `count` and `distinct`: a filter, and a reply without documents.

use crate::error::Result;
use crate::upstream::CollectionRules;
use crate::value::{Doc, DocBuf, ValueRef};

use super::fields::{doc_or_empty, with_fields};
use super::filter::prepared;
use super::naming::Parts;
use super::{EndedPredicate, Moment, hint};

/// Returns the command with the predicate in its filter.
pub fn rewrite(command: Doc<'_>, rules: &CollectionRules, moment: Moment) -> Result<DocBuf> {
    let filter = doc_or_empty(command, "query");
    let shows_ts = moment.expose_ts
        || Parts {
            filter: Some(filter),
            ..Parts::default()
        }
        .name_ts();
    let prepared = prepared(filter, rules, shows_ts)?;
    let filter = prepared.as_ref().map_or(filter, DocBuf::as_doc);
    let sent = EndedPredicate::new(rules, moment.now).alive(filter);
    Ok(with_fields(
        command,
        &[
            ("query", ValueRef::document(sent.as_doc())),
            hint::sent(command, rules),
        ],
    ))
}
