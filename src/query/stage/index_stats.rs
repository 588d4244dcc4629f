//! `$indexStats`: one row for each index, with its usage count.

use std::sync::Arc;

use super::coll_stats::ReportStage;
use super::{CollectionName, Report, Stage, StageContext};
use crate::error::{Error, Result};
use crate::value::{Doc, ValueRef};

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    if !value.as_doc().is_some_and(Doc::is_empty) {
        return Err(Error::location(
            28803,
            "The $indexStats stage specification must be an empty object",
        ));
    }
    push(Stage::StageOp(Arc::new(ReportStage {
        on: CollectionName::new(context.db, context.coll.unwrap_or_default()),
        what: Report::IndexStats,
    })));
    Ok(())
}
