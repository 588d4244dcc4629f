//! Dates: their parts, their text, and arithmetic with them, in any time zone.
//!
//! A BSON date is a number of milliseconds since 1970. [`civil`] converts days to calendar dates. [`zone`] gives the offset
//! of a time zone from UTC, from the time zone database that is compiled in. The other files are operators, each family in
//! its own. Nothing here reads a clock.

pub mod civil;
mod diff;
mod extract;
mod format;
mod parts;
mod scan;
mod shift;
pub mod text;
mod trunc;
mod unit;
pub mod zone;

pub use diff::date_diff;
pub use extract::{DatePart, extract};
pub use format::date_to_string;
pub use parts::{date_from_parts, date_to_parts};
pub use scan::date_from_string;
pub use shift::{date_add, date_subtract};
pub use trunc::date_trunc;

use super::Env;
use super::args::ExprArgument;
use super::node::{Expr, ExprOp};
use crate::error::{Error, Result};
use crate::value::{Type, ValueRef};
use zone::Zone;

/// The `timezone` argument. A constant zone is looked up once, when the expression is parsed. A constant that is no zone counts
/// as computed: null in another argument may win over it.
#[derive(Debug)]
enum ZoneArg {
    Known(Zone),
    Null,
    Computed(Expr),
}

// === impl ZoneArg ===

impl ZoneArg {
    fn parse(value: Option<ValueRef<'_>>, arg: ExprArgument<'_>) -> Result<Self> {
        arg.optional(value).map(Self::of)
    }

    fn of(given: Option<Expr>) -> Self {
        let Some(expr) = given else {
            return Self::Known(Zone::UTC);
        };
        match expr.as_const().map(zone_of) {
            Some(Ok(Some(zone))) => Self::Known(zone),
            Some(Ok(None)) => Self::Null,
            Some(Err(_)) | None => Self::Computed(expr),
        }
    }

    /// Returns the error of a constant that is no zone.
    fn check(&self) -> Result<()> {
        match self {
            Self::Computed(expr) => check_const(Some(expr), |value| zone_of(value).map(drop)),
            Self::Known(_) | Self::Null => Ok(()),
        }
    }

    /// Returns the zone, or `None` if it is null. The result of the operator is then null.
    fn eval<'a>(&'a self, env: Env<'a>) -> Result<Option<Zone>> {
        match self {
            Self::Known(zone) => Ok(Some(zone.clone())),
            Self::Null => Ok(None),
            Self::Computed(expr) => zone_of(expr.eval_in(env)?.as_ref()),
        }
    }

    /// Returns the error of a constant that is no zone, in the words of `$dateDiff` and `$dateTrunc`.
    fn check_for(&self, name: &str) -> Result<()> {
        self.check().map_err(|error| not_a_zone(error, name))
    }

    /// Returns the zone, or an error in the words of `$dateDiff` and `$dateTrunc`.
    fn eval_for<'a>(&'a self, name: &str, env: Env<'a>) -> Result<Option<Zone>> {
        self.eval(env).map_err(|error| not_a_zone(error, name))
    }

    fn each(&self, visit: &mut dyn FnMut(&Expr)) {
        if let Self::Computed(expr) = self {
            visit(expr);
        }
    }
}

fn not_a_zone(error: Error, name: &str) -> Error {
    error.caused(&format!("{name} parameter 'timezone' value parsing failed"))
}

/// Returns an operator, or its value if all arguments are constant.
///
/// If only some are constant, `check` looks at those. MongoDB does so when it optimises the expression, hence a wrong one fails
/// even where null in another argument would win.
fn operator<T: ExprOp + 'static>(op: T, check: impl FnOnce(&T) -> Result<()>) -> Expr {
    let mut is_constant = true;
    let mut failed = None;
    op.each(&mut |expr| {
        is_constant &= expr.as_const().is_some();
        if let (None, Expr::Fails(error)) = (&failed, expr) {
            failed = Some(error.clone());
        }
    });
    // An argument is optimised before its operator.
    if let Some(error) = failed {
        return Expr::Fails(error);
    }
    match check(&op) {
        Err(error) if !is_constant => Expr::Fails(error),
        _ => Expr::op(op),
    }
}

/// Checks an argument that is constant and not null.
fn check_const(expr: Option<&Expr>, check: impl FnOnce(ValueRef<'_>) -> Result<()>) -> Result<()> {
    match expr.and_then(Expr::as_const) {
        Some(value) if !value.is_nullish() => check(value),
        _ => Ok(()),
    }
}

fn zone_of(value: ValueRef<'_>) -> Result<Option<Zone>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let text = value.as_str().ok_or_else(|| {
        Error::location(
            40517,
            format!(
                "timezone must evaluate to a string, found {}",
                value.ty().alias()
            ),
        )
    })?;
    Zone::parse(text).map(Some)
}

/// Returns the moment of a date, a timestamp or an ObjectId, in milliseconds.
fn moment(value: ValueRef<'_>) -> Option<i64> {
    match value.ty() {
        Type::Date => value.as_date(),
        Type::Timestamp => value
            .as_timestamp()
            .map(|(seconds, _)| i64::from(seconds) * 1000),
        Type::ObjectId => {
            let seconds = u32::from_be_bytes(*value.as_oid()?.first_chunk()?);
            Some(i64::from(seconds as i32) * 1000)
        }
        _ => None,
    }
}

/// Returns the moment of an argument that must be a date.
fn moment_arg(value: ValueRef<'_>, name: &str, field: &str) -> Result<i64> {
    moment(value).ok_or_else(|| {
        Error::location(
            5166307,
            format!(
                "{name} requires '{field}' to be a date, but got {}",
                value.ty().alias()
            ),
        )
    })
}

/// Returns the moment, or `None` for null.
fn moment_or_null(value: ValueRef<'_>) -> Result<Option<i64>> {
    if value.is_nullish() {
        return Ok(None);
    }
    match moment(value) {
        Some(millis) => Ok(Some(millis)),
        None => Err(Error::location(
            16006,
            format!(
                "can't convert from BSON type {} to Date",
                value.ty().alias()
            ),
        )),
    }
}

/// 2021-01-01T00:30:15.123Z, for tests.
#[cfg(test)]
const FRIDAY: bson::DateTime = bson::DateTime::from_millis(1_609_461_015_123);
