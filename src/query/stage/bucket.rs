//! `$bucket`: groups rows by the range of a value. It is parsed into a `$group` and a `$sort`.

use std::sync::Arc;

use super::group::{Group, GroupFields, Key};
use super::{Stage, StageContext};
use crate::args::{Arg, fields, object};
use crate::error::{Error, Result};
use crate::query::sort::Sort;
use crate::query::{Expr, Scope, Survey, Vars};
use crate::value::{ClusterTime, Doc, DocBuf, Millis, Type, Val, Value, ValueRef, compare};

/// Ranges. Each one includes its lower boundary and excludes the upper one.
pub(super) struct Buckets {
    by: Expr,
    boundaries: Vec<Value>,
    default: Option<Value>,
}

pub(super) fn parse(
    value: ValueRef<'_>,
    context: &StageContext<'_>,
    push: &mut dyn FnMut(Stage),
) -> Result<()> {
    let words = "Argument to $bucket stage must be an object, but found type: {}.";
    let (mut by, mut boundaries, mut default, mut output) = (None, None, None, None);
    for option in fields("$bucket", object(value, 40201, words)?) {
        let given = option.value();
        match option.name() {
            "groupBy" => {
                by = Some(expression(given, (40202, "$bucket", "an expression", "."))?);
            }
            "boundaries" => boundaries = Some(parse_boundaries(option, context)?),
            "default" => default = Some(parse_default(given, context)?),
            "output" => output = Some(output_object(option, 40196, "$bucket")?),
            _ => return Err(option.refuse(40197, "Unrecognized option to $bucket: {}.")),
        }
    }
    let (Some(by), Some(boundaries)) = (by, boundaries) else {
        return Err(Error::location(
            40198,
            "$bucket requires 'groupBy' and 'boundaries' to be specified.",
        ));
    };
    check_default(default.as_ref(), &boundaries)?;
    // MongoDB parses the `$group` that it makes of the stage: first the fields of `output`, then the key.
    let fields = match output {
        Some(output) => parse_output(output, context)?,
        None => GroupFields::count("count")?,
    };
    let by = Expr::parse(by, context.scope)?;
    check_constant(&by, default.as_ref(), &boundaries, context.scope)?;
    let buckets = Buckets {
        by,
        boundaries,
        default,
    };
    push(Stage::StageOp(Arc::new(Group::new(
        Key::Buckets(buckets),
        fields,
    ))));
    let order = DocBuf::build(|doc| {
        doc.put_i32("_id", 1);
    });
    push(Stage::Sort(Arc::new(Sort::parse(order.as_doc())?), None));
    Ok(())
}

/// Returns the field `groupBy`, if it can be an expression. `wanted` holds the code, the stage and the wording of the error.
pub(super) fn expression<'v>(
    given: ValueRef<'v>,
    (code, stage, what, end): (i32, &str, &str, &str),
) -> Result<ValueRef<'v>> {
    match is_expression(given) {
        true => Ok(given),
        false => Err(Error::location(
            code,
            format!(
                "The {stage} 'groupBy' field must be defined as a $-prefixed path or {what}, but found: {given}{end}"
            ),
        )),
    }
}

/// Returns the field `output`, which must be an object.
pub(super) fn output_object<'v>(option: Arg<'v>, code: i32, stage: &str) -> Result<Doc<'v>> {
    let words = format!("The {stage} 'output' field must be an object, but found type: {{}}.");
    option.expect(ValueRef::as_doc, code, &words)
}

fn parse_output(output: Doc<'_>, context: &StageContext<'_>) -> Result<GroupFields> {
    let fields = GroupFields::parse(output, context.scope)?;
    if fields.has("_id") {
        return Err(Error::location(
            15948,
            "a group's _id may only be specified once",
        ));
    }
    Ok(fields)
}

fn parse_default(given: ValueRef<'_>, context: &StageContext<'_>) -> Result<Value> {
    let expr = Expr::parse(given, &context.scope.clone().at_once())?;
    let constant = expr.as_const().ok_or_else(|| {
        let words = "The $bucket 'default' field must be a constant expression, but found: {}.";
        Error::found(40195, words, &given.to_string())
    })?;
    Ok(constant.to_value())
}

