//! `commitTransaction` and `abortTransaction`.

use super::frame::transaction::{abort, end_cursors};
use super::{Access, Call, Command, Flags, Needs, Outcome};
use crate::engine::write::write_conflict;
use crate::error::{Code, Error, Result};
use crate::session::InTransaction;
use crate::value::DocBuilder;

pub(super) const ABORT: Command = Command::ready(
    "abortTransaction",
    Access::Write,
    "Aborts a transaction.",
    run_abort,
)
.with(FLAGS)
.needs(Needs::Nothing);

pub(super) const COMMIT: Command = Command::ready(
    "commitTransaction",
    Access::Write,
    "Commits a transaction.",
    run_commit,
)
.with(FLAGS)
.needs(Needs::Nothing);

const FLAGS: Flags = Flags::ADMIN_ONLY
    .and(Flags::STABLE)
    .and(Flags::WRITE_CONCERN)
    .and(Flags::TRANSACTION);

fn run_abort(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let transaction = ended(call)?;
    abort(call.context, transaction);
    Ok(Outcome::Reply)
}

fn run_commit(call: &mut Call<'_>, _: &mut DocBuilder<'_>) -> Result<Outcome> {
    let mut transaction = ended(call)?;
    end_cursors(call.context, &transaction);
    match transaction.commit(call.now) {
        Ok(()) => Ok(Outcome::Reply),
        Err(_) => Err(write_conflict()),
    }
}

/// Reads the command and returns the transaction that it ends.
fn ended(call: &mut Call<'_>) -> Result<InTransaction> {
    for arg in call.args().skip(1) {
        match arg.name() {
            "recoveryToken" => {
                arg.doc()?;
            }
            _ => return Err(arg.unknown()),
        }
    }
    let outside = || {
        let message = format!("{} must be run within a transaction", call.command.name);
        Error::new(Code::CommandFailed, message)
    };
    call.transaction.take().ok_or_else(outside)
}
