//! `$expr`, `$jsonSchema`, `$sampleRate`, `$comment`.

use std::cell::Cell;
use std::sync::Arc;

use super::{ExprTest, FilterNode, Schema, parse::ParseContext};
use crate::{
    error::{Error, Result},
    query::Expr,
    value::ValueRef,
};

pub(super) fn comment(
    _: &ParseContext<'_>,
    _: &str,
    _: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    Ok(None)
}

pub(super) fn expr(
    cx: &ParseContext<'_>,
    _: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    if cx.inner {
        return Err(Error::bad_value(
            "$expr can only be applied to the top-level document",
        ));
    }
    cx.allows("$expr")?;
    cx.scope.check_expression()?;
    let expr = Expr::parse_filter(arg, cx.scope, cx.failed)?;
    let test = ExprTest::new(expr, arg.to_value());
    Ok(Some(FilterNode::Expr(Arc::new(test))))
}

pub(super) fn json_schema(
    cx: &ParseContext<'_>,
    _: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    cx.allows("$jsonSchema")?;
    let Some(doc) = arg.as_doc() else {
        return Err(Error::type_mismatch("$jsonSchema must be an object"));
    };
    let schema = Schema::parse(doc)?;
    Ok(Some(FilterNode::Schema(Arc::new((schema, arg.to_value())))))
}

pub(super) fn sample_rate(
    cx: &ParseContext<'_>,
    _: &str,
    arg: ValueRef<'_>,
) -> Result<Option<FilterNode>> {
    if cx.inner {
        return Err(Error::bad_value(
            "$sampleRate can only be applied to the top-level document",
        ));
    }
    let Some(num) = arg.as_num() else {
        return Err(Error::bad_value(
            "argument to $sampleRate must be a numeric type",
        ));
    };
    let rate = num.to_f64();
    if !(0.0..=1.0).contains(&rate) {
        return Err(Error::bad_value(
            "numeric argument to $sampleRate must be in [0, 1]",
        ));
    }
    Ok(Some(if rate == 0.0 {
        FilterNode::False
    } else if rate == 1.0 {
        FilterNode::True
    } else {
        FilterNode::Sample(rate)
    }))
}

/// Returns true with the given probability. Its random source needs an even distribution and nothing more.
pub(super) fn sample(rate: f64) -> bool {
    thread_local! {
        static STATE: (ahash::RandomState, Cell<u64>) = (ahash::RandomState::new(), Cell::new(0));
    }
    let bits = STATE.with(|(keys, counter)| {
        counter.set(counter.get().wrapping_add(1));
        keys.hash_one(counter.get())
    });
    (bits >> 11) as f64 / (1u64 << 53) as f64 <= rate
}
