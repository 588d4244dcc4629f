//! `$sortByCount`: the number of occurrences of each value, most frequent first. It is parsed into a `$group` and a
//! `$sort`.

use std::sync::Arc;

use super::group::Group;
use super::{Stage, StageContext};
use crate::error::{Error, Result};
use crate::query::Expr;
use crate::query::sort::Sort;
use crate::value::{DocBuf, Type, ValueRef};

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    match value.ty() {
        Type::Document => {
            let operator = value
                .as_doc()
                .and_then(|doc| doc.first())
                .is_some_and(|first| first.name().starts_with('$'));
            if !operator {
                return Err(Error::location(
                    40147,
                    "the sortByCount field must be defined as a $-prefixed path or an expression inside an object",
                ));
            }
        }
        Type::String => {
            if !value.as_str().is_some_and(|text| text.starts_with('$')) {
                return Err(Error::location(
                    40148,
                    "the sortByCount field must be defined as a $-prefixed path or an expression inside an object",
                ));
            }
        }
        _ => {
            return Err(Error::location(
                40149,
                "the sortByCount field must be specified as a string or as an object",
            ));
        }
    }
    let key = Expr::parse(value, context.scope)?;
    push(Stage::StageOp(Arc::new(Group::counting(key, "count")?)));
    let order = DocBuf::build(|doc| {
        doc.put_i32("count", -1);
    });
    push(Stage::Sort(Arc::new(Sort::parse(order.as_doc())?), None));
    Ok(())
}
