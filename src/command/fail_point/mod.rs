//! `configureFailPoint`: makes commands fail on purpose, for tests of drivers and applications.
//!
//! [`FailPoints`] is the state of all fail points in the server. The framework checks it before each command, which costs
//! one load of a flag while nothing is set. [`FailPointMode`] decides how often a fail point strikes. What happens then:
//!
//! - `failCommand`: a [`Fault`]
//! - `failGetMoreAfterCursorCheckout`: a getMore fails, and its cursor ends
//! - `onPrimaryTransactionalWrite`: a statement of a retryable write does not run, or the connection closes behind it
//! - `maxTimeAlwaysTimeOut`, `maxTimeNeverTimeOut`: the time of every command with a limit is over at once, or never

mod fault;
mod labels;
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
    let mode = mode.ok_or_else(|| {
        Error::new(
            Code::IllegalOperation,
            "When setting a failpoint, you must supply a 'mode'",
        )
    })?;
    let count = call.context.fail_points.set(name, mode, data)?;
    reply.put_i64("count", count);
    Ok(Outcome::Reply)
}

#[cfg(test)]
mod tests;
