//! Building the ordered index of `_id`s, before planning a query that asks for a range or an order of `_id`s, or names
//! their index in a hint.
//!
//! The map from `_id` to record supports neither. Planning itself writes nothing, so a caller that plans a query calls
//! [`order_ids`] first.

use std::sync::Arc;

use super::plan::Hint;
use crate::error::Result;
use crate::interrupt::{self, Background, in_background};
use crate::query::filter::{CompareOp, Filter, FilterNode, Test};
use crate::query::sort::Sort;
use crate::storage::{Collection, ReadPoint};

const ID_FIELD: &str = "_id";

/// Builds the ordered index of `_id`s if the query would use it. For a small collection this happens at once. For a larger
/// one the runtime builds it in steps, and this query runs without it.
pub fn order_ids(
    collection: &Arc<Collection>,
    filter: &Filter,
    sort: Option<&Sort>,
    hint: Option<&Hint>,
    at: ReadPoint,
) -> Result<()> {
    let sorts = sort
        .and_then(|sort| sort.parts().next())
        .is_some_and(|(path, _)| path.as_str() == ID_FIELD);
    let hinted = hint.is_some_and(Hint::names_ids);
    if !sorts && !hinted && !wants_range(filter.root())? {
        return Ok(());
    }
    let Some(mut build) = collection.begin_id_order(at.now()) else {
        return Ok(());
    };
    if build.is_short() {
        while !build.step() {}
    } else {
        in_background(move || match build.step() {
            true => Background::Done,
            false => Background::More,
        });
    }
    Ok(())
}

fn wants_range(node: &FilterNode) -> Result<bool> {
    interrupt::tick(1)?;
    Ok(match node {
        FilterNode::And(nodes) => {
            for node in nodes {
                if wants_range(node)? {
                    return Ok(true);
                }
            }
            false
        }
        FilterNode::Field(field) if field.path.as_str() == ID_FIELD => match &field.test {
            Test::Compare(comparison) => comparison.op != CompareOp::Eq,
            Test::Regex(_) => true,
            _ => false,
        },
        FilterNode::Expr(expr) => expr
            .ordered
            .iter()
            .any(|order| order.path.as_str() == ID_FIELD),
        _ => false,
    })
}
