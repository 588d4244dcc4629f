//! `configureFailPoint`: makes commands fail on purpose, for tests of drivers and applications.
//!
//! There is one fail point, `failCommand`. [`FailPoints`] is its state in the server. The framework checks it before each
//! command, which costs one load of a flag while nothing is set. [`FailPointMode`] decides how often the fail point
//! strikes, and [`Fault`] what happens then.

mod fault;
mod mode;
mod points;

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::auth::Action;
use crate::error::{Code, Error, Result};
use crate::value::{DocBuilder, Type};

pub use fault::Fault;
pub use mode::FailPointMode;
pub use points::FailPoints;

pub(super) const COMMAND: Command = Command::ready(
    "configureFailPoint",
    Access::Admin,
    "Makes commands fail, hang or lose their connection on purpose (with --enable-test-commands).",
    run,
)
.with(Flags::ADMIN_ONLY.and(Flags::SECONDARY))
.needs(Needs::Server(Action::SetParameter));

/// The only fail point that is built.
const FAIL_COMMAND: &str = "failCommand";
/// Other fail points of mongod, which the tests of drivers use.
const UNBUILT: &[&str] = &[
    "failGetMoreAfterCursorCheckout",
    "failReceivedGetmore",
    "maxTimeAlwaysTimeOut",
    "maxTimeNeverTimeOut",
    "onPrimaryTransactionalWrite",
];

fn run(call: &mut Call<'_>, reply: &mut DocBuilder<'_>) -> Result<Outcome> {
    if !call.context.config.enable_test_commands {
        return Err(Error::new(
            Code::CommandNotFound,
            "no such command: 'configureFailPoint' (start the server with --enable-test-commands to have it)",
        ));
    }
    let mut mode = None;
    let mut data = None;
    for arg in call.args().skip(1) {
        match arg.name() {
            "mode" => mode = Some(FailPointMode::parse(arg.value())?),
            "data" => data = arg.doc()?,
            name => return Err(Error::unknown_field("configureFailPoint", name)),
        }
    }
    let name = call.target();
    let name = name
        .as_str()
        .ok_or_else(|| Error::wrong_type("", "configureFailPoint", name.ty(), &[Type::String]))?;
    if UNBUILT.contains(&name) {
        return Err(Error::not_implemented(format_args!("fail point {name}")));
    }
    if name != FAIL_COMMAND {
        return Err(Error::new(
            Code::FailPointSetFailed,
            format!("{name} not found"),
        ));
    }
    let mode = mode.ok_or_else(|| {
        Error::new(
            Code::IllegalOperation,
            "When setting a failpoint, you must supply a 'mode'",
        )
    })?;
    // The data is ignored if the fail point is off.
    let fault = match data {
        Some(data) if mode != FailPointMode::Off => Fault::parse(data)?,
        _ => Fault::default(),
    };
    let count = call.context.fail_points.set(mode, fault);
    reply.put_i64("count", count);
    Ok(Outcome::Reply)
}

#[cfg(test)]
mod tests;
