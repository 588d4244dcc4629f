//! `commitTransaction` and `abortTransaction`: there is never a transaction to end, so they fail with mongod's messages.

use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::error::{Code, Error, Result};
use crate::value::DocBuilder;

pub(super) const ABORT: Command = Command::ready(
    "abortTransaction",
    Access::Write,
    "Aborts a transaction (none can be started).",
    run,
)
.with(FLAGS)
.needs(Needs::Nothing);

pub(super) const COMMIT: Command = Command::ready(
    "commitTransaction",
    Access::Write,
    "Commits a transaction (none can be started).",
    run,
)
.with(FLAGS)
.needs(Needs::Nothing);

const FLAGS: Flags = Flags::ADMIN_ONLY
    .and(Flags::STABLE)
    .and(Flags::WRITE_CONCERN)
    .and(Flags::TRANSACTION);

fn run(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    for arg in call.args().skip(1) {
        match arg.name() {
            "recoveryToken" => {
                arg.doc()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    Err(match call.transaction_number() {
        None => Error::new(
            Code::CommandFailed,
            format!("{} must be run within a transaction", call.command.name),
        ),
        Some(number) => Error::new(
            Code::NoSuchTransaction,
            format!(
                "Given transaction number {number} does not match any in-progress transactions."
            ),
        ),
    })
}
