//! `timeTravel`: moves or stops the server's clock, for tests.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::args::{Arg, to_f64};
use crate::auth::Action;
use crate::clock::Millis;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, Type};

pub(super) const COMMAND: Command = Command::ready(
    "timeTravel",
    Access::Admin,
    "Shows, moves or freezes the server's clock (with --enable-test-commands).",
    run,
)
.with(Flags::SECONDARY)
.needs(Needs::Server(Action::SetParameter));

/// The changes that the client asks for. At most one of `advance`, `to` and `reset` is set; `freeze` may be set with the
/// first two.
#[derive(Default)]
struct TimeTravel {
    advance: Option<i64>,
    to: Option<Millis>,
    reset: bool,
    freeze: Option<bool>,
}

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    if !call.context.config.enable_test_commands {
        return Err(Error::new(
            Code::CommandNotSupported,
            "timeTravel is a test command: start the server with --enable-test-commands to allow it",
        ));
    }
    let travel = TimeTravel::parse(call)?;
    let clock = &call.context.clock;
    // Freezes before moving, so that the clock stops at exactly the requested time.
    if travel.freeze == Some(true) {
        clock.freeze();
    }
    if travel.reset {
        clock.reset();
    }
    if let Some(to) = travel.to {
        clock.set(to);
    }
    if let Some(millis) = travel.advance {
        clock.advance(millis);
    }
    if travel.freeze == Some(false) {
        clock.unfreeze();
    }
    let status = clock.status();
    reply
        .put_date("now", status.now.0)
        .put_bool("frozen", status.frozen)
        .put_i64("offsetMillis", status.offset_millis);
    Ok(Outcome::Reply)
}

// === impl TimeTravel ===

impl TimeTravel {
    fn parse(call: &Call<'_>) -> Result<Self> {
        let mut travel = Self::default();
        for arg in call.args().skip(1) {
            match arg.name() {
                "advanceSeconds" => travel.advance = millis(arg)?,
                "to" => travel.to = date(arg)?,
                "freeze" => travel.freeze = arg.strict_bool()?,
                "reset" => travel.reset = arg.strict_bool()?.unwrap_or(false),
                _ => return Err(arg.unknown()),
            }
        }
        let moves = usize::from(travel.advance.is_some())
            + usize::from(travel.to.is_some())
            + usize::from(travel.reset);
        if moves > 1 {
            return Err(Error::new(
                Code::InvalidOptions,
                "timeTravel takes only one of 'advanceSeconds', 'to' and 'reset'",
            ));
        }
        if travel.reset && travel.freeze.is_some() {
            return Err(Error::new(
                Code::InvalidOptions,
                "timeTravel 'reset' lets time run: it cannot go with 'freeze'",
            ));
        }
        Ok(travel)
    }
}

/// Reads seconds, which may have a fraction, as milliseconds.
fn millis(arg: Arg<'_>) -> Result<Option<i64>> {
    if arg.is_null() {
        return Ok(None);
    }
    let Some(seconds) = to_f64(arg.value()) else {
        return Err(arg.wrong_type(&[Type::Int64, Type::Int32, Type::Decimal, Type::Double]));
    };
    // About a hundred thousand years in either direction. Dates beyond that are not valid.
    if !seconds.is_finite() || seconds.abs() > 3.2e12 {
        return Err(Error::bad_value(format!(
            "timeTravel 'advanceSeconds' is out of range: {seconds}"
        )));
    }
    Ok(Some((seconds * 1000.0).round() as i64))
}

fn date(arg: Arg<'_>) -> Result<Option<Millis>> {
    if arg.is_null() {
        return Ok(None);
    }
    let Some(millis) = arg.value().as_date() else {
        return Err(arg.wrong_type(&[Type::Date]));
    };
    if millis.unsigned_abs() > 8_640_000_000_000_000 {
        return Err(Error::bad_value(format!(
            "timeTravel 'to' is out of range: {millis} milliseconds"
        )));
    }
    Ok(Some(Millis(millis)))
}