/// Checks that the default lies outside all ranges.
fn check_default(default: Option<&Value>, boundaries: &[Value]) -> Result<()> {
    if let (Some(default), Some(first), Some(last)) =
        (default, boundaries.first(), boundaries.last())
        && compare(default.as_ref(), first.as_ref()).is_ge()
        && compare(default.as_ref(), last.as_ref()).is_lt()
    {
        return Err(Error::location(
            40199,
            "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.",
        ));
    }
    Ok(())
}

/// Notes a constant that has no bucket, as the optimiser of MongoDB's `$switch` does.
fn check_constant(
    by: &Expr,
    default: Option<&Value>,
    boundaries: &[Value],
    scope: &Scope,
) -> Result<()> {
    match by.as_const() {
        Some(value) if default.is_none() && range_of(value, boundaries).is_none() => {
            let failure = Error::location(
                40069,
                "Cannot execute a switch statement where all the cases evaluate to false without a default",
            );
            scope.report(failure).map_or(Ok(()), Err)
        }
        _ => Ok(()),
    }
}

/// Returns the lower boundary of the range that contains the value.
fn range_of<'b>(value: ValueRef<'_>, boundaries: &'b [Value]) -> Option<&'b Value> {
    let above = boundaries.partition_point(|boundary| compare(boundary.as_ref(), value).is_le());
    let at = above.checked_sub(1).filter(|_| above < boundaries.len())?;
    boundaries.get(at)
}

/// Returns whether the value is a "$path" or `{$operator: ...}`, as `groupBy` requires.
fn is_expression(value: ValueRef<'_>) -> bool {
    match value.ty() {
        Type::String => value.as_str().is_some_and(|text| text.starts_with('$')),
        Type::Document => value
            .as_doc()
            .and_then(|doc| doc.first())
            .is_some_and(|first| first.name().starts_with('$')),
        _ => false,
    }
}

fn parse_boundaries(option: Arg<'_>, context: &StageContext<'_>) -> Result<Vec<Value>> {
    let words = "The $bucket 'boundaries' field must be an array, but found type: {}.";
    let array = option.expect(ValueRef::as_array, 40200, words)?;
    let mut boundaries = Vec::new();
    let scope = context.scope.clone().at_once();
    for elem in array {
        let expr = Expr::parse(elem.value, &scope)?;
        let Some(constant) = expr.as_const() else {
            // A constant expression that cannot be evaluated reports its own error.
            if !expr.reads_document() {
                let time = ClusterTime::from_parts(0, 1);
                expr.eval(Doc::EMPTY, &Vars::at(Millis(0)).with_cluster_time(time))?;
            }
            return Err(Error::location(
                40191,
                format!(
                    "The $bucket 'boundaries' field must be an array of constant values, but found value: {}.",
                    elem.value
                ),
            ));
        };
        boundaries.push(constant.to_value());
    }
    if boundaries.len() < 2 {
        return Err(Error::location(
            40192,
            format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
                boundaries.len()
            ),
        ));
    }
    for (at, pair) in boundaries.windows(2).enumerate() {
        let [lower, upper] = pair else { continue };
        if lower.ty().rank() != upper.ty().rank() {
            return Err(Error::location(
                40193,
                format!(
                    "All values in the the 'boundaries' option to $bucket must have the same type. Found conflicting types {} and {}.",
                    lower.ty().alias(),
                    upper.ty().alias()
                ),
            ));
        }
        if compare(lower.as_ref(), upper.as_ref()).is_ge() {
            return Err(Error::location(
                40194,
                format!(
                    "The 'boundaries' option to $bucket must be sorted, but elements {at} and {} are not in ascending order ({} is not less than {}).",
                    at + 1,
                    lower.as_ref(),
                    upper.as_ref()
                ),
            ));
        }
    }
    Ok(boundaries)
}

// === impl Buckets ===

impl Buckets {
    pub fn survey(&self, survey: &mut Survey<'_>) {
        survey.expr(&self.by);
    }

    /// Returns the lower boundary of the range that contains the row. It is the `_id` of the row's group.
    pub fn find<'a>(&'a self, doc: Doc<'a>, vars: &'a Vars) -> Result<Val<'a>> {
        let value = self.by.eval(doc, vars)?;
        let found = range_of(value.as_ref(), &self.boundaries).or(self.default.as_ref());
        found.map(|value| Val::Ref(value.as_ref())).ok_or_else(|| {
            Error::location(
                40066,
                "$switch could not find a matching branch for an input, and no default was specified.",
            )
        })
    }
}
